// ec_offload/verbs_exp/calc.h — a calculation context: its queue of operations and its thread.
//
// What:      Calc: operations are calculated one at a time in the order of their submission, by the
//            context's thread, by a thread that polls, or by a thread that waits for an operation
//            of its own (it calculates what is before it). Completions are told in that order. A
//            synchronous call returns after done() of what was submitted before it has returned;
//            not so inside done() of any context, which another done() may wait for, and with
//            polling, where done() waits for a poll.
//            A synchronous operation is its caller's to calculate: it wakes nobody who has nothing
//            to do for it, so on an idle context there is no switch of threads.
// Shape:     at most max_inflight_calcs + kInflightSpare operations between submission and the
//            call of done().
// Ownership: Find gives a share; the context lives until the last call on it has returned.
// Threads:   any. done() runs with no lock held.
// Errors:    Submit, Run: 0 or the value that the verbs call gives. A block outside of registered
//            memory is found when the operation runs: it completes with IBV_EXP_EC_CALC_FAIL.
//            Open, Submit and Run throw std::bad_alloc, and have done nothing then; an operation
//            that was submitted needs no more memory.
// Cost:      four allocations for an operation; the calculators of the last
//            kCalculatorsKept matrices are kept.
#ifndef RING_EC_OFFLOAD_VERBS_EXP_CALC_H_
#define RING_EC_OFFLOAD_VERBS_EXP_CALC_H_

#include <infiniband/verbs_exp.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "ec_offload/verbs_exp/bounded_queue.h"
#include "ec_offload/verbs_exp/job.h"
#include "rdma/fabric.h"
#include "ring/base/sync.h"

namespace ring::ec_verbs {

struct Waiter;

// The calculators of the matrices used last.
class CalculatorCache {
 public:
  static constexpr std::size_t kCalculatorsKept = 32;

  explicit CalculatorCache(int w) : w_(w) {}
  // Null: no calculator takes this matrix.
  std::shared_ptr<const rdma::Calculator> Get(const Job& job);

 private:
  struct Entry {
    std::size_t output_count;
    std::string matrix;
    std::shared_ptr<const rdma::Calculator> calculator;
  };
  const int w_;
  Mutex mutex_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // used last, first
};

class Calc : public std::enable_shared_from_this<Calc> {
 public:
  // Null with errno where attr is refused, or where no thread can be had.
  static ibv_exp_ec_calc* Open(ibv_pd* pd, const ibv_exp_ec_calc_init_attr& attr);
  // The context of a handle that Open gave and Close has not taken; else null.
  static std::shared_ptr<Calc> Find(const ibv_exp_ec_calc* handle);
  // What is under way completes with IBV_EXP_EC_CALC_FAIL, and is told before Close returns, inside
  // done(), too. False when there is no such context.
  static bool Close(const ibv_exp_ec_calc* handle);
  static bool AnyOf(const ibv_pd* pd);

  Calc(ibv_pd* pd, Code code, const ibv_exp_ec_calc_init_attr& attr);

  const Code& code() const { return code_; }
  bool polling() const { return polling_; }
  int Submit(Job job, ibv_exp_ec_comp* comp);
  // Submits and waits: the error of the submission, else an ibv_exp_ec_status.
  int Run(Job job);
  int Poll(int count_max);

 private:
  // One submission. Exactly one of comp and waiter is there.
  struct Operation {
    Job job;
    std::shared_ptr<const rdma::Calculator> calculator;
    ibv_exp_ec_comp* comp = nullptr;
    Waiter* waiter = nullptr;
  };
  struct Completion {
    ibv_exp_ec_comp* comp;
    ibv_exp_ec_status status;
  };

  // The operation with its calculator; null where no calculator takes its matrix.
  std::unique_ptr<Operation> Prepare(Job job);
  int Enqueue(std::unique_ptr<Operation> operation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CalculateFirst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Calculate(const Operation& operation) const;
  bool TellFirst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // For the own thread, at this moment.
  bool IsThreadsTurn() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsOver() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ThreadHasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ThreadMain();
  void Shut();

  ibv_exp_ec_calc handle_;
  const Code code_;
  const bool polling_;
  const std::size_t inflight_max_;
  CalculatorCache calculators_;

  Mutex mutex_;
  CondVar work_;     // the own thread waits for ThreadHasWork()
  CondVar changed_;  // calls wait for the turn, or for done() of those before them
  std::deque<std::unique_ptr<Operation>> pending_ ABSL_GUARDED_BY(mutex_);
  BoundedQueue<Completion> completed_ ABSL_GUARDED_BY(mutex_);  // to be told
  std::size_t inflight_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t submitted_ ABSL_GUARDED_BY(mutex_) = 0;  // asynchronous operations, ever
  std::uint64_t told_ ABSL_GUARDED_BY(mutex_) = 0;       // those whose done() has returned
  std::thread::id completer_ ABSL_GUARDED_BY(mutex_);    // the own thread, once it runs
  bool calculating_ ABSL_GUARDED_BY(mutex_) = false;     // some thread has the turn
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace ring::ec_verbs

#endif  // RING_EC_OFFLOAD_VERBS_EXP_CALC_H_
