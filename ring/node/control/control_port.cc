#include "ring/node/control/control_port.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/base/log.h"
#include "ring/base/status.h"
#include "ring/node/config/link_policy.h"

namespace ring::node {
namespace {
constexpr std::uint64_t kStepNs = 5'000'000;  // connections and deadlines are looked at this often
constexpr std::size_t kErrorTextMax = 1024;

absl::Status NotConnected(const ControlLink& link) {
  return absl::UnavailableError(absl::StrCat("node ", link.peer().value(), " is not connected",
                                             link.last_error.empty() ? "" : ": ", link.last_error));
}
}  // namespace

std::string ControlErrorText(const absl::Status& status) {
  return std::string(status.message().substr(0, kErrorTextMax));
}

absl::StatusOr<std::unique_ptr<ControlPort>> ControlPort::Create(const Options& options) {
  std::unique_ptr<ControlPort> port(new ControlPort(options));
  RING_RETURN_IF_ERROR(port->Grow(options.node_count));
  return port;
}

ControlPort::ControlPort(const Options& options)
    : options_(options),
      memory_(options.device, ControlLink::kMemorySize, 1u << 16),
      retired_(options.device, &memory_),
      refuses_(options.node),
      refused_(options.node) {}

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
    links_.push_back(std::make_unique<ControlLink>(peer, &memory_, &retired_));
    incarnations_.push_back(0);
    former_.push_back(0);
    over_.emplace_back();
    registered_.push_back(0);
    away_.push_back(false);
    answer_times_.emplace_back();
  }
  return absl::OkStatus();
}

rdma::CompletionQueue* ControlPort::QueueOf(NodeId peer) const {
  if (peer.value() < options_.node_count) return cqs_.front().get();
  return cqs_[(peer.value() - options_.node_count) / kLinksPerQueue + 1].get();
}

void ControlPort::SetAddresses(std::vector<std::string> addresses, std::vector<bool> awaited,
                               std::vector<std::string> fallbacks) {
  const std::size_t known = std::min({addresses_.size(), addresses.size(), links_.size()});
  std::swap(addresses_, addresses);
  std::swap(fallbacks_, fallbacks);
  awaited_ = std::move(awaited);
  for (std::size_t i = 0; i < known; ++i) {
    ControlLink& link = *links_[i];
    const bool connects = link.qp() != nullptr && !link.address.empty();
    const std::string& before = connects ? link.address : addresses[i];
    if (FallsBack(link) || !IsOtherTransport(before, addresses_[i])) continue;
    link.moved = true;
    link.moved_ns = next_step_ns_ = now_ns_;
  }
  const absl::Status grown = Grow(addresses_.size());
  if (!grown.ok()) {
    RING_LOG(ERROR) << "node=" << options_.node.value()
                    << " cannot connect to nodes from id=" << links_.size() << " on: " << grown;
  }
}

void ControlPort::Arm() {
  for (const std::unique_ptr<rdma::CompletionQueue>& queue : cqs_) queue->Arm();
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
  const std::size_t size = result.ok() ? result->size() : 0;
  local_.push_back(
      {[done = std::move(done), result = std::move(result)]() mutable { done(std::move(result)); },
       size});
}

bool ControlPort::Call(NodeId node, ControlType type, std::string body, std::uint64_t timeout_ns,
                       ControlReply done, CallWait wait) {
  if (node.value() >= links_.size()) {  // cluster::kNoNode: the role is vacant
    Later(std::move(done), absl::UnavailableError("there is no such node now"));
    return false;
  }
  if (node == options_.node) {
    const std::size_t size = body.size();
    local_.push_back({[this, type, body = std::move(body), done = std::move(done)]() mutable {
                        Dispatch(type, options_.node, body, std::move(done));
                      },
                      size});
    return true;
  }
  ControlLink& link = *links_[node.value()];
  if (!link.up()) {
    Later(std::move(done), NotConnected(link));
    return false;
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
    return false;
  }
  const std::uint64_t patience_ns = wait == CallWait::kAsSaid
                                        ? timeout_ns
                                        : answer_times_[node.value()].Stretched(type, timeout_ns);
  calls_[next_call_++] = {node, now_ns_, now_ns_ + patience_ns, type, wait, std::move(done)};
  link.Pump();
  return true;
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
  spent_ += from.length;
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
    Spend(body.size());
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
  if (call.wait == CallWait::kForTheSlow)
    answer_times_[link.peer().value()].OnAnswer(call.type, now_ns_ - call.begun_ns);
  if (call.done == nullptr) return;
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
  ++first_cq_;
  for (std::size_t i = 0; i < cqs_.size(); ++i) {  // a message may bring a view with more nodes
    rdma::CompletionQueue& queue = *cqs_[(first_cq_ + i) % cqs_.size()];
    for (int left = kPerTurn; left > 0 && !turn_spent(); --left) {
      if (queue.Poll(absl::MakeSpan(&completion, 1)) == 0) break;
      any = true;
      auto* const link = static_cast<ControlLink*>(completion.qp->context());
      if (completion.opcode == rdma::Opcode::kRecv) {
        Spend(completion.byte_len);
        link->heard_ns = now_ns_;
      }
      if (link->OnCompletion(completion)) {
        ConfirmIncarnation(link->peer().value());
        OnMessage(*link);
      }
      if (link->failed().ok()) {
        link->Pump();
        continue;
      }
      const std::string why = std::string(link->failed().message());
      Lose(*link, why);
    }
  }
  return any;
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
    if (call.done == nullptr) continue;
    if (call.wait == CallWait::kForTheSlow) {  // its answer may come yet, and tells how late
      answer_times_[call.node.value()].OnTimeout(call.type, now_ns_ - call.begun_ns);
      const std::uint64_t forget_ns = call.begun_ns + AnswerTimes::kStretchedMaxNs;
      calls_[id] = {call.node, call.begun_ns, forget_ns, call.type, call.wait, nullptr};
    }
    Later(std::move(call.done),
          absl::DeadlineExceededError(
              absl::StrCat("node ", call.node.value(),
                           " did not answer control message type=", static_cast<int>(call.type))));
  }
}

// Those that a call adds are the next round's.
bool ControlPort::RunLocal() {
  const bool any = !local_.empty();
  for (std::size_t left = local_.size(); left > 0 && !turn_spent(); --left) {
    LocalCall call = std::move(local_.front());
    local_.pop_front();
    spent_ += call.size;
    call.run();
  }
  return any;
}

bool ControlPort::Progress(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  spent_ = 0;
  bool any = RunLocal();  // what was left: else new messages could pile up on it
  any |= PollCompletions();
  if (now_ns_ >= next_step_ns_) {
    next_step_ns_ = now_ns_ + kStepNs;
    ConnectAll();
    EndOverdue();
  }
  any |= RunLocal();
  return any;
}

}  // namespace ring::node
