#include "rdma/verbs/verbs_connection.h"

#include <arpa/inet.h>

#include <atomic>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/soft/device.h"
#include "rdma/soft/queue_pair.h"
#include "ring/base/clock.h"
#include "ring/base/log.h"

namespace ring::rdma::verbs {
namespace {
constexpr std::uint64_t kCloseNs = 1000 * kMillisecondNs;
}  // namespace

VerbsConnection::VerbsConnection(soft::SoftDevice* device, Hub* hub, std::uint32_t serial)
    : device_(device), hub_(hub), serial_(serial) {
  deadline_ns_ = device_->NowNs() + device_->options().hello_timeout_ms * kMillisecondNs;
  hub_->AddRestless(1);
}

VerbsConnection::~VerbsConnection() {
  Die();
  Forget();
}

soft::SoftQueuePair* VerbsConnection::qp() const { return device_->FindQueuePair(qp_number_); }

void VerbsConnection::SetState(State state) {
  state_ = state;
  if (state == State::kLinked || state == State::kRequested) deadline_ns_ = 0;
  if (state == State::kClosing) deadline_ns_ = device_->NowNs() + kCloseNs;
  SetRestless(state != State::kLinked || broken_);
}

void VerbsConnection::SetRestless(bool restless) {
  if (std::exchange(restless_, restless) == restless) return;
  hub_->AddRestless(restless ? 1 : -1);
}

// Found out in the middle of something: the connection ends in the next turn. Who uses it says so;
// of what the card or the peer did wrong only this end knows.
void VerbsConnection::Break(absl::string_view why) {
  if (!broken_ && state_ < State::kClosing) {
    RING_LOG(INFO) << "verbs device=" << (nic_ == nullptr ? "none" : nic_->name())
                   << " connection=" << serial_ << " ends: " << why;
  }
  broken_ = true;
  SetRestless(true);
}

// What is with a card that takes no more has no completion: the end of the connection answers it.
void VerbsConnection::BreakWithData() {
  if (data_->broken()) Break("its requests or receives are not taken");
}

// --- ends ---

// Before the connection is there: a rejection. The peer of a handshake sees a disconnect.
void VerbsConnection::Fail(absl::string_view reason) {
  if (state_ == State::kDead) return;
  soft::SoftQueuePair* const own = qp();
  std::string text(reason);
  const std::shared_ptr<VerbsConnection> self = shared_from_this();
  Disconnect();
  if (own != nullptr && own->state() == QpState::kInit) device_->FailConnect(own, std::move(text));
}

void VerbsConnection::Refuse(absl::string_view reason) {
  if (state_ != State::kRequested && state_ != State::kAwaitHello) return;
  // The connector disconnects when it has the reason; it has a second for it.
  if (!SendControl(ControlType::kReject, reason)) return Disconnect();
  SetState(State::kClosing);
}

// Ends our side; the manager tells when the other one has followed.
void VerbsConnection::Disconnect() {
  if (state_ == State::kDead) return;
  data_.reset();
  control_.reset();
  const State before = state_;
  SetState(State::kClosing);
  if (before < State::kConnecting) return Die();
  goodbye_waits_ = !hub_->PortStatus().ok();
  if (goodbye_waits_) return;
  if (before < State::kAwaitAnswer) return Die();
  SayGoodbye();
}

// Through a port that is down it would reach nobody, and a peer whose own port is up would wait for
// us until its next request fails: so it is said when the port is back. Soft-RoCE's connection
// manager, moreover, never sends again after a message that had no way out.
void VerbsConnection::SayGoodbye() {
  goodbye_waits_ = false;
  // Then no event follows, but the queue pair hears of the end all the same.
  if (rdma_disconnect(id_) != 0) Break("rdma_disconnect");
}

// What came before the end counts: it is taken first.
void VerbsConnection::OnHangUp() {
  if (state_ == State::kDead) return;
  const std::shared_ptr<VerbsConnection> self = shared_from_this();
  hub_->Drain();
  peer_closed_ = true;
  soft::SoftQueuePair* const own = qp();
  if (own != nullptr && own->state() == QpState::kInit) {
    device_->FailConnect(own, "");
  } else if (own != nullptr) {
    device_->CheckPeer(own);
  }
  if (state_ == State::kClosing && !goodbye_waits_) return Die();
  Disconnect();  // which answers the peer's
  if (!goodbye_waits_) Die();
}

void VerbsConnection::Die() {
  if (state_ == State::kDead) return;
  data_.reset();
  control_.reset();
  if (id_ != nullptr) rdma_destroy_id(std::exchange(id_, nullptr));
  SetState(State::kDead);
}

bool VerbsConnection::Progress() {
  if (state_ == State::kDead) return false;
  if (std::exchange(broken_, false)) {
    OnHangUp();
    return true;
  }
  // Who gave up may have tried again: this attempt must not take the other one's place.
  if (state_ < State::kAwaitHello && qp() == nullptr) {
    Disconnect();
    return true;
  }
  if (deadline_ns_ == 0 || device_->NowNs() <= deadline_ns_) return false;
  if (goodbye_waits_) {
    deadline_ns_ = device_->NowNs() + kCloseNs;
    if (hub_->PortStatus().ok()) SayGoodbye();
  } else if (state_ == State::kAwaitHello) {
    deadline_ns_ = 0;
    Disconnect();
  } else {
    OnHangUp();
  }
  return true;
}

void VerbsConnection::Close() {
  // Destroyed, not only moved to the error state: no request of the peer succeeds from now on, and
  // the card touches no buffer any more.
  if (state_ == State::kLinked) Disconnect();
}

// --- completions ---

void VerbsConnection::OnCompletion(const WrId& id, const ibv_wc& completion) {
  if (state_ == State::kDead) return;
  switch (id.kind) {
    case WrKind::kReceive:
      if (data_ != nullptr) OnArrival(completion);
      return;
    case WrKind::kRead:
    case WrKind::kWrite:
    case WrKind::kPart:
      if (data_ != nullptr) OnDataCompletion(id, completion);
      return;
    default:
      break;
  }
  if (control_ == nullptr) return;
  if (completion.status != IBV_WC_SUCCESS) {
    // The connection is of no use; who waits for it learns in the next turn.
    Break(absl::StrCat("its control queue: ", ibv_wc_status_str(completion.status)));
    return;
  }
  if (id.kind == WrKind::kControlReceive) return OnControlReceive(id, completion);
  control_->OnSent();
  if (id.kind == WrKind::kKeyRead) keys_.Learn(std::exchange(asked_key_, 0), control_->entry());
}

void VerbsConnection::OnControlReceive(const WrId& id, const ibv_wc& completion) {
  ControlMessage message;
  const absl::Span<const std::byte> bytes = control_->Received(id.low, completion.byte_len);
  const bool wake = bytes.empty();
  const bool good = wake || ReadControlMessage(bytes, &message).empty();
  if (!good || !control_->Repost(id.low)) {
    Break("a control message");
    return;
  }
  if (wake) {
    told_sleeping_ = false;
  } else {
    OnControlMessage(message);
  }
}

void VerbsConnection::OnDataCompletion(const WrId& id, const ibv_wc& completion) {
  const bool success = completion.status == IBV_WC_SUCCESS;
  const std::uint64_t sequence = data_->Complete(id, success);
  soft::SoftQueuePair* const own = qp();
  if (success) {
    if (id.kind == WrKind::kPart) return;
    if (id.kind == WrKind::kWrite && control_->TakePeerSleeps()) WakePeer();
    if (own != nullptr) own->OnRemoteDone(sequence);
    return;
  }
  const WcStatus status = StatusOf(completion.status, false);
  TellUnusual(completion.status, status);
  if (own != nullptr) own->OnRemoteFailed(sequence, status);
}

void VerbsConnection::OnArrival(const ibv_wc& completion) {
  soft::SoftQueuePair* const own = qp();
  if (own == nullptr || own->receives().Empty()) return;
  data_->NoteReceived();
  soft::Arrival arrival;
  arrival.status = StatusOf(completion.status, true);
  if (completion.status != IBV_WC_SUCCESS) {
    // Flushed: the queue pair is in error already, of which nothing else tells.
    if (arrival.status != WcStatus::kFlushed) own->CompleteReceive(arrival);
    TellUnusual(completion.status, arrival.status);
    return own->EnterError();
  }
  arrival.has_imm = (completion.wc_flags & IBV_WC_WITH_IMM) != 0;
  arrival.opcode = arrival.has_imm ? Opcode::kRecvWithImm : Opcode::kRecv;
  arrival.imm = arrival.has_imm ? ntohl(completion.imm_data) : 0;
  arrival.byte_len = completion.byte_len;
  own->CompleteReceive(arrival);
}

// What the port has no name for.
void VerbsConnection::TellUnusual(ibv_wc_status status, WcStatus meaning) {
  static std::atomic<bool> told{false};
  const bool named = meaning != WcStatus::kRetryExceeded || status == IBV_WC_RETRY_EXC_ERR;
  if (named || told.exchange(true)) return;
  RING_LOG(WARNING) << "verbs device=" << nic_->name()
                    << " failed a request: " << ibv_wc_status_str(status);
}

void VerbsConnection::WakePeer() {
  if (!control_->SendWake()) Break("it cannot wake the peer");
}

// Asked once; a second one that sleeps behind an unused word is woken by that word.
void VerbsConnection::TellSleeping() {
  if (state_ != State::kLinked || told_sleeping_ || broken_) return;
  told_sleeping_ = true;
  if (!control_->TellSleeping(peer_word_)) Break("it cannot tell that it sleeps");
}

// --- requests ---

void VerbsConnection::AskKey(std::uint32_t key) {
  if (asked_key_ != 0) return;
  asked_key_ = key;
  const RemoteWord entry{
      peer_table_.address + (key & soft::kRegionIndexMask) * sizeof(std::uint64_t),
      peer_table_.rkey};
  if (!control_->ReadEntry(entry)) Break("it cannot ask for a key");
}

soft::IssueResult VerbsConnection::Issue(const WorkRequest& wr, std::uint64_t sequence) {
  using soft::IssueState;
  if (state_ != State::kLinked) return {IssueState::kFailed, WcStatus::kRetryExceeded};
  // The cards' own libraries refuse it at the post, for all of a batch.
  if (IsAtomic(wr.opcode) && wr.remote_address % sizeof(std::uint64_t) != 0)
    return {IssueState::kFailed, WcStatus::kRemoteInvalid};
  if (!peer_ready_ || data_->Full(wr)) return {IssueState::kBlocked, WcStatus::kSuccess};
  std::uint32_t rkey = 0;
  if (IsOneSided(wr.opcode)) {
    switch (keys_.Find(wr.rkey, &rkey)) {
      case PeerKeys::Answer::kUnknown:
        AskKey(wr.rkey);
        return {IssueState::kBlocked, WcStatus::kSuccess};
      case PeerKeys::Answer::kRefused:
        return {IssueState::kFailed, WcStatus::kRemoteAccess};
      case PeerKeys::Answer::kKnown:
        break;
    }
  }
  const soft::IssueResult result = data_->Issue(wr, sequence, rkey);
  BreakWithData();
  return result;
}

soft::CommitResult VerbsConnection::Commit() {
  if (data_ == nullptr) return {};
  const soft::CommitResult result = data_->Commit();
  BreakWithData();
  return result;
}

void VerbsConnection::OnReceivePosted() {
  soft::SoftQueuePair* const own = qp();
  if (own == nullptr || data_ == nullptr) return;
  data_->PostReceives(own->receives());
  BreakWithData();
}

}  // namespace ring::rdma::verbs
