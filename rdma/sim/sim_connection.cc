#include "rdma/sim/sim_connection.h"

#include <algorithm>
#include <utility>

#include "rdma/sim/sim_endpoint.h"
#include "rdma/soft/attachment.h"
#include "rdma/soft/send_slot.h"

namespace ring::rdma::sim {
namespace {

constexpr std::uint64_t kLookOut = 0;  // tags: what is looked at, and the side
constexpr std::uint64_t kLookAnswers = 2;

std::string Text(const std::vector<std::byte>& bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}
std::vector<std::byte> Bytes(absl::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return std::vector<std::byte>(begin, begin + text.size());
}

}  // namespace

void SimConnection::Push(int from, Message message) {
  Side& side = sides_[Index(from)];
  const SimOptions& options = network_->options();
  message.posted_ns = network_->now_ns();
  message.arrival_ns = message.posted_ns + network_->Delay();
  // Behind what went before; mostly with it, as one doorbell sends them all.
  if (message.arrival_ns < side.last_arrival_ns || !side.out.empty()) {
    const bool gap = network_->Chance(options.gap_ppm);
    message.arrival_ns =
        std::max(message.posted_ns + options.delay_min_ns,
                 side.last_arrival_ns + (gap ? network_->random().Below(options.gap_ns_max) : 0));
  }
  side.last_arrival_ns = message.arrival_ns;
  const std::uint64_t arrival_ns = message.arrival_ns;
  const bool first = side.out.empty();
  side.out.push_back(std::move(message));
  if (first) LookAt(from, arrival_ns);
}

void SimConnection::LookAt(int from, std::uint64_t at_ns) {
  Side& side = sides_[Index(from)];
  if (side.out_event_ns != 0 && side.out_event_ns <= at_ns) return;
  side.out_event_ns = at_ns;
  network_->events().Schedule(at_ns, shared_from_this(), kLookOut + Index(from));
}

void SimConnection::LookAtAnswers(int side_index, std::uint64_t at_ns) {
  Side& side = sides_[Index(side_index)];
  if (side.answer_event_ns != 0 && side.answer_event_ns <= at_ns) return;
  side.answer_event_ns = at_ns;
  network_->events().Schedule(at_ns, shared_from_this(), kLookAnswers + Index(side_index));
}

void SimConnection::OnEvent(std::uint64_t tag) {
  const int side = static_cast<int>(tag & 1);
  Side& looked = sides_[Index(side)];
  if (tag < kLookAnswers) {
    if (network_->now_ns() < looked.out_event_ns) return;  // there is a later look
    looked.out_event_ns = 0;
    Deliver(side);
  } else {
    if (network_->now_ns() < looked.answer_event_ns) return;
    looked.answer_event_ns = 0;
    TakeAnswers(side);
  }
}

// --- handshake ---

void SimConnection::Propose(soft::SoftDevice* device, HostId host, std::uint32_t qp_number,
                            std::string address, absl::string_view private_data) {
  sides_[0].device = device;
  sides_[0].host = host;
  sides_[0].qp_number = qp_number;
  address_ = std::move(address);
  private_data_ = std::string(private_data);
  may_flip_ = network_->MayFlip(private_data);
  Message message;
  message.kind = Kind::kConnect;
  message.bytes = Bytes(private_data);
  Push(0, std::move(message));
}

void SimConnection::Accept(soft::SoftQueuePair* qp, absl::string_view private_data) {
  answered_ = true;
  Side& side = sides_[1];
  side.qp_number = qp->number();
  Message message;
  message.kind = Kind::kAccept;
  message.bytes = Bytes(private_data);
  Push(1, std::move(message));
  if (side.crashed || side.device == nullptr) return;
  side.device->Establish(qp, std::make_unique<SimLink>(shared_from_this(), 1), "");
}

void SimConnection::Reject(absl::string_view private_data) {
  if (std::exchange(answered_, true) || sides_[1].crashed) return;
  Message message;
  message.kind = Kind::kReject;
  message.bytes = Bytes(private_data);
  Push(1, std::move(message));
}

SimConnection::Progress SimConnection::TakeHandshake(int from, Message& message) {
  Side& target = sides_[Index(1 - from)];
  soft::SoftQueuePair* const qp = QueuePairOf(target);
  switch (message.kind) {
    case Kind::kConnect: {
      SimEndpoint* const listener = network_->FindListener(address_);
      if (listener == nullptr || network_->crashed(listener->host())) {
        Reject("");
        return Progress::kDone;
      }
      sides_[1].device = listener->device();
      sides_[1].host = listener->host();
      network_->FilterHandshake(sides_[0].host, sides_[1].host, &message.bytes);
      listener->OnConnect(shared_from_this(), Text(message.bytes));
      break;
    }
    case Kind::kAccept:
      if (qp == nullptr || qp->state() != QpState::kInit) {
        Close(0);
        break;
      }
      network_->FilterHandshake(sides_[0].host, sides_[1].host, &message.bytes);
      target.device->Establish(qp, std::make_unique<SimLink>(shared_from_this(), 0),
                               Text(message.bytes));
      break;
    case Kind::kReject:
      if (qp != nullptr && qp->state() == QpState::kInit)
        target.device->FailConnect(qp, Text(message.bytes));
      break;
    default:
      TellClosed(1 - from);
      break;
  }
  Delivered(sides_[Index(1 - from)], /*wake=*/true);
  return Progress::kDone;
}

// --- ends ---

void SimConnection::TellClosed(int side_index) {
  Side& side = sides_[Index(side_index)];
  if (std::exchange(side.peer_closed, true)) return;
  if (!side.closed) KeepBytes(side_index);  // the requests that they are read from end
  soft::SoftQueuePair* const qp = QueuePairOf(side);
  if (qp == nullptr) return;
  // Who was asked is gone without an answer: nobody else tells who asked.
  if (qp->state() == QpState::kInit) return side.device->FailConnect(qp, "");
  side.device->CheckPeer(qp);
}

// What was posted has left: its bytes are kept, since the sender's requests end.
void SimConnection::KeepBytes(int from) {
  Side& side = sides_[Index(from)];
  for (std::size_t i = 0; i < side.out.size(); ++i) {
    Message& message = side.out[i];
    const bool carries = message.kind == Kind::kRequest && !message.has_bytes &&
                         (message.opcode == Opcode::kWrite || message.opcode == Opcode::kSend ||
                          message.opcode == Opcode::kWriteWithImm);
    if (!carries) continue;
    message.bytes.resize(message.length);
    CopyOut(from, message, 0, message.length, message.bytes.data());
    message.has_bytes = true;
  }
}

void SimConnection::Close(int side_index) {
  Side& side = sides_[Index(side_index)];
  if (std::exchange(side.closed, true) || side.crashed) return;
  KeepBytes(side_index);
  Message message;
  message.kind = Kind::kDetach;
  Push(side_index, std::move(message));
}

void SimConnection::OnCrash(HostId host) {
  for (int i = 0; i < 2; ++i) {
    Side& side = sides_[Index(i)];
    if (side.host != host || side.device == nullptr || side.crashed) continue;
    if (!side.closed) KeepBytes(i);
    side.crashed = true;
    // Some requests are on the wire, the last of them with a part of its bytes (F8).
    const std::size_t on_wire = network_->random().Below(side.out.size() + 1);
    Fifo<Message> left;
    for (std::size_t j = 0; j < on_wire; ++j) left.push_back(std::move(side.out[j]));
    side.out = std::move(left);
    if (on_wire > 0 && side.out[on_wire - 1].kind == Kind::kRequest && network_->Chance(500'000)) {
      Message& torn = side.out[on_wire - 1];
      const bool can_tear = torn.opcode == Opcode::kWrite && torn.length > sizeof(std::uint64_t);
      const auto words = static_cast<std::uint32_t>(torn.length / sizeof(std::uint64_t));
      if (can_tear && words > 0) {
        network_->faults().Count(FaultClass::kF8OneSided);
        // What is there already stays.
        torn.length =
            std::max(torn.landed, static_cast<std::uint32_t>(network_->random().Below(words)) * 8);
        torn.bytes.resize(torn.length);
      }
    }
    Message notice;
    notice.kind = Kind::kDetach;
    if (network_->options().crash_notice_ns == 0) continue;
    side.last_arrival_ns =
        std::max(side.last_arrival_ns, network_->now_ns() + network_->options().crash_notice_ns);
    Push(i, std::move(notice));
  }
}

// Both ends learn of it; what is under way is lost, as are the answers to what arrived.
void SimConnection::Break() {
  for (int i = 0; i < 2; ++i) {
    Side& side = sides_[Index(i)];
    if (side.device == nullptr || side.crashed || side.out.empty()) continue;
    Fifo<Message> kept;
    for (std::size_t j = 0; j < side.out.size(); ++j) {
      if (side.out[j].kind != Kind::kRequest) kept.push_back(std::move(side.out[j]));
    }
    side.out = std::move(kept);
  }
  for (int i = 0; i < 2; ++i) {
    if (sides_[Index(i)].device == nullptr || sides_[Index(i)].crashed) continue;
    TellClosed(i);
    Delivered(sides_[Index(i)], /*wake=*/true);
  }
}

bool SimConnection::open() const {
  return answered_ && std::all_of(sides_.begin(), sides_.end(), [](const Side& side) {
           return side.device != nullptr && !side.closed && !side.peer_closed && !side.crashed;
         });
}

void SimConnection::DropDevice(const soft::SoftDevice* device) {
  for (Side& side : sides_) {
    if (side.device == device) side.device = nullptr;
  }
}

// --- for links ---

soft::IssueResult SimConnection::Issue(int side_index, const WorkRequest& wr,
                                       std::uint64_t sequence) {
  Side& side = sides_[Index(side_index)];
  if (side.peer_closed) return {soft::IssueState::kFailed, WcStatus::kRetryExceeded};
  if (side.crashed) return {soft::IssueState::kPending, WcStatus::kSuccess};
  Message message;
  message.opcode = wr.opcode;
  message.has_imm = wr.has_imm || wr.opcode == Opcode::kWriteWithImm;
  message.imm = wr.imm;
  message.rkey = wr.rkey;
  message.length = soft::GatherLength(wr);
  message.sequence = sequence;
  message.remote_address = wr.remote_address;
  message.compare_or_add = wr.compare_or_add;
  message.swap = wr.swap;
  message.sleep_seen = PeerSleep(side_index);
  Push(side_index, std::move(message));
  return {soft::IssueState::kPending, WcStatus::kSuccess};
}

std::uint32_t SimConnection::PeerSleep(int side_index) const {
  const Side& peer = sides_[Index(1 - side_index)];
  if (!network_->options().doorbells || peer.device == nullptr || peer.crashed) return 0;
  return peer.device->mapping()->control()->sleep.load(std::memory_order_relaxed);
}

void SimConnection::OnReceivePosted(int side_index) {
  if (sides_[Index(1 - side_index)].rnr_deadline_ns != 0)
    LookAt(1 - side_index, network_->now_ns());
}

void SimConnection::Delivered(const Side& side, bool wake) {
  if (side.device == nullptr || side.crashed) return;
  if (wake) side.device->options().attachment->Wake();
  if (SimHost* const process = network_->process(side.host); process != nullptr)
    process->OnDelivery();
}

}  // namespace ring::rdma::sim
