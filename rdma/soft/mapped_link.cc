#include "rdma/soft/mapped_link.h"

#include <algorithm>
#include <utility>

#include "rdma/soft/region_table.h"
#include "rdma/soft/shared_copy.h"
#include "ring/base/mutant.h"

namespace ring::rdma::soft {
namespace {

constexpr IssueResult kIssued{IssueState::kDone, WcStatus::kSuccess};
constexpr IssueResult kBlocked{IssueState::kBlocked, WcStatus::kSuccess};
IssueResult Failed(WcStatus status) { return {IssueState::kFailed, status}; }

std::uint64_t TotalLength(absl::Span<const Sge> sges) {
  std::uint64_t length = 0;
  for (const Sge& sge : sges) length += sge.length;
  return length;
}

}  // namespace

bool MappedLink::NameIsValid(const Mapping& peer, const MailboxName& name) {
  return name.index < peer.layout().mailbox_count && name.key != 0 && name.depth != 0 &&
         name.depth <= (1u << 20) && MailboxSize(name.depth) <= peer.layout().mailbox_stride &&
         name.cq_cell < kCqCountMax;
}

MappedLink::MappedLink(std::shared_ptr<Mapping> peer, const MailboxName& mailbox,
                       std::unique_ptr<PeerChannel> channel, CopyHook copy_hook)
    : peer_(std::move(peer)),
      name_(mailbox),
      header_(reinterpret_cast<MailboxHeader*>(peer_->mailbox(mailbox.index))),
      receives_(reinterpret_cast<SharedReceive*>(peer_->mailbox(mailbox.index) + ReceivesOffset())),
      arrivals_(reinterpret_cast<SharedArrival*>(peer_->mailbox(mailbox.index) +
                                                 ArrivalsOffset(mailbox.depth))),
      cell_(&peer_->control()->cqs[mailbox.cq_cell]),
      copy_hook_(copy_hook),
      channel_(std::move(channel)) {}

MappedLink::~MappedLink() { Close(); }

void MappedLink::Close() {
  if (closed_) return;
  closed_ = true;
  channel_->Detach();
  peer_->RequestAttention();
}

std::uint32_t MappedLink::PeerSleep() const {
  FullFence();
  return peer_->control()->sleep.load(std::memory_order_relaxed);
}

bool MappedLink::PeerClosed() const { return !MailboxOpen() || channel_->HungUp(); }

IssueResult MappedLink::Issue(const WorkRequest& wr, std::uint64_t sequence) {
  if (!MailboxOpen()) return Failed(WcStatus::kRetryExceeded);
  switch (wr.opcode) {
    case Opcode::kWrite:
      return Write(wr, sequence);
    case Opcode::kSend:
      return Send(wr, sequence);
    case Opcode::kWriteWithImm:
      return WriteWithImm(wr, sequence);
    case Opcode::kRead:
      return Read(wr, sequence);
    case Opcode::kCmpAndSwp:
    case Opcode::kFetchAndAdd:
      return Atomic(wr, sequence);
    default:
      return Failed(WcStatus::kRemoteInvalid);
  }
}

bool MappedLink::Note(std::uint32_t rkey, std::uint64_t sequence) {
  if (pending_count_ != 0 && pending_[pending_count_ - 1].rkey == rkey) return true;
  if (pending_count_ == kPendingMax && Commit().status != WcStatus::kSuccess) return false;
  pending_[pending_count_++] = {rkey, sequence};
  return true;
}

// On failure what is pending stays, so that asking again gives the same answer.
CommitResult MappedLink::Commit() {
  if (pending_count_ == 0) return {};
  if (!SameThread()) {
    FullFence();
    if (!MailboxOpen() && !Mutant("L5-mailbox"))
      return {WcStatus::kRetryExceeded, pending_[0].sequence};
    if (!peer_->OwnerAlive() && !Mutant("L5-owner"))
      return {WcStatus::kRemoteAccess, pending_[0].sequence};
    for (std::size_t i = 0; i < pending_count_; ++i) {
      if (pending_[i].rkey != 0 && !StillValid(*peer_, pending_[i].rkey) &&
          !Mutant("L5-generation")) {
        return {WcStatus::kRemoteAccess, pending_[i].sequence};
      }
    }
  }
  pending_count_ = 0;
  return {};
}

void MappedLink::Copy(std::byte* target, const std::byte* source, std::size_t size) {
  if (copy_hook_.function == nullptr) {
    CopyToShared(target, source, size);
    return;
  }
  const std::size_t half = IsWord(target, size) ? 0 : size / 2;
  CopyToShared(target, source, half);
  copy_hook_.function(copy_hook_.context);
  CopyToShared(target + half, source + half, size - half);
}

IssueResult MappedLink::Write(const WorkRequest& wr, std::uint64_t sequence) {
  const std::uint64_t length = TotalLength(wr.sges);
  std::byte* target = RemoteTarget(*peer_, wr.rkey, wr.remote_address, length, kRemoteWrite);
  if (target == nullptr) return Failed(WcStatus::kRemoteAccess);
  if (!Note(wr.rkey, sequence)) return Failed(WcStatus::kFlushed);
  if (wr.sges.size() > 1 && IsWord(target, length)) {
    // Gathered first: a word is never seen in pieces.
    std::byte word[sizeof(std::uint64_t)];
    std::size_t at = 0;
    for (const Sge& sge : wr.sges) {
      if (sge.length != 0) std::memcpy(word + at, sge.address, sge.length);
      at += sge.length;
    }
    Copy(target, word, sizeof(word));
  } else {
    for (const Sge& sge : wr.sges) {
      Copy(target, sge.address, sge.length);
      target += sge.length;
    }
  }
  StoreFence();
  if (wr.appends) PrefetchBehind(target, length);
  return kIssued;
}

// The lines that a WRITE of the same length will need next. Hints: they may lie behind the region.
void MappedLink::PrefetchBehind(const std::byte* at, std::uint64_t length) {
  constexpr std::uint64_t kSizeMax = 2048;  // beyond, the hardware streams
  const std::uint64_t size = std::min(length, kSizeMax);
  for (std::uint64_t i = 0; i < size; i += kCacheLine) __builtin_prefetch(at + i, 1);
}

IssueResult MappedLink::Read(const WorkRequest& wr, std::uint64_t sequence) {
  const std::byte* source =
      RemoteTarget(*peer_, wr.rkey, wr.remote_address, TotalLength(wr.sges), kRemoteRead);
  if (source == nullptr) return Failed(WcStatus::kRemoteAccess);
  if (!Note(wr.rkey, sequence)) return Failed(WcStatus::kFlushed);
  for (const Sge& sge : wr.sges) {
    CopyFromShared(sge.address, source, sge.length);
    source += sge.length;
  }
  return kIssued;
}

IssueResult MappedLink::Atomic(const WorkRequest& wr, std::uint64_t sequence) {
  if (wr.remote_address % sizeof(std::uint64_t) != 0) return Failed(WcStatus::kRemoteInvalid);
  std::byte* target =
      RemoteTarget(*peer_, wr.rkey, wr.remote_address, sizeof(std::uint64_t), kRemoteAtomic);
  if (target == nullptr) return Failed(WcStatus::kRemoteAccess);
  // An atomic may publish what the WRITEs before it wrote: they are settled first.
  if (!Settled() || !Note(wr.rkey, sequence)) return Failed(WcStatus::kFlushed);
  auto* word = reinterpret_cast<std::uint64_t*>(target);
  std::uint64_t old = wr.compare_or_add;
  if (wr.opcode == Opcode::kFetchAndAdd) {
    old = __atomic_fetch_add(word, wr.compare_or_add, __ATOMIC_SEQ_CST);
  } else {
    __atomic_compare_exchange_n(word, &old, wr.swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  }
  if (!wr.sges.empty()) std::memcpy(wr.sges[0].address, &old, sizeof(old));
  return kIssued;
}

IssueResult MappedLink::Send(const WorkRequest& wr, std::uint64_t sequence) {
  if (!ReceivePosted()) return kBlocked;
  if (!Settled()) return Failed(WcStatus::kFlushed);
  const std::uint64_t length = TotalLength(wr.sges);
  const bool fits = Scatter(wr, length);
  // What does not fit fails as that, though its receiver closes the mailbox when it hears of it:
  // no Commit may find it closed instead.
  if (fits && !Note(0, sequence)) return Failed(WcStatus::kFlushed);
  Arrival arrival;
  arrival.status = fits ? WcStatus::kSuccess : WcStatus::kLocalLength;
  arrival.has_imm = wr.has_imm;
  arrival.imm = wr.imm;
  arrival.byte_len = static_cast<std::uint32_t>(length);
  PublishArrival(arrival, Opcode::kSend);
  return fits ? kIssued : Failed(WcStatus::kRemoteInvalid);
}

IssueResult MappedLink::WriteWithImm(const WorkRequest& wr, std::uint64_t sequence) {
  if (!ReceivePosted()) return kBlocked;
  const IssueResult written = Write(wr, sequence);
  if (written.state != IssueState::kDone) return written;
  // The arrival says that the bytes are there: they must count before it is seen.
  const CommitResult settled = Commit();
  if (settled.status != WcStatus::kSuccess) {
    // One before it is why: Commit says so again. Else all before it count, and it tells itself.
    if (settled.failed_sequence != sequence) return Failed(WcStatus::kFlushed);
    pending_count_ = 0;
    return Failed(settled.status);
  }
  if (!Note(0, sequence)) return Failed(WcStatus::kFlushed);
  Arrival arrival;
  arrival.has_imm = true;
  arrival.imm = wr.imm;
  arrival.byte_len = static_cast<std::uint32_t>(TotalLength(wr.sges));
  PublishArrival(arrival, Opcode::kWriteWithImm);
  return kIssued;
}

// Copies the message into the next posted receive. False: it does not fit, or the receive is not
// valid.
bool MappedLink::Scatter(const WorkRequest& wr, std::uint64_t length) {
  const SharedReceive& receive = receives_[sent_ % name_.depth];
  const std::uint32_t count =
      std::min(receive.segment_count.load(std::memory_order_relaxed), kRecvSgeMax);
  const std::uint64_t arena_size = peer_->layout().arena_size;
  struct Segment {
    std::byte* at;
    std::uint64_t length;
  } segments[kRecvSgeMax];
  std::uint64_t room = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t offset = receive.segments[i].offset.load(std::memory_order_relaxed);
    const std::uint64_t size = receive.segments[i].length.load(std::memory_order_relaxed);
    if (size > arena_size || offset > arena_size - size) return false;
    segments[i] = {peer_->arena() + offset, size};
    room += size;
  }
  if (room < length) return false;
  std::uint32_t at = 0;
  for (const Sge& sge : wr.sges) {
    std::uint64_t done = 0;
    while (done < sge.length) {
      if (segments[at].length == 0) {
        ++at;
        continue;
      }
      const std::uint64_t size = std::min<std::uint64_t>(sge.length - done, segments[at].length);
      Copy(segments[at].at, sge.address + done, size);
      segments[at].at += size;
      segments[at].length -= size;
      done += size;
    }
  }
  return true;
}

void MappedLink::PublishArrival(const Arrival& arrival, Opcode opcode) {
  SharedArrival& slot = arrivals_[sent_ % name_.depth];
  slot.key.store(name_.key, std::memory_order_relaxed);
  slot.byte_len.store(arrival.byte_len, std::memory_order_relaxed);
  slot.imm.store(arrival.imm, std::memory_order_relaxed);
  slot.has_imm.store(arrival.has_imm ? 1 : 0, std::memory_order_relaxed);
  slot.status.store(static_cast<std::uint8_t>(arrival.status), std::memory_order_relaxed);
  slot.opcode.store(static_cast<std::uint8_t>(opcode), std::memory_order_relaxed);
  ++sent_;
  slot.stamp.store(static_cast<std::uint32_t>(sent_), std::memory_order_release);
  // Full barrier: either we see `armed`, or the owner, who armed first, sees `ready`.
  cell_->ready.fetch_or(std::uint64_t{1} << (name_.index % 64), std::memory_order_seq_cst);
  if (cell_->armed.load(std::memory_order_seq_cst) != 0 &&
      cell_->armed.exchange(0, std::memory_order_seq_cst) != 0) {
    peer_->Wake();
  }
}

}  // namespace ring::rdma::soft
