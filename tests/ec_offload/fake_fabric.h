// tests/ec_offload/fake_fabric.h — a fabric in local memory whose queue pairs run when the test
// says so.
//
// What:      FakeDevice (capabilities only), FakeCompletionQueue, FakeQueuePair: WRITE, CALC and
//            WAIT on plain addresses, at once or held back until Run(); counts posts.
// Threads:   one.
// Errors:    PostSend refuses with the status the test set.
#ifndef RING_TESTS_EC_OFFLOAD_FAKE_FABRIC_H_
#define RING_TESTS_EC_OFFLOAD_FAKE_FABRIC_H_

#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "rdma/fabric.h"

namespace ring::ec_offload {

class FakeCompletionQueue final : public rdma::CompletionQueue {
 public:
  std::size_t Poll(absl::Span<rdma::WorkCompletion> completions) override {
    std::size_t count = 0;
    for (; count < completions.size() && !queue_.empty(); ++count) {
      completions[count] = queue_.front();
      queue_.pop_front();
    }
    return count;
  }
  void Arm() override {}
  void Push(const rdma::WorkCompletion& completion) {
    queue_.push_back(completion);
    ++total;
    if (completion.status != rdma::WcStatus::kSuccess) ++failures;
  }
  const std::deque<rdma::WorkCompletion>& queue() const { return queue_; }

  std::uint64_t total = 0;
  std::uint64_t failures = 0;

 private:
  std::deque<rdma::WorkCompletion> queue_;
};

class FakeQueuePair final : public rdma::QueuePair {
 public:
  explicit FakeQueuePair(FakeCompletionQueue* cq) : cq_(cq) {}

  std::uint32_t number() const override { return 1; }
  rdma::QpState state() const override { return state_; }
  std::uint32_t PeerSleep() const override { return 0; }
  absl::string_view transport() const override { return "fake"; }
  absl::Status PostRecv(std::uint64_t, absl::Span<const rdma::Sge>) override {
    return absl::OkStatus();
  }
  void Reset() override { state_ = rdma::QpState::kReset; }

  absl::Status PostSend(const rdma::WorkRequest& chain) override {
    if (!refusal.ok()) return refusal;
    ++posts;
    for (const rdma::WorkRequest* wr = &chain; wr != nullptr; wr = wr->next)
      pending_.emplace_back(*wr);
    if (!held) Run();
    return absl::OkStatus();
  }

  // Executes what can be executed.
  void Run() {
    while (!pending_.empty()) {
      Slot& slot = pending_.front();
      if (slot.wr.opcode == rdma::Opcode::kWait && slot.cq()->failures == slot.failures_at_post &&
          slot.cq()->total < slot.total_at_post + slot.wr.wait_count) {
        return;
      }
      const rdma::WcStatus status =
          state_ == rdma::QpState::kReadyToSend ? Execute(slot) : rdma::WcStatus::kFlushed;
      if (slot.wr.signaled || status != rdma::WcStatus::kSuccess) {
        rdma::WorkCompletion completion;
        completion.wr_id = slot.wr.wr_id;
        completion.qp = this;
        completion.status = status;
        completion.opcode = slot.wr.opcode;
        cq_->Push(completion);
      }
      if (status != rdma::WcStatus::kSuccess) state_ = rdma::QpState::kError;
      pending_.pop_front();
    }
  }

  bool held = false;
  int posts = 0;
  absl::Status refusal;
  std::vector<rdma::Opcode> executed;

 private:
  // A copy of everything that PostSend borrows.
  struct Slot {
    explicit Slot(const rdma::WorkRequest& request)
        : wr(request), sges(request.sges.begin(), request.sges.end()) {
      if (wr.calc != nullptr) {
        inputs.assign(wr.calc->inputs.begin(), wr.calc->inputs.end());
        outputs.assign(wr.calc->outputs.begin(), wr.calc->outputs.end());
        calculator = wr.calc->calculator;
        if (wr.calc->crc_out != nullptr)
          crc_out.assign(wr.calc->crc_out, wr.calc->crc_out + outputs.size());
      }
      if (wr.wait_cq != nullptr) {
        total_at_post = cq()->total;
        failures_at_post = cq()->failures;
      }
    }
    FakeCompletionQueue* cq() const { return static_cast<FakeCompletionQueue*>(wr.wait_cq); }
    rdma::WorkRequest wr;
    std::vector<rdma::Sge> sges, inputs, outputs;
    const rdma::Calculator* calculator = nullptr;
    std::vector<std::uint32_t*> crc_out;
    std::uint64_t total_at_post = 0, failures_at_post = 0;
  };

  rdma::WcStatus Execute(const Slot& slot) {
    executed.push_back(slot.wr.opcode);
    if (slot.wr.opcode == rdma::Opcode::kWait) {
      return slot.cq()->failures == slot.failures_at_post ? rdma::WcStatus::kSuccess
                                                          : rdma::WcStatus::kFlushed;
    }
    if (slot.wr.opcode == rdma::Opcode::kCalc) return Calculate(slot);
    auto* to = reinterpret_cast<std::byte*>(slot.wr.remote_address);
    for (const rdma::Sge& sge : slot.sges) {
      std::memcpy(to, sge.address, sge.length);
      to += sge.length;
    }
    return rdma::WcStatus::kSuccess;
  }

  static rdma::WcStatus Calculate(const Slot& slot) {
    std::vector<const std::byte*> inputs;
    std::vector<std::byte*> outputs;
    for (const auto& sge : slot.inputs) inputs.push_back(sge.address);
    for (const auto& sge : slot.outputs) outputs.push_back(sge.address);
    std::vector<std::uint32_t> crcs(outputs.size());
    const bool sums = !slot.crc_out.empty();
    if (!slot.calculator->Run(inputs.data(), outputs.data(), slot.inputs[0].length,
                              sums ? crcs.data() : nullptr)) {
      return rdma::WcStatus::kCalcFailed;
    }
    for (std::size_t i = 0; i < slot.crc_out.size(); ++i) {
      if (slot.crc_out[i] != nullptr) *slot.crc_out[i] = crcs[i];
    }
    return rdma::WcStatus::kSuccess;
  }

  FakeCompletionQueue* cq_;
  rdma::QpState state_ = rdma::QpState::kReadyToSend;
  std::deque<Slot> pending_;
};

// Has capabilities; makes nothing.
class FakeDevice final : public rdma::Device {
 public:
  FakeDevice(bool calc, bool calc_crc) {
    caps_.calc = calc;
    caps_.calc_crc = calc_crc;
  }
  const Caps& caps() const override { return caps_; }
  std::uint32_t LocalKey(const std::byte*) const override { return 1; }
  absl::StatusOr<std::byte*> Allocate(std::size_t, rdma::MemoryKind) override { return None(); }
  void Free(std::byte*, std::size_t, rdma::MemoryKind) override {}
  void PreferHuge(std::byte*, std::size_t) override {}
  void Populate(std::byte*, std::size_t) override {}
  void Discard(std::byte*, std::size_t) override {}
  absl::StatusOr<std::unique_ptr<rdma::MemoryRegion>> Register(std::byte*, std::size_t,
                                                               std::uint32_t) override {
    return None();
  }
  absl::StatusOr<std::unique_ptr<rdma::CompletionQueue>> CreateCompletionQueue(
      std::size_t) override {
    return None();
  }
  absl::StatusOr<std::string> Listen(absl::string_view) override { return None(); }
  absl::StatusOr<std::unique_ptr<rdma::QueuePair>> Connect(absl::string_view,
                                                           const rdma::QueuePairOptions&,
                                                           absl::string_view) override {
    return None();
  }
  absl::StatusOr<std::unique_ptr<rdma::QueuePair>> Accept(std::uint64_t,
                                                          const rdma::QueuePairOptions&,
                                                          absl::string_view) override {
    return None();
  }
  void Reject(std::uint64_t, absl::string_view) override {}
  bool PollEvent(rdma::ConnectionEvent*) override { return false; }
  bool Progress() override { return false; }
  int event_fd() const override { return -1; }
  void SetSleeping(bool) override {}
  bool PeerHoldsOn(std::uint32_t) const override { return false; }
  rdma::DeviceCounters device_counters() const override { return {}; }
  absl::Status CardStatus() const override { return absl::OkStatus(); }

 private:
  static absl::Status None() { return absl::UnimplementedError("the fake device makes nothing"); }
  Caps caps_;
};

}  // namespace ring::ec_offload

#endif  // RING_TESTS_EC_OFFLOAD_FAKE_FABRIC_H_
