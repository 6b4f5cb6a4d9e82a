// EcSend on the software NIC: a coordinator and its parities are devices of this process.
#include <array>
#include <cstring>
#include <vector>

#include "ec_offload/delta_calculator.h"
#include "gtest/gtest.h"
#include "ring/base/crc32c.h"
#include "ring/base/random.h"
#include "tests/ec_offload/soft_cluster.h"
#include "tests/support/random_bytes.h"

namespace ring::ec_offload {
namespace {

using rdma::WcStatus;

constexpr std::size_t kLength = 1000;
constexpr std::size_t kHeader = SoftCluster::kHeader;
constexpr std::size_t kEntry = kHeader + kLength + SoftCluster::kTrailer;

class RefusingCalculator final : public rdma::Calculator {
 public:
  explicit RefusingCalculator(std::size_t outputs) : outputs_(outputs) {}
  std::size_t input_count() const override { return 2; }
  std::size_t output_count() const override { return outputs_; }
  bool Run(const std::byte* const*, std::byte* const*, std::size_t, std::uint32_t*) const override {
    return false;
  }

 private:
  std::size_t outputs_;
};

// A put of `fresh` over `old_bytes`, with all that completes of it.
EcSend::Outcome Put(SoftCluster& cluster, EcSend& ec_send, const rdma::Calculator& calculator,
                    const std::vector<std::byte>& old_bytes, const std::vector<std::byte>& fresh) {
  std::memcpy(cluster.slot(), old_bytes.data(), kLength);
  std::memcpy(cluster.value(), fresh.data(), kLength);
  EcSend::Outcome outcome = cluster.Send(ec_send, calculator);
  for (int turn = 0; turn < 100; ++turn) cluster.Poll();
  return outcome;
}

TEST(EcSendSoft, EveryWayPutsTheSameEntriesIntoTheLogs) {
  SeededRandom random(61);
  const std::array<gf256::Element, 4> column = {1, 29, 77, 131};
  for (std::size_t m : {1U, 2U, 4U}) {
    SoftCluster cluster(m, kLength);
    ASSERT_TRUE(cluster.device()->caps().calc && cluster.device()->caps().calc_crc);
    const DeltaCalculator calculator(absl::MakeConstSpan(column.data(), m),
                                     DeltaCalculator::Slot::kWritten);
    EcSend by_queue({cluster.device(), cluster.calc_qp(), cluster.calc_cq(), false});
    EcSend by_chain({cluster.device(), nullptr, nullptr, false});
    EcSend by_host({cluster.device(), nullptr, nullptr, true});
    for (int round = 0; round < 20; ++round) {
      for (EcSend* ec_send : {&by_queue, &by_chain, &by_host}) {
        const std::vector<std::byte> old_bytes = testing::RandomBytes(random, kLength),
                                     fresh = testing::RandomBytes(random, kLength);
        const EcSend::Outcome outcome = Put(cluster, *ec_send, calculator, old_bytes, fresh);
        ASSERT_TRUE(outcome.status.ok()) << outcome.status;
        ASSERT_EQ(outcome.posted, (1U << m) - 1);
        ASSERT_EQ(cluster.completed().size(), m);
        for (std::size_t j = 0; j < m; ++j) {
          ASSERT_EQ(cluster.completed()[j].status, WcStatus::kSuccess);
          const std::byte* entry = cluster.log(j);
          ASSERT_EQ(entry[kHeader - 1], static_cast<std::byte>(0x40 + j));
          for (std::size_t i = 0; i < kLength; ++i) {
            const auto difference = std::to_integer<gf256::Element>(old_bytes[i] ^ fresh[i]);
            ASSERT_EQ(std::to_integer<gf256::Element>(entry[kHeader + i]),
                      gf256::Multiply(column[j], difference));
          }
          std::uint32_t crc = 0;
          std::memcpy(&crc, entry + kHeader + kLength, sizeof(crc));
          ASSERT_EQ(crc, Crc32c(entry + kHeader, kLength));
        }
        ASSERT_EQ(std::memcmp(cluster.slot(), fresh.data(), kLength), 0);
      }
    }
  }
}

TEST(EcSendSoft, AFailedCalculationReachesNoLogS11) {
  SeededRandom random(62);
  const std::vector<std::byte> bytes = testing::RandomBytes(random, kLength);
  for (bool one_chain : {false, true}) {
    SoftCluster cluster(one_chain ? 1 : 2, kLength);
    const RefusingCalculator refusing(one_chain ? 2 : 3);
    EcSend ec_send({cluster.device(), one_chain ? nullptr : cluster.calc_qp(),
                    one_chain ? nullptr : cluster.calc_cq(), false});
    const EcSend::Outcome outcome = Put(cluster, ec_send, refusing, bytes, bytes);
    if (one_chain) {
      ASSERT_EQ(cluster.completed().size(), 2U);
      EXPECT_EQ(cluster.completed()[0].status, WcStatus::kCalcFailed);
      EXPECT_EQ(cluster.completed()[1].status, WcStatus::kFlushed);
    } else {
      EXPECT_EQ(outcome.status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_TRUE(cluster.completed().empty());
    }
    EXPECT_EQ(std::vector<std::byte>(cluster.log(0), cluster.log(0) + kEntry),
              std::vector<std::byte>(kEntry));
  }
}

}  // namespace
}  // namespace ring::ec_offload
