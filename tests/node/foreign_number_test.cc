// Messages of nodes that name groups, shards, memgests, blocks and rows which are not there: each
// is refused, and harms nobody.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ring/node/scrub/scrub_message.h"
#include "ring/recovery/block_message.h"
#include "ring/recovery/fetch_message.h"
#include "ring/recovery/join_message.h"
#include "ring/recovery/partial_message.h"
#include "ring/recovery/seal_message.h"
#include "tests/node/epoch_cluster.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using recovery::LogName;

constexpr std::uint32_t kForeign = ~std::uint32_t{0};
constexpr std::uint64_t kTimeoutNs = 30'000'000'000;

class ForeignNumberTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(cluster_.Start(1)); }

  // Every node is asked; nobody may do what is asked for.
  void ExpectRefused(ControlType type, const std::string& body) {
    for (std::uint32_t node = 0; node < 6; ++node) {
      // Shared: who is woken may be gone before set_value returns.
      auto answer = std::make_shared<std::promise<absl::Status>>();
      cluster_.Run([&] {
        cluster_.node(NodeId((node + 1) % 6))
            ->control()
            .Call(NodeId(node), type, body, kTimeoutNs,
                  [answer](const absl::StatusOr<std::string>& got) {
                    answer->set_value(got.status());
                  });
      });
      const absl::Status status = answer->get_future().get();
      EXPECT_FALSE(status.ok()) << "type=" << static_cast<int>(type) << " node=" << node;
      EXPECT_FALSE(absl::IsDeadlineExceeded(status)) << status;
    }
  }

  // What is right, and then each number that is not.
  std::vector<LogName> ForeignLogs() {
    const MemgestId coded = cluster_.PresentView()->FindMemgest("SRS21")->id;
    const LogName right = {GroupId(0), ShardId(0), coded};
    std::vector<LogName> logs(5, right);
    logs[0].group = GroupId(static_cast<std::uint16_t>(kForeign));
    logs[1].group = GroupId(5);  // the first that is not
    logs[2].shard = ShardId(static_cast<std::uint16_t>(kForeign));
    logs[3].shard = ShardId(3);
    logs[4].memgest = MemgestId(static_cast<std::uint16_t>(kForeign));
    return logs;
  }
  Epoch PresentEpoch() { return cluster_.PresentView()->groups[0].epoch; }

  testing::EpochCluster cluster_;
};

TEST_F(ForeignNumberTest, RowsOfAnotherParity) {
  const MemgestId coded = cluster_.PresentView()->FindMemgest("SRS32")->id;
  recovery::RowRequest right;
  right.memgest = coded;
  right.epoch = PresentEpoch();
  right.last_touch.resize(3);
  std::vector<recovery::RowRequest> rows(5, right);
  rows[0].group = GroupId(static_cast<std::uint16_t>(kForeign));
  rows[1].group = GroupId(5);
  rows[2].memgest = MemgestId(static_cast<std::uint16_t>(kForeign));
  rows[3].row = kForeign;
  rows[4].extent = kForeign;
  rows.push_back(right);
  rows.back().last_touch.clear();
  for (const recovery::RowRequest& row : rows) ExpectRefused(ControlType::kRow, Encode(row));
}

TEST_F(ForeignNumberTest, PartialSumsOfBlocks) {
  recovery::PartialRequest right;
  right.memgest = cluster_.PresentView()->FindMemgest("SRS32")->id;
  right.epoch = PresentEpoch();
  right.length = 1;
  right.steps = {{ShardId(0), 0, 1, 1}, {ShardId(1), 0, 1, 0}};
  std::vector<recovery::PartialRequest> sums(7, right);
  sums[0].group = GroupId(static_cast<std::uint16_t>(kForeign));
  sums[1].memgest = MemgestId(static_cast<std::uint16_t>(kForeign));
  sums[2].steps[0].shard = ShardId(static_cast<std::uint16_t>(kForeign));
  sums[3].steps[1].shard = ShardId(3);
  sums[4].steps[0].block = kForeign;
  sums[5].offset = kForeign;
  sums[6].length = 0;
  for (const recovery::PartialRequest& sum : sums)
    ExpectRefused(ControlType::kPartial, Encode(sum));
}

TEST_F(ForeignNumberTest, BlocksToDecodeAndToFreeze) {
  for (const LogName& log : ForeignLogs()) {
    recovery::DecodeRequest decode;
    decode.log = log;
    decode.epoch = PresentEpoch();
    ExpectRefused(ControlType::kDecode, Encode(decode));
    recovery::FreezeRequest freeze;
    freeze.log = log;
    freeze.epoch = PresentEpoch();
    ExpectRefused(ControlType::kFreeze, Encode(freeze));
  }
  const MemgestId coded = cluster_.PresentView()->FindMemgest("SRS21")->id;
  recovery::DecodeRequest decode;
  decode.log = {GroupId(0), ShardId(0), coded};
  decode.epoch = PresentEpoch();
  decode.block = kForeign;
  ExpectRefused(ControlType::kDecode, Encode(decode));
  decode.block = 0;
  decode.left_out = kForeign;
  ExpectRefused(ControlType::kDecode, Encode(decode));
  recovery::FreezeRequest freeze;
  freeze.log = decode.log;
  freeze.epoch = PresentEpoch();
  freeze.block = kForeign;
  ExpectRefused(ControlType::kFreeze, Encode(freeze));
}

TEST_F(ForeignNumberTest, ShardsToSealToFetchToInstallAndToCompare) {
  const std::vector<LogName> logs = ForeignLogs();
  for (std::size_t i = 0; i < 4; ++i) {
    const LogName& log = logs[i];
    ExpectRefused(ControlType::kSeal,
                  recovery::EncodeSealRequest({log.group, log.shard, Epoch(9), Epoch(8), {}}));
    recovery::InstallRequest install;
    install.group = log.group;
    install.shard = log.shard;
    ExpectRefused(ControlType::kInstall, recovery::EncodeInstallRequest(install));
    ExpectRefused(ControlType::kProgress,
                  recovery::EncodeProgressRequest({log.group, log.shard, PresentEpoch()}));
    ScrubVersions versions;
    versions.place = log;
    ExpectRefused(ControlType::kScrubVersions, EncodeScrub(versions));
    for (const recovery::FetchKind kind :
         {recovery::FetchKind::kSnapshot, recovery::FetchKind::kTail,
          recovery::FetchKind::kValue}) {
      recovery::FetchRequest fetch;
      fetch.kind = kind;
      fetch.group = log.group;
      fetch.shard = log.shard;
      fetch.epoch = PresentEpoch();
      fetch.memgests = {log.memgest};
      ExpectRefused(ControlType::kFetch, recovery::EncodeFetchRequest(fetch));
    }
  }
}

// A line and a memgest that nobody has, of a shard that is there.
TEST_F(ForeignNumberTest, ValuesOfAShardThatIsThere) {
  recovery::FetchRequest fetch;
  fetch.kind = recovery::FetchKind::kValue;
  fetch.epoch = PresentEpoch();
  fetch.line = kForeign;
  fetch.version = Version(1);
  for (const std::uint16_t memgest : {std::uint16_t{1}, static_cast<std::uint16_t>(kForeign)}) {
    fetch.memgests = {MemgestId(memgest)};
    ExpectRefused(ControlType::kFetch, recovery::EncodeFetchRequest(fetch));
  }
}

}  // namespace
}  // namespace ring::node
