#include "ring/protocol/memgest_descriptor.h"

#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/support/random_seed.h"
#include "tests/support/status_matchers.h"

namespace ring::protocol {
namespace {

using ::ring::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

MemgestDescriptor Rep(int r, CommitRule commit = CommitRule::kQuorum) {
  MemgestDescriptor descriptor;
  descriptor.name = "rep";
  descriptor.commit = commit;
  descriptor.r = static_cast<std::uint8_t>(r);
  return descriptor;
}

MemgestDescriptor Srs(int k, int m) {
  MemgestDescriptor descriptor;
  descriptor.name = "srs";
  descriptor.scheme = Scheme::kStretchedReedSolomon;
  descriptor.k = static_cast<std::uint8_t>(k);
  descriptor.m = static_cast<std::uint8_t>(m);
  return descriptor;
}

std::vector<int> Roles(const MemgestDescriptor& descriptor, int shard, int s, int d) {
  std::vector<int> roles;
  for (const Role role : descriptor.MemberRoles(ShardId(static_cast<std::uint16_t>(shard)), s, d)) {
    roles.push_back(role.value());
  }
  return roles;
}

struct Row {
  MemgestDescriptor descriptor;
  const char* name;
  int failures;
  int acks;
  double overhead;
};

// The paper's seven at s=3, d=2, then commit = ALL and wider schemes.
TEST(MemgestDescriptor, CommitRuleAndToleratedFailuresFollowSectionZero) {
  const std::vector<Row> rows = {
      {Rep(1), "Rep(1)", 0, 0, 1},
      {Rep(2), "Rep(2)", 1, 1, 2},
      {Rep(3), "Rep(3)", 1, 1, 3},
      {Rep(4), "Rep(4)", 2, 2, 4},
      {Srs(2, 1), "SRS(2,1)", 1, 1, 1.5},
      {Srs(3, 1), "SRS(3,1)", 1, 1, 4.0 / 3},
      {Srs(3, 2), "SRS(3,2)", 2, 2, 5.0 / 3},
      {Rep(1, CommitRule::kAll), "Rep(1)", 0, 0, 1},
      {Rep(2, CommitRule::kAll), "Rep(2)", 1, 1, 2},
      {Rep(3, CommitRule::kAll), "Rep(3)", 2, 2, 3},
      {Rep(5), "Rep(5)", 2, 2, 5},
      {Srs(2, 2), "SRS(2,2)", 2, 2, 2},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(row.descriptor.SchemeName(), row.name);
    EXPECT_EQ(row.descriptor.FailuresTolerated(), row.failures) << row.name;
    EXPECT_EQ(row.descriptor.AcksNeeded(), row.acks) << row.name;
    EXPECT_DOUBLE_EQ(row.descriptor.StorageOverhead(), row.overhead) << row.name;
    EXPECT_OK(row.descriptor.Validate(3, 2));
  }
}

// L10: redundant roles s.. first, then the coordinator roles behind the shard's own.
TEST(MemgestDescriptor, MemberRolesAreTheRedundantOnesAndThenTheFollowingCoordinators) {
  for (int shard = 0; shard < 3; ++shard) {
    EXPECT_THAT(Roles(Rep(1), shard, 3, 2), IsEmpty());
    EXPECT_THAT(Roles(Rep(2), shard, 3, 2), ElementsAre(3));
    EXPECT_THAT(Roles(Rep(3), shard, 3, 2), ElementsAre(3, 4));
    EXPECT_THAT(Roles(Rep(4), shard, 3, 2), ElementsAre(3, 4, (shard + 1) % 3));
    EXPECT_THAT(Roles(Srs(2, 1), shard, 3, 2), ElementsAre(3));
    EXPECT_THAT(Roles(Srs(3, 1), shard, 3, 2), ElementsAre(3));
    EXPECT_THAT(Roles(Srs(3, 2), shard, 3, 2), ElementsAre(3, 4));
  }
  EXPECT_THAT(Roles(Rep(5), 2, 3, 2), ElementsAre(3, 4, 0, 1));
  EXPECT_THAT(Roles(Rep(2), 1, 2, 0), ElementsAre(0));
}

TEST(MemgestDescriptor, NoTwoMembersOfAShardShareARole) {
  for (int s = 1; s <= 16; ++s) {
    for (int d = 0; d <= 4; ++d) {
      for (int r = 1; r <= s + d; ++r) {
        for (int shard = 0; shard < s; ++shard) {
          const std::vector<int> roles = Roles(Rep(r), shard, s, d);
          std::set<int> distinct(roles.begin(), roles.end());
          distinct.insert(shard);
          ASSERT_EQ(distinct.size(), static_cast<std::size_t>(r)) << s << " " << d << " " << r;
          ASSERT_LT(*distinct.rbegin(), s + d);
        }
      }
    }
  }
}

TEST(MemgestDescriptor, RefusesShapesThatTheClusterCannotHold) {
  EXPECT_THAT(Rep(0).Validate(3, 2), StatusIs(kInvalid, HasSubstr("r=0 is not in 1..5")));
  EXPECT_THAT(Rep(6).Validate(3, 2), StatusIs(kInvalid, HasSubstr("r=6")));
  EXPECT_THAT(Srs(0, 1).Validate(3, 2), StatusIs(kInvalid, HasSubstr("k=0 is not in 2..3")));
  EXPECT_THAT(Srs(1, 1).Validate(3, 2), StatusIs(kInvalid, HasSubstr("k=1")));
  EXPECT_THAT(Srs(4, 1).Validate(3, 2), StatusIs(kInvalid, HasSubstr("k=4")));
  EXPECT_THAT(Srs(3, 0).Validate(3, 2), StatusIs(kInvalid, HasSubstr("m=0 is not in 1..2")));
  EXPECT_THAT(Srs(3, 3).Validate(3, 2), StatusIs(kInvalid, HasSubstr("m=3")));
  EXPECT_THAT(Srs(3, 5).Validate(3, 8), StatusIs(kInvalid, HasSubstr("m=5 is not in 1..4")));
  EXPECT_THAT(Srs(2, 1).Validate(17, 2), StatusIs(kInvalid, HasSubstr("s=17")));
  EXPECT_THAT(Srs(2, 1).Validate(2, 0), StatusIs(kInvalid, HasSubstr("m=1")));
  EXPECT_OK(Srs(2, 3).Validate(3, 3));  // m >= k is allowed (S9)
  EXPECT_OK(Srs(16, 4).Validate(16, 4));
}

TEST(MemgestDescriptor, RefusesBlockSizesThatAreNoPowerOfTwoInBounds) {
  for (const std::uint32_t size : {0u, 1u, 2048u, 4095u, 5000u, 3u << 20, 4u << 20, 0xffffffffu}) {
    MemgestDescriptor descriptor = Srs(3, 2);
    descriptor.block_size = size;
    EXPECT_THAT(descriptor.Validate(3, 2), StatusIs(kInvalid, HasSubstr("block_size"))) << size;
  }
  for (const std::uint32_t size : {kBlockSizeMin, kBlockSizeDefault, kBlockSizeMax}) {
    MemgestDescriptor descriptor = Srs(3, 2);
    descriptor.block_size = size;
    EXPECT_OK(descriptor.Validate(3, 2));
  }
}

TEST(MemgestDescriptor, RefusesNamesThatAnOperatorCouldNotType) {
  for (const std::string& name :
       {std::string(), std::string(64, 'a'), std::string("a b"), std::string("a\0b", 3),
        std::string("gold\n"), std::string("gr\xc3\xbcn"), std::string("a/b")}) {
    MemgestDescriptor descriptor = Rep(1);
    descriptor.name = name;
    EXPECT_THAT(descriptor.Validate(3, 2), StatusIs(kInvalid, HasSubstr("name"))) << name;
  }
  MemgestDescriptor descriptor = Rep(1);
  descriptor.name = "Gold-1_b.2" + std::string(53, 'z');
  EXPECT_OK(descriptor.Validate(3, 2));
}

TEST(MemgestDescriptor, ComesBackFromTheWireAndLeavesWhatFollows) {
  MemgestDescriptor first = Srs(3, 2);
  first.id = MemgestId(513);
  first.state = MemgestState::kDraining;
  first.block_size = kBlockSizeMax;
  first.repair = RepairScheme::kEcPipe;
  MemgestDescriptor second = Rep(4, CommitRule::kAll);
  second.id = kMemgestIdMax;
  std::string bytes;
  AppendMemgestDescriptor(first, &bytes);
  AppendMemgestDescriptor(second, &bytes);
  bytes += "tail";
  absl::string_view in = bytes;
  EXPECT_THAT(ConsumeMemgestDescriptor(&in), ::ring::testing::IsOkAndHolds(first));
  EXPECT_THAT(ConsumeMemgestDescriptor(&in), ::ring::testing::IsOkAndHolds(second));
  EXPECT_EQ(in, "tail");
}

TEST(MemgestDescriptor, V2TheIdThatStandsForNoneIsNobodys) {
  MemgestDescriptor none = Rep(1);
  none.id = kNoMemgest;
  EXPECT_THAT(none.Validate(3, 2), StatusIs(kInvalid, HasSubstr("id=65535 is not in 0..65534")));
  std::string bytes;
  AppendMemgestDescriptor(none, &bytes);
  absl::string_view in = bytes;
  EXPECT_THAT(ConsumeMemgestDescriptor(&in), StatusIs(kInvalid, HasSubstr("id=65535")));
  EXPECT_EQ(in.size(), bytes.size());
}

TEST(MemgestDescriptor, EveryTruncationIsRefusedAndTakesNothing) {
  std::string bytes;
  AppendMemgestDescriptor(Srs(3, 2), &bytes);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    absl::string_view in = absl::string_view(bytes).substr(0, length);
    EXPECT_THAT(ConsumeMemgestDescriptor(&in), StatusIs(kInvalid));
    EXPECT_EQ(in.size(), length);
  }
}

TEST(MemgestDescriptor, EveryByteOfTheEnumsOutsideTheirRangeIsRefused) {
  std::string good;
  AppendMemgestDescriptor(Srs(3, 2), &good);
  for (const auto& [offset, last] : {std::pair<std::size_t, int>{2, 2}, {3, 2}, {4, 4}, {8, 4}}) {
    for (int value = 0; value < 256; ++value) {
      std::string bytes = good;
      bytes[offset] = static_cast<char>(value);
      absl::string_view in = bytes;
      EXPECT_EQ(ConsumeMemgestDescriptor(&in).ok(), value >= 1 && value <= last) << value;
    }
  }
}

TEST(MemgestDescriptor, RandomBytesNeverReadBehindTheirEnd) {
  SeededRandom random(ring::testing::SeedFor("descriptor"));
  for (int i = 0; i < 20000; ++i) {
    std::vector<char> bytes(random.Below(90));  // exact allocation: a sanitizer sees any overrun
    for (char& byte : bytes) byte = static_cast<char>(random.Below(random.Below(4) == 0 ? 256 : 5));
    absl::string_view in(bytes.data(), bytes.size());
    const auto descriptor = ConsumeMemgestDescriptor(&in);
    if (!descriptor.ok()) continue;
    std::string again;
    AppendMemgestDescriptor(*descriptor, &again);
    EXPECT_EQ(again, absl::string_view(bytes.data(), bytes.size() - in.size()));
  }
}

}  // namespace
}  // namespace ring::protocol
