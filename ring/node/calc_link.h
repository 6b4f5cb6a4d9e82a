// ring/node/calc_link.h — a node's queue pair to itself, on which its device calculates for puts.
//
// What:      CalcLink connects the device with itself, gives the queue pair to the CalcQueue, and
//            takes it away with every trouble. It pauses then, twice as long each time, and tries
//            again; after kTroublesMax troubles without kForgiveCount sound results in between,
//            and after one wrong result, it does not, for as long as the node lives. Without it
//            puts are calculated by the node's thread: nobody waits for it.
// Shape:     one of a node that is told to encode = "nic".
// Ownership: owns queue pairs, completion queue and CalcQueue; borrows the device.
// Threads:   one, the node's.
// Errors:    Create: kFailedPrecondition, the device calculates nothing, or without CRCs. Trouble
//            is told in the log: the first, and the end.
// Cost:      a turn without CALCs is a few loads.
// Source:    fault class F15; docs/adr/0021.
#ifndef RING_NODE_CALC_LINK_H_
#define RING_NODE_CALC_LINK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "memgest/calc_queue.h"
#include "rdma/fabric.h"

namespace ring::node {

class CalcLink {
 public:
  static constexpr int kTroublesMax = 8;
  static constexpr std::uint64_t kForgiveCount = 1000;
  static constexpr std::uint64_t kPauseNs = 1'000'000;  // after the first trouble
  static constexpr std::uint64_t kConnectNs = 1'000'000'000;

  enum class State : std::uint8_t {
    kPaused = 0,      // puts are calculated by the node's thread, for now
    kConnecting = 1,  // the same
    kOpen = 2,
    kGivenUp = 3,  // for good
  };

  struct Options {
    rdma::Device* device = nullptr;
    std::uint32_t check_every = 1;  // CalcQueue
    std::string word;               // of this start of the node; nobody else connects with it
  };
  static absl::StatusOr<std::unique_ptr<CalcLink>> Create(const Options& options);
  ~CalcLink();

  // Where the device listens; it connects from here on.
  void set_address(std::string address) { address_ = std::move(address); }
  // Whether the request, or the event, is this link's.
  bool OnConnectRequest(std::uint64_t request, absl::string_view private_data);
  bool OnEvent(const rdma::ConnectionEvent& event);
  // Once a turn. Gives whether CALCs were done: their entries can go.
  bool Progress(std::uint64_t now_ns);
  void Arm() { cq_->Arm(); }

  memgest::CalcQueue& queue() { return queue_; }

 private:
  CalcLink(const Options& options, std::unique_ptr<rdma::CompletionQueue> cq);
  void Connect();
  void Pause(std::uint64_t pause_ns);
  void OnTrouble(memgest::CalcQueue::Trouble trouble);

  Options options_;
  std::string address_;
  std::unique_ptr<rdma::CompletionQueue> cq_;
  std::unique_ptr<rdma::QueuePair> near_;
  std::unique_ptr<rdma::QueuePair> far_;
  memgest::CalcQueue queue_;
  State state_ = State::kPaused;
  std::uint64_t now_ns_ = 0;
  std::uint64_t until_ns_ = 0;  // it pauses, or waits for the connection
  int troubles_ = 0;            // and then
  std::uint64_t sound_before_ = 0;
  bool told_ = false;
};

}  // namespace ring::node

#endif  // RING_NODE_CALC_LINK_H_
