// What goes wrong in an operation is told once, with the step, and the next operation works (F15:
// calculations that fail, are wrong or late; peers that vanish; completions that never come).
#include <gtest/gtest.h>

#include <array>
#include <tuple>
#include <vector>

#include "ec_offload/block_calculator.h"
#include "ec_offload/inec/primitives.h"
#include "ring/base/crc32c.h"
#include "tests/ec_offload/inec/inec_cluster.h"
#include "tests/support/random_bytes.h"
#include "tests/support/status_matchers.h"

namespace ring::ec_offload {
namespace {

using rdma::LinkKind;
using rdma::QpState;
using rdma::Sge;
using testing::StatusIs;

// XOR, until it is told to refuse.
class Moody final : public rdma::Calculator {
 public:
  explicit Moody(std::size_t inputs) : xor_(*MakeXorCalculator(inputs)) {}
  std::size_t input_count() const override { return xor_->input_count(); }
  std::size_t output_count() const override { return 1; }
  bool Run(const std::byte* const* inputs, std::byte* const* outputs, std::size_t length,
           std::uint32_t* crcs) const override {
    return !refuse && xor_->Run(inputs, outputs, length, crcs);
  }
  bool refuse = false;

 private:
  std::unique_ptr<rdma::Calculator> xor_;
};

// Node 0 feeds node 1, which XORs what comes with a chunk of its own and sends that to 2 and 3.
class Faults : public ::testing::TestWithParam<std::tuple<LinkKind, InecWay>> {
 protected:
  static constexpr std::size_t kLength = 512;
  static constexpr std::uint64_t kSoonNs = 1'000'000'000;

  LinkKind link() const { return std::get<0>(GetParam()); }
  bool coherent() const { return std::get<1>(GetParam()) == InecWay::kCoherent; }

  void Open(bool faulty = false) {
    InecClusterOptions options;
    options.link = link();
    options.thresholds = InecThresholds::Always(std::get<1>(GetParam()));
    options.faulty = faulty;
    cluster_ = std::make_unique<InecCluster>(4, options);
    source_ = cluster_->Connect(0, 1);
    targets_ = {cluster_->Connect(1, 2), cluster_->Connect(1, 3)};
    output_ = middle().Chunk(kLength);
    input_ = middle().Chunk(kLength);
    own_ = middle().Chunk(kLength);
    arrivals_ = {cluster_->node(2).Chunk(kLength), cluster_->node(3).Chunk(kLength)};
  }
  InecNode& middle() { return cluster_->node(1); }
  static std::vector<std::byte> BytesOf(const Sge& sge) {
    return std::vector<std::byte>(sge.address, sge.address + sge.length);
  }
  void Fill(const Sge& sge) {
    const std::vector<std::byte> bytes = testing::RandomBytes(random_, sge.length);
    std::memcpy(sge.address, bytes.data(), sge.length);
  }
  void PostReceives(bool at_targets = true) {
    cluster_->PostReceive(source_, input_);
    for (std::size_t i = 0; at_targets && i < 2; ++i)
      cluster_->PostReceive(targets_[i], arrivals_[i]);
  }
  void Submit(std::uint64_t id, std::uint64_t deadline_ns = InecPrimitives::kNoDeadline) {
    InecSends sends;
    for (const std::size_t target : targets_) sends.Add(cluster_->edge(target).out.get(), output_);
    const InecReceive receive{cluster_->edge(source_).recv_cq, 1};
    const Sge inputs[] = {input_, own_};
    ASSERT_OK(middle().inec().RecvEcSend(id, {absl::MakeConstSpan(&receive, 1)}, {&calculator_},
                                         {inputs, absl::MakeConstSpan(&output_, 1)}, sends.stripe(),
                                         deadline_ns));
  }
  void Feed() {
    sent_ = cluster_->node(0).Chunk(kLength);  // the last one may still be on its way
    Fill(sent_);
    cluster_->Send(source_, sent_);
  }
  InecOutcome NextOutcome() {
    const std::size_t count = ++outcomes_;
    EXPECT_TRUE(cluster_->RunUntilOutcomes(1, count)) << "no outcome " << count;
    return middle().outcomes.size() < count ? InecOutcome{} : middle().outcomes[count - 1];
  }
  bool ArrivedAt(std::size_t target, std::size_t count) {
    return cluster_->RunUntil([&] { return cluster_->Received(targets_[target]) == count; });
  }
  // What the caller has to do: connect anew what is not ready to send.
  void Mend() {
    for (int i = 0; i < 20; ++i) cluster_->Turn();
    for (const std::size_t target : targets_) {
      if (cluster_->edge(target).out->state() != QpState::kReadyToSend ||
          cluster_->edge(target).in->state() != QpState::kReadyToSend)
        cluster_->Reconnect(target);
    }
  }
  void ExpectNextOneWorks() {
    calculator_.refuse = false;
    Fill(own_);
    PostReceives();
    const std::size_t before[] = {cluster_->Received(targets_[0]), cluster_->Received(targets_[1])};
    Submit(1000);
    Feed();
    const InecOutcome outcome = NextOutcome();
    EXPECT_OK(outcome.status);
    EXPECT_EQ(outcome.id, 1000u);
    std::vector<std::byte> expected = BytesOf(sent_);
    for (std::size_t i = 0; i < kLength; ++i) expected[i] ^= own_.address[i];
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(ArrivedAt(i, before[i] + 1));
      EXPECT_EQ(BytesOf(arrivals_[i]), expected);
    }
    EXPECT_EQ(middle().inec().under_way(), 0u);
    EXPECT_EQ(middle().inec().counters().outcomes, middle().inec().counters().submits);
  }

  SeededRandom random_{72};
  Moody calculator_{2};
  std::unique_ptr<InecCluster> cluster_;
  std::size_t source_ = 0;
  std::array<std::size_t, 2> targets_{};
  Sge input_, own_, output_, sent_;
  std::array<Sge, 2> arrivals_;
  std::size_t outcomes_ = 0;
};

TEST_P(Faults, F15AFailedCalculationSendsNothingAndTheNextOneWorks) {
  Open();
  for (int round = 0; round < 3; ++round) {
    calculator_.refuse = true;
    PostReceives();
    Submit(1);
    Feed();
    const InecOutcome outcome = NextOutcome();
    EXPECT_THAT(outcome.status, StatusIs(absl::StatusCode::kFailedPrecondition));
    EXPECT_EQ(outcome.step, InecStep::kCalculation);
    EXPECT_THAT(std::string(outcome.status.message()), ::testing::HasSubstr("id=1: calculation"));
    Mend();
    EXPECT_EQ(cluster_->Received(targets_[0]), static_cast<std::size_t>(round));
    // Incoherent channels are sound: the receives that are posted there are still to be used.
    if (!coherent()) {
      for (const std::size_t target : targets_) cluster_->Reconnect(target);
    }
    ExpectNextOneWorks();
  }
  EXPECT_EQ(middle().inec().counters().calc_breaks, 3u);
}

// Those that the device has are flushed; those that this thread leads go on.
TEST_P(Faults, F15OperationsBehindAFailedCalculation) {
  Open();
  for (int i = 0; i < 3; ++i) PostReceives();
  calculator_.refuse = true;
  for (std::uint64_t id = 1; id <= 3; ++id) Submit(id);
  Feed();
  const InecOutcome first = NextOutcome();
  EXPECT_EQ(first.id, 1u);
  EXPECT_EQ(first.step, InecStep::kCalculation);
  calculator_.refuse = false;
  Feed();
  Feed();
  for (std::uint64_t id = 2; id <= 3; ++id) {
    const InecOutcome outcome = NextOutcome();
    EXPECT_EQ(outcome.id, id);
    EXPECT_THAT(outcome.status,
                StatusIs(coherent() ? absl::StatusCode::kAborted : absl::StatusCode::kOk));
  }
  Mend();
  for (const std::size_t target : targets_) cluster_->Reconnect(target);
  ExpectNextOneWorks();
}

TEST_P(Faults, AFeederThatVanishesIsAFailedReceive) {
  Open();
  PostReceives();
  Submit(1);
  for (int i = 0; i < 20; ++i) cluster_->Turn();
  cluster_->edge(source_).out.reset();
  const InecOutcome outcome = NextOutcome();
  EXPECT_EQ(outcome.step, InecStep::kReceive);
  EXPECT_THAT(std::string(outcome.status.message()), ::testing::HasSubstr("receive"));
  cluster_->Reconnect(source_);
  middle().inec().ForgetReceives(cluster_->edge(source_).recv_cq);
  Mend();
  for (const std::size_t target : targets_) cluster_->Reconnect(target);
  ExpectNextOneWorks();
}

TEST_P(Faults, ATargetThatVanishesIsNamedAndTheOthersAreSent) {
  Open();
  PostReceives();
  cluster_->edge(targets_[1]).in->Reset();
  ASSERT_TRUE(cluster_->RunUntil(
      [&] { return cluster_->edge(targets_[1]).out->state() == QpState::kError; }));
  Submit(1);
  Feed();
  const InecOutcome outcome = NextOutcome();
  EXPECT_EQ(outcome.step, InecStep::kSend);
  EXPECT_EQ(outcome.channel, 1u);
  EXPECT_THAT(std::string(outcome.status.message()), ::testing::HasSubstr("send to target 1"));
  EXPECT_TRUE(ArrivedAt(0, 1));
  EXPECT_EQ(outcome.unfinished, 0u);
  Mend();
  ExpectNextOneWorks();
  EXPECT_EQ(middle().inec().counters().calc_breaks, 0u);
}

TEST_P(Faults, ATargetThatVanishesMeanwhileIsNamed) {
  Open();
  PostReceives();
  Submit(1);
  for (int i = 0; i < 20; ++i) cluster_->Turn();
  cluster_->edge(targets_[0]).in.reset();
  ASSERT_TRUE(cluster_->RunUntil(
      [&] { return cluster_->edge(targets_[0]).out->state() == QpState::kError; }));
  Feed();
  const InecOutcome outcome = NextOutcome();
  EXPECT_EQ(outcome.step, InecStep::kSend);
  EXPECT_EQ(outcome.channel, 0u);
  EXPECT_TRUE(ArrivedAt(1, 1));
  cluster_->Reconnect(targets_[0]);
  ExpectNextOneWorks();
}

TEST_P(Faults, WhatNeverComesIsADeadlineWithItsStep) {
  Open();
  PostReceives();
  Submit(1, cluster_->now_ns() + kSoonNs);
  for (int i = 0; i < 20; ++i) cluster_->Turn();
  EXPECT_TRUE(middle().outcomes.empty());
  cluster_->PassTime(kSoonNs);
  const InecOutcome outcome = NextOutcome();
  EXPECT_THAT(outcome.status, StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(outcome.step, InecStep::kReceive);
  cluster_->Reconnect(source_);
  middle().inec().ForgetReceives(cluster_->edge(source_).recv_cq);
  Mend();
  for (const std::size_t target : targets_) cluster_->Reconnect(target);
  ExpectNextOneWorks();
}

// What an operation that was given up would have got is not taken for the next one's.
TEST_P(Faults, WhatComesAfterItsDeadlineIsThrownAway) {
  Open();
  PostReceives();
  Submit(1, cluster_->now_ns() + kSoonNs);
  cluster_->PassTime(2 * kSoonNs);
  EXPECT_THAT(NextOutcome().status, StatusIs(absl::StatusCode::kDeadlineExceeded));
  Mend();
  for (const std::size_t target : targets_) cluster_->Reconnect(target);
  PostReceives();
  Submit(2);
  for (int i = 0; i < 50; ++i) cluster_->Turn();
  EXPECT_EQ(middle().outcomes.size(), outcomes_);
  Feed();  // for the first
  for (int i = 0; i < 50; ++i) cluster_->Turn();
  EXPECT_EQ(middle().outcomes.size(), outcomes_);
  Feed();
  EXPECT_OK(NextOutcome().status);
  ASSERT_TRUE(ArrivedAt(0, 1));
  std::vector<std::byte> expected = BytesOf(sent_);
  for (std::size_t i = 0; i < kLength; ++i) expected[i] ^= own_.address[i];
  EXPECT_EQ(BytesOf(arrivals_[0]), expected);
}

TEST_P(Faults, ASendThatHangsIsADeadlineAndItsBuffersAreTheDevices) {
  Open();
  PostReceives(/*at_targets=*/false);
  cluster_->PostReceive(targets_[0], arrivals_[0]);
  Submit(1, cluster_->now_ns() + kSoonNs);
  Feed();
  EXPECT_TRUE(ArrivedAt(0, 1));
  // The calculation's, and that of the send that arrived; incoherent: the receive's, too.
  ASSERT_TRUE(cluster_->RunUntil(
      [&] { return middle().inec().counters().completions >= (coherent() ? 2u : 3u); }));
  cluster_->PassTime(kSoonNs);
  const InecOutcome outcome = NextOutcome();
  EXPECT_THAT(outcome.status, StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(outcome.step, InecStep::kSend);
  EXPECT_EQ(outcome.channel, 1u);
  EXPECT_EQ(outcome.unfinished, 2u);
  cluster_->Reconnect(targets_[1]);
  ExpectNextOneWorks();
}

TEST_P(Faults, InjectedFailuresOfSendsAreTold) {
  Open(/*faulty=*/true);
  for (int round = 0; round < 3; ++round) {
    PostReceives();
    for (const auto status : {rdma::WcStatus::kRetryExceeded}) {
      ASSERT_OK(middle().faulty()->Inject(
          {.kind = rdma::DeviceFaultKind::kFail, .count = 1, .status = status}));
    }
    Submit(1);
    Feed();
    const InecOutcome outcome = NextOutcome();
    EXPECT_EQ(outcome.step, InecStep::kSend);
    EXPECT_EQ(outcome.channel, 0u);
    for (const std::size_t target : targets_) cluster_->Reconnect(target);
    ExpectNextOneWorks();
  }
}

TEST_P(Faults, LateCompletionsAreALateOutcome) {
  Open(/*faulty=*/true);
  PostReceives();
  ASSERT_OK(middle().faulty()->Inject(
      {.kind = rdma::DeviceFaultKind::kLate, .count = 100, .delay_us = 100}));
  Submit(1);
  Feed();
  EXPECT_OK(NextOutcome().status);
  EXPECT_GT(middle().faulty()->injected(), 0u);
  EXPECT_TRUE(ArrivedAt(0, 1) && ArrivedAt(1, 1));
  middle().faulty()->Clear();
  ExpectNextOneWorks();
}

// Neither queue pairs, nor places in queues, nor operations are used up.
TEST_P(Faults, HundredsOfFailuresLeaveNothingBehind) {
  Open();
  const int rounds = link() == LinkKind::kLocal ? 600 : 30;
  for (int round = 0; round < rounds; ++round) {
    calculator_.refuse = true;
    PostReceives();
    Submit(1);
    Feed();
    EXPECT_EQ(NextOutcome().step, InecStep::kCalculation);
    for (const std::size_t target : targets_) cluster_->Reconnect(target);
  }
  ExpectNextOneWorks();
  EXPECT_EQ(middle().inec().counters().errors, static_cast<std::uint64_t>(rounds));
}

std::string NameOf(const ::testing::TestParamInfo<std::tuple<LinkKind, InecWay>>& parameter) {
  return rdma::LinkKindName(std::get<0>(parameter.param)) +
         (std::get<1>(parameter.param) == InecWay::kCoherent ? "Coherent" : "Incoherent");
}

INSTANTIATE_TEST_SUITE_P(
    Links, Faults,
    ::testing::Combine(::testing::ValuesIn(rdma::WithVerbs(
                           {LinkKind::kLocal, LinkKind::kShm, LinkKind::kTcp, LinkKind::kSim,
                            LinkKind::kEngineLocal, LinkKind::kEngineShm, LinkKind::kEngineTcp},
                           {LinkKind::kVerbs})),
                       ::testing::Values(InecWay::kCoherent, InecWay::kIncoherent)),
    NameOf);

}  // namespace
}  // namespace ring::ec_offload
