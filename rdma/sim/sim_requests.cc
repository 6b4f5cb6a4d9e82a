// The part of SimConnection that carries out requests at their target and brings the answers back.
#include <algorithm>
#include <cstring>
#include <utility>

#include "rdma/sim/sim_connection.h"
#include "rdma/soft/attachment.h"
#include "ring/base/check.h"

namespace ring::rdma::sim {

void SimConnection::Deliver(int from) {
  Side& sender = sides_[Index(from)];
  while (!sender.out.empty()) {
    Message& message = sender.out.front();
    if (message.arrival_ns > network_->now_ns()) return LookAt(from, message.arrival_ns);
    if (!GetsThrough(from, message)) return;
    const Progress progress = Take(from, message);
    if (progress != Progress::kDone) return;
    sender.out.pop_front();
  }
}

// Whether the message arrives now. If not: it is tried again, or was given up.
bool SimConnection::GetsThrough(int from, Message& message) {
  // Who is asked is known by its address alone until it takes the request.
  if (message.kind == Kind::kConnect) sides_[1].host = network_->HostAt(address_);
  const Side& sender = sides_[Index(from)];
  const Side& target = sides_[Index(1 - from)];
  const SimOptions& options = network_->options();
  const std::uint64_t now_ns = network_->now_ns();
  const bool blocked = !network_->Reaches(sender.host, target.host) || target.crashed;
  const bool lost = !blocked && message.landed == 0 && network_->Chance(options.loss_ppm);
  if (!blocked && !lost) return true;
  ++message.lost;
  if (lost) network_->faults().Count(FaultClass::kF7Message);
  const bool hopeless =
      blocked ? now_ns - message.posted_ns >= options.silence_ns : message.lost > options.retry_max;
  if (hopeless && message.kind != Kind::kDetach) {
    network_->faults().Count(FaultClass::kF8OneSided);
    GiveUp(from);
    return false;
  }
  if (hopeless && target.crashed) {
    sides_[Index(from)].out = Fifo<Message>();
    return false;
  }
  const std::uint64_t backoff = options.retry_ns << std::min(message.lost, 6u);
  message.arrival_ns = now_ns + backoff;
  LookAt(from, message.arrival_ns);
  return false;
}

// The sender's NIC stops trying: its queue pair goes to error.
void SimConnection::GiveUp(int from) {
  Side& sender = sides_[Index(from)];
  const Kind kind = sender.out.front().kind;
  sender.out = Fifo<Message>();
  if (kind == Kind::kConnect || kind == Kind::kAccept || kind == Kind::kReject) {
    Side& initiator = sides_[0];
    soft::SoftQueuePair* const qp = QueuePairOf(initiator);
    if (!initiator.crashed && qp != nullptr && qp->state() == QpState::kInit)
      initiator.device->FailConnect(qp, "");
    Delivered(initiator, /*wake=*/true);
    answered_ = true;
  }
  if (sender.crashed) return;
  TellClosed(from);
  Delivered(sender, /*wake=*/true);
}

SimConnection::Progress SimConnection::Take(int from, Message& message) {
  network_->Trace(std::uint64_t{number_} << 16 | static_cast<std::uint64_t>(message.kind) << 12 |
                      static_cast<std::uint64_t>(message.opcode) << 4 | Index(from),
                  message.sequence, message.length);
  if (message.kind != Kind::kRequest) return TakeHandshake(from, message);
  return Execute(from, message);
}

SimConnection::Progress SimConnection::Execute(int from, Message& message) {
  Side& sender = sides_[Index(from)];
  Side& target = sides_[Index(1 - from)];
  soft::SoftQueuePair* const own = QueuePairOf(target);
  if (own == nullptr || target.closed || own->state() != QpState::kReadyToSend)
    return Refuse(from, message, WcStatus::kRetryExceeded);
  switch (message.opcode) {
    case Opcode::kWrite:
    case Opcode::kWriteWithImm:
      return ExecuteWrite(from, message, *own);
    case Opcode::kSend:
      return ExecuteSend(from, message, *own);
    case Opcode::kRead: {
      const std::byte* const source = target.device->regions().Serve(
          message.rkey, message.remote_address, message.length, kRemoteRead);
      if (source == nullptr) return Refuse(from, message, WcStatus::kRemoteAccess);
      if (!sender.closed && !sender.crashed)
        Reply(from, message.sequence, WcStatus::kSuccess, {source, source + message.length});
      return Progress::kDone;
    }
    default:
      return ExecuteAtomic(from, message);
  }
}

// A receive is there for the message at the head. Else it waits for one, for its time.
bool SimConnection::FindsReceive(int from, Message& message, soft::SoftQueuePair& own) {
  Side& sender = sides_[Index(from)];
  const std::uint64_t now_ns = network_->now_ns();
  const SimOptions& options = network_->options();
  if (!message.refused && network_->Chance(options.rnr_ppm)) {
    network_->faults().Count(FaultClass::kF8OneSided);
    message.refused = true;
    message.arrival_ns = now_ns + options.retry_ns;
    LookAt(from, message.arrival_ns);
    return false;
  }
  if (!own.receives().Empty()) {
    sender.rnr_deadline_ns = 0;
    return true;
  }
  const Side& target = sides_[Index(1 - from)];
  if (sender.rnr_deadline_ns == 0) {
    sender.rnr_deadline_ns =
        now_ns + std::uint64_t{target.device->options().rnr_timeout_ms} * 1'000'000;
  }
  if (now_ns < sender.rnr_deadline_ns) {
    LookAt(from, sender.rnr_deadline_ns);
  } else {
    Refuse(from, message, WcStatus::kRnrRetryExceeded);
  }
  return false;
}

// A message without doorbell, of a peer that knew of no sleep or of another: on a mapped link it
// would have been there before this sleep, and seen in the last look.
bool SimConnection::WakesBy(const Side& target, const Message& message) {
  const std::uint32_t sleep =
      target.device->mapping()->control()->sleep.load(std::memory_order_relaxed);
  return sleep != 0 && sleep != message.sleep_seen;
}

SimConnection::Progress SimConnection::ExecuteWrite(int from, Message& message,
                                                    soft::SoftQueuePair& own) {
  const bool tells = message.opcode == Opcode::kWriteWithImm;
  if (tells && !FindsReceive(from, message, own)) return Progress::kLater;
  const Side& target = sides_[Index(1 - from)];
  std::byte* const to = target.device->regions().Serve(message.rkey, message.remote_address,
                                                       message.length, kRemoteWrite);
  if (to == nullptr) return Refuse(from, message, WcStatus::kRemoteAccess);
  const SimOptions& options = network_->options();
  const bool in_parts = message.landed == 0 && message.length > 2 * sizeof(std::uint64_t) &&
                        network_->Chance(options.parts_ppm);
  if (in_parts) {
    // Up to an aligned word of the target: such a word is never seen in pieces.
    const std::uint64_t end =
        (message.remote_address + 8 + network_->random().Below(message.length - 8)) & ~7ull;
    message.landed = static_cast<std::uint32_t>(end - message.remote_address);
    CopyOut(from, message, 0, message.landed, to);
    message.arrival_ns = network_->now_ns() + 1 + network_->random().Below(options.gap_ns_max);
    LookAt(from, message.arrival_ns);
    Delivered(target, /*wake=*/false);
    return Progress::kLater;
  }
  CopyOut(from, message, message.landed, message.length - message.landed, to + message.landed);
  Damage(to, message.length);
  if (tells) {
    own.CompleteReceive({.opcode = Opcode::kRecvWithImm,
                         .has_imm = true,
                         .imm = message.imm,
                         .byte_len = message.length});
  }
  Reply(from, message.sequence, WcStatus::kSuccess);
  Delivered(target, tells || WakesBy(target, message));
  return Progress::kDone;
}

SimConnection::Progress SimConnection::ExecuteSend(int from, Message& message,
                                                   soft::SoftQueuePair& own) {
  if (!FindsReceive(from, message, own)) return Progress::kLater;
  const Side& target = sides_[Index(1 - from)];
  const soft::PostedReceive receive = own.receives().Front();
  if (message.length > receive.length) {
    own.CompleteReceive({.status = WcStatus::kLocalLength});
    Delivered(target, /*wake=*/true);
    return Refuse(from, message, WcStatus::kRemoteInvalid);
  }
  std::uint64_t done = 0;
  for (std::size_t i = 0; i < receive.sge_count && done < message.length; ++i) {
    const std::uint64_t size =
        std::min<std::uint64_t>(receive.sges[i].length, message.length - done);
    CopyOut(from, message, done, size, receive.sges[i].address);
    Damage(receive.sges[i].address, size);
    done += size;
  }
  own.CompleteReceive({.opcode = message.has_imm ? Opcode::kRecvWithImm : Opcode::kRecv,
                       .has_imm = message.has_imm,
                       .imm = message.imm,
                       .byte_len = message.length});
  Reply(from, message.sequence, WcStatus::kSuccess);
  Delivered(target, /*wake=*/true);
  return Progress::kDone;
}

SimConnection::Progress SimConnection::ExecuteAtomic(int from, Message& message) {
  const Side& target = sides_[Index(1 - from)];
  if (message.remote_address % sizeof(std::uint64_t) != 0)
    return Refuse(from, message, WcStatus::kRemoteInvalid);
  std::byte* const word = target.device->regions().Serve(message.rkey, message.remote_address,
                                                         sizeof(std::uint64_t), kRemoteAtomic);
  if (word == nullptr) return Refuse(from, message, WcStatus::kRemoteAccess);
  std::uint64_t value = 0;
  std::memcpy(&value, word, sizeof(value));
  std::vector<std::byte> old(sizeof(value));
  std::memcpy(old.data(), &value, sizeof(value));
  if (message.opcode == Opcode::kFetchAndAdd) {
    value += message.compare_or_add;
  } else if (value == message.compare_or_add) {
    value = message.swap;
  }
  std::memcpy(word, &value, sizeof(value));
  Reply(from, message.sequence, WcStatus::kSuccess, std::move(old));
  Delivered(target, WakesBy(target, message));
  return Progress::kDone;
}

// --- answers ---

SimConnection::Progress SimConnection::Refuse(int from, const Message& message, WcStatus status) {
  const std::uint64_t sequence = message.sequence;
  // Nothing behind a failed request runs; that the sender let go is still told.
  Fifo<Message>& out = sides_[Index(from)].out;
  Fifo<Message> kept;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i].kind == Kind::kDetach) kept.push_back(std::move(out[i]));
  }
  out = std::move(kept);
  if (!out.empty()) LookAt(from, std::max(out.front().arrival_ns, network_->now_ns()));
  Reply(from, sequence, status);
  return Progress::kEnded;
}

void SimConnection::Reply(int to, std::uint64_t sequence, WcStatus status,
                          std::vector<std::byte> data) {
  Side& side = sides_[Index(to)];
  if (side.closed || side.crashed) return;
  const std::uint64_t now_ns = network_->now_ns();
  const bool plain = status == WcStatus::kSuccess && data.empty();
  if (!side.answers.empty()) {
    Answer& last = side.answers[side.answers.size() - 1];
    const bool joins = plain && last.status == WcStatus::kSuccess && last.data.empty();
    if (joins && last.arrival_ns > now_ns) {  // one acknowledgement for both
      last.sequence = sequence;
      return;
    }
  }
  Answer answer{sequence, status, now_ns, now_ns + network_->Delay(), std::move(data)};
  const SimOptions& options = network_->options();
  if (network_->Chance(options.late_completion_ppm)) {
    network_->faults().Count(FaultClass::kF8OneSided);
    answer.arrival_ns += network_->random().Below(options.late_completion_ns_max);
  }
  if (!side.answers.empty()) {
    answer.arrival_ns =
        std::max(answer.arrival_ns, side.answers[side.answers.size() - 1].arrival_ns);
  }
  const std::uint64_t arrival_ns = answer.arrival_ns;
  side.answers.push_back(std::move(answer));
  if (side.answers.size() == 1) LookAtAnswers(to, arrival_ns);
}

void SimConnection::TakeAnswers(int side_index) {
  Side& side = sides_[Index(side_index)];
  const std::uint64_t now_ns = network_->now_ns();
  const SimOptions& options = network_->options();
  while (!side.answers.empty() && !side.closed && !side.crashed) {
    if (side.answers.front().arrival_ns > now_ns)
      return LookAtAnswers(side_index, side.answers.front().arrival_ns);
    if (!network_->Reaches(sides_[Index(1 - side_index)].host, side.host)) {
      if (now_ns - side.answers.front().sent_ns < options.silence_ns) {
        return LookAtAnswers(side_index, now_ns + options.retry_ns * 8);
      }
      // Executed, and nobody knows (X5).
      network_->faults().Count(FaultClass::kF8OneSided);
      TellClosed(side_index);
      return Delivered(side, /*wake=*/true);
    }
    // The queue pair may close this connection while it hears of it.
    const Answer answer = std::move(side.answers.front());
    side.answers.pop_front();
    soft::SoftQueuePair* const qp = QueuePairOf(side);
    if (qp == nullptr) return;
    if (answer.status != WcStatus::kSuccess) {
      qp->OnRemoteFailed(answer.sequence, answer.status);
      return Delivered(side, /*wake=*/true);
    }
    if (!answer.data.empty() && qp->IsOutstanding(answer.sequence)) {
      std::size_t done = 0;
      for (const Sge& sge : qp->Outstanding(answer.sequence).sges) {
        const std::size_t size = std::min<std::size_t>(sge.length, answer.data.size() - done);
        if (size != 0) std::memcpy(sge.address, answer.data.data() + done, size);
        done += size;
      }
    }
    qp->OnRemoteDone(answer.sequence);
    Delivered(side, /*wake=*/false);
  }
}

// --- bytes ---

void SimConnection::CopyOut(int from, const Message& message, std::uint64_t begin,
                            std::uint64_t size, std::byte* to) {
  if (size == 0) return;
  if (message.has_bytes) {
    std::memcpy(to, message.bytes.data() + begin, size);
    return;
  }
  soft::SoftQueuePair* const qp = QueuePairOf(sides_[Index(from)]);
  RING_CHECK(qp != nullptr && qp->IsOutstanding(message.sequence))
      << "a request ended before it arrived: sequence=" << message.sequence;
  std::uint64_t at = 0;
  for (const Sge& sge : qp->Outstanding(message.sequence).sges) {
    const std::uint64_t first = std::max(at, begin);
    const std::uint64_t last = std::min(at + sge.length, begin + size);
    if (first < last) std::memcpy(to + (first - begin), sge.address + (first - at), last - first);
    at += sge.length;
  }
}

void SimConnection::Damage(std::byte* bytes, std::uint64_t size) {
  const SimOptions& options = network_->options();
  if (!may_flip_ || size < options.flip_size_min || size == 0 ||
      !network_->Chance(options.flip_ppm))
    return;
  bytes[network_->random().Below(size)] ^= std::byte{1} << network_->random().Below(8);
  network_->faults().Count(FaultClass::kF10BitFlip, "in flight");
}

}  // namespace ring::rdma::sim
