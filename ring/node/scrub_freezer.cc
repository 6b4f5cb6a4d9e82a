#include "ring/node/scrub_freezer.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/node/node.h"

namespace ring::node {

ScrubFreezer::ScrubFreezer(Node* node) : node_(node) {
  node->control().Handle(ControlType::kScrubFreeze,
                         [this](NodeId from, absl::string_view body, ControlReply reply) {
                           OnFreeze(from, body, std::move(reply));
                         });
  node->control().Handle(ControlType::kScrubThaw,
                         [this](NodeId from, absl::string_view body, ControlReply reply) {
                           OnThaw(from, body, std::move(reply));
                         });
}

memgest::Memgest* ScrubFreezer::Find(const ScrubPlace& place,
                                     coordinator::ShardCoordinator** shard) {
  for (const std::unique_ptr<CoordinatedShard>& one : node_->shards()) {
    if (one->group() != place.group || one->shard() != place.shard || !one->serving()) continue;
    *shard = one->coordinator();
    return one->coordinator()->FindMemgest(place.memgest);
  }
  return nullptr;
}

void ScrubFreezer::OnFreeze(NodeId from, absl::string_view body, ControlReply reply) {
  const absl::StatusOr<ScrubFreeze> freeze = DecodeScrubFreeze(body);
  if (!freeze.ok()) return reply(freeze.status());
  if (frozen_.size() >= kFrozenMax)
    return reply(absl::ResourceExhaustedError("too many blocks are frozen: try again"));
  coordinator::ShardCoordinator* shard = nullptr;
  memgest::Memgest* const memgest = Find(freeze->place, &shard);
  if (shard == nullptr) return reply(absl::UnavailableError("does not serve the shard"));
  if (memgest == nullptr || freeze->block >= memgest->allocator().block_limit())
    return reply(absl::NotFoundError(
        absl::StrCat("no block=", freeze->block, " of memgest=", freeze->place.memgest.value())));
  memgest->allocator().Freeze(freeze->block);
  Frozen frozen;
  frozen.reader = from;
  frozen.freeze = *freeze;
  frozen.expires_ns = node_->control().now_ns() + kFreezeNs;
  frozen.order = shard->log().next_order();
  frozen.reply = std::move(reply);
  if (Step(frozen, node_->control().now_ns())) frozen_.push_back(std::move(frozen));
}

void ScrubFreezer::OnThaw(NodeId from, absl::string_view body, ControlReply reply) {
  const absl::StatusOr<std::uint64_t> token = DecodeScrubNumber(body);
  if (!token.ok()) return reply(token.status());
  for (std::size_t i = 0; i < frozen_.size();) {
    Frozen& frozen = frozen_[i];
    if (frozen.reader != from || frozen.freeze.token != *token) {
      ++i;
      continue;
    }
    Thaw(frozen);
    if (frozen.reply != nullptr) frozen.reply(absl::AbortedError("thawed"));
    frozen_.erase(frozen_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  reply(std::string());
}

void ScrubFreezer::Thaw(const Frozen& frozen) {
  coordinator::ShardCoordinator* shard = nullptr;
  memgest::Memgest* const memgest = Find(frozen.freeze.place, &shard);
  if (memgest != nullptr) memgest->allocator().Thaw(frozen.freeze.block);
}

// False: it is over.
bool ScrubFreezer::Step(Frozen& frozen, std::uint64_t now_ns) {
  coordinator::ShardCoordinator* shard = nullptr;
  memgest::Memgest* const memgest = Find(frozen.freeze.place, &shard);
  if (memgest == nullptr) {
    if (frozen.reply != nullptr) frozen.reply(absl::NotFoundError("the memgest was deleted"));
    return false;
  }
  if (now_ns >= frozen.expires_ns) {
    memgest->allocator().Thaw(frozen.freeze.block);
    if (frozen.reply != nullptr) frozen.reply(absl::AbortedError("the freeze expired"));
    return false;
  }
  if (frozen.reply == nullptr) return true;
  const auto block_cells =
      static_cast<std::uint32_t>(memgest->allocator().block_size() / kCacheLine);
  if (shard->HasLargeWrite(frozen.freeze.place.memgest, frozen.freeze.block * block_cells,
                           block_cells)) {
    frozen.large_write = true;  // it appends more
    return true;
  }
  if (frozen.large_write) {
    frozen.large_write = false;
    frozen.order = shard->log().next_order();
  }
  if (shard->log().commit_front() < frozen.order) return true;
  Answer(frozen, *memgest);
  return true;
}

void ScrubFreezer::Answer(Frozen& frozen, memgest::Memgest& memgest) {
  const ScrubFreeze& freeze = frozen.freeze;
  const std::uint32_t block_size = memgest.allocator().block_size();
  const std::uint32_t cell = freeze.block * static_cast<std::uint32_t>(block_size / kCacheLine);
  ScrubFrozen answer;
  answer.last_touch = memgest.allocator().LastTouch(freeze.block);
  answer.block_count = memgest.allocator().block_count();
  answer.has_bytes = memgest.heap().Has(cell, static_cast<std::uint32_t>(block_size / kCacheLine));
  if (answer.has_bytes) {
    std::byte* const bytes = memgest.heap().At(cell);
    if (frozen.reader == node_->id()) {
      std::memcpy(reinterpret_cast<std::byte*>(freeze.address), bytes, block_size);
    } else {
      // In front of the answer on the same queue pair: when that is there, the bytes are.
      const absl::Status written =
          node_->control().Write(frozen.reader, {bytes, block_size, memgest.heap().lkey(cell)},
                                 freeze.address, freeze.rkey);
      if (!written.ok()) return std::exchange(frozen.reply, nullptr)(written);
    }
  }
  std::exchange(frozen.reply, nullptr)(EncodeScrub(answer));
}

void ScrubFreezer::Progress(std::uint64_t now_ns) {
  for (std::size_t i = 0; i < frozen_.size();) {
    if (Step(frozen_[i], now_ns)) {
      ++i;
    } else {
      frozen_.erase(frozen_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

}  // namespace ring::node
