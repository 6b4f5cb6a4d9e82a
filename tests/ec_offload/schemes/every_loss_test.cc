// Every set of losses that a code repairs, by every scheme, against products of single bytes.

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/ec_offload/schemes/all_schemes.h"
#include "tests/ec_offload/schemes/stripe.h"
#include "tests/support/status_matchers.h"

namespace ring::ec_offload {
namespace {

using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

struct Sizes {
  std::size_t k = 0;
  std::size_t m = 0;
  std::size_t chunk_size = 0;  // in slices of 8 bytes, the last one shorter
};

class EveryLoss : public ::testing::TestWithParam<std::tuple<MdsScheme, Sizes, Field>> {
 protected:
  void SetUp() override {
    const auto& [kind, sizes, field] = GetParam();
    ASSERT_OK_AND_ASSIGN(scheme_, MakeMdsScheme(kind, {sizes.k, sizes.m, field, std::nullopt}));
    stripe_ = std::make_unique<Stripe>(scheme_->code(), sizes.chunk_size);
  }

  std::size_t m() const { return std::get<1>(GetParam()).m; }

  // Calls check with every set of `size` losses.
  template <class Check>
  void ForEachLoss(std::size_t size, const Check& check) {
    const std::uint64_t end = std::uint64_t{1} << scheme_->code().chunk_count();
    for (std::uint64_t lost = FirstSubset(size); lost < end; lost = NextSubset(lost)) {
      check(lost);
      if (HasFatalFailure()) return;
    }
  }

  std::unique_ptr<Scheme> scheme_;
  std::unique_ptr<Stripe> stripe_;
};

TEST_P(EveryLoss, IsDecodedAtTheAgent) {
  for (std::size_t size = 1; size <= m(); ++size) {
    ForEachLoss(size, [&](std::uint64_t lost) {
      const std::vector<ChunkId> erasures = ChunksOf(lost);
      const auto graph = scheme_->Decode(stripe_->chunk_size(), erasures);
      ASSERT_TRUE(RunsRight(graph, *stripe_)) << "lost " << ChunkNames(erasures);
      ASSERT_TRUE(ReadsSurvivorsAlone(*graph, lost));
      std::vector<ChunkPlace> results;
      for (const ChunkPlace& place : graph->results()) {
        if (place.node == scheme_->placement().agent()) results.push_back(place);
      }
      ASSERT_EQ(results.size(), erasures.size());
    });
  }
}

TEST_P(EveryLoss, IsReadByTheRequestor) {
  for (std::size_t size = 1; size <= m(); ++size) {
    ForEachLoss(size, [&](std::uint64_t lost) {
      const std::vector<ChunkId> erasures = ChunksOf(lost);
      // One chunk of each set: which one goes on with the sets.
      const ChunkId wanted = erasures[lost % erasures.size()];
      const auto graph = scheme_->DegradedRead(stripe_->chunk_size(), erasures, wanted);
      ASSERT_TRUE(RunsRight(graph, *stripe_)) << "lost " << ChunkNames(erasures);
      ASSERT_TRUE(ReadsSurvivorsAlone(*graph, lost));
      ASSERT_EQ(graph->results(),
                (std::vector<ChunkPlace>{{scheme_->placement().requestor(), wanted}}));
    });
  }
}

TEST_P(EveryLoss, BeyondTheCodeIsRefusedByName) {
  ForEachLoss(m() + 1, [&](std::uint64_t lost) {
    const std::vector<ChunkId> erasures = ChunksOf(lost);
    ASSERT_THAT(scheme_->Decode(stripe_->chunk_size(), erasures).status(),
                StatusIs(absl::StatusCode::kDataLoss,
                         HasSubstr(scheme_->name() + ": " + ChunkNames(erasures) +
                                   " cannot be computed from what is left")));
  });
}

TEST_P(EveryLoss, EncodingGivesEveryNodeItsChunk) {
  const auto graph = scheme_->Encode(stripe_->chunk_size());
  ASSERT_TRUE(RunsRight(graph, *stripe_));
  std::vector<ChunkPlace> homes;
  for (ChunkId chunk = 0; chunk < scheme_->code().chunk_count(); ++chunk)
    homes.push_back({chunk, chunk});
  EXPECT_EQ(graph->results(), homes);
  for (const ChunkPlace& place : graph->sources())
    EXPECT_EQ(place.node, scheme_->placement().agent());
}

std::string NameOf(const ::testing::TestParamInfo<EveryLoss::ParamType>& info) {
  const auto& [kind, sizes, field] = info.param;
  constexpr const char* kNames[] = {"Rs", "Ppr", "EcPipe", "EcPipeCyclic", "TriEc"};
  return absl::StrCat(kNames[static_cast<int>(kind)], "_", sizes.k, "_", sizes.m, "_w",
                      field == Field::kGf16 ? 4 : 8);
}

INSTANTIATE_TEST_SUITE_P(Schemes, EveryLoss,
                         ::testing::Combine(::testing::ValuesIn(kMdsSchemes),
                                            ::testing::Values(Sizes{3, 2, 37}, Sizes{6, 3, 19},
                                                              Sizes{12, 4, 9}),
                                            ::testing::Values(Field::kGf16, Field::kGf256)),
                         NameOf);

}  // namespace
}  // namespace ring::ec_offload
