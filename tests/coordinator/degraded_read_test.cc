// Gets whose value is decoded from the blocks of others, with a test in the place of those (V6,
// S12, V7).
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ring/coordinator/block_decoder.h"
#include "ring/coordinator/key_hash.h"
#include "tests/coordinator/shard_harness.h"

namespace ring::coordinator {
namespace {

using protocol::kDegraded;
using protocol::Outcome;

class TwinDecoder final : public BlockDecoder {
 public:
  struct Asked {
    MemgestId memgest;
    std::uint32_t block = 0;
    std::uint64_t index = 0;
    std::uint32_t left_out = 0;
    std::uint64_t token = 0;
  };
  void Decode(ShardCoordinator&, MemgestId memgest, std::uint32_t block, std::uint64_t index,
              std::uint32_t left_out, std::uint64_t token) override {
    asked.push_back({memgest, block, index, left_out, token});
  }
  std::vector<Asked> asked;
};

constexpr std::size_t kBlock = 16 * 1024;

class DegradedRead : public ::testing::Test {
 protected:
  // All bytes of the block, as they are.
  std::string Block(const TwinDecoder::Asked& asked) {
    const memgest::Memgest& memgest = *harness_.shard().FindMemgest(asked.memgest);
    const auto* const bytes = reinterpret_cast<const char*>(
        memgest.heap().At(asked.block * static_cast<std::uint32_t>(kBlock / kCacheLine)));
    return std::string(bytes, kBlock);
  }
  // With a wrong byte in the key's value.
  std::string WrongBlock(absl::string_view key) {
    TwinDecoder::Asked asked;
    asked.memgest = kSrs32;
    asked.block = static_cast<std::uint32_t>(LineOf(key).offset_cells / (kBlock / kCacheLine));
    std::string block = Block(asked);
    block[LineOf(key).offset_cells % (kBlock / kCacheLine) * kCacheLine] ^= 1;
    return block;
  }
  // Of the key's highest version.
  memgest::MetadataLine& LineOf(absl::string_view key) {
    ShardCoordinator& shard = harness_.shard();
    return shard.lines().line(*shard.keys().Find(KeyHash(key, shard.options().hash_seed), key));
  }
  std::byte* ValueAt(absl::string_view key) {
    return const_cast<std::byte*>(
        harness_.shard().FindMemgest(kSrs32)->heap().At(LineOf(key).offset_cells));
  }
  void PutAndSettle(absl::string_view key, absl::string_view value) {
    harness_.Run(harness_.Put(kSrs32, key, value));
    harness_.Settle();
  }

  TwinDecoder decoder_;
  ShardHarness harness_{{.block_size = kBlock, .decoder = &decoder_}};
};

TEST_F(DegradedRead, GivesTheBytesThatWereDecodedAndNotThoseThatAreHere) {
  PutAndSettle("k", "value");
  const int get = harness_.Get("k", kDegraded);
  ASSERT_EQ(decoder_.asked.size(), 1u);
  EXPECT_FALSE(harness_.answered(get));
  const std::string block = Block(decoder_.asked[0]);
  std::memset(ValueAt("k"), 'x', 5);  // whoever reads them is noticed
  harness_.shard().OnDecoded(decoder_.asked[0].token, absl::string_view(block));
  std::memcpy(ValueAt("k"), "value", 5);
  ASSERT_EQ(harness_.outcome(get), Outcome::kOk);
  EXPECT_EQ(harness_.answer(get).count, 1);
  EXPECT_EQ(harness_.answer(get).value, "value");
  EXPECT_EQ(harness_.shard().counters().degraded_gets, 1u);
  harness_.Settle();
  harness_.Scrub();
}

TEST_F(DegradedRead, V6PutsMeanwhileAreNotLostAndTheVersionThatWasReadStays) {
  PutAndSettle("k", "first");
  const int get = harness_.Get("k", kDegraded);
  ASSERT_EQ(decoder_.asked.size(), 1u);
  for (int i = 0; i < 50; ++i) {
    harness_.Run(harness_.Put(kSrs32, "k", "other"));
    harness_.Run(harness_.Put(kSrs32, std::to_string(i), "neighbour"));
  }
  harness_.Turns(20);
  const std::string block = Block(decoder_.asked[0]);  // as it is behind all of these
  harness_.shard().OnDecoded(decoder_.asked[0].token, absl::string_view(block));
  ASSERT_EQ(harness_.outcome(get), Outcome::kOk);
  EXPECT_EQ(harness_.answer(get).value, "first");
  EXPECT_EQ(harness_.Run(harness_.Get("k")).value, "other");
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(harness_.Run(harness_.Get(std::to_string(i))).value, "neighbour");
  harness_.Settle();
  harness_.Scrub();  // nothing is pinned any more
}

TEST_F(DegradedRead, AsksForWhatTheParityMustHaveFolded) {
  PutAndSettle("k", "value");
  const std::uint64_t last = harness_.shard().FindMemgest(kSrs32)->next_index() - 1;
  PutAndSettle("far", std::string(kBlock, 'f'));  // another block
  harness_.Get("k", kDegraded);
  ASSERT_EQ(decoder_.asked.size(), 1u);
  EXPECT_EQ(decoder_.asked[0].memgest, kSrs32);
  EXPECT_GE(decoder_.asked[0].index, last);
}

TEST_F(DegradedRead, S12BytesThatDoNotFitAreNotAnswered) {
  PutAndSettle("k", "value");
  const std::string block = WrongBlock("k");
  for (const bool zeros : {false, true}) {
    decoder_.asked.clear();
    const int get = harness_.Get("k", kDegraded);
    for (std::size_t i = 0; i < decoder_.asked.size(); ++i) {
      ASSERT_LT(i, 20u);
      EXPECT_FALSE(harness_.answered(get));
      harness_.shard().OnDecoded(decoder_.asked[i].token,
                                 zeros ? absl::string_view() : absl::string_view(block));
    }
    EXPECT_EQ(harness_.outcome(get), Outcome::kDataLost);
  }
  EXPECT_EQ(harness_.shard().counters().degraded_gets, 0u);
  harness_.Settle();
  harness_.Scrub();  // nothing is pinned any more
}

TEST_F(DegradedRead, S12WhatDoesNotFitIsDecodedWithoutOneBlockOfTheRowAfterTheOther) {
  PutAndSettle("k", "value");
  const int get = harness_.Get("k", kDegraded);
  const std::string wrong = WrongBlock("k");
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(decoder_.asked.size(), i + 1);
    EXPECT_EQ(decoder_.asked[i].left_out == 0, i < 2) << i;
    harness_.shard().OnDecoded(decoder_.asked[i].token, absl::string_view(wrong));
  }
  ASSERT_EQ(decoder_.asked.size(), 4u);
  EXPECT_NE(decoder_.asked[3].left_out, decoder_.asked[2].left_out);
  const std::string right = Block(decoder_.asked[3]);
  harness_.shard().OnDecoded(decoder_.asked[3].token, absl::string_view(right));
  ASSERT_EQ(harness_.outcome(get), Outcome::kOk);
  EXPECT_EQ(harness_.answer(get).value, "value");
  EXPECT_EQ(decoder_.asked.size(), 4u);
}

TEST_F(DegradedRead, S12WhatNothingCanBeLeftOutOfIsLostAtOnceAndWhatDoesNotAnswerIsNot) {
  PutAndSettle("k", "value");
  const std::string block = WrongBlock("k");
  for (const bool answers : {false, true}) {
    decoder_.asked.clear();
    const int get = harness_.Get("k", kDegraded);
    for (std::size_t i = 0; i < 2; ++i)
      harness_.shard().OnDecoded(decoder_.asked[i].token, absl::string_view(block));
    const absl::Status why =
        answers ? absl::DataLossError("needs it") : absl::UnavailableError("not now");
    for (std::size_t i = 2; i < decoder_.asked.size(); ++i)
      harness_.shard().OnDecoded(decoder_.asked[i].token, why);
    EXPECT_EQ(harness_.outcome(get), answers ? Outcome::kDataLost : Outcome::kUnavailable);
  }
}

TEST_F(DegradedRead, WhatNoParityAnswersIsRefusedForNow) {
  PutAndSettle("k", "value");
  const int get = harness_.Get("k", kDegraded);
  harness_.shard().OnDecoded(decoder_.asked[0].token, absl::UnavailableError("no parity"));
  EXPECT_EQ(harness_.outcome(get), Outcome::kUnavailable);
  EXPECT_EQ(decoder_.asked.size(), 1u);
}

TEST_F(DegradedRead, OfOtherValuesIsAnOrdinaryGet) {
  harness_.Run(harness_.Put(kRep3, "copied", "c"));
  harness_.Run(harness_.Put(kSrs32, "empty", ""));
  harness_.Run(harness_.Put(kSrs32, "several", std::string(3 * kBlock, 's')));
  harness_.Settle();
  EXPECT_EQ(harness_.Run(harness_.Get("copied", kDegraded)).value, "c");
  EXPECT_EQ(harness_.Run(harness_.Get("empty", kDegraded)).outcome, Outcome::kOk);
  EXPECT_EQ(harness_.Run(harness_.Get("several", kDegraded)).value.size(), 3 * kBlock);
  EXPECT_EQ(harness_.Run(harness_.Get("none", kDegraded)).outcome, Outcome::kNotFound);
  EXPECT_TRUE(decoder_.asked.empty());
}

TEST_F(DegradedRead, V7AnEpochChangeEndsIt) {
  PutAndSettle("k", "value");
  const int get = harness_.Get("k", kDegraded);
  ASSERT_EQ(decoder_.asked.size(), 1u);
  const std::string block = Block(decoder_.asked[0]);
  harness_.BeginEpoch();
  EXPECT_EQ(harness_.outcome(get), Outcome::kUnavailable);
  harness_.Normal();
  harness_.shard().OnDecoded(decoder_.asked[0].token, absl::string_view(block));
  EXPECT_EQ(harness_.answer(get).count, 1);
  harness_.Settle();
  harness_.Scrub();
}

TEST_F(DegradedRead, V7ARoleThatIsLostAnswersEachOnceAndHoldsNothing) {
  PutAndSettle("k", "value");
  PutAndSettle("l", "another");
  const int gets[] = {harness_.Get("k", kDegraded), harness_.Get("l", kDegraded),
                      harness_.Get("k", kDegraded)};
  ASSERT_EQ(decoder_.asked.size(), 3u);
  const std::string block = Block(decoder_.asked[0]);
  harness_.shard().Retire();
  EXPECT_TRUE(harness_.shard().gone());
  for (const TwinDecoder::Asked& asked : decoder_.asked)
    harness_.shard().OnDecoded(asked.token, absl::string_view(block));
  for (const int get : gets) {
    EXPECT_EQ(harness_.answer(get).count, 1) << get;
    EXPECT_EQ(harness_.outcome(get), Outcome::kUnavailable) << get;
  }
}

TEST(DegradedReadOff, IsRefusedWhereNobodyDecodes) {
  ShardHarness harness;
  harness.Run(harness.Put(kSrs32, "k", "value"));
  EXPECT_EQ(harness.Run(harness.Get("k", kDegraded)).outcome, Outcome::kBadRequest);
}

}  // namespace
}  // namespace ring::coordinator
