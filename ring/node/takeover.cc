#include "ring/node/takeover.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/base/status.h"

namespace ring::node {
namespace {
constexpr std::uint64_t kFetchTimeoutNs = 1'000'000'000;
constexpr std::uint32_t kLineCountMax = 1u << 26;
}  // namespace

using recovery::FetchKind;

Takeover::Takeover(rdma::Device* device, ControlPort* control, const recovery::EpochPlan& plan,
                   const std::vector<recovery::AdoptedLog>& logs, Done done)
    : control_(control),
      group_(plan.group),
      shard_(plan.shard),
      epoch_(plan.epoch),
      done_(std::move(done)),
      store_(std::make_unique<memgest::MemberShard>(device, plan.group, plan.shard, kLineCountMax)),
      alive_(std::make_shared<bool>(true)) {
  for (const protocol::MemgestDescriptor& memgest : plan.memgests) {
    if (memgest.scheme == protocol::Scheme::kReplicated) {
      store_->AddReplica(memgest);
    } else {
      store_->AddMetadata(memgest);
    }
  }
  std::vector<Step> tails;
  for (const recovery::AdoptedLog& log : logs) {
    if (!log.source.has_value()) continue;
    const NodeId source = plan.last->holders[log.source->value()].node;
    const auto known = std::find_if(steps_.begin(), steps_.end(),
                                    [source](const Step& step) { return step.source == source; });
    if (known == steps_.end()) {
      steps_.push_back({FetchKind::kSnapshot, source, {log.memgest}});
    } else {
      known->memgests.push_back(log.memgest);
    }
    tails.push_back({FetchKind::kTail, source, {log.memgest}});
  }
  steps_.insert(steps_.end(), tails.begin(), tails.end());
}

Takeover::~Takeover() = default;

void Takeover::Start() {
  if (steps_.empty()) return done_(absl::OkStatus());
  Ask();
}

void Takeover::Ask() {
  const Step& step = steps_[step_];
  recovery::FetchRequest request;
  request.kind = step.kind;
  request.group = group_;
  request.shard = shard_;
  request.epoch = epoch_;
  request.id = id_;
  request.piece = piece_;
  request.memgests = step.memgests;
  if (step.kind == FetchKind::kTail) {
    if (id_ == 0) decoder_ = std::make_unique<memgest::TailDecoder>();
    request.after_index = store_->applied(step.memgests.front());
  }
  control_->Call(
      step.source, ControlType::kFetch, EncodeFetchRequest(request), kFetchTimeoutNs,
      [this, alive = std::weak_ptr<bool>(alive_)](const absl::StatusOr<std::string>& bytes) {
        if (alive.expired()) return;
        const absl::Status status = Take(bytes);
        if (!status.ok() || step_ == steps_.size()) return done_(status);
        Ask();
      });
}

absl::Status Takeover::Take(const absl::StatusOr<std::string>& bytes) {
  RING_RETURN_IF_ERROR(bytes.status());
  RING_ASSIGN_OR_RETURN(const recovery::FetchAnswer answer, recovery::DecodeFetchAnswer(*bytes));
  RING_RETURN_IF_ERROR(TakePiece(answer));
  id_ = answer.id;
  if (++piece_ < answer.piece_count) return absl::OkStatus();
  if (steps_[step_].kind == FetchKind::kTail && !decoder_->done())
    return absl::InvalidArgumentError("the shipped tail ends within an entry");
  ++step_;
  id_ = 0;
  piece_ = 0;
  return absl::OkStatus();
}

absl::Status Takeover::TakePiece(const recovery::FetchAnswer& answer) {
  if (steps_[step_].kind == FetchKind::kSnapshot) return store_->Install(answer.piece);
  return decoder_->Add(
      answer.piece, [this](const memgest::EntryView& entry) { return store_->FoldShipped(entry); });
}

}  // namespace ring::node
