// What goes wrong in a run is told with the vertex and the step, the run ends everywhere at its
// deadline at the latest, and after Disconnect and Connect the next one works.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ec_offload/graph/memory_run.h"
#include "ec_offload/schemes/ppr.h"
#include "gmock/gmock.h"
#include "tests/ec_offload/run/graph_cluster.h"
#include "tests/ec_offload/run/refusing_calculator.h"
#include "tests/support/random_bytes.h"
#include "tests/support/status_matchers.h"

namespace ring::ec_offload {
namespace {

using rdma::LinkKind;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::StatusIs;

constexpr ChunkId kLost = 0;
constexpr NodeId kLeaf = 3;  // sends to kInner, which sends to the agent, node 5
constexpr NodeId kInner = 2;
constexpr NodeId kUpper = 1;  // sends to the agent, and waits for nobody

// PPR(3,2) repairs chunk 0 at the agent: 1 and 2 send to it, 3 sends to 2.
class RunFaults : public ::testing::TestWithParam<std::tuple<LinkKind, InecWay>> {
 protected:
  void Open(bool faulty = false) {
    auto scheme = *MakePprScheme({.k = 3, .m = 2});
    graph_ = std::make_unique<Graph>(*scheme->Decode(200, {kLost}));
    for (std::size_t i = 0; i < graph_->vertices().size(); ++i) {
      if (graph_->vertices()[i].node == kInner) inner_vertex_ = i;
      if (graph_->vertices()[i].node == kLeaf) leaf_vertex_ = i;
    }
    GraphClusterOptions options;
    options.link = std::get<0>(GetParam());
    options.thresholds = InecThresholds::Always(std::get<1>(GetParam()));
    options.faulty = faulty;
    options.replace_calculator = [this](std::size_t vertex,
                                        std::unique_ptr<rdma::Calculator> calculator) {
      if (vertex != inner_vertex_) return calculator;
      return std::unique_ptr<rdma::Calculator>(
          std::make_unique<RefusingCalculator>(std::move(calculator), &refuses_));
    };
    cluster_ = std::make_unique<GraphCluster>(options);
    cluster_->Load(*graph_);
  }
  std::string InnerName() const {
    return VertexName(inner_vertex_, graph_->vertices()[inner_vertex_]);
  }
  std::string LeafName() const {
    return VertexName(leaf_vertex_, graph_->vertices()[leaf_vertex_]);
  }
  absl::Status StatusAt(NodeId node) { return cluster_->run(node).status(); }
  bool IsOver(NodeId node) { return cluster_->run(node).done(); }

  StripeMemory RandomSources() {
    StripeMemory memory;
    for (const ChunkPlace& place : graph_->sources())
      memory[place] = testing::RandomBytes(random_, graph_->chunk_size());
    return memory;
  }
  void ExpectNextOneWorks() {
    cluster_->Reconnect();
    StripeMemory memory = RandomSources();
    StripeMemory expected = memory;
    ASSERT_OK(RunInMemory(*graph_, expected));
    ASSERT_OK(cluster_->Run(memory));
    EXPECT_EQ(memory, expected);
  }

  SeededRandom random_{5};
  std::atomic<bool> refuses_{false};
  std::unique_ptr<Graph> graph_;
  std::size_t inner_vertex_ = 0;
  std::size_t leaf_vertex_ = 0;
  std::unique_ptr<GraphCluster> cluster_;
};

TEST_P(RunFaults, ACalculatorThatRefusesIsNamedByItsVertex) {
  Open();
  refuses_ = true;
  StripeMemory memory = RandomSources();
  EXPECT_FALSE(cluster_->Run(memory, [this] { return IsOver(kInner); }).ok());
  EXPECT_THAT(StatusAt(kInner), StatusIs(absl::StatusCode::kFailedPrecondition,
                                         AllOf(HasSubstr(InnerName()), HasSubstr("calculation"))));
  EXPECT_FALSE(StatusAt(5).ok()) << "who waits for it hears of it";
  refuses_ = false;
  ExpectNextOneWorks();
}

TEST_P(RunFaults, APeerThatVanishesEndsTheRunOfThoseWhoWaitForIt) {
  Open();
  cluster_->Fill(RandomSources());
  ASSERT_OK(cluster_->Prepare());
  cluster_->Kill(kLeaf);
  cluster_->Start();
  EXPECT_FALSE(cluster_->Finish([this] { return IsOver(kInner); }).ok());
  EXPECT_THAT(StatusAt(kInner).message(), AllOf(HasSubstr(InnerName()), HasSubstr("receive")));
  ExpectNextOneWorks();
}

TEST_P(RunFaults, APeerThatVanishesIsNamedByWhoSendsToIt) {
  Open();
  cluster_->Fill(RandomSources());
  ASSERT_OK(cluster_->Prepare());
  cluster_->Kill(kInner);
  cluster_->Start();
  EXPECT_FALSE(cluster_->Finish([this] { return IsOver(kLeaf); }).ok());
  // It may be seen before anything is sent, or afterwards.
  EXPECT_THAT(StatusAt(kLeaf).message(), AllOf(HasSubstr(LeafName()), HasSubstr("send")));
  ExpectNextOneWorks();
}

TEST_P(RunFaults, ARunInWhichSomebodyNeverStartsEndsAtItsDeadline) {
  Open();
  cluster_->Fill(RandomSources());
  ASSERT_OK(cluster_->Prepare());
  for (auto& [node, run] : cluster_->runs()) {
    if (node != kLeaf) {
      EXPECT_OK(run->Start());
    }
  }
  EXPECT_THAT(cluster_->Finish([this] { return IsOver(kUpper); }),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(StatusAt(kLeaf), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                        HasSubstr("node 3: deadline exceeded before")));
  EXPECT_FALSE(StatusAt(kInner).ok());
  ExpectNextOneWorks();
}

TEST_P(RunFaults, ASendThatFailsIsToldWithItsTarget) {
  Open(/*faulty=*/true);
  ASSERT_OK(cluster_->faulty(kLeaf)->Inject({.kind = rdma::DeviceFaultKind::kFail,
                                             .count = 1,
                                             .status = rdma::WcStatus::kRetryExceeded}));
  StripeMemory memory = RandomSources();
  EXPECT_FALSE(cluster_->Run(memory, [this] { return IsOver(kLeaf); }).ok());
  // What fails first on the device may be the calculation.
  EXPECT_THAT(StatusAt(kLeaf).message(), HasSubstr(LeafName()));
  EXPECT_FALSE(StatusAt(kInner).ok());
  ExpectNextOneWorks();
}

TEST_P(RunFaults, ACompletionThatNeverComesEndsTheRunAtItsDeadline) {
  Open(/*faulty=*/true);
  ASSERT_OK(cluster_->faulty(kInner)->Inject(
      {.kind = rdma::DeviceFaultKind::kLate, .count = 1000, .delay_us = 10'000'000}));
  StripeMemory memory = RandomSources();
  EXPECT_FALSE(cluster_->Run(memory, [this] { return IsOver(kUpper) && IsOver(kLeaf); }).ok());
  EXPECT_THAT(StatusAt(kInner),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr(InnerName())));
}

TEST_P(RunFaults, WhatIsLeftOfAFailedRunGoesWithItsNodes) {
  Open();
  cluster_->Fill(RandomSources());
  ASSERT_OK(cluster_->Prepare());
  cluster_.reset();
}

TEST_P(RunFaults, APeerThatVanishedBetweenRunsIsNamedBeforeTheNextOne) {
  Open();
  StripeMemory memory = RandomSources();
  ASSERT_OK(cluster_->Run(memory));
  cluster_->Kill(kLeaf);
  ASSERT_TRUE(cluster_->RunUntil([&] { return !cluster_->run(kInner).connected(); }));
  EXPECT_THAT(cluster_->run(kInner).Prepare(~std::uint64_t{0}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("node 2 is not connected"), HasSubstr(" 3 "))));
  ExpectNextOneWorks();
}

TEST_P(RunFaults, ARunWithoutConnectionsNamesThePeer) {
  Open();
  cluster_->run(kLeaf).Disconnect();
  EXPECT_THAT(cluster_->run(kLeaf).Prepare(~std::uint64_t{0}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("node 3 is not connected"), HasSubstr(" 2 "))));
  EXPECT_THAT(cluster_->run(kLeaf).Connect({}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("give its address")));
}

std::string NameOf(const ::testing::TestParamInfo<RunFaults::ParamType>& info) {
  const auto& [link, way] = info.param;
  return absl::StrCat(rdma::LinkKindName(link),
                      way == InecWay::kCoherent ? "Coherent" : "Incoherent");
}

INSTANTIATE_TEST_SUITE_P(
    Links, RunFaults,
    ::testing::Combine(::testing::ValuesIn(rdma::WithVerbs(
                           {LinkKind::kLocal, LinkKind::kShm, LinkKind::kTcp,
                            LinkKind::kEngineLocal, LinkKind::kEngineShm, LinkKind::kEngineTcp},
                           {LinkKind::kVerbs})),
                       ::testing::Values(InecWay::kCoherent, InecWay::kIncoherent)),
    NameOf);

}  // namespace
}  // namespace ring::ec_offload
