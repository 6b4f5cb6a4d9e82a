// tests/ec_offload/verbs_exp/async_fixture.h — a stripe, contexts on it, and completions that note
// when and where they were told.
//
// What:      Done, a completion; EcAsyncTest, the fixture of the tests of operations under way.
// Threads:   done() in the thread of the context; Wait in another.
// Errors:    set-up that fails ends the process (RING_CHECK).
#ifndef RING_TESTS_EC_OFFLOAD_VERBS_EXP_ASYNC_FIXTURE_H_
#define RING_TESTS_EC_OFFLOAD_VERBS_EXP_ASYNC_FIXTURE_H_

#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <vector>

#include "tests/ec_offload/verbs_exp/verbs_fixture.h"

namespace ring::ec_verbs {

inline constexpr int kSize = 256;

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

}  // namespace ring::ec_verbs

#endif  // RING_TESTS_EC_OFFLOAD_VERBS_EXP_ASYNC_FIXTURE_H_
