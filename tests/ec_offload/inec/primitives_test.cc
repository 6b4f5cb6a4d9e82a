// The three primitives, on every link, each way: what arrives is what the scalar oracle says, and
// the host is needed as often as the way promises.
#include "ec_offload/inec/primitives.h"

#include <gtest/gtest.h>

#include <array>
#include <tuple>
#include <vector>

#include "ec_offload/block_calculator.h"
#include "ec_offload/coding_matrix.h"
#include "ec_offload/matrix_calculator.h"
#include "tests/ec_offload/inec/inec_cluster.h"
#include "tests/ec_offload/random_blocks.h"
#include "tests/support/random_bytes.h"
#include "tests/support/status_matchers.h"

namespace ring::ec_offload {
namespace {

using rdma::LinkKind;
using rdma::Sge;

enum class Mode { kCoherent, kIncoherent, kIncoherentOnHost };

InecClusterOptions OptionsOf(LinkKind link, Mode mode) {
  InecClusterOptions options;
  options.link = link;
  options.thresholds =
      InecThresholds::Always(mode == Mode::kCoherent ? InecWay::kCoherent : InecWay::kIncoherent);
  options.calculate_on_host = mode == Mode::kIncoherentOnHost;
  return options;
}

class Primitives : public ::testing::TestWithParam<std::tuple<LinkKind, Mode>> {
 protected:
  static constexpr std::size_t kLength = 1000;

  LinkKind link() const { return std::get<0>(GetParam()); }
  Mode mode() const { return std::get<1>(GetParam()); }
  void Open(std::size_t node_count) {
    cluster_ = std::make_unique<InecCluster>(node_count, OptionsOf(link(), mode()));
  }
  void Fill(const Sge& sge) {
    const std::vector<std::byte> bytes = testing::RandomBytes(random_, sge.length);
    std::memcpy(sge.address, bytes.data(), sge.length);
  }
  static std::vector<std::byte> BytesOf(const Sge& sge) {
    return std::vector<std::byte>(sge.address, sge.address + sge.length);
  }
  // What the matrix makes of the blocks, by the oracle.
  static Blocks Expected(const Matrix& matrix, const Blocks& inputs) {
    auto oracle = ScalarMatrixCalculator::Create(matrix);
    Blocks outputs(matrix.rows(), std::vector<std::byte>(inputs[0].size()));
    EXPECT_TRUE(
        (*oracle)->Run(Inputs(inputs).data(), Outputs(outputs).data(), inputs[0].size(), nullptr));
    return outputs;
  }
  void ExpectOutcomes(std::size_t node, std::size_t count) {
    ASSERT_TRUE(cluster_->RunUntilOutcomes(node, count));
    for (const InecOutcome& outcome : cluster_->node(node).outcomes) {
      EXPECT_OK(outcome.status);
      EXPECT_EQ(outcome.step, InecStep::kNone);
      EXPECT_EQ(outcome.unfinished, 0u);
    }
    EXPECT_EQ(cluster_->node(node).outcomes.size(), count);
  }

  SeededRandom random_{71};
  std::unique_ptr<InecCluster> cluster_;
};

class OverEngines : public Primitives {};

TEST_P(Primitives, EcSendEncodesAndSendsDataAndParities) {
  constexpr std::size_t kData = 3;
  constexpr std::size_t kParities = 2;
  Open(1 + kData + kParities);
  const Matrix matrix = *CauchyCoding(Field::kGf256, kData, kParities);
  const auto calculator = *MakeBlockCalculator(8, matrix);
  InecNode& agent = cluster_->node(0);
  std::vector<Sge> inputs, outputs, arrivals;
  InecSends sends;
  Blocks blocks;
  for (std::size_t i = 0; i < kData; ++i) {
    inputs.push_back(agent.Chunk(kLength));
    Fill(inputs[i]);
    blocks.push_back(BytesOf(inputs[i]));
  }
  for (std::size_t j = 0; j < kParities; ++j) outputs.push_back(agent.Chunk(kLength));
  for (std::size_t i = 0; i < kData + kParities; ++i) {
    const std::size_t edge = cluster_->Connect(0, 1 + i);
    arrivals.push_back(cluster_->node(1 + i).Chunk(kLength));
    cluster_->PostReceive(edge, arrivals[i]);
    sends.Add(cluster_->edge(edge).out.get(), i < kData ? inputs[i] : outputs[i - kData],
              /*after_calculation=*/i >= kData);
  }
  ASSERT_OK(agent.inec().EcSend(7, {calculator.get()}, {inputs, outputs}, sends.stripe()));
  ExpectOutcomes(0, 1);
  EXPECT_EQ(agent.outcomes[0].id, 7u);
  EXPECT_EQ(agent.outcomes[0].primitive, InecPrimitive::kEcSend);
  for (std::size_t i = 0; i < kData + kParities; ++i)
    ASSERT_TRUE(cluster_->RunUntil([&] { return cluster_->Received(i) == 1; })) << i;
  const Blocks parities = Expected(matrix, blocks);
  for (std::size_t i = 0; i < kData; ++i) EXPECT_EQ(BytesOf(arrivals[i]), blocks[i]) << i;
  for (std::size_t j = 0; j < kParities; ++j)
    EXPECT_EQ(BytesOf(arrivals[kData + j]), parities[j]) << j;
  EXPECT_EQ(agent.inec().counters().interventions(), mode() == Mode::kIncoherent ? 2u : 1u);
}

TEST_P(Primitives, RecvEcSendCalculatesOnWhatArrivesAndSendsOn) {
  Open(5);
  InecNode& middle = cluster_->node(2);
  const Matrix matrix = {{1, 29, 77}, {3, 1, 131}};
  const auto calculator = *MakeBlockCalculator(8, matrix);
  const std::size_t from0 = cluster_->Connect(0, 2);
  const std::size_t from1 = cluster_->Connect(1, 2);
  const std::size_t to3 = cluster_->Connect(2, 3);
  const std::size_t to4 = cluster_->Connect(2, 4);
  constexpr std::size_t kRounds = 5;
  Blocks expected[2];
  std::vector<Sge> at3, at4;
  std::vector<std::array<Sge, 2>> upstream;
  for (std::size_t round = 0; round < kRounds; ++round) {
    const std::array<Sge, 3> inputs = {middle.Chunk(kLength), middle.Chunk(kLength),
                                       middle.Chunk(kLength)};
    const std::array<Sge, 2> outputs = {middle.Chunk(kLength), middle.Chunk(kLength)};
    upstream.push_back({cluster_->node(0).Chunk(kLength), cluster_->node(1).Chunk(kLength)});
    Fill(inputs[0]);
    Fill(upstream[round][0]);
    Fill(upstream[round][1]);
    const Blocks made = Expected(
        matrix, {BytesOf(inputs[0]), BytesOf(upstream[round][0]), BytesOf(upstream[round][1])});
    expected[0].push_back(made[0]);
    expected[1].push_back(made[1]);
    cluster_->PostReceive(from0, inputs[1]);
    cluster_->PostReceive(from1, inputs[2]);
    at3.push_back(cluster_->node(3).Chunk(kLength));
    at4.push_back(cluster_->node(4).Chunk(kLength));
    cluster_->PostReceive(to3, at3[round]);
    InecSends sends;
    sends.Add(cluster_->edge(to3).out.get(), outputs[0]);
    sends.AddWrite(cluster_->edge(to4).out.get(), outputs[1],
                   cluster_->node(4).AddressOf(at4[round]), cluster_->node(4).rkey(), 1);
    cluster_->PostReceive(to4, {});
    const InecReceive receives[] = {{cluster_->edge(from0).recv_cq, 1},
                                    {cluster_->edge(from1).recv_cq, 1}};
    // Half of what is sent comes before the operation that it is for, half behind it.
    const auto send_all = [&](std::size_t from, std::size_t to) {
      for (std::size_t i = from; i < to; ++i) {
        cluster_->Send(from0, upstream[i][0]);
        cluster_->Send(from1, upstream[i][1]);
      }
    };
    if (round == 1) send_all(0, 2);
    if (round == 1) {
      for (int i = 0; i < 20; ++i) cluster_->Turn();
    }
    ASSERT_OK(middle.inec().RecvEcSend(round, {receives}, {calculator.get()}, {inputs, outputs},
                                       sends.stripe()));
    if (round + 1 == kRounds) send_all(2, kRounds);
  }
  ExpectOutcomes(2, kRounds);
  ASSERT_TRUE(cluster_->RunUntil([&] { return cluster_->Received(to3) == kRounds; }));
  ASSERT_TRUE(cluster_->RunUntil([&] { return cluster_->Received(to4) == kRounds; }));
  for (std::size_t round = 0; round < kRounds; ++round) {
    EXPECT_EQ(middle.outcomes[round].id, round);
    EXPECT_EQ(BytesOf(at3[round]), expected[0][round]) << round;
    EXPECT_EQ(BytesOf(at4[round]), expected[1][round]) << round;
  }
}

TEST_P(Primitives, RecvEcXorsWhatTwoQueuesBring) {
  Open(4);
  InecNode& root = cluster_->node(0);
  const auto calculator = *MakeXorCalculator(3);
  const std::size_t first = cluster_->Connect(1, 0);
  const std::size_t second = cluster_->Connect(2, 0, cluster_->edge(first).recv_cq);
  const std::size_t third = cluster_->Connect(3, 0);
  std::vector<Sge> inputs;
  std::vector<Sge> chunks;
  for (std::size_t i = 0; i < 3; ++i) {
    inputs.push_back(root.Chunk(kLength));
    chunks.push_back(cluster_->node(1 + i).Chunk(kLength));
    Fill(chunks[i]);
  }
  const Sge output = root.Chunk(kLength);
  cluster_->PostReceive(first, inputs[0]);
  cluster_->PostReceive(second, inputs[1]);
  cluster_->PostReceive(third, inputs[2]);
  const InecReceive receives[] = {{cluster_->edge(first).recv_cq, 2},
                                  {cluster_->edge(third).recv_cq, 1}};
  ASSERT_OK(root.inec().RecvEc(1, {receives}, {calculator.get()},
                               {inputs, absl::MakeConstSpan(&output, 1)}));
  cluster_->Send(second, chunks[1]);
  cluster_->Send(third, chunks[2]);
  for (int i = 0; i < 50; ++i) cluster_->Turn();
  EXPECT_TRUE(root.outcomes.empty());
  cluster_->Send(first, chunks[0]);
  ExpectOutcomes(0, 1);
  EXPECT_EQ(BytesOf(output),
            Expected({{1, 1, 1}}, {BytesOf(chunks[0]), BytesOf(chunks[1]), BytesOf(chunks[2])})[0]);
  EXPECT_EQ(root.inec().counters().interventions(), mode() == Mode::kCoherent ? 1u : 2u);
}

TEST_P(Primitives, WithoutACalculatorSendsFollowReceives) {
  Open(4);
  InecNode& relay = cluster_->node(1);
  const std::size_t in = cluster_->Connect(0, 1);
  const std::size_t out[] = {cluster_->Connect(1, 2), cluster_->Connect(1, 3)};
  const Sge source = cluster_->node(0).Chunk(kLength);
  const Sge passed = relay.Chunk(kLength);
  const Sge at[] = {cluster_->node(2).Chunk(kLength), cluster_->node(3).Chunk(kLength)};
  Fill(source);
  cluster_->PostReceive(in, passed);
  InecSends sends;
  for (std::size_t i = 0; i < 2; ++i) {
    cluster_->PostReceive(out[i], at[i]);
    sends.Add(cluster_->edge(out[i]).out.get(), passed);
  }
  const InecReceive receive{cluster_->edge(in).recv_cq, 1};
  ASSERT_OK(relay.inec().RecvEcSend(1, {absl::MakeConstSpan(&receive, 1)}, {},
                                    {absl::MakeConstSpan(&passed, 1), {}}, sends.stripe()));
  for (int i = 0; i < 50; ++i) cluster_->Turn();
  EXPECT_TRUE(relay.outcomes.empty());
  InecSends first;
  first.Add(cluster_->edge(in).out.get(), source);
  ASSERT_OK(cluster_->node(0).inec().EcSend(2, {}, {absl::MakeConstSpan(&source, 1), {}},
                                            first.stripe()));
  ExpectOutcomes(1, 1);
  ExpectOutcomes(0, 1);
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(cluster_->RunUntil([&] { return cluster_->Received(out[i]) == 1; }));
    EXPECT_EQ(BytesOf(at[i]), BytesOf(source));
  }
  // An output of nothing is refused.
  EXPECT_TRUE(absl::IsInvalidArgument(
      relay.inec().RecvEc(3, {absl::MakeConstSpan(&receive, 1)}, {},
                          {absl::MakeConstSpan(&passed, 1), absl::MakeConstSpan(&passed, 1)})));
}

// TriEC's shape in one place: several operations under way, whose channels are not the same.
TEST_P(Primitives, OperationsUnderWayKeepTheirChannelsApart) {
  Open(4);
  InecNode& agent = cluster_->node(0);
  const Matrix matrix = {{7}};
  const auto calculator = *MakeBlockCalculator(8, matrix);
  const std::size_t source = cluster_->Connect(3, 0);
  const std::size_t edges[] = {cluster_->Connect(0, 1), cluster_->Connect(0, 2)};
  constexpr std::size_t kCount = 12;
  std::vector<Sge> chunks, outputs, arrivals;
  for (std::size_t i = 0; i < kCount; ++i) {
    const Sge input = agent.Chunk(kLength);
    outputs.push_back(agent.Chunk(kLength));
    chunks.push_back(cluster_->node(3).Chunk(kLength));
    Fill(chunks[i]);
    cluster_->PostReceive(source, input);
    // One, the other, or both.
    InecSends sends;
    for (std::size_t e = 0; e < 2; ++e) {
      if (i % 3 == e) continue;
      arrivals.push_back(cluster_->node(1 + e).Chunk(kLength));
      cluster_->PostReceive(edges[e], arrivals.back());
      sends.Add(cluster_->edge(edges[e]).out.get(), outputs[i]);
    }
    const InecReceive receive{cluster_->edge(source).recv_cq, 1};
    ASSERT_OK(agent.inec().RecvEcSend(
        i, {absl::MakeConstSpan(&receive, 1)}, {calculator.get()},
        {absl::MakeConstSpan(&input, 1), absl::MakeConstSpan(&outputs[i], 1)}, sends.stripe()));
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    cluster_->Send(source, chunks[i]);
    ASSERT_NO_FATAL_FAILURE(ExpectOutcomes(0, i + 1));
    EXPECT_EQ(agent.outcomes[i].id, i);
  }
  std::size_t arrival = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::vector<std::byte> expected = Expected(matrix, {BytesOf(chunks[i])})[0];
    for (std::size_t e = 0; e < 2; ++e) {
      if (i % 3 != e) {
        EXPECT_EQ(BytesOf(arrivals[arrival++]), expected) << "operation " << i << " edge " << e;
      }
    }
  }
}

// With a NIC that has a thread of its own: from the submission on nobody but the device works at
// the middle node, until everything has arrived where it should. Incoherent, nothing does before
// the host is back.
TEST_P(OverEngines, CoherentNeedsNoHostBehindTheSubmission) {
  Open(5);
  InecNode& middle = cluster_->node(0);
  const auto calculator = *MakeXorCalculator(2);
  const std::size_t source = cluster_->Connect(1, 0);
  constexpr std::size_t kTargets = 3;
  std::array<std::size_t, kTargets> targets;
  std::array<Sge, kTargets> arrivals;
  InecSends sends;
  const Sge inputs[] = {middle.Chunk(kLength), middle.Chunk(kLength)};
  const Sge output = middle.Chunk(kLength);
  Fill(inputs[0]);
  const Sge chunk = cluster_->node(1).Chunk(kLength);
  Fill(chunk);
  cluster_->PostReceive(source, inputs[1]);
  for (std::size_t i = 0; i < kTargets; ++i) {
    targets[i] = cluster_->Connect(0, 2 + i);
    arrivals[i] = cluster_->node(2 + i).Chunk(kLength);
    cluster_->PostReceive(targets[i], arrivals[i]);
    sends.Add(cluster_->edge(targets[i]).out.get(), output);
  }
  const InecReceive receive{cluster_->edge(source).recv_cq, 1};
  ASSERT_OK(middle.inec().RecvEcSend(1, {absl::MakeConstSpan(&receive, 1)}, {calculator.get()},
                                     {inputs, absl::MakeConstSpan(&output, 1)}, sends.stripe()));
  middle.runs = false;
  cluster_->Send(source, chunk);
  const auto all_arrived = [&] {
    bool all = true;
    for (const std::size_t target : targets) all = cluster_->Received(target) == 1 && all;
    return all;
  };
  if (mode() == Mode::kCoherent) {
    ASSERT_TRUE(cluster_->RunUntil(all_arrived));
    EXPECT_EQ(middle.inec().counters().polls, 0u);
  } else {
    for (int i = 0; i < 1000; ++i) cluster_->Turn();
    EXPECT_FALSE(all_arrived());
  }
  middle.runs = true;
  ExpectOutcomes(0, 1);
  ASSERT_TRUE(cluster_->RunUntil(all_arrived));
  const Blocks expected = Expected({{1, 1}}, {BytesOf(inputs[0]), BytesOf(chunk)});
  for (const Sge& arrival : arrivals) EXPECT_EQ(BytesOf(arrival), expected[0]);
  EXPECT_EQ(middle.inec().counters().interventions(), mode() == Mode::kCoherent ? 1u : 3u);
}

std::string NameOf(const ::testing::TestParamInfo<std::tuple<LinkKind, Mode>>& parameter) {
  static constexpr std::array<const char*, 3> kModes = {"Coherent", "Incoherent",
                                                        "IncoherentOnHost"};
  return rdma::LinkKindName(std::get<0>(parameter.param)) +
         kModes[static_cast<std::size_t>(std::get<1>(parameter.param))];
}

INSTANTIATE_TEST_SUITE_P(
    Links, Primitives,
    ::testing::Combine(
        ::testing::ValuesIn(rdma::WithVerbs(
            {LinkKind::kLocal, LinkKind::kShm, LinkKind::kTcp, LinkKind::kTcpUring, LinkKind::kSim,
             LinkKind::kEngineLocal, LinkKind::kEngineShm, LinkKind::kEngineTcp},
            {LinkKind::kVerbs})),
        ::testing::Values(Mode::kCoherent, Mode::kIncoherent, Mode::kIncoherentOnHost)),
    NameOf);

INSTANTIATE_TEST_SUITE_P(Links, OverEngines,
                         ::testing::Combine(::testing::Values(LinkKind::kEngineLocal,
                                                              LinkKind::kEngineShm,
                                                              LinkKind::kEngineTcp),
                                            ::testing::Values(Mode::kCoherent, Mode::kIncoherent)),
                         NameOf);

}  // namespace
}  // namespace ring::ec_offload
