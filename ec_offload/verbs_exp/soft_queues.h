// ec_offload/verbs_exp/soft_queues.h — the objects behind soft_nic.h, and the lock over them.
//
// What:      Channel, CompletionQueue, QueuePair, each with the verbs struct that programs hold as
//            its base; Nic, which knows them all. soft_transfer.cc executes requests.
// Ownership: raw pointers are the program's handles; it frees in verbs' order.
// Threads:   everything here is guarded by Nic::mutex.
// Errors:    IBV_WC_* of a request.
#ifndef RING_EC_OFFLOAD_VERBS_EXP_SOFT_QUEUES_H_
#define RING_EC_OFFLOAD_VERBS_EXP_SOFT_QUEUES_H_

#include <infiniband/verbs.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "ring/base/sync.h"

namespace ring::ec_verbs {

struct CompletionQueue;

struct Channel : ibv_comp_channel {
  std::deque<CompletionQueue*> events;
};

struct CompletionQueue : ibv_cq {
  std::deque<ibv_wc> completions;
  int users = 0;  // queue pairs; a queue pair that has it twice counts twice
  bool armed = false;
  bool solicited_only = false;
  bool overrun = false;
};

struct SendRequest {
  ibv_send_wr wr = {};  // without its lists
  std::vector<ibv_sge> sges;
  std::vector<std::byte> inline_bytes;
  std::chrono::steady_clock::time_point waits_since;
  bool waits = false;
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
