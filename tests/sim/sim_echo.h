// tests/sim/sim_echo.h — brings what a client sent to a node once more (F7).
//
// What:      SimEcho connects to a node as the client that sent a request, and writes the same
//            bytes into the node's ring: the same client, seq, key and value; or another value,
//            which no client does. Nobody hears the answer, but that such a one is taken.
// Shape:     a connection for each copy, which ends a while later.
// Ownership: borrows the network. Close before that goes.
// Threads:   one.
// Errors:    Open: of the device. A copy that does not arrive is lost.
#ifndef RING_TESTS_SIM_SIM_ECHO_H_
#define RING_TESTS_SIM_SIM_ECHO_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rdma/sim/sim_device.h"
#include "rdma/sim/sim_network.h"
#include "tests/sim/sim_client.h"

namespace ring::sim {

class SimEcho final : public rdma::sim::EventTarget, public std::enable_shared_from_this<SimEcho> {
 public:
  static constexpr std::size_t kCopiesMax = 8;  // at a time

  static absl::StatusOr<std::shared_ptr<SimEcho>> Open(rdma::sim::SimNetwork* network);
  // False: not now.
  bool Send(const SentRequest& request, const std::string& address);
  // ... with another value. REQUIRES: a put that was answered OK.
  bool SendAltered(SentRequest request, const std::string& address);
  // How many of those were answered OK (X2).
  std::uint64_t altered_taken() const { return altered_taken_; }
  void Close();

  void OnEvent(std::uint64_t tag) override;

 private:
  struct Copy {
    std::unique_ptr<rdma::QueuePair> qp;  // null: the place is free
    std::size_t begin = 0;                // of its bytes in the memory
    std::size_t size = 0;
    std::uint64_t end_ns = 0;
    bool altered = false;
  };
  explicit SimEcho(rdma::sim::SimNetwork* network) : network_(network) {}
  absl::Status Prepare();
  void Post(Copy* copy, absl::string_view accepted);
  void LookAgain();
  void LookAtAnswer(Copy* copy);
  bool SendCopy(const SentRequest& request, const std::string& address, bool altered);

  rdma::sim::SimNetwork* network_;
  std::unique_ptr<rdma::sim::SimDevice> device_;
  std::unique_ptr<rdma::CompletionQueue> send_cq_;
  std::unique_ptr<rdma::CompletionQueue> recv_cq_;
  std::byte* memory_ = nullptr;  // answers, and behind them a place for each copy
  std::unique_ptr<rdma::MemoryRegion> region_;
  std::vector<Copy> copies_;  // by place
  std::uint64_t altered_taken_ = 0;
  bool looks_ = false;  // an event is under way
};

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_SIM_ECHO_H_
