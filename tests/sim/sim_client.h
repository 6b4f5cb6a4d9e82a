// tests/sim/sim_client.h — one client process of a simulated cluster.
//
// What:      SimClient drives a ClientCore step by step, keeps some operations of the workload
//            under way, and records what it is told.
// Ownership: borrows network, workload and recorder.
// Threads:   one.
// Errors:    Start: as ClientCore::Start.
#ifndef RING_TESTS_SIM_SIM_CLIENT_H_
#define RING_TESTS_SIM_SIM_CLIENT_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "api/client_core.h"
#include "rdma/sim/sim_device.h"
#include "rdma/sim/sim_network.h"
#include "tests/sim/history.h"
#include "tests/sim/workload.h"

namespace ring::sim {

// A request on its way that changes something: what a copy of it needs.
struct SentRequest {
  std::size_t at = 0;  // of the operation
  int key = 0;
  std::uint64_t time_ns = 0;
  std::pair<std::uint64_t, std::uint64_t> client;
  std::string bytes;         // its cells
  std::uint32_t tenure = 0;  // of whoever had the key's shard then: so many did before
};

// Where operations are written down when they begin and end.
class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual std::size_t Invoke(Operation op) = 0;
  // op: with its answer.
  virtual void Return(std::size_t at, const Operation& op) = 0;
  virtual const Operation& Recorded(std::size_t at) const = 0;
  virtual void Complain(Violation violation) = 0;
  // The operation left in this form; the request is large if it has no bytes of its own.
  virtual void Sent(SentRequest request) = 0;
  // Whether values of the key may be lost by now, and be told so.
  virtual bool MayLose(int key) const = 0;
};

struct SimClientOptions {
  int process = 0;
  std::vector<std::string> seeds;
  std::size_t window = 4;          // operations under way
  std::uint64_t operations = 100;  // then it is done
  std::uint64_t deadline_ns = 0;
  bool sleeps = false;                // at once, not after polling for a while
  std::uint64_t degraded_one_in = 0;  // of the gets
  bool only_gets = false;             // ... until it is stopped, whatever `operations` is
};

class SimClient final : public rdma::sim::SimHost,
                        public rdma::sim::EventTarget,
                        public std::enable_shared_from_this<SimClient> {
 public:
  static absl::StatusOr<std::shared_ptr<SimClient>> Start(rdma::sim::SimNetwork* network,
                                                          Random* random, Workload* workload,
                                                          Recorder* recorder,
                                                          const SimClientOptions& options);
  rdma::sim::HostId host() const { return host_; }
  int process() const { return options_.process; }
  bool only_gets() const { return options_.only_gets; }
  bool up() const { return core_ != nullptr; }
  // Has had the answers to all its operations. Nobody waits for one that only gets.
  bool done() const {
    const bool ends = issued_ >= options_.operations && under_way_ == 0;
    return !up() || ends || (options_.only_gets && !stopped_);
  }
  bool idle() const { return !up() || (asked_.empty() && under_way_ == 0); }
  // Operations beyond those of the workload, e.g. the last reads of a run.
  void Ask(Operation op);
  // No more of the workload.
  void Stop() {
    stopped_ = true;
    options_.operations = std::min(options_.operations, issued_);
  }
  void Crash();
  // Ends it in order; before the network goes.
  void Close();

  void OnEvent(std::uint64_t tag) override;
  void OnDelivery() override;
  void OnWake() override;

 private:
  enum class State { kRunning, kPolling, kSleeping };
  static constexpr std::uint64_t kStepNs = 400;
  static constexpr std::uint64_t kPollNs = 20'000;
  static constexpr std::uint64_t kReadingNs = 500'000;  // between what one gets that only gets
  static constexpr std::uint64_t kReaderPatienceNs = 5'000'000;
  static constexpr std::uint64_t kRefusedNs = 100'000;  // tries again after this

  SimClient(rdma::sim::SimNetwork* network, Workload* workload, Recorder* recorder,
            const SimClientOptions& options)
      : network_(network), workload_(workload), recorder_(recorder), options_(options) {}
  void Run(std::uint64_t at_ns, State state);
  void Step();
  bool Submit(Operation op, bool degraded = false);
  void NoteSent(const api::Operation& op, std::size_t at, int key);
  void SubmitDue();
  bool TakeAnswers();
  void Finish(std::size_t at, const api::Operation& answer);

  rdma::sim::SimNetwork* network_;
  Workload* workload_;
  Recorder* recorder_;
  SimClientOptions options_;
  rdma::sim::HostId host_ = 0;
  std::unique_ptr<api::ClientCore> core_;
  State state_ = State::kRunning;
  std::uint64_t serial_ = 0;
  bool woken_ = false;
  bool stopped_ = false;
  std::uint64_t issued_ = 0;
  std::size_t under_way_ = 0;
  std::uint64_t next_ns_ = 0;  // when the next operation is due
  std::vector<Operation> asked_;
};

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_SIM_CLIENT_H_
