#include "ring/recovery/block_recovery.h"

#include <algorithm>
#include <cstring>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "ring/base/crc32c.h"
#include "ring/base/log.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"
#include "ring/base/zero.h"

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
    memgest::Memgest* const memgest =
        block.asked || block.here ? actions_->Find(key.first) : nullptr;
    if (memgest != nullptr) memgest->allocator().SetLost(key.second);
  }
  blocks_.clear();
  here_.clear();
  asked_count_ = 0;
}

bool BlockRecovery::SetSources(Epoch epoch, const cluster::NormalRecord& normal, int s) {
  const bool begins = epoch_ != epoch;
  if (begins) EndEpoch();
  epoch_ = epoch;
  for (auto& [id, log] : logs_) {
    log.sources.clear();
    const cluster::MemgestNormal* const set = normal.Find(id);
    log.named = set != nullptr;
    for (std::size_t role = static_cast<std::size_t>(s);
         set != nullptr && role < normal.holders.size(); ++role) {
      if (Has(set->complete, role)) log.sources.push_back(normal.holders[role].node);
    }
    // Who counts from some extent on may be the only one who has a block behind it (S6).
    for (std::size_t i = 0; set != nullptr && i < set->active_from.size(); ++i) {
      log.sources.push_back(normal.holders[set->active_from[i].role.value()].node);
    }
    const memgest::Memgest* const memgest = actions_->Find(id);
    if (begins && log.named && log.sources.empty() && memgest != nullptr &&
        memgest->allocator().lost_count() > 0)
      RING_LOG(ERROR) << "blocks lost, nobody has any group=" << group_.value()
                      << " shard=" << shard_.value() << " memgest=" << id.value()
                      << " blocks=" << memgest->allocator().lost_count();
  }
  return begins;
}

void BlockRecovery::Want(MemgestId memgest, std::uint32_t number) {
  wanted_.insert({memgest, number});
  blocks_[{memgest, number}].told = false;
}

bool BlockRecovery::CanBring(MemgestId memgest, std::uint32_t number) const {
  const auto log = logs_.find(memgest);
  if (log == logs_.end() || !log->second.named) return false;
  const auto block = blocks_.find({memgest, number});
  return block == blocks_.end() || block->second.failures < kFailuresUntilDelayed;
}

bool BlockRecovery::HasSource(MemgestId memgest) const {
  const auto log = logs_.find(memgest);
  return log != logs_.end() && !log->second.sources.empty();
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
  LookAtOneThatWaits();
  const std::vector<Key> wanted(wanted_.begin(), wanted_.end());  // actions may change it
  for (const Key& key : wanted) {
    if (asked_count_ >= kUrgentMax) return;
    Block& block = blocks_[key];
    if (Due(block)) Begin(key, block);
  }
  if (blocks_left() == 0) return;
  std::uint32_t begun = 0;  // what is gone at once takes no place among those asked for
  while (asked_count_ < kBackgroundMax && begun < kLooksPerStep && pace_->Ready(now_ns) &&
         BeginNext())
    ++begun;
}

// The next Lost block that nobody asked for yet, or whose time has come again.
bool BlockRecovery::BeginNext() {
  for (auto& [id, log] : logs_) {
    memgest::Memgest* const memgest = actions_->Find(id);
    if (memgest == nullptr || !log.named) continue;
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
    return log.named ? Lose(key, block)
                     : Fail({key, epoch_, NodeId(), block.without}, block,
                            absl::UnavailableError("its record does not name it"));
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
  if (block.without != 0) request.left_out = memgest->SourceMask(key.second, block.without - 1);
  const NodeId parity = SourceFor(block, log);
  calls_[++last_call_] = {key, epoch_, parity, block.without};
  actions_->Ask(last_call_, parity, request);
}

NodeId BlockRecovery::SourceFor(const Block& block, const Log& log) const {
  const bool one = block.only.has_value() && absl::c_linear_search(log.sources, *block.only);
  return one ? *block.only : log.sources[block.source % log.sources.size()];
}

void BlockRecovery::Fail(const Call& call, Block& block, const absl::Status& why) {
  const Key& key = call.key;
  ++block.failures;
  ++block.source;
  block.retry_ns = now_ns_ + (kRetryNs << std::min(block.failures - 1, kRetryDoublings));
  if (call.without != block.without) return;  // it is asked for in another way by now
  if (block.without != 0 && (absl::IsDataLoss(why) || block.failures >= kFailuresUntilDelayed)) {
    const std::vector<Key> value = ValueOf(key);
    for (const Key& one : value) blocks_[one].refuted = call.without;
    return AskAnother(value);
  }
  if (absl::IsDataLoss(why)) {
    RING_LOG(ERROR) << "block lost group=" << group_.value() << " shard=" << shard_.value()
                    << " memgest=" << key.first.value() << " block=" << key.second << ": "
                    << why.ToString();
    return Lose(key, block);
  }
  if (block.only.has_value() && absl::IsFailedPrecondition(why) &&
      block.failures >= kFailuresUntilDelayed) {
    // It is being rebuilt, and that may wait for this very block.
    const std::vector<Key> value = ValueOf(key);
    const NodeId without = *block.only;
    for (const Key& one : value) blocks_[one].wrong.push_back(without);
    return AskAnother(value);
  }
  if (!wanted_.contains(key) || block.told || block.failures < kFailuresUntilDelayed) return;
  block.told = true;
  actions_->OnDelayed(key.first, key.second);
}

void BlockRecovery::Lose(const Key& key, Block& block) {
  block.gone = true;
  wanted_.erase(key);
  actions_->OnGone(key.first, key.second);
}

void BlockRecovery::OnBlock(std::uint64_t number, const absl::StatusOr<std::string>& body) {
  const auto found = calls_.find(number);
  if (found == calls_.end()) return;
  const Call call = found->second;
  calls_.erase(found);
  memgest::Memgest* const memgest = actions_->Find(call.key.first);
  if (memgest == nullptr) {  // deleted: its place among those that are asked for is another's
    const auto deleted = blocks_.find(call.key);
    if (call.epoch != epoch_ || deleted == blocks_.end()) return;
    if (deleted->second.asked) --asked_count_;
    blocks_.erase(deleted);
    here_.erase(call.key);
    wanted_.erase(call.key);
    return;
  }
  // S5: of an epoch that is over; the block may have come since, and been written.
  const bool decoding = memgest->allocator().state(call.key.second) == BlockState::kDecoding;
  if ((call.epoch != epoch_ || !decoding) && !Mutant("S5")) return;
  Block& block = blocks_[call.key];
  if (block.asked) --asked_count_;
  block.asked = false;
  const absl::StatusOr<DecodeAnswer> answer =
      body.ok() ? DecodeDecodeAnswer(*body) : absl::StatusOr<DecodeAnswer>(body.status());
  const absl::Status status =
      answer.ok() ? Install(call.key, *answer) : absl::Status(answer.status());
  if (status.ok()) {
    block.here = true;
    block.from = call.parity;
    block.from_without = call.without;
    block.last_touch = answer->last_touch;
    block.zero = answer->bytes.empty();
    here_.insert(call.key);
    return Settle(call.key);
  }
  if (decoding) memgest->allocator().SetLost(call.key.second);
  Fail(call, block, status);
}

absl::Status BlockRecovery::Install(const Key& key, const DecodeAnswer& answer) {
  memgest::Memgest& memgest = *actions_->Find(key.first);
  memgest::SlotAllocator& allocator = memgest.allocator();
  const std::size_t size = allocator.block_size();
  const Log& log = logs_[key.first];
  if ((!answer.bytes.empty() && answer.bytes.size() != size) || answer.last_touch > log.index) {
    return absl::InvalidArgumentError(absl::StrCat("answer of size=", answer.bytes.size(),
                                                   " last_touch=", answer.last_touch,
                                                   " index=", log.index));
  }
  // What is zero needs no memory, unless something was given out of it.
  const auto cells = static_cast<std::uint32_t>(size / memgest::kCellSize);
  if (!answer.bytes.empty()) RING_RETURN_IF_ERROR(memgest.heap().Ensure(key.second * cells, cells));
  if (memgest.heap().Has(key.second * cells, cells)) Place(key, answer.bytes);
  return absl::OkStatus();
}

// A version that an answer before had right, and this one has not, stays: no other may have it.
void BlockRecovery::Place(const Key& key, absl::string_view bytes) {
  struct Right {
    std::byte* place;
    std::string value;
    std::uint32_t crc;
  };
  memgest::Memgest& memgest = *actions_->Find(key.first);
  const std::size_t size = memgest.allocator().block_size();
  const auto cells = static_cast<std::uint32_t>(size / memgest::kCellSize);
  std::byte* const place = memgest.heap().At(key.second * cells);
  std::vector<Right> right;
  const bool again = !blocks_[key].wrong.empty();
  if (again) {
    memgest.allocator().ForEachLine(key.second, [&](std::uint32_t number) {
      const memgest::MetadataLine& line = lines_->line(number);
      std::byte* const value = memgest.heap().At(line.offset_cells);
      if (line.version == 0 || Crc32c(value, line.value_length) != line.value_crc) return;
      right.push_back({value, std::string(reinterpret_cast<const char*>(value), line.value_length),
                       line.value_crc});
    });
  }
  if (bytes.empty()) {
    // An answer that was wrong may have been here. Pages that are zero stay nobody's.
    constexpr std::size_t kPage = memgest::HeapSpace::kPageCells * memgest::kCellSize;
    for (std::byte* page = place; page < place + size; page += kPage)
      if (!IsZero(page, kPage)) std::memset(page, 0, kPage);
  } else {
    std::memcpy(place, bytes.data(), size);
  }
  for (const Right& one : right) {
    if (Crc32c(one.place, one.value.size()) != one.crc)
      std::memcpy(one.place, one.value.data(), one.value.size());
  }
}

// The blocks whose checksums are looked at together: those of its value that are not Present, or
// just this one.
std::vector<BlockRecovery::Key> BlockRecovery::ValueOf(const Key& key) {
  const memgest::SlotAllocator& allocator = actions_->Find(key.first)->allocator();
  std::vector<Key> value;
  for (const std::uint32_t number : actions_->BlocksOfValue(key.first, key.second)) {
    if (allocator.state(number) != BlockState::kPresent) value.emplace_back(key.first, number);
  }
  if (value.empty()) value.push_back(key);
  return value;
}

// The block came: is its value here, and right? If another of its blocks is gone, this one waits
// for the next epoch, so that the value is whole or nothing.
void BlockRecovery::Settle(const Key& key) {
  const std::vector<Key> value = ValueOf(key);
  // Backwards: mostly the last comes last.
  for (auto one = value.rbegin(); one != value.rend(); ++one) {
    const auto block = blocks_.find(*one);
    if (block == blocks_.end() || !block->second.here) return;
  }
  const bool fits = SlotsFit(*actions_->Find(key.first), key.second) &&
                    actions_->ValueFits(key.first, key.second);
  if (fits) TellWhatWasLeftOut(value);
  if (fits || Mutant("S12")) return Release(value);
  Refute(value);
}

// A scrub names the rows that differ; which block of this one does was found out here.
void BlockRecovery::TellWhatWasLeftOut(const std::vector<Key>& value) {
  const Key& key = value.front();
  const memgest::Memgest& memgest = *actions_->Find(key.first);
  const std::uint32_t without = blocks_[key].from_without;
  if (without == 0 || memgest.SourceMask(key.second, without - 1) == 0) return;
  RING_LOG(ERROR) << "a block does not fit its row, decoded without it group=" << group_.value()
                  << " memgest=" << key.first.value() << " "
                  << memgest.SourceName(key.second, without - 1)
                  << ": decoded shard=" << shard_.value() << " block=" << key.second
                  << " blocks=" << value.size();
}

// What is here does not fit. Which of a value's blocks is wrong cannot be told: a parity is when
// all of them are its, and a decode without some source when all of them are of such.
void BlockRecovery::Refute(const std::vector<Key>& value) {
  const Block front = blocks_[value.front()];
  const bool one_source = absl::c_all_of(value, [&](const Key& key) {
    const Block& block = blocks_[key];
    return block.from_without == front.without && (front.without != 0 || block.from == front.from);
  });
  if (one_source) {
    for (const Key& key : value) {
      if (front.without == 0) {
        blocks_[key].wrong.push_back(front.from);
      } else {
        blocks_[key].refuted = front.without;
      }
    }
  }
  AskAnother(value);
}

// The source to leave out next, of all parities together: what each by itself gives is wrong. 0:
// there is none. A single block has no use of being decoded without its own column.
std::uint32_t BlockRecovery::NextWithout(const std::vector<Key>& value) {
  const Key& first = value.front();
  const memgest::Memgest& memgest = *actions_->Find(first.first);
  for (std::uint32_t number = blocks_[first].refuted + 1; number <= memgest.source_count();
       ++number) {
    if (value.size() > 1 || memgest.SourceMask(first.second, number - 1) != 0) return number;
  }
  return 0;
}

// All blocks of the value, of a parity that was not refuted, or without a source that was not.
void BlockRecovery::AskAnother(const std::vector<Key>& value) {
  const Key& first = value.front();
  const std::vector<NodeId>& wrong = blocks_[first].wrong;
  const std::vector<NodeId>& sources = logs_[first.first].sources;
  const auto next = absl::c_find_if(
      sources, [&](NodeId source) { return !absl::c_linear_search(wrong, source); });
  const bool any = next != sources.end();
  const std::uint32_t without = any ? 0 : NextWithout(value);
  if (!any && without == 0) {
    RING_LOG(ERROR) << "decoded values do not fit their checksums, whatever is left out group="
                    << group_.value() << " shard=" << shard_.value()
                    << " memgest=" << first.first.value() << " block=" << first.second
                    << " blocks=" << value.size();
    return Release(value);
  }
  memgest::SlotAllocator& allocator = actions_->Find(first.first)->allocator();
  for (const Key& key : value) {
    Block& block = blocks_[key];
    block.only = any ? std::optional<NodeId>(*next) : std::nullopt;
    block.without = without;
    block.failures = 0;
    block.retry_ns = now_ns_;
    const bool same = block.from_without == without && (!any || block.from == *next);
    if (!block.here || same) continue;
    block.here = false;
    here_.erase(key);
    allocator.SetLost(key.second);
  }
}

// The bytes that are in place count from now on.
void BlockRecovery::Release(const std::vector<Key>& value) {
  for (const Key& key : value) {
    memgest::SlotAllocator& allocator = actions_->Find(key.first)->allocator();
    if (allocator.state(key.second) == BlockState::kLost) allocator.SetDecoding(key.second);
    if (allocator.state(key.second) == BlockState::kDecoding)
      allocator.SetPresent(key.second, blocks_[key].last_touch, blocks_[key].zero);
    if (blocks_[key].asked) --asked_count_;
    blocks_.erase(key);
    here_.erase(key);
    wanted_.erase(key);
  }
  for (const Key& key : value) actions_->OnPresent(key.first, key.second);
}

// Its value may have been deleted since: nobody asks for the other blocks of it as one then.
void BlockRecovery::LookAtOneThatWaits() {
  if (here_.empty() || now_ns_ < look_ns_) return;
  look_ns_ = now_ns_ + kLookNs;
  auto next = here_.upper_bound(look_);
  if (next == here_.end()) next = here_.begin();
  look_ = *next;
  if (actions_->Find(look_.first) == nullptr) {
    here_.erase(next);
    return;
  }
  Settle(look_);
}

bool BlockRecovery::SlotsFit(const memgest::Memgest& memgest, std::uint32_t block) const {
  bool fit = true;
  memgest.allocator().ForEachLine(block, [&](std::uint32_t number) {
    const memgest::MetadataLine& line = lines_->line(number);
    if (!fit || line.version == 0) return;
    fit = Crc32c(memgest.heap().At(line.offset_cells), line.value_length) == line.value_crc;
  });
  return fit;
}

}  // namespace ring::recovery
