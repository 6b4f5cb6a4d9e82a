#include "ring/node/recovery/value_fetch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/crc32c.h"
#include "ring/base/log.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"
#include "ring/coordinator/shard.h"
#include "ring/node/recovery/member_values.h"
#include "ring/node/recovery/takeover.h"

namespace ring::node {
namespace {
constexpr std::uint64_t kRetryNs = 2'000'000;
// What so many ask of one source at once fits between the two, and what it fetches as a member, too
// (F11); of more, some have to wait.
static_assert(kTakeoversMax * ValueFetch::kAskedMax + MemberValues::kAskedMax <=
              ControlLink::kOutgoingBytesMax);
static_assert(kTakeoversMax * ValueFetch::kUnderWayMax + MemberValues::kFetchesMax <=
              ControlLink::kOutgoingCountMax);

// Whether anybody can want it yet: the version has not come, and does not go either.
bool AwaitsValue(const memgest::LineTable& lines, std::uint32_t line, Version version) {
  return lines.Has(line) && lines.line(line).version == version.bits() &&
         (lines.line(line).flags & (memgest::kAbsent | memgest::kCollecting)) == memgest::kAbsent;
}
}  // namespace

ValueFetch::ValueFetch(Send send, Pace* pace, GroupId group, ShardId shard,
                       std::function<void()> on_value)
    : send_(std::move(send)),
      pace_(pace),
      group_(group),
      shard_id_(shard),
      on_value_(std::move(on_value)),
      alive_(std::make_shared<bool>(true)) {}

ValueFetch::~ValueFetch() = default;

void ValueFetch::Attach(coordinator::ShardCoordinator* shard) {
  shard_ = shard;
  for (const std::unique_ptr<memgest::Memgest>& memgest : shard->memgests()) {
    if (memgest != nullptr) adopted_[memgest->descriptor().id] = memgest->next_index() - 1;
  }
}

void ValueFetch::SetSources(Epoch epoch, const cluster::NormalRecord& normal) {
  const bool begins = epoch != epoch_;
  epoch_ = epoch;
  normal_ = normal;
  std::vector<std::uint32_t> started;
  for (auto& [line, fetch] : fetches_) {
    fetch.refusals.clear();
    if (begins) fetch.retry_ns = 0;
    if (begins && fetch.started) started.push_back(line);
  }
  // What answers to the old epoch is nobody's.
  std::sort(started.begin(), started.end());  // a hash table's order is no one's business
  for (const std::uint32_t line : started) PutBack(line, fetches_[line]);
  shard_->RetryLost([this](std::uint32_t line) {
    const MemgestId memgest(shard_->lines().line(line).memgest);
    return !shard_->FindMemgest(memgest)->coded() && !SourcesOf(memgest).empty();
  });
  FinishLost();
  walk_line_ = 0;
  walked_ = false;
}

bool ValueFetch::AnyComplete(const cluster::MemgestNormal& set) const {
  return (set.complete & ~RoleBit(Role(shard_id_.value()))) != 0;
}

std::vector<NodeId> ValueFetch::SourcesOf(MemgestId memgest) const {
  std::vector<NodeId> sources;
  const cluster::MemgestNormal* const set = normal_.Find(memgest);
  if (set == nullptr) return sources;
  const RoleMask asked = AnyComplete(*set) ? set->complete : set->active;
  for (std::size_t role = 0; role < normal_.holders.size(); ++role) {
    if (Has(asked, role) && role != shard_id_.value())
      sources.push_back(normal_.holders[role].node);
  }
  return sources;
}

bool ValueFetch::NobodyHas(MemgestId memgest) const {
  return normal_.Find(memgest) != nullptr && SourcesOf(memgest).empty();
}

bool ValueFetch::CanBring(std::uint32_t, MemgestId memgest) const {
  return normal_.Find(memgest) != nullptr;
}

void ValueFetch::Want(std::uint32_t line, Version version) {
  if (NobodyHas(MemgestId(shard_->lines().line(line).memgest)))
    return shard_->OnValue(line, version, false);
  const auto [found, is_new] = fetches_.try_emplace(line);
  Fetch& fetch = found->second;
  if (!is_new && fetch.version == version) return;  // the background was first
  const bool waits = !is_new && !fetch.started;
  Release(fetch);
  wanted_ -= recovery::ValueAnswerMax(fetch.length);
  fetch = Fetch();
  fetch.version = version;
  fetch.memgest = MemgestId(shard_->lines().line(line).memgest);
  fetch.length = shard_->lines().line(line).value_length;
  wanted_ += recovery::ValueAnswerMax(fetch.length);
  pace_->Take(fetch.length);
  if (!waits) waiting_.push_back(line);
  StartNext();
}

void ValueFetch::FinishLost() {
  const auto lost = std::stable_partition(
      waiting_.begin(), waiting_.end(),
      [this](std::uint32_t line) { return !NobodyHas(fetches_[line].memgest); });
  const std::vector<std::uint32_t> lines(lost, waiting_.end());
  waiting_.erase(lost, waiting_.end());
  for (const std::uint32_t line : lines) {
    const Version version = fetches_[line].version;
    Forget(line);
    if (AwaitsValue(shard_->lines(), line, version)) {
      shard_->OnValue(line, version, false);
    } else {
      shard_->OnDelay(line);
    }
  }
  if (!lines.empty()) on_value_();
}

// The first of those that are due goes first, however long it is: none waits for ever.
void ValueFetch::StartNext() {
  while (under_way_ < kUnderWayMax) {
    const auto next = std::find_if(waiting_.begin(), waiting_.end(), [this](std::uint32_t line) {
      return fetches_[line].retry_ns <= now_ns_;
    });
    if (next == waiting_.end()) return;
    const std::uint32_t line = *next;
    Fetch& fetch = fetches_[line];
    const bool fits = assembled_ + fetch.length <= kAssembledMax &&
                      asked_ + recovery::ValueAnswerMax(fetch.length) <= kAskedMax;
    if (under_way_ != 0 && !fits) return;
    waiting_.erase(next);
    fetch.started = true;
    if (!std::exchange(fetch.tried, true)) fetch.source = preferred_;
    ++under_way_;
    assembled_ += fetch.length;
    asked_ += recovery::ValueAnswerMax(fetch.length);
    Ask(line, fetch);
  }
}

void ValueFetch::Release(const Fetch& fetch) {
  if (!fetch.started) return;
  --under_way_;
  assembled_ -= fetch.length;
  asked_ -= recovery::ValueAnswerMax(fetch.length);
}

void ValueFetch::Forget(std::uint32_t line) {
  const auto found = fetches_.find(line);
  Release(found->second);
  wanted_ -= recovery::ValueAnswerMax(found->second.length);
  fetches_.erase(found);
}

// Members do not have it either: who waited finds what is above.
void ValueFetch::ForgetCollected(std::uint32_t line) {
  Forget(line);
  shard_->OnDelay(line);
  on_value_();
}

void ValueFetch::PutBack(std::uint32_t line, Fetch& fetch) {
  Release(fetch);
  fetch.started = false;
  fetch.call = 0;
  fetch.piece = 0;
  fetch.bytes = std::string();  // its memory, too
  fetch.crc = 0;
  waiting_.push_back(line);
}

void ValueFetch::Ask(std::uint32_t line, Fetch& fetch) {
  const std::vector<NodeId> sources = SourcesOf(fetch.memgest);
  if (sources.empty()) {
    // With its memgest, maybe: no answer will say so.
    if (!AwaitsValue(shard_->lines(), line, fetch.version)) return ForgetCollected(line);
    fetch.retry_ns = now_ns_ + kRetryNs;  // nobody has it now: a later record may name somebody
    return PutBack(line, fetch);
  }
  recovery::FetchRequest request;
  request.kind = recovery::FetchKind::kValue;
  request.group = group_;
  request.shard = shard_id_;
  request.epoch = epoch_;
  request.piece = fetch.piece;
  request.index = adopted_[fetch.memgest];
  request.line = line;
  request.version = fetch.version;
  request.memgests = {fetch.memgest};
  fetch.asked_of = sources[fetch.source % sources.size()];
  fetch.call = ++last_call_;
  send_(fetch.asked_of, request, fetch.length, WaitForOneOf(sources.size()),
        [this, line, call = fetch.call,
         alive = std::weak_ptr<bool>(alive_)](const absl::StatusOr<std::string>& bytes) {
          if (alive.expired()) return;
          const auto found = fetches_.find(line);
          if (found != fetches_.end() && found->second.call == call) OnPiece(line, bytes);
        });
}

void ValueFetch::OnPiece(std::uint32_t line, const absl::StatusOr<std::string>& bytes) {
  Fetch& fetch = fetches_[line];
  fetch.call = 0;
  absl::StatusOr<recovery::FetchAnswer> answer =
      bytes.ok() ? recovery::DecodeValueAnswer(*bytes) : bytes.status();
  if (!answer.ok()) return OnFailure(line, fetch, answer.status());
  preferred_ = fetch.source;
  // Of a long value each step has its part of the work.
  if (fetch.piece == 0) fetch.bytes.reserve(fetch.length);
  fetch.bytes.append(answer->piece.data(), answer->piece.size());
  fetch.crc = Crc32c(answer->piece.data(), answer->piece.size(), fetch.crc);
  // A source that is wrong about the length costs no more memory than the value.
  const std::uint32_t length = shard_->lines().line(line).value_length;
  if (fetch.bytes.size() > length) {
    return OnFailure(line, fetch,
                     absl::InvalidArgumentError(absl::StrCat("longer than value_length=", length)));
  }
  if (++fetch.piece < answer->piece_count) {
    Ask(line, fetch);
    return StartNext();  // it may have been put back
  }
  const absl::Status stored = Store(line, fetch);
  if (!stored.ok()) return OnFailure(line, fetch, stored);
  Finish(line, true);
}

// A member that has not folded the version yet, or whose copy is damaged, is not the only one.
void ValueFetch::OnFailure(std::uint32_t line, Fetch& fetch, const absl::Status& status) {
  if (!AwaitsValue(shard_->lines(), line, fetch.version)) {
    ForgetCollected(line);
    return StartNext();
  }
  if (absl::IsNotFound(status) || absl::IsDataLoss(status)) ++fetch.refusals[fetch.asked_of];
  if (preferred_ == fetch.source) ++preferred_;
  ++fetch.source;
  fetch.retry_ns = now_ns_ + kRetryNs;
  if (!EachRefused(fetch)) {
    PutBack(line, fetch);  // a source that is silent holds nobody's place
    return StartNext();
  }
  RING_LOG(ERROR) << "value lost group=" << group_.value() << " shard=" << shard_id_.value()
                  << " line=" << line << ": " << status.ToString();
  Finish(line, false);
}

// One that is silent may have what all others lack.
bool ValueFetch::EachRefused(const Fetch& fetch) const {
  const std::vector<NodeId> sources = SourcesOf(fetch.memgest);
  const cluster::MemgestNormal* const set = normal_.Find(fetch.memgest);
  const int enough = set != nullptr && AnyComplete(*set) ? kRefusalsOfEach : 1;
  return !sources.empty() && std::all_of(sources.begin(), sources.end(), [&](NodeId source) {
    const auto found = fetch.refusals.find(source);
    return found != fetch.refusals.end() && found->second >= enough;
  });
}

// S12, F10: bytes of another version, or damaged on their way, never come into the slot.
absl::Status ValueFetch::Store(std::uint32_t number, const Fetch& fetch) {
  const memgest::MetadataLine& line = shard_->lines().line(number);
  if (line.version != fetch.version.bits()) {
    return absl::NotFoundError(absl::StrCat("line=", number, " holds another version by now"));
  }
  const bool fits = fetch.bytes.size() == line.value_length && fetch.crc == line.value_crc;
  if (!fits && !Mutant("E3")) {
    return absl::DataLossError(absl::StrCat("line=", number, ": node ", fetch.asked_of.value(),
                                            " gave bytes that are not the version's"));
  }
  memgest::HeapSpace& heap = shard_->FindMemgest(fetch.memgest)->heap();
  const memgest::Range whole = {line.offset_cells, memgest::CellCount(line.value_length)};
  const absl::Span<const memgest::Range> ranges = (line.flags & memgest::kLarge) != 0
                                                      ? shard_->lines().Ranges(number)
                                                      : absl::MakeConstSpan(&whole, 1);
  std::size_t done = 0;
  for (const memgest::Range& range : ranges) {
    const std::size_t size =
        std::min(fetch.bytes.size() - done, std::size_t{range.length_cells} * memgest::kCellSize);
    RING_RETURN_IF_ERROR(heap.Ensure(range.offset_cells, range.length_cells));
    heap.Touch(range.offset_cells, memgest::CellCount(size));  // given back when it is deleted
    std::memcpy(heap.At(range.offset_cells), fetch.bytes.data() + done, size);
    done += size;
  }
  return absl::OkStatus();
}

void ValueFetch::Finish(std::uint32_t line, bool ok) {
  const Version version = fetches_[line].version;
  Forget(line);
  shard_->OnValue(line, version, ok);
  on_value_();
  StartNext();
}

void ValueFetch::Progress(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  StartNext();
  memgest::LineTable& lines = shard_->lines();
  const std::uint32_t end = lines.granule_count() * memgest::kLinesPerGranule;
  int lost = 0;
  const auto room = [this] {
    return fetches_.size() < kBackgroundMax && wanted_ < kBackgroundAskedMax;
  };
  while (!walked_ && room() && lost < kLostPerStep) {
    if (walk_line_ >= end) {
      walked_ = true;
      break;
    }
    const std::uint32_t line = walk_line_;
    if (!lines.Has(line)) {
      walk_line_ = (line / memgest::kLinesPerGranule + 1) * memgest::kLinesPerGranule;
      continue;
    }
    const memgest::MetadataLine& metadata = lines.line(line);
    const bool absent = metadata.version != 0 && (metadata.flags & memgest::kAbsent) != 0;
    const MemgestId memgest(metadata.memgest);
    const bool wanted =
        absent && !fetches_.contains(line) && !shard_->FindMemgest(memgest)->coded();
    const bool is_lost = wanted && NobodyHas(memgest);
    if (wanted && !is_lost && !pace_->Ready(now_ns)) break;
    ++walk_line_;
    lost += is_lost ? 1 : 0;
    if (!wanted) continue;
    Want(line, Version(metadata.version));
  }
}

}  // namespace ring::node
