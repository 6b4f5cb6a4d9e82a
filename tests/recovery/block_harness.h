// tests/recovery/block_harness.h — a BlockRecovery with blocks, and a test in the place of the
// parities.
//
// What:      BlockHarness has a memgest whose blocks are Lost, each with a version in it, and says
//            what the recovery asks for. Two histories that the rules' switches must break.
// Threads:   one.
// Errors:    what goes wrong while it is set up aborts.
#ifndef RING_TESTS_RECOVERY_BLOCK_HARNESS_H_
#define RING_TESTS_RECOVERY_BLOCK_HARNESS_H_

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "ring/base/check.h"
#include "ring/base/crc32c.h"
#include "ring/recovery/block_recovery.h"
#include "tests/memgest/twin_device.h"

namespace ring::recovery {

inline constexpr MemgestId kMemgest{2};
inline constexpr MemgestId kOther{3};  // its blocks are kMemgest's, if a test adds it

class BlockHarness final : public BlockActions {
 public:
  static constexpr std::uint32_t kBlock = 8192;
  static constexpr std::uint32_t kLength = 8000;  // of a version: one a block
  static constexpr std::uint64_t kIndex = 500;

  struct Asked {
    std::uint64_t call = 0;
    NodeId parity;
    DecodeRequest request;
  };

  // high_water: blocks that were ever used, if more.
  explicit BlockHarness(std::uint32_t block_count, std::uint32_t high_water = 0) {
    protocol::MemgestDescriptor descriptor;
    descriptor.id = kMemgest;
    descriptor.scheme = protocol::Scheme::kStretchedReedSolomon;
    descriptor.k = 3;
    descriptor.m = 2;
    descriptor.block_size = kBlock;
    // What another coordinator gave out.
    memgest::HeapSpace heap(&device_);
    memgest::SlotAllocator before(kMemgest, kBlock, &lines_, &heap);
    for (std::uint32_t block = 0; block < block_count; ++block) {
      const absl::StatusOr<memgest::Slot> slot = before.Allocate(kLength);
      RING_CHECK(slot.ok() && slot->offset_cells == block * kBlock / 64);
      memgest::MetadataLine& line = lines_.line(slot->line);
      line.version = block + 1;
      line.value_length = kLength;
      line.offset_cells = slot->offset_cells;
      line.size_class = slot->size_class;
      line.memgest = kMemgest.value();
      line.flags = memgest::kLive | memgest::kCommitted | memgest::kAbsent;
      line.value_crc = Crc32c(BytesOf(block).data(), kLength);
      lines_of_.push_back(slot->line);
    }
    memgest_ = std::make_unique<memgest::Memgest>(&device_, descriptor, ShardId(1), 3, 2, &lines_);
    std::uint64_t all = ~std::uint64_t{0};
    RING_CHECK(
        *allocator().Adopt(std::max(block_count, high_water), memgest::BlockState::kLost, &all));
    recovery.Add(kMemgest, kIndex);
  }

  static std::string BytesOf(std::uint32_t block) {
    std::string bytes(kBlock, static_cast<char>('a' + block % 26));
    std::memcpy(bytes.data(), &block, sizeof(block));
    return bytes;
  }
  static std::string RightBytes(std::uint32_t block) {
    return Encode(DecodeAnswer{kIndex, BytesOf(block)});
  }
  static std::string WrongBytes(std::uint32_t block) {
    std::string bytes = BytesOf(block);
    bytes[4000] ^= 1;
    return Encode(DecodeAnswer{kIndex, bytes});
  }

  // Normal: these nodes, of the roles 3 and up, have everything.
  void Serve(Epoch epoch, const std::vector<std::uint32_t>& parities) {
    cluster::NormalRecord normal;
    normal.epoch = epoch;
    for (std::uint32_t node = 0; node < 5; ++node)
      normal.holders.push_back({NodeId(node), Incarnation(1)});
    for (const MemgestId id : {kMemgest, kOther}) {
      cluster::MemgestNormal set;
      set.id = id;
      for (const std::uint32_t node : parities) set.complete |= 1u << node;
      normal.memgests.push_back(set);
    }
    recovery.SetSources(epoch, normal, 3);
  }
  // To the first call that was asked.
  void Answer(const absl::StatusOr<std::string>& body) {
    const Asked first = asked.front();
    asked.erase(asked.begin());
    recovery.OnBlock(first.call, body);
  }
  void AnswerAll() {
    while (!asked.empty()) Answer(RightBytes(asked.front().request.block));
  }
  bool HasBytes(std::uint32_t block) {
    return allocator().state(block) == memgest::BlockState::kPresent && Fits(block);
  }
  bool Fits(std::uint32_t block) {
    return std::memcmp(memgest_->heap().At(block * kBlock / 64), BytesOf(block).data(), kBlock) ==
           0;
  }
  memgest::SlotAllocator& allocator() { return memgest_->allocator(); }
  memgest::Memgest& memgest() { return *memgest_; }
  void ClearVersion(std::uint32_t block) { lines_.line(lines_of_[block]).version = 0; }
  void Free(std::uint32_t block) {
    lines_.Clear(lines_of_[block]);
    allocator().Free(lines_of_[block], memgest::ClassOf(kLength), block * kBlock / 64, {});
  }

 private:
  memgest::Memgest* Find(MemgestId id) override {
    return id == kMemgest && deleted ? nullptr : memgest_.get();
  }
  void Ask(std::uint64_t call, NodeId parity, const DecodeRequest& request) override {
    asked.push_back({call, parity, request});
  }
  std::vector<std::uint32_t> BlocksOfValue(MemgestId, std::uint32_t block) override {
    return absl::c_linear_search(value, block) ? value : std::vector<std::uint32_t>();
  }
  bool ValueFits(MemgestId, std::uint32_t block) override {
    return !absl::c_linear_search(value, block) ||
           absl::c_all_of(value, [this](std::uint32_t one) { return Fits(one); });
  }
  void OnPresent(MemgestId, std::uint32_t block) override { present.push_back(block); }
  void OnGone(MemgestId, std::uint32_t block) override { gone.push_back(block); }
  void OnDelayed(MemgestId, std::uint32_t block) override { delayed.push_back(block); }

  memgest::TwinDevice device_;
  memgest::LineTable lines_{&device_, 1u << 14};
  std::unique_ptr<memgest::Memgest> memgest_;
  std::vector<std::uint32_t> lines_of_;  // by block

 public:
  Pace pace{1 << 20, 1 << 20};
  BlockRecovery recovery{this, &pace, &lines_, GroupId(0), ShardId(1)};
  std::vector<Asked> asked;
  std::vector<std::uint32_t> present;
  std::vector<std::uint32_t> gone;
  std::vector<std::uint32_t> delayed;
  bool deleted = false;              // kMemgest
  std::vector<std::uint32_t> value;  // blocks of one version, to which only all of them tell
};

// S5: the answer to a call of an epoch that is over comes when the block came from elsewhere, its
// version was deleted, and something new was put into the slot.
inline bool NewerPutSurvivesALateAnswer() {
  BlockHarness harness(1);
  harness.Serve(Epoch(2), {3});
  harness.recovery.Want(kMemgest, 0);
  harness.recovery.Step(1'000'000);
  const BlockHarness::Asked late = harness.asked[0];
  harness.asked.clear();
  harness.Serve(Epoch(3), {4});
  harness.recovery.Step(2'000'000);
  harness.AnswerAll();
  if (!harness.HasBytes(0)) return false;
  harness.Free(0);
  const absl::StatusOr<memgest::Slot> slot = harness.allocator().Allocate(BlockHarness::kLength);
  if (!slot.ok() || slot->offset_cells != 0) return false;
  std::memset(harness.memgest().heap().At(0), 'N', BlockHarness::kLength);
  harness.recovery.OnBlock(late.call, BlockHarness::RightBytes(0));
  const auto* const bytes = reinterpret_cast<const char*>(harness.memgest().heap().At(0));
  return std::string(bytes, BlockHarness::kLength) == std::string(BlockHarness::kLength, 'N');
}

// S12: one parity is wrong, the other is right.
inline bool WrongBytesAreNotInstalled() {
  BlockHarness harness(1);
  harness.Serve(Epoch(2), {3, 4});
  harness.recovery.Want(kMemgest, 0);
  harness.recovery.Step(1'000'000);
  harness.Answer(BlockHarness::WrongBytes(0));
  if (!harness.present.empty()) return false;
  harness.recovery.Step(20'000'000);
  if (harness.asked.empty() || harness.asked[0].parity != NodeId(4)) return false;
  harness.AnswerAll();
  return harness.HasBytes(0);
}

}  // namespace ring::recovery

#endif  // RING_TESTS_RECOVERY_BLOCK_HARNESS_H_
