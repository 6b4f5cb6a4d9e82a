// rdma/soft/mapped_link.h — the link to a peer whose memory is mapped: requests execute at the
// post, by this thread.
//
// What:      WRITE, READ and atomics on the peer's arena; SEND and WRITE_WITH_IMM into its mailbox.
//            Rule L5: after the copies of a batch one full fence, then the keys, the mailbox and
//            the owner's mutex are looked at again; only then do the requests count.
// Shape:     bytes of a request that fails in Commit may have landed, and so may those of later
//            requests of the batch whose keys are still valid. None of them completes with success.
// Ownership: keeps the peer's mapping alive.
// Threads:   the queue pair's. A peer device of the same thread cannot revoke in between: no fence,
//            no second look.
// Errors:    kRemoteAccess (key, bounds, rights, revoked, dead owner), kRemoteInvalid (misaligned
//            atomic, message longer than the receive), kRetryExceeded (the peer reset the queue
//            pair).
// Cost:      one shared line read per request, one fence per batch.
#ifndef RING_RDMA_SOFT_MAPPED_LINK_H_
#define RING_RDMA_SOFT_MAPPED_LINK_H_

#include <array>
#include <cstdint>
#include <memory>

#include "rdma/soft/link.h"
#include "rdma/soft/mapping.h"
#include "rdma/soft/receive_queue.h"
#include "rdma/soft/shared_copy.h"
#include "rdma/soft/soft_device.h"

namespace ring::rdma::soft {

// Tells the peer that this side lets go of its mailbox.
class PeerChannel {
 public:
  virtual ~PeerChannel() = default;
  virtual absl::string_view transport() const = 0;
  virtual bool HungUp() const = 0;
  virtual void Detach() = 0;
};

class MappedLink final : public Link {
 public:
  MappedLink(std::shared_ptr<Mapping> peer, const MailboxName& mailbox,
             std::unique_ptr<PeerChannel> channel, CopyHook copy_hook);
  ~MappedLink() override;

  // Whether the name fits the peer's layout. REQUIRES true before a link is made of it.
  static bool NameIsValid(const Mapping& peer, const MailboxName& name);

  absl::string_view transport() const override { return channel_->transport(); }
  IssueResult Issue(const WorkRequest& wr, std::uint64_t sequence) override;
  CommitResult Commit() override;
  bool CommitsForFree() const override { return SameThread(); }
  bool BoundsRnrHere() const override { return true; }
  std::uint32_t PeerSleep() const override;
  bool PeerClosed() const override;
  void Close() override;

 private:
  struct Pending {
    std::uint32_t rkey;  // 0: only the mailbox is looked at again
    std::uint64_t sequence;
  };
  static constexpr std::size_t kPendingMax = 32;

  IssueResult Write(const WorkRequest& wr, std::uint64_t sequence);
  static void PrefetchBehind(const std::byte* at, std::uint64_t length);
  IssueResult WriteWithImm(const WorkRequest& wr, std::uint64_t sequence);
  IssueResult Read(const WorkRequest& wr, std::uint64_t sequence);
  IssueResult Atomic(const WorkRequest& wr, std::uint64_t sequence);
  IssueResult Send(const WorkRequest& wr, std::uint64_t sequence);
  bool Scatter(const WorkRequest& wr, std::uint64_t length);
  void PublishArrival(const Arrival& arrival, Opcode opcode);
  void Copy(std::byte* target, const std::byte* source, std::size_t size);
  bool MailboxOpen() const {
    return header_->open_key.load(std::memory_order_acquire) == name_.key;
  }
  bool ReceivePosted() const { return header_->posted.load(std::memory_order_acquire) != sent_; }
  bool SameThread() const {
    return peer_->thread_token.load(std::memory_order_relaxed) == CurrentThreadToken();
  }
  // True when there is room afterwards; false: a pending request failed, Commit tells which.
  bool Note(std::uint32_t rkey, std::uint64_t sequence);
  bool Settled() { return pending_count_ == 0 || Commit().status == WcStatus::kSuccess; }

  std::shared_ptr<Mapping> peer_;
  MailboxName name_;
  MailboxHeader* header_;
  SharedReceive* receives_;
  SharedArrival* arrivals_;
  CqCell* cell_;
  std::uint64_t sent_ = 0;
  std::size_t pending_count_ = 0;
  CopyHook copy_hook_;
  std::unique_ptr<PeerChannel> channel_;
  bool closed_ = false;
  std::array<Pending, kPendingMax> pending_;
};

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_MAPPED_LINK_H_
