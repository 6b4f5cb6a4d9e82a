#include "srs/decode_plan.h"

#include <bit>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "srs/generator.h"
#include "tests/srs/row_plans.h"

namespace ring::srs {
namespace {

using ec_offload::Matrix;

struct Code {
  Layout layout;
  Matrix generator;
};

Code Make(std::uint32_t k, std::uint32_t m, std::uint32_t s) {
  auto layout = Layout::Create({k, m, s, 4096});
  auto generator = MakeGenerator(k, m);
  EXPECT_TRUE(layout.ok() && generator.ok());
  return {*std::move(layout), *std::move(generator)};
}

std::vector<RowPlan> Plan(const Code& code, const Losses& losses) {
  return PlanRows(code.layout, code.generator, losses);
}

// The rows of H_exp that survive.
Matrix SurvivingRows(const Code& code, const Matrix& expanded, const Losses& losses) {
  const std::uint32_t l = code.layout.stripe_block_count();
  std::vector<std::size_t> kept;
  for (std::uint32_t t = 0; t < l; ++t) {
    if (((losses.shards >> (t / code.layout.blocks_per_shard())) & 1) == 0) kept.push_back(t);
  }
  for (std::uint32_t i = 0; i < code.layout.row_count() * code.layout.parameters().m; ++i) {
    if (((losses.parities >> (i / code.layout.row_count())) & 1) == 0) kept.push_back(l + i);
  }
  return expanded.SelectRows(kept);
}

// The row of H_exp that a block of parity row p is.
std::size_t ExpandedIndex(const Layout& layout, std::uint32_t p, const BlockName& name) {
  const std::uint32_t base = name.is_parity ? layout.stripe_block_count() : 0;
  return base + name.index * layout.row_count() + p;
}

TEST(DecodePlan, LostShardOfSrs213ComesFromOneDataBlockAndTheParity) {
  const Code code = Make(2, 1, 3);
  const std::vector<RowPlan> rows = Plan(code, {.shards = 0b010, .parities = 0});
  ASSERT_TRUE(Decodable(rows));
  // Shard 2 of the paper holds blocks 3 and 4: 3 is in row {3,6}, 4 in row {1,4}; row {2,5} loses
  // nothing.
  EXPECT_EQ(rows[0].lost_columns, 0b10U);
  EXPECT_EQ(rows[1].lost_columns, 0U);
  EXPECT_TRUE(rows[1].recipes.empty());
  EXPECT_EQ(rows[2].lost_columns, 0b01U);
  ASSERT_EQ(rows[0].recipes.size(), 1U);
  const Recipe& recipe = rows[0].recipes[0];
  EXPECT_EQ(recipe.lost, (BlockName{false, 1}));
  ASSERT_EQ(recipe.terms.size(), 2U);
  EXPECT_EQ(recipe.terms[0].survivor, (BlockName{false, 0}));
  EXPECT_EQ(recipe.terms[1].survivor, (BlockName{true, 0}));
  EXPECT_EQ(recipe.terms[0].coefficient, 1);
  EXPECT_EQ(recipe.terms[1].coefficient, 1);
}

TEST(DecodePlan, SaysWhichRowsCannotBeDecoded) {
  const Code code = Make(2, 1, 3);
  const std::vector<RowPlan> rows = Plan(code, {.shards = 0b011, .parities = 0});
  EXPECT_FALSE(Decodable(rows));
  // Blocks 1 to 4 are lost: row {1,4} has none left, rows {2,5} and {3,6} have one each.
  EXPECT_EQ(rows[0].undecodable.size(), 2U);
  EXPECT_TRUE(rows[1].decodable());
  EXPECT_TRUE(rows[2].decodable());
  EXPECT_EQ(rows[1].recipes.size(), 1U);
}

TEST(DecodePlan, Srs214SurvivesFourOfTenDoubleLossesS7) {
  const Code code = Make(2, 1, 4);
  std::set<std::uint32_t> survived;
  for (std::uint32_t pattern = 0; pattern < 32; ++pattern) {
    if (std::popcount(pattern) != 2) continue;
    if (Decodable(Plan(code, {.shards = pattern & 15, .parities = pattern >> 4})))
      survived.insert(pattern);
  }
  // Rows are on the shards {0,2} and {1,3}: any other two shards share no row.
  EXPECT_EQ(survived, (std::set<std::uint32_t>{0b00011, 0b01100, 0b01001, 0b00110}));
}

TEST(DecodePlan, UsesLowParitiesAndAtMostKSurvivors) {
  const Code code = Make(3, 3, 5);
  for (std::uint32_t shards = 0; shards < 32; ++shards) {
    for (std::uint32_t parities = 0; parities < 8; ++parities) {
      const std::vector<RowPlan> rows = Plan(code, {.shards = shards, .parities = parities});
      for (const RowPlan& row : rows) {
        for (const Recipe& recipe : row.recipes) {
          EXPECT_LE(recipe.terms.size(), 3U);
          for (const Term& term : recipe.terms) {
            EXPECT_NE(term.coefficient, 0);
            const std::uint32_t lost = term.survivor.is_parity ? parities : row.lost_columns;
            EXPECT_EQ((lost >> term.survivor.index) & 1, 0U) << "a lost block is no survivor";
          }
        }
      }
    }
  }
  const RowPlan row = PlanRow(code.generator, 0b001, 0);
  ASSERT_EQ(row.recipes.size(), 1U);
  EXPECT_EQ(row.recipes[0].terms.back().survivor, (BlockName{true, 0}));
}

// Every recipe is an identity between rows of H_exp, and what the plan calls lost for good is
// outside their span.
TEST(DecodePlan, AgreesWithTheRankOfTheExpandedMatrixForEveryPatternS7) {
  for (std::uint32_t s = 2; s <= 7; ++s) {
    for (std::uint32_t k = 2; k <= s; ++k) {
      for (std::uint32_t m = 1; m <= 4; ++m) {
        const Code code = Make(k, m, s);
        const Matrix expanded = ExpandedMatrix(code.generator, s);
        for (std::uint32_t pattern = 0; pattern < (1U << (s + m)); ++pattern) {
          const Losses losses{.shards = pattern & ((1U << s) - 1), .parities = pattern >> s};
          const std::vector<RowPlan> rows = Plan(code, losses);
          const bool full_rank = Rank(SurvivingRows(code, expanded, losses)) == expanded.columns();
          ASSERT_EQ(Decodable(rows), full_rank)
              << "k=" << k << " m=" << m << " s=" << s << " pattern=" << pattern;
          for (std::uint32_t p = 0; p < code.layout.row_count(); ++p) {
            ASSERT_EQ(RowDecodable(code.generator, rows[p].lost_columns, losses.parities),
                      rows[p].decodable());
            for (const Recipe& recipe : rows[p].recipes) {
              std::vector<ec_offload::gf256::Element> sum(expanded.columns(), 0);
              for (const Term& term : recipe.terms) {
                const auto row = expanded.Row(ExpandedIndex(code.layout, p, term.survivor));
                for (std::size_t c = 0; c < sum.size(); ++c) {
                  sum[c] = static_cast<ec_offload::gf256::Element>(
                      sum[c] ^ ec_offload::gf256::Multiply(term.coefficient, row[c]));
                }
              }
              const auto expected = expanded.Row(ExpandedIndex(code.layout, p, recipe.lost));
              ASSERT_TRUE(std::equal(sum.begin(), sum.end(), expected.begin()));
            }
          }
        }
      }
    }
  }
}

// With a generator that is not MDS, two losses beside two parities are too many.
TEST(DecodePlan, DecidesByRankNotByCountS7) {
  const Matrix weak = {{1, 1, 1}, {1, 1, 2}};
  EXPECT_FALSE(RowDecodable(weak, 0b011, 0));
  EXPECT_FALSE(PlanRow(weak, 0b011, 0).decodable());
  EXPECT_TRUE(RowDecodable(weak, 0b101, 0));
  EXPECT_TRUE(PlanRow(weak, 0b101, 0).decodable());
  // The sum of columns 0 and 1 is known: a lost parity that needs no more comes back without them.
  const RowPlan plan = PlanRow(weak, 0b011, 0b10);
  ASSERT_EQ(plan.recipes.size(), 1U);
  EXPECT_EQ(plan.recipes[0].lost, (BlockName{true, 1}));
  EXPECT_EQ(plan.undecodable.size(), 2U);
}

}  // namespace
}  // namespace ring::srs
