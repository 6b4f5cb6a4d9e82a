// rdma/soft/queue_pair.h — a reliable-connected queue pair of the software NIC.
//
// What:      executes chains in order over a Link; does WAIT, CALC, selective signalling, flushing,
//            resets and receives. On a mapped link with nothing queued a chain executes inside
//            PostSend, straight from the caller's requests; else its requests are copied to slots
//            and run from Progress.
// Shape:     at most send_depth requests in slots; at most recv_depth receives.
// Ownership: see fabric.h. Points to its queues and device.
// Threads:   its device's.
// Errors:    a failed request completes with its status, the rest is flushed, the link is closed.
// Cost:      no allocation, lock or system call per request on mapped links (slots are allocated
//            when more requests wait than ever before). The fence and the look that make executed
//            requests count (L5) are put off until the completion queue is polled: by then the
//            stores have drained, and one look serves all chains since the last.
//
// WAIT counts the completions of wait_cq that were not yet taken by Poll when the WAIT was posted,
// less those that an earlier WAIT of this queue pair counted, and those that come. It fails, and
// with it its queue pair, when a failed completion is among them; so a queue used for WAIT should
// be polled once its work is over, and used for little else.
#ifndef RING_RDMA_SOFT_QUEUE_PAIR_H_
#define RING_RDMA_SOFT_QUEUE_PAIR_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "rdma/fabric.h"
#include "rdma/soft/completion_queue.h"
#include "rdma/soft/link.h"
#include "rdma/soft/receive_queue.h"
#include "rdma/soft/send_slot.h"

namespace ring::rdma::soft {

class SoftDevice;

class SoftQueuePair final : public QueuePair {
 public:
  SoftQueuePair(SoftDevice* device, const QueuePairOptions& options, std::uint32_t number,
                const MailboxName& mailbox, bool mapped);
  ~SoftQueuePair() override;

  std::uint32_t number() const override { return number_; }
  QpState state() const override { return state_; }
  absl::Status PostSend(const WorkRequest& chain) override;
  absl::Status PostRecv(std::uint64_t wr_id, absl::Span<const Sge> sges) override;
  void Reset() override;
  std::uint32_t PeerSleep() const override { return link_ == nullptr ? 0 : link_->PeerSleep(); }
  absl::string_view transport() const override {
    return link_ != nullptr ? link_->transport() : "none";
  }

  // --- for the device and its links ---
  const QueuePairOptions& options() const { return options_; }
  void Establish(std::unique_ptr<Link> link);
  // The peer's end is gone: fails what is outstanding.
  void OnPeerClosed();
  bool ShouldReportPeerClosed() const;
  void set_peer_close_reported() { peer_close_reported_ = true; }

  std::uint64_t outstanding() const { return tail_ - head_ + held_.size(); }
  // Whether requests wait in slots.
  bool HasDeferred() const { return head_ != tail_; }
  // Issues what can be issued; gives whether anything happened.
  bool Run();
  // A link's late answer: all requests up to and including `sequence` succeeded / the request
  // failed.
  void OnRemoteDone(std::uint64_t sequence);
  void OnRemoteFailed(std::uint64_t sequence, WcStatus status);
  const WorkRequest& Outstanding(std::uint64_t sequence) { return SlotOf(sequence).wr; }
  bool IsOutstanding(std::uint64_t sequence) const {
    return sequence >= head_ && sequence < issue_;
  }

  // Looks whether the requests held since the last look counted, and pushes their completions.
  // The completion queue's call: it takes this queue pair off its list.
  void SettleHeld() { EndHeld(link_->Commit()); }

  ReceiveQueue& receives() { return receives_; }
  // The first of these buffers into which nothing may be received; null: there is none.
  const Sge* UnusableForReceive(absl::Span<const Sge> sges) const;
  const MailboxName& mailbox_name() const { return mailbox_; }
  std::uint32_t mailbox_index() const { return mailbox_.index; }
  bool mapped() const { return mapped_; }
  Link* link() const { return link_.get(); }
  void HarvestArrivals();
  // Completes the oldest posted receive (links without a mailbox). REQUIRES: one is posted.
  void CompleteReceive(const Arrival& arrival);
  // Moves to kError: flushes requests and receives, closes mailbox and link.
  void EnterError();

 private:
  SendSlot& SlotOf(std::uint64_t sequence) { return *slots_[sequence & (slots_.size() - 1)]; }
  void GrowSlots();
  const WorkRequest* ExecuteNow(const WorkRequest& chain);
  void Hold(const WorkRequest* first, const WorkRequest* end, std::uint64_t first_sequence);
  void Tell(const WorkRequest* first, std::uint64_t first_sequence);
  bool Settle();
  void EndHeld(const CommitResult& result);
  void FlushChain(const WorkRequest* first);
  IssueResult IssueOne(const WorkRequest& wr, std::uint64_t sequence, const WaitPlan* plan);
  IssueResult RunCalc(const CalcArguments& calc);
  WaitPlan PlanWait(const WorkRequest& wr);
  std::uint64_t& WaitCursor(const SoftCompletionQueue* cq);
  void Enqueue(const WorkRequest& wr);
  bool BlockedTooLong(SendSlot& slot);
  void Retire();
  void FailSlot(std::uint64_t sequence, WcStatus status);
  void FlushSlots();
  void FlushReceives();
  void Complete(const WorkRequest& wr, WcStatus status);
  void Describe(const WorkRequest& wr, WcStatus status, WorkCompletion* completion);

  static constexpr std::size_t kHeldReserve = 64;
  // A request that was executed, and about which nobody was told yet.
  struct Held {
    WorkCompletion completion;
    std::uint64_t sequence = 0;
    bool signaled = false;
  };

  SoftDevice* device_;
  QueuePairOptions options_;
  SoftCompletionQueue* send_cq_;
  SoftCompletionQueue* recv_cq_;
  std::uint32_t number_;
  MailboxName mailbox_;
  bool mapped_;
  QpState state_ = QpState::kInit;
  bool peer_close_reported_ = false;
  bool running_ = false;
  std::unique_ptr<Link> link_;
  // Requests [head_, issue_) are issued or done, [issue_, tail_) wait. All equal on an idle or fast
  // path.
  std::uint64_t head_ = 0;
  std::uint64_t issue_ = 0;
  std::uint64_t tail_ = 0;
  // A power of two of them, or none: as many as ever waited at once, which are far fewer than may.
  std::vector<std::unique_ptr<SendSlot>> slots_;
  bool listed_ = false;     // with the device: some could not be issued yet
  std::vector<Held> held_;  // not empty: send_cq_ has this queue pair on its list
  std::vector<std::pair<std::uint64_t, std::uint64_t>> wait_cursors_;  // by serial of the queue
  ReceiveQueue receives_;
};

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_QUEUE_PAIR_H_
