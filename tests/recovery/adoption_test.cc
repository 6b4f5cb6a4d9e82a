// Which logs a new epoch goes on with: steps 2 to 4 of an epoch change.
#include "ring/recovery/adoption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ring::recovery {
namespace {

using protocol::CommitRule;
using protocol::MemgestDescriptor;
using protocol::Scheme;

MemgestDescriptor Rep(int r, CommitRule commit = CommitRule::kQuorum) {
  MemgestDescriptor memgest;
  memgest.id = MemgestId(1);
  memgest.scheme = Scheme::kReplicated;
  memgest.commit = commit;
  memgest.r = static_cast<std::uint8_t>(r);
  return memgest;
}

MemgestDescriptor Srs(int k, int m) {
  MemgestDescriptor memgest;
  memgest.id = MemgestId(1);
  memgest.scheme = Scheme::kStretchedReedSolomon;
  memgest.k = static_cast<std::uint8_t>(k);
  memgest.m = static_cast<std::uint8_t>(m);
  return memgest;
}

SealedRole Answer(int role, std::uint64_t applied, std::uint64_t last) {
  return {Role(static_cast<std::uint16_t>(role)), {{MemgestId(1), applied, last}}};
}

AdoptedLog AdoptOne(const MemgestDescriptor& memgest, RoleMask active,
                    const std::vector<SealedRole>& sealed, std::optional<Role> preferred = {}) {
  const LogMembers members{&memgest, active};
  return Adopt(absl::MakeConstSpan(&members, 1), sealed, preferred).front();
}

TEST(AdoptionTest, Step3NeedsSoManyAnswersThatEachQuorumIsMet) {
  EXPECT_EQ(AnswersNeeded(Rep(1), 0b1), 0);
  EXPECT_EQ(AnswersNeeded(Rep(2), 0b11), 1);
  EXPECT_EQ(AnswersNeeded(Rep(3), 0b111), 2);
  EXPECT_EQ(AnswersNeeded(Rep(4), 0b1111), 2);
  EXPECT_EQ(AnswersNeeded(Rep(5), 0b11111), 3);
  EXPECT_EQ(AnswersNeeded(Rep(3), 0b11), 1) << "an epoch of two copies has each entry on both";
  EXPECT_EQ(AnswersNeeded(Rep(3, CommitRule::kAll), 0b111), 1);
  EXPECT_EQ(AnswersNeeded(Srs(3, 2), 0b11001), 1);
}

TEST(AdoptionTest, Step3OneAnswerTooFewIsLost) {
  EXPECT_TRUE(AdoptOne(Rep(3), 0b11001, {Answer(3, 5, 9)}).lost);
  EXPECT_FALSE(AdoptOne(Rep(3), 0b11001, {Answer(3, 5, 9), Answer(4, 7, 7)}).lost);
  EXPECT_TRUE(AdoptOne(Srs(3, 2), 0b11001, {}).lost);
  EXPECT_FALSE(AdoptOne(Srs(3, 2), 0b11001, {Answer(4, 1, 1)}).lost);
}

TEST(AdoptionTest, Step3ALivingCoordinatorNeedsNoOther) {
  EXPECT_FALSE(AdoptOne(Rep(5), 0b11111, {Answer(0, 5, 9)}, Role(0)).lost);
  EXPECT_TRUE(AdoptOne(Rep(5), 0b11111, {Answer(0, 5, 9)}).lost);
}

TEST(AdoptionTest, Step2OnlyActiveOnesOfTheLastNormalCount) {
  const AdoptedLog adopted =
      AdoptOne(Rep(3), 0b01001, {Answer(3, 5, 6), Answer(4, 5, 60), Answer(1, 0, 70)});
  EXPECT_FALSE(adopted.lost);
  EXPECT_EQ(adopted.source, Role(3));
  EXPECT_EQ(adopted.last, 6u);
}

TEST(AdoptionTest, Step4TheLongestLogIsAdoptedAndNeverTheCommonPrefix) {
  const AdoptedLog adopted = AdoptOne(Rep(3), 0b11001, {Answer(3, 9, 9), Answer(4, 3, 12)});
  EXPECT_EQ(adopted.source, Role(4));
  EXPECT_EQ(adopted.last, 12u);
}

TEST(AdoptionTest, AmongEqualsTheLivingCoordinatorIsTheSource) {
  const AdoptedLog adopted =
      AdoptOne(Rep(3), 0b11001, {Answer(3, 9, 9), Answer(0, 9, 9), Answer(4, 3, 9)}, Role(0));
  EXPECT_EQ(adopted.source, Role(0));
}

TEST(AdoptionTest, Rep1GoesOnWithTheLivingCoordinatorOrEmpty) {
  const AdoptedLog living = AdoptOne(Rep(1), 0b1, {Answer(0, 40, 40)}, Role(0));
  EXPECT_FALSE(living.lost);
  EXPECT_EQ(living.last, 40u);
  const AdoptedLog gone = AdoptOne(Rep(1), 0b1, {});
  EXPECT_FALSE(gone.lost);
  EXPECT_FALSE(gone.source.has_value());
  EXPECT_EQ(gone.last, 0u);
}

}  // namespace
}  // namespace ring::recovery
