// S1, S3 and S10 at a parity: members of all shards fold their rings, in any interleaving, into one
// parity, which is compared with an encode of what the folded prefixes made of the shards.
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "ec_offload/kernels.h"
#include "gtest/gtest.h"
#include "memgest/member_shard.h"
#include "memgest/size_class.h"
#include "memgest/slot_allocator.h"
#include "ring/base/random.h"
#include "srs/codec.h"
#include "tests/memgest/entry_ring.h"
#include "tests/memgest/twin_device.h"
#include "tests/support/random_seed.h"
#include "tests/support/status_matchers.h"

namespace ring::memgest {
namespace {

constexpr std::uint32_t kBlock = 4096;
constexpr std::uint32_t kLines = 1u << 16;
constexpr MemgestId kSrs{6};

protocol::MemgestDescriptor Descriptor(int k, int m) {
  protocol::MemgestDescriptor descriptor;
  descriptor.id = kSrs;
  descriptor.scheme = protocol::Scheme::kStretchedReedSolomon;
  descriptor.k = static_cast<std::uint8_t>(k);
  descriptor.m = static_cast<std::uint8_t>(m);
  descriptor.block_size = kBlock;
  return descriptor;
}

// What a shard's coordinator has: slots, the heap, and a slow copy of it as of the folded prefix.
struct Shard {
  Shard(TwinDevice* device, ShardId id)
      : lines(device, kLines),
        heap(device),
        allocator(kSrs, kBlock, &lines, &heap),
        member(device, GroupId(0), id, kLines) {}

  struct Version {
    Slot slot;
    std::vector<Range> ranges;
    std::uint64_t version = 0;
  };
  struct Change {  // bytes of one entry, applied to `folded` when the member folds it
    std::uint32_t offset_cells = 0;
    std::vector<std::byte> bytes;
  };

  LineTable lines;
  HeapSpace heap;
  SlotAllocator allocator;
  EntryRing ring{std::size_t{16} << 20};
  MemberShard member;
  std::uint64_t index = 0;
  std::vector<Version> live;
  // Appended for collection, reusable at once: the ring is in order.
  std::vector<Version> collecting;
  std::deque<Change> changes;  // one an entry
  std::vector<std::byte> folded;
};

class Cluster {
 public:
  Cluster(std::uint64_t seed, int k, int m, int s, int parity)
      : random_(seed), parity_(static_cast<std::uint32_t>(parity)) {
    srs::SrsParameters parameters;
    parameters.k = static_cast<std::uint32_t>(k);
    parameters.m = static_cast<std::uint32_t>(m);
    parameters.s = static_cast<std::uint32_t>(s);
    parameters.block_size = kBlock;
    auto codec = srs::Codec::Create(parameters);
    RING_CHECK(codec.ok());
    codec_ = std::make_unique<const srs::Codec>(*std::move(codec));
    store_ = std::make_unique<ParityStore>(&device_, Descriptor(k, m), s, parity);
    for (int i = 0; i < s; ++i) {
      const ShardId id(static_cast<std::uint16_t>(i));
      shards_.push_back(std::make_unique<Shard>(&device_, id));
      shards_.back()->member.AddParity(Descriptor(k, m), store_.get());
      shards_.back()->member.Attach(shards_.back()->ring.MakeReader());
    }
  }

  void Run(int steps) {
    for (int step = 0; step < steps; ++step) {
      const std::size_t i = random_.Below(shards_.size());
      Shard& shard = *shards_[i];
      if (random_.Below(3) == 0) {
        Fold(shard, static_cast<int>(random_.Below(6)));
      } else if (random_.Below(25) == 0) {
        PutLarge(i);
      } else if (random_.Below(25) == 0) {
        Release(i);
      } else {
        PutSmall(i, 1 + random_.Below(random_.Below(4) == 0 ? kBlock : 700));
      }
      if (step % 100 == 0) Check();
      if (::testing::Test::HasFatalFailure()) return;
    }
    Check();
    for (auto& shard : shards_) Fold(*shard, 1 << 20);
    Check();
    for (auto& shard : shards_) EXPECT_TRUE(shard->changes.empty());
  }

  void RunRelease() {
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      for (int n = 0; n < 40; ++n) PutSmall(i, kBlock);
      Fold(*shards_[i], 1 << 20);
    }
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      EXPECT_GE(store_->heap().touched_bytes(), 20u * kBlock)
          << "while shard " << i << " had bytes there";
      Shard& shard = *shards_[i];
      for (const Shard::Version& old : shard.live) {
        shard.allocator.Free(old.slot.line, old.slot.size_class, old.slot.offset_cells, {});
      }
      shard.live.clear();
      Release(i);
      EXPECT_EQ(shard.heap.touched_bytes(), 0u);
      Fold(shard, 1 << 20);
    }
    EXPECT_EQ(store_->heap().touched_bytes(), 0u);
    Check();
  }

 private:
  // Writes new bytes into the coordinator's slot and gives the encoded delta (S3: against the bytes
  // that are there, freed versions' ones included).
  std::vector<std::byte> Write(std::size_t i, std::uint32_t offset_cells, std::size_t length,
                               bool zeros = false) {
    Shard& shard = *shards_[i];
    std::vector<std::byte> delta(length);
    std::vector<std::byte> bytes(length);
    std::byte* slot = shard.heap.At(offset_cells);
    for (std::size_t n = 0; n < length; ++n) {
      bytes[n] = zeros ? std::byte{0} : static_cast<std::byte>(random_.Next64());
      delta[n] = slot[n] ^ bytes[n];
      slot[n] = bytes[n];
    }
    // A block at a time: each has its own column.
    for (std::size_t done = 0; done < length;) {
      const std::uint64_t at = std::uint64_t{offset_cells} * 64 + done;
      const std::size_t size = std::min<std::size_t>(length - done, kBlock - at % kBlock);
      const srs::Position position = codec_->layout().Locate(static_cast<std::uint32_t>(i), at);
      ec_offload::Multiply(delta.data() + done, delta.data() + done,
                           codec_->coefficient(parity_, position.column), size);
      done += size;
    }
    shard.changes.push_back({offset_cells, std::move(bytes)});
    return delta;
  }

  EntryFields Next(Shard& shard, EntryType type) {
    EntryFields fields;
    fields.type = type;
    fields.memgest = kSrs;
    fields.index = ++shard.index;
    fields.version = Version(Epoch(3), shard.index);
    if (type != EntryType::kPart) fields.key = "key";
    return fields;
  }

  // Attaches a collect list of some live versions; their slots are free behind this entry.
  void Collect(Shard& shard, EntryFields* fields, std::vector<CollectItem>* items) {
    shard.collecting.clear();
    while (items->size() < 16 && shard.live.size() > 20 && random_.Below(3) != 0) {
      std::swap(shard.live[random_.Below(shard.live.size())], shard.live.back());
      items->push_back({shard.live.back().version, shard.live.back().slot.line});
      shard.collecting.push_back(shard.live.back());
      shard.live.pop_back();
    }
    fields->collect = *items;
  }
  void FreeCollected(Shard& shard) {
    for (const Shard::Version& old : shard.collecting) {
      shard.allocator.Free(old.slot.line, old.slot.size_class, old.slot.offset_cells, old.ranges);
    }
  }

  void PutSmall(std::size_t i, std::uint64_t length) {
    Shard& shard = *shards_[i];
    ASSERT_OK_AND_ASSIGN(const Slot slot,
                         shard.allocator.Allocate(static_cast<std::uint32_t>(length)));
    EntryFields fields = Next(shard, EntryType::kPut);
    fields.line = slot.line;
    fields.size_class = slot.size_class;
    fields.offset_cells = slot.offset_cells;
    fields.value_length = static_cast<std::uint32_t>(length);
    std::vector<CollectItem> items;
    Collect(shard, &fields, &items);
    const std::vector<std::byte> delta = Write(i, slot.offset_cells, length);
    shard.ring.Append(fields, delta.data(), delta.size());
    shard.live.push_back({slot, {}, fields.version.bits()});
    FreeCollected(shard);
  }

  void PutLarge(std::size_t i) {
    Shard& shard = *shards_[i];
    std::vector<Range> ranges;
    const std::uint64_t length = kBlock + 1 + random_.Below(20 * kBlock);
    ASSERT_OK_AND_ASSIGN(const Slot slot, shard.allocator.AllocateLarge(length, &ranges));
    std::uint64_t left = length;
    for (const Range& range : ranges) {
      for (std::uint32_t done = 0; done < range.length_cells && left > 0;) {
        const std::uint64_t room = std::uint64_t{range.length_cells - done} * 64;
        const std::uint64_t size = std::min({left, room, std::uint64_t{5 * kBlock}});
        EntryFields part = Next(shard, EntryType::kPart);
        part.offset_cells = range.offset_cells + done;
        const std::vector<std::byte> delta = Write(i, part.offset_cells, size);
        shard.ring.Append(part, delta.data(), delta.size());
        left -= size;
        done += CellCount(size);
        if (random_.Below(2) == 0) PutSmall(i, 100);  // S10: small puts go between
      }
    }
    EntryFields fields = Next(shard, EntryType::kFinal);
    fields.line = slot.line;
    fields.value_length = static_cast<std::uint32_t>(length);
    fields.ranges = ranges;
    shard.ring.Append(fields, nullptr, 0);
    shard.changes.push_back({});
    shard.live.push_back({slot, ranges, fields.version.bits()});
  }

  // S3: pages that nobody has a byte in become zero by a delta, here and at the parity.
  void Release(std::size_t i) {
    Shard& shard = *shards_[i];
    for (bool again = true; again;) {
      const Range range = shard.allocator.NextRelease(16 * kBlock / 64, &again);
      if (range.length_cells == 0) continue;
      EntryFields fields = Next(shard, EntryType::kRelease);
      fields.version = Version();
      fields.key = {};
      fields.offset_cells = range.offset_cells;
      fields.value_length = range.length_cells * 64;
      const std::vector<std::byte> delta =
          Write(i, range.offset_cells, fields.value_length, /*zeros=*/true);
      shard.ring.Append(fields, delta.data(), delta.size());
      shard.heap.Release(range.offset_cells, range.length_cells);
    }
  }

  void Fold(Shard& shard, int budget) {
    shard.ring.Commit();
    ASSERT_OK_AND_ASSIGN(const int folded, shard.member.Fold(budget));
    for (int n = 0; n < folded; ++n) {
      const Shard::Change& change = shard.changes.front();
      const std::size_t at = std::size_t{change.offset_cells} * 64;
      if (shard.folded.size() < at + change.bytes.size()) {
        shard.folded.resize(at + change.bytes.size());
      }
      std::copy(change.bytes.begin(), change.bytes.end(),
                shard.folded.begin() + static_cast<std::ptrdiff_t>(at));
      shard.changes.pop_front();
    }
  }

  void Check() {
    const srs::Layout& layout = codec_->layout();
    const std::vector<std::byte> zero(kBlock);
    for (std::uint32_t extent = 0; extent < store_->extent_count(); ++extent) {
      for (std::uint32_t row = 0; row < layout.row_count(); ++row) {
        std::vector<std::byte> expected(kBlock);
        for (std::uint32_t column = 0; column < layout.parameters().k; ++column) {
          const srs::DataBlock at = layout.BlockOf(extent, row, column);
          std::vector<std::byte>& data = shards_[at.shard]->folded;
          if (data.size() < at.offset + kBlock) data.resize(at.offset + kBlock);
          codec_->AddContribution(expected.data(), parity_, data.data() + at.offset, column,
                                  kBlock);
        }
        const ParityStore::Row got = store_->ReadRow(extent, row);
        const std::byte* bytes = got.bytes == nullptr ? zero.data() : got.bytes;
        ASSERT_EQ(std::memcmp(bytes, expected.data(), kBlock), 0)
            << "extent=" << extent << " row=" << row;
      }
    }
  }

  SeededRandom random_;
  std::uint32_t parity_;
  TwinDevice device_;
  std::unique_ptr<const srs::Codec> codec_;
  std::unique_ptr<ParityStore> store_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

TEST(MemberParity, S1ParityIsTheEncodeOfTheFoldedPrefixes) {
  const std::uint64_t seed = ring::testing::SeedFor("fold");
  Cluster(seed, 2, 1, 3, 0).Run(1200);
  Cluster(seed + 1, 3, 2, 3, 1).Run(1200);
  Cluster(seed + 2, 2, 2, 5, 1).Run(1200);
}

TEST(MemberParity, S3WhatEveryShardReleasedTakesNoMemory) {
  Cluster(ring::testing::SeedFor("release"), 3, 2, 3, 1).RunRelease();
}

TEST(MemberParity, S3TheDeltaOfAReusedSlotCoversItsStaleBytes) {
  Cluster(ring::testing::SeedFor("stale"), 2, 2, 2, 1).Run(2500);
}

}  // namespace
}  // namespace ring::memgest
