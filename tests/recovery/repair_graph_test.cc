// Every repair scheme gives the block that the recipe gives, and asks for it in its own shape.
#include "ring/recovery/repair_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "ec_offload/kernels.h"
#include "srs/codec.h"
#include "tests/support/status_matchers.h"

namespace ring::recovery {
namespace {

using protocol::RepairScheme;

constexpr std::size_t kBlock = 64 * 1024;

// As the nodes of a row would: by shard and block, each in its own memory.
class Row {
 public:
  Row(const srs::Codec& codec, std::uint32_t row) : codec_(codec), row_(row) {
    const std::uint32_t k = codec.parameters().k;
    for (std::uint32_t column = 0; column < k; ++column) {
      std::string& block = data_.emplace_back(kBlock, '\0');
      for (std::size_t i = 0; i < kBlock; ++i) block[i] = static_cast<char>(i * 7 + column * 31);
    }
    for (std::uint32_t j = 0; j < codec.parameters().m; ++j) {
      std::string& parity = parities_.emplace_back(kBlock, '\0');
      for (std::uint32_t column = 0; column < k; ++column)
        codec.AddContribution(Bytes(parity), j, Bytes(data_[column]), column, kBlock);
    }
  }

  static std::byte* Bytes(std::string& text) { return reinterpret_cast<std::byte*>(text.data()); }
  const std::string& data(std::uint32_t column) const { return data_[column]; }

  // The sum of a tree; counts what goes from node to node.
  std::string Sum(absl::Span<const PartialStep> steps, const PartialTree& tree) {
    std::string sum(tree.length, '\0');
    const std::uint32_t column = ColumnOf(steps[0]);
    ec_offload::Multiply(Bytes(sum), Bytes(data_[column]) + tree.offset, steps[0].coefficient,
                         tree.length);
    for (const absl::Span<const PartialStep> child : Children(steps)) {
      std::string below = Sum(child, tree);
      ec_offload::XorInto(Bytes(sum), Bytes(below), tree.length);
    }
    sent_ += tree.length;
    return sum;
  }
  std::string Repair(const std::vector<PartialTree>& trees, const srs::Recipe& recipe) {
    std::string block(kBlock, '\0');
    for (const PartialTree& tree : trees) {
      std::string sum = Sum(tree.steps, tree);
      ec_offload::XorInto(Bytes(block) + tree.offset, Bytes(sum), tree.length);
    }
    for (const srs::Term& term : recipe.terms) {
      if (!term.survivor.is_parity) continue;
      ec_offload::MultiplyAdd(Bytes(block), Bytes(parities_[term.survivor.index]), term.coefficient,
                              kBlock);
    }
    return block;
  }
  std::size_t sent() const { return sent_; }

 private:
  std::uint32_t ColumnOf(const PartialStep& step) const {
    for (std::uint32_t column = 0; column < codec_.parameters().k; ++column) {
      const srs::DataBlock data = codec_.layout().BlockOf(0, row_, column);
      if (data.shard == step.shard.value() && data.offset == std::uint64_t{step.block} * kBlock)
        return column;
    }
    ADD_FAILURE() << "no block of the row: shard=" << step.shard.value();
    return 0;
  }

  const srs::Codec& codec_;
  std::uint32_t row_;
  std::vector<std::string> data_;
  std::vector<std::string> parities_;
  std::size_t sent_ = 0;
};

std::size_t Depth(absl::Span<const PartialStep> steps) {
  std::size_t deepest = 0;
  for (const absl::Span<const PartialStep> child : Children(steps))
    deepest = std::max(deepest, Depth(child));
  return deepest + 1;
}

class RepairGraph : public ::testing::TestWithParam<RepairScheme> {};

TEST_P(RepairGraph, GivesTheLostBlockForEveryLossThatRankDecodes) {
  for (const auto& [k, m, s] : {std::tuple{2, 1, 3}, {3, 2, 3}, {6, 3, 6}, {12, 4, 12}}) {
    const srs::SrsParameters parameters{static_cast<std::uint32_t>(k),
                                        static_cast<std::uint32_t>(m),
                                        static_cast<std::uint32_t>(s), kBlock};
    ASSERT_OK_AND_ASSIGN(const srs::Codec codec, srs::Codec::Create(parameters));
    for (std::uint32_t row = 0; row < codec.layout().row_count(); ++row) {
      for (int losses = 1; losses <= m; ++losses) {
        const std::uint32_t lost = (1u << losses) - 1;
        for (const srs::Recipe& recipe : srs::PlanRow(codec.generator(), lost, 0).recipes) {
          Row blocks(codec, row);
          const auto trees = PlanPartials(GetParam(), recipe, codec.layout(), 0, row);
          EXPECT_EQ(blocks.Repair(trees, recipe), blocks.data(recipe.lost.index))
              << "k=" << k << " row=" << row << " lost=" << losses;
          // Every survivor's bytes, or those of its sum, go over one link once.
          EXPECT_EQ(blocks.sent(), static_cast<std::size_t>(k - losses) * kBlock);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, RepairGraph,
                         ::testing::Values(RepairScheme::kPpr, RepairScheme::kEcPipe,
                                           RepairScheme::kTriEc),
                         [](const auto& scheme) {
                           return std::string(protocol::RepairName(scheme.param));
                         });

class RepairShape : public ::testing::Test {
 protected:
  // Of a block of SRS(12,4,12): eleven survivors.
  std::vector<PartialTree> Plan(RepairScheme scheme) {
    const auto codec = srs::Codec::Create({12, 4, 12, kBlock});
    EXPECT_OK(codec.status());
    const srs::Recipe recipe = srs::PlanRow(codec->generator(), 1, 0).recipes.front();
    return PlanPartials(scheme, recipe, codec->layout(), 0, 0);
  }
};

TEST_F(RepairShape, PprIsATreeOfLogarithmicDepth) {
  const std::vector<PartialTree> trees = Plan(RepairScheme::kPpr);
  ASSERT_EQ(trees.size(), 4u);  // children of the root: in 4 steps, 12 nodes with it
  std::size_t steps = 0;
  for (const PartialTree& tree : trees) {
    steps += tree.steps.size();
    EXPECT_LE(Depth(tree.steps), 3u);
    EXPECT_EQ(tree.length, kBlock);
  }
  EXPECT_EQ(steps, 11u);
}

TEST_F(RepairShape, EcPipeIsAChainForEachSlice) {
  const std::vector<PartialTree> trees = Plan(RepairScheme::kEcPipe);
  ASSERT_EQ(trees.size(), kBlock / kChainSliceSize);
  for (const PartialTree& tree : trees) {
    EXPECT_EQ(tree.steps.size(), 11u);
    EXPECT_EQ(Depth(tree.steps), 11u);
    EXPECT_EQ(tree.length, kChainSliceSize);
  }
}

TEST_F(RepairShape, TriEcMultipliesEveryBlockWhereItIs) {
  const std::vector<PartialTree> trees = Plan(RepairScheme::kTriEc);
  ASSERT_EQ(trees.size(), 11u);
  for (const PartialTree& tree : trees) EXPECT_EQ(tree.steps.size(), 1u);
}

}  // namespace
}  // namespace ring::recovery
