// Contexts that are released while operations are under way.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <future>
#include <thread>

#include "tests/ec_offload/verbs_exp/async_fixture.h"
#include "tests/support/await.h"

namespace ring::ec_verbs {
namespace {

using EcReleaseTest = EcAsyncTest;

TEST_F(EcReleaseTest, ReleaseCompletesWhatIsLeftAsFailed) {
  ibv_exp_ec_calc* const calc = Open(1);
  std::vector<int> order;
  std::vector<Done> done(3);
  for (int i = 0; i < 3; ++i) {
    Done& one = done[static_cast<std::size_t>(i)];
    one.index = i;
    one.order = &order;
    one.comp.status = IBV_EXP_EC_CALC_SUCCESS;
    ASSERT_EQ(ibv_exp_ec_encode_async(calc, stripe_.mem(), &one.comp), 0);
  }
  ibv_exp_dealloc_ec_calc(calc);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
  for (const Done& one : done) EXPECT_EQ(one.comp.status, IBV_EXP_EC_CALC_FAIL);
}

TEST_F(EcReleaseTest, ReleaseInFlightTellsEveryCompletionBeforeItReturns) {
  for (int round = 0; round < 50; ++round) {
    ibv_exp_ec_calc* const calc = Open(0, 16);
    std::vector<int> order;
    std::vector<Done> done(16);
    for (Done& one : done) {
      one.order = &order;
      ASSERT_EQ(ibv_exp_ec_encode_async(calc, stripe_.mem(), &one.comp), 0);
    }
    ibv_exp_dealloc_ec_calc(calc);
    EXPECT_EQ(order.size(), 16U);
  }
}

// It says so by its value; a later one is refused.
TEST_F(EcReleaseTest, ReleaseUnderASynchronousCallEndsIt) {
  for (int round = 0; round < 100; ++round) {
    ibv_exp_ec_calc* const calc = Open(round % 2);
    std::atomic<int> calls = 0;
    int result = 0;
    std::thread caller([&] {
      while ((result = ibv_exp_ec_encode_sync(calc, stripe_.mem())) == 0) ++calls;
    });
    testing::Await("three calls", [&] { return calls >= 3; });
    ibv_exp_dealloc_ec_calc(calc);
    caller.join();
    EXPECT_TRUE(result == IBV_EXP_EC_CALC_FAIL || result == -EINVAL) << result;
  }
}

TEST_F(EcReleaseTest, ReleaseInsideDoneTellsTheRestBeforeItReturns) {
  struct Releasing {
    ibv_exp_ec_comp comp;
    ibv_exp_ec_calc* calc;
    std::promise<void> submitted;
    std::vector<int> order;
    std::promise<std::size_t> told;  // how many when the release returned
  } releasing;
  releasing.calc = Open(0);
  releasing.comp.done = [](ibv_exp_ec_comp* comp) {
    auto* const self = reinterpret_cast<Releasing*>(comp);
    self->submitted.get_future().wait();
    ibv_exp_dealloc_ec_calc(self->calc);
    self->told.set_value(self->order.size());
  };
  // One calculator at a time: what is submitted while done() waits is not calculated.
  ASSERT_EQ(ibv_exp_ec_encode_async(releasing.calc, stripe_.mem(), &releasing.comp), 0);
  std::vector<Done> rest(3);
  for (Done& one : rest) {
    one.comp.status = IBV_EXP_EC_CALC_SUCCESS;
    one.order = &releasing.order;
    ASSERT_EQ(ibv_exp_ec_encode_async(releasing.calc, stripe_.mem(), &one.comp), 0);
  }
  releasing.submitted.set_value();
  EXPECT_EQ(releasing.told.get_future().get(), 3U);
  for (const Done& one : rest) EXPECT_EQ(one.comp.status, IBV_EXP_EC_CALC_FAIL);
  EXPECT_EQ(releasing.comp.status, IBV_EXP_EC_CALC_SUCCESS);
}

}  // namespace
}  // namespace ring::ec_verbs
