#include "ring/node/recovery/member_values.h"

#include "ring/base/log.h"
#include "ring/recovery/fetch_message.h"

namespace ring::node {
namespace {

constexpr std::uint64_t kFetchTimeoutNs = 500'000'000;
constexpr std::uint64_t kRoundPauseNs = 5'000'000;
constexpr int kLinesPerTurn = 4096;  // looked at

std::uint32_t KeyOf(const MemberPort::Membership& membership) {
  return std::uint32_t{membership.group.value()} << 16 | membership.shard.value();
}

}  // namespace

MemberValues::MemberValues(MemberPort* members, ControlPort* control, Pace* pace)
    : members_(members), control_(control), pace_(pace) {}

void MemberValues::Progress(std::uint64_t now_ns) {
  for (MemberPort::Membership& membership : members_->memberships()) {
    if (membership.store->absent_count() == 0) continue;
    if (membership.failed || membership.join == MemberPort::Membership::Join::kAwaitsSnapshot)
      continue;
    GoOn(membership, now_ns);
  }
}

// Whom the present epoch's record names as having all values; before it nobody may be asked, as
// sources have not folded what was adopted (step 7).
std::vector<NodeId> MemberValues::SourcesOf(const MemberPort::Membership& membership,
                                            MemgestId memgest) const {
  std::vector<NodeId> sources;
  const cluster::NormalRecord& normal =
      members_->view().groups[membership.group.value()].shards[membership.shard.value()].normal;
  const cluster::MemgestNormal* const set = normal.Find(memgest);
  if (set == nullptr || normal.epoch != membership.store->promised()) return sources;
  for (std::size_t role = 0; role < normal.holders.size(); ++role) {
    const bool has_all = (set->complete >> role & 1) != 0;
    if (has_all && role != membership.role.value()) sources.push_back(normal.holders[role].node);
  }
  return sources;
}

void MemberValues::GoOn(MemberPort::Membership& membership, std::uint64_t now_ns) {
  Walk& walk = walks_[KeyOf(membership)];
  if (now_ns < walk.pause_until_ns) return;
  memgest::LineTable& lines = membership.store->lines();
  const std::uint32_t end = lines.granule_count() * memgest::kLinesPerGranule;
  for (int looked = 0; looked < kLinesPerTurn && fetches_.size() < kFetchesMax; ++looked) {
    if (walk.line >= end) {
      walk.line = 0;
      ++walk.round;
      walk.pause_until_ns = now_ns + kRoundPauseNs;
      return;
    }
    const std::uint32_t number = walk.line;
    const bool used = lines.Has(number) && lines.granule(number).taken != 0;
    if (!used) {
      walk.line = (number / memgest::kLinesPerGranule + 1) * memgest::kLinesPerGranule;
      continue;
    }
    const memgest::MetadataLine& line = lines.line(number);
    if (line.version == 0 || (line.flags & memgest::kAbsent) == 0) {
      ++walk.line;
      continue;
    }
    const std::vector<NodeId> sources = SourcesOf(membership, MemgestId(line.memgest));
    if (!sources.empty() && !pace_->Ready(now_ns)) return;
    ++walk.line;
    if (sources.empty()) continue;  // a later record may name somebody
    pace_->Take(line.value_length);
    const std::uint64_t id = next_id_++;
    Fetch& fetch = fetches_[id];
    fetch.group = membership.group;
    fetch.shard = membership.shard;
    fetch.epoch = membership.store->promised();
    fetch.memgest = MemgestId(line.memgest);
    fetch.line = number;
    fetch.version = Version(line.version);
    fetch.length = line.value_length;
    fetch.source = sources[(number + walk.round) % sources.size()];
    Ask(id);
  }
}

void MemberValues::Ask(std::uint64_t id) {
  const Fetch& fetch = fetches_[id];
  recovery::FetchRequest request;
  request.kind = recovery::FetchKind::kValue;
  request.group = fetch.group;
  request.shard = fetch.shard;
  request.epoch = fetch.epoch;
  request.piece = fetch.piece;
  request.line = fetch.line;
  request.version = fetch.version;
  request.memgests = {fetch.memgest};
  control_->Call(
      fetch.source, ControlType::kFetch, recovery::EncodeFetchRequest(request), kFetchTimeoutNs,
      [this, id, alive = std::weak_ptr<bool>(alive_)](const absl::StatusOr<std::string>& bytes) {
        if (!alive.expired()) OnPiece(id, bytes);
      });
}

void MemberValues::OnPiece(std::uint64_t id, const absl::StatusOr<std::string>& bytes) {
  Fetch& fetch = fetches_[id];
  const absl::StatusOr<recovery::FetchAnswer> answer =
      bytes.ok() ? recovery::DecodeFetchAnswer(*bytes) : bytes.status();
  if (answer.ok()) {
    fetch.bytes.append(answer->piece.data(), answer->piece.size());
    // A source that is wrong about the length costs no more memory than the value.
    const bool fits = fetch.bytes.size() <= fetch.length;
    if (fits && ++fetch.piece < answer->piece_count) return Ask(id);
    if (fits) Install(fetch);
  }
  fetches_.erase(id);
}

// The line may hold another version by now, or the shard be another epoch's (S5).
void MemberValues::Install(const Fetch& fetch) {
  MemberPort::Membership* const membership = members_->Find(fetch.group, fetch.shard);
  if (membership == nullptr || membership->store->promised() != fetch.epoch) return;
  const absl::Status installed = membership->store->InstallValue(
      fetch.line, fetch.version,
      {reinterpret_cast<const std::byte*>(fetch.bytes.data()), fetch.bytes.size()});
  if (installed.ok() || absl::IsNotFound(installed)) return;
  RING_LOG(WARNING) << "value not installed group=" << fetch.group.value()
                    << " shard=" << fetch.shard.value() << ": " << installed.ToString();
}

}  // namespace ring::node
