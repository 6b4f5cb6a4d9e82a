// ec_offload/inec/primitives.h — the primitives of INEC: ec-send, recv-ec-send and recv-ec (and
// with an XOR calculator xor-send, recv-xor-send and recv-xor) on a device of the fabric.
//
// What:      InecPrimitives has a calc queue, a queue pair of the device to itself, and submits
//            operations in one of two ways:
//            coherent: [WAIT receives n]...[CALC] on the calc queue and [WAIT calc 1][chain] on
//              each channel are posted at once; the device goes from step to step, and this thread
//              is needed again when all is over;
//            incoherent: Progress polls for the receives, has the device calculate (or, where it
//              cannot, calculates), polls for that, and posts the sends; it never blocks;
//            hybrid: by the chunk size, as the thresholds say.
// Shape:     operations run in the order in which they were submitted, several at a time. Those
//            that go the other way than what is under way wait until it is over: a poll takes
//            completions away from WAITs that are posted later, and the other way round.
//            Each operation that was accepted has exactly one outcome: success when the
//            calculation and all sends are complete; else its first error, with the step, once
//            everything that was posted for it has ended, or at its deadline.
// Queues:    receive completion queues that operations name are polled here and nowhere else, and
//            no further than operations claimed (receive_ledger.h): what came early is there for
//            the WAIT of the operation to come. The k-th completion of such a queue belongs to the
//            operation that counts up to k, whatever becomes of the operations before. Channels
//            are made with send_cq() as their send queue; nobody else polls it. One queue pair may
//            be a channel of many operations; it must not be destroyed while one of them is under
//            way.
// Units:     nanoseconds of the caller's clock; bytes.
// Ownership: descriptors are free when a call returns, buffers with the outcome, but for those of
//            channels that it calls unfinished: they are the device's until these are reset.
//            Borrows the device. Destroy channels first.
// Threads:   the device's.
// Errors:    kInvalidArgument, kResourceExhausted (`depth` operations are under way): nothing was
//            accepted. What fails later is told by the outcome:
//            receive       a receive failed: reconnect what feeds the queue, and then
//                          ForgetReceives
//            calculation   no output left this node. Coherent operations behind it, which the
//                          device flushes, are told as kAborted; incoherent ones go on
//            send          the other channels have sent
//            deadline      kDeadlineExceeded with the step that did not end. Receives that never
//                          came are still owed: operations on that queue wait for them, until
//                          ForgetReceives
//            The calc queue is made anew by itself. A channel behind whose WAIT the calculation
//            failed is in error, as is one that failed: the caller connects those that are not
//            kReadyToSend anew.
// Cost:      no allocation in an operation, once its slot held one of its shape, but for errors.
// Source:    INEC (SC'20), sections III-A and III-C, listing 1; S11; fault class F15.
#ifndef RING_EC_OFFLOAD_INEC_PRIMITIVES_H_
#define RING_EC_OFFLOAD_INEC_PRIMITIVES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ec_offload/inec/calc_loop.h"
#include "ec_offload/inec/descriptors.h"
#include "ec_offload/inec/hybrid.h"
#include "ec_offload/inec/operation.h"
#include "ec_offload/inec/receive_ledger.h"
#include "rdma/fabric.h"
#include "ring/base/fifo.h"

namespace ring::ec_offload {

struct InecOutcome {
  std::uint64_t id = 0;  // the caller's
  InecPrimitive primitive = InecPrimitive::kEcSend;
  InecWay way = InecWay::kCoherent;
  // What failed; kNone: nothing.
  InecStep step = InecStep::kNone;
  std::size_t channel = 0;       // of kSend
  std::uint64_t unfinished = 0;  // bit i: channel i may still read its buffers
  absl::Status status;           // names the step
};

// How often this thread had to do something.
struct InecCounters {
  std::uint64_t submits = 0;        // operations that were accepted
  std::uint64_t continuations = 0;  // times an operation needed this thread for its next step
  std::uint64_t posts = 0;          // doorbells
  std::uint64_t polls = 0;          // that found something
  std::uint64_t completions = 0;    // found by them
  std::uint64_t wakeups = 0;        // CountWakeup
  std::uint64_t held = 0;           // operations that had to wait for their turn
  std::uint64_t outcomes = 0;
  std::uint64_t errors = 0;       // of the outcomes
  std::uint64_t calc_breaks = 0;  // the calc queue was made anew
  // Without which operations stand still.
  std::uint64_t interventions() const { return submits + continuations; }
};

class InecPrimitives {
 public:
  static constexpr std::uint64_t kNoDeadline = ~std::uint64_t{0};

  struct Options {
    rdma::Device* device = nullptr;
    std::string address;  // at which the device listens: it connects to itself there
    InecThresholds thresholds;
    bool calculate_on_host = false;  // incoherent operations, even where the device has CALC
    std::uint32_t depth = 64;        // operations under way
    std::uint32_t send_cq_depth = 4096;
  };
  // kFailedPrecondition: thresholds that choose coherent, on a device without CALC.
  static absl::StatusOr<std::unique_ptr<InecPrimitives>> Create(Options options);
  InecPrimitives(const InecPrimitives&) = delete;
  InecPrimitives& operator=(const InecPrimitives&) = delete;

  rdma::CompletionQueue* send_cq() { return send_cq_.get(); }

  // The three primitives. id: what the outcome is told by.
  absl::Status EcSend(std::uint64_t id, const InecCalc& calc, const InecMemory& memory,
                      const InecStripe& stripe, std::uint64_t deadline_ns = kNoDeadline);
  absl::Status RecvEcSend(std::uint64_t id, const InecWait& wait, const InecCalc& calc,
                          const InecMemory& memory, const InecStripe& stripe,
                          std::uint64_t deadline_ns = kNoDeadline);
  absl::Status RecvEc(std::uint64_t id, const InecWait& wait, const InecCalc& calc,
                      const InecMemory& memory, std::uint64_t deadline_ns = kNoDeadline);

  // Once a turn, after the device's. Gives whether anything happened.
  bool Progress(std::uint64_t now_ns);
  // The next outcome, if there is one.
  bool Take(InecOutcome* outcome);
  // Every connection event of the device comes here first: whether it was the calc queue's.
  bool OnEvent(const rdma::ConnectionEvent& event) {
    return loop_ != nullptr && loop_->OnEvent(event);
  }
  // What the queue holds and what was owed on it is forgotten: the queue pairs that fed it are
  // reset or destroyed. REQUIRES: no operation that names it is under way.
  void ForgetReceives(rdma::CompletionQueue* cq);

  // Before this thread sleeps: the queues by which it has to be woken. Progress once more then.
  void Arm();
  void CountWakeup() { ++counters_.wakeups; }

  // Whether coherent operations start at once.
  bool ready() const { return loop_ == nullptr || loop_->ready(); }
  std::size_t under_way() const { return static_cast<std::size_t>(end_ - begin_); }
  const InecCounters& counters() const { return counters_; }

 private:
  using Operation = InecOperation;
  using Stage = InecOperation::Stage;

  explicit InecPrimitives(Options options);
  Operation& at(std::uint64_t sequence) { return operations_[sequence % operations_.size()]; }
  absl::Status Submit(std::uint64_t id, InecPrimitive primitive, const InecWait& wait,
                      const InecCalc& calc, const InecMemory& memory, const InecStripe& stripe,
                      std::uint64_t deadline_ns);
  void StartHeld();
  bool MayStart(const Operation& operation);
  void Start(std::uint64_t sequence);
  void Claim(Operation& operation);

  // coherent.cc
  void StartCoherent(std::uint64_t sequence);
  bool PostCalc(std::uint64_t sequence, bool behind_receives);
  void PostChannels(std::uint64_t sequence, bool after_calculation, bool behind_calc);
  std::uint64_t CountedBy(const rdma::QueuePair* qp);
  // incoherent.cc
  void StartIncoherent(std::uint64_t sequence);
  bool Advance();
  bool MayCalculate() const;
  bool ReceivesComplete(const Operation& operation);
  void Calculate(std::uint64_t sequence);
  bool CalculateHere(Operation& operation);
  void SendOutputs(std::uint64_t sequence);

  bool PollCalc();
  void OnCalc(const rdma::WorkCompletion& completion);
  bool PollSends();
  void OnSend(const rdma::WorkCompletion& completion);
  bool TakeReceives();
  void OnReceive(const rdma::CompletionQueue* cq, std::uint64_t number,
                 const rdma::WorkCompletion& completion);
  void BreakCalc();
  bool ExpireDeadlines(std::uint64_t now_ns);
  void Expire(std::uint64_t sequence);
  bool EndOperations();
  void Tell(Operation& operation);
  static void Fail(Operation& operation, InecStep step, absl::Status status,
                   std::size_t channel = 0);
  bool IsUnderWay(std::uint64_t sequence) const;

  Options options_;
  bool device_calculates_ = false;
  std::unique_ptr<rdma::CompletionQueue> send_cq_;
  std::unique_ptr<CalcLoop> loop_;  // null: the device calculates nothing
  std::vector<Operation> operations_;
  std::uint64_t begin_ = 0;  // [begin_, end_) are under way
  std::uint64_t end_ = 0;
  std::uint64_t next_held_ = 0;  // [next_held_, end_) have not started
  std::uint64_t earliest_deadline_ns_ = kNoDeadline;
  // Completions of the calc queue, since it was made.
  std::uint64_t calcs_posted_ = 0;
  std::uint64_t calcs_polled_ = 0;
  bool calc_broken_ = false;
  ReceiveLedger ledger_;
  Fifo<InecOutcome> outcomes_;
  InecCounters counters_;
  // Of one call. Made once: clearing completions takes longer than a poll, and clearing a request
  // longer than its post.
  std::array<rdma::WorkCompletion, 16> completions_;
  std::vector<rdma::WorkRequest> chain_;  // of the calc queue; as many as ever were posted at once
  rdma::WorkRequest wait_;                // before a channel's requests
  std::vector<const std::byte*> input_pointers_;
  std::vector<std::byte*> output_pointers_;
  std::vector<std::uint32_t> crcs_;
};

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_INEC_PRIMITIVES_H_
