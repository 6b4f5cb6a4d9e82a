// Operations under way: order, limits, polling, threads, release.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <future>
#include <mutex>
#include <thread>

#include "tests/ec_offload/verbs_exp/verbs_fixture.h"

namespace ring::ec_verbs {
namespace {

constexpr int kSize = 256;

// A completion as programs have them: the verbs struct first, what is theirs behind it.
struct Done {
  ibv_exp_ec_comp comp = {Note, IBV_EXP_EC_CALC_FAIL};
  int index = 0;
  std::vector<int>* order = nullptr;
  std::promise<void> told;
  std::thread::id thread;

  static void Note(ibv_exp_ec_comp* comp) {
    auto* const self = reinterpret_cast<Done*>(comp);
    self->thread = std::this_thread::get_id();
    if (self->order != nullptr) self->order->push_back(self->index);
    self->told.set_value();
  }
  void Wait() { told.get_future().wait(); }
};

class EcAsyncTest : public ::testing::Test {
 protected:
  EcAsyncTest() : matrix_(SlowField(8).CauchyMatrix(4, 2)), stripe_(domain_.pd(), 4, 2, kSize) {
    SeededRandom random(4);
    stripe_.Fill(random);
  }
  ibv_exp_ec_calc* Open(int polling, std::uint32_t inflight = 4) {
    ibv_exp_ec_calc_init_attr attr = Attributes(4, 2, 8, matrix_);
    attr.polling = polling;
    attr.max_inflight_calcs = inflight;
    return ibv_exp_alloc_ec_calc(domain_.pd(), &attr);
  }
  Bytes Parity(Stripe& stripe, int j) {
    const std::vector<Bytes> data = {stripe.Block(0), stripe.Block(1), stripe.Block(2),
                                     stripe.Block(3)};
    return Combine(SlowField(8), data, matrix_, 2, static_cast<std::size_t>(j));
  }

  Domain domain_;
  Bytes matrix_;
  Stripe stripe_;
};

TEST_F(EcAsyncTest, DoneRunsInAnotherThreadWithTheStatusSet) {
  ibv_exp_ec_calc* const calc = Open(0);
  Done done;
  ASSERT_EQ(ibv_exp_ec_encode_async(calc, stripe_.mem(), &done.comp), 0);
  done.Wait();
  EXPECT_EQ(done.comp.status, IBV_EXP_EC_CALC_SUCCESS);
  EXPECT_NE(done.thread, std::this_thread::get_id());
  EXPECT_EQ(stripe_.Block(5), Parity(stripe_, 1));
  ibv_exp_dealloc_ec_calc(calc);
}

// The EC library submits with the mutex held that its done() takes.
TEST_F(EcAsyncTest, SubmittingNeverWaitsForDone) {
  ibv_exp_ec_calc* const calc = Open(0, 64);
  struct Locking {
    ibv_exp_ec_comp comp;
    std::mutex mutex;
    std::atomic<int> count = 0;
  } locking;
  locking.comp.done = [](ibv_exp_ec_comp* comp) {
    auto* const self = reinterpret_cast<Locking*>(comp);
    const std::lock_guard<std::mutex> lock(self->mutex);
    ++self->count;
  };
  for (int i = 0; i < 50; ++i) {
    const std::lock_guard<std::mutex> lock(locking.mutex);
    ASSERT_EQ(ibv_exp_ec_encode_async(calc, stripe_.mem(), &locking.comp), 0);
  }
  ibv_exp_dealloc_ec_calc(calc);
  EXPECT_EQ(locking.count, 50);
}

TEST_F(EcAsyncTest, OperationsCompleteInTheOrderOfSubmission) {
  ibv_exp_ec_calc* const calc = Open(0, 100);
  std::vector<int> order;
  std::vector<Done> done(100);
  Bytes erasures = {1, 0, 0, 0, 0, 0};
  Bytes decode = DecodeColumns(SlowField(8), 4, 2, matrix_, erasures);
  for (int i = 0; i < 100; ++i) {
    Done& one = done[static_cast<std::size_t>(i)];
    one.index = i;
    one.order = &order;
    // Each needs what the one before it wrote.
    const int error = i % 2 == 0 ? ibv_exp_ec_encode_async(calc, stripe_.mem(), &one.comp)
                                 : ibv_exp_ec_decode_async(calc, stripe_.mem(), erasures.data(),
                                                           decode.data(), &one.comp);
    ASSERT_EQ(error, 0);
  }
  for (Done& one : done) one.Wait();
  ibv_exp_dealloc_ec_calc(calc);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(stripe_.Block(4), Parity(stripe_, 0));
}

TEST_F(EcAsyncTest, ASynchronousCallRunsAfterWhatWasSubmitted) {
  for (const int polling : {0, 1}) {
    ibv_exp_ec_calc* const calc = Open(polling, 16);
    stripe_.Set(4, Bytes(kSize, 0));
    std::vector<Done> done(10);
    for (Done& one : done) {
      ASSERT_EQ(ibv_exp_ec_encode_async(calc, stripe_.mem(), &one.comp), 0);
    }
    Bytes erasures = {0, 1, 0, 0, 0, 0};
    const Bytes lost = stripe_.Block(1);
    Bytes decode = DecodeColumns(SlowField(8), 4, 2, matrix_, erasures);
    EXPECT_EQ(ibv_exp_ec_decode_sync(calc, stripe_.mem(), erasures.data(), decode.data()), 0);
    EXPECT_EQ(stripe_.Block(1), lost);
    if (polling != 0) {
      EXPECT_EQ(ibv_exp_ec_poll(calc, 100), 10);
    }
    for (Done& one : done) one.Wait();
    ibv_exp_dealloc_ec_calc(calc);
  }
}

TEST_F(EcAsyncTest, PollingRunsDoneInsidePollAndAtMostSoMany) {
  ibv_exp_ec_calc* const calc = Open(1);
  std::vector<int> order;
  std::vector<Done> done(5);
  for (int i = 0; i < 5; ++i) {
    Done& one = done[static_cast<std::size_t>(i)];
    one.index = i;
    one.order = &order;
    ASSERT_EQ(ibv_exp_ec_encode_async(calc, stripe_.mem(), &one.comp), 0);
  }
  EXPECT_TRUE(order.empty());
  EXPECT_EQ(ibv_exp_ec_poll(calc, 0), 0);
  EXPECT_EQ(ibv_exp_ec_poll(calc, 2), 2);
  EXPECT_EQ(order, (std::vector<int>{0, 1}));
  EXPECT_EQ(done[0].thread, std::this_thread::get_id());
  EXPECT_EQ(ibv_exp_ec_poll(calc, 16), 3);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(ibv_exp_ec_poll(calc, 16), 0);
  EXPECT_EQ(stripe_.Block(5), Parity(stripe_, 1));
  ibv_exp_dealloc_ec_calc(calc);
}

TEST_F(EcAsyncTest, FourMoreThanTheLimitAreTakenThenOverflow) {
  ibv_exp_ec_calc* const calc = Open(1, 2);
  std::vector<Done> done(7);
  for (std::size_t i = 0; i < 6; ++i) {
    ASSERT_EQ(ibv_exp_ec_encode_async(calc, stripe_.mem(), &done[i].comp), 0);
  }
  EXPECT_EQ(ibv_exp_ec_encode_async(calc, stripe_.mem(), &done[6].comp), -EOVERFLOW);
  EXPECT_EQ(errno, -EOVERFLOW);
  EXPECT_EQ(ibv_exp_ec_poll(calc, 1), 1);
  EXPECT_EQ(ibv_exp_ec_encode_async(calc, stripe_.mem(), &done[6].comp), 0);
  EXPECT_EQ(ibv_exp_ec_poll(calc, 10), 6);
  ibv_exp_dealloc_ec_calc(calc);
}

// With places for one and four: done() finds its own place free.
TEST_F(EcAsyncTest, DoneMaySubmitAgain) {
  struct Again {
    ibv_exp_ec_comp comp;
    ibv_exp_ec_calc* calc;
    ibv_exp_ec_mem* mem;
    int left = 1000;
    std::promise<void> over;
  } again;
  again.calc = Open(0, 1);
  again.mem = stripe_.mem();
  again.comp.done = [](ibv_exp_ec_comp* comp) {
    auto* const self = reinterpret_cast<Again*>(comp);
    const bool failed = comp->status != IBV_EXP_EC_CALC_SUCCESS || --self->left == 0;
    if (failed || ibv_exp_ec_encode_async(self->calc, self->mem, comp) != 0) {
      self->over.set_value();
    }
  };
  ASSERT_EQ(ibv_exp_ec_encode_async(again.calc, again.mem, &again.comp), 0);
  again.over.get_future().wait();
  EXPECT_EQ(again.left, 0);
  ibv_exp_dealloc_ec_calc(again.calc);
}

TEST_F(EcAsyncTest, ASynchronousCallInsideDoneDoesNotWaitForItself) {
  struct Nested {
    ibv_exp_ec_comp comp;
    ibv_exp_ec_calc* calc;
    ibv_exp_ec_mem* mem;
    std::promise<int> result;
  } nested;
  nested.calc = Open(0);
  nested.mem = stripe_.mem();
  nested.comp.done = [](ibv_exp_ec_comp* comp) {
    auto* const self = reinterpret_cast<Nested*>(comp);
    self->result.set_value(ibv_exp_ec_encode_sync(self->calc, self->mem));
  };
  Done behind;
  ASSERT_EQ(ibv_exp_ec_encode_async(nested.calc, nested.mem, &nested.comp), 0);
  ASSERT_EQ(ibv_exp_ec_encode_async(nested.calc, nested.mem, &behind.comp), 0);
  EXPECT_EQ(nested.result.get_future().get(), 0);
  behind.Wait();
  ibv_exp_dealloc_ec_calc(nested.calc);
}

// The slow done() has returned when the synchronous call behind it does.
TEST_F(EcAsyncTest, ASynchronousCallDoesNotOvertakeDone) {
  struct Slow {
    ibv_exp_ec_comp comp;
    std::atomic<bool> told = false;
  };
  ibv_exp_ec_calc* const calc = Open(0);
  for (int round = 0; round < 20; ++round) {
    Slow slow;
    slow.comp.done = [](ibv_exp_ec_comp* comp) {
      for (int i = 0; i < 1000; ++i) std::this_thread::yield();
      reinterpret_cast<Slow*>(comp)->told = true;
    };
    ASSERT_EQ(ibv_exp_ec_encode_async(calc, stripe_.mem(), &slow.comp), 0);
    ASSERT_EQ(ibv_exp_ec_encode_sync(calc, stripe_.mem()), 0);
    ASSERT_TRUE(slow.told);
  }
  ibv_exp_dealloc_ec_calc(calc);
}

TEST_F(EcAsyncTest, SeveralThreadsShareAContext) {
  ibv_exp_ec_calc* const calc = Open(0, 8);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Stripe stripe(domain_.pd(), 4, 2, kSize);
      SeededRandom random(static_cast<std::uint64_t>(t));
      for (int i = 0; i < 50; ++i) {
        stripe.Fill(random);
        int error = 0;
        if (i % 3 == 0) {
          error = ibv_exp_ec_encode_sync(calc, stripe.mem());
        } else {
          Done done;
          error = ibv_exp_ec_encode_async(calc, stripe.mem(), &done.comp);
          if (error == 0) done.Wait();
        }
        if (error != 0 || stripe.Block(4) != Parity(stripe, 0)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  ibv_exp_dealloc_ec_calc(calc);
}

TEST_F(EcAsyncTest, SeveralThreadsPollAContext) {
  ibv_exp_ec_calc* const calc = Open(1, 100);
  std::vector<Done> done(100);
  for (Done& one : done) {
    ASSERT_EQ(ibv_exp_ec_encode_async(calc, stripe_.mem(), &one.comp), 0);
  }
  std::atomic<int> count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (count < 100) count += ibv_exp_ec_poll(calc, 3);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 100);
  ibv_exp_dealloc_ec_calc(calc);
}

TEST_F(EcAsyncTest, AFailureIsToldByStatusAndOthersGoOn) {
  ibv_exp_ec_calc* const calc = Open(0);
  Stripe bad(domain_.pd(), 4, 2, kSize);
  bad.data()[0].lkey += 999;
  Done failed;
  Done good;
  ASSERT_EQ(ibv_exp_ec_encode_async(calc, bad.mem(), &failed.comp), 0);
  ASSERT_EQ(ibv_exp_ec_encode_async(calc, stripe_.mem(), &good.comp), 0);
  failed.Wait();
  good.Wait();
  EXPECT_EQ(failed.comp.status, IBV_EXP_EC_CALC_FAIL);
  EXPECT_EQ(good.comp.status, IBV_EXP_EC_CALC_SUCCESS);
  ibv_exp_dealloc_ec_calc(calc);
}

// The hardware's driver would never complete it.
TEST_F(EcAsyncTest, DecodeOfNoErasureCompletes) {
  ibv_exp_ec_calc* const calc = Open(0);
  Bytes erasures(6, 0);
  Bytes matrix(8, 0);
  Done done;
  ASSERT_EQ(
      ibv_exp_ec_decode_async(calc, stripe_.mem(), erasures.data(), matrix.data(), &done.comp), 0);
  done.Wait();
  EXPECT_EQ(done.comp.status, IBV_EXP_EC_CALC_SUCCESS);
  ibv_exp_dealloc_ec_calc(calc);
}

TEST_F(EcAsyncTest, ACompletionWithoutDoneIsRefused) {
  ibv_exp_ec_calc* const calc = Open(0);
  ibv_exp_ec_comp comp = {};
  EXPECT_EQ(ibv_exp_ec_encode_async(calc, stripe_.mem(), nullptr), -EINVAL);
  EXPECT_EQ(ibv_exp_ec_encode_async(calc, stripe_.mem(), &comp), -EINVAL);
  ibv_exp_dealloc_ec_calc(calc);
}

TEST_F(EcAsyncTest, ReleaseCompletesWhatIsLeftAsFailed) {
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

TEST_F(EcAsyncTest, ReleaseInFlightTellsEveryCompletionBeforeItReturns) {
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

TEST_F(EcAsyncTest, ReleaseInsideDoneTellsTheRestBeforeItReturns) {
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
