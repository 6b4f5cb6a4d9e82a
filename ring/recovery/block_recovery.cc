#include "ring/recovery/block_recovery.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "ring/base/crc32c.h"
#include "ring/base/log.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"

namespace ring::recovery {
namespace {

using memgest::BlockState;

constexpr std::uint64_t kRetryNs = 2'000'000;
constexpr int kRetryDoublings = 6;

}  // namespace

void BlockRecovery::Add(MemgestId id, std::uint64_t index) {
  logs_[id].index = index;
  total_ += actions_->Find(id)->allocator().lost_count();
}

void BlockRecovery::EndEpoch() {
  epoch_ = Epoch();
  for (auto& [key, block] : blocks_) {
    memgest::Memgest* const memgest = block.asked ? actions_->Find(key.first) : nullptr;
    if (memgest != nullptr) memgest->allocator().SetLost(key.second);
  }
  blocks_.clear();
  asked_count_ = 0;
}

void BlockRecovery::SetSources(Epoch epoch, const cluster::NormalRecord& normal, int s) {
  if (epoch_ != epoch) EndEpoch();
  epoch_ = epoch;
  for (auto& [id, log] : logs_) {
    log.sources.clear();
    const cluster::MemgestNormal* const set = normal.Find(id);
    for (std::size_t role = static_cast<std::size_t>(s);
         set != nullptr && role < normal.holders.size(); ++role) {
      if ((set->complete >> role & 1) != 0) log.sources.push_back(normal.holders[role].node);
    }
    // Who counts from some extent on may be the only one who has a block behind it (S6).
    for (std::size_t i = 0; set != nullptr && i < set->active_from.size(); ++i) {
      log.sources.push_back(normal.holders[set->active_from[i].role.value()].node);
    }
  }
}

void BlockRecovery::Want(MemgestId memgest, std::uint32_t number) {
  wanted_.insert({memgest, number});
  blocks_[{memgest, number}].told = false;
}

bool BlockRecovery::CanBring(MemgestId memgest, std::uint32_t number) const {
  const auto log = logs_.find(memgest);
  if (log == logs_.end() || log->second.sources.empty()) return false;
  const auto block = blocks_.find({memgest, number});
  return block == blocks_.end() || block->second.failures < kFailuresUntilDelayed;
}

bool BlockRecovery::gone(MemgestId memgest, std::uint32_t number) const {
  const auto block = blocks_.find({memgest, number});
  return block != blocks_.end() && block->second.gone;
}

std::uint64_t BlockRecovery::blocks_left() const {
  std::uint64_t left = 0;
  for (const auto& [id, log] : logs_) {
    const memgest::Memgest* const memgest = actions_->Find(id);
    if (memgest != nullptr) left += memgest->allocator().lost_count();
  }
  return left;
}

void BlockRecovery::Step(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  if (epoch_ == Epoch()) return;
  const std::vector<Key> wanted(wanted_.begin(), wanted_.end());  // actions may change it
  for (const Key& key : wanted) {
    if (asked_count_ >= kUrgentMax) return;
    Block& block = blocks_[key];
    if (Due(block)) Begin(key, block);
  }
  while (asked_count_ < kBackgroundMax && pace_->Ready(now_ns) && BeginNext()) {
  }
}

// The next Lost block that nobody asked for yet, or whose time has come again.
bool BlockRecovery::BeginNext() {
  for (auto& [id, log] : logs_) {
    memgest::Memgest* const memgest = actions_->Find(id);
    if (memgest == nullptr || log.sources.empty()) continue;
    const std::uint32_t lost_count = memgest->allocator().lost_count();
    for (std::uint32_t looked = 0; looked < std::min(lost_count, kLooksPerStep); ++looked) {
      std::uint32_t number = memgest->allocator().NextLost(log.walk);
      if (number == memgest::BlockSet::kNone) number = memgest->allocator().NextLost(0);
      log.walk = number + 1;
      Block& block = blocks_[{id, number}];
      if (!Due(block)) continue;
      Begin({id, number}, block);
      return true;
    }
  }
  return false;
}

void BlockRecovery::Begin(const Key& key, Block& block) {
  memgest::Memgest* const memgest = actions_->Find(key.first);
  const Log& log = logs_[key.first];
  if (memgest == nullptr || memgest->allocator().state(key.second) == BlockState::kPresent) {
    wanted_.erase(key);
    return;
  }
  if (log.sources.empty()) {
    return Fail(key, block, absl::UnavailableError("no parity has all of it"));
  }
  if (memgest->allocator().state(key.second) == BlockState::kLost)
    memgest->allocator().SetDecoding(key.second);
  block.asked = true;
  ++asked_count_;
  pace_->Take(memgest->allocator().block_size());
  DecodeRequest request;
  request.log = {group_, shard_, key.first};
  request.epoch = epoch_;
  request.block = key.second;
  request.index = log.index;
  request.urgent = wanted_.contains(key);
  calls_[++last_call_] = {key, epoch_};
  actions_->Ask(last_call_, log.sources[block.source % log.sources.size()], request);
}

void BlockRecovery::Fail(const Key& key, Block& block, const absl::Status& why) {
  ++block.failures;
  ++block.source;
  block.retry_ns = now_ns_ + (kRetryNs << std::min(block.failures - 1, kRetryDoublings));
  if (absl::IsDataLoss(why)) {
    block.gone = true;
    RING_LOG(ERROR) << "block lost group=" << group_.value() << " shard=" << shard_.value()
                    << " memgest=" << key.first.value() << " block=" << key.second << ": "
                    << why.ToString();
    if (wanted_.erase(key) > 0) actions_->OnGone(key.first, key.second);
    return;
  }
  if (!wanted_.contains(key) || block.told || block.failures < kFailuresUntilDelayed) return;
  block.told = true;
  actions_->OnDelayed(key.first, key.second);
}

void BlockRecovery::OnBlock(std::uint64_t number, const absl::StatusOr<std::string>& body) {
  const auto found = calls_.find(number);
  if (found == calls_.end()) return;
  const Call call = found->second;
  calls_.erase(found);
  memgest::Memgest* const memgest = actions_->Find(call.key.first);
  if (memgest == nullptr) return;
  // S5: of an epoch that is over; the block may have come since, and been written.
  const bool decoding = memgest->allocator().state(call.key.second) == BlockState::kDecoding;
  if ((call.epoch != epoch_ || !decoding) && !Mutant("S5")) return;
  Block& block = blocks_[call.key];
  if (block.asked) --asked_count_;
  block.asked = false;
  const absl::StatusOr<DecodeAnswer> answer =
      body.ok() ? DecodeDecodeAnswer(*body) : absl::StatusOr<DecodeAnswer>(body.status());
  const absl::Status status =
      answer.ok() ? Install(call.key, block, *answer) : absl::Status(answer.status());
  if (status.ok()) {
    blocks_.erase(call.key);
    wanted_.erase(call.key);
    actions_->OnPresent(call.key.first, call.key.second);
    return;
  }
  if (decoding) memgest->allocator().SetLost(call.key.second);
  Fail(call.key, block, status);
}

absl::Status BlockRecovery::Install(const Key& key, Block& block, const DecodeAnswer& answer) {
  memgest::Memgest& memgest = *actions_->Find(key.first);
  memgest::SlotAllocator& allocator = memgest.allocator();
  const std::size_t size = allocator.block_size();
  const Log& log = logs_[key.first];
  if ((!answer.bytes.empty() && answer.bytes.size() != size) || answer.last_touch > log.index) {
    return absl::InvalidArgumentError(absl::StrCat("answer of size=", answer.bytes.size(),
                                                   " last_touch=", answer.last_touch,
                                                   " index=", log.index));
  }
  const auto cells = static_cast<std::uint32_t>(size / memgest::kCellSize);
  std::byte* const place = memgest.heap().At(key.second * cells);
  if (answer.bytes.empty()) {
    std::memset(place, 0, size);  // an answer that was wrong may have been here
  } else {
    std::memcpy(place, answer.bytes.data(), size);
  }
  const std::size_t wrong = Mutant("S12") ? 0 : WrongValues(memgest, key.second);
  if (wrong > 0) {
    const std::string what =
        absl::StrCat("decoded block does not fit its checksums group=", group_.value(),
                     " shard=", shard_.value(), " memgest=", key.first.value(),
                     " block=", key.second, " values=", wrong);
    if (++block.wrong < log.sources.size()) return absl::AbortedError(what);
    RING_LOG(ERROR) << what << ", from every parity";
  }
  if (allocator.state(key.second) == BlockState::kDecoding)
    allocator.SetPresent(key.second, answer.last_touch);
  return absl::OkStatus();
}

// A value of several blocks is checked when the last of them is here.
std::size_t BlockRecovery::WrongValues(const memgest::Memgest& memgest, std::uint32_t block) const {
  std::size_t wrong = 0;
  memgest.allocator().ForEachLine(block, [&](std::uint32_t number) {
    const memgest::MetadataLine& line = lines_->line(number);
    if (line.version == 0) return;
    wrong += Crc32c(memgest.heap().At(line.offset_cells), line.value_length) != line.value_crc;
  });
  return wrong;
}

}  // namespace ring::recovery
