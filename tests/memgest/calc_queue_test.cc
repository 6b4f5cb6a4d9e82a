// S11 and F15: puts whose deltas the device calculates, soundly, late, wrong, or not at all.
#include "memgest/calc_queue.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/memgest/coded_group.h"

namespace ring::memgest {
namespace {

enum class Fate {
  kRight,
  kFails,
  kWrongBytes,  // ... beside the CRC of the right ones
  kWrongBoth,   // wrong bytes, and the CRC of those
  kWrongCrc,
};

// A device's queue pair to itself: CALCs are done in order, when the test lets them.
class CalcTwin final : public rdma::QueuePair, public rdma::CompletionQueue {
 public:
  std::uint32_t number() const override { return 1; }
  rdma::QpState state() const override { return state_; }
  absl::Status PostSend(const rdma::WorkRequest& request) override {
    RING_CHECK(request.opcode == rdma::Opcode::kCalc && request.next == nullptr);
    const rdma::CalcArguments& calc = *request.calc;
    Posted posted{.wr_id = request.wr_id, .calculator = calc.calculator};
    for (const rdma::Sge& input : calc.inputs) posted.inputs.push_back(input.address);
    for (const rdma::Sge& output : calc.outputs) posted.outputs.push_back(output.address);
    posted.crcs.assign(calc.crc_out, calc.crc_out + calc.outputs.size());
    posted.length = calc.inputs[0].length;
    queue_.push_back(posted);
    ++posted_count;
    if (!hold) Run();
    return absl::OkStatus();
  }
  absl::Status PostRecv(std::uint64_t, absl::Span<const rdma::Sge>) override {
    return absl::UnimplementedError("twin");
  }
  // Nothing of the jobs' memory is touched from here on.
  void Reset() override {
    state_ = rdma::QpState::kReset;
    for (const Posted& posted : queue_) Complete(posted, rdma::WcStatus::kFlushed);
    queue_.clear();
  }
  std::uint32_t PeerSleep() const override { return 0; }
  absl::string_view transport() const override { return "local"; }
  std::size_t Poll(absl::Span<rdma::WorkCompletion> completions) override {
    const std::size_t count = std::min(completions.size(), done_.size());
    for (std::size_t i = 0; i < count; ++i, done_.pop_front()) completions[i] = done_.front();
    return count;
  }
  void Arm() override {}

  void Run() {
    while (!queue_.empty() && state_ == rdma::QpState::kReadyToSend) {
      const Posted posted = queue_.front();
      queue_.pop_front();
      Execute(posted);
    }
  }

  bool hold = false;
  std::deque<Fate> fates;  // of the next ones; then all are right
  int posted_count = 0;

 private:
  struct Posted {
    std::uint64_t wr_id = 0;
    const rdma::Calculator* calculator = nullptr;
    std::vector<const std::byte*> inputs = {};
    std::vector<std::byte*> outputs = {};
    std::vector<std::uint32_t*> crcs = {};
    std::size_t length = 0;
  };

  void Complete(const Posted& posted, rdma::WcStatus status) {
    rdma::WorkCompletion completion;
    completion.wr_id = posted.wr_id;
    completion.qp = this;
    completion.status = status;
    completion.opcode = rdma::Opcode::kCalc;
    done_.push_back(completion);
  }
  void Execute(const Posted& posted) {
    Fate fate = Fate::kRight;
    if (!fates.empty()) {
      fate = fates.front();
      fates.pop_front();
    }
    if (fate == Fate::kFails) {
      // Nothing may be relied on.
      for (std::byte* const output : posted.outputs) std::memset(output, 0xee, posted.length);
      state_ = rdma::QpState::kError;
      Complete(posted, rdma::WcStatus::kCalcFailed);
      for (const Posted& flushed : queue_) Complete(flushed, rdma::WcStatus::kFlushed);
      queue_.clear();
      return;
    }
    std::vector<std::uint32_t> crcs(posted.outputs.size());
    ASSERT_TRUE(posted.calculator->Run(posted.inputs.data(), posted.outputs.data(), posted.length,
                                       crcs.data()));
    std::byte* const last = posted.outputs.back();
    if (fate == Fate::kWrongBytes || fate == Fate::kWrongBoth)
      last[posted.length - 1] ^= std::byte{4};
    if (fate == Fate::kWrongBoth) crcs.back() = Crc32c(last, posted.length);
    if (fate == Fate::kWrongCrc) crcs.back() ^= 1;
    for (std::size_t i = 0; i < crcs.size(); ++i) *posted.crcs[i] = crcs[i];
    Complete(posted, rdma::WcStatus::kSuccess);
  }

  rdma::QpState state_ = rdma::QpState::kReadyToSend;
  std::deque<Posted> queue_;
  std::deque<rdma::WorkCompletion> done_;
};

class CalcQueueTest : public ::testing::Test {
 protected:
  // SRS(3,2) over three shards, all of whose logs share the queue.
  void Start(std::uint32_t check_every = 1) {
    queue_ = std::make_unique<CalcQueue>(check_every);
    group_ = std::make_unique<CodedGroup>(1, 3, 2, 3);
    for (int i = 0; i < 3; ++i) group_->shard(i).log->set_calc_queue(queue_.get());
    Reopen();
  }
  void Reopen() {
    twin_ = std::make_unique<CalcTwin>();
    queue_->Open(twin_.get(), twin_.get());
  }
  bool Put(int i, std::uint32_t length = 3000) { return group_->Put(i, length); }
  // Whether the shard's newest value is in its slot.
  bool SlotIsZero(int i) {
    const Slot slot = group_->shard(i).live.back().slot;
    const std::byte* const bytes = group_->shard(i).memgest->heap().At(slot.offset_cells);
    return std::all_of(bytes, bytes + 64, [](std::byte one) { return one == std::byte{0}; });
  }
  std::uint64_t Executed(int i, int j) { return group_->link(i, j).to_member.executed; }
  // All that was put is folded, and every row of both parities is right.
  void ExpectRows() {
    group_->Settle();
    for (int j = 0; j < 2; ++j) {
      const CodedGroup::Compared compared = group_->Compare(j);
      EXPECT_GT(compared.rows, 0);
      EXPECT_EQ(compared.wrong, 0) << compared.first_wrong;
    }
  }

  std::unique_ptr<CalcQueue> queue_;
  std::unique_ptr<CalcTwin> twin_;
  std::unique_ptr<CodedGroup> group_;
};

TEST_F(CalcQueueTest, S11BothPathsPutTheSameBytesIntoTheLogs) {
  Start();
  CodedGroup host(1, 3, 2, 3);
  for (int n = 0; n < 40; ++n) {
    const auto length = static_cast<std::uint32_t>(1 + 397 * n % 9000);
    for (CodedGroup* const group : {&host, group_.get()}) {
      ASSERT_TRUE(group->Put(n % 3, length));
      group->Turn(n % 3);
    }
  }
  EXPECT_EQ(queue_->counters().calculated, 40u);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 2; ++j) {
      EXPECT_EQ(std::memcmp(host.link(i, j).ring(), group_->link(i, j).ring(),
                            host.link(i, j).ring_size()),
                0)
          << "shard=" << i << " parity=" << j;
    }
  }
  ExpectRows();
}

TEST_F(CalcQueueTest, S11TheSlotKeepsItsBytesAndNothingLeavesUntilTheDeltasAreThere) {
  Start();
  twin_->hold = true;
  ASSERT_TRUE(Put(0));
  group_->Turn(0);
  EXPECT_TRUE(SlotIsZero(0));
  EXPECT_EQ(Executed(0, 0) + Executed(0, 1), 0u);
  EXPECT_FALSE(group_->shard(0).log->dirty());  // nothing that could be done without the device
  EXPECT_FALSE(group_->shard(0).log->quiet());
  twin_->Run();
  group_->Turn(0);
  EXPECT_FALSE(SlotIsZero(0));
  EXPECT_GT(Executed(0, 0), 0u);
  ExpectRows();
}

TEST_F(CalcQueueTest, S11WhatComesBehindACalcLeavesBehindItAndDoesNotKeepItLonger) {
  Start();
  twin_->hold = true;
  ASSERT_TRUE(Put(0));
  ASSERT_TRUE(Put(0));  // of the same turn
  group_->Turn(0);
  ASSERT_TRUE(Put(0));  // of a later one: by the host
  EXPECT_EQ(twin_->posted_count, 2);
  EXPECT_FALSE(SlotIsZero(0));
  ASSERT_TRUE(Put(1));  // another shard waits for nothing of this one
  EXPECT_EQ(twin_->posted_count, 3);
  group_->Turn(0);
  EXPECT_EQ(Executed(0, 0), 0u);
  twin_->hold = false;
  twin_->Run();
  group_->Turn(0);
  EXPECT_GE(Executed(0, 0), 3u);
  ASSERT_TRUE(Put(0));
  EXPECT_EQ(twin_->posted_count, 4);  // and the device is asked again
  ExpectRows();
}

TEST_F(CalcQueueTest, S11APutIntoASlotThatWasFreedReadsWhatIsThere) {
  Start();
  for (int n = 0; n < 60; ++n) {
    const int i = n % 3;
    ASSERT_TRUE(Put(i, static_cast<std::uint32_t>(1000 + 61 * n)));
    if (n % 2 == 0) group_->Collect(i);
    group_->Settle();
  }
  EXPECT_EQ(queue_->counters().calculated, 60u);
  ExpectRows();
}

TEST_F(CalcQueueTest, F15WhatFailsIsDoneHereAndLeavesInItsPlace) {
  Start();
  twin_->hold = true;
  twin_->fates = {Fate::kRight, Fate::kFails};
  for (int n = 0; n < 4; ++n) ASSERT_TRUE(Put(0));
  ASSERT_TRUE(Put(1));
  twin_->Run();
  group_->Turn(0);
  EXPECT_FALSE(queue_->open());
  EXPECT_EQ(queue_->trouble(), CalcQueue::Trouble::kFailed);
  EXPECT_EQ(queue_->counters().calculated, 1u);
  EXPECT_EQ(queue_->counters().failed, 1u);
  EXPECT_EQ(queue_->counters().redone, 4u);  // the failed one, and who was behind it
  ASSERT_TRUE(Put(0));                       // closed: the host
  ExpectRows();
  Reopen();
  ASSERT_TRUE(Put(0));
  ExpectRows();
  EXPECT_EQ(queue_->counters().calculated, 2u);
}

TEST_F(CalcQueueTest, F15AWrongResultNeverLeaves) {
  for (const Fate fate : {Fate::kWrongBytes, Fate::kWrongBoth, Fate::kWrongCrc}) {
    Start();
    twin_->fates = {Fate::kRight, fate};
    for (int n = 0; n < 3; ++n) ASSERT_TRUE(Put(0));
    group_->Turn(0);
    EXPECT_EQ(queue_->trouble(), CalcQueue::Trouble::kWrong);
    EXPECT_EQ(queue_->counters().wrong, 1u);
    EXPECT_EQ(queue_->counters().calculated, 1u);
    ExpectRows();
    group_.reset();
  }
}

TEST_F(CalcQueueTest, F15TheFirstOfAConnectionIsCheckedAndThenOneOfSoMany) {
  Start(/*check_every=*/4);
  twin_->fates = {Fate::kWrongBoth};
  ASSERT_TRUE(Put(0));
  group_->Turn(0);
  EXPECT_EQ(queue_->counters().wrong, 1u);
  Reopen();
  twin_->fates = {Fate::kRight, Fate::kRight, Fate::kRight, Fate::kRight, Fate::kWrongBoth};
  for (int n = 0; n < 5; ++n) {
    EXPECT_EQ(queue_->counters().wrong, 1u);
    ASSERT_TRUE(Put(0));
    group_->Turn(0);
  }
  EXPECT_EQ(queue_->counters().wrong, 2u);
  ExpectRows();
}

TEST_F(CalcQueueTest, F15WhatIsLateOnlyDelays) {
  Start();
  queue_->Progress(1'000);
  twin_->hold = true;
  ASSERT_TRUE(Put(0));
  group_->Turn(0);
  EXPECT_FALSE(queue_->Progress(1'000 + CalcQueue::kDeadlineNs));
  twin_->Run();
  EXPECT_TRUE(queue_->Progress(2 * CalcQueue::kDeadlineNs));  // it is looked at first
  EXPECT_TRUE(queue_->open());
  EXPECT_EQ(queue_->counters().calculated, 1u);
  ExpectRows();
}

TEST_F(CalcQueueTest, F15WhatIsOverdueIsDoneHereAndTheDeviceLetsGoOfIt) {
  Start();
  queue_->Progress(1'000);
  twin_->hold = true;
  ASSERT_TRUE(Put(0));
  ASSERT_TRUE(Put(1));
  group_->Turn(0);
  EXPECT_TRUE(queue_->Progress(1'001 + CalcQueue::kDeadlineNs));
  EXPECT_EQ(twin_->state(), rdma::QpState::kReset);
  EXPECT_EQ(queue_->trouble(), CalcQueue::Trouble::kLate);
  EXPECT_EQ(queue_->counters().redone, 2u);
  ExpectRows();
}

TEST_F(CalcQueueTest, F15AnEpochThatBeginsMeanwhileSendsTheSameDeltasAgain) {
  Start();
  twin_->hold = true;
  ASSERT_TRUE(Put(0));
  ASSERT_TRUE(Put(1));
  group_->Turn(0);
  group_->BeginEpoch(0, {0, 1});
  EXPECT_FALSE(group_->shard(0).log->calculating());
  EXPECT_EQ(queue_->trouble(), CalcQueue::Trouble::kNone);  // nobody's fault
  group_->Normal(0);
  ExpectRows();
}

TEST_F(CalcQueueTest, F15ALogThatEndsMeanwhileLeavesNothingToTheDevice) {
  Start();
  twin_->hold = true;
  ASSERT_TRUE(Put(0));
  ASSERT_TRUE(Put(1));
  group_->shard(0).log->Retire();
  EXPECT_EQ(queue_->under_way(), 0u);
  EXPECT_EQ(twin_->state(), rdma::QpState::kReset);
}

TEST_F(CalcQueueTest, F15DeltasOfABrokenMemberStayWhereTheDeviceWritesThem) {
  Start();
  for (int j = 0; j < 2; ++j) group_->link(0, j).to_member.hold = true;
  ASSERT_TRUE(Put(0));
  group_->Turn(0);
  twin_->hold = true;
  ASSERT_TRUE(Put(0));
  for (int j = 0; j < 2; ++j) {
    group_->link(0, j).to_member.failed = true;
    group_->link(0, j).to_member.Run();
  }
  for (int n = 0; n < 3; ++n) group_->Turn(0);
  for (const ShardLog::Link& link : group_->shard(0).log->links())
    ASSERT_TRUE(link.writer->broken());
  twin_->hold = false;
  twin_->Run();
  group_->Turn(0);
  EXPECT_EQ(queue_->counters().calculated, 2u);
  group_->BeginEpoch(0, {0, 1});
  group_->Normal(0);
  ExpectRows();
}

TEST_F(CalcQueueTest, S6ABaseWaitsForSlotsThatLackTheirBytes) {
  Start();
  ASSERT_TRUE(Put(0));
  group_->Settle();
  group_->Lose(1);
  for (int i = 0; i < 3; ++i) {
    group_->BeginEpoch(i, {0});
    group_->Normal(i);
    group_->Join(i, 1);
    group_->Name(i, 1);
  }
  twin_->hold = true;
  ASSERT_TRUE(Put(0));
  EXPECT_EQ(group_->Rebuild(0), ParityRebuild::Pushed::kNoRoom);
  twin_->Run();
  group_->Turn(0);
  EXPECT_EQ(group_->Rebuild(0), ParityRebuild::Pushed::kOne);
  group_->Settle(/*rebuild=*/true);
  ExpectRows();
}

}  // namespace
}  // namespace ring::memgest
