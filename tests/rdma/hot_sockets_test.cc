#include "rdma/soft/hot_sockets.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <numeric>
#include <vector>

namespace ring::rdma::soft {
namespace {

class Socket final : public HotSocket {
 public:
  Socket(HotSockets* hot, const std::uint32_t* turn) : hot_(hot), turn_(turn) {}
  bool ReceiveNow() override {
    ++tries;
    if (on_receive) on_receive();
    return Take();
  }
  // What a look does for a socket that is ready.
  void OnReady() {
    if (!has_bytes) return;
    hot_->Found(this);
    Take();
  }
  bool has_bytes = false;
  int tries = 0;
  int batches = 0;
  std::uint32_t arrived = 0;  // the turn before the first in which they could be received
  std::uint32_t waited_max = 0;
  std::function<void()> on_receive;

 private:
  bool Take() {
    if (!has_bytes) return false;
    has_bytes = false;
    ++batches;
    waited_max = std::max(waited_max, *turn_ - arrived);
    hot_->Came(this, *turn_);
    return true;
  }
  HotSockets* hot_;
  const std::uint32_t* turn_;
};

class HotSocketsTest : public ::testing::Test {
 protected:
  explicit HotSocketsTest(std::size_t count = 100) {
    for (std::size_t i = 0; i < count; ++i) sockets_.emplace_back(&hot_, &turn_);
  }
  void Arrive(std::size_t first, std::size_t end) {
    for (std::size_t i = first; i < end; ++i) {
      if (sockets_[i].has_bytes) continue;
      sockets_[i].has_bytes = true;
      sockets_[i].arrived = turn_;
    }
  }
  // Gives whether the turn looked.
  bool Turn() {
    ++turn_;
    came_ = hot_.Receive(turn_);
    if (!hot_.LookDue()) return false;
    ++looks_;
    hot_.Looked();
    for (Socket& socket : sockets_) socket.OnReady();
    return true;
  }
  void Turns(int count, std::size_t busy_first, std::size_t busy_end) {
    for (int i = 0; i < count; ++i) {
      Arrive(busy_first, busy_end);
      Turn();
    }
  }
  void MakeBusy(std::size_t count) {
    Turns(1000, 0, count);
    looks_ = 0;
    for (Socket& socket : sockets_) {
      socket.tries = socket.batches = 0;
      socket.waited_max = 0;
    }
  }
  int Tries() const { return Sum(&Socket::tries); }
  int Batches() const { return Sum(&Socket::batches); }
  int Sum(int Socket::*count) const {
    return std::accumulate(sockets_.begin(), sockets_.end(), 0,
                           [count](int sum, const Socket& socket) { return sum + socket.*count; });
  }
  static constexpr int kPerLook = static_cast<int>(HotSockets::kBatchesPerLook);
  static constexpr int kPeriod = static_cast<int>(HotSockets::kPeriodMax);

  HotSockets hot_;
  std::vector<Socket> sockets_;
  std::uint32_t turn_ = 0xffff'ff00;  // it wraps within the test
  int looks_ = 0;
  bool came_ = false;
};

TEST_F(HotSocketsTest, WithoutAHotSocketEveryTurnLooks) {
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(Turn());
  EXPECT_EQ(Tries(), 0);
}

TEST_F(HotSocketsTest, OfAnyNumberOfBusySocketsNoneIsTriedInVainAndLooksAreRare) {
  for (const std::size_t count : {1, 2, 3, 4, 16, 64}) {
    MakeBusy(count);
    constexpr int kTurns = 800;
    Turns(kTurns, 0, count);
    const int batches = kTurns * static_cast<int>(count);
    EXPECT_EQ(Batches(), batches) << count;
    EXPECT_EQ(Tries(), batches) << count;  // each brought a batch
    EXPECT_LE(looks_, batches / kPerLook) << count;
    Turns(100, 0, 0);
  }
}

// The worst that bytes can do: they come in whatever turn their socket is not tried in.
TEST_F(HotSocketsTest, ReceivesInVainAreAtMostOneForEightBatches) {
  MakeBusy(0);
  std::uint32_t random = 1;
  for (int turn = 0; turn < 20'000; ++turn) {
    for (std::size_t i = 0; i < 6; ++i) {
      random = random * 1664525 + 1013904223;
      const bool comes =
          i < 2 ? hot_.IsHot(&sockets_[i]) == (random % 16 == 0) : (random >> 16) % 100 < 15 * i;
      if (comes) Arrive(i, i + 1);
    }
    Turn();
  }
  ASSERT_GT(Batches(), 20'000);
  int in_vain = 0;
  for (const Socket& socket : sockets_) in_vain += std::max(0, socket.tries - socket.batches);
  EXPECT_LE(in_vain, Batches() / static_cast<int>(HotSockets::kMissCost));
}

TEST_F(HotSocketsTest, GivesWhetherBytesCame) {
  MakeBusy(1);
  Arrive(0, 1);
  Turn();
  EXPECT_TRUE(came_);
  Turn();
  EXPECT_FALSE(came_);
}

TEST_F(HotSocketsTest, AQuietSocketIsNotHotForLong) {
  MakeBusy(3);
  Turns(20, 0, 0);
  EXPECT_FALSE(hot_.IsHot(&sockets_[0]));
  EXPECT_LE(Tries(), 3 * static_cast<int>(HotSockets::kCreditMax / HotSockets::kMissCost));
  EXPECT_TRUE(Turn());
}

TEST_F(HotSocketsTest, AColdSocketWaitsForEightBatchesOfOthersAtMost) {
  for (const std::size_t busy : {1, 3, 8, 60}) {
    MakeBusy(busy);
    for (int round = 0; round < 100; ++round) {
      Turns(10 + round % 7, 0, busy);
      Arrive(99, 100);
      Turns(kPerLook, 0, busy);
    }
    EXPECT_EQ(sockets_[99].batches, 100) << busy;
    const auto turns = (HotSockets::kBatchesPerLook + busy - 1) / busy;
    EXPECT_LE(sockets_[99].waited_max, turns) << busy;
    Turns(100, 0, 0);
  }
}

TEST_F(HotSocketsTest, ALookThatFoundAColdSocketIsFollowedByALook) {
  MakeBusy(2);
  Arrive(99, 100);
  Turns(kPerLook, 0, 2);
  ASSERT_EQ(sockets_[99].batches, 1);
  const int before = looks_;
  for (int i = 0; i < 10; ++i) {
    Arrive(98, 100);
    Turns(1, 0, 2);
  }
  EXPECT_GE(looks_, before + 9);
  EXPECT_LE(sockets_[98].waited_max, 4u);
}

TEST_F(HotSocketsTest, WhereNothingComesOnHotSocketsTheOthersAreLookedFor) {
  MakeBusy(4);
  Arrive(99, 100);
  Turns(kPeriod, 0, 0);
  EXPECT_EQ(sockets_[99].batches, 1);
}

TEST_F(HotSocketsTest, ASocketThatOwesAnAnswerIsTriedWhileQuietButNotForEver) {
  MakeBusy(1);
  Turns(100, 0, 0);
  Socket& owing = sockets_[1];
  hot_.Expect(&owing, turn_);
  Turns(200, 0, 0);
  EXPECT_TRUE(hot_.IsHot(&owing));
  EXPECT_GT(owing.tries, 150);
  Turns(2000, 0, 0);
  EXPECT_FALSE(hot_.IsHot(&owing));
  // The answer that came is the end of it.
  hot_.Expect(&owing, turn_);
  Arrive(1, 2);
  Turns(20, 0, 0);
  EXPECT_EQ(owing.batches, 1);
  EXPECT_FALSE(hot_.IsHot(&owing));
}

TEST_F(HotSocketsTest, WhereBytesComeOtherSocketsThatOweAnAnswerAreNotTriedInVain) {
  MakeBusy(3);
  hot_.Expect(&sockets_[50], turn_);
  Turns(500, 0, 3);
  EXPECT_EQ(sockets_[50].tries, 0);
  Arrive(50, 51);
  Turns(3, 0, 3);
  EXPECT_EQ(sockets_[50].batches, 1);
}

TEST_F(HotSocketsTest, WhereTooManyOweAnAnswerEveryTurnLooks) {
  for (std::size_t i = 0; i <= HotSockets::kOwedMax; ++i) hot_.Expect(&sockets_[i], turn_);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(Turn());
  EXPECT_EQ(Tries(), 0);
}

TEST_F(HotSocketsTest, ALookThatFoundAnotherSocketIsFollowedByALookInEveryQuietTurn) {
  hot_.Expect(&sockets_[0], turn_);
  Turns(900, 0, 0);
  EXPECT_LE(looks_, 900 / kPeriod + 200);
  Arrive(99, 100);
  Turns(kPeriod, 0, 0);
  ASSERT_EQ(sockets_[99].batches, 1);
  hot_.Expect(&sockets_[0], turn_);
  for (std::uint32_t i = 0; i < HotSockets::kCleanLooks / 2; ++i) EXPECT_TRUE(Turn());
  Turns(900, 0, 0);
  EXPECT_FALSE(Turn() && Turn());
}

TEST_F(HotSocketsTest, MoreHotSocketsThanATurnTriesTakeTheirTurns) {
  constexpr std::size_t kBusy = 90;
  static_assert(kBusy > HotSockets::kTriesMax);
  MakeBusy(kBusy);
  for (int i = 0; i < 200; ++i) {
    const int before = Tries();
    Arrive(0, kBusy);
    Turn();
    EXPECT_LE(Tries() - before, static_cast<int>(HotSockets::kTriesMax));
  }
  for (std::size_t i = 0; i < kBusy; ++i) EXPECT_LE(sockets_[i].waited_max, 2u) << i;
}

TEST_F(HotSocketsTest, AForgottenSocketIsNotReceivedFromNotEvenInTheSameTurn) {
  MakeBusy(4);
  for (std::size_t i = 0; i < 4; ++i) {
    sockets_[i].on_receive = [this, i] {
      for (std::size_t j = 0; j < 4; ++j) {
        if (j != i) hot_.Forget(&sockets_[j]);
      }
    };
  }
  Turn();
  EXPECT_EQ(Tries(), 1);
}

TEST_F(HotSocketsTest, ASocketThatEndsWhileItIsReceivedFromIsNotTouchedAgain) {
  MakeBusy(3);
  sockets_[1].on_receive = [this] { hot_.Forget(&sockets_[1]); };
  Turns(50, 0, 0);
  EXPECT_EQ(sockets_[1].tries, 1);
  EXPECT_FALSE(hot_.IsHot(&sockets_[1]));
}

}  // namespace
}  // namespace ring::rdma::soft
