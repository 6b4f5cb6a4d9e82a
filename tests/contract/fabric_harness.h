// tests/contract/fabric_harness.h — two connected devices, for the tests that every link must pass.
//
// What:      Side is a device with queues, a queue pair and registered memory; FabricContract
//            connects side a to side b over the link of the test's parameter.
//            The simulated fabric is one of them, without faults.
// Threads:   with kLocalCrossThread side b lives on a thread of its own, which runs what Run gives
//            it and makes progress in between; else Run calls straight through.
// Errors:    waits are bounded by a deadline that only a hang reaches.
#ifndef RING_TESTS_CONTRACT_FABRIC_HARNESS_H_
#define RING_TESTS_CONTRACT_FABRIC_HARNESS_H_

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "rdma/fabric.h"
#include "rdma/sim/sim_network.h"
#include "rdma/soft/soft_device.h"
#include "ring/base/sync.h"

namespace ring::rdma {

// kTcp: its sockets are received from one by one; kTcpUring: through io_uring, where the system
// allows it.
// kEngine...: both devices have a thread of their own (rdma/engine); tcp as in kTcp, since
// ThreadSanitizer does not see what io_uring orders between threads.
// kVerbs...: only where RING_TEST_VERBS_DEVICE names the RDMA card to use, as in the machine of
// tools/verbs-vm; RING_TEST_VERBS_PEER names side b's, if it is another.
enum class LinkKind {
  kLocal,
  kLocalCrossThread,
  kShm,
  kTcp,
  kTcpUring,
  kSim,
  kEngineLocal,
  kEngineShm,
  kEngineTcp,
  kVerbs,
  kVerbsCrossThread,
};
constexpr bool UsesUring(LinkKind kind) { return kind == LinkKind::kTcpUring; }
constexpr bool IsTcp(LinkKind kind) {
  return kind == LinkKind::kTcp || kind == LinkKind::kTcpUring || kind == LinkKind::kEngineTcp;
}
constexpr bool IsVerbs(LinkKind kind) {
  return kind == LinkKind::kVerbs || kind == LinkKind::kVerbsCrossThread;
}
// Side b has a thread of its own.
constexpr bool IsCrossThread(LinkKind kind) {
  return kind == LinkKind::kLocalCrossThread || kind == LinkKind::kVerbsCrossThread;
}
constexpr bool IsShm(LinkKind kind) {
  return kind == LinkKind::kShm || kind == LinkKind::kEngineShm;
}
constexpr bool HasEngine(LinkKind kind) {
  return kind == LinkKind::kEngineLocal || kind == LinkKind::kEngineShm ||
         kind == LinkKind::kEngineTcp;
}
// Whether there is a card for the links of verbs.
bool HasVerbs();
// The given ones, and those of verbs where there is a card for them.
std::vector<LinkKind> WithVerbs(std::vector<LinkKind> kinds,
                                std::vector<LinkKind> of_verbs = {LinkKind::kVerbs,
                                                                  LinkKind::kVerbsCrossThread});
// Between which memory is shared by threads.
#define RING_FABRIC_REAL_LINKS                                                        \
  ::testing::ValuesIn(::ring::rdma::WithVerbs(                                        \
      {LinkKind::kLocal, LinkKind::kLocalCrossThread, LinkKind::kShm, LinkKind::kTcp, \
       LinkKind::kTcpUring, LinkKind::kEngineLocal, LinkKind::kEngineShm, LinkKind::kEngineTcp}))
#define RING_FABRIC_LINKS                                                                 \
  ::testing::ValuesIn(::ring::rdma::WithVerbs(                                            \
      {LinkKind::kLocal, LinkKind::kLocalCrossThread, LinkKind::kShm, LinkKind::kTcp,     \
       LinkKind::kTcpUring, LinkKind::kSim, LinkKind::kEngineLocal, LinkKind::kEngineShm, \
       LinkKind::kEngineTcp}))

// Of side a, and of side b.
VerbsOptions TestVerbsOptions(bool peer);
std::string LinkKindName(LinkKind kind);
// An address of the kind to listen at, unlike any other of this machine.
std::string FreshAddress(LinkKind kind);

class Side final : public sim::SimHost {
 public:
  static constexpr std::size_t kMemorySize = std::size_t{40} << 20;
  static constexpr std::uint32_t kDepth = 64;

  // Starts the thread (if any) and opens the device in it, on `network` if there is one, with an
  // engine if it is to have one.
  Side(const SoftDeviceOptions& options, bool own_thread, sim::SimNetwork* network = nullptr,
       bool engine = false);
  ~Side() override;
  void Run(absl::FunctionRef<void()> work);

  // Give up on first use of Run only: they belong to the side's thread.
  QueuePairOptions qp_options();
  void CollectEvents();
  // Whether who sleeps on the device's descriptor would wake, at once or within this time.
  bool Readable(int timeout_ms);
  void OnWake() override { woken_ = true; }
  bool TakeEvent(ConnectionEvent::Kind kind, ConnectionEvent* event);

  std::unique_ptr<Device> device;
  std::unique_ptr<CompletionQueue> send_cq;
  std::unique_ptr<CompletionQueue> recv_cq;
  std::unique_ptr<MemoryRegion> region;  // all rights
  std::byte* memory = nullptr;
  std::unique_ptr<QueuePair> qp;
  std::vector<ConnectionEvent> events;

  Sge At(std::size_t offset, std::size_t length) const {
    return {memory + offset, static_cast<std::uint32_t>(length), region->lkey()};
  }
  std::uint64_t AddressAt(std::size_t offset) const { return region->remote().address + offset; }

 private:
  void Loop();
  void Open(const SoftDeviceOptions& options);
  void Close();

  sim::SimNetwork* network_;
  bool engine_;
  bool woken_ = false;
  Mutex mutex_;
  CondVar done_;
  absl::FunctionRef<void()>* work_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<std::thread> thread_;
};

class FabricContract : public ::testing::TestWithParam<LinkKind> {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Makes progress on both sides until the condition holds; false after the deadline.
  bool WaitFor(absl::FunctionRef<bool()> condition);
  // Connects a new pair of queue pairs; the sides' options may differ from the default.
  void Connect(std::unique_ptr<QueuePair>* from_a, std::unique_ptr<QueuePair>* at_b) {
    Connect(from_a, at_b, a_->qp_options());
  }
  void Connect(std::unique_ptr<QueuePair>* from_a, std::unique_ptr<QueuePair>* at_b,
               const QueuePairOptions& options_of_a);

  // The next completions of a side's queue, in order. Fails the test when fewer come.
  std::vector<WorkCompletion> Completions(Side& side, CompletionQueue& cq, std::size_t count);
  WorkCompletion OneCompletion(Side& side, CompletionQueue& cq) {
    std::vector<WorkCompletion> completions = Completions(side, cq, 1);
    return completions.empty() ? WorkCompletion{.status = WcStatus::kRetryExceeded}
                               : completions[0];
  }
  // Nothing is in the queue after both sides made progress for a while.
  bool IsQuiet(Side& side, CompletionQueue& cq);
  WorkCompletion PostOne(WorkRequest wr);  // from side a, signalled

  WorkRequest Write(const Sge& sge, std::size_t remote_offset, std::uint64_t wr_id = 1) const;
  void PostReceiveAtB(std::uint64_t wr_id, std::size_t offset, std::size_t length);
  bool BytesAtB(std::size_t offset, absl::string_view expected);

  // Where somebody may sleep and has to be woken.
  bool needs_doorbells() const { return !IsTcp(GetParam()) && !IsVerbs(GetParam()); }
  bool mapped() const { return needs_doorbells() && GetParam() != LinkKind::kSim; }

  std::unique_ptr<sim::SimNetwork> network_;  // of kSim
  std::unique_ptr<Side> a_;
  std::unique_ptr<Side> b_;
  std::string address_;
};

inline void Put(std::byte* target, absl::string_view text) {
  std::memcpy(target, text.data(), text.size());
}

}  // namespace ring::rdma

#endif  // RING_TESTS_CONTRACT_FABRIC_HARNESS_H_
