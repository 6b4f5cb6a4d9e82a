// Every scheme's graphs over the fabric, each way, give what RunInMemory gives, byte for byte.
#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ec_offload/graph/memory_run.h"
#include "ec_offload/schemes/lrc.h"
#include "ec_offload/subsets.h"
#include "tests/ec_offload/run/graph_cluster.h"
#include "tests/ec_offload/schemes/all_schemes.h"
#include "tests/support/random_bytes.h"
#include "tests/support/random_seed.h"
#include "tests/support/status_matchers.h"

namespace ring::ec_offload {
namespace {

using rdma::LinkKind;

// Sets of losses that are too many are drawn by chance: so many of each size.
constexpr std::size_t kSampleMax = 40;

enum class Mode { kCoherent, kIncoherent, kOnHost };

struct Sizes {
  const char* name;
  MdsScheme scheme;  // unless l > 0: LRC
  std::size_t k;
  std::size_t m;
  std::size_t l;
  Field field;
  bool all;  // every set of losses
};

absl::StatusOr<std::unique_ptr<Scheme>> SchemeOf(const Sizes& sizes) {
  if (sizes.l > 0) return MakeLrcScheme({sizes.k, sizes.l, sizes.m, sizes.field});
  return MakeMdsScheme(sizes.scheme, {sizes.k, sizes.m, sizes.field, std::nullopt});
}

class OverTheFabric : public ::testing::TestWithParam<std::tuple<Sizes, LinkKind, Mode>> {
 protected:
  static constexpr std::size_t kChunkSize = 37;  // slices of 8, the last one shorter

  const Sizes& sizes() const { return std::get<0>(GetParam()); }

  void SetUp() override {
    const Mode mode = std::get<2>(GetParam());
    GraphClusterOptions options;
    options.link = std::get<1>(GetParam());
    options.thresholds =
        InecThresholds::Always(mode == Mode::kCoherent ? InecWay::kCoherent : InecWay::kIncoherent);
    options.calculate_on_host = mode == Mode::kOnHost;
    cluster_ = std::make_unique<GraphCluster>(options);
    ASSERT_OK_AND_ASSIGN(scheme_, SchemeOf(sizes()));
  }

  // Two runs, with other bytes each.
  void ExpectRight(const absl::StatusOr<Graph>& graph) {
    ASSERT_OK(graph.status());
    cluster_->Load(*graph);
    for (int run = 0; run < 2; ++run) {
      StripeMemory memory;
      for (const ChunkPlace& place : graph->sources())
        memory[place] = testing::RandomBytes(random_, graph->chunk_size());
      StripeMemory expected = memory;
      ASSERT_OK(RunInMemory(*graph, expected));
      ASSERT_OK(cluster_->Run(memory));
      ASSERT_EQ(memory, expected);
    }
    if (std::get<2>(GetParam()) != Mode::kCoherent) return;
    for (const auto& [node, run] : cluster_->runs())
      ASSERT_EQ(run->counters().interventions, 2u) << "of two runs at node " << node;
  }

  // Sets of 1 to `most` losses: all of them, or a sample of each size.
  template <class Check>
  void ForEachLoss(std::size_t most, const Check& check) {
    const std::size_t chunks = scheme_->code().chunk_count();
    for (std::size_t size = 1; size <= most; ++size) {
      if (sizes().all) {
        for (std::uint64_t lost = FirstSubset(size); lost < std::uint64_t{1} << chunks;
             lost = NextSubset(lost)) {
          check(lost);
          if (HasFatalFailure()) return;
        }
        continue;
      }
      for (std::size_t i = 0; i < kSampleMax; ++i) {
        std::uint64_t lost = 0;
        while (static_cast<std::size_t>(std::popcount(lost)) < size)
          lost |= std::uint64_t{1} << random_.Next64() % chunks;
        check(lost);
        if (HasFatalFailure()) return;
      }
    }
  }
  static std::vector<ChunkId> ChunksOf(std::uint64_t subset) {
    const std::vector<std::size_t> bits = BitsOf(subset);
    return {bits.begin(), bits.end()};
  }

  SeededRandom random_{testing::SeedFor("graphs over the fabric")};
  std::unique_ptr<GraphCluster> cluster_;
  std::unique_ptr<Scheme> scheme_;
};

TEST_P(OverTheFabric, EncodingGivesWhatMemoryGives) { ExpectRight(scheme_->Encode(kChunkSize)); }

TEST_P(OverTheFabric, DecodingGivesWhatMemoryGives) {
  ForEachLoss(sizes().m + sizes().l, [&](std::uint64_t lost) {
    const std::vector<ChunkId> erasures = ChunksOf(lost);
    const auto graph = scheme_->Decode(kChunkSize, erasures);
    if (sizes().l > 0 && absl::IsDataLoss(graph.status())) return;  // LRC is no MDS code
    SCOPED_TRACE(ChunkNames(erasures));
    ExpectRight(graph);
  });
}

TEST_P(OverTheFabric, DegradedReadsGiveWhatMemoryGives) {
  ForEachLoss(sizes().m + sizes().l, [&](std::uint64_t lost) {
    const std::vector<ChunkId> erasures = ChunksOf(lost);
    const auto graph =
        scheme_->DegradedRead(kChunkSize, erasures, erasures[lost % erasures.size()]);
    if (sizes().l > 0 && absl::IsDataLoss(graph.status())) return;
    SCOPED_TRACE(ChunkNames(erasures));
    ExpectRight(graph);
  });
}

std::string NameOf(const ::testing::TestParamInfo<OverTheFabric::ParamType>& info) {
  const auto& [sizes, link, mode] = info.param;
  constexpr const char* kModes[] = {"Coherent", "Incoherent", "OnHost"};
  return absl::StrCat(sizes.name, "_", sizes.k, "_", sizes.l > 0 ? absl::StrCat(sizes.l, "_") : "",
                      sizes.m, "_", rdma::LinkKindName(link), kModes[static_cast<int>(mode)]);
}

constexpr auto kSmall = {
    Sizes{"Rs", MdsScheme::kRs, 3, 2, 0, Field::kGf256, true},
    Sizes{"Ppr", MdsScheme::kPpr, 3, 2, 0, Field::kGf16, true},
    Sizes{"EcPipe", MdsScheme::kEcPipe, 3, 2, 0, Field::kGf256, true},
    Sizes{"EcPipeCyclic", MdsScheme::kEcPipeCyclic, 3, 2, 0, Field::kGf16, true},
    Sizes{"TriEc", MdsScheme::kTriEc, 3, 2, 0, Field::kGf256, true},
    Sizes{"Lrc", MdsScheme::kRs, 4, 2, 2, Field::kGf256, true},
};
constexpr auto kLarge = {
    Sizes{"Rs", MdsScheme::kRs, 6, 3, 0, Field::kGf16, true},
    Sizes{"Ppr", MdsScheme::kPpr, 6, 3, 0, Field::kGf256, true},
    Sizes{"EcPipe", MdsScheme::kEcPipe, 6, 3, 0, Field::kGf16, true},
    Sizes{"EcPipeCyclic", MdsScheme::kEcPipeCyclic, 6, 3, 0, Field::kGf256, true},
    Sizes{"TriEc", MdsScheme::kTriEc, 6, 3, 0, Field::kGf16, true},
    Sizes{"Rs", MdsScheme::kRs, 12, 4, 0, Field::kGf256, false},
    Sizes{"Ppr", MdsScheme::kPpr, 12, 4, 0, Field::kGf16, false},
    Sizes{"EcPipe", MdsScheme::kEcPipe, 12, 4, 0, Field::kGf256, false},
    Sizes{"EcPipeCyclic", MdsScheme::kEcPipeCyclic, 12, 4, 0, Field::kGf16, false},
    Sizes{"TriEc", MdsScheme::kTriEc, 12, 4, 0, Field::kGf256, false},
    Sizes{"Lrc", MdsScheme::kRs, 6, 2, 2, Field::kGf256, true},
    Sizes{"Lrc", MdsScheme::kRs, 12, 2, 2, Field::kGf256, false},
};

INSTANTIATE_TEST_SUITE_P(Small, OverTheFabric,
                         ::testing::Combine(::testing::ValuesIn(kSmall),
                                            ::testing::ValuesIn(rdma::WithVerbs(
                                                {LinkKind::kLocal, LinkKind::kShm, LinkKind::kTcp},
                                                {LinkKind::kVerbs})),
                                            ::testing::Values(Mode::kCoherent, Mode::kIncoherent)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(OnTheHost, OverTheFabric,
                         ::testing::Combine(::testing::ValuesIn(kSmall),
                                            ::testing::Values(LinkKind::kLocal),
                                            ::testing::Values(Mode::kOnHost)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Large, OverTheFabric,
                         ::testing::Combine(::testing::ValuesIn(kLarge),
                                            ::testing::Values(LinkKind::kLocal),
                                            ::testing::Values(Mode::kCoherent, Mode::kIncoherent)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(LargeOverLinks, OverTheFabric,
                         ::testing::Combine(::testing::Values(kLarge.begin()[8], kLarge.begin()[9],
                                                              kLarge.begin()[11]),
                                            ::testing::Values(LinkKind::kShm, LinkKind::kTcp),
                                            ::testing::Values(Mode::kCoherent, Mode::kIncoherent)),
                         NameOf);

}  // namespace
}  // namespace ring::ec_offload
