// Operations under way: order, limits, polling, threads.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <future>
#include <mutex>
#include <string>
#include <thread>

#include "tests/ec_offload/verbs_exp/async_fixture.h"
#include "tests/support/await.h"

namespace ring::ec_verbs {
namespace {

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
  EXPECT_EQ(ibv_exp_ec_poll(calc, -1), 0);
  EXPECT_EQ(ibv_exp_ec_poll(calc, 2), 2);
  EXPECT_EQ(order, (std::vector<int>{0, 1}));
  EXPECT_EQ(done[0].thread, std::this_thread::get_id());
  EXPECT_EQ(ibv_exp_ec_poll(calc, 16), 3);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(ibv_exp_ec_poll(calc, 16), 0);
  EXPECT_EQ(stripe_.Block(5), Parity(stripe_, 1));
  ibv_exp_dealloc_ec_calc(calc);
}

TEST_F(EcAsyncTest, PollingAContextThatHasAThreadDoesNothing) {
  ibv_exp_ec_calc* const calc = Open(0);
  Done done;
  ASSERT_EQ(ibv_exp_ec_encode_async(calc, stripe_.mem(), &done.comp), 0);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(ibv_exp_ec_poll(calc, 100), 0);
  done.Wait();
  EXPECT_NE(done.thread, std::this_thread::get_id());
  ibv_exp_dealloc_ec_calc(calc);
}

// Lists, maps, matrix and the struct itself, all spoiled before anything is calculated.
TEST_F(EcAsyncTest, WhatACallWasGivenIsTheCallersAgainWhenItReturns) {
  ibv_exp_ec_calc* const calc = Open(1);
  const Bytes expected = Parity(stripe_, 1);
  const Bytes lost = stripe_.Block(2);
  Done encoded;
  Done decoded;
  Done updated;
  const auto spoil = [](ibv_exp_ec_mem& mem, std::vector<ibv_sge>& data,
                        std::vector<ibv_sge>& code) {
    for (std::vector<ibv_sge>* list : {&data, &code}) list->assign(list->size(), ibv_sge{1, 1, 1});
    mem = {};
  };
  {
    std::vector<ibv_sge> data = stripe_.data();
    std::vector<ibv_sge> code = stripe_.code();
    ibv_exp_ec_mem mem = {data.data(), 4, code.data(), 2, kSize};
    ASSERT_EQ(ibv_exp_ec_encode_async(calc, &mem, &encoded.comp), 0);
    spoil(mem, data, code);
  }
  {
    std::vector<ibv_sge> data = stripe_.data();
    std::vector<ibv_sge> code = stripe_.code();
    ibv_exp_ec_mem mem = {data.data(), 4, code.data(), 2, kSize};
    Bytes erasures = {0, 0, 1, 0, 0, 0};
    Bytes decode = DecodeColumns(SlowField(8), 4, 2, matrix_, erasures);
    ASSERT_EQ(ibv_exp_ec_decode_async(calc, &mem, erasures.data(), decode.data(), &decoded.comp),
              0);
    spoil(mem, data, code);
    erasures.assign(6, 1);
    decode.assign(decode.size(), 0);
  }
  // Of a code of one parity, which is the sum: 1 + 2 * 1 < 4.
  Bytes ones(4, 1);
  ibv_exp_ec_calc_init_attr attr = Attributes(4, 1, 8, ones);
  attr.polling = 1;
  ibv_exp_ec_calc* const sums = ibv_exp_alloc_ec_calc(domain_.pd(), &attr);
  Stripe update(domain_.pd(), 3, 1, kSize);
  update.Set(0, Bytes(kSize, 1));
  update.Set(1, Bytes(kSize, 2));
  update.Set(2, Bytes(kSize, 4));
  {
    std::vector<ibv_sge> data = update.data();
    std::vector<ibv_sge> code = update.code();
    ibv_exp_ec_mem mem = {data.data(), 3, code.data(), 1, kSize};
    Bytes data_updates = {0, 0, 0, 1};
    Bytes code_updates = {1};
    ASSERT_EQ(ibv_exp_ec_update_async(sums, &mem, data_updates.data(), code_updates.data(),
                                      &updated.comp),
              0);
    spoil(mem, data, code);
    data_updates.assign(4, 1);
    code_updates.assign(1, 0);
  }
  EXPECT_EQ(ibv_exp_ec_poll(calc, 1), 1);
  stripe_.Set(2, Bytes(kSize, 0));
  EXPECT_EQ(ibv_exp_ec_poll(calc, 1), 1);
  EXPECT_EQ(ibv_exp_ec_poll(sums, 1), 1);
  for (const Done* done : {&encoded, &decoded, &updated})
    EXPECT_EQ(done->comp.status, IBV_EXP_EC_CALC_SUCCESS);
  EXPECT_EQ(stripe_.Block(5), expected);
  EXPECT_EQ(stripe_.Block(2), lost);
  EXPECT_EQ(update.Block(3), Bytes(kSize, 7));
  ibv_exp_dealloc_ec_calc(sums);
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

// Whether a thread of this process sleeps, and how often it has gone to sleep. For one that was
// woken it is another answer than before: it runs, or has gone to sleep once more.
std::string SleepOf(pid_t thread) {
  std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
  std::string sleep;
  for (std::string line; std::getline(status, line);) {
    const bool wanted =
        line.rfind("State:", 0) == 0 || line.rfind("voluntary_ctxt_switches:", 0) == 0;
    if (wanted) sleep += line + "\n";
  }
  return sleep;
}

TEST_F(EcAsyncTest, ASynchronousCallOnAnIdleContextRunsInItsCallerAndWakesNobody) {
  struct Named {
    ibv_exp_ec_comp comp;
    std::promise<pid_t> thread;
  } named;
  named.comp.done = [](ibv_exp_ec_comp* comp) {
    reinterpret_cast<Named*>(comp)->thread.set_value(gettid());
  };
  ibv_exp_ec_calc* const calc = Open(0);
  ASSERT_EQ(ibv_exp_ec_encode_async(calc, stripe_.mem(), &named.comp), 0);
  const pid_t own_thread = named.thread.get_future().get();
  ASSERT_NE(SleepOf(own_thread), "");
  // At first it is still on its way from done() to its sleep.
  EXPECT_TRUE(testing::HoldsWithin(testing::kPatience, [&] {
    const std::string own_before = SleepOf(own_thread);
    const std::string caller_before = SleepOf(gettid());
    for (int i = 0; i < 100; ++i) EXPECT_EQ(ibv_exp_ec_encode_sync(calc, stripe_.mem()), 0);
    return SleepOf(own_thread) == own_before && SleepOf(gettid()) == caller_before &&
           own_before.find("sleeping") != std::string::npos;
  })) << "it is woken, or its caller waits, whenever it is called";
  ibv_exp_dealloc_ec_calc(calc);
}

// Each done() waits for the other context's calculations, not for the other done().
TEST_F(EcAsyncTest, SynchronousCallsInsideDoneOfTwoContextsDoNotWaitForEachOther) {
  struct Crossing {
    ibv_exp_ec_comp comp;
    ibv_exp_ec_calc* other;
    ibv_exp_ec_mem* mem;
    std::promise<void> begun;
    std::shared_future<void> other_begun;
    std::promise<int> result;
  } crossing[2];
  Stripe second(domain_.pd(), 4, 2, kSize);
  ibv_exp_ec_calc* const calcs[2] = {Open(0), Open(0)};
  for (int i = 0; i < 2; ++i) {
    Crossing& own = crossing[i];
    own.other = calcs[1 - i];
    own.mem = i == 0 ? stripe_.mem() : second.mem();
    crossing[1 - i].other_begun = own.begun.get_future().share();
    own.comp.done = [](ibv_exp_ec_comp* comp) {
      auto* const self = reinterpret_cast<Crossing*>(comp);
      self->begun.set_value();
      self->other_begun.wait();
      self->result.set_value(ibv_exp_ec_encode_sync(self->other, self->mem));
    };
  }
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(ibv_exp_ec_encode_async(calcs[i], crossing[i].mem, &crossing[i].comp), 0);
  }
  for (Crossing& own : crossing) {
    std::future<int> result = own.result.get_future();
    RING_CHECK(result.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
    EXPECT_EQ(result.get(), 0);
  }
  for (ibv_exp_ec_calc* const calc : calcs) ibv_exp_dealloc_ec_calc(calc);
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

}  // namespace
}  // namespace ring::ec_verbs
