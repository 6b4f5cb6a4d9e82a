#include "ring/node/recovery/member_values.h"

#include "ring/base/log.h"
#include "ring/cluster/active_roles.h"
#include "ring/recovery/fetch_message.h"

namespace ring::node {
namespace {

constexpr std::uint64_t kFetchTimeoutNs = 500'000'000;
constexpr std::uint64_t kRoundPauseNs = 5'000'000;
constexpr int kLinesPerTurn = 4096;  // looked at

std::uint32_t KeyOf(const MemberPort::HeldShard& held) {
  return std::uint32_t{held.group.value()} << 16 | held.shard.value();
}

}  // namespace

MemberValues::MemberValues(MemberPort* members, ControlPort* control, Pace* pace)
    : members_(members), control_(control), pace_(pace), calls_(control, kFetchTimeoutNs) {}

void MemberValues::Progress(std::uint64_t now_ns) {
  for (MemberPort::HeldShard& held : members_->held_shards()) {
    if (held.store->absent_count() == 0) continue;
    if (held.failed || held.join == MemberPort::HeldShard::Join::kAwaitsSnapshot) continue;
    GoOn(held, now_ns);
  }
  calls_.Flush();
}

// Whom the present epoch's record names as having all values; before it nobody may be asked, as
// sources have not folded what was adopted (step 7).
std::vector<NodeId> MemberValues::SourcesOf(const MemberPort::HeldShard& held,
                                            MemgestId memgest) const {
  std::vector<NodeId> sources;
  const cluster::View& view = members_->view();
  const cluster::NormalRecord& normal =
      view.groups[held.group.value()].shards[held.shard.value()].normal;
  const protocol::MemgestDescriptor* const descriptor = view.FindMemgest(memgest);
  if (descriptor == nullptr || normal.epoch != held.store->promised()) return sources;
  // Of a memgest that is younger than the record, too: what came damaged is fetched (F10).
  const RoleMask complete = cluster::CompleteFor(normal, *descriptor, held.shard, view.s, view.d);
  for (std::size_t role = 0; role < normal.holders.size(); ++role) {
    if (Has(complete, role) && role != held.role.value())
      sources.push_back(normal.holders[role].node);
  }
  return sources;
}

void MemberValues::GoOn(MemberPort::HeldShard& held, std::uint64_t now_ns) {
  Walk& walk = walks_[KeyOf(held)];
  if (now_ns < walk.pause_until_ns || !walk.room.over(now_ns)) return;
  memgest::LineTable& lines = held.store->lines();
  const std::uint32_t end = lines.granule_count() * memgest::kLinesPerGranule;
  const auto room = [this] { return fetches_.size() < kFetchesMax && asked_ < kAskedMax; };
  for (int looked = 0; looked < kLinesPerTurn && room(); ++looked) {
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
    const std::vector<NodeId> sources = SourcesOf(held, MemgestId(line.memgest));
    if (!sources.empty() && !pace_->Ready(now_ns)) return;
    ++walk.line;
    if (sources.empty()) continue;  // a later record may name somebody
    pace_->Take(line.value_length);
    const std::uint64_t id = next_id_++;
    Fetch& fetch = fetches_[id];
    fetch.group = held.group;
    fetch.shard = held.shard;
    fetch.epoch = held.store->promised();
    fetch.memgest = MemgestId(line.memgest);
    fetch.line = number;
    fetch.version = Version(line.version);
    fetch.length = line.value_length;
    asked_ += recovery::ValueAnswerMax(fetch.length);
    fetch.source = sources[(number + walk.round) % sources.size()];
    fetch.wait = WaitForOneOf(sources.size());
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
  calls_.Send(fetch.source, request, fetch.length, fetch.wait,
              [this, id](const absl::StatusOr<std::string>& bytes) { OnPiece(id, bytes); });
}

void MemberValues::Forget(std::uint64_t id) {
  const auto found = fetches_.find(id);
  asked_ -= recovery::ValueAnswerMax(found->second.length);
  fetches_.erase(found);
}

void MemberValues::OnPiece(std::uint64_t id, const absl::StatusOr<std::string>& bytes) {
  Fetch& fetch = fetches_[id];
  const absl::StatusOr<recovery::FetchAnswer> answer =
      bytes.ok() ? recovery::DecodeValueAnswer(*bytes) : bytes.status();
  if (answer.ok()) {
    if (fetch.piece == 0) fetch.bytes.reserve(fetch.length);
    fetch.bytes.append(answer->piece.data(), answer->piece.size());
    // A source that is wrong about the length costs no more memory than the value.
    const bool fits = fetch.bytes.size() <= fetch.length;
    if (fits && ++fetch.piece < answer->piece_count) return Ask(id);
    if (fits) Install(fetch);
  }
  Forget(id);
}

// The line may hold another version by now, or the shard be another epoch's (S5).
void MemberValues::Install(const Fetch& fetch) {
  MemberPort::HeldShard* const held = members_->Find(fetch.group, fetch.shard);
  if (held == nullptr || held->store->promised() != fetch.epoch) return;
  const absl::Status installed = held->store->InstallValue(
      fetch.line, fetch.version,
      {reinterpret_cast<const std::byte*>(fetch.bytes.data()), fetch.bytes.size()});
  if (absl::IsNotFound(installed)) return;
  RoomPause& room = walks_[KeyOf(*held)].room;
  if (installed.ok()) return room.OnRoom();
  if (absl::IsResourceExhausted(installed) && !room.OnNoRoom(control_->now_ns())) return;
  RING_LOG(WARNING) << "value not installed group=" << fetch.group.value()
                    << " shard=" << fetch.shard.value() << ": " << installed.ToString();
}

}  // namespace ring::node
