#include "ring/node/control/control_port.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/base/log.h"
#include "ring/base/status.h"

namespace ring::node {
namespace {
constexpr std::uint64_t kBackoffMinNs = 20'000'000;
constexpr std::uint64_t kBackoffMaxNs = 1'000'000'000;
// A peer that stands still may take the connection and never answer the handshake.
constexpr std::uint64_t kConnectNs = 3'000'000'000;
constexpr std::uint64_t kStepNs = 5'000'000;  // connections and deadlines are looked at this often
constexpr std::size_t kErrorTextMax = 1024;
constexpr std::size_t kOverMax = 16;

std::string FromView(absl::string_view text) { return std::string(text.data(), text.size()); }

absl::Status NotConnected(const ControlLink& link) {
  return absl::UnavailableError(absl::StrCat("node ", link.peer().value(), " is not connected",
                                             link.last_error.empty() ? "" : ": ", link.last_error));
}
}  // namespace

std::string ControlErrorText(const absl::Status& status) {
  return FromView(status.message().substr(0, kErrorTextMax));
}

absl::StatusOr<std::unique_ptr<ControlPort>> ControlPort::Create(const Options& options) {
  std::unique_ptr<ControlPort> port(new ControlPort(options));
  RING_RETURN_IF_ERROR(port->Grow(options.node_count));
  return port;
}

ControlPort::ControlPort(const Options& options)
    : options_(options), memory_(options.device, ControlLink::kMemorySize, 1u << 16) {}

ControlPort::~ControlPort() { links_.clear(); }

// A completion queue holds all that its links may have under way; it does not grow.
absl::Status ControlPort::Grow(std::size_t node_count) {
  while (links_.size() < node_count) {
    const std::size_t added = links_.size() < options_.node_count
                                  ? 0
                                  : (links_.size() - options_.node_count) / kLinksPerQueue + 1;
    if (added >= cqs_.size()) {
      const std::size_t links = added == 0 ? options_.node_count : kLinksPerQueue;
      const std::size_t depth = std::max<std::size_t>(
          256, links * (ControlLink::kReceiveCount + ControlLink::kSendDepth));
      RING_ASSIGN_OR_RETURN(std::unique_ptr<rdma::CompletionQueue> queue,
                            options_.device->CreateCompletionQueue(depth));
      cqs_.push_back(std::move(queue));
    }
    const NodeId peer(static_cast<std::uint32_t>(links_.size()));
    links_.push_back(std::make_unique<ControlLink>(peer, &memory_));
    incarnations_.push_back(0);
    over_.emplace_back();
    registered_.push_back(0);
  }
  return absl::OkStatus();
}

rdma::CompletionQueue* ControlPort::QueueOf(NodeId peer) const {
  if (peer.value() < options_.node_count) return cqs_.front().get();
  return cqs_[(peer.value() - options_.node_count) / kLinksPerQueue + 1].get();
}

void ControlPort::SetAddresses(std::vector<std::string> addresses, std::vector<bool> awaited) {
  addresses_ = std::move(addresses);
  awaited_ = std::move(awaited);
  const absl::Status grown = Grow(addresses_.size());
  if (!grown.ok()) {
    RING_LOG(ERROR) << "node=" << options_.node.value()
                    << " cannot connect to nodes from id=" << links_.size() << " on: " << grown;
  }
}

void ControlPort::Arm() {
  for (const std::unique_ptr<rdma::CompletionQueue>& queue : cqs_) queue->Arm();
}

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
  if (links_[node]->up()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "node ", node, " is connected with another incarnation (L8): incarnation=", incarnation,
        " known=", known, "; retry"));
  }
  return absl::OkStatus();
}

// Of the start that is registered, and of one that was seen after it, nobody knows that it is over:
// the handshake of a former start may come late, when that has crashed.
void ControlPort::TakeIncarnation(std::uint32_t node, std::uint64_t incarnation) {
  std::uint64_t& known = incarnations_[node];
  if (known == incarnation) return;
  const std::uint64_t registered = registered_[node];
  if (known != 0 && known != registered && incarnation != registered) MarkOver(node, known);
  known = incarnation;
}

void ControlPort::MarkOver(std::uint32_t node, std::uint64_t incarnation) {
  std::vector<std::uint64_t>& over = over_[node];
  if (std::find(over.begin(), over.end(), incarnation) != over.end()) return;
  if (over.size() == kOverMax) over.erase(over.begin());
  over.push_back(incarnation);
}

// Views come in their order, but a node that catches up sees old ones, and a start connects before
// it can register: so a change from one start to another says that the first is over, and nothing
// of a third, which may be the present one.
void ControlPort::OnRegistered(NodeId node, Incarnation incarnation) {
  if (node == options_.node || node.value() >= links_.size() || incarnation.value() == 0) return;
  const std::uint64_t before = std::exchange(registered_[node.value()], incarnation.value());
  if (before == incarnation.value()) return;
  std::erase(over_[node.value()], incarnation.value());
  if (before == 0) return;
  MarkOver(node.value(), before);
  if (incarnations_[node.value()] != before) return;
  incarnations_[node.value()] = incarnation.value();
  ControlLink& link = *links_[node.value()];
  if (link.qp() != nullptr) Lose(link, "another start of the node registered (L8)");
}

void ControlPort::OnConnectRequest(std::uint64_t request, absl::string_view private_data) {
  const absl::Status status = TryAccept(request, private_data);
  if (status.ok()) return;
  options_.device->Reject(request, status.message().substr(0, rdma::kPrivateDataSizeMax));
}

absl::Status ControlPort::TryAccept(std::uint64_t request, absl::string_view private_data) {
  RING_ASSIGN_OR_RETURN(const protocol::ControlHello hello,
                        protocol::DecodeHello<protocol::ControlHello>(private_data));
  if (hello.cluster != options_.cluster)
    return absl::InvalidArgumentError("another cluster: check cluster names and s, d");
  if (hello.node >= links_.size() || hello.node >= options_.node.value()) {
    return absl::InvalidArgumentError(absl::StrCat("control connections come from lower ids: node=",
                                                   hello.node, " here=", options_.node.value()));
  }
  RING_RETURN_IF_ERROR(CheckIncarnation(hello.node, hello.incarnation));
  TakeIncarnation(hello.node, hello.incarnation);
  ControlLink& link = *links_[hello.node];
  if (link.qp() != nullptr) Lose(link, "the peer connected anew");
  protocol::ControlAccept accept;
  accept.incarnation = options_.incarnation.value();
  accept.node = options_.node.value();
  RING_ASSIGN_OR_RETURN(std::unique_ptr<rdma::QueuePair> qp,
                        options_.device->Accept(request,
                                                {.send_cq = QueueOf(link.peer()),
                                                 .recv_cq = QueueOf(link.peer()),
                                                 .send_depth = ControlLink::kSendDepth,
                                                 .recv_depth = ControlLink::kReceiveCount},
                                                protocol::EncodeHello(accept)));
  const absl::Status begun = link.Begin(std::move(qp));
  if (begun.ok()) {
    link.Establish();
  } else {
    Lose(link, begun.message());
  }
  return absl::OkStatus();  // the request is accepted: there is nobody to refuse any more
}

void ControlPort::Connect(ControlLink& link) {
  link.backoff_ns = std::clamp(link.backoff_ns * 2, kBackoffMinNs, kBackoffMaxNs);
  link.retry_ns = now_ns_ + link.backoff_ns;
  protocol::ControlHello hello;
  hello.cluster = options_.cluster;
  hello.incarnation = options_.incarnation.value();
  hello.node = options_.node.value();
  absl::StatusOr<std::unique_ptr<rdma::QueuePair>> qp =
      options_.device->Connect(addresses_[link.peer().value()],
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
  if (status.ok()) status = CheckIncarnation(accept->node, accept->incarnation);
  if (status.ok()) {
    TakeIncarnation(accept->node, accept->incarnation);
    link.Establish();
  } else {
    Lose(link, status.message());
  }
  return true;
}

// Ends the connection; what was asked of the peer has an unknown outcome.
void ControlPort::Lose(ControlLink& link, absl::string_view why) {
  const bool was_established = link.established();
  if (was_established) {
    RING_LOG(WARNING) << "control connection lost node=" << options_.node.value()
                      << " peer=" << link.peer().value() << ": " << why;
  }
  link.Drop();
  link.last_error = FromView(why);
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
    Later(std::move(call.done), absl::UnavailableError(absl::StrCat("node ", link.peer().value(),
                                                                    ": connection lost: ", why)));
  }
}

void ControlPort::DropUntil(NodeId node, std::uint64_t until_ns) {
  if (node.value() >= links_.size() || node == options_.node) return;
  dropped_until_ns_.resize(links_.size(), 0);
  dropped_until_ns_[node.value()] = until_ns;
}

void ControlPort::Break(NodeId node) {
  if (node.value() >= links_.size() || links_[node.value()]->qp() == nullptr) return;
  Lose(*links_[node.value()], "broken on purpose");
}

void ControlPort::Handle(ControlType type, Handler handler) {
  Handler& place = handlers_[static_cast<std::size_t>(type)];
  RING_CHECK(place == nullptr) << "type=" << static_cast<int>(type);
  place = std::move(handler);
}

void ControlPort::Later(ControlReply done, absl::StatusOr<std::string> result) {
  local_.push_back(
      [done = std::move(done), result = std::move(result)]() mutable { done(std::move(result)); });
}

void ControlPort::Call(NodeId node, ControlType type, std::string body, std::uint64_t timeout_ns,
                       ControlReply done) {
  if (node.value() >= links_.size()) {  // cluster::kNoNode: the role is vacant
    Later(std::move(done), absl::UnavailableError("there is no such node now"));
    return;
  }
  if (node == options_.node) {
    local_.push_back([this, type, body = std::move(body), done = std::move(done)]() mutable {
      Dispatch(type, options_.node, body, std::move(done));
    });
    return;
  }
  ControlLink& link = *links_[node.value()];
  if (!link.up()) {
    Later(std::move(done), NotConnected(link));
    return;
  }
  ControlHeader header;
  header.type = type;
  header.request = next_call_;
  const absl::Status sent =
      Dropped(node) ? absl::OkStatus()  // its deadline ends it
      : body.size() > kControlBodyMax
          ? absl::ResourceExhaustedError(absl::StrCat("control message size=", body.size()))
          : link.Send(header, std::move(body));
  if (!sent.ok()) {
    Later(std::move(done), sent);
    return;
  }
  calls_[next_call_++] = {node, now_ns_ + timeout_ns, type, std::move(done)};
  link.Pump();
}

void ControlPort::Send(NodeId node, ControlType type, std::string body) {
  if (node.value() >= links_.size()) return;
  ControlLink& link = *links_[node.value()];
  if (!link.up() || body.size() > kControlBodyMax || Dropped(node)) return;
  ControlHeader header;
  header.type = type;
  if (!link.Send(header, std::move(body)).ok()) return;  // too much waits
  link.Pump();
}

absl::Status ControlPort::Write(NodeId node, const rdma::Sge& from, std::uint64_t to,
                                std::uint32_t rkey, absl::AnyInvocable<void()> done) {
  ControlLink& link = *links_[node.value()];
  if (!link.up()) return NotConnected(link);
  RING_RETURN_IF_ERROR(link.Write(from, to, rkey, std::move(done)));
  link.Pump();
  return absl::OkStatus();
}

void ControlPort::Dispatch(ControlType type, NodeId from, absl::string_view body,
                           ControlReply reply) {
  Handler& handler = handlers_[static_cast<std::size_t>(type)];
  if (handler == nullptr) {
    reply(absl::UnimplementedError(
        absl::StrCat("node ", options_.node.value(),
                     " does not know control message type=", static_cast<int>(type))));
    return;
  }
  handler(from, body, std::move(reply));
}

void ControlPort::OnMessage(ControlLink& link) {
  if (Dropped(link.peer())) return;
  const ControlHeader header = link.message().header();
  if ((header.flags & kControlAnswer) != 0) {
    Answer(link, header, link.message().TakeBody());
    return;
  }
  if (header.type == ControlType::kConsensus) {  // one-way
    Dispatch(header.type, link.peer(), link.message().body(),
             [](const absl::StatusOr<std::string>&) {});
    return;
  }
  const std::uint32_t generation = link.generation();
  ControlReply reply = [this, &link, generation, header](absl::StatusOr<std::string> result) {
    if (!link.up() || link.generation() != generation) return;  // who asked was told so
    ControlHeader answer;
    answer.type = header.type;
    answer.flags = kControlAnswer;
    answer.request = header.request;
    if (result.ok() && result->size() > kControlBodyMax) {
      result = absl::ResourceExhaustedError(absl::StrCat("answer size=", result->size()));
    }
    answer.code = static_cast<std::uint8_t>(result.status().code());
    std::string body = result.ok() ? *std::move(result) : ControlErrorText(result.status());
    absl::Status sent = link.Send(answer, std::move(body));
    if (absl::IsResourceExhausted(sent)) {  // F11: who asked for too much at once asks again
      answer.code = static_cast<std::uint8_t>(sent.code());
      sent = link.Send(answer, "");  // for which there is room
    }
    if (!sent.ok()) link.Fail(sent);  // so its calls end, and not by their deadlines
    link.Pump();
  };
  Dispatch(header.type, link.peer(), link.message().body(), std::move(reply));
}

void ControlPort::Answer(ControlLink& link, const ControlHeader& header, std::string body) {
  const auto found = calls_.find(header.request);
  if (found == calls_.end() || found->second.node != link.peer()) return;  // overdue
  PendingCall call = std::move(found->second);
  calls_.erase(found);
  if (header.code == 0) {
    Later(std::move(call.done), std::move(body));
  } else {
    if (body.empty())
      body = absl::StrCat("too many control messages wait for it at node ", link.peer().value());
    Later(std::move(call.done), absl::Status(static_cast<absl::StatusCode>(header.code), body));
  }
}

// One completion at a time: a message may end its connection, and what the others say of it with
// it. A peer that asks faster than it is answered does not keep the node from the rest of its turn.
bool ControlPort::PollCompletions() {
  constexpr int kPerTurn = 64;  // of one queue
  rdma::WorkCompletion completion;
  bool any = false;
  for (std::size_t i = 0; i < cqs_.size(); ++i) {  // a message may bring a view with more nodes
    for (int left = kPerTurn; left > 0 && cqs_[i]->Poll(absl::MakeSpan(&completion, 1)) > 0;
         --left) {
      any = true;
      auto* const link = static_cast<ControlLink*>(completion.qp->context());
      if (link->OnCompletion(completion)) OnMessage(*link);
      if (link->failed().ok()) {
        link->Pump();
        continue;
      }
      const std::string why = FromView(link->failed().message());
      Lose(*link, why);
    }
  }
  return any;
}

void ControlPort::ConnectAll() {
  for (const std::unique_ptr<ControlLink>& link : links_) {
    if (!link->failed().ok()) {  // posting failed
      const std::string why = FromView(link->failed().message());
      Lose(*link, why);
    }
    // An attempt began its backoff before retry_ns.
    const std::uint64_t begun_ns = link->retry_ns - std::min(link->retry_ns, link->backoff_ns);
    if (link->qp() != nullptr && !link->established() && now_ns_ >= begun_ns + kConnectNs) {
      Lose(*link,
           absl::StrCat("did not answer the handshake within ", kConnectNs / 1'000'000, " ms"));
    }
    const bool mine = link->peer() > options_.node && link->peer().value() < addresses_.size() &&
                      !addresses_[link->peer().value()].empty();
    if (mine && link->qp() == nullptr && now_ns_ >= link->retry_ns) Connect(*link);
  }
}

void ControlPort::EndOverdue() {
  std::vector<std::uint64_t> overdue;
  for (const auto& [id, call] : calls_) {
    if (now_ns_ >= call.deadline_ns) overdue.push_back(id);
  }
  std::sort(overdue.begin(), overdue.end());
  for (const std::uint64_t id : overdue) {
    PendingCall call = std::move(calls_.find(id)->second);
    calls_.erase(id);
    Later(std::move(call.done),
          absl::DeadlineExceededError(
              absl::StrCat("node ", call.node.value(),
                           " did not answer control message type=", static_cast<int>(call.type))));
  }
}

bool ControlPort::RunLocal() {
  if (local_.empty()) return false;
  std::vector<absl::AnyInvocable<void()>> calls;
  calls.swap(local_);
  for (absl::AnyInvocable<void()>& call : calls) call();
  return true;
}

bool ControlPort::Progress(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  bool any = PollCompletions();
  if (now_ns_ >= next_step_ns_) {
    next_step_ns_ = now_ns_ + kStepNs;
    ConnectAll();
    EndOverdue();
  }
  any |= RunLocal();
  return any;
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
  return link.up() ? FromView(link.qp()->transport()) : "down";
}

}  // namespace ring::node
