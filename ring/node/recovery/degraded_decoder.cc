#include "ring/node/recovery/degraded_decoder.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ring/cluster/active_roles.h"
#include "ring/node/node.h"
#include "ring/recovery/block_message.h"

namespace ring::node {
namespace {
constexpr std::uint64_t kDecodeTimeoutNs = 1'000'000'000;
}  // namespace

// The parities that are data-complete by the record.
std::vector<NodeId> DegradedDecoder::Sources(const coordinator::ShardOptions& shard,
                                             MemgestId memgest) const {
  std::vector<NodeId> sources;
  const cluster::View& view = *node_->view();
  const cluster::GroupView& group = view.groups[shard.group.value()];
  const cluster::NormalRecord& normal = group.shards[shard.shard.value()].normal;
  const protocol::MemgestDescriptor* const descriptor = view.FindMemgest(memgest);
  if (descriptor == nullptr || normal.epoch != shard.epoch) return sources;
  const RoleMask complete =
      cluster::CompleteFor(normal, *descriptor, shard.shard, shard.s, shard.d);
  for (std::size_t j = 0; j < descriptor->m; ++j) {
    const std::size_t role = static_cast<std::size_t>(shard.s) + j;
    if (Has(complete, role)) sources.push_back(group.roles[role]);
  }
  return sources;
}

void DegradedDecoder::Decode(coordinator::ShardCoordinator& shard, MemgestId memgest,
                             std::uint32_t block, std::uint64_t index, std::uint32_t left_out,
                             std::uint64_t token) {
  const GroupId group = shard.options().group;
  const ShardId number = shard.options().shard;
  const Epoch epoch = shard.options().epoch;
  const std::vector<NodeId> sources = Sources(shard.options(), memgest);
  if (sources.empty()) {
    return shard.OnDecoded(token, absl::UnavailableError("no parity has all of the shard"));
  }
  recovery::DecodeRequest request;
  request.log = {group, number, memgest};
  request.epoch = epoch;
  request.block = block;
  request.index = index;
  request.urgent = true;
  request.left_out = left_out;
  const auto on_answer = [node = node_, group, number, epoch,
                          token](const absl::StatusOr<std::string>& body) {
    CoordinatedShard* const here = node->FindShard(group, number);
    const bool same = here != nullptr && here->coordinator() != nullptr &&
                      here->coordinator()->options().epoch == epoch;
    if (!same) return;
    const absl::StatusOr<recovery::DecodeAnswer> answer =
        body.ok() ? recovery::DecodeDecodeAnswer(*body)
                  : absl::StatusOr<recovery::DecodeAnswer>(body.status());
    here->coordinator()->OnDecoded(
        token, answer.ok() ? absl::StatusOr<absl::string_view>(answer->bytes) : answer.status());
  };
  node_->control().Call(sources[next_source_++ % sources.size()], ControlType::kDecode,
                        recovery::Encode(request), kDecodeTimeoutNs, on_answer);
}

}  // namespace ring::node
