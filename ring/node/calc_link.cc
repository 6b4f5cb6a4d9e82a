#include "ring/node/calc_link.h"

#include "ring/base/log.h"
#include "ring/base/status.h"

namespace ring::node {

using memgest::CalcQueue;
using rdma::ConnectionEvent;

namespace {

constexpr std::uint64_t kConnectAgainNs = 100'000'000;

absl::string_view NameOf(CalcQueue::Trouble trouble) {
  switch (trouble) {
    case CalcQueue::Trouble::kNone:
      break;
    case CalcQueue::Trouble::kFailed:
      return "a calculation failed";
    case CalcQueue::Trouble::kWrong:
      return "a calculation was wrong";
    case CalcQueue::Trouble::kLate:
      return "a calculation did not end";
  }
  return "the connection was closed";
}

}  // namespace

absl::StatusOr<std::unique_ptr<CalcLink>> CalcLink::Create(const Options& options) {
  const rdma::Device::Caps& caps = options.device->caps();
  if (!caps.calc || !caps.calc_crc) {
    return absl::FailedPreconditionError(
        caps.calc ? "encode=\"nic\": this device calculates no CRCs, which log entries need: "
                    "write encode = \"host\" or \"auto\""
                  : "encode=\"nic\": this device does not calculate: write encode = \"host\" or "
                    "\"auto\"");
  }
  // Both ends; nothing is ever received.
  RING_ASSIGN_OR_RETURN(std::unique_ptr<rdma::CompletionQueue> cq,
                        options.device->CreateCompletionQueue(4 * CalcQueue::kJobsMax));
  return std::unique_ptr<CalcLink>(new CalcLink(options, std::move(cq)));
}

CalcLink::CalcLink(const Options& options, std::unique_ptr<rdma::CompletionQueue> cq)
    : options_(options), cq_(std::move(cq)), queue_(options.check_every) {}

CalcLink::~CalcLink() { queue_.Close(); }

void CalcLink::Connect() {
  absl::StatusOr<std::unique_ptr<rdma::QueuePair>> qp =
      options_.device->Connect(address_,
                               {.send_cq = cq_.get(),
                                .recv_cq = cq_.get(),
                                .send_depth = CalcQueue::kJobsMax,
                                .recv_depth = 1},
                               options_.word);
  if (!qp.ok()) return Pause(kConnectAgainNs);  // memory that ran out comes back
  near_ = *std::move(qp);
  state_ = State::kConnecting;
  until_ns_ = now_ns_ + kConnectNs;
}

void CalcLink::Pause(std::uint64_t pause_ns) {
  queue_.Close();
  near_.reset();
  far_.reset();
  if (state_ == State::kGivenUp) return;
  state_ = State::kPaused;
  until_ns_ = now_ns_ + pause_ns;
}

bool CalcLink::OnConnectRequest(std::uint64_t request, absl::string_view private_data) {
  if (private_data != options_.word) return false;
  absl::StatusOr<std::unique_ptr<rdma::QueuePair>> qp = options_.device->Accept(
      request, {.send_cq = cq_.get(), .recv_cq = cq_.get(), .send_depth = 1, .recv_depth = 1}, "");
  if (qp.ok()) {
    far_ = *std::move(qp);
  } else {
    options_.device->Reject(request, qp.status().message());
  }
  return true;
}

bool CalcLink::OnEvent(const ConnectionEvent& event) {
  if (event.qp == nullptr || (event.qp != near_.get() && event.qp != far_.get())) return false;
  if (event.kind == ConnectionEvent::Kind::kEstablished) {
    if (event.qp != near_.get()) return true;
    state_ = State::kOpen;
    queue_.Open(near_.get(), cq_.get());
    return true;
  }
  Pause(kConnectAgainNs);
  return true;
}

bool CalcLink::Progress(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  switch (state_) {
    case State::kOpen: {
      const bool any = queue_.Progress(now_ns);
      // It may have closed since, in a post or a look of the turn before.
      if (!queue_.open()) OnTrouble(queue_.trouble());
      return any;
    }
    case State::kPaused:
      if (now_ns >= until_ns_ && !address_.empty()) Connect();
      return false;
    case State::kConnecting:
      if (now_ns >= until_ns_) Pause(kConnectAgainNs);
      return false;
    case State::kGivenUp:
      return false;
  }
  return false;
}

void CalcLink::OnTrouble(CalcQueue::Trouble trouble) {
  if (trouble == CalcQueue::Trouble::kNone) return Pause(0);  // an epoch began with CALCs under way
  const std::uint64_t sound = queue_.counters().calculated - sound_before_;
  if (sound >= kForgiveCount) troubles_ = 0;
  sound_before_ = queue_.counters().calculated;
  const std::uint64_t pause_ns = kPauseNs << troubles_;
  ++troubles_;
  if (trouble == CalcQueue::Trouble::kWrong || troubles_ >= kTroublesMax) {
    state_ = State::kGivenUp;
    RING_LOG(WARNING) << "encode=nic: " << NameOf(trouble)
                      << "; until this node starts again its own thread calculates. Look at the "
                         "network device";
  } else if (!told_) {
    RING_LOG(WARNING) << "encode=nic: " << NameOf(trouble)
                      << "; this node's thread did it, and goes on for a while. Of further ones "
                         "only the last is told";
  }
  told_ = true;
  Pause(pause_ns);
}

}  // namespace ring::node
