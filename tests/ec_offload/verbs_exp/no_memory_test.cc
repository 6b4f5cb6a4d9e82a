// Every allocation of every call fails in turn: the call says so, nothing is thrown through the C
// program, nothing is left behind, and the objects go on working.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>

#include "tests/ec_offload/verbs_exp/connected_pair.h"
#include "tests/ec_offload/verbs_exp/fake_system.h"
#include "tests/ec_offload/verbs_exp/verbs_fixture.h"
#include "tests/support/fail_each.h"
#include "tests/support/failing_allocator.h"

namespace ring::ec_verbs {
namespace {

// Of a call that gives a pointer.
bool Made(const void* object) { return object != nullptr || errno != ENOMEM; }
// Of a call that gives an error.
bool Done(int error) { return error != ENOMEM && error != -ENOMEM; }

class NoMemoryTest : public ::testing::Test {
 protected:
  // What the process has once is made before anything is counted.
  NoMemoryTest() {
    const Memory memory(domain_.pd(), 64);
    const Endpoint end(domain_.pd());
  }
  Domain domain_;
};

TEST_F(NoMemoryTest, ObjectsOfTheSoftwareDeviceAreMadeWholeOrNotAtAll) {
  ibv_context* context = nullptr;
  FailEach([&] { return Made(context = ibv_open_device(domain_.context()->device)); });
  ibv_pd* pd = nullptr;
  FailEach([&] { return Made(pd = ibv_alloc_pd(context)); });
  std::uint64_t memory[8] = {};
  ibv_mr* mr = nullptr;
  FailEach(
      [&] { return Made(mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE)); });
  ibv_comp_channel* channel = nullptr;
  FailEach([&] { return Made(channel = ibv_create_comp_channel(context)); });
  ibv_cq* cq = nullptr;
  FailEach([&] { return Made(cq = ibv_create_cq(context, 16, nullptr, channel, 0)); });
  FailEach([&] { return Done(ibv_resize_cq(cq, 32)); });
  ibv_qp_init_attr attr = {};
  attr.send_cq = attr.recv_cq = cq;
  attr.qp_type = IBV_QPT_RC;
  attr.cap = {4, 4, 1, 1, 0};
  ibv_qp* qp = nullptr;
  FailEach([&] { return Made(qp = ibv_create_qp(pd, &attr)); });
  // Nothing that failed still counts as a user of these.
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_close_device(context), 0);
}

TEST_F(NoMemoryTest, ARegionThatCannotBeRememberedIsGivenBackToTheSystemsLibrary) {
  FakeSystem& fake = FakeSystem::Get();
  fake.Reset();
  char memory[64];
  ibv_mr* mr = nullptr;
  FailEach([&] { return Made(mr = ibv_reg_mr(&fake.pd, memory, sizeof(memory), 0)); },
           Leaves::kCaches);
  EXPECT_EQ(fake.calls.back(), "ibv_reg_mr");
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(fake.live_regions, 0);
}

TEST_F(NoMemoryTest, RequestsAreTakenOrRefusedAndDeliveryNeedsNoMemory) {
  Memory near(domain_.pd(), 4096);
  Memory far(domain_.pd(), 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  Endpoint a(domain_.pd());
  Endpoint b(domain_.pd());
  Connect(a, b);
  std::uint8_t fill = 1;
  for (const unsigned flags : {0U, static_cast<unsigned>(IBV_SEND_INLINE)}) {
    for (int round = 0; round < 40; ++round, ++fill) {
      near.bytes().assign(64, fill);
      FailEach([&] { return Done(b.Receive(1, far.Sge(0, 64))); });
      ibv_sge pieces[] = {near.Sge(0, 10), near.Sge(10, 54)};
      ibv_send_wr wr = SendOf(2, IBV_WR_SEND, pieces);
      wr.num_sge = 2;
      wr.send_flags |= flags;
      FailEach([&] { return Done(a.Send(wr)); });
      ASSERT_EQ(b.PollOne().status, IBV_WC_SUCCESS);
      ASSERT_EQ(a.PollOne().status, IBV_WC_SUCCESS);
      ASSERT_EQ(far.bytes()[63], fill);
    }
  }
}

TEST_F(NoMemoryTest, ContextsAreMadeWholeOrNotAtAll) {
  Bytes matrix = SlowField(8).CauchyMatrix(4, 2);
  for (const int polling : {0, 1}) {
    ibv_exp_ec_calc_init_attr attr = Attributes(4, 2, 8, matrix);
    attr.polling = polling;
    // The directory of contexts keeps the memory that it grew to for the first.
    for (const Leaves leaves : {Leaves::kCaches, Leaves::kNothing}) {
      ibv_exp_ec_calc* calc = nullptr;
      FailEach([&] { return Made(calc = ibv_exp_alloc_ec_calc(domain_.pd(), &attr)); }, leaves);
      ibv_exp_dealloc_ec_calc(calc);
    }
  }
}

TEST_F(NoMemoryTest, OperationsAreTakenOrRefused) {
  Bytes matrix = SlowField(8).CauchyMatrix(6, 2);
  ibv_exp_ec_calc_init_attr attr = Attributes(6, 2, 8, matrix);
  attr.polling = 1;
  ibv_exp_ec_calc* const calc = ibv_exp_alloc_ec_calc(domain_.pd(), &attr);
  Stripe stripe(domain_.pd(), 6, 2, 64);
  Stripe update(domain_.pd(), 3, 1, 64);
  Bytes erasures = {1, 0, 0, 0, 0, 0, 0, 0};
  Bytes decode = DecodeColumns(SlowField(8), 6, 2, matrix, erasures);
  Bytes data_updates = {0, 1, 0, 0, 0, 0};
  Bytes code_updates = {1, 0};
  ibv_exp_ec_comp comp = {[](ibv_exp_ec_comp*) {}, IBV_EXP_EC_CALC_FAIL};
  // First with the caches of the context empty.
  for (const Leaves leaves : {Leaves::kCaches, Leaves::kNothing}) {
    FailEach([&] { return Done(ibv_exp_ec_encode_sync(calc, stripe.mem())); }, leaves);
    FailEach([&] { return Done(ibv_exp_ec_encode_async(calc, stripe.mem(), &comp)); }, leaves);
    FailEach(
        [&] {
          return Done(ibv_exp_ec_decode_sync(calc, stripe.mem(), erasures.data(), decode.data()));
        },
        leaves);
    FailEach(
        [&] {
          return Done(
              ibv_exp_ec_decode_async(calc, stripe.mem(), erasures.data(), decode.data(), &comp));
        },
        leaves);
    FailEach(
        [&] {
          return Done(
              ibv_exp_ec_update_sync(calc, update.mem(), data_updates.data(), code_updates.data()));
        },
        leaves);
    EXPECT_EQ(ibv_exp_ec_poll(calc, 10), 2);
    EXPECT_EQ(comp.status, IBV_EXP_EC_CALC_SUCCESS);
  }
  ibv_exp_dealloc_ec_calc(calc);
}

TEST_F(NoMemoryTest, EncodeSendIsDoneOrSaysThatItIsNot) {
  Bytes matrix = SlowField(8).CauchyMatrix(2, 1);
  ibv_exp_ec_calc_init_attr attr = Attributes(2, 1, 8, matrix);
  ibv_exp_ec_calc* const calc = ibv_exp_alloc_ec_calc(domain_.pd(), &attr);
  Stripe stripe(domain_.pd(), 2, 1, 64);
  Memory far(domain_.pd(), 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  Endpoint a(domain_.pd());
  Endpoint b(domain_.pd());
  Connect(a, b);
  ibv_send_wr wrs[3];
  ibv_exp_ec_stripe stripes[3];
  for (std::size_t i = 0; i < 3; ++i) {
    wrs[i] = SendOf(i, IBV_WR_RDMA_WRITE, i < 2 ? &stripe.data()[i] : &stripe.code()[0]);
    wrs[i].send_flags = 0;
    wrs[i].wr.rdma = {far.Sge(0, 0).addr, far.mr()->rkey};
    stripes[i] = {a.qp(), &wrs[i]};
  }
  FailEach([&] { return Done(ibv_exp_ec_encode_send(calc, stripe.mem(), stripes, stripes + 2)); },
           Leaves::kCaches);
  EXPECT_EQ(far.bytes(), stripe.Block(2));
  ibv_exp_dealloc_ec_calc(calc);
}

// As memory, so descriptors: none is to be had while one of these lives.
class NoDescriptors {
 public:
  NoDescriptors() {
    RING_CHECK(getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const rlimit none = {0, before_.rlim_max};
    RING_CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
  }
  ~NoDescriptors() { RING_CHECK(setrlimit(RLIMIT_NOFILE, &before_) == 0); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_;
};

TEST_F(NoMemoryTest, WithoutDescriptorsDevicesAndChannelsAreRefused) {
  const std::int64_t before = LiveAllocations();
  const void* context = nullptr;
  const void* channel = nullptr;
  int context_error = 0;
  int channel_error = 0;
  {
    const NoDescriptors none;
    context = ibv_open_device(domain_.context()->device);
    context_error = errno;
    channel = ibv_create_comp_channel(domain_.context());
    channel_error = errno;
  }
  EXPECT_EQ(LiveAllocations(), before);
  EXPECT_EQ(context, nullptr);
  EXPECT_EQ(context_error, EMFILE);
  EXPECT_EQ(channel, nullptr);
  EXPECT_EQ(channel_error, EMFILE);
}

}  // namespace
}  // namespace ring::ec_verbs
