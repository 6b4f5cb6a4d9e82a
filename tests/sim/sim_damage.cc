// Bits that turn in values, copies and parity rows (F10): where, and what is left of them.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "ring/base/crc32c.h"
#include "ring/cluster/routing.h"
#include "tests/sim/sim_cluster.h"

namespace ring::sim {

bool SimCluster::DamageValue(int key, bool unsent) {
  const cluster::View& view = this->view();
  const cluster::Place place = cluster::Routing(view.s, view.d).OfKey(KeyName(key));
  const NodeId owner = view.Coordinator(place.group, place.shard);
  if (owner == cluster::kNoNode || !nodes_[owner.value()]->up()) return false;
  node::CoordinatedShard* const held =
      nodes_[owner.value()]->node().FindShard(place.group, place.shard);
  if (held == nullptr || !held->serving()) return false;
  std::uint32_t number = 0;
  const memgest::MetadataLine* const newest = NewestOf(held->coordinator()->lines(), key, &number);
  if (newest == nullptr || (!unsent && (newest->flags & memgest::kCommitted) == 0)) return false;
  damage_.AddValue(key, *view.FindMemgest(MemgestId(newest->memgest)));
  network_.faults().Count(rdma::sim::FaultClass::kF10BitFlip, "values");
  std::byte* const value =
      held->coordinator()->FindMemgest(MemgestId(newest->memgest))->heap().At(newest->offset_cells);
  value[random_.Below(newest->value_length)] ^= std::byte{1} << random_.Below(8);
  damages_.push_back({absl::StrCat("value of ", KeyName(key)),
                      {owner, nodes_[owner.value()]->info().incarnation},
                      place,
                      false,
                      number,
                      newest->version});
  return true;
}

// The key's newest line with a value that lies in one piece; null: there is none.
const memgest::MetadataLine* SimCluster::NewestOf(memgest::LineTable& lines, int key,
                                                  std::uint32_t* number) {
  const memgest::MetadataLine* newest = nullptr;
  for (std::uint32_t i = 0; i < lines.granule_count() * memgest::kLinesPerGranule; ++i) {
    if (!lines.Has(i) || !lines.KeyEquals(i, KeyName(key))) continue;
    const memgest::MetadataLine& line = lines.line(i);
    if (newest != nullptr && line.version <= newest->version) continue;
    newest = &line;
    *number = i;
  }
  constexpr unsigned kNotHere = memgest::kAbsent | memgest::kLarge;
  const bool whole =
      newest != nullptr && newest->value_length != 0 && (newest->flags & kNotHere) == 0;
  return whole ? newest : nullptr;
}

bool SimCluster::DamageCopy(int key, Random& random) {
  const cluster::View& view = this->view();
  const cluster::Place place = cluster::Routing(view.s, view.d).OfKey(KeyName(key));
  const std::size_t first = random.Below(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    SimNode& node = *nodes_[(first + i) % nodes_.size()];
    if (!node.up()) continue;
    node::MemberPort::HeldShard* const member =
        node.node().members().Find(place.group, place.shard);
    if (member == nullptr || member->store == nullptr) continue;
    std::uint32_t number = 0;
    const memgest::MetadataLine* const newest = NewestOf(member->store->lines(), key, &number);
    if (newest == nullptr) continue;
    const memgest::HeapSpace* const heap = member->store->replica_heap(MemgestId(newest->memgest));
    if (heap == nullptr || !heap->Has(newest->offset_cells, 1)) continue;
    damage_.AddValue(key, *view.FindMemgest(MemgestId(newest->memgest)));
    network_.faults().Count(rdma::sim::FaultClass::kF10BitFlip, "copies");
    heap->At(newest->offset_cells)[random.Below(newest->value_length)] ^= std::byte{1}
                                                                          << random.Below(8);
    damages_.push_back({absl::StrCat("copy of ", KeyName(key), " at node ", node.info().id.value()),
                        {node.info().id, node.info().incarnation},
                        place,
                        true,
                        number,
                        newest->version});
    return true;
  }
  return false;
}

bool SimCluster::DamageRow(Random& random) {
  const cluster::View& view = this->view();
  SimNode& node = *nodes_[random.Below(nodes_.size())];
  if (!node.up() || view.groups.empty()) return false;
  const GroupId group(static_cast<std::uint16_t>(random.Below(view.groups.size())));
  for (const protocol::MemgestDescriptor& memgest : view.memgests) {
    memgest::ParityStore* const parity = node.node().members().FindParity(group, memgest.id);
    if (parity == nullptr || parity->extent_count() == 0) continue;
    const auto extent = static_cast<std::uint32_t>(random.Below(parity->extent_count()));
    const memgest::ParityStore::Row row = parity->ReadRow(extent, 0);
    if (row.bytes == nullptr) continue;
    damage_.AddRow(memgest);
    network_.faults().Count(rdma::sim::FaultClass::kF10BitFlip, "parity rows");
    // What is used of a row begins at its begin.
    auto* const bytes = const_cast<std::byte*>(row.bytes);
    bytes[random.Below(std::min<std::uint32_t>(parity->block_size(), 4096))] ^= std::byte{1}
                                                                                << random.Below(8);
    return true;
  }
  return false;
}

// The version is there, and its bytes are not those of its checksum.
bool SimCluster::IsLeft(const Damage& damage) {
  if (!Alive(damage.holder)) return false;
  node::Node& node = nodes_[damage.holder.node.value()]->node();
  memgest::LineTable* lines = nullptr;
  const memgest::HeapSpace* heap = nullptr;
  const auto is_there = [&] {
    constexpr unsigned kNotHere = memgest::kAbsent | memgest::kLarge;
    return lines->Has(damage.line) && lines->line(damage.line).version == damage.version &&
           (lines->line(damage.line).flags & kNotHere) == 0;
  };
  if (damage.copy) {
    node::MemberPort::HeldShard* const member =
        node.members().Find(damage.place.group, damage.place.shard);
    if (member == nullptr || member->store == nullptr) return false;
    lines = &member->store->lines();
    if (is_there()) heap = member->store->replica_heap(MemgestId(lines->line(damage.line).memgest));
  } else {
    node::CoordinatedShard* const shard = node.FindShard(damage.place.group, damage.place.shard);
    if (shard == nullptr || !shard->serving()) return false;
    lines = &shard->coordinator()->lines();
    if (is_there()) {
      heap =
          &shard->coordinator()->FindMemgest(MemgestId(lines->line(damage.line).memgest))->heap();
    }
  }
  if (heap == nullptr) return false;
  const memgest::MetadataLine& line = lines->line(damage.line);
  return heap->Has(line.offset_cells, 1) &&
         Crc32c(heap->At(line.offset_cells), line.value_length) != line.value_crc;
}

std::set<std::string> SimCluster::DamageLeft() {
  std::set<std::string> left;
  for (const Damage& damage : damages_) {
    if (IsLeft(damage)) left.insert(damage.what);
  }
  return left;
}

bool SimCluster::CameDamaged(const cluster::Holder& holder, cluster::Place place, bool copy,
                             std::uint32_t line, std::uint64_t version) const {
  return std::any_of(damages_.begin(), damages_.end(), [&](const Damage& damage) {
    return damage.holder == holder && damage.place == place && damage.copy == copy &&
           damage.line == line && damage.version == version;
  });
}

}  // namespace ring::sim
