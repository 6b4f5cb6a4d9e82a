// Whom a shard that is taken over fetches its logs from, and what of them.
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/recovery/epoch_change_fixture.h"

namespace ring::recovery {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Phase = EpochChange::Phase;

// The first one may be cut off from this node alone: the leader sees it, and no epoch begins.
TEST_F(EpochChangeTest, Step4WhoDoesNotGiveALogIsNotAskedForEver) {
  Start(TakeOver());
  for (const Role role : {Role(1), Role(2)}) change->OnSealed(role, {});
  change->OnSealed(Role(3), {{kRep3, 5, 9}, {kSrs32, 5, 9}});
  change->OnSealed(Role(4), {{kRep3, 7, 9}, {kSrs32, 7, 8}});
  const auto sources = [this] {
    std::vector<int> roles;
    for (const AdoptedLog& log : actions.fetched) roles.push_back(log.source->value());
    return roles;
  };
  EXPECT_THAT(sources(), ElementsAre(3, 3));
  change->OnFetched(absl::UnavailableError("no answer"));
  Pass(1'000'000'000);
  EXPECT_THAT(sources(), ElementsAre(4, 3)) << "the other one lacks an entry of the second log";
  EXPECT_EQ(actions.fetched[0].applied, 7u);
  change->OnFetched(absl::UnavailableError("no answer"));
  Pass(1'000'000'000);
  EXPECT_THAT(sources(), ElementsAre(3, 3));
  EXPECT_EQ(actions.fetched[0].applied, 5u);
  change->OnFetched(absl::OkStatus());
  EXPECT_EQ(change->phase(), Phase::kConnecting);
}

// Who lacks more than can be kept joins, and takes no room from who does not: nothing of another
// log is fetched for it.
TEST_F(EpochChangeTest, Step5NothingIsFetchedForWhoLacksTooMuchOfAnotherLog) {
  Start(TakeOver());
  change->OnSealed(Role(1), {});
  change->OnSealed(Role(2), {});
  change->OnSealed(Role(3), Ends(700, 190));
  change->OnSealed(Role(4), Ends(444, 185));
  ASSERT_EQ(change->phase(), Phase::kFetching);
  EXPECT_EQ(change->adopted()[0].last, 700u);
  EXPECT_EQ(change->adopted()[0].shortest, 700u);
  EXPECT_EQ(change->adopted()[1].last, 190u);
  EXPECT_EQ(change->adopted()[1].shortest, 190u) << "five entries for who joins";
}

TEST_F(EpochChangeTest, E8WhoseLogIsFetchedAndIsGoneIsReplaced) {
  Start(TakeOver());
  change->OnSealed(Role(1), {});
  change->OnSealed(Role(2), {});
  change->OnSealed(Role(3), Ends(4, 4));
  change->OnSealed(Role(4), Ends(9, 4));
  ASSERT_EQ(change->phase(), Phase::kFetching);
  change->OnReachable(0b11100);
  EXPECT_THAT(actions.renewed, IsEmpty());
  change->OnReachable(0b01100);
  EXPECT_THAT(actions.renewed, ElementsAre(4));
}

}  // namespace
}  // namespace ring::recovery
