// tests/memgest/twin_device.h — a device that has memory and nothing else.
//
// What:      TwinDevice gives zeroed, 2-MiB-aligned memory until a limit, or until the n-th call
//            fails on purpose; counts what is live. No queues, no connections.
// Ownership: owns its memory for life.
// Threads:   one.
// Errors:    kResourceExhausted from Allocate and Register.
#ifndef RING_TESTS_MEMGEST_TWIN_DEVICE_H_
#define RING_TESTS_MEMGEST_TWIN_DEVICE_H_

#include <sys/mman.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "rdma/fabric.h"
#include "ring/base/align.h"
#include "ring/base/check.h"

namespace ring::memgest {

class TwinDevice final : public rdma::Device {
 public:
  static constexpr std::size_t kAlignment = 2 * 1024 * 1024;

  TwinDevice() = default;
  ~TwinDevice() override {
    for (const auto& [address, size] : mappings_) munmap(address, size);
  }

  const Caps& caps() const override { return caps_; }

  std::uint32_t LocalKey(const std::byte*) const override { return 1; }
  absl::StatusOr<std::byte*> Allocate(std::size_t size, rdma::MemoryKind kind) override {
    const bool huge = kind == rdma::MemoryKind::kPrivateHuge;
    if (fail_from <= ++calls) return absl::ResourceExhaustedError("twin: this call fails");
    if (reserved + size > limit) return absl::ResourceExhaustedError("twin: arena limit");
    reserved += size;
    if (huge) ++huge_count;
    const std::size_t mapped = AlignUp(size, kAlignment) + kAlignment;
    void* base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    RING_CHECK(base != MAP_FAILED);
    if (advise_huge && huge) madvise(base, mapped, MADV_HUGEPAGE);
    mappings_.emplace_back(base, mapped);
    const auto address = reinterpret_cast<std::uintptr_t>(base);
    return reinterpret_cast<std::byte*>(AlignUp(address, kAlignment));
  }
  void Discard(std::byte* address, std::size_t size) override {
    madvise(address, size, MADV_DONTNEED);
    discarded += size;
  }
  void Free(std::byte* address, std::size_t size, rdma::MemoryKind) override {
    madvise(address, size, MADV_DONTNEED);
    freed += size;
    reserved -= size;
  }
  void PreferHuge(std::byte*, std::size_t) override { ++collapse_count; }
  void Populate(std::byte*, std::size_t) override {}
  absl::StatusOr<std::unique_ptr<rdma::MemoryRegion>> Register(std::byte* address,
                                                               std::size_t length,
                                                               std::uint32_t access) override {
    if (fail_from <= ++calls) return absl::ResourceExhaustedError("twin: this call fails");
    RING_CHECK(access == rdma::kLocalOnly);
    return std::make_unique<Region>(address, length, ++regions);
  }

  absl::StatusOr<std::unique_ptr<rdma::CompletionQueue>> CreateCompletionQueue(
      std::size_t) override {
    return absl::UnimplementedError("twin");
  }
  absl::StatusOr<std::string> Listen(absl::string_view) override {
    return absl::UnimplementedError("twin");
  }
  absl::StatusOr<std::unique_ptr<rdma::QueuePair>> Connect(absl::string_view,
                                                           const rdma::QueuePairOptions&,
                                                           absl::string_view) override {
    return absl::UnimplementedError("twin");
  }
  absl::StatusOr<std::unique_ptr<rdma::QueuePair>> Accept(std::uint64_t,
                                                          const rdma::QueuePairOptions&,
                                                          absl::string_view) override {
    return absl::UnimplementedError("twin");
  }
  void Reject(std::uint64_t, absl::string_view) override {}
  bool PollEvent(rdma::ConnectionEvent*) override { return false; }
  bool Progress() override { return false; }
  int event_fd() const override { return -1; }
  void SetSleeping(bool) override {}
  bool PeerHoldsOn(std::uint32_t) const override { return false; }
  rdma::DeviceCounters device_counters() const override { return {}; }
  absl::Status CardStatus() const override { return absl::OkStatus(); }

  std::size_t limit = ~std::size_t{0} / 2;  // of reserved
  std::size_t fail_from = ~std::size_t{0};  // the first call (from 1) that fails, and all later
  bool advise_huge = false;
  std::size_t calls = 0;     // of Allocate and Register
  std::size_t reserved = 0;  // bytes allocated, and not freed
  std::size_t discarded = 0;
  std::size_t freed = 0;
  std::size_t collapse_count = 0;
  std::size_t huge_count = 0;
  std::uint32_t regions = 0;

 private:
  class Region final : public rdma::MemoryRegion {
   public:
    Region(std::byte* address, std::size_t length, std::uint32_t key)
        : address_(address), length_(length), key_(key) {}
    std::byte* address() const override { return address_; }
    std::size_t length() const override { return length_; }
    std::uint32_t lkey() const override { return key_; }
    std::uint32_t rkey() const override { return key_; }
    void Revoke() override {}

   private:
    std::byte* address_;
    std::size_t length_;
    std::uint32_t key_;
  };

  Caps caps_;
  std::vector<std::pair<void*, std::size_t>> mappings_;
};

}  // namespace ring::memgest

#endif  // RING_TESTS_MEMGEST_TWIN_DEVICE_H_
