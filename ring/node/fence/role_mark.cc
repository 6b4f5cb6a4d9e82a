#include "ring/node/fence/role_mark.h"

#include <algorithm>
#include <variant>

#include "ring/base/mutant.h"
#include "ring/base/wire.h"
#include "ring/cluster/cluster_command.h"
#include "ring/coordinator/key_hash.h"

namespace ring::node {
namespace {
constexpr std::uint64_t kSeed = 0x52494e47'46454e43;
}  // namespace

bool MayChangeRoles(absl::string_view command) {
  const absl::StatusOr<cluster::ClusterCommand> decoded = cluster::DecodeClusterCommand(command);
  if (!decoded.ok()) return true;
  return !std::holds_alternative<cluster::SetNormal>(*decoded) &&
         !std::holds_alternative<cluster::Overrun>(*decoded) &&
         !std::holds_alternative<cluster::CatalogueCommand>(*decoded);
}

std::uint64_t RoleWord(consensus::ServerId voter, const RoleMark& mark) {
  ByteWriter out;
  out.Put(Mutant("L1-amnesia") ? std::uint64_t{0} : voter.value());
  out.Put(mark.roles);
  out.Put(Mutant("L1-founding") ? std::uint64_t{0} : mark.founding);
  if (!Mutant("L1-voters")) {
    for (const consensus::ServerId one : mark.voters) out.Put(one.value());
  }
  return std::max<std::uint64_t>(1, coordinator::KeyHash(out.bytes(), kSeed));
}

}  // namespace ring::node
