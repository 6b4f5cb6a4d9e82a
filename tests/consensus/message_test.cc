#include "consensus/message.h"

#include <cstddef>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/support/random_seed.h"
#include "tests/support/status_matchers.h"

namespace ring::consensus {
namespace {

using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

Configuration SomeConfiguration() {
  Configuration configuration;
  configuration.AddVoter(ServerId(3));
  configuration.AddVoter(ServerId(1));
  configuration.AddLearner(ServerId(7));
  return configuration;
}

std::vector<Message> OneOfEach() {
  std::vector<Message> messages;
  for (int type = 1; type <= static_cast<int>(kMessageTypeMax); ++type) {
    Message m;
    m.type = static_cast<MessageType>(type);
    m.from = ServerId(0x0001'0000'0000'0001);
    m.to = ServerId(0x0002'0000'0000'0002);
    m.term = 9;
    messages.push_back(m);
  }
  const auto of = [&messages](MessageType type) -> Message& {
    return messages[static_cast<std::size_t>(type) - 1];
  };
  for (const auto type : {MessageType::kPreVote, MessageType::kVote}) {
    of(type).index = 4;
    of(type).log_term = 3;
  }
  of(MessageType::kVote).force = true;
  of(MessageType::kVoteReply).reject = true;
  Message& append = of(MessageType::kAppend);
  append.index = 10;
  append.log_term = 2;
  append.commit = 8;
  append.entries = {{2, 11, EntryKind::kCommand, "abc"},
                    {9, 12, EntryKind::kNoop, ""},
                    {9, 13, EntryKind::kConfig, EncodeConfiguration(SomeConfiguration())}};
  Message& reply = of(MessageType::kAppendReply);
  reply.reject = true;
  reply.index = 10;
  reply.hint = 7;
  reply.log_term = 1;
  of(MessageType::kHeartbeat).commit = 5;
  of(MessageType::kHeartbeat).round = 6;
  of(MessageType::kHeartbeatReply).round = 6;
  Message& snapshot = of(MessageType::kSnapshot);
  snapshot.index = 40;
  snapshot.log_term = 4;
  snapshot.offset = 2;
  snapshot.total = 10;
  snapshot.data = std::string("\0\1\2", 3);
  of(MessageType::kSnapshotReply).index = 40;
  of(MessageType::kSnapshotReply).offset = 5;
  of(MessageType::kReadRequest).round = 77;
  of(MessageType::kReadReply).round = 77;
  of(MessageType::kReadReply).index = 12;
  return messages;
}

TEST(Message, EveryTypeComesBackAsItWas) {
  for (const Message& m : OneOfEach()) {
    const auto decoded = DecodeMessage(EncodeMessage(m));
    ASSERT_OK(decoded);
    EXPECT_EQ(*decoded, m) << static_cast<int>(m.type);
  }
}

TEST(Message, SizesAreThoseThatBatchesAreCutBy) {
  Message append = OneOfEach()[static_cast<std::size_t>(MessageType::kAppend) - 1];
  append.entries.resize(1);
  EXPECT_EQ(EncodeMessage(append).size(), kAppendOverhead + kEntryOverhead + 3);
  const Message snapshot = OneOfEach()[static_cast<std::size_t>(MessageType::kSnapshot) - 1];
  EXPECT_EQ(EncodeMessage(snapshot).size(), kSnapshotOverhead + 3);
  EXPECT_EQ(EncodeConfiguration(SomeConfiguration()).size(), EncodedSize(SomeConfiguration()));
}

TEST(Message, NoPrefixIsAMessage) {
  for (const Message& m : OneOfEach()) {
    const std::string bytes = EncodeMessage(m);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(DecodeMessage(absl::string_view(bytes).substr(0, size)).ok());
    }
    EXPECT_FALSE(DecodeMessage(bytes + '\0').ok());
  }
}

TEST(Message, AnyOneByteChangedIsAnErrorOrAnotherMessage) {
  for (const Message& m : OneOfEach()) {
    const std::string bytes = EncodeMessage(m);
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ 0x41);
      const auto decoded = DecodeMessage(changed);
      if (!decoded.ok()) continue;
      EXPECT_EQ(EncodeMessage(*decoded), changed);
    }
  }
}

TEST(Message, RandomBytesNeverReadOutside) {
  SeededRandom random(ring::testing::SeedFor("message"));
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes(random.Below(120), '\0');
    for (char& c : bytes) c = static_cast<char>(random.Next64());
    if (!bytes.empty()) bytes[0] = static_cast<char>(random.Below(15));
    if (const auto decoded = DecodeMessage(bytes); decoded.ok()) {
      EXPECT_EQ(EncodeMessage(*decoded), bytes);
    }
  }
}

TEST(Message, TermsOfEntriesNeverFallNorExceedTheLeaders) {
  Message append = OneOfEach()[static_cast<std::size_t>(MessageType::kAppend) - 1];
  append.entries[1].term = 1;
  EXPECT_THAT(DecodeMessage(EncodeMessage(append)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("entry_term")));
  append.entries[1].term = 10;
  EXPECT_THAT(DecodeMessage(EncodeMessage(append)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("entry_term")));
}

TEST(Message, AnEntryCountBeyondTheBytesIsRefusedBeforeMemoryIsTaken) {
  Message append = OneOfEach()[static_cast<std::size_t>(MessageType::kAppend) - 1];
  append.entries.clear();
  std::string bytes = EncodeMessage(append);
  bytes.replace(bytes.size() - 4, 4, "\xff\xff\xff\xff");
  EXPECT_THAT(DecodeMessage(bytes),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("entry_count")));
}

TEST(Message, AConfigurationIsSortedDistinctAndHasVoters) {
  EXPECT_THAT(DecodeConfiguration(EncodeConfiguration({})),
              StatusIs(absl::StatusCode::kInvalidArgument));
  Configuration twice;
  twice.voters = {ServerId(1), ServerId(1)};
  EXPECT_FALSE(DecodeConfiguration(EncodeConfiguration(twice)).ok());
  twice.voters = {ServerId(2), ServerId(1)};
  EXPECT_FALSE(DecodeConfiguration(EncodeConfiguration(twice)).ok());
  twice.voters = {ServerId(1)};
  twice.learners = {ServerId(1)};
  EXPECT_FALSE(DecodeConfiguration(EncodeConfiguration(twice)).ok());
  const auto decoded = DecodeConfiguration(EncodeConfiguration(SomeConfiguration()));
  ASSERT_OK(decoded);
  EXPECT_EQ(*decoded, SomeConfiguration());
}

TEST(Message, ASnapshotComesBackAsItWas) {
  Snapshot snapshot{40, 4, SomeConfiguration(), std::string("a\0b", 3)};
  const std::string bytes = EncodeSnapshot(snapshot);
  const auto decoded = DecodeSnapshot(bytes);
  ASSERT_OK(decoded);
  EXPECT_EQ(*decoded, snapshot);
  for (std::size_t size = 0; size < bytes.size() - snapshot.data.size(); ++size) {
    EXPECT_FALSE(DecodeSnapshot(absl::string_view(bytes).substr(0, size)).ok());
  }
}

TEST(ServerId, HoldsANodeAndANumber) {
  const ServerId id = MakeServerId(513, 0x1234'5678'9abc);
  EXPECT_EQ(NodeOf(id), 513);
  EXPECT_EQ(id.value() & kServerNumberMax, 0x1234'5678'9abcu);
}

}  // namespace
}  // namespace ring::consensus
