#include "ring/node/recovery/takeover.h"

#include <algorithm>
#include <utility>

#include "ring/base/status.h"

namespace ring::node {
namespace {
constexpr std::uint64_t kFetchTimeoutNs = 1'000'000'000;
}  // namespace

using recovery::FetchKind;

Takeover::Takeover(rdma::Device* device, ControlPort* control, const recovery::EpochPlan& plan,
                   const std::vector<recovery::AdoptedLog>& logs, Done done)
    : store_(std::make_unique<memgest::MemberShard>(device, plan.group, plan.shard,
                                                    memgest::kLineCountMax)) {
  for (const protocol::MemgestDescriptor& memgest : plan.memgests) {
    if (memgest.scheme == protocol::Scheme::kReplicated) {
      store_->AddReplica(memgest);
    } else {
      store_->AddMetadata(memgest);
    }
  }
  recovery::FetchRequest request;
  request.group = plan.group;
  request.shard = plan.shard;
  request.epoch = plan.epoch;
  std::vector<PieceFetch::Thing> things, tails;
  std::vector<Step> tail_steps;
  for (const recovery::AdoptedLog& log : logs) {
    if (!log.source.has_value()) continue;
    const NodeId source = plan.last->holders[log.source->value()].node;
    const auto known =
        std::find_if(things.begin(), things.end(),
                     [source](const PieceFetch::Thing& thing) { return thing.source == source; });
    if (known == things.end()) {
      request.kind = FetchKind::kSnapshot;
      request.memgests = {log.memgest};
      request.index = 0;
      things.push_back({source, request});
      steps_.emplace_back();
    } else {
      known->request.memgests.push_back(log.memgest);
    }
    // Entries that the source folded may be in its ring yet.
    request.kind = FetchKind::kTail;
    request.memgests = {log.memgest};
    request.index = std::min(log.applied, log.shortest);
    tails.push_back({source, request});
    tail_steps.push_back({FetchKind::kTail, log.memgest, *log.source, log.applied, log.shortest});
  }
  things.insert(things.end(), tails.begin(), tails.end());
  steps_.insert(steps_.end(), tail_steps.begin(), tail_steps.end());
  const auto send = [control](NodeId source, const recovery::FetchRequest& fetch,
                              ControlReply answered) {
    control->Call(source, ControlType::kFetch, EncodeFetchRequest(fetch), kFetchTimeoutNs,
                  std::move(answered), CallWait::kForTheSlow);
  };
  fetch_ = std::make_unique<PieceFetch>(
      send, std::move(things),
      [this](std::size_t step, std::uint32_t number, absl::string_view piece, bool last) {
        return TakePiece(step, number, piece, last);
      },
      [this](std::size_t step, const absl::Status& status, recovery::FetchRequest* again) {
        return AskAgain(step, status, again);
      },
      std::move(done));
}

Takeover::~Takeover() = default;

// What the shortest lacks is in no ring any more: who lacks it joins.
bool Takeover::AskAgain(std::size_t index, const absl::Status& status,
                        recovery::FetchRequest* request) {
  Step& step = steps_[index];
  if (step.kind != FetchKind::kTail || !absl::IsOutOfRange(status) || step.shortest >= step.applied)
    return false;
  step.shortest = step.applied;
  request->index = step.applied;
  return true;
}

absl::Status Takeover::TakePiece(std::size_t index, std::uint32_t number, absl::string_view piece,
                                 bool last) {
  const Step& step = steps_[index];
  if (step.kind == FetchKind::kSnapshot) return store_->Install(piece);
  if (number == 0) decoder_ = std::make_unique<memgest::TailDecoder>();
  RING_RETURN_IF_ERROR(decoder_->Add(
      piece, [this, &step](const memgest::EntryView& entry) { return TakeEntry(step, entry); }));
  if (last && !decoder_->done())
    return absl::InvalidArgumentError("the shipped tail ends within an entry");
  return absl::OkStatus();
}

absl::Status Takeover::TakeEntry(const Step& step, const memgest::EntryView& entry) {
  if (entry.header.index > store_->applied(step.memgest)) {
    RING_RETURN_IF_ERROR(store_->FoldShipped(entry));
  }
  if (entry.header.index > step.shortest) tail_.Keep(entry, step.role);
  return absl::OkStatus();
}

}  // namespace ring::node
