// The log of a shard through an epoch change: what goes to whom again, under which orders, and what
// is refused. Step 5 of an epoch change; L6, L7, ADR 0008, ADR 0013.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "memgest/delta_arena.h"
#include "memgest/shard_log.h"
#include "tests/memgest/log_link.h"
#include "tests/memgest/twin_device.h"
#include "tests/support/status_matchers.h"

namespace ring::memgest {
namespace {

using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

constexpr MemgestId kA{1};
constexpr MemgestId kB{2};
constexpr int kFirstRole = 3;

// Two logs, Rep(3), and members at roles 3 and 4.
class ShardLogEpochTest : public ::testing::Test {
 protected:
  ShardLogEpochTest() {
    for (const MemgestId id : {kA, kB}) {
      protocol::MemgestDescriptor descriptor;
      descriptor.id = id;
      descriptor.r = 3;
      memgests_[id.value()] =
          std::make_unique<Memgest>(&device_, descriptor, ShardId(0), 3, 2, &lines_);
      log_.Attach(memgests_[id.value()].get(), kAllRoles);
    }
    for (const int role : {3, 4}) {
      Open(role, Epoch(5));
      log_.AddWriter(Role(static_cast<std::uint16_t>(role)), TakeWriter(role));
    }
  }
  LogLink& link(int role) { return *links_[static_cast<std::size_t>(role - kFirstRole)]; }
  LogWriter* writer(int role) {
    for (const ShardLog::Link& one : log_.links()) {
      if (one.role.value() == role) return one.writer.get();
    }
    return nullptr;
  }
  void Open(int role, Epoch epoch) {
    const auto place = static_cast<std::size_t>(role - kFirstRole);
    if (links_.size() <= place) links_.resize(place + 1);
    if (links_[place] != nullptr) old_links_.push_back(std::move(links_[place]));
    links_[place] = std::make_unique<LogLink>();
    LogLink& opened = *links_[place];
    opened.writer_options.send_depth = depth_;
    opened.to_member.depth = depth_;
    opened.writer_options.epoch = opened.reader_options.epoch = epoch;
    opened.writer = std::make_unique<LogWriter>(opened.writer_options);
    opened.reader = std::make_unique<LogReader>(opened.reader_options);
  }
  std::unique_ptr<LogWriter> TakeWriter(int role) { return std::move(link(role).writer); }
  absl::Status Rejoin(int role, std::vector<SealedLog> held) {
    Open(role, epoch_);
    return log_.AddWriter(Role(static_cast<std::uint16_t>(role)), TakeWriter(role), held).status();
  }
  void BeginEpoch() {
    epoch_ = Epoch(epoch_.value() + 1);
    log_.BeginEpoch(epoch_);
  }
  void Append(MemgestId memgest) {
    const EntryFields fields = Fields(++count_);
    ASSERT_TRUE(log_.HasRoom(*memgests_[memgest.value()], 1024, false));
    EntryPayload nothing;
    log_.Append(*memgests_[memgest.value()], fields, absl::MakeConstSpan(&nothing, 1));
  }
  static EntryFields Fields(std::uint64_t n) {
    EntryFields fields;
    fields.type = EntryType::kTombstone;
    fields.version = Version(Epoch(5), n);
    fields.key = "k";
    fields.line = static_cast<std::uint32_t>(n);
    fields.client = {n, 7};
    fields.seq = 100 + n;
    fields.request_crc = static_cast<std::uint32_t>(n * n);
    return fields;
  }
  // Flushes; the roles' devices execute and acknowledge.
  void Turn(std::vector<int> roles) {
    for (const int role : {3, 4}) {
      link(role).to_member.hold = std::find(roles.begin(), roles.end(), role) == roles.end();
    }
    ASSERT_OK(log_.Flush());
    for (const int role : roles) {
      link(role).to_member.Run();
      for (const auto& completion : link(role).to_member.completions) {
        if (writer(role) != nullptr) writer(role)->OnCompletion(completion);
      }
      link(role).to_member.completions.clear();
    }
    log_.AdvanceCommit([this](Pending& pending) { committed_.push_back(pending.order); });
    log_.EndTurn();
  }
  // What lies in a role's ring, "A1 B1 ...", with every field checked.
  std::string RingOf(int role) {
    std::string all;
    link(role).reader->FindTail([&](const EntryView& entry) {
      if (!all.empty()) all += ' ';
      all += entry.header.memgest == kA.value() ? 'A' : 'B';
      all += std::to_string(entry.header.index);
      const std::uint64_t n = entry.header.version & Version::kCounterMax;
      const EntryFields expected = Fields(n);
      EXPECT_EQ(entry.header.version, expected.version.bits());
      EXPECT_EQ(entry.header.client, expected.client);
      EXPECT_EQ(entry.header.seq, expected.seq);
      EXPECT_EQ(entry.header.request_crc, expected.request_crc);
      EXPECT_EQ(entry.header.line, expected.line);
      EXPECT_EQ(entry.header.epoch, epoch_.value());
    });
    return all;
  }
  void Name(RoleMask roles) {
    for (auto& [id, memgest] : memgests_) memgest->members().SetActive(roles);
  }

  TwinDevice device_;
  LineTable lines_{&device_, 1u << 16};
  std::unique_ptr<DeltaArena> arena_ = *DeltaArena::Create(&device_);
  std::map<std::uint16_t, std::unique_ptr<Memgest>> memgests_;
  std::vector<std::unique_ptr<LogLink>> links_;
  std::vector<std::unique_ptr<LogLink>> old_links_;
  std::uint32_t depth_ = 256;
  Epoch epoch_{5};
  ShardLog log_{Epoch(5), arena_.get()};
  std::uint64_t count_ = 0;
  std::vector<std::uint64_t> committed_;
};

TEST_F(ShardLogEpochTest, AMemberGetsOfEachLogJustWhatItLacks) {
  for (const MemgestId id : {kA, kB, kA, kB, kA}) Append(id);
  Turn({3});
  BeginEpoch();
  ASSERT_OK(Rejoin(3, {{kA, 0, 3}, {kB, 0, 2}}));
  ASSERT_OK(Rejoin(4, {{kA, 0, 1}}));
  Turn({3, 4});
  EXPECT_EQ(RingOf(3), "");
  EXPECT_EQ(RingOf(4), "B1 A2 B2 A3");
}

// ADR 0008: one number a member, though it lacks entries between others that it holds.
TEST_F(ShardLogEpochTest, WhatIsHeldCountsAsAcknowledgedAndWhatIsSentAgainDoesNot) {
  for (const MemgestId id : {kA, kB, kA, kB, kA}) Append(id);  // orders 1 to 5
  BeginEpoch();
  ASSERT_OK(Rejoin(3, {{kA, 0, 3}, {kB, 0, 0}}));  // lacks orders 2 and 4
  EXPECT_EQ(writer(3)->acked_order(), 1u);
  EXPECT_FALSE(log_.CaughtUp(Role(3)));
  Turn({});
  link(3).to_member.Run();
  link(3).to_member.completions.clear();  // the answer is lost
  EXPECT_EQ(writer(3)->acked_order(), 1u);
  EXPECT_EQ(RingOf(3), "B1 B2");
  BeginEpoch();
  ASSERT_OK(Rejoin(3, {{kA, 0, 3}}));
  Turn({3});
  EXPECT_EQ(writer(3)->acked_order(), 5u);
  EXPECT_TRUE(log_.CaughtUp(Role(3)));
}

TEST_F(ShardLogEpochTest, L6CompletionsOfTheOldEpochCountForNothing) {
  Append(kA);
  Turn({});
  link(3).to_member.Run();
  const std::vector<rdma::WorkCompletion> stale = link(3).to_member.completions;
  ASSERT_FALSE(stale.empty());
  BeginEpoch();
  ASSERT_OK(Rejoin(3, {}));
  for (const rdma::WorkCompletion& completion : stale) writer(3)->OnCompletion(completion);
  EXPECT_EQ(writer(3)->acked_order(), 0u);
  EXPECT_FALSE(writer(3)->broken());
}

TEST_F(ShardLogEpochTest, HeldNothingIsCommittedToldOrTaken) {
  Append(kA);
  Append(kB);
  BeginEpoch();
  ASSERT_OK(Rejoin(3, {}));
  ASSERT_OK(Rejoin(4, {}));
  for (int i = 0; i < 5; ++i) Turn({3, 4});
  EXPECT_TRUE(log_.CaughtUp(Role(3)) && log_.CaughtUp(Role(4)));
  EXPECT_TRUE(committed_.empty());
  EXPECT_EQ(link(3).ControlWord(), 0u);
  EXPECT_FALSE(log_.HasRoom(*memgests_[1], 256, true));
  EXPECT_FALSE(log_.Stuck(*memgests_[1])) << "it passes";
  EXPECT_FALSE(log_.quiet());
  Name(kAllRoles);
  log_.Normal();
  Turn({3, 4});
  EXPECT_EQ(committed_, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(link(3).ControlWord(), writer(3)->position());
  EXPECT_TRUE(log_.HasRoom(*memgests_[1], 256, true));
  EXPECT_TRUE(log_.quiet());
}

TEST_F(ShardLogEpochTest, ANormalOfFewCommitsWhatWasAdoptedAndNothingAfterIt) {
  Append(kA);
  BeginEpoch();
  ASSERT_OK(Rejoin(4, {}));
  Turn({4});
  Name(0);
  log_.Normal();
  Turn({4});
  EXPECT_EQ(committed_, std::vector<std::uint64_t>{1});
  EXPECT_FALSE(log_.HasRoom(*memgests_[1], 256, true));
  EXPECT_TRUE(log_.Stuck(*memgests_[1]));
}

TEST_F(ShardLogEpochTest, WhoLacksWhatIsKeptNoMoreNeedsASnapshot) {
  Append(kA);
  Turn({3, 4});
  ASSERT_TRUE(log_.quiet());
  Append(kA);
  Append(kB);
  BeginEpoch();
  EXPECT_THAT(Rejoin(3, {{kB, 0, 0}}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("role=3 memgest=1 last=0")));
  EXPECT_EQ(writer(3), nullptr);
  EXPECT_THAT(Rejoin(3, {{kA, 0, 3}}), StatusIs(absl::StatusCode::kFailedPrecondition));
  ASSERT_OK(Rejoin(3, {{kA, 0, 1}}));
  Turn({3});
  EXPECT_EQ(RingOf(3), "A2 B1");
}

// ADR 0013: bytes that may be another version's by now are not sent as those of an old entry,
// although an entry of another log before it is still kept.
TEST_F(ShardLogEpochTest, G2WhatMayHaveBeenReusedIsNotSentAgain) {
  memgests_[kB.value()]->members().SetActive(0);
  protocol::MemgestDescriptor alone;
  alone.id = MemgestId(3);
  alone.r = 2;  // role 3 is its only member
  Memgest other(&device_, alone, ShardId(0), 3, 2, &lines_);
  log_.Attach(&other, kAllRoles);
  EntryPayload nothing;
  log_.Append(*memgests_[1], Fields(++count_), absl::MakeConstSpan(&nothing, 1));
  log_.Append(other, Fields(++count_), absl::MakeConstSpan(&nothing, 1));
  Turn({3});  // role 4 lacks order 1: it is kept, and with it order 2
  ASSERT_TRUE(log_.MayReuse(other, 2));
  BeginEpoch();
  EXPECT_THAT(Rejoin(3, {{kA, 0, 1}}), StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("=3")));
  ASSERT_OK(Rejoin(3, {{kA, 0, 1}, {MemgestId(3), 0, 1}}));
  log_.Detach(&other);
}

// More than a writer takes at once; heads that filled the ring of heads.
TEST_F(ShardLogEpochTest, AllThatIsKeptGoesThroughASmallWindow) {
  while (log_.HasRoom(*memgests_[1], 1024, false)) {
    Append(kA);
    Turn({4});
  }
  ASSERT_GT(count_, 60u);
  BeginEpoch();
  ASSERT_OK(Rejoin(3, {}));
  for (int i = 0; i < 20; ++i) Turn({3});
  ASSERT_TRUE(log_.CaughtUp(Role(3)));
  std::string expected;
  for (std::uint64_t i = 1; i <= count_; ++i) expected += (i > 1 ? " A" : "A") + std::to_string(i);
  EXPECT_EQ(RingOf(3), expected);
}

// I2: a log goes on without a broken member as long as another one has all that this one has, and
// then it waits for the epoch; so what the member lacks can be sent to it, by whoever begins that.
class BrokenMemberTest : public ShardLogEpochTest {
 protected:
  BrokenMemberTest() {
    protocol::MemgestDescriptor alone;
    alone.id = MemgestId(3);
    alone.r = 2;  // role 3 is its only member
    other_ = std::make_unique<Memgest>(&device_, alone, ShardId(0), 3, 2, &lines_);
    log_.Attach(other_.get(), kAllRoles);
  }
  ~BrokenMemberTest() override { log_.Detach(other_.get()); }
  void AppendOther() {
    EntryPayload nothing;
    log_.Append(*other_, Fields(++count_), absl::MakeConstSpan(&nothing, 1));
    Turn({3, 4});
  }
  // Entries of a log that the other member goes on with; at most `max`.
  int AppendWithout(int role, std::size_t payload_size, int max) {
    link(role).to_member.failed = true;
    const std::string bytes(payload_size, 'x');
    const rdma::Sge sge = LogLink::SgeOf(bytes.data(), bytes.size());
    EntryPayload payload;
    if (payload_size > 0) payload.sges = absl::MakeConstSpan(&sge, 1);
    int count = 0;
    while (count < max && log_.HasRoom(*memgests_[kA.value()], 1024 + payload_size, false)) {
      EntryFields fields = Fields(++count_);
      fields.payload_length = static_cast<std::uint32_t>(payload_size);
      log_.Append(*memgests_[kA.value()], fields, absl::MakeConstSpan(&payload, 1));
      Turn({3, 4});
      link(7 - role).reader->FindTail([](const EntryView&) {});
      link(7 - role).credit = link(7 - role).ControlWord();  // it folds what is committed
      ++count;
    }
    return count;
  }
  std::unique_ptr<Memgest> other_;
};

TEST_F(BrokenMemberTest, I2WhoHasTheLastCopyOfAnotherLogIsNotAbandoned) {
  AppendOther();
  const int count = AppendWithout(3, 0, 1000);
  EXPECT_GT(count, 100);
  EXPECT_LE(count, static_cast<int>(LogRetention::kShippedMax));
  EXPECT_FALSE(writer(3)->abandoned());
  EXPECT_TRUE(log_.Stuck(*memgests_[kA.value()])) << "puts would wait for room";
  BeginEpoch();
  ASSERT_OK(Rejoin(3, {{MemgestId(3), 0, 1}}));
}

TEST_F(BrokenMemberTest, WhoIsNotNeededIsAbandoned) {
  EXPECT_EQ(AppendWithout(3, 0, 1000), 1000) << "nothing is in the log of which it has all";
  EXPECT_TRUE(writer(3)->abandoned());
}

// Step 5: it would get nothing but what its new ring holds before the epoch is Normal, and never
// have all of it.
TEST_F(BrokenMemberTest, Step5WhoIsNotNeededNeverLacksMoreThanItsRingHolds) {
  const std::size_t size = writer(3)->ring_size() / 32;
  EXPECT_EQ(AppendWithout(3, size, 64), 64);
  EXPECT_TRUE(writer(3)->abandoned());
  BeginEpoch();
  EXPECT_THAT(Rejoin(3, {{kA, 0, 0}}), StatusIs(absl::StatusCode::kOutOfRange));
}

// What counts and has values yet to come is no other copy.
TEST_F(BrokenMemberTest, I2AnotherMemberWithoutItsValuesIsNoCopy) {
  memgests_[kB.value()]->members().SetActive(kAllRoles, ~RoleBit(Role(3)));
  Append(kB);
  Turn({3, 4});
  EXPECT_LT(AppendWithout(4, 0, 1000), 1000);
  EXPECT_FALSE(writer(4)->abandoned());
}

// A member that is broken is not dead: with it, as many others may be lost as a memgest promises.
TEST_F(BrokenMemberTest, I2WithWhoIsAbandonedAsManyLossesAreSurvivedAsEver) {
  protocol::MemgestDescriptor coded;
  coded.scheme = protocol::Scheme::kStretchedReedSolomon;
  coded.r = 0;
  coded.k = 3;
  coded.m = 2;
  protocol::MemgestDescriptor all;
  all.r = 3;
  all.commit = protocol::CommitRule::kAll;
  for (protocol::MemgestDescriptor descriptor : {coded, all}) {
    descriptor.id = MemgestId(4);
    Memgest sturdy(&device_, descriptor, ShardId(0), 3, 2, &lines_);
    ASSERT_EQ(sturdy.failures_tolerated(), 2);
    log_.Attach(&sturdy, kAllRoles);
    sturdy.ContinueAt(5);  // it was used
    EXPECT_LT(AppendWithout(3, 0, 400), 400) << "its other member alone is no two";
    EXPECT_FALSE(writer(3)->abandoned());
    log_.Detach(&sturdy);
    BeginEpoch();
    for (const int role : {3, 4})
      ASSERT_OK(Rejoin(role, {{kA, 0, memgests_[kA.value()]->next_index() - 1}}));
    Name(kAllRoles);
    other_->members().SetActive(kAllRoles);
    log_.Normal();
  }
}

// Its bytes must be whole in the other's ring.
TEST_F(BrokenMemberTest, I2NoMoreIsAppendedThanAnotherRingHolds) {
  AppendOther();
  const int count = AppendWithout(3, 20'000, 1000);
  EXPECT_GT(count, 2);
  EXPECT_LT(static_cast<std::size_t>(count) * 20'000, kRingSizeMin / 2);
  EXPECT_TRUE(log_.Stuck(*memgests_[kA.value()]));
}

// ... and what goes on in logs that it is not in takes the place of what it lacks, too.
TEST_F(BrokenMemberTest, I2NorIsMoreAppendedToLogsThatItIsNotIn) {
  memgests_[kB.value()]->members().SetActive(kAllRoles, ~RoleBit(Role(3)));
  Append(kB);
  Turn({3, 4});
  link(4).to_member.failed = true;
  Append(kB);
  Turn({3, 4});
  const std::string bytes(20'000, 'x');
  const rdma::Sge sge = LogLink::SgeOf(bytes.data(), bytes.size());
  EntryPayload payload;
  payload.sges = absl::MakeConstSpan(&sge, 1);
  std::size_t count = 0;
  for (; count < 1000 && log_.HasRoom(*other_, 1024 + bytes.size(), false); ++count) {
    EntryFields fields = Fields(++count_);
    fields.payload_length = static_cast<std::uint32_t>(bytes.size());
    log_.Append(*other_, fields, absl::MakeConstSpan(&payload, 1));
    Turn({3, 4});
    link(3).reader->FindTail([](const EntryView&) {});
  }
  EXPECT_GT(count, 2u);
  EXPECT_LT(count * bytes.size(), kRingSizeMin / 2);
}

// L7: a learner gets everything behind its snapshot, counts for nothing, and holds nobody up.
TEST_F(ShardLogEpochTest, L7ALearnerGetsEveryEntryAndDoesNotCount) {
  BeginEpoch();
  ASSERT_OK(Rejoin(4, {}));
  Name(RoleMask{1} << 4);
  log_.Normal();
  for (int i = 0; i < 3; ++i) Append(kA);
  Turn({4});
  depth_ = 16;
  ASSERT_OK(Rejoin(3, {{kA, 0, 3}}));  // a snapshot taken now
  Append(kA);
  Turn({3});
  EXPECT_EQ(committed_.size(), 3u);
  Turn({4});
  EXPECT_EQ(committed_.size(), 4u);
  // It takes nothing for a while; the others go on, and later it gets what it missed.
  for (std::uint64_t i = 0; i < LogWriter::kStagedMax + 20; ++i) {
    Append(i % 2 == 0 ? kA : kB);
    if (i % 16 == 15) Turn({4});
  }
  Turn({4});
  EXPECT_EQ(committed_.size(), count_);
  EXPECT_TRUE(log_.links()[1].behind);
  // L7: both sets, from the proposal on; it may be proposed when the learner has everything.
  for (auto& [id, memgest] : memgests_) memgest->members().Propose(kAllRoles);
  log_.MarkProposal();
  EXPECT_FALSE(log_.CaughtUp(Role(3)));
  for (int i = 0; i < 40; ++i) Turn({3, 4});
  EXPECT_TRUE(log_.CaughtUp(Role(3)));
  EXPECT_FALSE(log_.links()[1].behind);
  std::string expected = "A4";
  for (std::uint64_t a = 5, b = 1; a + b <= count_ + 1;) {
    expected += " A" + std::to_string(a++);
    expected += " B" + std::to_string(b++);
  }
  EXPECT_EQ(RingOf(3), expected);
}

// The last entries may be of logs that a role is no member of: it has nothing to acknowledge.
TEST_F(ShardLogEpochTest, L7WhoLacksNothingHasCaughtUp) {
  protocol::MemgestDescriptor descriptor;
  descriptor.id = MemgestId(3);
  descriptor.r = 2;  // role 3 alone
  Memgest other(&device_, descriptor, ShardId(0), 3, 2, &lines_);
  log_.Attach(&other, kAllRoles);
  Append(kA);
  Turn({3, 4});
  EntryPayload nothing;
  log_.Append(other, Fields(++count_), absl::MakeConstSpan(&nothing, 1));
  log_.MarkProposal();
  EXPECT_TRUE(log_.CaughtUp(Role(4)));
  EXPECT_FALSE(log_.CaughtUp(Role(3)));
  Append(kA);
  log_.MarkProposal();
  EXPECT_FALSE(log_.CaughtUp(Role(4)));
  Turn({3, 4});
  EXPECT_TRUE(log_.CaughtUp(Role(3)));
  EXPECT_TRUE(log_.CaughtUp(Role(4)));
  log_.Detach(&other);
}

// A join that is given up, and begins again behind another snapshot.
TEST_F(ShardLogEpochTest, L7ALearnerThatIsRemovedHoldsNobodyUp) {
  BeginEpoch();
  ASSERT_OK(Rejoin(4, {}));
  Name(RoleMask{1} << 4);
  log_.Normal();
  ASSERT_OK(Rejoin(3, {}));
  while (log_.HasRoom(*memgests_[1], 1024, false)) {
    Append(kA);
    Turn({4});
  }
  EXPECT_TRUE(log_.IsHeldUpBy(Role(3)));
  EXPECT_FALSE(log_.IsHeldUpBy(Role(4)));
  EXPECT_TRUE(log_.IsBehind(Role(3)));
  EXPECT_FALSE(log_.Counts(Role(3)));
  EXPECT_TRUE(log_.Counts(Role(4)));
  log_.RemoveWriter(Role(3));
  EXPECT_FALSE(log_.IsHeldUpBy(Role(3)));
  Turn({4});
  Append(kA);
  Turn({4});
  EXPECT_EQ(committed_.size(), count_);
  ASSERT_OK(Rejoin(3, {{kA, 0, count_}}));
  Append(kA);
  Turn({3, 4});
  EXPECT_EQ(RingOf(3), "A" + std::to_string(count_));
}

}  // namespace
}  // namespace ring::memgest
