// Health and accepted losses, as they travel in calls of the admin service.
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/admin/convert.h"
#include "api/admin/known_enum.h"

namespace ring::admin {
namespace {

using Ids = google::protobuf::RepeatedField<google::protobuf::uint32>;

// Of a number that no memgest can have nothing is lost.
std::vector<MemgestId> MemgestsOf(const Ids& ids) {
  std::vector<MemgestId> memgests;
  for (const std::uint32_t id : ids) {
    if (id <= std::numeric_limits<std::uint16_t>::max())
      memgests.emplace_back(static_cast<std::uint16_t>(id));
  }
  return memgests;
}

}  // namespace

v1::GetHealthResponse ToProto(const cluster::Health& health) {
  v1::GetHealthResponse out;
  out.set_level(static_cast<v1::HealthLevel>(health.level));
  out.set_view_epoch(health.view_epoch);
  out.set_leader(health.leader.value());
  for (const cluster::MemgestHealth& memgest : health.memgests) {
    v1::MemgestHealth* one = out.add_memgests();
    one->set_id(memgest.id.value());
    one->set_name(memgest.name);
    one->set_scheme_name(memgest.scheme);
    one->set_condition(static_cast<v1::Condition>(memgest.condition));
    one->set_failures_promised(static_cast<std::uint32_t>(memgest.promised));
    one->set_failures_survived(static_cast<std::uint32_t>(memgest.now));
    one->set_recovered(memgest.recovered);
    one->set_keys(memgest.keys);
    one->set_keys_at_risk(memgest.keys_at_risk);
    one->set_keys_lost(memgest.keys_lost);
  }
  for (const cluster::ShardHealth& shard : health.shards) {
    v1::ShardHealth* one = out.add_shards();
    one->set_group(shard.group.value());
    one->set_shard(shard.shard.value());
    one->set_coordinator(shard.coordinator.value());
    one->set_stopped(shard.stopped);
    one->set_reason(shard.reason);
    one->set_epoch(shard.epoch.value());
    for (const MemgestId memgest : shard.lost) one->add_lost(memgest.value());
  }
  for (const std::string& warning : health.warnings) out.add_warnings(warning);
  return out;
}

cluster::Health FromProto(const v1::GetHealthResponse& response) {
  cluster::Health out;
  out.level = Known<cluster::HealthLevel>(response.level(), 3);
  out.view_epoch = response.view_epoch();
  out.leader = NodeId(response.leader());
  for (const v1::MemgestHealth& memgest : response.memgests()) {
    cluster::MemgestHealth one;
    one.id = MemgestId(static_cast<std::uint16_t>(memgest.id()));
    one.name = memgest.name();
    one.scheme = memgest.scheme_name();
    one.condition = Known<cluster::Condition>(memgest.condition(), 4);
    one.promised = static_cast<int>(memgest.failures_promised());
    one.now = static_cast<int>(memgest.failures_survived());
    one.recovered = memgest.recovered();
    one.keys = memgest.keys();
    one.keys_at_risk = memgest.keys_at_risk();
    one.keys_lost = memgest.keys_lost();
    out.memgests.push_back(std::move(one));
  }
  for (const v1::ShardHealth& shard : response.shards()) {
    out.shards.push_back({GroupId(static_cast<std::uint16_t>(shard.group())),
                          ShardId(static_cast<std::uint16_t>(shard.shard())),
                          NodeId(shard.coordinator()), shard.stopped(), shard.reason(),
                          Epoch(shard.epoch()), MemgestsOf(shard.lost())});
  }
  out.warnings.assign(response.warnings().begin(), response.warnings().end());
  return out;
}

v1::AcceptLossRequest ToProto(absl::Span<const cluster::StoppedShard> shards) {
  v1::AcceptLossRequest out;
  for (const cluster::StoppedShard& shard : shards) {
    v1::StoppedShard* one = out.add_shards();
    one->set_group(shard.group.value());
    one->set_shard(shard.shard.value());
    one->set_epoch(shard.epoch.value());
    for (const MemgestId memgest : shard.lost) one->add_lost(memgest.value());
  }
  return out;
}

absl::StatusOr<std::vector<cluster::StoppedShard>> FromProto(const v1::AcceptLossRequest& request) {
  if (request.shards().empty())
    return absl::InvalidArgumentError("shards is empty: name those that GetHealth calls stopped");
  std::vector<cluster::StoppedShard> shards;
  for (const v1::StoppedShard& shard : request.shards()) {
    constexpr std::uint32_t kMax = std::numeric_limits<std::uint16_t>::max();
    if (shard.group() > kMax || shard.shard() > kMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("shards: group=", shard.group(), " shard=", shard.shard(), " is none"));
    }
    shards.push_back({GroupId(static_cast<std::uint16_t>(shard.group())),
                      ShardId(static_cast<std::uint16_t>(shard.shard())), Epoch(shard.epoch()),
                      MemgestsOf(shard.lost())});
  }
  return shards;
}

}  // namespace ring::admin
