// ec_offload/verbs_exp/soft_queues.h — the objects behind soft_nic.h, and the lock over them.
//
// What:      Channel, CompletionQueue, QueuePair, each with the verbs struct that programs hold as
//            its base; Nic, which knows them all. soft_transfer.cc executes requests.
// Ownership: raw pointers are the program's handles; it frees in verbs' order.
// Threads:   everything here is guarded by Nic::mutex.
// Errors:    IBV_WC_* of a request. Nothing here allocates but what makes an object: a request that
//            was posted can be carried out and completed without memory.
#ifndef RING_EC_OFFLOAD_VERBS_EXP_SOFT_QUEUES_H_
#define RING_EC_OFFLOAD_VERBS_EXP_SOFT_QUEUES_H_

#include <infiniband/verbs.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <vector>

#include "ec_offload/verbs_exp/bounded_queue.h"
#include "ring/base/sync.h"

namespace ring::ec_verbs {

struct CompletionQueue;

// Its descriptor is a socket that can be read while there are events, by a byte for each: programs
// poll it, or make it non-blocking. Bytes are taken together with events, under the lock.
struct Channel : ibv_comp_channel {
  int told_fd = -1;                  // the other end
  std::list<CompletionQueue*> told;  // who has events, in turn
  std::size_t event_count = 0;
  std::size_t byte_count = 0;  // less than events where the socket holds no more

  void Tell(CompletionQueue& cq);
  // The next event's queue, or null.
  CompletionQueue* Take();
  // As if there had been no event of it that was not taken.
  void Drop(CompletionQueue& cq);

 private:
  void TakeBytes();
};

struct CompletionQueue : ibv_cq {
  explicit CompletionQueue(std::size_t capacity) : completions(capacity), place(1, this) {}

  BoundedQueue<ibv_wc> completions;
  int users = 0;  // queue pairs; a queue pair that has it twice counts twice
  bool armed = false;
  bool solicited_only = false;
  bool overrun = false;
  std::list<CompletionQueue*> place;  // its node of Channel::told while it is not in there
  std::size_t event_count = 0;        // not yet taken
  std::uint64_t taken_count = 0;      // events that ibv_get_cq_event gave
  std::uint64_t acknowledged_count = 0;
};

// What the first request of a send queue waits for.
enum class Wait : std::uint8_t { kNothing, kPeer, kReceive };

struct SendRequest {
  ibv_send_wr wr = {};               // without its lists
  std::vector<std::byte> own_bytes;  // of an inline request; sges names them
  std::vector<ibv_sge> sges;
  Wait waits_for = Wait::kNothing;
  std::chrono::steady_clock::time_point waits_since;

  void WaitFor(Wait what);
};

struct ReceiveRequest {
  std::uint64_t wr_id = 0;
  std::vector<ibv_sge> sges;
};

struct QueuePair : ibv_qp {
  ibv_qp_attr attr = {};  // as the program set it
  ibv_qp_cap cap = {};
  bool signal_all = false;
  std::deque<SendRequest> sends;
  std::deque<ReceiveRequest> receives;
};

struct Nic {
  static Nic& Get();
  Mutex mutex;
  std::map<std::uint32_t, QueuePair*> queue_pairs ABSL_GUARDED_BY(mutex);
  std::uint32_t next_number ABSL_GUARDED_BY(mutex) = 0x100;
  CondVar acknowledged;

  // The queue pair that this one is connected to and that is connected to it; else null.
  QueuePair* PeerOf(const QueuePair& qp) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Executes what can be executed of its requests.
  void Run(QueuePair& qp) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Fails requests that have waited too long and complete in this queue.
  void FailOverdue(const CompletionQueue& cq) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // To IBV_QPS_ERR: everything that is posted completes as flushed.
  void Break(QueuePair& qp) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Complete(ibv_cq* cq, const ibv_wc& wc, bool solicited) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

 private:
  struct Result;
  Result Execute(QueuePair& qp, SendRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  Result Deliver(QueuePair& qp, QueuePair& peer, SendRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  Result Access(QueuePair& qp, QueuePair& peer, SendRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void CompleteSend(QueuePair& qp, const SendRequest& request, ibv_wc_status status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
};

}  // namespace ring::ec_verbs

#endif  // RING_EC_OFFLOAD_VERBS_EXP_SOFT_QUEUES_H_
