#include "ring/node/control/drain_message.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ring/base/wire.h"

namespace ring::node {
namespace {

using coordinator::DrainCounts;

const ShardDrain* FindCount(const cluster::GroupView& group, GroupId id, ShardId shard,
                            absl::Span<const std::pair<NodeId, DrainAnswer>> answers) {
  for (const auto& [node, answer] : answers) {
    if (node != group.roles[shard.value()] ||
        answer.incarnation != group.incarnations[shard.value()])
      continue;
    const auto found =
        std::find_if(answer.shards.begin(), answer.shards.end(),
                     [&](const ShardDrain& one) { return one.group == id && one.shard == shard; });
    if (found != answer.shards.end()) return &*found;
  }
  return nullptr;
}

}  // namespace

std::string EncodeDrainRequest(const DrainRequest& request) {
  ByteWriter out;
  out.Put(request.memgest.value());
  out.Put(static_cast<std::uint8_t>(request.drop ? 1 : 0));
  return out.Take();
}

absl::StatusOr<DrainRequest> DecodeDrainRequest(absl::string_view bytes) {
  ByteReader in(bytes);
  DrainRequest request;
  request.memgest = MemgestId(in.Get<std::uint16_t>());
  const auto drop = in.Get<std::uint8_t>();
  if (!in.finished() || drop > 1)
    return absl::InvalidArgumentError("control message body is malformed: drain");
  request.drop = drop == 1;
  return request;
}

std::string EncodeDrainAnswer(const DrainAnswer& answer) {
  ByteWriter out;
  out.Put(answer.incarnation.value());
  out.Put(static_cast<std::uint16_t>(answer.shards.size()));
  for (const ShardDrain& one : answer.shards) {
    out.Put(one.group.value());
    out.Put(one.shard.value());
    const DrainCounts& counts = one.counts;
    for (const std::uint64_t value : {counts.keys, counts.versions, counts.records, counts.pending})
      out.Put(value);
  }
  return out.Take();
}

absl::StatusOr<DrainAnswer> DecodeDrainAnswer(absl::string_view bytes) {
  ByteReader in(bytes);
  DrainAnswer answer;
  answer.incarnation = Incarnation(in.Get<std::uint64_t>());
  const auto count = in.Get<std::uint16_t>();
  for (std::uint16_t i = 0; i < count && in.ok(); ++i) {
    ShardDrain& one = answer.shards.emplace_back();
    one.group = GroupId(in.Get<std::uint16_t>());
    one.shard = ShardId(in.Get<std::uint16_t>());
    DrainCounts& counts = one.counts;
    for (std::uint64_t* const value :
         {&counts.keys, &counts.versions, &counts.records, &counts.pending})
      *value = in.Get<std::uint64_t>();
  }
  if (!in.finished())
    return absl::InvalidArgumentError("control message body is malformed: drain counts");
  return answer;
}

absl::StatusOr<DrainCounts> SumOfShards(const cluster::View& view,
                                        absl::Span<const std::pair<NodeId, DrainAnswer>> answers) {
  DrainCounts sum;
  for (std::size_t g = 0; g < view.groups.size(); ++g) {
    for (int i = 0; i < view.s; ++i) {
      const GroupId group(static_cast<std::uint16_t>(g));
      const ShardId shard(static_cast<std::uint16_t>(i));
      const ShardDrain* const one = FindCount(view.groups[g], group, shard, answers);
      if (one == nullptr) {
        return absl::UnavailableError(
            absl::StrCat("group=", g, " shard=", i,
                         " was not counted: its coordinator is another start by now: try again"));
      }
      sum.keys += one->counts.keys;
      sum.versions += one->counts.versions;
      sum.records += one->counts.records;
      sum.pending += one->counts.pending;
    }
  }
  return sum;
}

}  // namespace ring::node
