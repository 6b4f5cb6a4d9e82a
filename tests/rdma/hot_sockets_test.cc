#include "rdma/soft/hot_sockets.h"

#include <gtest/gtest.h>

#include <functional>

namespace ring::rdma::soft {
namespace {

class Socket final : public FdHandler {
 public:
  void OnReady(std::uint32_t) override {}
  bool ReceiveNow() override {
    ++received;
    if (on_receive) on_receive();
    return has_bytes;
  }
  bool has_bytes = false;
  int received = 0;
  std::function<void()> on_receive;
};

class HotSocketsTest : public ::testing::Test {
 protected:
  // A turn in which a look, if one is due, finds only what is hot. Gives whether there was one.
  bool Turn() {
    came_ = hot_.Receive(++turn_);
    const bool look = hot_.LookDue();
    if (look) hot_.Looked(/*found_other=*/false);
    return look;
  }
  void MakeLooksRare() {
    for (int i = 0; i < 1000; ++i) {
      hot_.Came(&one_, turn_);
      Turn();
    }
    one_.received = 0;
  }

  HotSockets hot_;
  Socket one_;
  Socket two_;
  Socket three_;
  std::uint32_t turn_ = 0xffff'ff00;  // it wraps within the test
  bool came_ = false;
};

TEST_F(HotSocketsTest, WithoutAHotSocketEveryTurnLooks) {
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(Turn());
}

TEST_F(HotSocketsTest, ABusySocketIsReceivedFromAndLooksAreRare) {
  MakeLooksRare();
  constexpr int kTurns = 800;
  int looks = 0;
  for (int i = 0; i < kTurns; ++i) {
    hot_.Came(&one_, turn_);
    looks += Turn() ? 1 : 0;
  }
  EXPECT_EQ(looks, kTurns / static_cast<int>(HotSockets::kPeriodMax));
  EXPECT_EQ(one_.received, kTurns - looks);  // a look tells of hot sockets too
}

TEST_F(HotSocketsTest, GivesWhetherBytesCame) {
  MakeLooksRare();
  hot_.Came(&one_, turn_);
  hot_.Looked(false);
  one_.has_bytes = true;
  Turn();
  EXPECT_TRUE(came_);
  one_.has_bytes = false;
  Turn();
  EXPECT_FALSE(came_);
}

TEST_F(HotSocketsTest, AQuietSocketIsNotHotForLong) {
  MakeLooksRare();
  for (int i = 0; i < 20; ++i) Turn();
  EXPECT_FALSE(hot_.IsHot(&one_));
  EXPECT_LE(one_.received, 3);
  EXPECT_TRUE(Turn());
}

TEST_F(HotSocketsTest, ASocketThatOwesAnAnswerStaysHotWhileQuietButNotForEver) {
  MakeLooksRare();
  hot_.Expect(&two_, turn_);
  for (int i = 0; i < 200; ++i) Turn();
  EXPECT_TRUE(hot_.IsHot(&two_));
  EXPECT_GT(two_.received, 150);
  for (int i = 0; i < 2000; ++i) Turn();
  EXPECT_FALSE(hot_.IsHot(&two_));
  // The answer that came is the end of it.
  hot_.Expect(&two_, turn_);
  hot_.Came(&two_, turn_);
  for (int i = 0; i < 20; ++i) Turn();
  EXPECT_FALSE(hot_.IsHot(&two_));
}

TEST_F(HotSocketsTest, ALookThatFoundAnotherSocketIsFollowedByALookEveryTurn) {
  MakeLooksRare();
  hot_.Looked(/*found_other=*/true);
  for (std::uint32_t i = 0; i < HotSockets::kCleanLooks; ++i) {
    hot_.Came(&one_, turn_);
    EXPECT_TRUE(Turn());
  }
  hot_.Came(&one_, turn_);
  EXPECT_FALSE(Turn());
}

TEST_F(HotSocketsTest, WithTooManyHotSocketsEveryTurnLooks) {
  MakeLooksRare();
  for (int i = 0; i < 100; ++i) {
    for (Socket* socket : {&one_, &two_, &three_}) hot_.Came(socket, turn_);
    EXPECT_TRUE(Turn());
  }
  EXPECT_EQ(one_.received + two_.received + three_.received, 0);
}

TEST_F(HotSocketsTest, AForgottenSocketIsNotReceivedFromNotEvenInTheSameTurn) {
  MakeLooksRare();
  hot_.Looked(false);
  hot_.Came(&one_, turn_);
  hot_.Came(&two_, turn_);
  one_.on_receive = [this] { hot_.Forget(&two_); };
  two_.on_receive = [this] { hot_.Forget(&one_); };
  Turn();
  EXPECT_EQ(one_.received + two_.received, 1);
}

}  // namespace
}  // namespace ring::rdma::soft
