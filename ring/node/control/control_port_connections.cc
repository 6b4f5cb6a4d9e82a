// Who is connected: handshakes, incarnations (L8), attempts and losses.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/log.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"
#include "ring/cluster/view.h"
#include "ring/node/config/control_config.h"
#include "ring/node/control/control_port.h"

namespace ring::node {
namespace {
constexpr std::uint64_t kBackoffMinNs = 20'000'000;
// A peer that stands still may take the connection and never answer the handshake.
constexpr std::uint64_t kConnectNs = 3'000'000'000;
// An attempt that began so long ago was meant for another start, or is lost on its way.
constexpr std::uint64_t kOldAttemptNs = 100'000'000;
// Both ends say something when they have heard nothing for so long. To a peer that is gone without
// a word, with nothing under way to it, nobody would ever notice it: not even who has much to say,
// once the peer's room for it is taken.
constexpr std::uint64_t kQuietNs = 1'000'000'000;
constexpr std::size_t kOverMax = 16;
}  // namespace

// L8: a node that comes back with another incarnation lost its memory. It may connect when the
// connection of its former start has ended, and then that start is over for good.
absl::Status ControlPort::CheckIncarnation(std::uint32_t node, std::uint64_t incarnation) {
  const std::uint64_t known = incarnations_[node];
  if (incarnation == 0) return absl::InvalidArgumentError("incarnation=0 is none");
  if (known == 0 || known == incarnation) return absl::OkStatus();
  const std::vector<std::uint64_t>& over = over_[node];
  if (std::find(over.begin(), over.end(), incarnation) != over.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("incarnation=", incarnation, " of node ", node, " is over (L8)"));
  }
  // L4: whom the cluster does without keeps nobody out, as a process does that stands still.
  if (links_[node]->up() && IsAway(*links_[node]) && !Mutant("L8-frozen"))
    Lose(*links_[node], "another start of the node is there, and it failed or was removed (L8)");
  if (links_[node]->up()) {
    // The other start may have gone without a word: then this tells.
    links_[node]->Probe();
    return absl::FailedPreconditionError(absl::StrCat(
        "node ", node, " is connected with another incarnation (L8): incarnation=", incarnation,
        " known=", known, "; retry"));
  }
  return absl::OkStatus();
}

// 10.6: voters that forgot everything may found the cluster again while others still have what it
// was. Logs, epochs and starts of the two have the same numbers for different things.
absl::Status ControlPort::CheckFounding(std::uint64_t founding) const {
  if (founding == 0 || founding_ == 0 || founding == founding_) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "one of the two has its part in a cluster that was founded anew since, without it: stop the "
      "node of the former one, and start it again");
}

void ControlPort::SetFounding(std::uint64_t founding) {
  if (founding == founding_) return;
  founding_ = founding;
  for (const std::unique_ptr<ControlLink>& link : links_) {
    const absl::Status same = CheckFounding(link->founding);
    if (link->qp() != nullptr && !same.ok()) Lose(*link, same.message());
  }
}

// A handshake alone replaces nobody: that of a former start may come late, when the start is gone.
void ControlPort::TakeIncarnation(std::uint32_t node, std::uint64_t incarnation) {
  std::uint64_t& known = incarnations_[node];
  if (known == incarnation) return;
  if (former_[node] == 0) former_[node] = known;
  known = incarnation;
}

// It spoke, so it is there. Of the start that is registered, and of one that was seen after it,
// nobody knows that it is over.
void ControlPort::ConfirmIncarnation(std::uint32_t node) {
  const std::uint64_t former = std::exchange(former_[node], 0);
  if (former == 0) return;
  const std::uint64_t known = incarnations_[node];
  const std::uint64_t registered = registered_[node];
  if (former != known && former != registered && known != registered) MarkOver(node, former);
}

void ControlPort::MarkOver(std::uint32_t node, std::uint64_t incarnation) {
  std::vector<std::uint64_t>& over = over_[node];
  if (std::find(over.begin(), over.end(), incarnation) != over.end()) return;
  if (over.size() == kOverMax) over.erase(over.begin());
  over.push_back(incarnation);
}

// Views come in their order (Node::TakeAgreed), but a node that catches up sees old ones, and a
// start connects before it can register: so a change from one start to another says that the first
// is over, and nothing of a third, which may be the present one.
void ControlPort::OnRegistered(NodeId node, Incarnation incarnation, bool away) {
  if (node == options_.node || node.value() >= links_.size()) return;
  away_[node.value()] = away;
  if (incarnation.value() == 0) return;
  const std::uint64_t before = std::exchange(registered_[node.value()], incarnation.value());
  if (before == incarnation.value()) return;
  std::erase(over_[node.value()], incarnation.value());
  // It is there now: who was away for long is tried at once (L4).
  ControlLink& link = *links_[node.value()];
  const bool connects = link.qp() != nullptr && !link.established();
  if (connects && now_ns_ >= AttemptedNs(link) + kOldAttemptNs)
    Lose(link, "its peer is there anew");
  if (link.qp() == nullptr) {
    link.backoff_ns = 0;
    link.retry_ns = next_step_ns_ = now_ns_;
  }
  if (before == 0) return;
  MarkOver(node.value(), before);
  if (incarnations_[node.value()] != before) return;
  incarnations_[node.value()] = incarnation.value();
  if (link.qp() != nullptr) Lose(link, "another start of the node registered (L8)");
}

void ControlPort::OnConnectRequest(std::uint64_t request, absl::string_view private_data) {
  const absl::Status status = TryAccept(request, private_data);
  if (status.ok()) return;
  // Other refusals are of starts that follow each other, and pass (L8).
  if (absl::IsInvalidArgument(status)) {
    const auto hello = protocol::DecodeHello<protocol::ControlHello>(private_data);
    const bool named = hello.ok() && hello->node < links_.size();
    refuses_.Refuses(named ? NodeId(hello->node) : cluster::kNoNode, status.message(), now_ns_);
  }
  options_.device->Reject(request, status.message().substr(0, rdma::kPrivateDataSizeMax));
}

absl::Status ControlPort::TryAccept(std::uint64_t request, absl::string_view private_data) {
  RING_ASSIGN_OR_RETURN(const protocol::ControlHello hello,
                        protocol::DecodeHello<protocol::ControlHello>(private_data));
  if (hello.cluster != options_.cluster)
    return absl::InvalidArgumentError("another cluster: check cluster names and s, d");
  // Who grants a lease waits by its own clock, and its own length, until the holder's is over.
  if (hello.fence != options_.fence && !Mutant("L1-length")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "it has ", FenceTermsName(hello.fence), ", this node ", FenceTermsName(options_.fence),
        ": let all files say the same of fail_over, fence, detect_ms and lease_ms"));
  }
  if (hello.node >= links_.size() || hello.node >= options_.node.value()) {
    return absl::InvalidArgumentError(absl::StrCat("control connections come from lower ids: node=",
                                                   hello.node, " here=", options_.node.value()));
  }
  RING_RETURN_IF_ERROR(CheckFounding(hello.founding));
  RING_RETURN_IF_ERROR(CheckIncarnation(hello.node, hello.incarnation));
  TakeIncarnation(hello.node, hello.incarnation);
  refuses_.Accepted(NodeId(hello.node));
  ControlLink& link = *links_[hello.node];
  if (link.qp() != nullptr) Lose(link, "the peer connected anew");
  link.moved = false;
  protocol::ControlAccept accept;
  accept.incarnation = options_.incarnation.value();
  accept.node = options_.node.value();
  accept.founding = founding_;
  RING_ASSIGN_OR_RETURN(std::unique_ptr<rdma::QueuePair> qp,
                        options_.device->Accept(request,
                                                {.send_cq = QueueOf(link.peer()),
                                                 .recv_cq = QueueOf(link.peer()),
                                                 .send_depth = ControlLink::kSendDepth,
                                                 .recv_depth = ControlLink::kReceiveCount},
                                                protocol::EncodeHello(accept)));
  link.founding = hello.founding;
  const absl::Status begun = link.Begin(std::move(qp));
  if (begun.ok()) {
    Establish(link);
  } else {
    Lose(link, begun.message());
  }
  return absl::OkStatus();  // the request is accepted: there is nobody to refuse any more
}

// A start that was reached, and failed, may be behind a network that does not carry: by another one
// it would come up, be told to move, and fail again. Of another start nobody knows yet how to reach
// it, and only connected it can say so.
absl::Status ControlPort::CheckFallback(const ControlLink& link, std::uint64_t incarnation) const {
  if (!FallsBack(link) || incarnation != registered_[link.peer().value()]) return absl::OkStatus();
  const std::string& address = addresses_[link.peer().value()];
  return absl::FailedPreconditionError(absl::StrCat("its start that failed is reached by ",
                                                    address.substr(0, address.find(':')),
                                                    " only: incarnation=", incarnation));
}

void ControlPort::Connect(ControlLink& link) {
  link.moved = false;
  const std::string& address = addresses_[link.peer().value()];
  const std::string fallback = FallbackOf(link.peer());
  link.address = fallback.empty() || FallsBack(link) ? address : fallback;
  link.backoff_ns = std::clamp(link.backoff_ns * 2, kBackoffMinNs, kAttemptsApartMaxNs);
  link.retry_ns = now_ns_ + link.backoff_ns;
  protocol::ControlHello hello;
  hello.cluster = options_.cluster;
  hello.incarnation = options_.incarnation.value();
  hello.node = options_.node.value();
  hello.fence = options_.fence;
  hello.founding = founding_;
  absl::StatusOr<std::unique_ptr<rdma::QueuePair>> qp =
      options_.device->Connect(link.address,
                               {.send_cq = QueueOf(link.peer()),
                                .recv_cq = QueueOf(link.peer()),
                                .send_depth = ControlLink::kSendDepth,
                                .recv_depth = ControlLink::kReceiveCount},
                               protocol::EncodeHello(hello));
  const absl::Status status = qp.ok() ? link.Begin(*std::move(qp)) : qp.status();
  if (!status.ok()) Lose(link, status.message());
}

bool ControlPort::OnEvent(const rdma::ConnectionEvent& event, std::uint64_t now_ns) {
  const auto found = std::find_if(links_.begin(), links_.end(),
                                  [&event](const std::unique_ptr<ControlLink>& link) {
                                    return event.qp != nullptr && link->qp() == event.qp;
                                  });
  if (found == links_.end()) return false;
  now_ns_ = now_ns;
  ControlLink& link = **found;
  if (event.kind == rdma::ConnectionEvent::Kind::kRejected && !event.private_data.empty())
    refused_.IsRefused(link.peer(), event.private_data, now_ns_);
  if (event.kind != rdma::ConnectionEvent::Kind::kEstablished) {
    Lose(link, event.private_data.empty() ? "gone" : event.private_data);
    return true;
  }
  if (link.up()) return true;
  const absl::StatusOr<protocol::ControlAccept> accept =
      protocol::DecodeHello<protocol::ControlAccept>(event.private_data);
  absl::Status status = accept.status();
  if (status.ok() && accept->node != link.peer().value()) {
    status = absl::InvalidArgumentError(absl::StrCat("answered by node ", accept->node));
  }
  if (status.ok()) status = CheckFounding(accept->founding);
  if (status.ok()) status = CheckIncarnation(accept->node, accept->incarnation);
  if (status.ok()) status = CheckFallback(link, accept->incarnation);
  if (status.ok()) {
    TakeIncarnation(accept->node, accept->incarnation);
    refused_.Accepted(link.peer());
    link.founding = accept->founding;
    Establish(link);
  } else {
    Lose(link, status.message());
  }
  return true;
}

std::uint64_t ControlPort::AttemptedNs(const ControlLink& link) {
  return link.retry_ns - std::min(link.retry_ns, link.backoff_ns);
}

// What its attempt would have waited for is over: when it is lost, it is made anew at once.
void ControlPort::Establish(ControlLink& link) {
  link.retry_ns = AttemptedNs(link) + kBackoffMinNs;
  link.heard_ns = now_ns_;
  link.was_up = true;
  link.Establish();
}

// Ends the connection; what was asked of the peer has an unknown outcome.
void ControlPort::Lose(ControlLink& link, absl::string_view why) {
  const bool was_established = link.established();
  // Both ends have seen the view that says so, so neither is surprised.
  const bool planned = std::exchange(link.moved, false);
  if (was_established && planned) {
    RING_LOG(INFO) << "control connection is made anew node=" << options_.node.value()
                   << " peer=" << link.peer().value() << ": " << why;
  } else if (was_established) {
    RING_LOG(WARNING) << "control connection lost node=" << options_.node.value()
                      << " peer=" << link.peer().value() << ": " << why;
  }
  link.Drop();
  answer_times_[link.peer().value()].Forget();
  link.last_error = std::string(why);
  if (link.retry_ns <= now_ns_) {
    // One that held is made anew at once: its peer waits for heartbeats, and has less patience for
    // who is not connected (L4). Attempts are kBackoffMinNs apart all the same.
    link.retry_ns = now_ns_ + (was_established ? 0 : kBackoffMinNs);
    if (was_established) next_step_ns_ = now_ns_;
  }
  std::vector<std::uint64_t> ended;
  for (const auto& [id, call] : calls_) {
    if (call.node == link.peer()) ended.push_back(id);
  }
  std::sort(ended.begin(), ended.end());
  for (const std::uint64_t id : ended) {
    PendingCall call = std::move(calls_.find(id)->second);
    calls_.erase(id);
    if (call.done == nullptr) continue;
    Later(std::move(call.done), absl::UnavailableError(absl::StrCat("node ", link.peer().value(),
                                                                    ": connection lost: ", why)));
  }
}

void ControlPort::ConnectAll() {
  for (const std::unique_ptr<ControlLink>& link : links_) {
    if (!link->failed().ok()) {  // posting failed
      const std::string why = std::string(link->failed().message());
      Lose(*link, why);
    }
    // Its process may stand still, and another start be where it was.
    if (link->up() && link->probed_in_vain() && IsAway(*link))
      Lose(*link, "failed or was removed, and is silent (L4)");
    if (link->up() && now_ns_ >= link->heard_ns + kQuietNs) {
      link->heard_ns = now_ns_;
      link->Probe();
    }
    const bool late = now_ns_ >= AttemptedNs(*link) + kConnectNs;
    if (link->qp() != nullptr && !link->established() && late) {
      Lose(*link,
           absl::StrCat("did not answer the handshake within ", kConnectNs / 1'000'000, " ms"));
    }
    const bool mine = link->peer() > options_.node && link->peer().value() < addresses_.size() &&
                      !addresses_[link->peer().value()].empty();
    // Whoever accepts is told of it by the loss; one that comes much later is none of that.
    if (!mine && link->moved && now_ns_ >= link->moved_ns + kConnectNs) link->moved = false;
    if (link->moved && mine && link->qp() != nullptr)
      Lose(*link, "another transport reaches the peer now");
    if (mine && link->qp() == nullptr && now_ns_ >= link->retry_ns) Connect(*link);
  }
}

bool ControlPort::Awaited(const ControlLink& link) const {
  if (link.peer() == options_.node || link.up()) return false;
  return link.peer().value() >= awaited_.size() || awaited_[link.peer().value()];
}

bool ControlPort::ready() const {
  return std::none_of(links_.begin(), links_.end(),
                      [this](const std::unique_ptr<ControlLink>& link) { return Awaited(*link); });
}

std::string ControlPort::Missing() const {
  std::string missing;
  for (const std::unique_ptr<ControlLink>& link : links_) {
    if (!Awaited(*link)) continue;
    absl::StrAppend(&missing, missing.empty() ? "" : ", ", "control to node ", link->peer().value(),
                    link->last_error.empty() ? "" : ": ", link->last_error);
  }
  return missing;
}

std::string ControlPort::TransportTo(NodeId node) const {
  if (node == options_.node) return "";
  const ControlLink& link = *links_[node.value()];
  return link.up() ? std::string(link.qp()->transport()) : "down";
}

}  // namespace ring::node
