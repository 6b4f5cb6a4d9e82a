// rdma/soft/link.h — the seam between a queue pair and what carries its requests.
//
// What:      Link: issues SEND, WRITE, WRITE_WITH_IMM, READ and atomics to the peer of one queue
//            pair. The queue pair does the rest itself: order, WAIT, CALC, flushing, completions. A
//            decorator (fault injection, simulated time) implements the same interface.
// Shape:     requests of a batch are issued in order, then committed once. Mapped links execute in
//            Issue; links that answer later return kPending and call SoftQueuePair::OnRemoteDone.
// Ownership: owned by its queue pair.
// Threads:   the queue pair's.
// Errors:    a WcStatus per request; after one that is not success the queue pair closes the link.
// Cost:      one virtual call per request.
#ifndef RING_RDMA_SOFT_LINK_H_
#define RING_RDMA_SOFT_LINK_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "rdma/fabric.h"

namespace ring::rdma::soft {

enum class IssueState : std::uint8_t {
  kDone = 0,     // executed; counts after the next Commit
  kPending = 1,  // OnRemoteDone(sequence) follows
  // Cannot be issued now (no receive posted, transmit queue full): nothing happened, try again.
  kBlocked = 2,
  kFailed = 3,  // status says why; nothing of it may be relied on
};

struct IssueResult {
  IssueState state = IssueState::kDone;
  WcStatus status = WcStatus::kSuccess;
};

struct CommitResult {
  WcStatus status = WcStatus::kSuccess;
  std::uint64_t failed_sequence = 0;  // the first request that failed, when status is not success
};

class Link {
 public:
  virtual ~Link() = default;
  virtual absl::string_view transport() const = 0;
  // The sges of wr passed the lkey check. sequence: the queue pair's number of the request. For
  // kPending the request stays where it is until OnRemoteDone.
  virtual IssueResult Issue(const WorkRequest& wr, std::uint64_t sequence) = 0;
  // Links to memory that is not mapped: whether Issue would finish the request at once.
  virtual bool FinishesNow(const WorkRequest&) const { return false; }
  // Ends a batch. Requests issued since the last commit count only if it succeeds (rule L5: fence,
  // then check).
  virtual CommitResult Commit() = 0;
  // Whether Commit costs nothing: then there is no reason to put it off.
  virtual bool CommitsForFree() const { return false; }
  // Whether a blocked SEND fails as kRnrRetryExceeded after the device's rnr timeout. False: the
  // peer counts.
  virtual bool BoundsRnrHere() const = 0;
  // Tells what waits unsent to the system: at most one system call.
  virtual void Kick() {}
  virtual std::uint32_t PeerSleep() const = 0;
  // Whether the peer's end is known to be gone. Cheap; called when the device was asked for
  // attention.
  virtual bool PeerClosed() const = 0;
  // A receive was posted (links that hold messages back until there is one).
  virtual void OnReceivePosted() {}
  // Stops: this side touches nothing of the peer any more, and tells it so. Called once.
  virtual void Close() = 0;
};

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_LINK_H_
