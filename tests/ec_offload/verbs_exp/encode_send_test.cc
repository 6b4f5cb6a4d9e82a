// ibv_exp_ec_encode_send end to end over queue pairs of the software device.
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "tests/ec_offload/verbs_exp/connected_pair.h"
#include "tests/ec_offload/verbs_exp/verbs_fixture.h"

namespace ring::ec_verbs {
namespace {

constexpr int kData = 4;
constexpr int kCode = 2;
constexpr int kSize = 512;
constexpr std::size_t kBlocks = kData + kCode;

class EncodeSendTest : public ::testing::Test {
 protected:
  EncodeSendTest()
      : matrix_(SlowField(8).CauchyMatrix(kData, kCode)),
        attr_(Attributes(kData, kCode, 8, matrix_)),
        calc_(ibv_exp_alloc_ec_calc(domain_.pd(), &attr_)),
        stripe_(domain_.pd(), kData, kCode, kSize),
        remote_(domain_.pd(), kBlocks * kSize, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) {
    SeededRandom random(2);
    stripe_.Fill(random);
    for (std::size_t i = 0; i < kBlocks; ++i) {
      near_.push_back(std::make_unique<Endpoint>(domain_.pd()));
      far_.push_back(std::make_unique<Endpoint>(domain_.pd()));
      Connect(*near_[i], *far_[i]);
      sges_[i] = i < kData ? stripe_.data()[i] : stripe_.code()[i - kData];
      wrs_[i] = SendOf(i, IBV_WR_SEND, &sges_[i]);
      stripes_[i] = {near_[i]->qp(), &wrs_[i]};
    }
  }
  ~EncodeSendTest() override { ibv_exp_dealloc_ec_calc(calc_); }
  void PostReceives() {
    for (std::size_t i = 0; i < kBlocks; ++i) {
      ASSERT_EQ(far_[i]->Receive(i, remote_.Sge(i * kSize, kSize)), 0);
    }
  }
  int Go() { return ibv_exp_ec_encode_send(calc_, stripe_.mem(), stripes_, stripes_ + kData); }
  Bytes Parity(int j) {
    std::vector<Bytes> data;
    for (int i = 0; i < kData; ++i) data.push_back(stripe_.Block(i));
    return Combine(SlowField(8), data, matrix_, kCode, static_cast<std::size_t>(j));
  }

  Domain domain_;
  Bytes matrix_;
  ibv_exp_ec_calc_init_attr attr_;
  ibv_exp_ec_calc* calc_;
  Stripe stripe_;
  Memory remote_;
  std::vector<std::unique_ptr<Endpoint>> near_;
  std::vector<std::unique_ptr<Endpoint>> far_;
  ibv_sge sges_[kBlocks];
  ibv_send_wr wrs_[kBlocks];
  ibv_exp_ec_stripe stripes_[kBlocks];
};

TEST_F(EncodeSendTest, EveryPeerGetsItsBlockAndCodeBlocksAreEncodedBeforeTheyLeave) {
  PostReceives();
  ASSERT_EQ(Go(), 0);
  for (std::size_t i = 0; i < kBlocks; ++i) {
    EXPECT_EQ(far_[i]->PollOne().byte_len, static_cast<unsigned>(kSize));
    EXPECT_EQ(near_[i]->PollOne().wr_id, i);
    EXPECT_TRUE(near_[i]->Poll().empty());
  }
  EXPECT_EQ(remote_.bytes(), stripe_.memory().bytes());
  for (int j = 0; j < kCode; ++j) EXPECT_EQ(stripe_.Block(kData + j), Parity(j));
}

TEST_F(EncodeSendTest, ChainsAreSentWhole) {
  ibv_send_wr tail[kBlocks];
  for (std::size_t i = 0; i < kBlocks; ++i) {
    wrs_[i].opcode = IBV_WR_RDMA_WRITE;
    wrs_[i].wr.rdma = {remote_.Sge(i * kSize, 0).addr, remote_.mr()->rkey};
    wrs_[i].send_flags = 0;
    tail[i] = SendOf(100 + i, IBV_WR_RDMA_WRITE_WITH_IMM, nullptr);
    tail[i].num_sge = 0;
    tail[i].wr.rdma = wrs_[i].wr.rdma;
    wrs_[i].next = &tail[i];
  }
  PostReceives();
  ASSERT_EQ(Go(), 0);
  for (std::size_t i = 0; i < kBlocks; ++i) {
    EXPECT_EQ(far_[i]->PollOne().opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(near_[i]->PollOne().wr_id, 100 + i);
  }
  EXPECT_EQ(remote_.bytes(), stripe_.memory().bytes());
}

// The driver has no more than four code blocks in one calculation.
TEST(EncodeSend, TakesMoreThanFourCodeBlocks) {
  Domain domain;
  Bytes matrix = SlowField(4).CauchyMatrix(2, 6);
  ibv_exp_ec_calc_init_attr attr = Attributes(2, 6, 4, matrix);
  ibv_exp_ec_calc* const calc = ibv_exp_alloc_ec_calc(domain.pd(), &attr);
  {
    Stripe stripe(domain.pd(), 2, 6, kSize);
    SeededRandom random(3);
    stripe.Fill(random);
    Memory remote(domain.pd(), 8 * kSize);
    Endpoint near(domain.pd());
    Endpoint far(domain.pd());
    Connect(near, far);
    std::vector<ibv_send_wr> wrs(8);
    std::vector<ibv_exp_ec_stripe> stripes(8);
    for (std::size_t i = 0; i < 8; ++i) {
      ASSERT_EQ(far.Receive(i, remote.Sge(i * kSize, kSize)), 0);
      wrs[i] = SendOf(i, IBV_WR_SEND, i < 2 ? &stripe.data()[i] : &stripe.code()[i - 2]);
      stripes[i] = {near.qp(), &wrs[i]};
    }
    ASSERT_EQ(ibv_exp_ec_encode_send(calc, stripe.mem(), stripes.data(), stripes.data() + 2), 0);
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(far.PollOne().wr_id, i);
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(near.PollOne().wr_id, i);
    EXPECT_EQ(remote.bytes(), stripe.memory().bytes());
    const std::vector<Bytes> data = {stripe.Block(0), stripe.Block(1)};
    for (std::size_t j = 0; j < 6; ++j) {
      EXPECT_EQ(stripe.Block(2 + static_cast<int>(j)), Combine(SlowField(4), data, matrix, 6, j));
    }
  }
  ibv_exp_dealloc_ec_calc(calc);
}

TEST_F(EncodeSendTest, AFailingPostGivesItsErrorAndWhatWasPostedStays) {
  PostReceives();
  wrs_[2].num_sge = 99;
  EXPECT_EQ(Go(), EINVAL);
  EXPECT_EQ(far_[0]->PollOne().status, IBV_WC_SUCCESS);
  EXPECT_EQ(far_[1]->PollOne().status, IBV_WC_SUCCESS);
  EXPECT_TRUE(far_[3]->Poll().empty());
  EXPECT_TRUE(far_[4]->Poll().empty());
}

TEST_F(EncodeSendTest, AFailedCalculationSendsNoCodeBlock) {
  PostReceives();
  stripe_.code()[1].lkey += 999;
  EXPECT_EQ(Go(), IBV_EXP_EC_CALC_FAIL);
  EXPECT_EQ(far_[3]->PollOne().status, IBV_WC_SUCCESS);
  EXPECT_TRUE(far_[4]->Poll().empty());
  EXPECT_TRUE(far_[5]->Poll().empty());
}

TEST_F(EncodeSendTest, RefusesPollingContextsNullAndWrongListsBeforeAnythingIsPosted) {
  PostReceives();
  attr_.polling = 1;
  ibv_exp_ec_calc* const polling = ibv_exp_alloc_ec_calc(domain_.pd(), &attr_);
  EXPECT_EQ(ibv_exp_ec_encode_send(polling, stripe_.mem(), stripes_, stripes_ + kData), -EINVAL);
  ibv_exp_dealloc_ec_calc(polling);
  EXPECT_EQ(ibv_exp_ec_encode_send(calc_, stripe_.mem(), nullptr, stripes_ + kData), -EINVAL);
  EXPECT_EQ(ibv_exp_ec_encode_send(calc_, stripe_.mem(), stripes_, nullptr), -EINVAL);
  EXPECT_EQ(ibv_exp_ec_encode_send(calc_, nullptr, stripes_, stripes_ + kData), -EINVAL);
  EXPECT_EQ(ibv_exp_ec_encode_send(nullptr, stripe_.mem(), stripes_, stripes_ + kData), -EINVAL);
  EXPECT_EQ(ibv_exp_ec_encode_send(polling, stripe_.mem(), stripes_, stripes_ + kData), -EINVAL)
      << "released";
  stripe_.mem()->num_code_sge = 1;
  EXPECT_EQ(Go(), -EINVAL);
  stripe_.mem()->num_code_sge = kCode;
  stripe_.mem()->block_size = 100;
  EXPECT_EQ(Go(), -EINVAL);
  stripe_.mem()->block_size = kSize;
  stripes_[5].wr = nullptr;
  EXPECT_EQ(Go(), -EINVAL);
  stripes_[5].wr = &wrs_[5];
  for (const std::size_t i : {std::size_t{0}, kBlocks - 1}) {
    ibv_qp* const own = std::exchange(stripes_[i].qp, nullptr);
    EXPECT_EQ(Go(), -EINVAL);
    stripes_[i].qp = own;
  }
  for (const auto& end : far_) EXPECT_TRUE(end->Poll().empty());
}

}  // namespace
}  // namespace ring::ec_verbs
