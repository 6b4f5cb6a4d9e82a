#include "ring/node/recovery/block_freezer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/mutant.h"
#include "ring/base/wire.h"
#include "ring/node/node.h"

namespace ring::node {

using recovery::FrozenBytes;

BlockFreezer::BlockFreezer(Node* node) : node_(node) {
  node->control().Handle(ControlType::kFreeze,
                         [this](NodeId from, absl::string_view body, ControlReply reply) {
                           OnFreeze(from, body, std::move(reply));
                         });
  node->control().Handle(ControlType::kThaw,
                         [this](NodeId from, absl::string_view body, ControlReply reply) {
                           OnThaw(from, body, std::move(reply));
                         });
}

coordinator::ShardCoordinator* BlockFreezer::Serving(const recovery::LogName& log) const {
  for (const std::unique_ptr<CoordinatedShard>& one : node_->shards()) {
    if (one->group() == log.group && one->shard() == log.shard && one->serving())
      return one->coordinator();
  }
  return nullptr;
}

// Null: the shard is not served here in the request's epoch. A coordinator that lives through an
// epoch change thaws everything itself; what replaced it has nothing frozen.
memgest::Memgest* BlockFreezer::Find(const recovery::FreezeRequest& request,
                                     coordinator::ShardCoordinator** shard) {
  coordinator::ShardCoordinator* const serving = Serving(request.log);
  if (serving == nullptr || serving->options().epoch != request.epoch) return nullptr;
  *shard = serving;
  return serving->FindMemgest(request.log.memgest);
}

void BlockFreezer::OnFreeze(NodeId from, absl::string_view body, ControlReply reply) {
  const absl::StatusOr<recovery::FreezeRequest> request = recovery::DecodeFreezeRequest(body);
  if (!request.ok()) return reply(request.status());
  if (frozen_.size() + sending_.size() >= kFrozenMax)
    return reply(absl::ResourceExhaustedError("too many blocks are frozen: try again"));
  coordinator::ShardCoordinator* shard = nullptr;
  memgest::Memgest* const memgest = Find(*request, &shard);
  if (shard == nullptr) {
    return reply(absl::UnavailableError(
        absl::StrCat("does not serve the shard in epoch=", request->epoch.value())));
  }
  if (memgest == nullptr || request->block >= memgest->allocator().block_limit()) {
    return reply(absl::NotFoundError(
        absl::StrCat("no block=", request->block, " of memgest=", request->log.memgest.value())));
  }
  memgest->allocator().Freeze(request->block);
  Frozen frozen;
  frozen.id = ++last_id_;
  frozen.reader = from;
  frozen.request = *request;
  frozen.expires_ns = node_->control().now_ns() + kFreezeNs;
  frozen.order = shard->log().next_order();
  frozen.reply = std::move(reply);
  if (Step(frozen, node_->control().now_ns())) frozen_.push_back(std::move(frozen));
}

void BlockFreezer::OnThaw(NodeId from, absl::string_view body, ControlReply reply) {
  ByteReader in(body);
  const auto token = in.Get<std::uint64_t>();
  if (!in.finished()) return reply(absl::InvalidArgumentError("body of a thaw is malformed"));
  for (std::size_t i = 0; i < frozen_.size();) {
    Frozen& frozen = frozen_[i];
    if (frozen.reader != from || frozen.request.token != token) {
      ++i;
      continue;
    }
    End(frozen, absl::AbortedError("thawed"));
    frozen_.erase(frozen_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  reply(std::string());
}

// Nobody looks at its bytes any more, but the device still reads them for a WRITE that waits. Once
// it is thawed, the memory of a free block may be given back.
void BlockFreezer::End(Frozen& frozen, const absl::Status& why) {
  if (frozen.reply != nullptr) frozen.reply(why);
  if (frozen.write.expired()) return Thaw(frozen.request);
  sending_.push_back({frozen.request, std::move(frozen.write)});
}

void BlockFreezer::Thaw(const recovery::FreezeRequest& request) {
  coordinator::ShardCoordinator* shard = nullptr;
  memgest::Memgest* const memgest = Find(request, &shard);
  if (memgest != nullptr) memgest->allocator().Thaw(request.block);
}

// An epoch change ends all freezes. Until the shard serves again it gives no memory back, and this
// sees that it does in the same turn.
void BlockFreezer::ProgressSending() {
  for (std::size_t i = 0; i < sending_.size();) {
    recovery::FreezeRequest& request = sending_[i].request;
    if (sending_[i].write.expired()) {
      Thaw(request);
      sending_.erase(sending_.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    ++i;
    coordinator::ShardCoordinator* const shard = Serving(request.log);
    if (shard == nullptr || shard->options().epoch == request.epoch) continue;
    memgest::Memgest* const memgest = shard->FindMemgest(request.log.memgest);
    if (memgest == nullptr) continue;
    memgest->allocator().Freeze(request.block);
    request.epoch = shard->options().epoch;
  }
}

// False: it is over.
bool BlockFreezer::Step(Frozen& frozen, std::uint64_t now_ns) {
  coordinator::ShardCoordinator* shard = nullptr;
  memgest::Memgest* const memgest = Find(frozen.request, &shard);
  if (memgest == nullptr) {
    End(frozen, shard == nullptr ? absl::AbortedError("the epoch of the shard is over")
                                 : absl::NotFoundError("the memgest was deleted"));
    return false;
  }
  const bool early = frozen.reply == nullptr && Mutant("S2-thaw");
  if (now_ns >= frozen.expires_ns || early) {
    End(frozen, absl::AbortedError("the freeze expired"));
    return false;
  }
  if (frozen.reply == nullptr || frozen.writing) return true;
  const auto block_cells =
      static_cast<std::uint32_t>(memgest->allocator().block_size() / kCacheLine);
  if (shard->HasLargeWrite(frozen.request.log.memgest, frozen.request.block * block_cells,
                           block_cells)) {
    frozen.large_write = true;  // it appends more
    if (frozen.expires_ns - now_ns < kFreezeNs / 2) {
      shard->EndSlowWrites(frozen.request.log.memgest, frozen.request.block * block_cells,
                           block_cells, now_ns);
    }
    return true;
  }
  if (frozen.large_write) {
    frozen.large_write = false;
    frozen.order = shard->log().next_order();
  }
  if (shard->log().commit_front() < frozen.order) return true;
  if (answered_ && node_->control().turn_spent()) return true;
  answered_ = true;
  Answer(frozen, *memgest);
  return true;
}

void BlockFreezer::Answer(Frozen& frozen, memgest::Memgest& memgest) {
  const recovery::FreezeRequest& request = frozen.request;
  const std::uint32_t block_size = memgest.allocator().block_size();
  const std::uint32_t cell = request.block * static_cast<std::uint32_t>(block_size / kCacheLine);
  recovery::FreezeAnswer answer;
  answer.last_touch = memgest.allocator().LastTouch(request.block);
  answer.block_count = memgest.allocator().block_count();
  if (memgest.allocator().state(request.block) != memgest::BlockState::kPresent) {
    answer.bytes = FrozenBytes::kLost;
  } else if (!memgest.heap().Has(cell, static_cast<std::uint32_t>(block_size / kCacheLine))) {
    answer.bytes = FrozenBytes::kZero;
  } else if (request.held) {
    answer.bytes = FrozenBytes::kWritten;
  } else if (frozen.reader == node_->id()) {
    std::memcpy(reinterpret_cast<std::byte*>(request.address), memgest.heap().At(cell), block_size);
    node_->control().Spend(block_size);
  } else {
    const auto write = std::make_shared<bool>(true);
    const absl::Status posted = node_->control().Write(
        frozen.reader, {memgest.heap().At(cell), block_size, memgest.heap().lkey(cell)},
        request.address, request.rkey,
        [this, id = frozen.id, answer, write] { OnWritten(id, answer); });
    if (!posted.ok()) return std::exchange(frozen.reply, nullptr)(posted);
    frozen.writing = true;
    frozen.write = write;
    return;
  }
  std::exchange(frozen.reply, nullptr)(recovery::Encode(answer));
}

absl::StatusOr<const std::byte*> BlockFreezer::Held(NodeId reader, std::uint64_t token,
                                                    const recovery::LogName& log,
                                                    std::uint32_t block) {
  const auto found = std::find_if(frozen_.begin(), frozen_.end(), [&](const Frozen& one) {
    return one.reader == reader && one.request.token == token && one.request.log == log &&
           one.request.block == block;
  });
  coordinator::ShardCoordinator* shard = nullptr;
  memgest::Memgest* const memgest = found == frozen_.end() ? nullptr : Find(found->request, &shard);
  const bool held = memgest != nullptr && found->reply == nullptr &&
                    node_->control().now_ns() < found->expires_ns &&
                    memgest->allocator().state(block) == memgest::BlockState::kPresent;
  if (!held) return absl::AbortedError(absl::StrCat("block=", block, " is not frozen any more"));
  const auto cells = static_cast<std::uint32_t>(memgest->allocator().block_size() / kCacheLine);
  return memgest->heap().Has(block * cells, cells) ? memgest->heap().At(block * cells) : nullptr;
}

void BlockFreezer::OnWritten(std::uint64_t id, const recovery::FreezeAnswer& answer) {
  const auto frozen = std::find_if(frozen_.begin(), frozen_.end(),
                                   [id](const Frozen& one) { return one.id == id; });
  if (frozen == frozen_.end()) return;  // thawed, and told so
  coordinator::ShardCoordinator* shard = nullptr;
  if (Find(frozen->request, &shard) == nullptr) return;  // Step says which of the two
  frozen->writing = false;
  std::exchange(frozen->reply, nullptr)(recovery::Encode(answer));
}

void BlockFreezer::Progress(std::uint64_t now_ns) {
  answered_ = false;
  for (std::size_t i = 0; i < frozen_.size();) {
    if (Step(frozen_[i], now_ns)) {
      ++i;
    } else {
      frozen_.erase(frozen_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  ProgressSending();
}

}  // namespace ring::node
