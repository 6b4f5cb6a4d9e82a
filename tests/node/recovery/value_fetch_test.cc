// Values of replicated memgests at a coordinator that took its shard over, of sources that a test
// answers for: E3, S5, S12, F10.
#include "ring/node/recovery/value_fetch.h"

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/coordinator/shard_harness.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using coordinator::Bytes;
using coordinator::kRep3;
using protocol::Outcome;

constexpr NodeId kFirst{13};
constexpr NodeId kSecond{14};

// Shard 0 of group 0: role 0 took it over, the holders of roles 3 and 4 have all values.
class ValueFetchTest : public ::testing::Test {
 protected:
  struct Call {
    NodeId source;
    recovery::FetchRequest request;
    ControlReply done;
    CallWait wait = CallWait::kAsSaid;
  };

  ValueFetchTest()
      : fetch_(
            [this](NodeId source, const recovery::FetchRequest& request, std::uint32_t,
                   CallWait wait, ControlReply done) {
              calls_.push_back({source, request, std::move(done), wait});
            },
            &pace_, GroupId(0), ShardId(0), [] {}) {}

  void TakeOver(const std::string& value) {
    value_ = value;
    harness_.Run(
        harness_.Put(kRep3, "k", value, {.large = value.size() > memgest::kPayloadSizeMax}));
    ServeWhatWasPut();
    last_index_ = harness_.shard().FindMemgest(kRep3)->next_index() - 1;
    get_ = harness_.Get("k");
    harness_.Turns(3);
    ASSERT_EQ(harness_.wanted().size(), 1u);
    wanted_ = harness_.wanted()[0];
    fetch_.Want(wanted_.line, wanted_.version);
  }
  // The role of who has it all moves here, and the shard serves.
  void ServeWhatWasPut() {
    harness_.Settle();
    harness_.TakeOver();
    fetch_.Attach(&harness_.shard());
    harness_.SetFlow(true, true);
    harness_.Normal();
    fetch_.SetSources(harness_.epoch(), Record(kBoth));
  }
  // Many values of that size, all of which are wanted.
  void TakeOverMany(std::size_t count, std::size_t size) {
    for (std::size_t i = 0; i < count; ++i)
      harness_.Run(harness_.Put(kRep3, KeyAt(i), Bytes(size, i),
                                {.large = size > memgest::kPayloadSizeMax}));
    ServeWhatWasPut();
    for (std::size_t i = 0; i < count; ++i) {
      lines_[harness_.HeadLine(KeyAt(i))] = Bytes(size, i);
      gets_.push_back(harness_.Get(KeyAt(i)));
    }
    harness_.Turns(3);
    ASSERT_EQ(harness_.wanted().size(), count);
    for (const coordinator::ShardHarness::Wanted& one : harness_.wanted())
      fetch_.Want(one.line, one.version);
  }
  static std::string KeyAt(std::size_t i) { return "k" + std::to_string(i); }
  const std::string& ValueAt(std::uint32_t line) { return lines_.at(line); }
  static constexpr std::uint32_t kBoth = 0b11000;
  static cluster::NormalRecord Record(std::uint32_t complete, std::uint32_t active = 0b11001) {
    cluster::NormalRecord record;
    record.holders.resize(5);
    for (std::size_t i = 0; i < record.holders.size(); ++i)
      record.holders[i].node = NodeId(static_cast<std::uint32_t>(10 + i));
    cluster::MemgestNormal set;
    set.id = kRep3;
    set.active = active;
    set.complete = complete;
    record.memgests.push_back(set);
    return record;
  }
  // The present call, if there is one once all that is due was asked.
  std::optional<Call> Take() {
    fetch_.Progress(now_ns_ += 1'000'000'000);
    if (calls_.empty()) return std::nullopt;
    Call call = std::move(calls_.front());
    calls_.pop_front();
    return call;
  }
  void Give(Call& call, const std::string& value) {
    const std::size_t size = recovery::kValuePieceSize;
    const std::size_t count = (value.size() + size - 1) / size;
    call.done(recovery::EncodeFetchAnswer(
        {0, static_cast<std::uint32_t>(count),
         absl::string_view(value).substr(call.request.piece * size, size)}));
  }
  std::uint64_t LostCount() { return harness_.shard().FindMemgest(kRep3)->lost_count; }
  // `answer` of each call, until nothing is asked any more. How often each was asked.
  template <class Answer>
  std::map<NodeId, int> Exhaust(Answer answer) {
    std::map<NodeId, int> asked;
    for (int i = 0; i < 1000; ++i) {
      std::optional<Call> call = Take();
      if (!call.has_value()) return asked;
      ++asked[call->source];
      call->done(answer(call->source));
    }
    return asked;
  }
  void ExpectServed() {
    EXPECT_EQ(harness_.Run(get_).outcome, Outcome::kOk);
    EXPECT_EQ(harness_.answer(get_).value, value_);
    EXPECT_EQ(LostCount(), 0u);
  }

  coordinator::ShardHarness harness_;
  Pace pace_{std::uint64_t{1} << 40, std::uint64_t{1} << 40};
  std::deque<Call> calls_;
  ValueFetch fetch_;
  coordinator::ShardHarness::Wanted wanted_;
  std::string value_;
  std::uint64_t last_index_ = 0;
  std::uint64_t now_ns_ = 1'000'000'000;
  int get_ = 0;
  std::map<std::uint32_t, std::string> lines_;
  std::vector<int> gets_;
};

TEST_F(ValueFetchTest, F10OneFlippedBitInAnAnswerIsAskedForOfTheNextSource) {
  TakeOver(Bytes(500, 1));
  std::optional<Call> first = Take();
  ASSERT_TRUE(first.has_value());
  std::string damaged = value_;
  damaged[77] = static_cast<char>(damaged[77] ^ 4);
  Give(*first, damaged);
  harness_.Turns(3);
  EXPECT_FALSE(harness_.answered(get_));
  EXPECT_EQ(LostCount(), 0u);
  std::optional<Call> second = Take();
  ASSERT_TRUE(second.has_value());
  EXPECT_NE(second->source, first->source);
  Give(*second, value_);
  ExpectServed();
}

// S12: nothing of it comes into the slot, whatever its length is.
TEST_F(ValueFetchTest, S12BytesThatAreNotTheVersionsLeaveTheSlotAsItWas) {
  TakeOver(Bytes(500, 1));
  for (const std::string& wrong :
       {Bytes(500, 2), Bytes(499, 1), Bytes(501, 1), value_ + value_.substr(0, 100)}) {
    std::optional<Call> call = Take();
    ASSERT_TRUE(call.has_value());
    const memgest::MetadataLine& line = harness_.shard().lines().line(wanted_.line);
    memgest::HeapSpace& heap = harness_.shard().FindMemgest(kRep3)->heap();
    ASSERT_OK(heap.Ensure(line.offset_cells, 8));
    const std::string before(reinterpret_cast<const char*>(heap.At(line.offset_cells)), 500);
    Give(*call, wrong);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(heap.At(line.offset_cells)), 500), before);
    EXPECT_NE(line.flags & memgest::kAbsent, 0);
  }
  std::optional<Call> call = Take();
  ASSERT_TRUE(call.has_value());
  Give(*call, value_);
  ExpectServed();
}

// One piece of several is damaged: all of them are asked for again.
TEST_F(ValueFetchTest, F10AValueOfSeveralPiecesBeginsAgainAtTheNextSource) {
  TakeOver(Bytes(recovery::kValuePieceSize + 1000, 1));
  std::optional<Call> first = Take();
  ASSERT_TRUE(first.has_value());
  Give(*first, Bytes(value_.size(), 2));
  std::optional<Call> rest = Take();
  ASSERT_TRUE(rest.has_value());
  EXPECT_EQ(rest->source, first->source);
  EXPECT_EQ(rest->request.piece, 1u);
  Give(*rest, value_);
  for (std::uint32_t piece = 0; piece < 2; ++piece) {
    std::optional<Call> again = Take();
    ASSERT_TRUE(again.has_value());
    EXPECT_NE(again->source, first->source);
    EXPECT_EQ(again->request.piece, piece);
    Give(*again, value_);
  }
  ExpectServed();
}

TEST_F(ValueFetchTest, S12ASourceThatSendsMoreThanTheValueIsLeftForTheNext) {
  ASSERT_NO_FATAL_FAILURE(TakeOver(std::string(100, 'v')));
  std::optional<Call> call = Take();
  ASSERT_TRUE(call.has_value());
  const NodeId liar = call->source;
  call->done(recovery::EncodeFetchAnswer({0, 1'000'000, std::string(101, 'v')}));
  call = Take();
  ASSERT_TRUE(call.has_value());
  EXPECT_NE(call->source, liar);
  EXPECT_EQ(call->request.piece, 0u);
  Give(*call, value_);
  ExpectServed();
}

TEST_F(ValueFetchTest, E3ASourceThatHasNotFoldedTheAdoptedLogDoesNotRefuse) {
  TakeOver(Bytes(500, 1));
  for (int i = 0; i < 4 * ValueFetch::kRefusalsOfEach; ++i) {
    std::optional<Call> call = Take();
    ASSERT_TRUE(call.has_value());
    ASSERT_EQ(call->request.index, last_index_);
    ASSERT_EQ(call->request.memgests, std::vector<MemgestId>{kRep3});
    call->done(absl::UnavailableError("folded index=0: retry"));
  }
  harness_.Turns(3);
  EXPECT_FALSE(harness_.answered(get_));
  EXPECT_EQ(LostCount(), 0u);
  std::optional<Call> call = Take();
  ASSERT_TRUE(call.has_value());
  Give(*call, value_);
  ExpectServed();
}

// However often one says no, another one that was not heard may have it.
TEST_F(ValueFetchTest, E3RefusalsOfOneSourceDoNotCountForAnother) {
  TakeOver(Bytes(500, 1));
  std::set<NodeId> asked;
  for (int i = 0; i < 6 * ValueFetch::kRefusalsOfEach; ++i) {
    std::optional<Call> call = Take();
    ASSERT_TRUE(call.has_value()) << i;
    asked.insert(call->source);
    call->done(call->source == kFirst
                   ? absl::StatusOr<std::string>(absl::NotFoundError("no value"))
                   : absl::StatusOr<std::string>(absl::DeadlineExceededError("silent")));
  }
  EXPECT_EQ(asked, (std::set<NodeId>{kFirst, kSecond}));
  harness_.Turns(3);
  EXPECT_FALSE(harness_.answered(get_));
  EXPECT_EQ(LostCount(), 0u);
}

TEST_F(ValueFetchTest, E3AValueThatEachSourceRefusedIsLostUntilTheNextRecord) {
  TakeOver(Bytes(500, 1));
  // The wants of the harness end with OnValue: the background does not ask for it again.
  const std::map<NodeId, int> asked = Exhaust([](NodeId source) -> absl::StatusOr<std::string> {
    if (source == kFirst) return absl::NotFoundError("no value");
    return absl::DataLossError("damaged");
  });
  EXPECT_EQ(asked.at(kFirst), ValueFetch::kRefusalsOfEach);
  EXPECT_EQ(asked.at(kSecond), ValueFetch::kRefusalsOfEach);
  EXPECT_EQ(harness_.Run(get_).outcome, Outcome::kDataLost);
  EXPECT_EQ(LostCount(), 1u);
  // Somebody came back with it.
  fetch_.SetSources(Epoch(harness_.epoch().value() + 1), Record(kBoth));
  EXPECT_EQ(LostCount(), 0u);
  get_ = harness_.Get("k");
  harness_.Turns(3);
  EXPECT_FALSE(harness_.answered(get_));
  std::optional<Call> call = Take();
  ASSERT_TRUE(call.has_value());
  EXPECT_EQ(call->request.epoch, Epoch(harness_.epoch().value() + 1));
  Give(*call, value_);
  ExpectServed();
}

// The shard goes on without it, so nobody will ever have it: who waits is told so.
TEST_F(ValueFetchTest, E8AValueOfWhichTheRecordNamesNoHolderIsLost) {
  TakeOver(Bytes(500, 1));
  EXPECT_FALSE(harness_.answered(get_));
  const Epoch next(harness_.epoch().value() + 1);
  fetch_.SetSources(next, Record(0, 0b1));
  EXPECT_EQ(harness_.Run(get_).outcome, Outcome::kDataLost);
  EXPECT_EQ(LostCount(), 1u);
  EXPECT_EQ(harness_.Run(harness_.Get("k")).outcome, Outcome::kDataLost);
  calls_.clear();
  EXPECT_FALSE(Take().has_value());
  EXPECT_FALSE(fetch_.busy());
  fetch_.SetSources(Epoch(next.value() + 1), Record(kBoth));
  EXPECT_EQ(LostCount(), 0u);
}

// A member that has not all may have this one. Who lacks it lacks it for good: it would have it
// from this very coordinator.
TEST_F(ValueFetchTest, E8WhereNobodyIsCompleteWhoIsActiveIsAskedOnce) {
  TakeOver(Bytes(500, 1));
  const Epoch next(harness_.epoch().value() + 1);
  fetch_.SetSources(next, Record(0));
  calls_.clear();
  std::optional<Call> first = Take();
  ASSERT_TRUE(first.has_value());
  first->done(absl::NotFoundError("no value"));
  std::optional<Call> second = Take();
  ASSERT_TRUE(second.has_value());
  EXPECT_NE(second->source, first->source);
  Give(*second, value_);
  ExpectServed();
}

TEST_F(ValueFetchTest, E8WhatEachActiveMemberRefusedOnceIsLost) {
  TakeOver(Bytes(500, 1));
  fetch_.SetSources(Epoch(harness_.epoch().value() + 1), Record(0));
  calls_.clear();
  const std::map<NodeId, int> asked =
      Exhaust([](NodeId) { return absl::NotFoundError("no value"); });
  EXPECT_EQ(asked, (std::map<NodeId, int>{{kFirst, 1}, {kSecond, 1}}));
  EXPECT_EQ(harness_.Run(get_).outcome, Outcome::kDataLost);
  EXPECT_EQ(LostCount(), 1u);
}

// ... and health counts all of them, whether somebody wanted them or not.
TEST_F(ValueFetchTest, E8WhatNobodyHasIsCountedInTheBackground) {
  constexpr std::uint64_t kCount = 3 * ValueFetch::kLostPerStep;
  for (std::size_t i = 0; i < kCount; ++i)
    harness_.Run(harness_.Put(kRep3, KeyAt(i), Bytes(100, i)));
  harness_.Settle();
  harness_.TakeOver();
  fetch_.Attach(&harness_.shard());
  harness_.SetFlow(true, true);
  harness_.Normal();
  EXPECT_FALSE(Take().has_value()) << "no record yet";
  EXPECT_EQ(LostCount(), 0u);
  fetch_.SetSources(harness_.epoch(), Record(0, 0b1));
  for (std::uint64_t lost = ValueFetch::kLostPerStep; lost <= kCount;
       lost += ValueFetch::kLostPerStep) {
    EXPECT_FALSE(Take().has_value());
    EXPECT_EQ(LostCount(), lost);
  }
  EXPECT_FALSE(Take().has_value());
  EXPECT_FALSE(fetch_.busy());
}

// G10: the record that follows does not name it. What waited to be asked for again would wait for
// ever, and keep others from being asked for.
TEST_F(ValueFetchTest, G10ValuesOfADeletedMemgestAreAskedForNoMore) {
  harness_.Run(harness_.Put(kRep3, "k", Bytes(500, 1)));
  ServeWhatWasPut();
  std::optional<Call> call = Take();
  ASSERT_TRUE(call.has_value());
  call->done(absl::UnavailableError("has not folded so far"));
  harness_.Run(harness_.Delete("k"));
  harness_.Settle();
  cluster::NormalRecord without = Record(kBoth);
  without.memgests.clear();
  fetch_.SetSources(harness_.epoch(), without);
  EXPECT_FALSE(Take().has_value());
  EXPECT_FALSE(Take().has_value());
  EXPECT_FALSE(fetch_.busy());
}

// F11: the others wait, and none of them for a source that is silent.
TEST_F(ValueFetchTest, F11ValuesWantedTogetherAreAskedForAFewAtATime) {
  constexpr std::size_t kCount = 3 * ValueFetch::kUnderWayMax;
  TakeOverMany(kCount, 100);
  EXPECT_EQ(calls_.size(), ValueFetch::kUnderWayMax);
  std::set<std::uint32_t> asked;
  for (std::size_t i = 0; i < kCount; ++i) {  // nobody answers in time
    ASSERT_FALSE(calls_.empty()) << i;
    asked.insert(calls_.front().request.line);
    calls_.front().done(absl::DeadlineExceededError("silent"));
    calls_.pop_front();
    EXPECT_LE(calls_.size(), ValueFetch::kUnderWayMax);
  }
  EXPECT_EQ(asked.size(), kCount);
  std::size_t answered = 0;
  while (std::optional<Call> call = Take()) {
    Give(*call, ValueAt(call->request.line));
    ++answered;
  }
  EXPECT_EQ(answered, kCount);
  harness_.Settle();
  for (const int get : gets_) EXPECT_EQ(harness_.outcome(get), Outcome::kOk);
  EXPECT_FALSE(fetch_.busy());
}

// Else each value would wait for it once.
TEST_F(ValueFetchTest, F11ASilentSourceIsNotAskedFirstAnyMore) {
  TakeOverMany(3 * ValueFetch::kUnderWayMax, 100);
  for (std::size_t i = 0; i < ValueFetch::kUnderWayMax; ++i) {
    EXPECT_EQ(calls_.front().source, kFirst);
    EXPECT_EQ(calls_.front().wait, CallWait::kAsSaid) << "there is another one";
    calls_.front().done(absl::DeadlineExceededError("silent"));
    calls_.pop_front();
  }
  while (std::optional<Call> call = Take()) {
    EXPECT_EQ(call->source, kSecond);
    Give(*call, ValueAt(call->request.line));
  }
  EXPECT_FALSE(fetch_.busy());
}

TEST_F(ValueFetchTest, F11TheOnlySourceIsGivenTheTimeThatItTakes) {
  TakeOver(Bytes(500, 1));
  calls_.clear();
  fetch_.SetSources(Epoch(harness_.epoch().value() + 1), Record(0b10000));
  std::optional<Call> call = Take();
  ASSERT_TRUE(call.has_value());
  EXPECT_EQ(call->source, kSecond);
  EXPECT_EQ(call->wait, CallWait::kForTheSlow);
}

// ... and fewer of those whose answers are long.
TEST_F(ValueFetchTest, F11AnswersThatAreAskedForAtOnceAreBoundedByTheirBytes) {
  constexpr std::size_t kAtOnce = ValueFetch::kAskedMax / recovery::kValuePieceSize;
  static_assert(kAtOnce < ValueFetch::kUnderWayMax);
  TakeOverMany(2 * kAtOnce, recovery::kValuePieceSize);
  EXPECT_EQ(calls_.size(), kAtOnce);
  while (std::optional<Call> call = Take()) {
    EXPECT_LT(calls_.size(), kAtOnce);
    Give(*call, ValueAt(call->request.line));
  }
  harness_.Settle();
  for (const int get : gets_) EXPECT_EQ(harness_.outcome(get), Outcome::kOk);
  EXPECT_FALSE(fetch_.busy());
}

TEST_F(ValueFetchTest, F11LargeValuesAreAssembledWithinTheBound) {
  constexpr std::size_t kSize = ValueFetch::kAssembledMax / 3 + 1;
  TakeOverMany(4, kSize);
  std::map<std::uint32_t, std::uint32_t> pieces;  // taken, by line
  while (std::optional<Call> call = Take()) {
    const std::uint32_t line = call->request.line;
    ASSERT_EQ(call->request.piece, pieces[line]++);
    if (pieces[line] == recovery::ValuePieceCount(kSize)) pieces.erase(line);
    ASSERT_LE(pieces.size(), 2u);
    Give(*call, ValueAt(line));
  }
  harness_.Settle();
  for (const int get : gets_) EXPECT_EQ(harness_.outcome(get), Outcome::kOk);
}

// S5: what answers to the epoch before is nobody's; the value is asked for in the present one.
TEST_F(ValueFetchTest, S5AnAnswerOfTheEpochBeforeIsDropped) {
  TakeOver(Bytes(500, 1));
  std::optional<Call> old = Take();
  ASSERT_TRUE(old.has_value());
  const Epoch next(harness_.epoch().value() + 1);
  fetch_.SetSources(next, Record(kBoth));
  Give(*old, value_);
  harness_.Turns(3);
  EXPECT_FALSE(harness_.answered(get_));
  std::optional<Call> call = Take();
  ASSERT_TRUE(call.has_value());
  EXPECT_EQ(call->request.epoch, next);
  Give(*call, value_);
  ExpectServed();
}

}  // namespace
}  // namespace ring::node
