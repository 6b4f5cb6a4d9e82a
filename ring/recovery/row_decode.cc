#include "ring/recovery/row_decode.h"

#include <algorithm>

#include "ring/cluster/active_roles.h"

namespace ring::recovery {
namespace {

// S6: a parity that is rebuilt has what was written in this extent all the same.
bool CountsFrom(const cluster::NormalRecord& normal, MemgestId memgest, std::size_t role,
                std::uint32_t extent) {
  const cluster::MemgestNormal* const set = normal.Find(memgest);
  if (set == nullptr || !Has(set->active, role)) return false;
  return std::any_of(set->active_from.begin(), set->active_from.end(),
                     [role, extent](const cluster::ActiveFrom& from) {
                       return from.role.value() == role && from.extent <= extent;
                     });
}

}  // namespace

std::uint32_t CompleteParities(const cluster::View& view, const RowName& name,
                               const protocol::MemgestDescriptor& memgest,
                               const srs::Layout& layout, std::uint32_t columns) {
  const cluster::GroupView& group_view = view.groups[name.group.value()];
  std::uint32_t complete = 0;
  for (std::uint32_t j = 0; j < memgest.m; ++j) {
    const std::size_t role = static_cast<std::size_t>(view.s) + j;
    const cluster::Holder holder = {group_view.roles[role], group_view.incarnations[role]};
    bool has_all = holder.node != cluster::kNoNode;
    for (std::uint32_t column = 0; column < memgest.k && has_all; ++column) {
      if (!Has(columns, column)) continue;
      const ShardId shard(static_cast<std::uint16_t>(layout.BlockOf(0, name.row, column).shard));
      const cluster::NormalRecord& normal = group_view.shards[shard.value()].normal;
      has_all = role < normal.holders.size() && normal.holders[role] == holder &&
                (Has(cluster::CompleteFor(normal, memgest, shard, view.s, view.d), role) ||
                 CountsFrom(normal, memgest.id, role, name.extent));
    }
    complete |= has_all ? 1u << j : 0;
  }
  return complete;
}

std::optional<srs::Recipe> PlanBlock(const ec_offload::Matrix& generator, std::uint32_t column,
                                     std::uint32_t lost_columns, std::uint32_t parities,
                                     std::uint32_t first) {
  const std::uint32_t all = (1u << generator.rows()) - 1;
  std::uint32_t used = parities & 1u << first;
  for (std::uint32_t next = 0;; ++next) {
    const srs::RowPlan plan = srs::PlanRow(generator, lost_columns, all & ~used);
    for (const srs::Recipe& recipe : plan.recipes) {
      if (!recipe.lost.is_parity && recipe.lost.index == column) return recipe;
    }
    while (next < generator.rows() && (!Has(parities, next) || Has(used, next))) ++next;
    if (next >= generator.rows()) return std::nullopt;
    used |= 1u << next;
  }
}

std::uint32_t ParitiesOf(const srs::Recipe& recipe) {
  std::uint32_t mask = 0;
  for (const srs::Term& term : recipe.terms) {
    if (term.survivor.is_parity) mask |= 1u << term.survivor.index;
  }
  return mask;
}

}  // namespace ring::recovery
