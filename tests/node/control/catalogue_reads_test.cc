#include "ring/node/control/catalogue_reads.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace ring::node {
namespace {

using Result = coordinator::CatalogueReader::Result;

class CatalogueReadsTest : public ::testing::Test {
 protected:
  void Pass(std::uint64_t ns = CatalogueReads::kPeriodNs) {
    now_ns_ += ns;
    reads_.Progress(now_ns_);
  }
  void Answer(std::size_t read, const absl::Status& status = absl::OkStatus()) {
    std::exchange(under_way_.at(read), nullptr)(status);
  }

  std::vector<CatalogueReads::Done> under_way_;  // all that ever began
  int asked_ = 0;
  std::uint64_t now_ns_ = 1'000'000'000;
  CatalogueReads reads_{
      [this](CatalogueReads::Done done) { under_way_.push_back(std::move(done)); },
      [this] { ++asked_; }};
};

TEST_F(CatalogueReadsTest, WhoAsksNothingCostsNothing) {
  for (int i = 0; i < 100; ++i) Pass();
  EXPECT_TRUE(under_way_.empty());
  EXPECT_FALSE(reads_.due());
}

// However many ids are asked for, and however often: one at a time, and one for all that wait.
TEST_F(CatalogueReadsTest, G11OneReadIsUnderWayForAllThatWait) {
  const std::uint64_t first = reads_.Ask();
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(reads_.Ask(), first);
  EXPECT_EQ(asked_, 1);
  EXPECT_TRUE(reads_.due());
  Pass();
  ASSERT_EQ(under_way_.size(), 1u);
  for (int i = 0; i < 100; ++i) {
    reads_.Ask();
    Pass();
  }
  EXPECT_EQ(under_way_.size(), 1u);
  EXPECT_EQ(reads_.Look(first), Result::kUnderWay);
  Answer(0);
  EXPECT_EQ(reads_.Look(first), Result::kApplied);
}

// What it was asked for later may have been agreed upon since it began (10.5).
TEST_F(CatalogueReadsTest, G11AReadThatBeganBeforeAnswersNobodyWhoCameLater) {
  const std::uint64_t first = reads_.Ask();
  Pass();
  const std::uint64_t second = reads_.Ask();
  EXPECT_NE(first, second);
  Answer(0);
  EXPECT_EQ(reads_.Look(second), Result::kUnderWay);
  Pass();
  Answer(1);
  EXPECT_EQ(reads_.Look(second), Result::kApplied);
}

TEST_F(CatalogueReadsTest, G11OneReadInAPeriodIsAllThatAnybodyCanCause) {
  for (int i = 0; i < 100; ++i) {
    reads_.Ask();
    Pass(CatalogueReads::kPeriodNs / 10);
    if (under_way_.size() > 0 && under_way_.back() != nullptr) Answer(under_way_.size() - 1);
  }
  EXPECT_GE(under_way_.size(), 9u);
  EXPECT_LE(under_way_.size(), 11u);
}

TEST_F(CatalogueReadsTest, AReadThatFailsIsAskedForAnew) {
  const std::uint64_t first = reads_.Ask();
  Pass();
  Answer(0, absl::UnavailableError("no leader"));
  EXPECT_EQ(reads_.Look(first), Result::kFailed);
  const std::uint64_t second = reads_.Ask();
  Pass();
  Answer(1);
  EXPECT_EQ(reads_.Look(second), Result::kApplied);
  // A later one says all that it would have said.
  EXPECT_EQ(reads_.Look(first), Result::kApplied);
}

TEST_F(CatalogueReadsTest, WhatNobodyAnswersFailsAndItsAnswerComesTooLate) {
  const std::uint64_t first = reads_.Ask();
  Pass();
  Pass(CatalogueReads::kPatienceNs - 1);
  EXPECT_EQ(reads_.Look(first), Result::kUnderWay);
  Pass(1);
  EXPECT_EQ(reads_.Look(first), Result::kFailed);
  const std::uint64_t second = reads_.Ask();
  Pass();
  Answer(0);
  EXPECT_EQ(reads_.Look(first), Result::kFailed);
  EXPECT_EQ(reads_.Look(second), Result::kUnderWay);
}

}  // namespace
}  // namespace ring::node
