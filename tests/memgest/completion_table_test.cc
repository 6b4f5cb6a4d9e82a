#include "memgest/completion_table.h"

#include <algorithm>
#include <map>

#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/support/random_seed.h"

namespace ring::memgest {
namespace {

using Check = CompletionTable::Check;
constexpr ClientId kClient{1, 2};
constexpr MemgestId kMemgest{7};

Version VersionOf(std::uint64_t counter) { return Version(Epoch(1), counter); }

class CompletionTableTest : public ::testing::Test {
 protected:
  Check Lookup(std::uint64_t seq, std::uint64_t first, std::uint32_t crc = 99) {
    return CompletionTable::Lookup(client_, seq, first, crc, &record_);
  }
  static CompletionRecord RecordOf(std::uint64_t seq, std::uint32_t crc) {
    return {.seq = seq,
            .version = VersionOf(seq).bits(),
            .request_crc = crc,
            .memgest = kMemgest.value(),
            .code = 2};
  }
  void Finish(std::uint64_t seq, std::uint64_t first, std::uint32_t crc = 99) {
    CompletionTable::Finish(client_, first, RecordOf(seq, crc));
  }
  CompletionTable table_;
  CompletionTable::Client* client_ = table_.FindOrAdd(kClient);
  CompletionRecord record_;
};

TEST_F(CompletionTableTest, X1ADuplicateOfADoneRequestGetsItsAnswer) {
  EXPECT_EQ(Lookup(5, 5), Check::kNew);
  CompletionTable::Begin(client_, 5, 99, kMemgest, VersionOf(5));
  Finish(5, 5);
  EXPECT_EQ(Lookup(5, 5), Check::kDone);
  EXPECT_EQ(record_.version, VersionOf(5).bits());
  EXPECT_EQ(record_.code, 2);
  EXPECT_EQ(record_.memgest, 7);
}

TEST_F(CompletionTableTest, X4ClientsPastTheMostThereMayBeAreNotAdmitted) {
  for (std::uint64_t i = table_.client_count(); i < kRecordClientsMax; ++i) {
    ASSERT_NE(table_.Admit({77, i}), nullptr);
  }
  EXPECT_EQ(table_.Admit({78, 1}), nullptr);
  EXPECT_EQ(table_.client_count(), kRecordClientsMax);
  EXPECT_EQ(table_.Admit(kClient), client_);      // known ones go on
  EXPECT_NE(table_.FindOrAdd({78, 1}), nullptr);  // a member follows its coordinator
  table_.Expire({78, 1}, 0);
  table_.Expire({77, 70}, 0);
  EXPECT_NE(table_.Admit({78, 1}), nullptr);
}

// Minutes pass as the owner's clock shows them.
TEST_F(CompletionTableTest, X4AClientIsSilentAfterTenWholeMinutes) {
  std::uint64_t now_ns = kSilencePeriodNs;
  const auto pass = [&](std::uint64_t ns) { table_.PassTime(now_ns += ns); };
  pass(0);
  CompletionTable::Client* const other = table_.FindOrAdd({3, 4});
  pass(kSilencePeriodNs - 1);  // it was heard of late in this minute
  table_.Heard(client_);
  table_.Heard(other);
  const std::uint64_t heard_ns = now_ns;
  while (now_ns - heard_ns < kSilencePeriods * kSilencePeriodNs) {
    EXPECT_EQ(table_.LongestSilent(), nullptr) << now_ns - heard_ns;
    pass(kSilencePeriodNs / 4);
    table_.Heard(other);
  }
  for (int i = 0; i < 8 && table_.LongestSilent() == nullptr; ++i) pass(kSilencePeriodNs / 4);
  EXPECT_EQ(table_.LongestSilent(), client_);
  EXPECT_EQ(CompletionTable::IdOf(client_), kClient);
  table_.Heard(client_);
  EXPECT_EQ(table_.LongestSilent(), nullptr);
}

// Nobody was listened to while the clock was not looked at.
TEST_F(CompletionTableTest, X4APauseOfTheOwnerIsNotTheClientsSilence) {
  for (std::uint64_t hour = 1; hour <= kSilencePeriods; ++hour) {
    table_.PassTime(hour * 60 * kSilencePeriodNs);
    EXPECT_EQ(table_.LongestSilent(), nullptr);
  }
  table_.PassTime(11 * 60 * kSilencePeriodNs);
  EXPECT_EQ(table_.LongestSilent(), client_);
}

TEST_F(CompletionTableTest, X4TheLongestSilentComesFirst) {
  std::uint64_t now_ns = 0;
  for (std::uint64_t i = 0; i < 5; ++i) {
    table_.FindOrAdd({9, i});
    table_.PassTime(now_ns += kSilencePeriodNs);
  }
  table_.Heard(table_.Find({9, 1}));
  table_.Expire({9, 3}, 0);
  for (std::uint64_t i = 0; i <= kSilencePeriods; ++i) table_.PassTime(now_ns += kSilencePeriodNs);
  for (const ClientId& id :
       {kClient, ClientId{9, 0}, ClientId{9, 2}, ClientId{9, 4}, ClientId{9, 1}}) {
    ASSERT_NE(table_.LongestSilent(), nullptr);
    EXPECT_EQ(CompletionTable::IdOf(table_.LongestSilent()), id);
    table_.Expire(id, 0);
  }
  EXPECT_EQ(table_.LongestSilent(), nullptr);
  EXPECT_EQ(table_.client_count(), 0u);
}

// Entries of other logs may be folded in another order: what is younger than the decision stays.
TEST_F(CompletionTableTest, X4ExpiryLeavesAClientThatCameBackMeanwhile) {
  Finish(5, 5);
  EXPECT_EQ(CompletionTable::NextSeq(client_), 6u);
  const std::uint64_t forgotten = table_.forgotten();
  Finish(6, 6);
  table_.Expire(kClient, 6);
  EXPECT_EQ(Lookup(6, 6), Check::kDone);
  EXPECT_EQ(table_.forgotten(), forgotten);
  table_.Expire(kClient, CompletionTable::NextSeq(client_));
  EXPECT_EQ(table_.Find(kClient), nullptr);
  EXPECT_NE(table_.forgotten(), forgotten);
}

TEST_F(CompletionTableTest, X2ADuplicateInFlightAttaches) {
  CompletionTable::Begin(client_, 5, 99, kMemgest, VersionOf(5));
  EXPECT_EQ(Lookup(5, 5), Check::kInFlight);
  EXPECT_EQ(record_.version, VersionOf(5).bits());
}

TEST_F(CompletionTableTest, X2AReusedSeqIsAnError) {
  CompletionTable::Begin(client_, 5, 99, kMemgest, VersionOf(5));
  EXPECT_EQ(Lookup(5, 5, 98), Check::kReused);
  Finish(5, 5);
  EXPECT_EQ(Lookup(5, 5, 98), Check::kReused);
}

TEST_F(CompletionTableTest, X3BelowTheFirstIncompleteIsStaleEvenIfItsRecordWasThere) {
  Finish(5, 5);
  EXPECT_EQ(Lookup(6, 6), Check::kNew);
  EXPECT_EQ(Lookup(5, 5), Check::kStale);  // the window moves up only
}

TEST_F(CompletionTableTest, X4FirstIncompleteCollectsRecordsAndTheirPlaces) {
  for (std::uint64_t seq = 1; seq <= 100000; ++seq) {
    ASSERT_EQ(Lookup(seq, seq > 8 ? seq - 8 : 0), Check::kNew);
    Finish(seq, seq > 8 ? seq - 8 : 0);
  }
  EXPECT_LT(table_.resident_bytes(), 2048u) << "the ring grew for what was collected";
  std::uint64_t shown = 0;
  table_.ForEach([&](const ClientId&, std::uint64_t first, const CompletionRecord& record) {
    EXPECT_GE(record.seq, first) << "a collected record is shown";
    ++shown;
  });
  EXPECT_EQ(shown, 9u);
}

TEST_F(CompletionTableTest, X4TheLimitIs1024Outstanding) {
  for (std::uint64_t seq = 10; seq < 10 + 1024; ++seq) {
    ASSERT_EQ(Lookup(seq, 10), Check::kNew);
    CompletionTable::Begin(client_, seq, 99, kMemgest, VersionOf(seq));
  }
  EXPECT_EQ(Lookup(10 + 1024, 10), Check::kTooMany);
  EXPECT_EQ(Lookup(~std::uint64_t{0}, 10), Check::kTooMany);
  for (std::uint64_t seq = 10; seq < 10 + 1024; ++seq) {
    ASSERT_EQ(Lookup(seq, 10), Check::kInFlight);
    ASSERT_EQ(record_.seq, seq);
  }
  EXPECT_EQ(Lookup(10 + 1024, 11), Check::kNew);
}

// F11: who makes up an identity, and one request that claims a wide window, gets memory for one.
TEST_F(CompletionTableTest, X4AWideWindowWithOneRecordIsSmall) {
  for (const std::uint64_t seq : {1u, 1024u, 513u}) {
    ASSERT_EQ(Lookup(seq, 1), Check::kNew);
    Finish(seq, 1);
  }
  for (const std::uint64_t seq : {1u, 513u, 1024u}) EXPECT_EQ(Lookup(seq, 1), Check::kDone) << seq;
  EXPECT_LT(table_.resident_bytes(), 2048u);
  const std::uint64_t before = table_.resident_bytes();
  constexpr std::uint64_t kStrangers = 10'000;
  for (std::uint64_t i = 0; i < kStrangers; ++i) {
    CompletionTable::Client* const stranger = table_.Admit({50, i});
    CompletionTable::Finish(stranger, 1, RecordOf(1024, 99));
  }
  EXPECT_LT(table_.resident_bytes() - before, kStrangers * 1024);
}

// ... and what was given up again leaves nothing beside the ring, however often that happens.
TEST_F(CompletionTableTest, X4WhatIsForgottenTakesNoRoom) {
  CompletionTable::Begin(client_, 1, 99, kMemgest, VersionOf(1));
  for (int i = 0; i < 10'000; ++i) {
    CompletionTable::Begin(client_, 17, 99, kMemgest, VersionOf(2));
    ASSERT_EQ(Lookup(17, 1), Check::kInFlight);
    CompletionTable::Forget(client_, 17);
    ASSERT_EQ(Lookup(17, 1), Check::kNew);
  }
  EXPECT_EQ(Lookup(1, 1), Check::kInFlight);
  EXPECT_LT(table_.resident_bytes(), 2048u);
}

TEST_F(CompletionTableTest, X2AMemberHasTheRecordWithoutABegin) {
  Finish(700, 10);
  EXPECT_EQ(Lookup(700, 10), Check::kDone);
  EXPECT_EQ(Lookup(699, 10), Check::kNew);
}

TEST_F(CompletionTableTest, ACommitBelowTheWindowLeavesNoRecord) {
  CompletionTable::Begin(client_, 5, 99, kMemgest, VersionOf(5));
  EXPECT_EQ(Lookup(30, 30), Check::kNew);
  Finish(5, 5);
  EXPECT_EQ(Lookup(30, 0), Check::kNew);
  EXPECT_EQ(Lookup(5, 0), Check::kStale);
}

TEST_F(CompletionTableTest, ForgetMakesTheRequestNew) {
  CompletionTable::Begin(client_, 5, 99, kMemgest, VersionOf(5));
  CompletionTable::Forget(client_, 5);
  CompletionTable::Forget(client_, 6);
  EXPECT_EQ(Lookup(5, 5), Check::kNew);
}

TEST_F(CompletionTableTest, X4ExpireDropsTheClient) {
  Finish(5, 5);
  EXPECT_EQ(table_.client_count(), 1u);
  table_.Expire(kClient, CompletionTable::NextSeq(client_));
  table_.Expire(ClientId{9, 9}, 0);
  EXPECT_EQ(table_.client_count(), 0u);
  EXPECT_EQ(table_.Find(kClient), nullptr);
}

TEST_F(CompletionTableTest, AgreesWithASlowModel) {
  SeededRandom random(ring::testing::SeedFor("completions"));
  std::map<std::uint64_t, CompletionRecord> model;
  std::uint64_t first = 0;   // of the window
  std::uint64_t client = 0;  // the client's own first incomplete; older requests come late
  for (int step = 0; step < 50000; ++step) {
    if (random.Below(8) == 0) client += random.Below(random.Below(50) == 0 ? 3000 : 40);
    const std::uint64_t asked = client - std::min<std::uint64_t>(client, random.Below(3));
    const std::uint64_t seq = asked + random.Below(random.Below(20) == 0 ? 1500 : 300);
    const auto crc = static_cast<std::uint32_t>(90 + random.Below(2));
    first = std::max(first, asked);
    model.erase(model.begin(), model.lower_bound(first));
    const Check got = Lookup(seq, asked, crc);
    if (seq < first) {
      ASSERT_EQ(got, Check::kStale);
    } else if (seq - asked >= 1024) {
      ASSERT_EQ(got, Check::kTooMany);
    } else if (model.count(seq) == 0) {
      ASSERT_EQ(got, Check::kNew);
      CompletionTable::Begin(client_, seq, crc, kMemgest, VersionOf(seq));
      model[seq] = {.seq = seq, .request_crc = crc, .state = RecordState::kInFlight};
    } else if (model[seq].request_crc != crc) {
      ASSERT_EQ(got, Check::kReused);
    } else if (model[seq].state == RecordState::kDone) {
      ASSERT_EQ(got, Check::kDone);
    } else {
      ASSERT_EQ(got, Check::kInFlight);
      Finish(seq, first, crc);
      model[seq].state = RecordState::kDone;
    }
  }
  model.erase(model.begin(), model.lower_bound(first));
  std::size_t seen = 0;
  table_.ForEach(
      [&](const ClientId& id, std::uint64_t first_incomplete, const CompletionRecord& r) {
        EXPECT_EQ(id, kClient);
        EXPECT_EQ(first_incomplete, first);
        EXPECT_EQ(model.count(r.seq), 1u);
        ++seen;
      });
  EXPECT_EQ(seen, model.size());
}

}  // namespace
}  // namespace ring::memgest
