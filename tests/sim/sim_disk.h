// tests/sim/sim_disk.h — what a voter has decided, kept while its node is away.
//
// What:      SimDisk: the storage of one node's part in the consensus (VoterStorage). It outlives
//            the node's starts, can be lost with one of them (F1), and can refuse for a while what
//            is to be durable, after a part of it (F11).
// Ownership: borrows the network; outlives the node.
// Threads:   one.
// Errors:    Persist: kResourceExhausted while it refuses.
#ifndef RING_TESTS_SIM_SIM_DISK_H_
#define RING_TESTS_SIM_SIM_DISK_H_

#include <memory>
#include <utility>

#include "consensus/memory_storage.h"
#include "rdma/sim/sim_network.h"
#include "ring/base/random.h"
#include "ring/node/control/voter_storage.h"

namespace ring::sim {

class SimDisk final : public node::VoterStorage {
 public:
  SimDisk(rdma::sim::SimNetwork* network, std::uint64_t seed) : network_(network), random_(seed) {}

  absl::Status Check() const override { return absl::OkStatus(); }
  bool HasMemory() const override { return !consensus::IsEmpty(content_.state()); }
  absl::StatusOr<std::unique_ptr<consensus::Storage>> Open(consensus::ServerId* id) override {
    if (id_ == consensus::kNoServer) id_ = *id;
    *id = id_;
    return std::make_unique<Opened>(this);
  }

  // The next start finds another one, with nothing. REQUIRES: its node is down.
  void Lose() {
    id_ = consensus::kNoServer;
    content_ = consensus::MemoryStorage();
  }
  // Until then nothing becomes durable as a whole.
  void RefuseUntil(std::uint64_t until_ns) { refuses_until_ns_ = until_ns; }
  // How far its log goes: who has that may be elected with it.
  std::pair<consensus::Term, consensus::LogIndex> last() const {
    return {content_.TermAt(content_.last_index()), content_.last_index()};
  }

 private:
  class Opened final : public consensus::Storage {
   public:
    explicit Opened(SimDisk* disk) : disk_(disk) {}
    absl::StatusOr<consensus::InitialState> Load() override { return disk_->content_.Load(); }
    absl::Status Persist(const consensus::PersistRequest& request) override {
      return disk_->Persist(request);
    }

   private:
    SimDisk* disk_;
  };

  absl::Status Persist(const consensus::PersistRequest& request) {
    constexpr std::uint64_t kStepsMax = 4;
    if (network_->now_ns() < refuses_until_ns_) {
      network_->faults().Count(rdma::sim::FaultClass::kF11Exhaustion, "voters' storage");
      content_.FailNext(1, random_.Below(kStepsMax));
    }
    return content_.Persist(request);
  }

  rdma::sim::SimNetwork* network_;
  SeededRandom random_;
  consensus::ServerId id_;
  consensus::MemoryStorage content_;
  std::uint64_t refuses_until_ns_ = 0;
};

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_SIM_DISK_H_
