#include "tests/sim/checkers/value_checker.h"

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "ring/base/crc32c.h"

namespace ring::sim {
namespace {

// fits: of a line with a committed value that is there.
void CheckLines(SimCluster* cluster, const cluster::Holder& holder, cluster::Place place, bool copy,
                const memgest::LineTable& lines, absl::FunctionRef<bool(std::uint32_t line)> fits,
                std::vector<Violation>* found) {
  for (std::uint32_t i = 0; i < lines.granule_count() * memgest::kLinesPerGranule; ++i) {
    if (!lines.Has(i)) continue;
    const memgest::MetadataLine& line = lines.line(i);
    const bool there = (line.flags & memgest::kCommitted) != 0 &&
                       (line.flags & memgest::kAbsent) == 0 && line.value_length != 0;
    if (!there || fits(i)) continue;
    if (cluster->CameDamaged(holder, place, copy, i, line.version)) continue;
    found->push_back({"damage-spread",
                      absl::StrCat("F10: node ", holder.node.value(), copy ? " as a member" : "",
                                   " group=", place.group.value(), " shard=", place.shard.value(),
                                   " line=", i, " version=", ToString(Version(line.version)),
                                   ": bytes that are not the version's")});
  }
}

void CheckMember(SimCluster* cluster, const cluster::Holder& holder,
                 node::MemberPort::HeldShard& held, std::vector<Violation>* found) {
  if (held.store == nullptr || held.failed) return;
  const memgest::LineTable& lines = held.store->lines();
  const auto fits = [&](std::uint32_t number) {
    const memgest::MetadataLine& line = lines.line(number);
    const memgest::HeapSpace* const heap = held.store->replica_heap(MemgestId(line.memgest));
    if (heap == nullptr || (line.flags & memgest::kLarge) != 0) return true;
    return heap->Has(line.offset_cells, 1) &&
           Crc32c(heap->At(line.offset_cells), line.value_length) == line.value_crc;
  };
  CheckLines(cluster, holder, {held.group, held.shard}, true, lines, fits, found);
}

}  // namespace

std::vector<Violation> CheckValues(SimCluster* cluster) {
  std::vector<Violation> found;
  for (const std::shared_ptr<SimNode>& node : cluster->nodes()) {
    if (!node->up()) continue;
    const cluster::Holder holder{node->info().id, node->info().incarnation};
    for (node::MemberPort::HeldShard& held : node->node().members().held_shards())
      CheckMember(cluster, holder, held, &found);
    const cluster::View& view = cluster->view();
    for (std::size_t group = 0; group < view.groups.size(); ++group) {
      for (int shard = 0; shard < view.s; ++shard) {
        const cluster::Place place{GroupId(static_cast<std::uint16_t>(group)),
                                   ShardId(static_cast<std::uint16_t>(shard))};
        node::CoordinatedShard* const own = node->node().FindShard(place.group, place.shard);
        if (own == nullptr || !own->serving()) continue;
        const coordinator::ShardCoordinator& coordinator = *own->coordinator();
        CheckLines(
            cluster, holder, place, false, own->coordinator()->lines(),
            [&](std::uint32_t line) { return coordinator.ValueFits(line); }, &found);
      }
    }
  }
  return found;
}

}  // namespace ring::sim
