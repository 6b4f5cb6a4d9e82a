#include "tests/sim/checkers/metadata_checker.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "memgest/metadata_line.h"
#include "ring/cluster/active_roles.h"

namespace ring::sim {
namespace {

using memgest::CompletionRecord;
using memgest::CompletionTable;
using memgest::LineTable;
using memgest::MetadataLine;

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kFoldNs = 5'000 * kMs;
constexpr std::size_t kToldMax = 4;  // of a member
constexpr unsigned kSharedFlags = memgest::kTombstone | memgest::kLarge | memgest::kExplicit;

// What a coordinator and one of its members say of each other.
class Comparison {
 public:
  Comparison(coordinator::ShardCoordinator* own, memgest::MemberShard* held, std::string name,
             MetadataResult* result)
      : own_(own), held_(held), name_(std::move(name)), result_(result) {}

  void Compare(MemgestId memgest) {
    memgest_ = memgest;
    CompareLines();
    CompareRecords();
  }

 private:
  // The line, if it holds a version of the memgest that is committed.
  const MetadataLine* LineAt(LineTable& lines, std::uint32_t number) const {
    if (!lines.Has(number)) return nullptr;
    const MetadataLine& line = lines.line(number);
    const bool holds = line.version != 0 && line.memgest == memgest_.value() &&
                       (line.flags & memgest::kCommitted) != 0;
    return holds ? &line : nullptr;
  }

  void CompareLines() {
    LineTable& own = own_->lines();
    LineTable& held = held_->lines();
    const std::uint32_t count =
        std::max(own.granule_count(), held.granule_count()) * memgest::kLinesPerGranule;
    for (std::uint32_t number = 0; number < count; ++number) {
      const MetadataLine* const here = LineAt(own, number);
      const MetadataLine* const there = LineAt(held, number);
      if (here == nullptr && there == nullptr) continue;
      ++result_->lines;
      if (there == nullptr) {
        Differ("E9: lacks line=", number, " key=", own.Key(number),
               " version=", ToString(Version(here->version)));
      } else if (here == nullptr) {
        Differ("G2: has line=", number, " key=", held.Key(number),
               " version=", ToString(Version(there->version)), ", which is gone");
      } else if (const std::string field = FieldThatDiffers(number); !field.empty()) {
        Differ("line=", number, " key=", own.Key(number), ": another ", field);
      }
    }
  }

  std::string FieldThatDiffers(std::uint32_t number) const {
    LineTable& own = own_->lines();
    LineTable& held = held_->lines();
    const MetadataLine& here = own.line(number);
    const MetadataLine& there = held.line(number);
    if (here.version != there.version) return "version";
    if (own.Key(number) != held.Key(number)) return "key";
    if (here.value_crc != there.value_crc || here.value_length != there.value_length)
      return "value";
    if (here.expiry_ns != there.expiry_ns) return "expiry";
    if (here.offset_cells != there.offset_cells || here.size_class != there.size_class)
      return "slot";
    if ((here.flags & kSharedFlags) != (there.flags & kSharedFlags)) return "kind";
    const auto same = [](const memgest::Range& a, const memgest::Range& b) {
      return a.offset_cells == b.offset_cells && a.length_cells == b.length_cells;
    };
    const absl::Span<const memgest::Range> a = own.Ranges(number), b = held.Ranges(number);
    if (!std::equal(a.begin(), a.end(), b.begin(), b.end(), same)) return "ranges";
    if (own.granule(number).base_cells != held.granule(number).base_cells) return "granule";
    return "";
  }

  // By client and sequence number; of one memgest's log, or all.
  using Records =
      absl::flat_hash_map<std::pair<memgest::ClientId, std::uint64_t>, CompletionRecord>;
  static Records RecordsOf(const CompletionTable& table, std::optional<MemgestId> memgest) {
    Records records;
    table.ForEach([&](const memgest::ClientId& client, std::uint64_t, const CompletionRecord& one) {
      if (one.state != memgest::RecordState::kDone) return;
      if (memgest.has_value() && one.memgest != memgest->value()) return;
      records.emplace(std::make_pair(client, one.seq), one);
    });
    return records;
  }
  // X4: the client has the answer, as far as the other knows.
  static bool IsPast(const CompletionTable& table, const memgest::ClientId& client,
                     std::uint64_t seq) {
    bool past = false;
    table.ForEachClient(
        [&](const memgest::ClientId& id, std::uint64_t first, const CompletionTable::Client*) {
          past |= id == client && seq < first;
        });
    return past;
  }
  static bool Same(const CompletionRecord& a, const CompletionRecord& b) {
    return a.version == b.version && a.code == b.code && a.request_crc == b.request_crc;
  }

  void CompareRecords() {
    const Records here = RecordsOf(own_->completions(), memgest_);
    const Records there = RecordsOf(held_->completions(), std::nullopt);
    for (const auto& [key, record] : here) {
      ++result_->records;
      const auto other = there.find(key);
      if (other == there.end()) {
        if (!IsPast(held_->completions(), key.first, key.second))
          Differ("X2: lacks the record of seq=", key.second,
                 " version=", ToString(Version(record.version)));
      } else if (!Same(other->second, record)) {
        Differ("X2: has another record of seq=", key.second);
      }
    }
    // G10: a drain took a record into another log, which this member may not have.
    const Records all = RecordsOf(own_->completions(), std::nullopt);
    for (const auto& [key, record] : there) {
      if (record.memgest != memgest_.value()) continue;
      const auto own = all.find(key);
      if (own != all.end() ? Same(own->second, record)
                           : IsPast(own_->completions(), key.first, key.second))
        continue;
      Differ("X4: has a record of seq=", key.second, " version=", ToString(Version(record.version)),
             own == all.end() ? " that is gone" : ", and the coordinator another one");
    }
  }

  template <typename... Parts>
  void Differ(const Parts&... parts) {
    if (++told_ > kToldMax) return;
    result_->violations.push_back(
        {"metadata", absl::StrCat(name_, " memgest=", memgest_.value(), ": ", parts...)});
  }

  coordinator::ShardCoordinator* own_;
  memgest::MemberShard* held_;
  std::string name_;
  MetadataResult* result_;
  MemgestId memgest_;
  std::size_t told_ = 0;
};

void CompareShard(SimCluster* cluster, cluster::Place place, MetadataResult* result) {
  const cluster::View& view = cluster->view();
  const NodeId owner = view.Coordinator(place.group, place.shard);
  if (owner == cluster::kNoNode || !cluster->nodes()[owner.value()]->up()) return;
  node::CoordinatedShard* const own =
      cluster->nodes()[owner.value()]->node().FindShard(place.group, place.shard);
  if (own == nullptr || !own->serving()) return;
  const cluster::GroupView& group = view.groups[place.group.value()];
  const cluster::NormalRecord& record = group.shards[place.shard.value()].normal;
  for (std::size_t i = 0; i < group.roles.size(); ++i) {
    const NodeId holder = group.roles[i];
    if (i == place.shard.value() || holder == cluster::kNoNode) continue;
    if (!cluster->nodes()[holder.value()]->up()) continue;
    node::MemberPort::HeldShard* const held =
        cluster->nodes()[holder.value()]->node().members().Find(place.group, place.shard);
    if (held == nullptr || held->store == nullptr || held->failed) continue;
    Comparison comparison(own->coordinator(), held->store.get(),
                          absl::StrCat("g", place.group.value(), "/s", place.shard.value(),
                                       " at node ", owner.value(), ": node ", holder.value()),
                          result);
    for (const protocol::MemgestDescriptor& memgest : view.memgests) {
      if (memgest.state == protocol::MemgestState::kDeleted) continue;
      const RoleMask active = cluster::ActiveFor(record, memgest, place.shard, view.s, view.d);
      if (Has(active, Role(static_cast<std::uint16_t>(i)))) comparison.Compare(memgest.id);
    }
  }
}

MetadataResult Compare(SimCluster* cluster) {
  MetadataResult result;
  const cluster::View& view = cluster->view();
  for (std::size_t group = 0; group < view.groups.size(); ++group) {
    for (int shard = 0; shard < view.s; ++shard) {
      CompareShard(
          cluster,
          {GroupId(static_cast<std::uint16_t>(group)), ShardId(static_cast<std::uint16_t>(shard))},
          &result);
    }
  }
  return result;
}

}  // namespace

MetadataResult CheckMetadata(SimCluster* cluster) {
  MetadataResult result;
  if (cluster->overran()) return result;
  cluster->RunUntil(
      cluster->network().now_ns() + kFoldNs,
      [&] {
        result = Compare(cluster);
        return result.violations.empty();
      },
      50 * kMs);
  return result;
}

}  // namespace ring::sim
