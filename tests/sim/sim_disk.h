// tests/sim/sim_disk.h — what a voter has decided, kept while its node is away.
//
// What:      SimDisk: the storage of one node's part in the consensus (VoterStorage). It outlives
//            the node's starts, can be lost with one of them (F1), can refuse for a while what is
//            to be durable, after a part of it, and can take its time (F11): then a node that ends
//            meanwhile leaves any part of what was under way.
// Ownership: borrows the network; outlives the node.
// Threads:   one.
// Errors:    Persist: kResourceExhausted while it refuses.
#ifndef RING_TESTS_SIM_SIM_DISK_H_
#define RING_TESTS_SIM_SIM_DISK_H_

#include <functional>
#include <memory>
#include <utility>

#include "consensus/memory_storage.h"
#include "rdma/sim/event_queue.h"
#include "rdma/sim/sim_network.h"
#include "ring/base/random.h"
#include "ring/node/control/voter_storage.h"

namespace ring::sim {

class SimDisk final : public node::VoterStorage {
 public:
  SimDisk(rdma::sim::SimNetwork* network, std::uint64_t seed)
      : network_(network), random_(seed), times_(~seed) {}

  absl::Status Check() const override { return absl::OkStatus(); }
  bool HasMemory() const override { return !consensus::IsEmpty(content_.state()); }
  absl::StatusOr<std::unique_ptr<consensus::Storage>> Open(consensus::ServerId* id,
                                                           std::function<void()> ended) override;

  // The next start finds another one, with nothing. REQUIRES: its node is down.
  void Lose() {
    id_ = consensus::kNoServer;
    content_ = consensus::MemoryStorage();
  }
  // Until then nothing becomes durable as a whole.
  void RefuseUntil(std::uint64_t until_ns) { refuses_until_ns_ = until_ns; }
  // A write takes up to ns, and one of so many up to stall_ns. 0: none takes any time.
  void Slow(std::uint64_t ns, std::uint64_t stall_one_in, std::uint64_t stall_ns) {
    slow_ns_ = ns;
    stall_one_in_ = stall_one_in;
    stall_ns_ = stall_ns;
  }
  // How far its log goes: who has that may be elected with it.
  std::pair<consensus::Term, consensus::LogIndex> last() const {
    return {content_.TermAt(content_.last_index()), content_.last_index()};
  }

 private:
  class Opened;
  // A write that is under way; its end finds it gone if its node ended.
  class Write final : public rdma::sim::EventTarget {
   public:
    explicit Write(Opened* opened) : opened_(opened) {}
    void OnEvent(std::uint64_t) override;
    void Forget() { opened_ = nullptr; }

   private:
    Opened* opened_;
  };

  absl::Status Persist(const consensus::PersistRequest& request);
  std::uint64_t WriteNs();

  rdma::sim::SimNetwork* network_;
  SeededRandom random_;
  SeededRandom times_;
  consensus::ServerId id_;
  consensus::MemoryStorage content_;
  std::uint64_t refuses_until_ns_ = 0;
  std::uint64_t slow_ns_ = 0;
  std::uint64_t stall_one_in_ = 0;
  std::uint64_t stall_ns_ = 0;
};

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_SIM_DISK_H_
