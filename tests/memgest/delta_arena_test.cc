// Scratch memory that a node's shards share: F11.
#include "memgest/delta_arena.h"

#include <array>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "memgest/shard_log.h"
#include "tests/memgest/twin_device.h"
#include "tests/support/status_matchers.h"

namespace ring::memgest {
namespace {

constexpr MemgestId kMemgest{1};
constexpr RoleMask kEveryRole = ~RoleMask{0};

// Whoever keeps a piece for long costs the others its segment, and not those behind it.
TEST(DeltaArenaTest, F11AnyFreeSegmentIsTaken) {
  TwinDevice device;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<DeltaArena> arena, DeltaArena::Create(&device));
  std::vector<DeltaArena::Piece> pieces;
  for (std::size_t i = 0; i < DeltaArena::kSegmentCount; ++i) {
    pieces.push_back(arena->Take(DeltaArena::kSegmentSize));
    ASSERT_NE(pieces.back().memory, nullptr) << i;
  }
  EXPECT_EQ(arena->Take(64).memory, nullptr) << "all are in use";
  arena->GiveBack(pieces[2].segment);
  for (int i = 0; i < 5; ++i) {
    const DeltaArena::Piece piece = arena->Take(DeltaArena::kSegmentSize);
    ASSERT_NE(piece.memory, nullptr) << i;
    EXPECT_EQ(piece.segment, pieces[2].segment);
    EXPECT_EQ(arena->Take(64).memory, nullptr);
    arena->GiveBack(piece.segment);
  }
}

// F11: pieces are the node's: a takeover that is dropped must not keep those that it took.
TEST(DeltaArenaTest, F11ALogThatGoesGivesBackWhatWasSetAsideForIt) {
  TwinDevice device;
  LineTable lines(&device, 1u << 16);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<DeltaArena> arena, DeltaArena::Create(&device));
  for (std::size_t i = 0; i <= DeltaArena::kAsideMax; ++i) {
    ShardLog taken_over(Epoch(6), arena.get(), /*held=*/true);
    protocol::MemgestDescriptor descriptor;
    descriptor.id = kMemgest;
    descriptor.r = 3;
    Memgest memgest(&device, descriptor, ShardId(0), 3, 2, &lines);
    memgest.ContinueAt(1);
    taken_over.Attach(&memgest, kEveryRole);
    ASSERT_OK_AND_ASSIGN(const DeltaArena::Piece piece, arena->TakeAside(64));
    std::array<std::byte, kEntryHeadSizeMax> head;
    EntryFields fields;
    fields.type = EntryType::kPut;
    fields.version = Version(Epoch(5), 1);
    fields.key = "k";
    fields.memgest = kMemgest;
    fields.index = 1;
    fields.payload_length = 64;
    const std::size_t head_size = BuildEntryHead(fields, Epoch(5), head.data());
    const rdma::Sge sge{piece.memory, 64, piece.lkey};
    EntryPayload payload;
    payload.sges = absl::MakeConstSpan(&sge, 1);
    ASSERT_OK(taken_over.Adopt(memgest, {head.data(), head_size}, absl::MakeConstSpan(&payload, 1),
                               &piece));
  }
}

}  // namespace
}  // namespace ring::memgest
