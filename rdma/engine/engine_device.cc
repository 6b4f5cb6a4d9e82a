#include "rdma/engine/engine_device.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rdma/engine/engine_queues.h"
#include "rdma/engine/nic.h"
#include "rdma/soft/device.h"
#include "ring/base/status.h"

namespace ring::rdma {
namespace engine {
namespace {

class EngineMemoryRegion final : public MemoryRegion {
 public:
  EngineMemoryRegion(Nic* nic, std::unique_ptr<MemoryRegion> below)
      : nic_(nic), below_(std::move(below)) {}
  ~EngineMemoryRegion() override {
    nic_->Call([this] { below_.reset(); });
  }
  std::byte* address() const override { return below_->address(); }
  std::size_t length() const override { return below_->length(); }
  std::uint32_t lkey() const override { return below_->lkey(); }
  std::uint32_t rkey() const override { return below_->rkey(); }
  void Revoke() override {
    nic_->Call([this] { below_->Revoke(); });
  }

 private:
  Nic* nic_;
  std::unique_ptr<MemoryRegion> below_;
};

QueuePairOptions Below(QueuePairOptions options) {
  const auto below = [](CompletionQueue* cq) -> CompletionQueue* {
    return cq == nullptr ? nullptr : static_cast<EngineCompletionQueue*>(cq)->below();
  };
  options.send_cq = below(options.send_cq);
  options.recv_cq = below(options.recv_cq);
  return options;
}

class Engine final : public EngineDevice {
 public:
  explicit Engine(std::unique_ptr<Nic> nic) : nic_(std::move(nic)), caps_(device()->caps()) {}

  const Caps& caps() const override { return caps_; }
  absl::StatusOr<std::byte*> Allocate(std::size_t size, MemoryKind kind) override {
    absl::StatusOr<std::byte*> result;
    nic_->Call([&] { result = device()->Allocate(size, kind); });
    return result;
  }
  void Free(std::byte* address, std::size_t size, MemoryKind kind) override {
    nic_->Call([&] { device()->Free(address, size, kind); });
  }
  void PreferHuge(std::byte* address, std::size_t size) override {
    nic_->Call([&] { device()->PreferHuge(address, size); });
  }
  void Populate(std::byte* address, std::size_t size) override {
    nic_->Call([&] { device()->Populate(address, size); });
  }
  std::uint32_t LocalKey(const std::byte* address) const override {
    return device()->LocalKey(address);  // never changes
  }
  void Discard(std::byte* address, std::size_t size) override {
    nic_->Call([&] { device()->Discard(address, size); });
  }
  absl::StatusOr<std::unique_ptr<MemoryRegion>> Register(std::byte* address, std::size_t length,
                                                         std::uint32_t access) override {
    absl::StatusOr<std::unique_ptr<MemoryRegion>> region;
    nic_->Call([&] { region = device()->Register(address, length, access); });
    RING_RETURN_IF_ERROR(region.status());
    return std::make_unique<EngineMemoryRegion>(nic_.get(), *std::move(region));
  }
  absl::StatusOr<std::unique_ptr<CompletionQueue>> CreateCompletionQueue(
      std::size_t depth) override {
    absl::StatusOr<std::unique_ptr<CompletionQueue>> cq;
    nic_->Call([&] {
      cq = device()->CreateCompletionQueue(depth);
      if (!cq.ok()) return;
      cq = std::make_unique<EngineCompletionQueue>(nic_.get(), *std::move(cq), depth);
    });
    return cq;
  }
  absl::StatusOr<std::string> Listen(absl::string_view address) override {
    RING_RETURN_IF_ERROR(CheckScheme(address));
    absl::StatusOr<std::string> result;
    nic_->Call([&] { result = device()->Listen(address); });
    return result;
  }
  absl::StatusOr<std::unique_ptr<QueuePair>> Connect(absl::string_view address,
                                                     const QueuePairOptions& options,
                                                     absl::string_view private_data) override {
    RING_RETURN_IF_ERROR(CheckScheme(address));
    absl::StatusOr<std::unique_ptr<QueuePair>> qp;
    nic_->Call(
        [&] { qp = Wrap(device()->Connect(address, Below(options), private_data), options); });
    return qp;
  }
  absl::StatusOr<std::unique_ptr<QueuePair>> Accept(std::uint64_t request,
                                                    const QueuePairOptions& options,
                                                    absl::string_view private_data) override {
    absl::StatusOr<std::unique_ptr<QueuePair>> qp;
    nic_->Call(
        [&] { qp = Wrap(device()->Accept(request, Below(options), private_data), options); });
    return qp;
  }
  void Reject(std::uint64_t request, absl::string_view private_data) override {
    nic_->Call([&] { device()->Reject(request, private_data); });
  }
  bool PollEvent(ConnectionEvent* event) override { return nic_->TakeEvent(event); }
  bool Progress() override { return nic_->Look(); }
  int event_fd() const override { return nic_->event_fd(); }
  void SetSleeping(bool sleeping) override { nic_->SetSleeping(sleeping); }
  bool PeerHoldsOn(std::uint32_t qp_number) const override {
    bool holds = false;
    nic_->Call([&] { holds = device()->PeerHoldsOn(qp_number); });
    return holds;
  }
  DeviceCounters device_counters() const override {
    DeviceCounters calls;
    nic_->Call([&] { calls = device()->device_counters(); });
    return calls;
  }
  absl::Status CardStatus() const override { return absl::OkStatus(); }  // it has none
  EngineCounters counters() const override { return nic_->counters(); }

 private:
  // An RDMA card is an engine already, and what it writes would not wake the host's thread.
  static absl::Status CheckScheme(absl::string_view address) {
    if (!absl::StartsWith(address, "rdma:")) return absl::OkStatus();
    return absl::UnimplementedError(absl::StrCat(
        "address=", address, ": a device with an engine has no rdma links: open it without"));
  }
  soft::SoftDevice* device() const { return nic_->device(); }
  absl::StatusOr<std::unique_ptr<QueuePair>> Wrap(absl::StatusOr<std::unique_ptr<QueuePair>> below,
                                                  const QueuePairOptions& options) {
    RING_RETURN_IF_ERROR(below.status());
    return std::make_unique<EngineQueuePair>(nic_.get(), *std::move(below), options);
  }

  std::unique_ptr<Nic> nic_;
  Caps caps_;
};

}  // namespace
}  // namespace engine

absl::StatusOr<std::unique_ptr<EngineDevice>> OpenEngineDevice(const EngineDeviceOptions& options) {
  RING_ASSIGN_OR_RETURN(std::unique_ptr<engine::Nic> nic, engine::Nic::Start(options));
  return std::make_unique<engine::Engine>(std::move(nic));
}

}  // namespace ring::rdma
