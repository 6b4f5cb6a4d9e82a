// F15 on the simulated device: calculations that are late, that fail by chance, and wrong ones that
// a CRC beside the chunk shows.
#include <gtest/gtest.h>

#include <vector>

#include "ec_offload/block_calculator.h"
#include "ec_offload/inec/primitives.h"
#include "ring/base/crc32c.h"
#include "tests/ec_offload/inec/inec_cluster.h"
#include "tests/support/random_bytes.h"
#include "tests/support/status_matchers.h"

namespace ring::ec_offload {
namespace {

using rdma::QpState;
using rdma::Sge;
using testing::StatusIs;

// Node 0 XORs two chunks and sends [output | its CRC] to node 1.
class SimCalc : public ::testing::TestWithParam<InecWay> {
 protected:
  static constexpr std::size_t kLength = 256;
  static constexpr std::uint64_t kLateNs = 1'000'000;

  void SetUp() override {
    InecClusterOptions options;
    options.link = rdma::LinkKind::kSim;
    options.thresholds = InecThresholds::Always(GetParam());
    cluster_ = std::make_unique<InecCluster>(2, options);
    edge_ = cluster_->Connect(0, 1);
    inputs_ = {agent().Chunk(kLength), agent().Chunk(kLength)};
    for (const Sge& input : inputs_) {
      const std::vector<std::byte> bytes = testing::RandomBytes(random_, kLength);
      std::memcpy(input.address, bytes.data(), kLength);
    }
    output_ = agent().Chunk(kLength);
    crc_ = agent().Chunk(sizeof(std::uint32_t));
    arrival_ = cluster_->node(1).Chunk(kLength + sizeof(std::uint32_t));
  }
  InecNode& agent() { return cluster_->node(0); }
  rdma::sim::SimOptions& sim() { return cluster_->network()->options(); }
  InecOutcome Run(std::uint64_t deadline_ns = InecPrimitives::kNoDeadline) {
    if (cluster_->edge(edge_).out->state() != QpState::kReadyToSend) cluster_->Reconnect(edge_);
    cluster_->PostReceive(edge_, arrival_);
    std::uint32_t* const crc_out = reinterpret_cast<std::uint32_t*>(crc_.address);
    const Sge sges[] = {output_, crc_};
    rdma::WorkRequest send;
    send.opcode = rdma::Opcode::kSend;
    send.sges = sges;
    const InecChannel channel{cluster_->edge(edge_).out.get(), &send};
    EXPECT_OK(agent().inec().EcSend(1, {calculator_.get(), &crc_out},
                                    {inputs_, absl::MakeConstSpan(&output_, 1)},
                                    {absl::MakeConstSpan(&channel, 1)}, deadline_ns));
    const std::size_t count = agent().outcomes.size() + 1;
    EXPECT_TRUE(cluster_->RunUntilOutcomes(0, count));
    if (agent().outcomes.size() < count) return {};
    for (int i = 0; i < 20; ++i) cluster_->Turn();
    return agent().outcomes.back();
  }
  bool CrcFitsAtTarget() const {
    std::uint32_t crc = 0;
    std::memcpy(&crc, arrival_.address + kLength, sizeof(crc));
    return crc == Crc32c(arrival_.address, kLength);
  }
  void ExpectNextOneWorks() {
    sim().calc_fail_ppm = sim().calc_wrong_ppm = sim().calc_late_ppm = 0;
    EXPECT_OK(Run().status);
    EXPECT_TRUE(CrcFitsAtTarget());
    for (std::size_t i = 0; i < kLength; ++i)
      ASSERT_EQ(arrival_.address[i], inputs_[0].address[i] ^ inputs_[1].address[i]);
  }

  SeededRandom random_{73};
  std::unique_ptr<rdma::Calculator> calculator_ = *MakeXorCalculator(2);
  std::unique_ptr<InecCluster> cluster_;
  std::size_t edge_ = 0;
  std::vector<Sge> inputs_;
  Sge output_, crc_, arrival_;
};

TEST_P(SimCalc, F15ALateCalculationIsALateSend) {
  sim().calc_late_ppm = 1'000'000;
  sim().calc_late_ns_max = kLateNs;
  EXPECT_OK(Run().status);
  EXPECT_TRUE(CrcFitsAtTarget());
  ExpectNextOneWorks();
}

TEST_P(SimCalc, F15ACalculationThatIsTooLateIsADeadline) {
  sim().calc_late_ppm = 1'000'000;
  sim().calc_late_ns_max = 1000 * kLateNs;
  const InecOutcome outcome = Run(cluster_->now_ns() + kLateNs / 10);
  EXPECT_THAT(outcome.status, StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(outcome.step, InecStep::kCalculation);
  if (GetParam() == InecWay::kIncoherent) cluster_->Reconnect(edge_);  // its receive is unused
  cluster_->PassTime(2000 * kLateNs);
  ExpectNextOneWorks();
}

TEST_P(SimCalc, F15AWrongCalculationIsShownByItsCrc) {
  sim().calc_wrong_ppm = 1'000'000;
  EXPECT_OK(Run().status);
  EXPECT_FALSE(CrcFitsAtTarget());
  ExpectNextOneWorks();
}

// Each is told as what it was, and what succeeded is right.
TEST_P(SimCalc, F15ByChance) {
  sim().calc_fail_ppm = 300'000;
  sim().calc_late_ppm = 300'000;
  int failed = 0;
  for (int round = 0; round < 200; ++round) {
    std::memset(arrival_.address, 0, arrival_.length);
    const InecOutcome outcome = Run();
    if (outcome.status.ok()) {
      EXPECT_TRUE(CrcFitsAtTarget());
      continue;
    }
    ++failed;
    EXPECT_EQ(outcome.step, InecStep::kCalculation);
    EXPECT_THAT(outcome.status, StatusIs(absl::StatusCode::kFailedPrecondition));
    cluster_->Reconnect(edge_);
  }
  EXPECT_GT(failed, 20);
  EXPECT_LT(failed, 180);
  ExpectNextOneWorks();
}

INSTANTIATE_TEST_SUITE_P(Ways, SimCalc, ::testing::Values(InecWay::kCoherent, InecWay::kIncoherent),
                         [](const auto& way) {
                           return way.param == InecWay::kCoherent ? "Coherent" : "Incoherent";
                         });

}  // namespace
}  // namespace ring::ec_offload
