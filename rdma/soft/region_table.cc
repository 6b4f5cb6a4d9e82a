#include "rdma/soft/region_table.h"

#include "absl/strings/str_cat.h"
#include "rdma/soft/shared_copy.h"

namespace ring::rdma::soft {

class RegionTable::Region final : public MemoryRegion {
 public:
  Region(RegionTable* table, std::byte* address, std::size_t length, std::uint32_t key)
      : table_(table), address_(address), length_(length), key_(key) {}
  ~Region() override { table_->Release(key_); }
  std::byte* address() const override { return address_; }
  std::size_t length() const override { return length_; }
  std::uint32_t lkey() const override { return key_; }
  std::uint32_t rkey() const override { return key_; }
  void Revoke() override { table_->Close(key_); }

 private:
  RegionTable* table_;
  std::byte* address_;
  std::size_t length_;
  std::uint32_t key_;
};

RegionTable::RegionTable(std::shared_ptr<Mapping> mapping)
    : mapping_(std::move(mapping)), locals_(kRegionCountMax), generations_(kRegionCountMax, 0) {
  for (std::uint32_t i = 0; i < kRegionCountMax; ++i) free_.push_back(i);
}

bool RegionTable::InArena(const std::byte* address, std::size_t length) const {
  const auto at = reinterpret_cast<std::uint64_t>(address) - mapping_->owner_arena_address();
  const std::uint64_t size = mapping_->layout().arena_size;
  return length <= size && at <= size - length;
}

absl::StatusOr<std::unique_ptr<MemoryRegion>> RegionTable::Register(std::byte* address,
                                                                    std::size_t length,
                                                                    std::uint32_t access) {
  if (address == nullptr || length == 0) {
    return absl::InvalidArgumentError("cannot register an empty range: give address and length");
  }
  const bool in_arena = InArena(address, length);
  if (!in_arena && access != kLocalOnly) {
    return absl::InvalidArgumentError(absl::StrCat(
        "memory with access=", access, " must come from Device::Allocate; length=", length));
  }
  if (free_.empty()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("region table full: count=", kRegionCountMax, "; register larger ranges"));
  }
  const std::uint32_t index = free_.front();
  free_.pop_front();
  const std::uint32_t key = (++generations_[index] << kRegionIndexBits) | index;
  locals_[index] = {key, reinterpret_cast<std::uint64_t>(address), length, access};
  if (in_arena && access != kLocalOnly) {
    RegionEntry& entry = mapping_->control()->regions[index];
    entry.offset.store(reinterpret_cast<std::uint64_t>(address) - mapping_->owner_arena_address(),
                       std::memory_order_relaxed);
    entry.length.store(length, std::memory_order_relaxed);
    entry.access.store(access, std::memory_order_relaxed);
    entry.key.store(key, std::memory_order_release);
  }
  return std::make_unique<Region>(this, address, length, key);
}

std::byte* RegionTable::Serve(std::uint32_t rkey, std::uint64_t remote_address,
                              std::uint64_t length, std::uint32_t access) const {
  return RemoteTarget(*mapping_, rkey, remote_address, length, access);
}

// Rule L5: generation + 1 (no key is valid any more), then a fence, then the owner may scan.
void RegionTable::Close(std::uint32_t key) {
  RegionEntry& entry = mapping_->control()->regions[key & kRegionIndexMask];
  std::uint32_t present = key;
  entry.key.compare_exchange_strong(present, 0, std::memory_order_seq_cst);
  FullFence();
  if (watcher_ != nullptr) watcher_->OnClose(key);
  locals_[key & kRegionIndexMask].access = kLocalOnly;
}

std::vector<RegionRange> RegionTable::List() const {
  std::vector<RegionRange> regions;
  for (const Local& local : locals_) {
    if (local.key == 0) continue;
    regions.push_back(
        {local.key, reinterpret_cast<std::byte*>(local.address), local.length, local.access});
  }
  return regions;
}

void RegionTable::Release(std::uint32_t key) {
  Close(key);
  const std::uint32_t index = key & kRegionIndexMask;
  if (watcher_ != nullptr) watcher_->OnRelease(key);
  locals_[index] = {};
  if (generations_[index] < kGenerationMax) free_.push_back(index);
}

}  // namespace ring::rdma::soft
