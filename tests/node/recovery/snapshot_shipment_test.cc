// A snapshot's pieces on their way to a member that a test answers for.
#include "ring/node/recovery/snapshot_shipment.h"

#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "ring/base/check.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ring::testing::StatusIs;

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::size_t kPieceSize = 10'000;
// A piece takes 10 ms.
constexpr std::uint64_t kRate = 1'000'000;

class SnapshotShipmentTest : public ::testing::Test {
 protected:
  void Start(std::uint64_t rate) {
    pace_.emplace(rate, rate);
    shipment_.emplace(
        [this](std::string body, std::uint64_t, ControlReply done) {
          const auto request = recovery::DecodeInstallRequest(body);
          RING_CHECK(request.ok());
          sent_ += request->piece.front();
          replies_.push_back(std::move(done));
        },
        [this] { return now_ns_; }, &*pace_, recovery::InstallRequest(), [this] { return Next(); },
        [this](const absl::Status& status) { ended_ = status; });
  }
  absl::StatusOr<memgest::SnapshotPiece> Next() {
    if (gone_) return absl::AbortedError("the shard is gone");
    return memgest::SnapshotPiece{std::string(kPieceSize, letter_++), letter_ > 'c'};
  }
  void Answer(const absl::StatusOr<std::string>& answer) {
    ControlReply reply = std::move(replies_.front());
    replies_.pop_front();
    reply(answer);
  }
  void Pass(std::uint64_t ns, bool hurries = false) {
    now_ns_ += ns;
    shipment_->Progress(now_ns_, hurries);
  }

  std::uint64_t now_ns_ = 1000 * kMs;
  char letter_ = 'a';
  bool gone_ = false;
  std::optional<Pace> pace_;
  std::optional<SnapshotShipment> shipment_;
  std::string sent_;
  std::deque<ControlReply> replies_;
  std::optional<absl::Status> ended_;
};

TEST_F(SnapshotShipmentTest, L7PiecesGoInOrderEachBehindTheAnswerForTheLast) {
  Start(std::uint64_t{1} << 40);
  Pass(0);
  Pass(kMs);
  EXPECT_EQ(sent_, "a");
  Answer(std::string());
  Answer(std::string());
  EXPECT_EQ(sent_, "abc");
  EXPECT_FALSE(ended_.has_value());
  Answer(std::string());
  ASSERT_TRUE(ended_.has_value());
  EXPECT_OK(*ended_);
}

// What nobody's operation waits for makes way, as values that come back do.
TEST_F(SnapshotShipmentTest, PiecesGoAtThePaceOfRecovery) {
  Start(kRate);
  Pass(0);
  Answer(std::string());
  EXPECT_EQ(sent_, "a");
  Pass(4 * kMs);
  EXPECT_EQ(sent_, "a");
  Pass(6 * kMs);
  EXPECT_EQ(sent_, "ab");
  // Others' recovery is of the same budget.
  pace_->Take(kPieceSize);
  Answer(std::string());
  Pass(8 * kMs);
  EXPECT_EQ(sent_, "ab");
  Pass(4 * kMs);
  EXPECT_EQ(sent_, "abc");
}

// The member folds nothing before it has the snapshot: with its ring full, puts will soon wait.
TEST_F(SnapshotShipmentTest, NothingWaitsForThePaceWhenTheShardWillWaitForTheMember) {
  Start(kRate);
  Pass(0);
  Answer(std::string());
  EXPECT_EQ(sent_, "a");
  Pass(1, /*hurries=*/true);
  EXPECT_EQ(sent_, "ab");
  Answer(std::string());
  EXPECT_EQ(sent_, "abc");
}

TEST_F(SnapshotShipmentTest, APieceWithoutRoomIsSentAgainAndOthersEndTheShipment) {
  Start(std::uint64_t{1} << 40);
  Pass(0);
  Answer(absl::ResourceExhaustedError("no memory just now"));
  Pass(kMs);
  EXPECT_EQ(sent_, "a");
  Pass(kMs);
  EXPECT_EQ(sent_, "aa");
  Answer(absl::AbortedError("another join has begun"));
  ASSERT_TRUE(ended_.has_value());
  EXPECT_THAT(*ended_, StatusIs(absl::StatusCode::kAborted));
}

TEST_F(SnapshotShipmentTest, L7EndsWhenWhatItIsOfIsGone) {
  Start(std::uint64_t{1} << 40);
  Pass(0);
  gone_ = true;
  Answer(std::string());
  EXPECT_EQ(sent_, "a");
  ASSERT_TRUE(ended_.has_value());
  EXPECT_THAT(*ended_, StatusIs(absl::StatusCode::kAborted));
}

TEST_F(SnapshotShipmentTest, AMemberThatRefusesForTooLongIsGivenUp) {
  Start(std::uint64_t{1} << 40);
  Pass(0);
  now_ns_ += SnapshotShipment::kPatienceNs;
  Answer(absl::ResourceExhaustedError("no memory"));
  ASSERT_TRUE(ended_.has_value());
  EXPECT_THAT(*ended_, StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace ring::node
