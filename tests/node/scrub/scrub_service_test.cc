// Scrub of a whole cluster in one process: clean under load, and finds every kind of flipped byte
// by name.
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/base/boot_clock.h"
#include "ring/cluster/routing.h"
#include "ring/node/host.h"
#include "ring/node/node.h"
#include "ring/node/recovery/block_freezer.h"
#include "ring/node/scrub/scrub_message.h"
#include "ring/recovery/block_message.h"
#include "tests/node/node_cluster.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ::ring::testing::Await;
using ::ring::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ScrubTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(cluster_.Start());
    ASSERT_OK_AND_ASSIGN(client_, cluster_.Connect());
  }
  absl::StatusOr<ScrubReport> Scrub() {
    return cluster_.admin().Scrub([](const ScrubProgress&) { return true; });
  }
  void Fill(const std::string& memgest, int count, std::size_t size) {
    for (int i = 0; i < count; ++i) {
      ASSERT_OK(
          client_->Put(absl::StrCat(memgest, "-", i), std::string(size, 'v'), {.memgest = memgest})
              .status());
    }
  }
  // The place of a key's only version at its coordinator.
  struct Found {
    CoordinatedShard* shard = nullptr;
    std::uint32_t line = 0;
    cluster::Place place;
  };
  // Runs on the reactor's thread.
  Found Find(const std::string& key) {
    Found found;
    const cluster::View& view = *cluster_.node(0).view();
    found.place = cluster::Routing(view.s, view.d).OfKey(key);
    const NodeId owner = view.Coordinator(found.place.group, found.place.shard);
    found.shard = cluster_.node(owner.value()).FindShard(found.place.group, found.place.shard);
    memgest::LineTable& lines = found.shard->coordinator()->lines();
    for (std::uint32_t line = 0; line < lines.granule_count() * 64; ++line) {
      if (lines.Has(line) && lines.line(line).version != 0 && lines.KeyEquals(line, key))
        found.line = line;
    }
    return found;
  }

  testing::NodeCluster cluster_;
  std::unique_ptr<Client> client_;
};

TEST_F(ScrubTest, S12CleanClusterHasNoMismatchAndEverythingIsChecked) {
  for (const char* memgest : {"REP1", "REP2", "REP3", "REP4", "SRS21", "SRS31", "SRS32"})
    Fill(memgest, 60, 3000);
  ASSERT_OK(client_->Put("large", std::string(3'000'000, 'L'), {.memgest = "SRS32"}).status());
  ASSERT_OK_AND_ASSIGN(const ScrubReport report, Scrub());
  EXPECT_EQ(report.mismatches, 0u) << ::testing::PrintToString(report.details);
  EXPECT_EQ(report.values_checked, 7u * 60 + 1);
  EXPECT_EQ(report.replicas_checked, 60u * (1 + 2 + 3));
  EXPECT_GT(report.rows_checked, 15u);
}

TEST_F(ScrubTest, S2CleanUnderConcurrentPutsMovesAndDeletes) {
  std::atomic<bool> stop{false};
  std::atomic<int> failed{0};
  std::thread load([&] {
    absl::StatusOr<std::unique_ptr<Client>> client = cluster_.Connect();
    if (!client.ok()) {
      ++failed;
      return;
    }
    const std::vector<std::string> memgests = {"REP3", "SRS32", "SRS21", "REP2", "SRS31"};
    for (std::size_t i = 0; !stop.load(); ++i) {
      const std::string key = absl::StrCat("k", i % 97);
      const std::string value(100 + (i * 37) % 20'000, static_cast<char>('a' + i % 26));
      if (!(*client)->Put(key, value, {.memgest = memgests[i % 5]}).ok()) ++failed;
      if (i % 3 == 0 && !(*client)->Move(key, memgests[(i + 2) % 5]).ok()) ++failed;
      if (i % 7 == 0 && !(*client)->Delete(key).ok()) ++failed;
      if (i % 50 == 0 &&
          !(*client)->Put("big", std::string(700'000, 'B'), {.memgest = "SRS32"}).ok())
        ++failed;
    }
  });
  for (int i = 0; i < 3; ++i) {
    const absl::StatusOr<ScrubReport> report = Scrub();
    EXPECT_OK(report.status());
    if (!report.ok()) continue;
    EXPECT_EQ(report->mismatches, 0u) << ::testing::PrintToString(report->details);
    EXPECT_GT(report->rows_checked, 15u);
  }
  stop.store(true);
  load.join();
  EXPECT_EQ(failed.load(), 0);
}

TEST_F(ScrubTest, S12FlippedByteOfAValueIsFoundAndNamed) {
  Fill("REP3", 5, 1000);
  cluster_.Run([this] {
    const Found found = Find("REP3-2");
    coordinator::ShardCoordinator& shard = *found.shard->coordinator();
    const memgest::MetadataLine& line = shard.lines().line(found.line);
    *shard.FindMemgest(MemgestId(line.memgest))->heap().At(line.offset_cells) ^= std::byte{1};
  });
  ASSERT_OK_AND_ASSIGN(const ScrubReport report, Scrub());
  EXPECT_EQ(report.mismatches, 1u);
  EXPECT_THAT(report.details, ElementsAre(AllOf(HasSubstr("value memgest=REP3"),
                                                HasSubstr("group="), HasSubstr("shard="))));
}

TEST_F(ScrubTest, S12FlippedByteOfAReplicaIsFoundAndNamed) {
  Fill("REP3", 5, 1000);
  std::uint32_t node = 0;
  ASSERT_OK(Scrub().status());  // everything is folded now
  cluster_.Run([&] {
    const Found found = Find("REP3-2");
    const memgest::MetadataLine& line = found.shard->coordinator()->lines().line(found.line);
    const cluster::View& view = *cluster_.node(0).view();
    const Role role = view.FindMemgest("REP3")->MemberRoles(found.place.shard, view.s, view.d)[1];
    node = view.groups[found.place.group.value()].roles[role.value()].value();
    MemberPort::HeldShard* const member =
        cluster_.node(node).members().Find(found.place.group, found.place.shard);
    *member->store->replica_heap(MemgestId(line.memgest))->At(line.offset_cells) ^= std::byte{1};
  });
  ASSERT_OK_AND_ASSIGN(const ScrubReport report, Scrub());
  EXPECT_EQ(report.mismatches, 1u);
  EXPECT_THAT(report.details, ElementsAre(AllOf(HasSubstr("replica memgest=REP3"),
                                                HasSubstr(absl::StrCat("node=", node, " ")),
                                                HasSubstr("other bytes"))));
}

TEST_F(ScrubTest, S12FlippedByteOfAParityIsFoundAndNamed) {
  Fill("SRS32", 5, 1000);
  ASSERT_OK(Scrub().status());
  std::uint32_t node = 0;
  cluster_.Run([&] {
    const Found found = Find("SRS32-2");
    const memgest::MetadataLine& line = found.shard->coordinator()->lines().line(found.line);
    const cluster::View& view = *cluster_.node(0).view();
    node =
        view.groups[found.place.group.value()].roles[static_cast<std::size_t>(view.s) + 1].value();
    memgest::ParityStore* const parity =
        cluster_.node(node).members().FindParity(found.place.group, MemgestId(line.memgest));
    const std::byte* const bytes = parity->ReadRow(0, 0).bytes;
    const_cast<std::byte*>(bytes)[100'000] ^= std::byte{4};
  });
  ASSERT_OK_AND_ASSIGN(const ScrubReport report, Scrub());
  EXPECT_EQ(report.mismatches, 1u);
  EXPECT_THAT(report.details, ElementsAre(AllOf(HasSubstr("parity memgest=SRS32"),
                                                HasSubstr(absl::StrCat("node=", node, " ")),
                                                HasSubstr("row=0"), HasSubstr("between 65536"))));
}

// S3: bytes of the coded region change with an entry, or the next delta over them is wrong: also
// those that no value has.
TEST_F(ScrubTest, S3AByteThatChangedWithoutAnEntryIsFoundWhereNoValueIs) {
  Fill("SRS32", 5, 1000);
  std::byte* freed = nullptr;
  cluster_.Run([&] {
    const Found found = Find("SRS32-2");
    coordinator::ShardCoordinator& shard = *found.shard->coordinator();
    const memgest::MetadataLine& line = shard.lines().line(found.line);
    freed = shard.FindMemgest(MemgestId(line.memgest))->heap().At(line.offset_cells);
  });
  ASSERT_OK(client_->Delete("SRS32-2").status());
  ASSERT_OK_AND_ASSIGN(const ScrubReport clean, Scrub());
  EXPECT_EQ(clean.mismatches, 0u) << ::testing::PrintToString(clean.details);
  cluster_.Run([&] { *freed ^= std::byte{1}; });
  ASSERT_OK_AND_ASSIGN(const ScrubReport report, Scrub());
  EXPECT_EQ(report.mismatches, 2u);  // a row of each parity
  for (const std::string& detail : report.details) EXPECT_THAT(detail, HasSubstr("SRS32"));
}

TEST_F(ScrubTest, S2FrozenBlockSendsPutsElsewhereAndThawsByItselfAfterASecond) {
  Fill("SRS32", 30, 1000);
  Found found;
  std::atomic<int> answers{0};
  memgest::SlotAllocator* allocator = nullptr;
  std::uint64_t asked_ns = 0;
  cluster_.Run([&] {
    found = Find("SRS32-2");
    // A reader that asks and then dies: the spare, which has no business with blocks otherwise.
    recovery::FreezeRequest freeze;
    freeze.log = {found.place.group, found.place.shard,
                  cluster_.node(0).view()->FindMemgest("SRS32")->id};
    freeze.epoch = Epoch(1);
    freeze.block = 100'000;  // nothing is there, so nothing is written to the reader
    const NodeId owner = cluster_.node(0).view()->Coordinator(found.place.group, found.place.shard);
    ControlPort& spare = cluster_.node(5).control();
    spare.Call(owner, ControlType::kFreeze, recovery::Encode(freeze), 5'000'000'000,
               [&](const absl::StatusOr<std::string>& answer) {
                 EXPECT_OK(answer.status());
                 answers.store(1);
               });
    allocator = &found.shard->coordinator()->FindMemgest(freeze.log.memgest)->allocator();
    allocator->Freeze(0);
    asked_ns = BootClock().NowNs();
  });
  // The answer releases nothing: only the reader does, or a second.
  Await("the answer", [&] { return answers.load() != 0; });
  for (int turn = 0; turn < 20; ++turn) {
    cluster_.Run([&] {
      const bool in_time = BootClock().NowNs() - asked_ns < BlockFreezer::kFreezeNs;
      EXPECT_TRUE(allocator->frozen(100'000) || !in_time);
    });
  }
  Fill("SRS32", 200, 1200);  // to every shard, also the one with the frozen block
  cluster_.Run([&] {
    const Found again = Find("SRS32-2");
    const memgest::MetadataLine& line = again.shard->coordinator()->lines().line(again.line);
    EXPECT_GE(line.offset_cells, allocator->block_size() / 64);
    allocator->Thaw(0);
  });
  Await("the thaw", [&] {
    bool frozen = true;
    cluster_.Run([&] { frozen = allocator->frozen(100'000); });
    return !frozen;
  });
  ASSERT_OK_AND_ASSIGN(const ScrubReport report, Scrub());
  EXPECT_EQ(report.mismatches, 0u) << ::testing::PrintToString(report.details);
}

// Who was replaced and has not heard of it yet still has what others put and collected since.
TEST_F(ScrubTest, L9WhoDoesNotCoordinateTheShardHasNoSayAboutItsMembers) {
  Fill("REP3", 5, 1000);
  std::optional<absl::Status> told;
  const auto ask = [&](bool coordinator) {
    told.reset();
    cluster_.Run([&] {
      const Found found = Find("REP3-2");
      const memgest::MetadataLine& line = found.shard->coordinator()->lines().line(found.line);
      const cluster::View& view = *cluster_.node(0).view();
      const Role role = view.FindMemgest("REP3")->MemberRoles(found.place.shard, view.s, view.d)[0];
      ScrubVersions versions;
      versions.place = {found.place.group, found.place.shard, MemgestId(line.memgest)};
      versions.index = 1;
      versions.items = {{found.line, line.version + 1, line.value_crc, line.value_length}};
      const NodeId owner = view.Coordinator(found.place.group, found.place.shard);
      Node& asking = cluster_.node(coordinator ? owner.value() : 5);  // 5: the spare
      asking.control().Call(
          view.groups[found.place.group.value()].roles[role.value()], ControlType::kScrubVersions,
          EncodeScrub(versions), 5'000'000'000,
          [&](const absl::StatusOr<std::string>& answer) { told = answer.status(); });
    });
    Await("the answer", [&] {
      bool answered = false;
      cluster_.Run([&] { answered = told.has_value(); });
      return answered;
    });
    return *told;
  };
  EXPECT_OK(ask(/*coordinator=*/true));
  EXPECT_THAT(ask(/*coordinator=*/false), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(ScrubTest, StopsWhenTheCallerSaysSoAndCanBeStartedAgain) {
  Fill("SRS32", 20, 1000);
  EXPECT_THAT(cluster_.admin().Scrub([](const ScrubProgress&) { return false; }).status(),
              StatusIs(absl::StatusCode::kCancelled));
  ASSERT_OK(Scrub().status());
}

}  // namespace
}  // namespace ring::node
