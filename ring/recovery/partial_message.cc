#include "ring/recovery/partial_message.h"

#include "absl/status/status.h"
#include "ring/base/check.h"
#include "ring/base/wire.h"

namespace ring::recovery {
namespace {

// How many steps the tree at the front has; 0: they end within it.
std::size_t SizeOfTree(absl::Span<const PartialStep> steps) {
  std::size_t size = 0;
  for (std::size_t open = 1; open > 0; ++size) {
    if (size == steps.size()) return 0;
    open += steps[size].child_count;
    --open;
  }
  return size;
}

}  // namespace

std::vector<absl::Span<const PartialStep>> Children(absl::Span<const PartialStep> steps) {
  std::vector<absl::Span<const PartialStep>> children;
  absl::Span<const PartialStep> rest = steps.subspan(1);
  for (std::uint8_t i = 0; i < steps[0].child_count; ++i) {
    const std::size_t size = SizeOfTree(rest);
    RING_CHECK(size > 0) << "steps=" << steps.size();
    children.push_back(rest.first(size));
    rest.remove_prefix(size);
  }
  return children;
}

std::string Encode(const PartialRequest& request) {
  ByteWriter out;
  out.Put(request.group.value());
  out.Put(request.memgest.value());
  out.Put(request.epoch.value());
  out.Put(request.reader.value());
  out.Put(request.token);
  out.Put(request.offset);
  out.Put(request.length);
  for (const PartialStep& step : request.steps) {
    out.Put(step.shard.value());
    out.Put(step.block);
    out.Put(step.coefficient);
    out.Put(step.child_count);
  }
  return out.Take();
}

absl::StatusOr<PartialRequest> DecodePartialRequest(absl::string_view bytes) {
  ByteReader in(bytes);
  PartialRequest request;
  request.group = GroupId(in.Get<std::uint16_t>());
  request.memgest = MemgestId(in.Get<std::uint16_t>());
  request.epoch = Epoch(in.Get<std::uint32_t>());
  request.reader = NodeId(in.Get<std::uint32_t>());
  request.token = in.Get<std::uint64_t>();
  request.offset = in.Get<std::uint32_t>();
  request.length = in.Get<std::uint32_t>();
  while (in.ok() && !in.finished() && request.steps.size() < PartialRequest::kStepsMax) {
    PartialStep step;
    step.shard = ShardId(in.Get<std::uint16_t>());
    step.block = in.Get<std::uint32_t>();
    step.coefficient = in.Get<std::uint8_t>();
    step.child_count = in.Get<std::uint8_t>();
    request.steps.push_back(step);
  }
  const bool tree =
      in.finished() && !request.steps.empty() && SizeOfTree(request.steps) == request.steps.size();
  if (!tree) return absl::InvalidArgumentError("body of a partial sum is malformed");
  return request;
}

}  // namespace ring::recovery
