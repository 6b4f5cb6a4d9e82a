#include "ring/node/recovery/room_pause.h"

#include "gtest/gtest.h"

namespace ring::node {
namespace {

TEST(RoomPause, F11DoublesAsLongAsThereIsNoRoomUpToABound) {
  RoomPause pause;
  EXPECT_TRUE(pause.over(0));
  std::uint64_t now_ns = 1'000;
  std::uint64_t length_ns = RoomPause::kMinNs;
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(pause.OnNoRoom(now_ns), i == 0) << "told once";
    EXPECT_FALSE(pause.over(now_ns + length_ns - 1));
    now_ns += length_ns;
    EXPECT_TRUE(pause.over(now_ns));
    length_ns = std::min(2 * length_ns, RoomPause::kMaxNs);
  }
}

TEST(RoomPause, F11ValuesThatWereUnderWayTogetherCountOnce) {
  RoomPause pause;
  EXPECT_TRUE(pause.OnNoRoom(0));
  for (int i = 0; i < 16; ++i) EXPECT_FALSE(pause.OnNoRoom(1));
  EXPECT_TRUE(pause.over(RoomPause::kMinNs));
}

TEST(RoomPause, F11RoomEndsItAndTheNextLackIsNewsAgain) {
  RoomPause pause;
  EXPECT_TRUE(pause.OnNoRoom(0));
  pause.OnRoom();
  EXPECT_TRUE(pause.over(1));
  EXPECT_TRUE(pause.OnNoRoom(2));
  EXPECT_TRUE(pause.over(2 + RoomPause::kMinNs)) << "from the shortest on";
}

}  // namespace
}  // namespace ring::node
