#include "ec_offload/ec_send.h"

#include <array>
#include <cstring>
#include <vector>

#include "ec_offload/delta_calculator.h"
#include "gtest/gtest.h"
#include "ring/base/crc32c.h"
#include "tests/ec_offload/fake_fabric.h"

namespace ring::ec_offload {
namespace {

using rdma::Opcode;
using rdma::Sge;
using rdma::WcStatus;
using rdma::WorkRequest;

constexpr std::size_t kLength = 200;
constexpr std::size_t kHeader = 16;
constexpr std::size_t kTrailer = 8;

class RefusingCalculator final : public rdma::Calculator {
 public:
  std::size_t input_count() const override { return 2; }
  std::size_t output_count() const override { return 3; }
  bool Run(const std::byte* const*, std::byte* const*, std::size_t, std::uint32_t*) const override {
    return false;
  }
};

// One put to two parities: what the store builds for each, and the memory of the peers.
struct Put {
  std::vector<std::byte> slot = std::vector<std::byte>(kLength, std::byte{0x11});
  std::vector<std::byte> fresh = std::vector<std::byte>(kLength, std::byte{0x33});
  std::array<std::vector<std::byte>, 2> deltas;
  std::array<std::array<std::byte, kHeader>, 2> headers;
  std::array<std::array<std::uint32_t, 2>, 2> trailers{};  // payload_crc, ring sequence
  std::array<std::vector<std::byte>, 2> remote;
  std::array<std::array<Sge, 3>, 2> gather;
  std::array<WorkRequest, 2> writes;
  std::array<Sge, 2> inputs;
  std::array<Sge, 3> outputs;
  std::array<std::uint32_t*, 3> crc_out;
  std::array<EcSend::Target, 2> targets;

  Put(FakeQueuePair* first, FakeQueuePair* second) {
    for (std::size_t j = 0; j < 2; ++j) {
      deltas[j].resize(kLength);
      headers[j].fill(std::byte{static_cast<unsigned char>(0xa0 + j)});
      trailers[j][1] = 77;
      remote[j].resize(kHeader + kLength + kTrailer);
      gather[j] = {Sge{headers[j].data(), kHeader, 0}, Sge{deltas[j].data(), kLength, 0},
                   Sge{reinterpret_cast<std::byte*>(trailers[j].data()), kTrailer, 0}};
      writes[j].opcode = Opcode::kWrite;
      writes[j].wr_id = 100 + j;
      writes[j].signaled = true;
      writes[j].sges = gather[j];
      writes[j].remote_address = reinterpret_cast<std::uint64_t>(remote[j].data());
    }
    inputs = {Sge{slot.data(), kLength, 0}, Sge{fresh.data(), kLength, 0}};
    outputs = {Sge{deltas[0].data(), kLength, 0}, Sge{deltas[1].data(), kLength, 0},
               Sge{slot.data(), kLength, 0}};
    crc_out = {&trailers[0][0], &trailers[1][0], nullptr};
    targets = {EcSend::Target{first, &writes[0]}, EcSend::Target{second, &writes[1]}};
  }

  EcSend::Request RequestFor(const rdma::Calculator& calculator, std::size_t target_count = 2) {
    return {&calculator, inputs, outputs, crc_out.data(),
            absl::MakeConstSpan(targets.data(), target_count)};
  }

  bool Arrived(std::size_t parity, gf256::Element coefficient) const {
    std::vector<std::byte> expected(kHeader, headers[parity][0]);
    expected.insert(expected.end(), kLength, std::byte{gf256::Multiply(coefficient, 0x11 ^ 0x33)});
    const std::array<std::uint32_t, 2> trailer = {Crc32c(expected.data() + kHeader, kLength), 77};
    const auto* bytes = reinterpret_cast<const std::byte*>(trailer.data());
    expected.insert(expected.end(), bytes, bytes + kTrailer);
    return remote[parity] == expected;
  }
  bool Untouched(std::size_t parity) const {
    return remote[parity] == std::vector<std::byte>(kHeader + kLength + kTrailer);
  }
};

class EcSendTest : public ::testing::Test {
 protected:
  FakeDevice device_{true, true};
  FakeCompletionQueue calc_cq_, cq_;
  FakeQueuePair calc_qp_{&calc_cq_}, first_{&cq_}, second_{&cq_};
  std::array<gf256::Element, 2> column_ = {1, 29};
  DeltaCalculator calculator_{column_, DeltaCalculator::Slot::kWritten};
  RefusingCalculator refusing_;
  Put put_{&first_, &second_};
  EcSend ec_send_{{&device_, &calc_qp_, &calc_cq_, false}};
};

TEST_F(EcSendTest, CalculatesOnceAndWritesToEveryParityWithItsCrc) {
  const EcSend::Outcome outcome = ec_send_.Send(put_.RequestFor(calculator_));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.posted, 3U);
  EXPECT_TRUE(outcome.calculated);
  EXPECT_TRUE(put_.Arrived(0, 1));
  EXPECT_TRUE(put_.Arrived(1, 29));
  EXPECT_EQ(put_.slot, put_.fresh);
  EXPECT_EQ(calc_qp_.executed, std::vector<Opcode>{Opcode::kCalc});
  EXPECT_EQ(first_.posts + second_.posts + calc_qp_.posts, 3) << "one post for each queue pair";
  EXPECT_EQ(ec_send_.calcs_outstanding(), 0U);
}

TEST_F(EcSendTest, NoByteLeavesBeforeTheCalculationIsDone) {
  calc_qp_.held = true;
  const EcSend::Outcome outcome = ec_send_.Send(put_.RequestFor(calculator_));
  ASSERT_TRUE(outcome.status.ok());
  EXPECT_FALSE(outcome.calculated);
  EXPECT_EQ(ec_send_.calcs_outstanding(), 1U);
  first_.Run();
  second_.Run();
  EXPECT_TRUE(put_.Untouched(0));
  EXPECT_TRUE(put_.Untouched(1));
  calc_qp_.Run();
  second_.Run();
  first_.Run();
  EXPECT_TRUE(put_.Arrived(0, 1));
  EXPECT_TRUE(put_.Arrived(1, 29));
  EXPECT_EQ(first_.executed, (std::vector<Opcode>{Opcode::kWait, Opcode::kWrite}));
  ec_send_.Drain();
  EXPECT_EQ(ec_send_.calcs_outstanding(), 0U);
  EXPECT_EQ(ec_send_.calcs_failed(), 0U);
}

TEST_F(EcSendTest, FailedCalculationFlushesTheWritesThatWaitS11) {
  calc_qp_.held = true;
  ASSERT_TRUE(ec_send_.Send(put_.RequestFor(refusing_)).status.ok());
  calc_qp_.Run();
  first_.Run();
  second_.Run();
  EXPECT_TRUE(put_.Untouched(0));
  EXPECT_TRUE(put_.Untouched(1));
  ASSERT_EQ(cq_.queue().size(), 4U);  // WAIT and WRITE of each
  for (const auto& completion : cq_.queue()) EXPECT_EQ(completion.status, WcStatus::kFlushed);
  ec_send_.Drain();
  EXPECT_EQ(ec_send_.calcs_failed(), 1U);
}

TEST_F(EcSendTest, RefusalKnownAtOnceSendsNothingS11) {
  const EcSend::Outcome outcome = ec_send_.Send(put_.RequestFor(refusing_));
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(outcome.posted, 0U);
  EXPECT_EQ(first_.posts + second_.posts, 0);
  // The calc queue is in error now; the host takes over.
  EXPECT_TRUE(ec_send_.Send(put_.RequestFor(calculator_)).status.ok());
  EXPECT_TRUE(put_.Arrived(0, 1));
}

TEST_F(EcSendTest, SecondPutWhileACalcIsUnderWayGoesByTheHost) {
  calc_qp_.held = true;
  ASSERT_TRUE(ec_send_.Send(put_.RequestFor(calculator_)).status.ok());
  Put other(&first_, &second_);
  const EcSend::Outcome outcome = ec_send_.Send(other.RequestFor(calculator_));
  ASSERT_TRUE(outcome.status.ok());
  EXPECT_TRUE(outcome.calculated);
  EXPECT_EQ(calc_qp_.posts, 1);
  EXPECT_TRUE(other.Untouched(0)) << "queued behind the WAIT of the first put";
  calc_qp_.Run();
  first_.Run();
  second_.Run();
  EXPECT_TRUE(put_.Arrived(0, 1));
  EXPECT_TRUE(other.Arrived(0, 1));
  EXPECT_TRUE(other.Arrived(1, 29));
}

TEST_F(EcSendTest, OneParityNeedsNoCalcQueue) {
  EcSend ec_send({&device_, nullptr, nullptr, false});
  const EcSend::Outcome outcome = ec_send.Send(put_.RequestFor(calculator_, 1));
  ASSERT_TRUE(outcome.status.ok());
  EXPECT_EQ(first_.executed, (std::vector<Opcode>{Opcode::kCalc, Opcode::kWrite}));
  EXPECT_EQ(first_.posts, 1);
  EXPECT_TRUE(put_.Arrived(0, 1));
}

TEST_F(EcSendTest, FailedCalculationInOneChainFlushesItsWriteS11) {
  EcSend ec_send({&device_, nullptr, nullptr, false});
  ASSERT_TRUE(ec_send.Send(put_.RequestFor(refusing_, 1)).status.ok());
  EXPECT_TRUE(put_.Untouched(0));
  ASSERT_EQ(cq_.queue().size(), 2U);
  EXPECT_EQ(cq_.queue()[0].status, WcStatus::kCalcFailed);
  EXPECT_EQ(cq_.queue()[0].wr_id, 100U);
  EXPECT_EQ(cq_.queue()[1].status, WcStatus::kFlushed);
}

TEST_F(EcSendTest, HostCalculatesWhereTheDeviceCannotOrShouldNot) {
  FakeDevice plain{false, false}, without_crc{true, false};
  for (const EcSend::Options& options : {EcSend::Options{&plain, &calc_qp_, &calc_cq_, false},
                                         EcSend::Options{&without_crc, &calc_qp_, &calc_cq_, false},
                                         EcSend::Options{&device_, &calc_qp_, &calc_cq_, true},
                                         EcSend::Options{&device_, nullptr, nullptr, false},
                                         EcSend::Options{nullptr, nullptr, nullptr, false}}) {
    EcSend ec_send(options);
    Put put(&first_, &second_);
    const EcSend::Outcome outcome = ec_send.Send(put.RequestFor(calculator_));
    ASSERT_TRUE(outcome.status.ok());
    EXPECT_TRUE(outcome.calculated);
    EXPECT_TRUE(put.Arrived(0, 1));
    EXPECT_TRUE(put.Arrived(1, 29));
    EXPECT_EQ(ec_send.Send(put.RequestFor(refusing_)).posted, 0U);
  }
  EXPECT_EQ(calc_qp_.posts, 0);
}

TEST_F(EcSendTest, AParityThatCannotBePostedToDoesNotStopTheOthers) {
  first_.refusal = absl::ResourceExhaustedError("qp=7: full");
  const EcSend::Outcome outcome = ec_send_.Send(put_.RequestFor(calculator_));
  EXPECT_EQ(outcome.status, first_.refusal);
  EXPECT_EQ(outcome.posted, 2U);
  EXPECT_TRUE(put_.Untouched(0));
  EXPECT_TRUE(put_.Arrived(1, 29));
}

TEST_F(EcSendTest, NoParityAtAllStillWritesTheSlot) {
  const EcSend::Outcome outcome = ec_send_.Send(put_.RequestFor(calculator_, 0));
  EXPECT_TRUE(outcome.status.ok());
  EXPECT_EQ(put_.slot, put_.fresh);
}

}  // namespace
}  // namespace ring::ec_offload
