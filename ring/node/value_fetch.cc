#include "ring/node/value_fetch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ring/base/log.h"
#include "ring/coordinator/shard.h"

namespace ring::node {
namespace {
constexpr std::uint64_t kFetchTimeoutNs = 200'000'000;
constexpr std::uint64_t kRetryNs = 2'000'000;
}  // namespace

ValueFetch::ValueFetch(ControlPort* control, recovery::Pace* pace, GroupId group, ShardId shard,
                       std::function<void()> on_value)
    : control_(control),
      pace_(pace),
      group_(group),
      shard_id_(shard),
      on_value_(std::move(on_value)),
      alive_(std::make_shared<bool>(true)) {}

ValueFetch::~ValueFetch() = default;

void ValueFetch::SetSources(Epoch epoch, const cluster::NormalRecord& normal) {
  epoch_ = epoch;
  normal_ = normal;
}

std::vector<NodeId> ValueFetch::SourcesOf(MemgestId memgest) const {
  std::vector<NodeId> sources;
  const cluster::MemgestNormal* const set = normal_.Find(memgest);
  for (std::size_t role = 0; set != nullptr && role < normal_.holders.size(); ++role) {
    const bool has_all = (set->complete >> role & 1) != 0;
    if (has_all && role != shard_id_.value()) sources.push_back(normal_.holders[role].node);
  }
  return sources;
}

bool ValueFetch::CanBring(std::uint32_t, MemgestId memgest) const {
  return !SourcesOf(memgest).empty();
}

void ValueFetch::Want(std::uint32_t line, Version version, coordinator::ShardCoordinator& shard) {
  shard_ = &shard;
  Fetch& fetch = fetches_[line];
  if (fetch.version == version) return;  // the background was first
  fetch = Fetch();
  fetch.version = version;
  fetch.memgest = MemgestId(shard.lines().line(line).memgest);
  pace_->Take(shard.lines().line(line).value_length);
  Ask(line, fetch);
}

void ValueFetch::Ask(std::uint32_t line, Fetch& fetch) {
  const std::vector<NodeId> sources = SourcesOf(fetch.memgest);
  if (sources.empty()) {
    fetch.retry_ns = now_ns_ + kRetryNs;  // nobody has it now: a later record may name somebody
    return;
  }
  recovery::FetchRequest request;
  request.kind = recovery::FetchKind::kValue;
  request.group = group_;
  request.shard = shard_id_;
  request.epoch = epoch_;
  request.piece = fetch.piece;
  request.line = line;
  request.version = fetch.version;
  request.memgests = {fetch.memgest};
  fetch.asked = true;
  control_->Call(sources[fetch.source % sources.size()], ControlType::kFetch,
                 EncodeFetchRequest(request), kFetchTimeoutNs,
                 [this, line, version = fetch.version,
                  alive = std::weak_ptr<bool>(alive_)](const absl::StatusOr<std::string>& bytes) {
                   if (alive.expired()) return;
                   const auto found = fetches_.find(line);
                   if (found == fetches_.end() || found->second.version != version) return;
                   OnPiece(line, bytes);
                 });
}

void ValueFetch::OnPiece(std::uint32_t line, const absl::StatusOr<std::string>& bytes) {
  Fetch& fetch = fetches_[line];
  fetch.asked = false;
  absl::StatusOr<recovery::FetchAnswer> answer =
      bytes.ok() ? recovery::DecodeFetchAnswer(*bytes) : bytes.status();
  if (!answer.ok()) return OnFailure(line, fetch, answer.status());
  fetch.bytes.append(answer->piece.data(), answer->piece.size());
  if (++fetch.piece < answer->piece_count) return Ask(line, fetch);
  Finish(line, Store(line, fetch));
}

// A member that has not folded the version yet, or whose copy is damaged, is not the only one.
void ValueFetch::OnFailure(std::uint32_t line, Fetch& fetch, const absl::Status& status) {
  const bool has_not = absl::IsNotFound(status) || absl::IsDataLoss(status);
  fetch.refusals += has_not ? 1 : 0;
  fetch.piece = 0;
  fetch.bytes.clear();
  ++fetch.source;
  fetch.retry_ns = now_ns_ + kRetryNs;
  constexpr std::size_t kRefusalsOfEach = 100;
  const std::size_t sources = SourcesOf(fetch.memgest).size();
  if (sources == 0 || fetch.refusals < kRefusalsOfEach * sources) return;
  RING_LOG(ERROR) << "value lost group=" << group_.value() << " shard=" << shard_id_.value()
                  << " line=" << line << ": " << status.ToString();
  Finish(line, false);
}

bool ValueFetch::Store(std::uint32_t number, const Fetch& fetch) {
  const memgest::MetadataLine& line = shard_->lines().line(number);
  if (line.version != fetch.version.bits() || fetch.bytes.size() != line.value_length) return false;
  memgest::HeapSpace& heap = shard_->FindMemgest(fetch.memgest)->heap();
  const memgest::Range whole = {line.offset_cells, memgest::CellCount(line.value_length)};
  const absl::Span<const memgest::Range> ranges = (line.flags & memgest::kLarge) != 0
                                                      ? shard_->lines().Ranges(number)
                                                      : absl::MakeConstSpan(&whole, 1);
  std::size_t done = 0;
  for (const memgest::Range& range : ranges) {
    const std::size_t size =
        std::min(fetch.bytes.size() - done, std::size_t{range.length_cells} * memgest::kCellSize);
    if (!heap.Ensure(range.offset_cells, range.length_cells).ok()) return false;
    std::memcpy(heap.At(range.offset_cells), fetch.bytes.data() + done, size);
    done += size;
  }
  return done == fetch.bytes.size();
}

void ValueFetch::Finish(std::uint32_t line, bool ok) {
  const Version version = fetches_[line].version;
  fetches_.erase(line);
  shard_->OnValue(line, version, ok);
  on_value_();
}

void ValueFetch::Progress(std::uint64_t now_ns, coordinator::ShardCoordinator& shard) {
  now_ns_ = now_ns;
  shard_ = &shard;
  std::vector<std::uint32_t> due;
  for (const auto& [line, fetch] : fetches_) {
    if (!fetch.asked && now_ns >= fetch.retry_ns) due.push_back(line);
  }
  std::sort(due.begin(), due.end());  // a hash table's order is no one's business
  for (const std::uint32_t line : due) Ask(line, fetches_[line]);
  memgest::LineTable& lines = shard.lines();
  const std::uint32_t end = lines.granule_count() * memgest::kLinesPerGranule;
  while (!walked_ && fetches_.size() < kBackgroundMax) {
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
    const bool wanted = absent && !fetches_.contains(line) &&
                        !shard.FindMemgest(MemgestId(metadata.memgest))->coded();
    if (wanted && !pace_->Ready(now_ns)) break;
    ++walk_line_;
    if (!wanted) continue;
    Want(line, Version(metadata.version), shard);
  }
}

}  // namespace ring::node
