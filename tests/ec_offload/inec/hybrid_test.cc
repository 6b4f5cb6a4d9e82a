// Which way an operation goes, and what it costs the host's thread.
#include "ec_offload/inec/hybrid.h"

#include <gtest/gtest.h>

#include <vector>

#include "ec_offload/block_calculator.h"
#include "ec_offload/inec/primitives.h"
#include "tests/ec_offload/fake_fabric.h"
#include "tests/ec_offload/inec/inec_cluster.h"
#include "tests/support/status_matchers.h"

namespace ring::ec_offload {
namespace {

using rdma::Sge;
using testing::StatusIs;

TEST(InecHybrid, TheFirstRowThatFitsDecidesAndElseItIsCoherent) {
  InecThresholds thresholds;
  thresholds.rows[0] = {
      {512, InecWay::kIncoherent}, {4096, InecWay::kCoherent}, {1 << 20, InecWay::kIncoherent}};
  EXPECT_EQ(ChooseWay(thresholds, InecPrimitive::kEcSend, 512), InecWay::kIncoherent);
  EXPECT_EQ(ChooseWay(thresholds, InecPrimitive::kEcSend, 513), InecWay::kCoherent);
  EXPECT_EQ(ChooseWay(thresholds, InecPrimitive::kEcSend, 4097), InecWay::kIncoherent);
  EXPECT_EQ(ChooseWay(thresholds, InecPrimitive::kEcSend, 2 << 20), InecWay::kCoherent);
  EXPECT_EQ(ChooseWay(thresholds, InecPrimitive::kRecvEc, 1), InecWay::kCoherent);
}

TEST(InecHybrid, RowsThatDoNotAscendAreRefused) {
  InecThresholds thresholds;
  thresholds.rows[1] = {{4096, InecWay::kCoherent}, {4096, InecWay::kIncoherent}};
  EXPECT_THAT(CheckThresholds(thresholds), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_OK(CheckThresholds(InecThresholds::Always(InecWay::kCoherent)));
}

TEST(InecHybrid, CoherentOnADeviceWithoutCalcIsRefusedNotReplaced) {
  FakeDevice device(/*calc=*/false, /*calc_crc=*/false);
  InecPrimitives::Options options{.device = &device, .address = "local:none", .thresholds = {}};
  EXPECT_THAT(InecPrimitives::Create(options), StatusIs(absl::StatusCode::kFailedPrecondition));
}

// One node that encodes for `targets` others.
struct Encoder {
  explicit Encoder(const InecClusterOptions& options, std::size_t targets)
      : cluster(1 + targets, options), calculator(*MakeXorCalculator(2)) {
    for (std::size_t i = 0; i < targets; ++i) edges.push_back(cluster.Connect(0, 1 + i));
  }
  void Run(std::uint64_t id, std::size_t length) {
    InecNode& agent = cluster.node(0);
    const Sge inputs[] = {agent.Chunk(length), agent.Chunk(length)};
    const Sge output = agent.Chunk(length);
    InecSends sends;
    for (std::size_t i = 0; i < edges.size(); ++i) {
      cluster.PostReceive(edges[i], cluster.node(1 + i).Chunk(length));
      sends.Add(cluster.edge(edges[i]).out.get(), output);
    }
    ASSERT_OK(agent.inec().EcSend(id, {calculator.get()}, {inputs, absl::MakeConstSpan(&output, 1)},
                                  sends.stripe()));
  }
  InecCluster cluster;
  std::unique_ptr<rdma::Calculator> calculator;
  std::vector<std::size_t> edges;
};

TEST(InecHybrid, EachChunkSizeGoesItsWayAndAllInOrder) {
  InecClusterOptions options;
  options.thresholds = {};
  options.thresholds.rows[0] = {{1000, InecWay::kIncoherent}};
  Encoder encoder(options, 2);
  const std::size_t lengths[] = {500, 2000, 600, 700, 3000, 4000};
  for (std::size_t i = 0; i < std::size(lengths); ++i) encoder.Run(i, lengths[i]);
  ASSERT_TRUE(encoder.cluster.RunUntilOutcomes(0, std::size(lengths)));
  for (std::size_t i = 0; i < std::size(lengths); ++i) {
    const InecOutcome& outcome = encoder.cluster.node(0).outcomes[i];
    EXPECT_OK(outcome.status);
    EXPECT_EQ(outcome.id, i);
    EXPECT_EQ(outcome.way, lengths[i] <= 1000 ? InecWay::kIncoherent : InecWay::kCoherent);
  }
  EXPECT_GT(encoder.cluster.node(0).inec().counters().held, 0u);
}

TEST(InecCounters, CoherentIsOneInterventionWhateverTheTargetsAre) {
  for (const InecWay way : {InecWay::kCoherent, InecWay::kIncoherent}) {
    for (const std::size_t targets : {1u, 2u, 4u, 9u}) {
      InecClusterOptions options;
      options.thresholds = InecThresholds::Always(way);
      Encoder encoder(options, targets);
      constexpr std::size_t kOperations = 10;
      for (std::size_t i = 0; i < kOperations; ++i) {
        encoder.Run(i, 256);
        ASSERT_TRUE(encoder.cluster.RunUntilOutcomes(0, i + 1));
      }
      const InecCounters& counters = encoder.cluster.node(0).inec().counters();
      const std::size_t each = way == InecWay::kCoherent ? 1 : 2;
      EXPECT_EQ(counters.interventions(), each * kOperations) << "targets=" << targets;
      EXPECT_EQ(counters.posts, (1 + targets) * kOperations);
      EXPECT_EQ(counters.outcomes, kOperations);
    }
  }
}

TEST(InecDescriptors, WhatMakesNoSenseIsNotAccepted) {
  Encoder encoder(InecClusterOptions{}, 1);
  InecNode& agent = encoder.cluster.node(0);
  const Sge inputs[] = {agent.Chunk(64), agent.Chunk(64)};
  const Sge shorter[] = {inputs[0], {inputs[1].address, 32, inputs[1].lkey}};
  const Sge output = agent.Chunk(64);
  const absl::Span<const Sge> outputs = absl::MakeConstSpan(&output, 1);
  InecSends sends;
  sends.Add(encoder.cluster.edge(encoder.edges[0]).out.get(), output);
  const InecStripe stripe = sends.stripe();
  const InecCalc calc{encoder.calculator.get()};
  InecPrimitives& inec = agent.inec();
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(inec.EcSend(1, {}, {inputs, outputs}, stripe), StatusIs(kInvalid));
  EXPECT_THAT(inec.EcSend(1, calc, {absl::MakeConstSpan(inputs, 1), outputs}, stripe),
              StatusIs(kInvalid));
  EXPECT_THAT(inec.EcSend(1, calc, {shorter, outputs}, stripe), StatusIs(kInvalid));
  EXPECT_THAT(inec.EcSend(1, calc, {inputs, outputs}, {}), StatusIs(kInvalid));
  EXPECT_THAT(inec.RecvEc(1, {}, calc, {inputs, outputs}), StatusIs(kInvalid));
  rdma::WorkRequest read;
  read.opcode = rdma::Opcode::kRead;
  const InecChannel channel{encoder.cluster.edge(encoder.edges[0]).out.get(), &read};
  EXPECT_THAT(inec.EcSend(1, calc, {inputs, outputs}, {absl::MakeConstSpan(&channel, 1)}),
              StatusIs(kInvalid));
  EXPECT_EQ(inec.counters().submits, 0u);
}

TEST(InecPrimitives, MoreThanItsDepthIsNotAccepted) {
  InecClusterOptions options;
  options.depth = 2;
  Encoder encoder(options, 1);
  encoder.Run(1, 64);
  encoder.Run(2, 64);
  InecNode& agent = encoder.cluster.node(0);
  const Sge inputs[] = {agent.Chunk(64), agent.Chunk(64)};
  const Sge output = agent.Chunk(64);
  InecSends sends;
  sends.Add(encoder.cluster.edge(encoder.edges[0]).out.get(), output);
  EXPECT_THAT(agent.inec().EcSend(3, {encoder.calculator.get()},
                                  {inputs, absl::MakeConstSpan(&output, 1)}, sends.stripe()),
              StatusIs(absl::StatusCode::kResourceExhausted));
  ASSERT_TRUE(encoder.cluster.RunUntilOutcomes(0, 2));
  encoder.Run(3, 64);
  EXPECT_TRUE(encoder.cluster.RunUntilOutcomes(0, 3));
}

}  // namespace
}  // namespace ring::ec_offload
