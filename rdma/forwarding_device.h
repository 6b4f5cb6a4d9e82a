// rdma/forwarding_device.h — what every device has that goes in front of another one.
//
// What:      ForwardingDevice passes everything on; who derives from it overrides what it changes,
//            and misses nothing that a Device comes to promise later.
// Ownership: owns the device below.
// Threads:   one, the device's.
// Errors:    as the device below.
// Cost:      a virtual call more for everything.
#ifndef RING_RDMA_FORWARDING_DEVICE_H_
#define RING_RDMA_FORWARDING_DEVICE_H_

#include <memory>
#include <string>
#include <utility>

#include "rdma/fabric.h"

namespace ring::rdma {

class ForwardingDevice : public Device {
 public:
  const Caps& caps() const override { return below_->caps(); }
  absl::StatusOr<std::byte*> Allocate(std::size_t size, MemoryKind kind) override {
    return below_->Allocate(size, kind);
  }
  void Free(std::byte* address, std::size_t size, MemoryKind kind) override {
    below_->Free(address, size, kind);
  }
  void PreferHuge(std::byte* address, std::size_t size) override {
    below_->PreferHuge(address, size);
  }
  void Populate(std::byte* address, std::size_t size) override { below_->Populate(address, size); }
  std::uint32_t LocalKey(const std::byte* address) const override {
    return below_->LocalKey(address);
  }
  void Discard(std::byte* address, std::size_t size) override { below_->Discard(address, size); }
  absl::StatusOr<std::unique_ptr<MemoryRegion>> Register(std::byte* address, std::size_t length,
                                                         std::uint32_t access) override {
    return below_->Register(address, length, access);
  }
  absl::StatusOr<std::unique_ptr<CompletionQueue>> CreateCompletionQueue(
      std::size_t depth) override {
    return below_->CreateCompletionQueue(depth);
  }
  absl::StatusOr<std::string> Listen(absl::string_view address) override {
    return below_->Listen(address);
  }
  absl::StatusOr<std::unique_ptr<QueuePair>> Connect(absl::string_view address,
                                                     const QueuePairOptions& options,
                                                     absl::string_view private_data) override {
    return below_->Connect(address, options, private_data);
  }
  absl::StatusOr<std::unique_ptr<QueuePair>> Accept(std::uint64_t request,
                                                    const QueuePairOptions& options,
                                                    absl::string_view private_data) override {
    return below_->Accept(request, options, private_data);
  }
  void Reject(std::uint64_t request, absl::string_view private_data) override {
    below_->Reject(request, private_data);
  }
  bool PollEvent(ConnectionEvent* event) override { return below_->PollEvent(event); }
  bool Progress() override { return below_->Progress(); }
  int event_fd() const override { return below_->event_fd(); }
  void SetSleeping(bool sleeping) override { below_->SetSleeping(sleeping); }
  bool PeerHoldsOn(std::uint32_t qp_number) const override {
    return below_->PeerHoldsOn(qp_number);
  }
  DeviceCounters device_counters() const override { return below_->device_counters(); }
  absl::Status CardStatus() const override { return below_->CardStatus(); }

 protected:
  explicit ForwardingDevice(std::unique_ptr<Device> below) : below_(std::move(below)) {}
  Device* below() const { return below_.get(); }

 private:
  std::unique_ptr<Device> below_;
};

}  // namespace ring::rdma

#endif  // RING_RDMA_FORWARDING_DEVICE_H_
