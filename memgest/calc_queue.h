// memgest/calc_queue.h — puts whose parity deltas the device calculates.
//
// What:      CalcQueue posts a CALC for each such put (old bytes of the slot, staged new bytes ->
//            m deltas with their CRCs) and takes what comes of it: checks it, copies the new bytes
//            into the slot, and tells the log, whose entries wait until then. Whatever goes wrong,
//            the entry gets right deltas: a CALC that failed, or came to no end by its deadline,
//            is done by this thread, from the same bytes.
// Shape:     one queue pair of the device to itself; at most kJobsMax CALCs, done in order. With
//            the first trouble the queue closes, and its owner decides when to open it again.
//            Of so many results one is calculated again here and compared, beginning with the
//            first of a connection. With check_every = 1 nothing wrong leaves this node.
// Ownership: borrows queue pair, completion queue, and each job's log and memory until it is done.
// Threads:   one, the node's.
// Errors:    trouble() says why the queue closed.
// Cost:      no allocation. On the software NIC, which calculates in Post, see docs/adr/0021.
// Source:    INEC (SC'20); rule S11; fault class F15; docs/adr/0021.
#ifndef RING_MEMGEST_CALC_QUEUE_H_
#define RING_MEMGEST_CALC_QUEUE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ec_offload/delta_calculator.h"
#include "rdma/fabric.h"

namespace ring::memgest {

class ShardLog;

class CalcQueue {
 public:
  static constexpr std::size_t kJobsMax = 64;
  static constexpr std::uint64_t kDeadlineNs = 10'000'000;

  struct Job {
    const ec_offload::DeltaCalculator* calculator = nullptr;  // its slot is left untouched
    std::byte* slot = nullptr;                                // the old bytes
    std::uint32_t slot_lkey = 0;
    std::uint32_t length = 0;
    const std::byte* new_bytes = nullptr;
    std::array<std::byte*, ec_offload::kDeltaCountMax> deltas{};
    std::uint32_t lkey = 0;  // of new bytes and deltas
    // By ShardLog::AwaitCalc.
    ShardLog* log = nullptr;
    std::uint64_t order = 0;
    // Where the CRCs go in the members' staged entries; null: the member was not sent this one.
    std::array<std::uint32_t*, ec_offload::kDeltaCountMax> trailers{};
    // The queue's.
    std::array<std::uint32_t, ec_offload::kDeltaCountMax> crcs{};
    std::uint64_t posted_ns = 0;
  };

  enum class Trouble : std::uint8_t {
    kNone = 0,
    kFailed = 1,  // a completion said so, or a post was refused
    kWrong = 2,
    kLate = 3,  // past the deadline
  };
  struct Counters {
    std::uint64_t calculated = 0;  // by the device, and right as far as it was looked at
    std::uint64_t failed = 0;
    std::uint64_t wrong = 0;
    std::uint64_t late = 0;
    std::uint64_t redone = 0;  // by this thread, since the device did not
  };

  explicit CalcQueue(std::uint32_t check_every);
  // REQUIRES: nothing is under way.
  ~CalcQueue();
  CalcQueue(const CalcQueue&) = delete;
  CalcQueue& operator=(const CalcQueue&) = delete;

  // Nobody else posts to the one or polls the other. REQUIRES: it is closed.
  void Open(rdma::QueuePair* qp, rdma::CompletionQueue* cq);
  bool open() const { return qp_ != nullptr; }
  // What is under way is done here; the queue pair is reset, and forgotten.
  void Close();

  // Gives the job in its place, or null: calculate it here. The memory is the device's, and the
  // slot keeps its bytes, until the log was told.
  Job* Post(const Job& job);
  // Takes what is done; gives whether anything was.
  bool Poll();
  // The same, once a turn, and closes the queue when something is overdue.
  bool Progress(std::uint64_t now_ns);
  // Nothing of this log is under way any more when it returns.
  void Settle(const ShardLog* log);

  // Of the last connection.
  Trouble trouble() const { return trouble_; }
  std::size_t under_way() const { return static_cast<std::size_t>(end_ - next_); }
  const Counters& counters() const { return counters_; }

 private:
  Job& at(std::uint64_t sequence) { return jobs_[sequence % kJobsMax]; }
  void Take(Job& job);
  bool IsRight(Job& job);
  void Redo(Job& job);
  static void Finish(Job& job);
  void Fail(Trouble trouble);

  const std::uint32_t check_every_;
  rdma::QueuePair* qp_ = nullptr;
  rdma::CompletionQueue* cq_ = nullptr;
  std::array<Job, kJobsMax> jobs_;
  std::uint64_t next_ = 0;  // [next_, end_) are under way
  std::uint64_t end_ = 0;
  std::uint64_t now_ns_ = 0;
  std::uint32_t unchecked_ = 0;   // results since the last that was calculated again
  std::vector<std::byte> again_;  // deltas of a check
  Trouble trouble_ = Trouble::kNone;
  Counters counters_;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_CALC_QUEUE_H_
