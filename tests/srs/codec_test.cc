#include "srs/codec.h"

#include <bit>
#include <cstring>
#include <memory>
#include <tuple>
#include <vector>

#include "ec_offload/kernels.h"
#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "srs/generator.h"
#include "tests/srs/row_plans.h"
#include "tests/support/random_bytes.h"

namespace ring::srs {
namespace {

using ec_offload::DeltaCalculator;
using testing::RandomBytes;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kBlock = 4;  // tiny: the mathematics does not care
constexpr std::uint64_t kExtents = 2;

std::unique_ptr<const Codec> Make(std::uint32_t k, std::uint32_t m, std::uint32_t s,
                                  std::uint64_t block_size = kBlock) {
  auto codec = Codec::Create({k, m, s, block_size}, 1);
  EXPECT_TRUE(codec.ok()) << codec.status();
  return std::make_unique<const Codec>(*std::move(codec));
}

// The memory of all nodes: shards' heaps and parities.
struct Nodes {
  std::vector<Bytes> shards;
  std::vector<Bytes> parities;

  Nodes(const Codec& codec, SeededRandom& random) {
    for (std::uint32_t i = 0; i < codec.parameters().s; ++i) {
      shards.push_back(RandomBytes(random, kExtents * codec.layout().extent_size()));
    }
    parities.resize(codec.parameters().m, Bytes(kExtents * codec.layout().parity_extent_size()));
    EncodeAll(codec);
  }

  void EncodeAll(const Codec& codec) {
    const Layout& layout = codec.layout();
    for (std::uint64_t e = 0; e < kExtents; ++e) {
      for (std::uint32_t p = 0; p < layout.row_count(); ++p) {
        const std::vector<const std::byte*> data = Row(codec, e, p, 0);
        for (std::uint32_t j = 0; j < parities.size(); ++j) {
          for (std::uint64_t i = 0; i < layout.block_size(); ++i)
            parities[j][layout.ParityOffset(e, p) + i] = Sum(codec, data, j, i);
        }
      }
    }
  }

  // Byte i of parity j: the oracle, one product of field elements after the other.
  static std::byte Sum(const Codec& codec, const std::vector<const std::byte*>& data,
                       std::uint32_t j, std::uint64_t i) {
    ec_offload::gf256::Element sum = 0;
    for (std::uint32_t c = 0; c < data.size(); ++c) {
      const auto byte = std::to_integer<ec_offload::gf256::Element>(data[c][i]);
      sum ^= ec_offload::gf256::Multiply(codec.coefficient(j, c), byte);
    }
    return static_cast<std::byte>(sum);
  }

  // The columns of a row; null for those of lost shards.
  std::vector<const std::byte*> Row(const Codec& codec, std::uint64_t e, std::uint32_t p,
                                    std::uint32_t lost) const {
    std::vector<const std::byte*> data;
    for (std::uint32_t c = 0; c < codec.parameters().k; ++c) {
      const DataBlock block = codec.layout().BlockOf(e, p, c);
      data.push_back(((lost >> block.shard) & 1) != 0 ? nullptr
                                                      : shards[block.shard].data() + block.offset);
    }
    return data;
  }
};

// The parities equal H_exp times the data: Eqn (2), byte by byte.
TEST(Codec, ParitiesAreTheExpandedMatrixTimesTheData) {
  SeededRandom random(51);
  for (auto [k, m, s] :
       {std::tuple{2U, 1U, 3U}, {2U, 4U, 3U}, {3U, 2U, 5U}, {4U, 3U, 6U}, {3U, 3U, 3U}}) {
    const auto codec = Make(k, m, s);
    const Nodes nodes(*codec, random);
    const ec_offload::Matrix expanded = ExpandedMatrix(codec->generator(), s);
    const Layout& layout = codec->layout();
    const std::uint32_t l = layout.stripe_block_count();
    for (std::uint64_t byte = 0; byte < kBlock; ++byte) {
      ec_offload::Matrix data(l, 1);
      for (std::uint32_t t = 0; t < l; ++t) {
        const std::uint64_t offset = (t % layout.blocks_per_shard()) * kBlock + byte;
        data.At(t, 0) =
            std::to_integer<std::uint8_t>(nodes.shards[t / layout.blocks_per_shard()][offset]);
      }
      const ec_offload::Matrix coded = Product(expanded, data);
      for (std::uint32_t i = 0; i < m * layout.row_count(); ++i) {
        const std::uint64_t offset = (i % layout.row_count()) * kBlock + byte;
        ASSERT_EQ(std::to_integer<std::uint8_t>(nodes.parities[i / layout.row_count()][offset]),
                  coded.At(l + i, 0));
      }
    }
  }
}

// Eqn (4): P1 = D1 ^ D4, P2 = D2 ^ D5, P3 = D3 ^ D6.
TEST(Codec, IsEqn4OfThePaper) {
  SeededRandom random(52);
  const auto codec = Make(2, 1, 3);
  const Nodes nodes(*codec, random);
  const auto block = [&](std::uint32_t number) {  // from 1; two a shard
    const std::size_t at = ((number - 1) % 2) * kBlock;
    const Bytes& shard = nodes.shards[(number - 1) / 2];
    return Bytes(shard.begin() + static_cast<std::ptrdiff_t>(at),
                 shard.begin() + static_cast<std::ptrdiff_t>(at + kBlock));
  };
  for (std::uint32_t p = 0; p < 3; ++p) {
    const Bytes first = block(p + 1), second = block(p + 4);
    for (std::size_t i = 0; i < kBlock; ++i) {
      EXPECT_EQ(nodes.parities[0][p * kBlock + i], first[i] ^ second[i]) << "P" << p + 1;
    }
  }
}

// Recovers everything that the rows' plans can recover, and compares with what was lost.
void ExpectRecovery(const Codec& codec, const Nodes& nodes, const Losses& losses,
                    const std::vector<RowPlan>& rows) {
  const Layout& layout = codec.layout();
  std::vector<const std::byte*> parities;
  for (std::uint64_t e = 0; e < kExtents; ++e) {
    for (std::uint32_t p = 0; p < layout.row_count(); ++p) {
      const std::vector<const std::byte*> survivors = nodes.Row(codec, e, p, losses.shards);
      const std::vector<const std::byte*> originals = nodes.Row(codec, e, p, 0);
      parities.clear();
      for (std::uint32_t j = 0; j < codec.parameters().m; ++j) {
        const std::byte* parity = nodes.parities[j].data() + layout.ParityOffset(e, p);
        parities.push_back(((losses.parities >> j) & 1) != 0 ? nullptr : parity);
      }
      for (const Recipe& recipe : rows[p].recipes) {
        std::byte recovered[kBlock] = {};
        AddRecipe(recipe, survivors, parities, recovered, kBlock);
        const std::byte* original =
            recipe.lost.is_parity
                ? nodes.parities[recipe.lost.index].data() + layout.ParityOffset(e, p)
                : originals[recipe.lost.index];
        ASSERT_EQ(std::memcmp(recovered, original, kBlock), 0)
            << ToString(codec.parameters()) << " row=" << p << " lost index=" << recipe.lost.index;
      }
    }
  }
}

TEST(Codec, EveryLossOfUpToMNodesComesBackBitExact) {
  SeededRandom random(53);
  for (std::uint32_t s = 2; s <= 7; ++s) {
    for (std::uint32_t k = 2; k <= s; ++k) {
      for (std::uint32_t m = 1; m <= 4; ++m) {
        const auto codec = Make(k, m, s);
        const Nodes nodes(*codec, random);
        for (std::uint32_t pattern = 1; pattern < (1U << (s + m)); ++pattern) {
          if (static_cast<std::uint32_t>(std::popcount(pattern)) > m) continue;
          const Losses losses{.shards = pattern & ((1U << s) - 1), .parities = pattern >> s};
          const auto rows = PlanRows(codec->layout(), codec->generator(), losses);
          ASSERT_TRUE(Decodable(rows)) << ToString(codec->parameters()) << " pattern=" << pattern;
          ExpectRecovery(*codec, nodes, losses, rows);
        }
      }
    }
  }
}

TEST(Codec, BeyondMNodesWhateverRankAllowsComesBackBitExactS7) {
  SeededRandom random(54);
  std::uint32_t recovered = 0, refused = 0;
  for (std::uint32_t s = 2; s <= 7; ++s) {
    for (std::uint32_t k = 2; k <= s; ++k) {
      for (std::uint32_t m = 1; m <= 4; ++m) {
        const auto codec = Make(k, m, s);
        const Nodes nodes(*codec, random);
        for (std::uint32_t pattern = 1; pattern < (1U << (s + m)); ++pattern) {
          if (static_cast<std::uint32_t>(std::popcount(pattern)) <= m) continue;
          const Losses losses{.shards = pattern & ((1U << s) - 1), .parities = pattern >> s};
          const auto rows = PlanRows(codec->layout(), codec->generator(), losses);
          ++(Decodable(rows) ? recovered : refused);
          ExpectRecovery(*codec, nodes, losses, rows);
        }
      }
    }
  }
  EXPECT_GT(recovered, 0U);
  EXPECT_GT(refused, recovered);
}

TEST(Codec, DeltasOfAPutKeepEveryParityEqualToAnEncodeS3) {
  SeededRandom random(55);
  for (auto [k, m, s] :
       {std::tuple{2U, 1U, 3U}, {2U, 3U, 4U}, {3U, 2U, 3U}, {3U, 4U, 5U}, {5U, 2U, 7U}}) {
    const auto codec = Make(k, m, s, 64);
    const Layout& layout = codec->layout();
    Nodes nodes(*codec, random);
    for (int put = 0; put < 300; ++put) {
      const auto shard = static_cast<std::uint32_t>(random.Below(s));
      const std::uint64_t offset = random.Below(nodes.shards[shard].size());
      const std::size_t length = 1 + random.Below(layout.BlockRemainder(offset));
      const Position position = layout.Locate(shard, offset);
      const Bytes fresh = RandomBytes(random, length);
      std::vector<Bytes> deltas(m, Bytes(length));
      std::byte* slot = nodes.shards[shard].data() + offset;
      const std::byte* inputs[] = {slot, fresh.data()};
      std::vector<std::byte*> outputs;
      for (auto& delta : deltas) outputs.push_back(delta.data());
      outputs.push_back(slot);
      const DeltaCalculator calculator =
          codec->Delta(position.column, DeltaCalculator::Slot::kWrittenUnsummed);
      ASSERT_TRUE(calculator.Run(inputs, outputs.data(), length, nullptr));
      for (std::uint32_t j = 0; j < m; ++j) {
        ec_offload::XorInto(nodes.parities[j].data() + position.parity_offset, deltas[j].data(),
                            length);
      }
    }
    const std::vector<Bytes> updated = nodes.parities;
    nodes.EncodeAll(*codec);
    EXPECT_EQ(updated, nodes.parities) << ToString(codec->parameters());
  }
}

TEST(Codec, RescalesTheDeltaOfOneParityForAnotherS8) {
  SeededRandom random(56);
  const auto codec = Make(4, 4, 6);
  const Bytes raw = RandomBytes(random, 100);
  for (std::uint32_t column = 0; column < 4; ++column) {
    std::vector<Bytes> deltas(4, Bytes(100));
    for (std::uint32_t j = 0; j < 4; ++j)
      codec->Rescale(deltas[j].data(), raw.data(), column, 0, j, 100);
    EXPECT_EQ(deltas[0], raw) << "parity 0 logs raw deltas";
    for (std::uint32_t j = 0; j < 4; ++j) {
      for (std::size_t i = 0; i < raw.size(); ++i) {
        const auto byte = std::to_integer<ec_offload::gf256::Element>(raw[i]);
        ASSERT_EQ(std::to_integer<ec_offload::gf256::Element>(deltas[j][i]),
                  ec_offload::gf256::Multiply(codec->coefficient(j, column), byte));
      }
    }
    for (std::uint32_t from = 0; from < 4; ++from) {
      for (std::uint32_t to = 0; to < 4; ++to) {
        Bytes rescaled = deltas[from];
        codec->Rescale(rescaled.data(), rescaled.data(), column, from, to, 100);
        EXPECT_EQ(rescaled, deltas[to]) << "from=" << from << " to=" << to;
      }
    }
  }
}

// What one parity's log holds of a change, from the parities before and after it.
Bytes PayloadOf(const Nodes& before, const Nodes& after, const Layout& layout, std::uint32_t parity,
                std::uint32_t shard, std::uint64_t offset, std::size_t length) {
  Bytes payload(length);
  for (std::size_t i = 0; i < length; ++i) {
    const std::uint64_t at = layout.Locate(shard, offset + i).parity_offset;
    payload[i] = before.parities[parity][at] ^ after.parities[parity][at];
  }
  return payload;
}

TEST(Codec, RescalesPayloadsOverBlocksAndColumnsForEveryCodeS8) {
  SeededRandom random(58);
  int pairs = 0;
  for (std::uint32_t s = 2; s <= 6; ++s) {
    for (std::uint32_t k = 2; k <= s; ++k) {
      for (std::uint32_t m = 2; m <= 4; ++m) {
        const auto codec = Make(k, m, s);
        const Layout& layout = codec->layout();
        for (std::uint32_t shard = 0; shard < s; ++shard) {
          const Nodes before(*codec, random);
          Nodes after = before;
          const std::uint64_t offset = random.Below(kExtents * layout.extent_size());
          const std::size_t length = random.Below(kExtents * layout.extent_size() - offset) + 1;
          for (std::size_t i = 0; i < length; ++i) {
            after.shards[shard][offset + i] = static_cast<std::byte>(random.Next64());
          }
          after.EncodeAll(*codec);
          for (std::uint32_t from = 0; from < m; ++from) {
            for (std::uint32_t to = 0; to < m; ++to) {
              Bytes payload = PayloadOf(before, after, layout, from, shard, offset, length);
              codec->RescalePayload(payload.data(), payload.data(), shard, offset, from, to,
                                    length);
              ASSERT_EQ(payload, PayloadOf(before, after, layout, to, shard, offset, length))
                  << "k=" << k << " m=" << m << " s=" << s << " from=" << from << " to=" << to;
              ++pairs;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(pairs, 1000);
}

TEST(Codec, ContributionsOfAllColumnsAddUpToTheParity) {
  SeededRandom random(57);
  const auto codec = Make(3, 2, 5);
  const Nodes nodes(*codec, random);
  const std::vector<const std::byte*> data = nodes.Row(*codec, 1, 2, 0);
  for (std::uint32_t j = 0; j < 2; ++j) {
    Bytes parity(kBlock);
    for (std::uint32_t c : {2U, 0U, 1U})
      codec->AddContribution(parity.data(), j, data[c], c, kBlock);
    EXPECT_EQ(std::memcmp(parity.data(),
                          nodes.parities[j].data() + codec->layout().ParityOffset(1, 2), kBlock),
              0);
  }
}

TEST(Codec, RefusesBadParameters) {
  EXPECT_EQ(Codec::Create({2, 5, 3, 4096}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(Codec::Create({2, 1, 3, kBlock}).ok());
}

}  // namespace
}  // namespace ring::srs
