// A graph whose nodes are threads with NICs of their own gives the same bytes, run after run.
#include "ec_offload/graph/threaded_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ec_offload/graph/memory_run.h"
#include "gmock/gmock.h"
#include "tests/ec_offload/run/refusing_calculator.h"
#include "tests/ec_offload/schemes/all_schemes.h"
#include "tests/support/random_bytes.h"
#include "tests/support/status_matchers.h"

namespace ring::ec_offload {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

constexpr std::uint64_t kTimeoutNs = 20'000'000'000;

InecThresholds WayOf(bool coherent) {
  return InecThresholds::Always(coherent ? InecWay::kCoherent : InecWay::kIncoherent);
}

void ExpectRight(ThreadedRun& run, const Graph& graph, SeededRandom& random) {
  StripeMemory memory;
  for (const ChunkPlace& place : graph.sources()) {
    memory[place] = testing::RandomBytes(random, graph.chunk_size());
    std::copy(memory[place].begin(), memory[place].end(), run.chunk(place).begin());
  }
  ASSERT_OK(RunInMemory(graph, memory));
  ASSERT_OK(run.Run(kTimeoutNs).status());
  for (const ChunkPlace& place : graph.results()) {
    const absl::Span<const std::byte> chunk = run.chunk(place);
    ASSERT_TRUE(std::equal(chunk.begin(), chunk.end(), memory[place].begin()))
        << "chunk " << place.chunk << " at node " << place.node;
  }
}

class OnThreads : public ::testing::TestWithParam<std::tuple<MdsScheme, GraphLink, bool>> {};

TEST_P(OnThreads, ManyRunsOfOneSetUpGiveWhatMemoryGives) {
  const auto& [kind, link, coherent] = GetParam();
  ASSERT_OK_AND_ASSIGN(const auto scheme,
                       MakeMdsScheme(kind, {.k = 3, .m = 2}, /*slice_size=*/300));
  ASSERT_OK_AND_ASSIGN(const Graph encode, scheme->Encode(1000));
  ASSERT_OK_AND_ASSIGN(const Graph decode, scheme->Decode(1000, {0, 4}));
  SeededRandom random(9);
  for (const Graph& graph : {encode, decode}) {
    ASSERT_OK_AND_ASSIGN(const auto run,
                         ThreadedRun::Create(graph, {.link = link, .thresholds = WayOf(coherent)}));
    for (int i = 0; i < 20; ++i) ExpectRight(*run, graph, random);
    if (coherent) {
      EXPECT_EQ(run->counters().interventions, 20 * run->node_count());
    }
  }
}

std::string NameOf(const ::testing::TestParamInfo<OnThreads::ParamType>& info) {
  constexpr const char* kSchemes[] = {"Rs", "Ppr", "EcPipe", "EcPipeCyclic", "TriEc"};
  constexpr const char* kLinks[] = {"Local", "Shm", "Tcp"};
  const auto& [kind, link, coherent] = info.param;
  return absl::StrCat(kSchemes[static_cast<int>(kind)], kLinks[static_cast<int>(link)],
                      coherent ? "Coherent" : "Incoherent");
}

INSTANTIATE_TEST_SUITE_P(Schemes, OnThreads,
                         ::testing::Combine(::testing::ValuesIn(kMdsSchemes),
                                            ::testing::Values(GraphLink::kLocal, GraphLink::kShm,
                                                              GraphLink::kTcp),
                                            ::testing::Bool()),
                         NameOf);

TEST(ThreadedRun, HostsThatDoOtherWorkGiveTheSame) {
  ASSERT_OK_AND_ASSIGN(const auto scheme, MakeMdsScheme(MdsScheme::kTriEc, {.k = 3, .m = 2}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, scheme->Encode(5000));
  SeededRandom random(10);
  for (const bool coherent : {true, false}) {
    ASSERT_OK_AND_ASSIGN(const auto run, ThreadedRun::Create(graph, {.thresholds = WayOf(coherent),
                                                                     .busy_slice_ns = 20'000}));
    for (int i = 0; i < 5; ++i) ExpectRight(*run, graph, random);
    EXPECT_GT(run->counters().busy_slices, 0u);
  }
}

// By chunk size: a slice below the threshold goes the other way than one above.
TEST(ThreadedRun, BothWaysInOneGraphGiveTheSame) {
  ASSERT_OK_AND_ASSIGN(const auto scheme,
                       MakeMdsScheme(MdsScheme::kEcPipe, {.k = 3, .m = 2}, /*slice_size=*/700));
  ASSERT_OK_AND_ASSIGN(const Graph graph, scheme->Decode(1000, {1}));
  InecThresholds thresholds;
  for (auto& rows : thresholds.rows) rows = {{500, InecWay::kIncoherent}};
  ASSERT_OK_AND_ASSIGN(const auto run, ThreadedRun::Create(graph, {.thresholds = thresholds}));
  SeededRandom random(11);
  for (int i = 0; i < 10; ++i) ExpectRight(*run, graph, random);
}

TEST(ThreadedRun, ARunThatFailsTellsTheCauseAndTheNextOneWorksAfterReconnect) {
  ASSERT_OK_AND_ASSIGN(const auto scheme, MakeMdsScheme(MdsScheme::kTriEc, {.k = 3, .m = 2}));
  ASSERT_OK_AND_ASSIGN(const Graph graph, scheme->Encode(100));
  std::atomic<bool> refuses{true};
  ASSERT_OK_AND_ASSIGN(
      const auto run,
      ThreadedRun::Create(
          graph,
          {.thresholds = WayOf(true), .replace_calculator = [&](std::size_t, auto calculator) {
             return std::unique_ptr<rdma::Calculator>(
                 std::make_unique<RefusingCalculator>(std::move(calculator), &refuses));
           }}));
  EXPECT_THAT(run->Run(kTimeoutNs).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("calculation")));
  EXPECT_FALSE(run->Run(kTimeoutNs).ok()) << "without new connections";
  refuses = false;
  ASSERT_OK(run->Reconnect());
  SeededRandom random(12);
  ExpectRight(*run, graph, random);
}

}  // namespace
}  // namespace ring::ec_offload
