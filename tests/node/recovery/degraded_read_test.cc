// Degraded reads in whole clusters: a value is decoded from the blocks of other nodes though its
// own is here, along every repair graph (rules S2, V6, S12).
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "ring/node/stats.h"
#include "tests/node/recovery/decode_fixture.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using protocol::RepairScheme;
using ring::testing::StatusIs;

void TakesFaults(NodeConfig* config) {
  testing::SmallBlocks(config);
  config->fault_injection = true;
}

class DegradedReadTest : public testing::DecodeFixture,
                         public ::testing::WithParamInterface<RepairScheme> {
 protected:
  void StartWith(const std::function<void(NodeConfig*)>& change) {
    Start(1, [&](NodeConfig* config) {
      change(config);
      for (protocol::MemgestDescriptor& memgest : config->memgests) {
        if (memgest.scheme == protocol::Scheme::kStretchedReedSolomon) memgest.repair = GetParam();
      }
    });
  }
  // Summed over all nodes: answered with decoded bytes; decoded for others.
  std::pair<std::uint64_t, std::uint64_t> Counts() {
    std::pair<std::uint64_t, std::uint64_t> counts;
    cluster_.Run([&] {
      for (std::uint32_t i = 0; i < 6; ++i) {
        if (cluster_.node(NodeId(i)) == nullptr) continue;
        const NodeReport report = CollectStats(*cluster_.node(NodeId(i)));
        counts.first += report.node.degraded_gets;
        counts.second += report.node.blocks_decoded;
      }
    });
    return counts;
  }
};

TEST_P(DegradedReadTest, NoByteOfTheOwnBlockIsRead) {
  StartWith(TakesFaults);
  std::vector<std::string> keys;
  for (int i = 0; i < 12; ++i) {
    keys.push_back(KeyOf(1, "SRS32", i));
    for (std::uint16_t shard = 0; shard < 3; ++shard)
      ASSERT_NO_FATAL_FAILURE(Put(KeyOf(shard, "SRS32", i), "SRS32", 1 + i * 1297 % 16'000));
  }
  WaitFolded(0, "SRS32");
  WaitFolded(1, "SRS32");
  Invert(1, "SRS32");
  for (const std::string& key : keys) {
    ASSERT_OK_AND_ASSIGN(const GetResult got, client_->Get(key, {.degraded = true}));
    EXPECT_TRUE(got.value == values_[key]) << key;
  }
  Invert(1, "SRS32");
  EXPECT_EQ(Counts(), std::make_pair(std::uint64_t{12}, std::uint64_t{12}));
  ExpectEverything();
}

// Both parities give wrong bytes as long as a block is decoded from that turned.
TEST_P(DegradedReadTest, S12ABlockOfTheRowThatRottedIsLeftOut) {
  StartWith(TakesFaults);
  for (int i = 0; i < 6; ++i) {
    for (std::uint16_t shard = 0; shard < 3; ++shard)
      ASSERT_NO_FATAL_FAILURE(Put(KeyOf(shard, "SRS32", i), "SRS32", 1 + i * 1297 % 16'000));
  }
  WaitFolded(0, "SRS32");
  WaitFolded(1, "SRS32");
  for (const std::uint16_t rotten : {std::uint16_t{0}, std::uint16_t{2}}) {
    Invert(rotten, "SRS32");
    for (int i = 0; i < 6; ++i) {
      const std::string key = KeyOf(1, "SRS32", i);
      ASSERT_OK_AND_ASSIGN(const GetResult got, client_->Get(key, {.degraded = true}));
      EXPECT_TRUE(got.value == values_[key]) << key << " shard=" << rotten;
    }
    Invert(rotten, "SRS32");
  }
  EXPECT_EQ(Counts().first, 12u);
  ExpectEverything();
}

TEST_P(DegradedReadTest, S12WithoutAParityToSpareItIsLostAtOnceAsLongAsItIsWrong) {
  StartWith(TakesFaults);
  for (std::uint16_t shard = 0; shard < 3; ++shard)
    ASSERT_NO_FATAL_FAILURE(Put(KeyOf(shard, "SRS31", 0), "SRS31", 3000));
  WaitFolded(0, "SRS31");
  Invert(2, "SRS31");
  const std::string key = KeyOf(1, "SRS31", 0);
  EXPECT_THAT(client_->Get(key, {.degraded = true}).status(),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_OK(client_->Get(key).status()) << "its own bytes are right";
  Invert(2, "SRS31");
  EXPECT_OK(client_->Get(key, {.degraded = true}).status());
  ExpectEverything();
}

TEST_P(DegradedReadTest, S2PutsMeanwhileAreNotLostAndReadsAreWhatWasPut) {
  StartWith(TakesFaults);
  Load("SRS32", 20);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Client> other, cluster_.Connect());
  const std::string hot = KeyOf(1, "hot", 0);
  ASSERT_OK(other->Put(hot, std::string(3000, 'a'), {.memgest = "SRS32"}).status());
  std::atomic<bool> over = false;
  std::thread reader([&] {
    for (int i = 0; i < 150; ++i) {
      const absl::StatusOr<GetResult> got = other->Get(hot, {.degraded = true});
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(got->value, std::string(3000, got->value[0]));
    }
    over = true;
  });
  for (int i = 0; !over; ++i) {
    EXPECT_OK(
        client_->Put(hot, std::string(3000, static_cast<char>('a' + i % 26)), {.memgest = "SRS32"})
            .status());
    for (std::uint16_t shard = 0; shard < 3; ++shard) {
      const std::string key = KeyOf(shard, "SRS32", i % 20);
      Put(key, "SRS32", std::min<std::size_t>(values_[key].size(), 9000));
    }
  }
  reader.join();
  EXPECT_EQ(Counts().first, 150u);
  ExpectEverything();
}

TEST_P(DegradedReadTest, GoOnWhileACoordinatorIsLost) {
  StartWith(TakesFaults);
  Load("SRS32", 20);
  ASSERT_NO_FATAL_FAILURE(Lose({1}));
  for (const auto& [key, value] : values_) {
    const absl::StatusOr<GetResult> got = client_->Get(key, {.degraded = true});
    ASSERT_TRUE(got.ok()) << key << ": " << got.status();
    ASSERT_TRUE(got->value == value) << key;
  }
  ExpectEverything();
}

INSTANTIATE_TEST_SUITE_P(Schemes, DegradedReadTest,
                         ::testing::Values(RepairScheme::kRs, RepairScheme::kPpr,
                                           RepairScheme::kEcPipe, RepairScheme::kTriEc),
                         [](const auto& scheme) {
                           return std::string(protocol::RepairName(scheme.param));
                         });

TEST_F(DegradedReadTest, AreRefusedUnlessTheNodeTakesFaults) {
  Start(0, testing::SmallBlocks);
  ASSERT_NO_FATAL_FAILURE(Put("k", "SRS32", 100));
  EXPECT_THAT(client_->Get("k", {.degraded = true}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_OK(client_->Get("k").status());
}

}  // namespace
}  // namespace ring::node
