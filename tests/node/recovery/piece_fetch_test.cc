// Several prepared things fetched at once, of sources that a test answers for.
#include "ring/node/recovery/piece_fetch.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t kIdOf[] = {71, 72, 73};

class PieceFetchTest : public ::testing::Test {
 protected:
  struct Call {
    NodeId source;
    recovery::FetchRequest request;
    ControlReply done;
  };

  // Thing i is of node i, and asks for the entries behind index i.
  void Start(std::size_t thing_count) {
    std::vector<PieceFetch::Thing> things(thing_count);
    for (std::size_t i = 0; i < thing_count; ++i) {
      things[i].source = NodeId(static_cast<std::uint32_t>(i));
      things[i].request.kind = recovery::FetchKind::kTail;
      things[i].request.index = i;
    }
    fetch_.emplace(
        [this](NodeId source, const recovery::FetchRequest& request, ControlReply done) {
          calls_.push_back({source, request, std::move(done)});
        },
        std::move(things),
        [this](std::size_t thing, std::uint32_t number, absl::string_view piece, bool last) {
          taken_.push_back(absl::StrCat(thing, ".", number, last ? " last " : " ", piece));
          return take_status_;
        },
        [this](std::size_t thing, const absl::Status& status, recovery::FetchRequest* request) {
          refused_.push_back(absl::StrCat(thing, " ", status.message()));
          request->index += 100;
          return again_;
        },
        [this](const absl::Status& status) { ended_.push_back(status); });
    fetch_->Start();
  }
  // The calls that nobody answered yet, by source and piece.
  std::vector<std::string> Asked() const {
    std::vector<std::string> asked;
    for (const Call& call : calls_)
      asked.push_back(absl::StrCat(call.source.value(), ".", call.request.piece));
    return asked;
  }
  // Answers the call of this piece.
  void Answer(std::uint32_t source, std::uint32_t piece, std::uint32_t count) {
    const std::string body = absl::StrCat("p", piece);
    Give(source, piece, recovery::EncodeFetchAnswer({kIdOf[source], count, body}));
  }
  void Give(std::uint32_t source, std::uint32_t piece, absl::StatusOr<std::string> bytes) {
    for (auto call = calls_.begin(); call != calls_.end(); ++call) {
      if (call->source != NodeId(source) || call->request.piece != piece) continue;
      ControlReply done = std::move(call->done);
      EXPECT_EQ(call->request.id, piece == 0 ? 0 : kIdOf[source]);
      calls_.erase(call);
      return done(std::move(bytes));
    }
    FAIL() << "nobody asks node " << source << " for piece " << piece;
  }

  std::deque<Call> calls_;
  std::vector<std::string> taken_;
  std::vector<std::string> refused_;
  std::vector<absl::Status> ended_;
  absl::Status take_status_;
  bool again_ = false;
  std::optional<PieceFetch> fetch_;
};

TEST_F(PieceFetchTest, NothingToFetchIsDoneAtOnce) {
  Start(0);
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_OK(ended_[0]);
}

TEST_F(PieceFetchTest, AllIsAskedForAtOnceAndTakenInOrder) {
  Start(2);
  EXPECT_THAT(Asked(), ElementsAre("0.0", "1.0"));
  Answer(1, 0, 2);
  EXPECT_THAT(taken_, IsEmpty()) << "the first thing comes first";
  EXPECT_THAT(Asked(), ElementsAre("0.0", "1.1"));
  Answer(0, 0, 3);
  EXPECT_THAT(taken_, ElementsAre("0.0 p0"));
  EXPECT_THAT(Asked(), ElementsAre("1.1", "0.1", "0.2"));
  Answer(0, 2, 3);
  Answer(1, 1, 2);
  EXPECT_THAT(taken_, ElementsAre("0.0 p0"));
  EXPECT_THAT(ended_, IsEmpty());
  Answer(0, 1, 3);
  EXPECT_THAT(taken_, ElementsAre("0.0 p0", "0.1 p1", "0.2 last p2", "1.0 p0", "1.1 last p1"));
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_OK(ended_[0]);
}

// A snapshot's pieces are encoded as they are asked for, and counted with the last one.
TEST_F(PieceFetchTest, PiecesThatAreCountedLateAreAskedForAhead) {
  Start(2);
  Answer(1, 0, 1);
  Answer(0, 0, 0);
  EXPECT_EQ(calls_.size(), PieceFetch::kWindow);
  Give(0, 4, absl::NotFoundError("there is none"));  // it comes before what says so
  Answer(0, 1, 0);
  Answer(0, 3, 4);
  EXPECT_THAT(taken_, ElementsAre("0.0 p0", "0.1 p1"));
  EXPECT_THAT(ended_, IsEmpty());
  Answer(0, 2, 0);
  EXPECT_THAT(taken_, ElementsAre("0.0 p0", "0.1 p1", "0.2 p2", "0.3 last p3", "1.0 last p0"));
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_OK(ended_[0]);
}

TEST_F(PieceFetchTest, APieceThatIsMissingEndsItWhenItsTurnComes) {
  Start(1);
  Answer(0, 0, 0);
  Give(0, 2, absl::NotFoundError("not kept here any more"));
  EXPECT_THAT(ended_, IsEmpty());
  Answer(0, 1, 0);
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_EQ(ended_[0], absl::NotFoundError("not kept here any more"));
}

// Whoever waits for all of it waits for nothing.
TEST_F(PieceFetchTest, WhatIsCertainToFailEndsItAtOnce) {
  Start(2);
  Answer(0, 0, 0);
  Give(1, 0, absl::UnavailableError("its connection was lost"));
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_EQ(ended_[0], absl::UnavailableError("its connection was lost"));
}

TEST_F(PieceFetchTest, CountsThatContradictEachOtherAreRefused) {
  Start(1);
  Answer(0, 0, 0);
  Answer(0, 2, 3);
  Answer(0, 1, 5);
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_TRUE(absl::IsInvalidArgument(ended_[0])) << ended_[0];
}

TEST_F(PieceFetchTest, NoMoreThanTheWindowIsUnderWayOrKept) {
  Start(2);
  Answer(0, 0, 1000);
  EXPECT_EQ(calls_.size(), PieceFetch::kWindow);
  Answer(1, 0, 1000);
  EXPECT_EQ(calls_.size(), PieceFetch::kWindow);
  // The second one goes on while the first waits for a piece, and only so far.
  std::uint32_t answered = 0;
  for (std::uint32_t piece = 2; piece < 500; ++piece) {
    for (const std::uint32_t source : {0u, 1u}) {
      const std::string name = absl::StrCat(source, ".", piece - (source == 1 ? 1 : 0));
      const std::vector<std::string> asked = Asked();
      if (std::find(asked.begin(), asked.end(), name) == asked.end()) continue;
      Answer(source, piece - (source == 1 ? 1 : 0), 1000);
      ++answered;
      EXPECT_LE(calls_.size(), PieceFetch::kWindow);
    }
  }
  EXPECT_THAT(Asked(), ElementsAre("0.1"));
  EXPECT_EQ(answered, 2 * PieceFetch::kWindow - 2);
  EXPECT_EQ(taken_.size(), 1u);
  Answer(0, 1, 1000);
  EXPECT_EQ(taken_.size(), 1 + PieceFetch::kWindow);
  EXPECT_EQ(calls_.size(), PieceFetch::kWindow);
}

TEST_F(PieceFetchTest, WhatASourceRefusesIsAskedForInAnotherWayOrFails) {
  again_ = true;
  Start(2);
  Give(1, 0, absl::OutOfRangeError("too old"));
  EXPECT_THAT(refused_, ElementsAre("1 too old"));
  ASSERT_THAT(Asked(), ElementsAre("0.0", "1.0"));
  EXPECT_EQ(calls_.back().request.index, 101u);
  again_ = false;
  Give(1, 0, absl::NotFoundError("gone"));
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_EQ(ended_[0], absl::NotFoundError("gone"));
  Answer(0, 0, 1);  // comes late, and counts for nothing
  EXPECT_THAT(taken_, IsEmpty());
  EXPECT_EQ(ended_.size(), 1u);
}

TEST_F(PieceFetchTest, ASourceWithoutRoomIsAskedAgainWhenTheOthersHaveAnswered) {
  Start(3);
  Give(1, 0, absl::ResourceExhaustedError("too many fetches"));
  EXPECT_THAT(Asked(), ElementsAre("0.0", "2.0"));
  Answer(0, 0, 1);
  EXPECT_THAT(Asked(), ElementsAre("2.0"));
  Answer(2, 0, 1);
  EXPECT_THAT(Asked(), ElementsAre("1.0"));
  Give(1, 0, absl::ResourceExhaustedError("too many fetches"));
  ASSERT_EQ(ended_.size(), 1u) << "nobody else is waited for";
  EXPECT_TRUE(absl::IsResourceExhausted(ended_[0]));
}

TEST_F(PieceFetchTest, AnswersThatContradictEachOtherAreRefused) {
  Start(1);
  Answer(0, 0, 3);
  Give(0, 1, recovery::EncodeFetchAnswer({kIdOf[0], 4, "p"}));
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_TRUE(absl::IsInvalidArgument(ended_[0])) << ended_[0];
}

TEST_F(PieceFetchTest, WhoTakesMayRefuse) {
  take_status_ = absl::InvalidArgumentError("a wrong piece");
  Start(1);
  Answer(0, 0, 3);
  ASSERT_EQ(ended_.size(), 1u);
  EXPECT_EQ(ended_[0], take_status_);
}

TEST_F(PieceFetchTest, AnswersAfterItsEndAreNobodys) {
  Start(2);
  fetch_.reset();
  Answer(0, 0, 1);
  EXPECT_THAT(taken_, IsEmpty());
  EXPECT_THAT(ended_, IsEmpty());
}

}  // namespace
}  // namespace ring::node
