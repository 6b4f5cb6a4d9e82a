#include "api/client_ring.h"

#include <deque>
#include <vector>

#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/support/random_seed.h"

namespace ring::api {
namespace {

constexpr std::uint64_t kCells = RequestRing::kCells;

TEST(RequestRing, StampsCountRequestsAndPadsAndSkipZero) {
  RequestRing ring;
  RequestRing::Place place;
  ASSERT_TRUE(ring.Reserve(1, &place));
  EXPECT_EQ(place.stamp, 1u);
  ring.Answered(place.end);
  ring.set_next_stamp(0xffffffff);
  ASSERT_TRUE(ring.Reserve(1, &place));
  EXPECT_EQ(place.stamp, 0xffffffffu);
  ASSERT_TRUE(ring.Reserve(1, &place));
  EXPECT_EQ(place.stamp, 1u);
}

TEST(RequestRing, IsFullWhenTheCellBehindTheRequestIsNotFree) {
  RequestRing ring;
  RequestRing::Place place;
  std::vector<std::uint64_t> ends;
  while (ring.Reserve(146, &place)) ends.push_back(place.end);
  EXPECT_EQ(ends.size(), 7u);
  EXPECT_FALSE(ring.Reserve(146, &place));
  ring.Answered(ends[0]);
  ASSERT_TRUE(ring.Reserve(1, &place));  // small ones still fit at the end
  EXPECT_FALSE(place.pad);
}

TEST(RequestRing, AnAnswerFreesAllThatWentBefore) {
  RequestRing ring;
  RequestRing::Place first, second, third;
  ASSERT_TRUE(ring.Reserve(2, &first));
  ASSERT_TRUE(ring.Reserve(3, &second));
  ASSERT_TRUE(ring.Reserve(4, &third));
  ring.Answered(second.end);
  EXPECT_EQ(ring.used(), 4u);
  ring.Answered(first.end);  // late answers take nothing back
  EXPECT_EQ(ring.used(), 4u);
}

// A model of the reader: no unread cell is ever written to or zeroed.
TEST(RequestRing, NeverTouchesACellThatTheNodeHasNotRead) {
  SeededRandom random(ring::testing::SeedFor("request ring"));
  RequestRing ring;
  std::vector<bool> unread(kCells, false);
  struct Frame {
    std::vector<std::uint64_t> cells;
    std::uint64_t end;
  };
  std::deque<Frame> frames;
  int pads = 0;
  for (int i = 0; i < 20000; ++i) {
    RequestRing::Place place;
    const std::uint64_t size = 1 + random.Below(random.Below(4) == 0 ? 146 : 20);
    if (!ring.Reserve(size, &place)) {
      ASSERT_FALSE(frames.empty());
      for (std::uint64_t n = 1 + random.Below(frames.size()); n > 0; --n) {
        for (const std::uint64_t cell : frames.front().cells) unread[cell] = false;
        ring.Answered(frames.front().end);
        frames.pop_front();
      }
      continue;
    }
    Frame frame{{}, place.end};
    if (place.pad) {
      ++pads;
      ASSERT_FALSE(unread[0]);
      ASSERT_FALSE(unread[place.pad_cell]);
      ASSERT_EQ(place.cell, 0u);
      frame.cells.push_back(place.pad_cell);
      unread[place.pad_cell] = true;
    }
    ASSERT_LE(place.cell + size, kCells - 1);
    for (std::uint64_t cell = place.cell; cell < place.cell + size; ++cell) {
      ASSERT_FALSE(unread[cell]);
      frame.cells.push_back(cell);
      unread[cell] = true;
    }
    ASSERT_FALSE(unread[place.cell + size]);  // its word is zeroed
    frames.push_back(std::move(frame));
  }
  EXPECT_GT(pads, 10);
}

}  // namespace
}  // namespace ring::api
