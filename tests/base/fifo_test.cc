#include "ring/base/fifo.h"

#include <deque>
#include <memory>

#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/support/random_seed.h"

namespace ring {
namespace {

TEST(Fifo, GivesBackInTheOrderOfPushing) {
  Fifo<int> fifo;
  EXPECT_TRUE(fifo.empty());
  for (int i = 0; i < 100; ++i) fifo.push_back(i);
  EXPECT_EQ(fifo.size(), 100u);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(fifo.front(), i);
    fifo.pop_front();
  }
  EXPECT_TRUE(fifo.empty());
}

TEST(Fifo, PushFrontOfAnEmptyQueueIsItsFront) {
  Fifo<int> fifo;
  fifo.push_front(1);
  fifo.push_front(2);
  fifo.push_back(3);
  EXPECT_EQ(fifo[0], 2);
  EXPECT_EQ(fifo[1], 1);
  EXPECT_EQ(fifo[2], 3);
  EXPECT_EQ(fifo.size(), 3u);
}

TEST(Fifo, HoldsMoveOnlyElements) {
  Fifo<std::unique_ptr<int>> fifo;
  for (int i = 0; i < 20; ++i) fifo.push_back(std::make_unique<int>(i));
  EXPECT_EQ(*fifo[19], 19);
  EXPECT_EQ(*std::exchange(fifo.front(), nullptr), 0);
}

TEST(FifoDeathTest, TheFrontOfAnEmptyQueueIsABrokenInvariant) {
  Fifo<int> fifo;
  EXPECT_DEATH(fifo.front(), "");
  EXPECT_DEATH(fifo.pop_front(), "");
}

TEST(Fifo, AgreesWithADeque) {
  SeededRandom random(testing::SeedFor("fifo"));
  Fifo<std::uint64_t> fifo;
  std::deque<std::uint64_t> model;
  for (int i = 0; i < 50000; ++i) {
    const std::uint64_t choice = random.Below(10);
    if (choice < (i / 5000 % 2 == 0 ? 4u : 2u)) {
      const std::uint64_t value = random.Next64();
      fifo.push_back(value);
      model.push_back(value);
    } else if (choice < 5) {
      const std::uint64_t value = random.Next64();
      fifo.push_front(value);
      model.push_front(value);
    } else if (!model.empty()) {
      fifo.pop_front();
      model.pop_front();
    }
    ASSERT_EQ(fifo.size(), model.size());
    ASSERT_EQ(fifo.empty(), model.empty());
    if (model.empty()) continue;
    ASSERT_EQ(fifo.front(), model.front());
    const std::size_t at = random.Below(model.size());
    ASSERT_EQ(fifo[at], model[at]);
  }
}

}  // namespace
}  // namespace ring
