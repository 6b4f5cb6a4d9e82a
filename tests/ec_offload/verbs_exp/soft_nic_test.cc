// The software device's queue pairs: what verbs promise of a reliable connection.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "tests/ec_offload/verbs_exp/connected_pair.h"
#include "tests/ec_offload/verbs_exp/verbs_fixture.h"
#include "tests/support/await.h"

namespace ring::ec_verbs {
namespace {

constexpr int kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                     IBV_ACCESS_REMOTE_ATOMIC;

class SoftNicTest : public ::testing::Test {
 protected:
  SoftNicTest() : near_(domain_.pd(), 4096), far_(domain_.pd(), 4096, kAll) {
    SeededRandom random(1);
    for (std::uint8_t& byte : near_.bytes()) byte = static_cast<std::uint8_t>(random.Next64());
  }
  ibv_send_wr Remote(ibv_wr_opcode opcode, ibv_sge* sge, std::size_t at) const {
    ibv_send_wr wr = SendOf(7, opcode, sge);
    wr.wr.rdma.remote_addr = far_.Sge(at, 0).addr;
    wr.wr.rdma.rkey = far_.mr()->rkey;
    return wr;
  }

  Domain domain_;
  Memory near_;
  Memory far_;
};

TEST_F(SoftNicTest, SendFillsTheOldestReceive) {
  Endpoint a(domain_.pd());
  Endpoint b(domain_.pd());
  Connect(a, b);
  ASSERT_EQ(b.Receive(1, far_.Sge(0, 512)), 0);
  ASSERT_EQ(b.Receive(2, far_.Sge(512, 512)), 0);
  ibv_sge sge = near_.Sge(0, 300);
  ibv_send_wr wr = SendOf(9, IBV_WR_SEND_WITH_IMM, &sge);
  wr.imm_data = 0x01020304;
  ASSERT_EQ(a.Send(wr), 0);
  const ibv_wc received = b.PollOne();
  EXPECT_EQ(received.wr_id, 1U);
  EXPECT_EQ(received.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  EXPECT_EQ(received.byte_len, 300U);
  EXPECT_EQ(received.imm_data, 0x01020304U);
  EXPECT_EQ(received.wc_flags, static_cast<unsigned>(IBV_WC_WITH_IMM));
  EXPECT_EQ(received.qp_num, b.qp()->qp_num);
  EXPECT_EQ(received.src_qp, a.qp()->qp_num);
  const ibv_wc sent = a.PollOne();
  EXPECT_EQ(sent.wr_id, 9U);
  EXPECT_EQ(sent.opcode, IBV_WC_SEND);
  EXPECT_EQ(std::memcmp(near_.bytes().data(), far_.bytes().data(), 300), 0);
}

TEST_F(SoftNicTest, WriteReadAndImmediate) {
  Endpoint a(domain_.pd());
  Endpoint b(domain_.pd());
  Connect(a, b);
  ibv_sge sge = near_.Sge(0, 1000);
  ASSERT_EQ(a.Send(Remote(IBV_WR_RDMA_WRITE, &sge, 100)), 0);
  EXPECT_EQ(a.PollOne().opcode, IBV_WC_RDMA_WRITE);
  EXPECT_TRUE(b.Poll().empty());
  EXPECT_EQ(std::memcmp(near_.bytes().data(), far_.bytes().data() + 100, 1000), 0);
  ASSERT_EQ(b.Receive(3, far_.Sge(0, 0)), 0);
  ASSERT_EQ(a.Send(Remote(IBV_WR_RDMA_WRITE_WITH_IMM, &sge, 2000)), 0);
  EXPECT_EQ(b.PollOne().opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(a.PollOne().status, IBV_WC_SUCCESS);
  ibv_sge back = near_.Sge(2000, 1000);
  ASSERT_EQ(a.Send(Remote(IBV_WR_RDMA_READ, &back, 2000)), 0);
  const ibv_wc read = a.PollOne();
  EXPECT_EQ(read.opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(read.byte_len, 1000U);
  EXPECT_EQ(std::memcmp(near_.bytes().data(), near_.bytes().data() + 2000, 1000), 0);
}

TEST_F(SoftNicTest, AtomicsGiveTheOldValue) {
  Endpoint a(domain_.pd());
  Endpoint b(domain_.pd());
  Connect(a, b);
  const std::uint64_t start = 40;
  std::memcpy(far_.bytes().data() + 8, &start, 8);
  ibv_sge sge = near_.Sge(0, 8);
  ibv_send_wr wr = SendOf(1, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge);
  wr.wr.atomic = {far_.Sge(8, 0).addr, 2, 0, far_.mr()->rkey};
  ASSERT_EQ(a.Send(wr), 0);
  wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  wr.wr.atomic.compare_add = 42;
  wr.wr.atomic.swap = 99;
  ASSERT_EQ(a.Send(wr), 0);
  EXPECT_EQ(a.PollOne().opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(a.PollOne().opcode, IBV_WC_COMP_SWAP);
  std::uint64_t value = 0;
  std::memcpy(&value, near_.bytes().data(), 8);
  EXPECT_EQ(value, 42U);
  std::memcpy(&value, far_.bytes().data() + 8, 8);
  EXPECT_EQ(value, 99U);
}

TEST_F(SoftNicTest, ASendWaitsForAReceiveAndWhatIsBehindItWaitsToo) {
  Endpoint a(domain_.pd());
  Endpoint b(domain_.pd());
  Connect(a, b);
  ibv_sge sge = near_.Sge(0, 64);
  ASSERT_EQ(a.Send(SendOf(1, IBV_WR_SEND, &sge)), 0);
  ASSERT_EQ(a.Send(Remote(IBV_WR_RDMA_WRITE, &sge, 1000)), 0);
  EXPECT_TRUE(a.Poll().empty());
  EXPECT_NE(std::memcmp(near_.bytes().data(), far_.bytes().data() + 1000, 64), 0);
  ASSERT_EQ(b.Receive(2, far_.Sge(0, 64)), 0);
  const std::vector<ibv_wc> done = a.Poll();
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].wr_id, 1U);
  EXPECT_EQ(done[1].wr_id, 7U);
}

TEST_F(SoftNicTest, ASendWithoutAReceiveFailsInTheEndUnlessItMayRetryForEver) {
  Endpoint a(domain_.pd());
  Endpoint b(domain_.pd());
  a.ToReady(b.qp()->qp_num, 3);
  b.ToReady(a.qp()->qp_num);
  ibv_sge sge = near_.Sge(0, 64);
  ASSERT_EQ(a.Send(SendOf(1, IBV_WR_SEND, &sge)), 0);
  ASSERT_EQ(a.Send(SendOf(2, IBV_WR_SEND, &sge)), 0);
  EXPECT_EQ(a.PollOne().status, IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(a.PollOne().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(a.qp()->state, IBV_QPS_ERR);
}

// The time it waited for its peer to be connected does not count.
TEST_F(SoftNicTest, AWaitForAReceiveBeginsWhenThePeerIsThere) {
  using std::chrono::milliseconds;
  using Clock = std::chrono::steady_clock;
  Endpoint a(domain_.pd());
  Endpoint b(domain_.pd());
  a.ToReady(b.qp()->qp_num, 3);
  ibv_sge sge = near_.Sge(0, 64);
  ASSERT_EQ(a.Send(SendOf(1, IBV_WR_SEND, &sge)), 0);
  const auto posted = Clock::now();
  // Longer than a receive is waited for, shorter than a peer.
  while (Clock::now() - posted < milliseconds(300)) ASSERT_TRUE(a.Poll().empty());
  const auto connected = Clock::now();
  b.ToReady(a.qp()->qp_num);
  EXPECT_EQ(a.PollOne().status, IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_GE(Clock::now() - connected, milliseconds(200));
}

TEST_F(SoftNicTest, AMessageOfNoBytesNeedsNoMemoryAtEitherEnd) {
  Endpoint a(domain_.pd());
  Endpoint b(domain_.pd());
  Connect(a, b);
  ibv_sge nowhere = {0, 0, 0};
  for (const ibv_sge& receive : {far_.Sge(0, 64), nowhere}) {
    for (const int pieces : {0, 1}) {
      for (const unsigned flags : {0U, static_cast<unsigned>(IBV_SEND_INLINE)}) {
        ASSERT_EQ(b.Receive(1, receive), 0);
        ibv_send_wr wr = SendOf(2, IBV_WR_SEND, &nowhere);
        wr.num_sge = pieces;
        wr.send_flags |= flags;
        ASSERT_EQ(a.Send(wr), 0);
        const ibv_wc received = b.PollOne();
        EXPECT_EQ(received.status, IBV_WC_SUCCESS);
        EXPECT_EQ(received.byte_len, 0U);
        EXPECT_EQ(a.PollOne().status, IBV_WC_SUCCESS);
      }
    }
  }
  ibv_send_wr wr = SendOf(3, IBV_WR_RDMA_READ, &nowhere);
  ASSERT_EQ(a.Send(wr), 0);
  EXPECT_EQ(a.PollOne().status, IBV_WC_SUCCESS);
}

TEST_F(SoftNicTest, PiecesOfBothEndsNeedNotMatch) {
  Endpoint a(domain_.pd());
  Endpoint b(domain_.pd());
  Connect(a, b);
  ibv_sge into[] = {far_.Sge(0, 7), far_.Sge(500, 0), far_.Sge(7, 90), far_.Sge(97, 400)};
  ibv_recv_wr receive = {};
  receive.sg_list = into;
  receive.num_sge = 4;
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(b.qp(), &receive, &bad), 0);
  ibv_sge from[] = {near_.Sge(0, 50), near_.Sge(50, 50), near_.Sge(9, 0), near_.Sge(100, 30)};
  ibv_send_wr wr = SendOf(2, IBV_WR_SEND, from);
  wr.num_sge = 4;
  ASSERT_EQ(a.Send(wr), 0);
  EXPECT_EQ(b.PollOne().byte_len, 130U);
  EXPECT_EQ(std::memcmp(near_.bytes().data(), far_.bytes().data(), 130), 0);
  EXPECT_EQ(far_.bytes()[130], 0);
}

TEST_F(SoftNicTest, APeerThatIsGoneIsFoundOut) {
  Endpoint a(domain_.pd());
  {
    Endpoint b(domain_.pd());
    Connect(a, b);
  }
  ibv_sge sge = near_.Sge(0, 64);
  ASSERT_EQ(a.Send(SendOf(1, IBV_WR_SEND, &sge)), 0);
  EXPECT_EQ(a.PollOne().status, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(SoftNicTest, AccessOutsideOfRegionsOrRightsBreaksBothEnds) {
  for (int which = 0; which < 4; ++which) {
    Endpoint a(domain_.pd());
    Endpoint b(domain_.pd());
    Connect(a, b);
    ASSERT_EQ(b.Receive(5, far_.Sge(0, 64)), 0);
    ibv_sge sge = near_.Sge(0, 64);
    ibv_send_wr wr = Remote(IBV_WR_RDMA_WRITE, &sge, 0);
    if (which == 0) wr.wr.rdma.rkey += 77;
    if (which == 1) wr.wr.rdma.remote_addr += 4096;
    if (which == 2) wr.wr.rdma.remote_addr += 4096 - 63;
    if (which == 3) wr.wr.rdma = {near_.Sge(0, 0).addr, near_.mr()->rkey};
    ASSERT_EQ(a.Send(wr), 0);
    EXPECT_EQ(a.PollOne().status, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(b.PollOne().status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(a.qp()->state, IBV_QPS_ERR);
    EXPECT_EQ(b.qp()->state, IBV_QPS_ERR);
  }
}

TEST_F(SoftNicTest, ALocalKeyIsCheckedAndTheRestFlushed) {
  Endpoint a(domain_.pd());
  Endpoint b(domain_.pd());
  Connect(a, b);
  ibv_sge sge = near_.Sge(0, 64);
  sge.lkey += 1000;
  ASSERT_EQ(a.Send(SendOf(1, IBV_WR_SEND, &sge)), 0);
  EXPECT_EQ(a.PollOne().status, IBV_WC_LOC_PROT_ERR);
  ASSERT_EQ(a.Send(SendOf(2, IBV_WR_SEND, &sge)), 0);
  EXPECT_EQ(a.PollOne().status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(SoftNicTest, AMessageLongerThanItsReceiveFailsAtBothEnds) {
  Endpoint a(domain_.pd());
  Endpoint b(domain_.pd());
  Connect(a, b);
  ASSERT_EQ(b.Receive(1, far_.Sge(0, 32)), 0);
  ibv_sge sge = near_.Sge(0, 64);
  ASSERT_EQ(a.Send(SendOf(2, IBV_WR_SEND, &sge)), 0);
  EXPECT_EQ(b.PollOne().status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(a.PollOne().status, IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(SoftNicTest, InlineBytesAreTakenAtThePostWithoutAKey) {
  Endpoint a(domain_.pd());
  Endpoint b(domain_.pd());
  Connect(a, b);
  std::uint64_t word = 123;
  ibv_sge sge = {reinterpret_cast<std::uint64_t>(&word), 8, 0};
  ibv_send_wr wr = SendOf(1, IBV_WR_SEND, &sge);
  wr.send_flags |= IBV_SEND_INLINE;
  ASSERT_EQ(a.Send(wr), 0);
  word = 0;
  ASSERT_EQ(b.Receive(1, far_.Sge(0, 8)), 0);
  EXPECT_EQ(b.PollOne().status, IBV_WC_SUCCESS);
  EXPECT_EQ(far_.bytes()[0], 123);
}

TEST_F(SoftNicTest, UnsignaledRequestsCompleteInSilence) {
  Endpoint a(domain_.pd());
  Endpoint b(domain_.pd());
  Connect(a, b);
  ibv_sge sge = near_.Sge(0, 64);
  ibv_send_wr wr = Remote(IBV_WR_RDMA_WRITE, &sge, 0);
  wr.send_flags = 0;
  for (int i = 0; i < 100; ++i) ASSERT_EQ(a.Send(wr), 0);
  EXPECT_TRUE(a.Poll().empty());
}

TEST_F(SoftNicTest, PostingRefusesWhatTheQueuePairCannotDo) {
  Endpoint a(domain_.pd());
  Endpoint b(domain_.pd());
  ibv_sge sge = near_.Sge(0, 64);
  EXPECT_EQ(a.Send(SendOf(1, IBV_WR_SEND, &sge)), EINVAL);
  EXPECT_EQ(a.Receive(1, sge), EINVAL);
  Connect(a, b);
  ibv_send_wr wr = SendOf(1, IBV_WR_SEND, &sge);
  wr.num_sge = 5;
  EXPECT_EQ(a.Send(wr), EINVAL);
  wr = SendOf(1, IBV_WR_BIND_MW, &sge);
  EXPECT_EQ(a.Send(wr), EINVAL);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(a.Send(SendOf(1, IBV_WR_SEND, &sge)), 0);
  EXPECT_EQ(a.Send(SendOf(1, IBV_WR_SEND, &sge)), ENOMEM);
}

TEST_F(SoftNicTest, StatesChangeOnlyAsTheyMay) {
  Endpoint a(domain_.pd());
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_RTS;
  EXPECT_EQ(ibv_modify_qp(a.qp(), &attr, IBV_QP_STATE), EINVAL);
  attr.qp_state = IBV_QPS_INIT;
  EXPECT_EQ(ibv_modify_qp(a.qp(), &attr, IBV_QP_STATE), EINVAL);
  Endpoint b(domain_.pd());
  Connect(a, b);
  ibv_qp_init_attr init = {};
  ASSERT_EQ(ibv_query_qp(a.qp(), &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attr.dest_qp_num, b.qp()->qp_num);
}

TEST_F(SoftNicTest, AChannelWakesOnceForAnArmedQueue) {
  ibv_comp_channel* const channel = ibv_create_comp_channel(domain_.context());
  {
    Endpoint a(domain_.pd());
    Endpoint b(domain_.pd(), channel);
    Connect(a, b);
    ASSERT_EQ(ibv_req_notify_cq(b.cq(), 0), 0);
    std::thread waiting([&] {
      ibv_cq* cq = nullptr;
      void* context = nullptr;
      ASSERT_EQ(ibv_get_cq_event(channel, &cq, &context), 0);
      EXPECT_EQ(cq, b.cq());
      EXPECT_EQ(context, &b);
      ibv_ack_cq_events(cq, 1);
    });
    ASSERT_EQ(b.Receive(1, far_.Sge(0, 64)), 0);
    ibv_sge sge = near_.Sge(0, 64);
    ASSERT_EQ(a.Send(SendOf(1, IBV_WR_SEND, &sge)), 0);
    waiting.join();
    EXPECT_EQ(ibv_destroy_comp_channel(channel), EBUSY);
  }
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

// A queue with two completions of which a channel told, neither taken from the channel.
void TellTwice(Endpoint& a, Endpoint& b, Memory& near, Memory& far) {
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(b.cq(), 0), 0);
    ASSERT_EQ(b.Receive(1, far.Sge(0, 64)), 0);
    ibv_sge sge = near.Sge(0, 64);
    ASSERT_EQ(a.Send(SendOf(1, IBV_WR_SEND, &sge)), 0);
  }
}

bool Readable(const ibv_comp_channel* channel) {
  pollfd watched = {channel->fd, POLLIN, 0};
  return poll(&watched, 1, 0) == 1;
}

TEST_F(SoftNicTest, DestroyingAQueueTakesItsOwnEventsAlongAndNoOthers) {
  ibv_comp_channel* const channel = ibv_create_comp_channel(domain_.context());
  {
    Endpoint a(domain_.pd());
    Endpoint kept(domain_.pd(), channel);
    Connect(a, kept);
    {
      Endpoint b(domain_.pd());
      Endpoint gone(domain_.pd(), channel);
      Connect(b, gone);
      TellTwice(b, gone, near_, far_);
      EXPECT_TRUE(Readable(channel));
    }
    EXPECT_FALSE(Readable(channel));
    TellTwice(a, kept, near_, far_);
    {
      Endpoint b(domain_.pd());
      Endpoint gone(domain_.pd(), channel);
      Connect(b, gone);
      TellTwice(b, gone, near_, far_);
    }
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(Readable(channel));
      ibv_cq* cq = nullptr;
      void* context = nullptr;
      ASSERT_EQ(ibv_get_cq_event(channel, &cq, &context), 0);
      EXPECT_EQ(cq, kept.cq());
      ibv_ack_cq_events(cq, 1);
    }
    EXPECT_FALSE(Readable(channel));
  }
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_F(SoftNicTest, ANonBlockingChannelSaysThatThereIsNoEvent) {
  ibv_comp_channel* const channel = ibv_create_comp_channel(domain_.context());
  ASSERT_EQ(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  EXPECT_EQ(ibv_get_cq_event(channel, &cq, &context), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

// More than the channel's descriptor holds bytes for.
TEST_F(SoftNicTest, EveryEventOfAChannelIsGivenOnce) {
  constexpr int kCount = 5000;
  ibv_comp_channel* const channel = ibv_create_comp_channel(domain_.context());
  {
    Endpoint a(domain_.pd());
    Endpoint b(domain_.pd(), channel);
    Connect(a, b);
    for (int i = 0; i < kCount / 2; ++i) {
      TellTwice(a, b, near_, far_);
      b.Poll();
      a.Poll();
    }
    for (int i = 0; i < kCount; ++i) {
      ibv_cq* cq = nullptr;
      void* context = nullptr;
      ASSERT_TRUE(Readable(channel));
      ASSERT_EQ(ibv_get_cq_event(channel, &cq, &context), 0);
    }
    EXPECT_FALSE(Readable(channel));
    ibv_ack_cq_events(b.cq(), kCount);
  }
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_F(SoftNicTest, DestroyingAQueueWaitsUntilItsEventsAreAcknowledged) {
  ibv_comp_channel* const channel = ibv_create_comp_channel(domain_.context());
  {
    Endpoint a(domain_.pd());
    auto b = std::make_unique<Endpoint>(domain_.pd(), channel);
    Connect(a, *b);
    TellTwice(a, *b, near_, far_);
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel, &cq, &context), 0);
    std::atomic<bool> destroys = false;
    std::atomic<bool> acknowledges = false;
    std::thread destroying([&] {
      destroys = true;
      b.reset();
      EXPECT_TRUE(acknowledges);
    });
    testing::Await("the other thread", [&] { return destroys.load(); });
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    acknowledges = true;
    ibv_ack_cq_events(cq, 1);
    destroying.join();
  }
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_F(SoftNicTest, ThreadsPostToQueuePairsOfOneDevice) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      Memory from(domain_.pd(), 256);
      Memory to(domain_.pd(), 256);
      Endpoint a(domain_.pd());
      Endpoint b(domain_.pd());
      Connect(a, b);
      for (std::uint8_t i = 1; i < 100; ++i) {
        from.bytes().assign(256, i);
        ASSERT_EQ(b.Receive(i, to.Sge(0, 256)), 0);
        ibv_sge sge = from.Sge(0, 256);
        ASSERT_EQ(a.Send(SendOf(i, IBV_WR_SEND, &sge)), 0);
        ASSERT_EQ(b.PollOne().status, IBV_WC_SUCCESS);
        ASSERT_EQ(a.PollOne().status, IBV_WC_SUCCESS);
        ASSERT_EQ(to.bytes(), from.bytes());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(SoftNicTest, TheDeviceDescribesItself) {
  ibv_port_attr port = {};
  ASSERT_EQ(ibv_query_port(domain_.context(), 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.lid, 1);
  EXPECT_NE(ibv_query_port(domain_.context(), 2, &port), 0);
  ibv_gid gid = {};
  EXPECT_EQ(ibv_query_gid(domain_.context(), 1, 0, &gid), 0);
  EXPECT_NE(ibv_query_gid(domain_.context(), 1, 1, &gid), 0);
  ibv_device_attr attr = {};
  ASSERT_EQ(ibv_query_device(domain_.context(), &attr), 0);
  EXPECT_EQ(attr.node_guid, ibv_get_device_guid(domain_.context()->device));
  EXPECT_STREQ(ibv_get_device_name(domain_.context()->device), "ring0");
  EXPECT_EQ(ibv_close_device(nullptr), EINVAL);
}

TEST_F(SoftNicTest, RegistrationRefusesEmptyRangesAndRemoteWritesOfReadOnlyMemory) {
  char byte = 0;
  EXPECT_EQ(ibv_reg_mr(domain_.pd(), nullptr, 10, 0), nullptr);
  EXPECT_EQ(ibv_reg_mr(domain_.pd(), &byte, 0, 0), nullptr);
  EXPECT_EQ(ibv_reg_mr(domain_.pd(), &byte, SIZE_MAX, 0), nullptr);
  const int remote = IBV_ACCESS_REMOTE_WRITE;
  EXPECT_EQ(ibv_reg_mr(domain_.pd(), &byte, 1, remote), nullptr);
}

}  // namespace
}  // namespace ring::ec_verbs
