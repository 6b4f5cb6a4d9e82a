#include "memgest/log_writer.h"

#include <string>
#include <vector>

#include "tests/memgest/log_link.h"
#include "tests/support/status_matchers.h"

namespace ring::memgest {
namespace {

using ring::testing::StatusIs;

EntryFields Collect(std::uint64_t index) {
  EntryFields fields;
  fields.type = EntryType::kCollect;
  fields.index = index;
  return fields;
}
std::size_t SizeOf(std::size_t payload_length) {
  EntryFields fields = Put(1);
  fields.payload_length = static_cast<std::uint32_t>(payload_length);
  return EntrySize(fields);
}

rdma::WorkCompletion CompletionOf(const LogLink& link, std::uint64_t order) {
  rdma::WorkCompletion completion;
  completion.wr_id = (std::uint64_t{link.writer_options.writer_id} << 48) | order;
  return completion;
}

TEST(LogWriter, OneChainOneSignalPerFlush) {
  LogLink link;
  const std::string value(1000, 'v');
  EXPECT_OK(link.writer->Flush());
  EXPECT_EQ(link.to_member.chains, 0U);
  for (int i = 1; i <= 5; ++i) {
    ASSERT_TRUE(link.writer->HasRoom(SizeOf(1000), false));
    link.Append(Put(static_cast<std::uint64_t>(i)), value);
  }
  EXPECT_TRUE(link.writer->staged());
  EXPECT_EQ(link.to_member.posted, 0U);
  ASSERT_OK(link.writer->Flush());
  EXPECT_FALSE(link.writer->staged());
  EXPECT_EQ(link.to_member.chains, 1U);
  EXPECT_EQ(link.to_member.posted, 5U);
  ASSERT_EQ(link.to_member.completions.size(), 1U);
  EXPECT_EQ(link.to_member.completions[0].wr_id, (std::uint64_t{0xabcd} << 48) | 5);
  EXPECT_EQ(link.writer->position(), 5 * SizeOf(1000));
}

TEST(LogWriter, AckedOrderIsWhatCompletionsSay) {
  LogLink link;
  link.to_member.hold = true;
  for (std::uint64_t order : {3, 4, 10}) {
    link.order = order - 1;
    link.Append(Put(order), "v");
    ASSERT_OK(link.writer->Flush());
  }
  link.Poll();
  EXPECT_EQ(link.writer->acked_order(), 0U);
  link.writer->OnCompletion(CompletionOf(link, 4));
  EXPECT_EQ(link.writer->acked_order(), 4U);
  link.writer->OnCompletion(CompletionOf(link, 10));
  EXPECT_EQ(link.writer->acked_order(), 10U);
  EXPECT_FALSE(link.writer->broken());
}

TEST(LogWriter, L6StaleCompletionsCountForNothing) {
  LogLink link;
  link.to_member.hold = true;
  link.Append(Put(1), "v");
  ASSERT_OK(link.writer->Flush());
  rdma::WorkCompletion completion = CompletionOf(link, 1);
  completion.qp = &link.to_coordinator;  // another queue pair, e.g. of the epoch before
  link.writer->OnCompletion(completion);
  completion.qp = &link.to_member;
  completion.wr_id ^= std::uint64_t{1} << 50;  // another writer
  completion.status = rdma::WcStatus::kFlushed;
  link.writer->OnCompletion(completion);
  EXPECT_EQ(link.writer->acked_order(), 0U);
  EXPECT_FALSE(link.writer->broken());
}

TEST(LogWriter, CompletionOfWhatWasNeverPostedBreaks) {
  LogLink link;
  link.Append(Put(1), "v");
  link.writer->OnCompletion(CompletionOf(link, 1));
  EXPECT_TRUE(link.writer->broken());
  EXPECT_EQ(link.writer->acked_order(), 0U);
}

TEST(LogWriter, FailedCompletionBreaksAndAcksNothing) {
  LogLink link;
  link.to_member.fail_after = 1;
  link.Append(Put(1), "v");
  ASSERT_OK(link.writer->Flush());
  link.Append(Put(2), "v");
  ASSERT_OK(link.writer->Flush());
  link.Append(Put(3), "v");
  link.Poll();
  EXPECT_TRUE(link.writer->broken());
  EXPECT_EQ(link.writer->acked_order(), 1U);
  EXPECT_FALSE(link.writer->HasRoom(SizeOf(1), true));
  EXPECT_THAT(link.writer->Flush(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_FALSE(link.writer->staged());
  link.writer->AdvanceCommit(4);
  link.writer->ShareCommit();
  EXPECT_EQ(link.to_member.words, 0U);
}

TEST(LogWriter, FullSendQueueKeepsWhatIsStaged) {
  LogLink link;
  link.to_member.refuse = absl::StatusCode::kResourceExhausted;
  link.Append(Put(1), "v");
  EXPECT_THAT(link.writer->Flush(), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_TRUE(link.writer->staged());
  link.Append(Put(2), "w");
  link.to_member.refuse = absl::StatusCode::kOk;
  ASSERT_OK(link.writer->Flush());
  EXPECT_EQ(link.to_member.completions.size(), 1U);
  link.Poll();
  EXPECT_EQ(link.writer->acked_order(), 2U);

  link.to_member.refuse = absl::StatusCode::kInvalidArgument;
  link.Append(Put(3), "x");
  EXPECT_THAT(link.writer->Flush(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_TRUE(link.writer->broken());
}

TEST(LogWriter, NeverExceedsTheSendQueue) {
  for (const std::uint32_t depth : {8U, 32U, 256U}) {
    LogLink link;
    link.to_member.depth = depth;
    link.to_member.hold = true;
    link.writer_options.send_depth = depth;
    link.writer = std::make_unique<LogWriter>(link.writer_options);
    const std::string value(64, 'v');
    std::uint64_t index = 0;
    for (int round = 0; round < 200; ++round) {
      while (link.writer->HasRoom(SizeOf(64), false)) {
        link.Append(Put(++index), value);
      }
      ASSERT_OK(link.writer->Flush()) << "depth=" << depth;
      EXPECT_LE(link.to_member.posted - link.to_member.released, depth);
      if (round % 3 == 2) link.to_member.Run();
      link.Poll();
      link.writer->AdvanceCommit(link.writer->acked_order() + 1);
      link.writer->ShareCommit();
      link.credit = link.ControlWord();
      ASSERT_FALSE(link.writer->broken()) << "depth=" << depth;
    }
    EXPECT_GT(index, depth);
  }
}

TEST(LogWriter, ControlWordsAloneDoNotFillTheSendQueue) {
  LogLink link;
  link.to_member.depth = 64;
  link.writer_options.send_depth = 64;
  link.writer = std::make_unique<LogWriter>(link.writer_options);
  link.to_member.hold = true;
  for (std::uint64_t i = 1; i <= 60; ++i) link.Append(Put(i), "v");
  ASSERT_OK(link.writer->Flush());
  link.to_member.hold = false;
  link.to_member.Run();
  link.Poll();
  // One entry a turn becomes committed: a control word a turn, and no entries in between.
  for (std::uint64_t i = 1; i <= 60; ++i) {
    link.writer->AdvanceCommit(i + 1);
    link.writer->ShareCommit();
    link.Poll();
    EXPECT_EQ(link.ControlWord(), link.writer->commit_position());
  }
  EXPECT_EQ(link.to_member.words, 60U);
  EXPECT_LT(link.to_member.posted - link.to_member.released, 32U);
}

TEST(LogWriter, CommitPositionFollowsCommittedOrders) {
  LogLink link;
  link.to_member.hold = true;
  std::vector<std::uint64_t> ends;
  for (std::uint64_t order : {5, 9, 12}) {
    link.order = order - 1;
    link.Append(Put(order), "value");
    ends.push_back(link.writer->position());
  }
  ASSERT_OK(link.writer->Flush());
  link.writer->AdvanceCommit(5);
  EXPECT_EQ(link.writer->commit_position(), 0U);
  link.writer->AdvanceCommit(6);
  EXPECT_EQ(link.writer->commit_position(), ends[0]);
  link.writer->AdvanceCommit(12);
  EXPECT_EQ(link.writer->commit_position(), ends[1]);
  // Committed by others before this member has acknowledged: the position moves all the same.
  link.writer->AdvanceCommit(100);
  EXPECT_EQ(link.writer->commit_position(), ends[2]);
  EXPECT_EQ(link.writer->acked_order(), 0U);
  link.writer->AdvanceCommit(3);
  EXPECT_EQ(link.writer->commit_position(), ends[2]);
}

TEST(LogWriter, E5SharesTheCommitPositionWhenDrainedOrEvery64OrWhenScarce) {
  LogLink link;
  link.to_member.hold = true;
  const auto commit_one_and_share = [&] {
    link.writer->AdvanceCommit(link.order + 1);
    const std::uint64_t posted = link.to_member.posted;
    link.writer->ShareCommit();
    return link.to_member.posted > posted;
  };
  // Not drained, few entries, much room: later.
  int shared_at = 0;
  for (int i = 1; i <= 70 && shared_at == 0; ++i) {
    link.Append(Put(static_cast<std::uint64_t>(i)), "v");
    ASSERT_OK(link.writer->Flush());
    if (commit_one_and_share()) shared_at = i;
  }
  EXPECT_EQ(shared_at, 64);
  // Drained: at once.
  link.Append(Put(71), "v");
  ASSERT_OK(link.writer->Flush());
  EXPECT_FALSE(commit_one_and_share());
  link.to_member.hold = false;
  link.to_member.Run();
  link.Poll();
  EXPECT_TRUE(commit_one_and_share());
  EXPECT_FALSE(commit_one_and_share()) << "nothing new";
  // Scarce: less than a quarter is free.
  link.to_member.hold = true;
  const std::string value(32 * 1024, 'v');
  for (std::uint64_t i = 72;; ++i) {
    ASSERT_TRUE(link.writer->HasRoom(SizeOf(value.size()), false));
    link.Append(Put(i), value);
    ASSERT_OK(link.writer->Flush());
    const bool scarce = link.writer->position() > link.ring_size() / 4 * 3;
    EXPECT_EQ(commit_one_and_share(), scarce) << "position=" << link.writer->position();
    if (scarce) break;
  }
}

TEST(LogWriter, E5SharesNothingThatIsOnlyStaged) {
  LogLink link;
  link.Append(Put(1), "v");
  link.writer->AdvanceCommit(2);
  link.writer->ShareCommit();
  EXPECT_EQ(link.to_member.posted, 0U);
}

TEST(LogWriter, E5TheLastSixteenthIsForCollectionsAndDeletes) {
  LogLink link;
  const std::string value(1000, 'v');
  std::uint64_t index = 0;
  const auto settle = [&] {
    ASSERT_OK(link.writer->Flush());
    link.Poll();
  };
  while (link.writer->HasRoom(SizeOf(1000), false)) {
    link.Append(Put(++index), value);
    settle();
  }
  EXPECT_LE(link.writer->position(), link.ring_size() - link.ring_size() / 16);
  EXPECT_GT(link.writer->position() + SizeOf(1000), link.ring_size() - link.ring_size() / 16);
  const std::size_t collect_size = EntrySize(Collect(1));
  int collects = 0;
  for (; link.writer->HasRoom(collect_size, true); ++collects) {
    link.Append(Collect(++index), {});
    settle();
  }
  EXPECT_EQ(collects, static_cast<int>((link.ring_size() - link.writer->position() +
                                        static_cast<std::size_t>(collects) * collect_size) /
                                       collect_size));
  EXPECT_GT(collects, 16);
  EXPECT_LE(link.writer->position(), link.ring_size());
  // Credit for a part: room again, first for those that may use all.
  link.writer->AdvanceCommit(link.order + 1);
  link.credit = 10 * SizeOf(1000);
  EXPECT_TRUE(link.writer->HasRoom(SizeOf(1000), true));
  EXPECT_FALSE(link.writer->HasRoom(SizeOf(1000), false));
  link.credit = link.writer->position() / 2 / 64 * 64;
  EXPECT_TRUE(link.writer->HasRoom(SizeOf(1000), false));
  EXPECT_FALSE(link.writer->broken());
}

TEST(LogWriter, E5BogusCreditBreaks) {
  for (const bool beyond : {true, false}) {
    LogLink link;
    link.Append(Put(1), "v");
    link.Append(Put(2), "v");
    ASSERT_OK(link.writer->Flush());
    link.Poll();
    link.credit = link.writer->position();
    link.writer->ShareCommit();
    ASSERT_FALSE(link.writer->broken());
    EXPECT_EQ(link.writer->folded_position(), link.writer->position());
    link.credit = beyond ? link.writer->position() + 64 : link.writer->position() - 64;
    link.writer->ShareCommit();
    EXPECT_TRUE(link.writer->broken());
  }
}

TEST(LogWriter, S11PayloadAndItsCrcMayComeUntilTheFlush) {
  LogLink link;
  std::string delta(500, '\0');
  EntryFields fields = Put(1);
  fields.payload_length = 500;
  const std::size_t head_size = BuildEntryHead(fields, Epoch(5), link.head);
  const rdma::Sge sge = LogLink::SgeOf(delta.data(), delta.size());
  EntryPayload payload;
  payload.sges = absl::MakeConstSpan(&sge, 1);
  std::uint32_t* crc = link.writer->Append(1, link.head, head_size, 500, payload);
  link.order = 1;
  link.Append(Put(2), "behind");
  EXPECT_EQ(link.ValidTail(), 0U);  // nothing leaves before
  delta.assign(500, 'd');           // the calculation is done
  *crc = Crc32c(delta.data(), delta.size());
  ASSERT_OK(link.writer->Flush());
  link.Poll();
  EXPECT_EQ(link.writer->acked_order(), 2U);
  EXPECT_EQ(link.ValidTail(), link.writer->position());
}

TEST(LogWriter, StagingIsFreedByAcksInAnyPattern) {
  LogLink link(4 * kRingSizeMin, kStagingSizeMin);
  link.to_member.hold = true;
  std::size_t appended = 0;
  const std::string key(900, 'k');
  const std::string value(33, 'v');
  for (int round = 0; round < 500; ++round) {
    std::uint64_t index = link.order;
    for (int i = 0; i <= round % 7; ++i) {
      EntryFields fields = Put(++index);
      if (round % 2 == 0) fields.key = key;
      fields.payload_length = 33;
      if (!link.writer->HasRoom(EntrySize(fields), false)) break;
      link.Append(fields, value);
      ++appended;
    }
    ASSERT_OK(link.writer->Flush());
    if (round % 5 == 4) link.to_member.Run();
    link.Poll();
    link.writer->AdvanceCommit(link.writer->acked_order() + 1);
    link.writer->ShareCommit();
    EntryView entry;
    while (link.reader->Next(&entry).value()) link.reader->Consume(entry);
    ASSERT_OK(link.reader->ShareCredit(true));
  }
  EXPECT_GT(appended, 1000U);
  link.to_member.Run();
  link.Poll();
  // Everything is free again: the largest entry is admitted.
  EXPECT_TRUE(link.writer->HasRoom(kEntryHeadSizeMax + kPayloadSizeMax + 64, false));
}

TEST(LogWriter, EmptyStagingAdmitsTheLargestEntryWhereverItStopped) {
  LogLink link(kRingSizeMin, kStagingSizeMin);
  for (int i = 0; i < 32; ++i) link.Append(Put(link.order + 1), "v");  // half of the staging
  ASSERT_OK(link.writer->Flush());
  link.Poll();
  EXPECT_TRUE(link.writer->HasRoom(kEntryHeadSizeMax + kPayloadSizeMax + 64, false));
}

TEST(LogWriter, InFlightEntriesAreBounded) {
  LogLink link(4 * kRingSizeMin, 1024 * 1024);
  link.writer_options.send_depth = 4096;
  link.to_member.depth = 4096;
  link.writer = std::make_unique<LogWriter>(link.writer_options);
  while (link.writer->HasRoom(SizeOf(1), false)) {
    link.Append(Put(link.order + 1), "v");
    ASSERT_OK(link.writer->Flush());
    link.Poll();  // acked, not committed
  }
  EXPECT_EQ(link.order, LogWriter::kInFlightMax);
  link.writer->AdvanceCommit(2);
  EXPECT_TRUE(link.writer->HasRoom(SizeOf(1), false));
}

TEST(LogWriter, StagedEntriesAreBoundedUntilFlush) {
  LogLink link;
  while (link.writer->HasRoom(SizeOf(1), false)) link.Append(Put(link.order + 1), "v");
  EXPECT_EQ(link.order, LogWriter::kStagedMax);
  ASSERT_OK(link.writer->Flush());
  link.Poll();
  EXPECT_TRUE(link.writer->HasRoom(SizeOf(1), false));
}

TEST(LogWriter, MovesWithWhatIsStaged) {
  LogLink link;
  link.Append(Put(1), "first");
  link.Append(Put(2), "second");
  LogWriter moved(std::move(*link.writer));
  ASSERT_OK(moved.Flush());
  EXPECT_EQ(link.ValidTail(), moved.position());
}

}  // namespace
}  // namespace ring::memgest
