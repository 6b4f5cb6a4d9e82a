#include "ring/node/recovery/partial_service.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ec_offload/kernels.h"
#include "ring/base/status.h"
#include "ring/node/node.h"

namespace ring::node {
namespace {

// Within the freezes' 1 s and a cut's time (decode_job.h).
constexpr std::uint64_t kBelowTimeoutNs = 300'000'000;

std::byte* BytesOf(std::string& bytes) { return reinterpret_cast<std::byte*>(bytes.data()); }

}  // namespace

PartialService::PartialService(Node* node, BlockFreezer* freezer) : node_(node), freezer_(freezer) {
  node->control().Handle(ControlType::kPartial,
                         [this](NodeId, absl::string_view body, ControlReply reply) {
                           OnPartial(body, std::move(reply));
                         });
}

void PartialService::OnPartial(absl::string_view body, ControlReply reply) {
  const absl::StatusOr<recovery::PartialRequest> request = recovery::DecodePartialRequest(body);
  if (!request.ok()) return reply(request.status());
  if (sums_ >= kSumsMax)
    return reply(absl::ResourceExhaustedError("too many partial sums are made here: retry"));
  absl::StatusOr<std::string> own = OwnTerm(*request);
  if (!own.ok()) return reply(own.status());
  const auto sum = std::make_shared<Sum>();
  sum->bytes = *std::move(own);
  sum->length = request->length;
  sum->reply = std::move(reply);
  const auto children = recovery::Children(request->steps);
  ++sums_;
  sum->left = children.size();
  if (children.empty()) return Answer(*sum);
  for (const absl::Span<const recovery::PartialStep> child : children) {
    recovery::PartialRequest below = *request;
    below.steps.assign(child.begin(), child.end());
    const NodeId owner = node_->view()->Coordinator(below.group, child[0].shard);
    node_->control().Call(owner, ControlType::kPartial, recovery::Encode(below), kBelowTimeoutNs,
                          [this, sum](absl::StatusOr<std::string> answer) {
                            Add(*sum, std::move(answer));
                            if (--sum->left == 0) Answer(*sum);
                          });
  }
}

absl::StatusOr<std::string> PartialService::OwnTerm(const recovery::PartialRequest& request) {
  if (node_->view() == nullptr) return absl::UnavailableError("has no view yet");
  const cluster::View& view = *node_->view();
  const protocol::MemgestDescriptor* const memgest = view.FindMemgest(request.memgest);
  if (request.group.value() >= view.groups.size() || memgest == nullptr)
    return absl::InvalidArgumentError("no such row");
  for (const recovery::PartialStep& step : request.steps) {
    if (step.shard.value() >= view.s)
      return absl::InvalidArgumentError(absl::StrCat("no such shard=", step.shard.value()));
  }
  if (view.groups[request.group.value()].epoch != request.epoch)
    return absl::AbortedError("the epoch is another one");
  const std::uint64_t end = std::uint64_t{request.offset} + request.length;
  if (request.length == 0 || end > memgest->block_size)
    return absl::InvalidArgumentError(absl::StrCat("offset=", request.offset,
                                                   " length=", request.length, " of a block of ",
                                                   memgest->block_size));
  const recovery::PartialStep& own = request.steps[0];
  RING_ASSIGN_OR_RETURN(const std::byte* const block,
                        freezer_->Held(request.reader, request.token,
                                       {request.group, own.shard, request.memgest}, own.block));
  if (block == nullptr) return std::string();
  std::string bytes(request.length, '\0');
  ec_offload::Multiply(BytesOf(bytes), block + request.offset, own.coefficient, bytes.size());
  node_->control().Spend(bytes.size());
  return bytes;
}

void PartialService::Add(Sum& sum, absl::StatusOr<std::string> below) {
  absl::Status status = below.status();
  if (below.ok() && !below->empty() && below->size() != sum.length)
    status = absl::InvalidArgumentError(absl::StrCat("a partial sum of size=", below->size()));
  if (!status.ok()) {
    if (sum.status.ok()) sum.status = status;
  } else if (sum.bytes.empty()) {
    sum.bytes = *std::move(below);
  } else if (!below->empty()) {
    ec_offload::XorInto(BytesOf(sum.bytes), BytesOf(*below), sum.length);
  }
}

void PartialService::Answer(Sum& sum) {
  --sums_;
  if (!sum.status.ok()) return sum.reply(sum.status);
  sum.reply(std::move(sum.bytes));
}

}  // namespace ring::node
