// Clients that are forgotten: X4.
#include "tests/coordinator/shard_harness.h"
#include "tests/coordinator/takeover_steps.h"

namespace ring::coordinator {
namespace {

using protocol::Outcome;

constexpr std::uint64_t kMinuteNs = memgest::kSilencePeriodNs;

// So many minutes, with a turn in each.
void Minutes(ShardHarness& harness, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) harness.Turn(kMinuteNs);
}

bool Knows(memgest::CompletionTable& table, const TestClient& client) {
  return table.Find(client.id()) != nullptr;
}

int MembersThatKnow(ShardHarness& harness, const TestClient& client) {
  int count = 0;
  for (MemberTwin* member : harness.members())
    count += Knows(member->shard().completions(), client) ? 1 : 0;
  return count;
}

TEST(Expire, X4AClientThatWasSilentForTenMinutesIsForgottenByAll) {
  ShardHarness harness;
  TestClient silent(7);
  TestClient other(8);
  for (std::uint16_t id = 0; id < kMemgestCount; ++id) {
    const std::string key = "k" + std::to_string(id);
    harness.Run(harness.Put(MemgestId(id), key, "v", {.client = &silent}));
    harness.Run(harness.Put(MemgestId(id), key, "w", {.client = &other}));
  }
  harness.Settle();
  ASSERT_EQ(MembersThatKnow(harness, silent), 3);
  for (std::uint64_t minute = 0; minute < memgest::kSilencePeriods; ++minute) {
    EXPECT_TRUE(Knows(harness.shard().completions(), silent)) << minute;
    harness.Run(harness.Put(kRep1, "k", "v", {.client = &other}));
    Minutes(harness, 1);
  }
  Minutes(harness, 2);
  harness.Settle();
  EXPECT_FALSE(Knows(harness.shard().completions(), silent));
  EXPECT_EQ(MembersThatKnow(harness, silent), 0);
  EXPECT_TRUE(Knows(harness.shard().completions(), other));
  EXPECT_EQ(MembersThatKnow(harness, other), 3);
  harness.Scrub();
  // It may come back, as anybody may.
  EXPECT_EQ(harness.Run(harness.Put(kSrs32, "k", "x", {.client = &silent})).outcome, Outcome::kOk);
  harness.Settle();
  harness.Scrub();
}

// Retries come for a minute: until long after that they find what became of the first attempt.
TEST(Expire, X4ARetryWithinTenMinutesIsNotExecutedAgain) {
  ShardHarness harness;
  TestClient silent(7);
  const int put = harness.Put(kRep3, "k", "v", {.client = &silent});
  const Version version = harness.Run(put).version;
  harness.Run(harness.Put(kRep3, "k", "w"));
  Minutes(harness, memgest::kSilencePeriods);
  EXPECT_EQ(harness.Run(harness.Resend(put)).version, version);
  EXPECT_EQ(harness.Run(harness.Get("k")).value, "w");
  // That was a sign of it: ten minutes more.
  Minutes(harness, memgest::kSilencePeriods);
  EXPECT_EQ(harness.Run(harness.Resend(put)).version, version);
  harness.Settle();
  harness.Scrub();
}

TEST(Expire, X4AClientWithARequestUnderWayStays) {
  ShardHarness harness;
  TestClient appended(7);
  TestClient waits(8);
  TestClient large(9);
  const int first = harness.Put(kSrs32, "k", "v", {.client = &appended});
  harness.SetFlow(false, false);
  const int held = harness.Put(kSrs32, "k", "w", {.client = &appended});
  // Its condition cannot be judged before that one is committed.
  const int conditional =
      harness.Put(kRep1, "k", "x", {.client = &waits, .conditional = true, .if_version = {}});
  harness.holds_reads = true;
  const int put = harness.Put(kRep1, "large", Bytes(100'000, 1), {.client = &large, .large = true});
  Minutes(harness, 4 * memgest::kSilencePeriods);
  for (const TestClient* client : {&appended, &waits, &large})
    EXPECT_TRUE(Knows(harness.shard().completions(), *client));
  // Given up (F11), and left behind by its client (X3), it is still referred to.
  large.Finished(harness.sent(put).request.seq);
  harness.Run(harness.Put(kRep1, "other", "v", {.client = &large}));
  Minutes(harness, 4 * memgest::kSilencePeriods);
  harness.Settle();
  EXPECT_EQ(harness.outcome(first), Outcome::kOk);
  EXPECT_EQ(harness.outcome(held), Outcome::kOk);
  EXPECT_EQ(harness.outcome(conditional), Outcome::kVersionMismatch);
  EXPECT_EQ(harness.outcome(put), Outcome::kUnavailable);
  harness.Scrub();
  Minutes(harness, memgest::kSilencePeriods + 3);
  harness.Settle();
  EXPECT_EQ(harness.shard().completions().client_count(), 0u);
  for (MemberTwin* member : harness.members())
    EXPECT_EQ(member->shard().completions().client_count(), 0u);
}

TEST(Expire, X4NobodyIsForgottenWhileTheLogHasNoRoom) {
  ShardHarness harness;
  TestClient silent(7);
  harness.Run(harness.Put(kSrs32, "k", "v", {.client = &silent}));
  harness.Settle();
  harness.SetFlow(false, false);
  for (std::uint64_t i = 0; i < 2 * memgest::ShardLog::kPendingMax; ++i)
    harness.Put(kRep4, "k" + std::to_string(i), "v");
  Minutes(harness, 4 * memgest::kSilencePeriods);
  EXPECT_TRUE(Knows(harness.shard().completions(), silent));
  harness.Settle();
  EXPECT_FALSE(Knows(harness.shard().completions(), silent));
  EXPECT_EQ(MembersThatKnow(harness, silent), 0);
  harness.Scrub();
}

// A member of one log is reached through that one, also when a wider one is closed.
TEST(Expire, X4EveryMemberIsToldThroughSomeLog) {
  ShardHarness harness;
  TestClient silent(7);
  harness.Run(harness.Put(kRep4, "k", "v", {.client = &silent}));
  harness.Settle();
  memgest::Memgest& closed = *harness.shard().FindMemgest(kRep3);
  closed.set_state(protocol::MemgestState::kDraining);
  const std::uint64_t next_index = closed.next_index();
  Minutes(harness, memgest::kSilencePeriods + 2);
  harness.Settle();
  EXPECT_FALSE(Knows(harness.shard().completions(), silent));
  EXPECT_EQ(MembersThatKnow(harness, silent), 0);
  EXPECT_EQ(closed.next_index(), next_index) << "G10: others tell all of its members";
  harness.Scrub();
}

// G10: an entry without a version or a record does not keep it from being deleted.
TEST(Expire, X4WhoIsOnlyInALogThatIsDrainedIsToldThroughThat) {
  ShardHarness harness;
  TestClient silent(7);
  harness.Run(harness.Put(kRep4, "k", "v", {.client = &silent}));
  harness.shard().SetMemgestState(kRep4, protocol::MemgestState::kDraining);
  Minutes(harness, memgest::kSilencePeriods + 2);
  harness.Settle();
  EXPECT_FALSE(Knows(harness.shard().completions(), silent));
  EXPECT_EQ(MembersThatKnow(harness, silent), 0) << "role 1 is in no other log";
  harness.Scrub();
}

// Else one closed log would keep all clients, and a full table refuse new ones. What such a member
// knows longer than the others does no harm, should it come to coordinate the shard.
TEST(Expire, X4NoClientStaysForAMemberThatNoLogReaches) {
  ShardHarness harness;
  TestClient silent(7);
  harness.Run(harness.Put(kRep4, "k", "v", {.client = &silent}));
  harness.Settle();
  for (const int role : {3, 4}) harness.member(role).qp.Fail();
  harness.Put(kRep3, "other", "v");  // by which the coordinator notices
  harness.Turns(3);
  ASSERT_TRUE(harness.shard().log().Stuck(*harness.shard().FindMemgest(kRep4)));
  Minutes(harness, memgest::kSilencePeriods + 2);
  EXPECT_FALSE(Knows(harness.shard().completions(), silent));
  EXPECT_TRUE(Knows(harness.member(1).shard().completions(), silent)) << "it was told";
  harness.BeginEpoch();
  harness.Normal();
  harness.Settle();
  TakeOverAndServe(harness);
  EXPECT_TRUE(Knows(harness.shard().completions(), silent)) << "nothing is left for the test";
  const int put = harness.Put(kRep4, "k", "w", {.client = &silent});
  const Version version = harness.Run(put).version;
  EXPECT_EQ(harness.Run(harness.Resend(put)).version, version) << "X1";
  EXPECT_EQ(RunFetching(harness, harness.Get("k")).value, "w");
  Minutes(harness, memgest::kSilencePeriods + 3);
  harness.FetchRest();
  harness.Settle();
  EXPECT_FALSE(Knows(harness.shard().completions(), silent));
  EXPECT_EQ(MembersThatKnow(harness, silent), 0);
  harness.Scrub();
}

// B1: identities are spent by living clients, too: their number must not end the service.
TEST(Expire, X4AFullTableTakesNewClientsInThePlaceOfSilentOnes) {
  ShardHarness harness;
  ShardCoordinator& shard = harness.shard();
  harness.Turn();
  std::uint64_t next = 0;
  while (shard.completions().client_count() < memgest::kRecordClientsMax)
    ASSERT_NE(shard.AdmitClient({1, next++}), nullptr);
  EXPECT_EQ(shard.AdmitClient({2, 0}), nullptr);
  Minutes(harness, memgest::kSilencePeriods);
  EXPECT_EQ(shard.AdmitClient({2, 0}), nullptr) << "none was silent for long";
  Minutes(harness, 1);
  // Many more than a turn forgets by itself.
  for (std::uint64_t i = 0; i < 200; ++i) {
    ASSERT_NE(shard.AdmitClient({2, i}), nullptr) << i;
    ASSERT_LE(shard.completions().client_count(), memgest::kRecordClientsMax);
    if (i % 20 == 0) harness.Turn();
  }
  harness.Settle();
  for (std::uint64_t i = 0; i < 200; ++i)
    EXPECT_NE(shard.completions().Find({2, i}), nullptr) << "it came just now";
  EXPECT_EQ(shard.completions().client_count(), 200u);
  harness.Scrub();
}

}  // namespace
}  // namespace ring::coordinator
