// Scratch memory that a node's shards share: F11.
#include "memgest/delta_arena.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/memgest/twin_device.h"
#include "tests/support/status_matchers.h"

namespace ring::memgest {
namespace {

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

}  // namespace
}  // namespace ring::memgest
