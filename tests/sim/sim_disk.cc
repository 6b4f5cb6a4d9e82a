#include "tests/sim/sim_disk.h"

#include <optional>

#include "ring/base/check.h"

namespace ring::sim {

class SimDisk::Opened final : public consensus::Storage {
 public:
  Opened(SimDisk* disk, std::function<void()> ended) : disk_(disk), ended_(std::move(ended)) {}
  // As kill -9: of what was being written a part may be there.
  ~Opened() override {
    if (write_ == nullptr) return;
    write_->Forget();
    disk_->content_.WritePart(*request_, disk_->times_.Below(request_->entries.size() + 3));
  }

  absl::StatusOr<consensus::InitialState> Load() override { return disk_->content_.Load(); }
  absl::Status Persist(const consensus::PersistRequest& request) override {
    return disk_->Persist(request);
  }
  void Begin(std::shared_ptr<const consensus::PersistRequest> request) override {
    RING_CHECK(write_ == nullptr && !outcome_.has_value());
    const std::uint64_t write_ns = disk_->WriteNs();
    if (write_ns == 0) {
      outcome_ = Persist(*request);
      return;
    }
    request_ = std::move(request);
    write_ = std::make_shared<Write>(this);
    disk_->network_->events().Schedule(disk_->network_->now_ns() + write_ns, write_, 0);
  }
  bool HasOutcome() const override { return outcome_.has_value(); }
  std::optional<absl::Status> TakeOutcome() override {
    return std::exchange(outcome_, std::nullopt);
  }

  void End() {
    outcome_ = Persist(*request_);
    write_ = nullptr;
    request_ = nullptr;
    if (ended_ != nullptr) ended_();
  }

 private:
  SimDisk* disk_;
  std::function<void()> ended_;
  std::shared_ptr<const consensus::PersistRequest> request_;
  std::shared_ptr<Write> write_;  // null: none
  std::optional<absl::Status> outcome_;
};

void SimDisk::Write::OnEvent(std::uint64_t) {
  if (opened_ != nullptr) opened_->End();
}

absl::StatusOr<std::unique_ptr<consensus::Storage>> SimDisk::Open(consensus::ServerId* id,
                                                                  std::function<void()> ended) {
  if (id_ == consensus::kNoServer) id_ = *id;
  *id = id_;
  return std::make_unique<Opened>(this, std::move(ended));
}

absl::Status SimDisk::Persist(const consensus::PersistRequest& request) {
  constexpr std::uint64_t kStepsMax = 4;
  if (network_->now_ns() < refuses_until_ns_) {
    network_->faults().Count(rdma::sim::FaultClass::kF11Exhaustion, "voters' storage");
    content_.FailNext(1, random_.Below(kStepsMax));
  }
  return content_.Persist(request);
}

std::uint64_t SimDisk::WriteNs() {
  if (slow_ns_ == 0) return 0;
  const bool stalls = stall_one_in_ != 0 && times_.Below(stall_one_in_) == 0;
  network_->faults().Count(rdma::sim::FaultClass::kF11Exhaustion,
                           stalls ? "voters' storage stalls" : "voters' storage, slowly");
  return 1 + times_.Below(stalls ? stall_ns_ : slow_ns_);
}

}  // namespace ring::sim
