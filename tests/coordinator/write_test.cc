// Slots and deltas: S2 (the part that exists), S3, S8, S9, S11, S14, V5.
#include <cstring>

#include "ring/base/crc32c.h"
#include "srs/codec.h"
#include "tests/coordinator/shard_harness.h"

namespace ring::coordinator {
namespace {

using protocol::Outcome;

// S3: the delta is taken against the bytes that are really in the slot, left there by another key.
TEST(Write, S3AReusedSlotsDeltaIsAgainstTheBytesThatAreThere) {
  for (const MemgestId memgest : {kSrs21, kSrs31, kSrs32}) {
    ShardHarness harness;
    for (int round = 0; round < 6; ++round) {
      for (int i = 0; i < 70; ++i) {
        harness.Put(memgest, "k" + std::to_string(i),
                    Bytes(900, static_cast<unsigned>(round * 100 + i)));
      }
      harness.Settle();
      for (int i = 0; i < 70; ++i) harness.Delete("k" + std::to_string(i));
      harness.Settle();
      harness.Scrub();  // parity = code of all bytes of the heap, free slots' too
    }
    EXPECT_EQ(harness.shard().FindMemgest(memgest)->allocator().block_count(), 1u);
  }
}

// S3: what was refused after its slot was reserved changes no byte of the coded region.
TEST(Write, S3ARefusedPutLeavesTheSlotAsItWas) {
  ShardHarness harness;
  harness.Run(harness.Put(kSrs32, "k", Bytes(1000, 1)));
  harness.Run(harness.Delete("k"));
  harness.Settle();
  Sent sent;
  sent.key = "bad";
  sent.value = Bytes(1000, 2);
  sent.request.operation = protocol::Operation::kPut;
  sent.request.memgest = kSrs32;
  sent.request.seq = harness.client()->Take();
  sent.client = harness.client();
  sent.request.value = reinterpret_cast<const std::byte*>(sent.value.data());
  const int number = harness.Put(kSrs32, "other", "x");
  harness.Run(number);
  Request request = sent.request;
  request.key = sent.key;
  request.hash = KeyHash(request.key, harness.shard().options().hash_seed);
  request.client = harness.shard().completions().FindOrAdd(harness.client()->id());
  request.client_id = harness.client()->id();
  request.value_length = 1000;
  request.value_crc = Crc32c(sent.value.data(), sent.value.size()) ^ 1;
  Sent get;
  get.key = "bad";
  get.request.operation = protocol::Operation::kGet;
  const int place = harness.Send(get);  // answered; its number is used again below
  request.reply.stamp = static_cast<std::uint32_t>(place);
  constexpr std::size_t kSize = std::size_t{memgest::HeapSpace::kChunkCells} * kCacheLine;
  const auto* const heap =
      reinterpret_cast<const char*>(harness.shard().FindMemgest(kSrs32)->heap().At(0));
  const std::string before(heap, kSize);
  ASSERT_TRUE(harness.shard().Execute(request));
  EXPECT_EQ(harness.outcome(place), Outcome::kBadChecksum);
  EXPECT_EQ(harness.answer(place).count, 2);
  EXPECT_EQ(harness.HeadLine("bad"), memgest::kNoLine);
  EXPECT_EQ(harness.shard().FindMemgest(kSrs32)->version_count, 1u);
  EXPECT_TRUE(std::string(heap, kSize) == before);
}

// S8: row 0 of the code is all ones, so P1's log holds raw deltas, from which P2's follow.
TEST(Write, S8TheFirstParitysDeltasAreRawAndRescaleToTheSecond) {
  ShardHarness harness;
  const auto codec = srs::Codec::Create({3, 2, 3, protocol::kBlockSizeDefault});
  ASSERT_TRUE(codec.ok());
  std::uint64_t position = 0;
  std::string old(640, '\0');
  for (int round = 0; round < 5; ++round) {
    const std::string value = Bytes(640, static_cast<unsigned>(round));
    harness.Run(harness.Put(kSrs32, "k" + std::to_string(round), value));
    const std::uint32_t line = harness.HeadLine("k" + std::to_string(round));
    const std::uint32_t cells = harness.shard().lines().line(line).offset_cells;
    const std::uint32_t column = codec->layout().Locate(0, std::uint64_t{cells} * 64).column;
    const std::byte* const first = harness.member(3).ring() + position + memgest::kEntryHeaderSize;
    const std::byte* const second = harness.member(4).ring() + position + memgest::kEntryHeaderSize;
    EXPECT_EQ(std::memcmp(first, value.data(), value.size()), 0);  // the slot was zero before
    std::vector<std::byte> rescaled(value.size());
    codec->Rescale(rescaled.data(), first, column, 0, 1, rescaled.size());
    EXPECT_EQ(std::memcmp(second, rescaled.data(), rescaled.size()), 0);
    position += memgest::kEntryHeaderSize + 640 + memgest::kEntryTrailerSize;
    ASSERT_EQ(harness.member(3).writer()->position(), position);
  }
}

// S9 at this level: with one parity, the code is XOR.
TEST(Write, S9OneParityIsXor) {
  ShardHarness harness;
  const std::string value = Bytes(500, 1);
  for (const MemgestId memgest : {kSrs21, kSrs31}) {
    harness.Run(harness.Put(memgest, "k" + std::to_string(memgest.value()), value));
    harness.Settle();
    memgest::ParityStore& store = *harness.member(3).parity(memgest);
    const std::uint32_t line = harness.HeadLine("k" + std::to_string(memgest.value()));
    const srs::Position at = store.layout().Locate(
        0, std::uint64_t{harness.shard().lines().line(line).offset_cells} * 64);
    const memgest::ParityStore::Row row =
        store.ReadRow(static_cast<std::uint32_t>(at.extent), at.row);
    ASSERT_NE(row.bytes, nullptr);
    EXPECT_EQ(std::memcmp(row.bytes + (at.parity_offset % store.block_size()), value.data(),
                          value.size()),
              0);
  }
}

// S11: bytes given to a device do not change until it is done: the WRITEs land late, after many
// later puts.
TEST(Write, S11BytesInTheDevicesHandsDoNotChange) {
  for (std::uint16_t id = 1; id < kMemgestCount; ++id) {
    ShardHarness harness;
    harness.SetFlow(false, false);
    for (unsigned i = 0; i < 60; ++i) {
      harness.Put(MemgestId(id), "k" + std::to_string(i % 5), Bytes(700, i));
      harness.Turn(2'000'000);
    }
    for (unsigned i = 0; i < 5; ++i) {
      EXPECT_FALSE(harness.answered(static_cast<int>(i)));
    }
    harness.Settle();
    harness.Scrub();
  }
}

// S11: the same of staged values and deltas: more puts than the arena holds wait for the device.
TEST(Write, S11TheArenaIsNotUsedAgainInTheDevicesHands) {
  HarnessOptions options;
  options.ring_size = std::size_t{16} << 20;
  ShardHarness harness(options);
  harness.SetFlow(false, false);
  std::vector<int> puts;
  for (unsigned i = 0; i < 300; ++i) {  // 24 KiB of the arena each, of 4 MiB
    puts.push_back(harness.Put(kSrs32, "k" + std::to_string(i), Bytes(8000, i)));
    harness.Turn();
  }
  EXPECT_GT(harness.shard().stalled(), 0u);
  harness.Settle();
  for (const int put : puts) EXPECT_EQ(harness.outcome(put), Outcome::kOk);
  harness.Scrub();
}

// S14: each version has a slot of its own, and the one below is as it was until it is collected.
TEST(Write, S14VersionsAreWrittenOutOfPlace) {
  ShardHarness harness;
  for (std::uint16_t id = 0; id < kMemgestCount; ++id) {
    const std::string key = "k" + std::to_string(id);
    harness.Run(harness.Put(MemgestId(id), key, Bytes(300, 1)));
    const std::uint32_t old = harness.HeadLine(key);
    harness.SetFlow(true, false);
    harness.Put(MemgestId(id), key, Bytes(300, 2));
    EXPECT_NE(harness.HeadLine(key), old);
    EXPECT_NE(harness.shard().lines().line(harness.HeadLine(key)).offset_cells,
              harness.shard().lines().line(old).offset_cells);
    EXPECT_TRUE(harness.ValueOf(old) == Bytes(300, 1));
    harness.Settle();
  }
  harness.Scrub();
}

// S2: a frozen block is not written, and every block knows the last entry that touched it.
TEST(Write, S2PutsLeaveAFrozenBlockAlone) {
  ShardHarness harness;
  memgest::SlotAllocator& allocator = harness.shard().FindMemgest(kSrs32)->allocator();
  for (unsigned i = 0; i < 10; ++i) {
    harness.Run(harness.Put(kSrs32, "k" + std::to_string(i), Bytes(700, i)));
  }
  const std::uint64_t touched = allocator.LastTouch(0);
  EXPECT_EQ(touched, harness.shard().FindMemgest(kSrs32)->next_index() - 1);
  allocator.Freeze(0);
  for (unsigned i = 0; i < 300; ++i) {
    harness.Put(kSrs32, "k" + std::to_string(i % 10), Bytes(700, 100 + i));
    harness.Turn(2'000'000);
  }
  harness.Settle();
  EXPECT_EQ(allocator.LastTouch(0), touched);
  harness.Scrub();
  allocator.Thaw(0);
  for (unsigned i = 0; i < 300; ++i) harness.Put(kSrs32, "l" + std::to_string(i), Bytes(700, i));
  harness.Settle();
  EXPECT_GT(allocator.LastTouch(0), touched);
  harness.Scrub();
}

// The client changes its bytes after it sent them: refused, or stored as they were summed.
TEST(Write, V5AWaitingPutStoresTheBytesItWasSentWith) {
  HarnessOptions options;
  options.ring_size = memgest::kRingSizeMin;
  ShardHarness harness(options);
  harness.SetFlow(false, false);
  std::vector<int> puts;
  for (unsigned i = 0; i < 100; ++i) {  // more than the ring holds: the rest waits
    puts.push_back(harness.Put(kRep2, "k" + std::to_string(i), Bytes(8000, i)));
  }
  EXPECT_GT(harness.shard().stalled(), 0u);
  for (const int put : puts) const_cast<std::string&>(harness.sent(put).value).assign(8000, '!');
  harness.Settle();
  for (unsigned i = 0; i < 100; ++i) {
    ASSERT_EQ(harness.outcome(puts[i]), Outcome::kOk) << i;
    EXPECT_TRUE(harness.Run(harness.Get("k" + std::to_string(i))).value == Bytes(8000, i));
  }
  harness.Settle();
  harness.Scrub();
}

// What a put saw before it waited for room may be over: its condition is looked at again.
TEST(Write, V5AWaitingPutLooksAtItsConditionAgain) {
  HarnessOptions options;
  options.ring_size = memgest::kRingSizeMin;
  ShardHarness harness(options);
  const Version old = harness.Run(harness.Put(kRep2, "k", "old")).version;
  harness.SetFlow(false, false);
  for (unsigned i = 0; i < 100; ++i) {
    harness.Put(kRep2, "l" + std::to_string(i), Bytes(8000, i));
  }
  const std::size_t stalled = harness.shard().stalled();
  const int put =
      harness.Put(kRep2, "k", Bytes(8000, 1000), {.conditional = true, .if_version = old});
  ASSERT_GT(harness.shard().stalled(), stalled);
  const int between = harness.Put(kRep1, "k", "between");  // takes no room in a ring
  harness.Settle();
  EXPECT_EQ(harness.outcome(between), Outcome::kOk);
  EXPECT_EQ(harness.outcome(put), Outcome::kVersionMismatch);
  EXPECT_EQ(harness.Run(harness.Get("k")).value, "between");
  harness.Settle();
  harness.Scrub();
}

}  // namespace
}  // namespace ring::coordinator
