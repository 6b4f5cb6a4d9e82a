#include "ring/base/id.h"

#include <type_traits>

#include "absl/hash/hash_testing.h"
#include "gtest/gtest.h"

namespace ring {
namespace {

static_assert(!std::is_convertible_v<std::uint32_t, NodeId>, "an id is never made by accident");
static_assert(!std::is_convertible_v<NodeId, std::uint32_t>);
static_assert(!std::is_constructible_v<ShardId, GroupId>, "ids of two kinds do not mix");
static_assert(std::is_trivially_copyable_v<Version> && sizeof(Version) == 8);

TEST(Id, ComparesAndHashesByValue) {
  EXPECT_EQ(NodeId(3), NodeId(3));
  EXPECT_LT(NodeId(3), NodeId(4));
  EXPECT_EQ(NodeId().value(), 0u);
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly({NodeId(), NodeId(1), NodeId(2)}));
}

// V1: (epoch, tenure counter), compared lexicographically; 0 is "no version".
TEST(Version, V1OrdersByEpochFirstThenByCounter) {
  const Version old_epoch(Epoch(4), Version::kCounterMax);
  const Version new_epoch(Epoch(5), 0);
  EXPECT_LT(old_epoch, new_epoch);
  EXPECT_LT(Version(Epoch(5), 1), Version(Epoch(5), 2));
  EXPECT_LT(Version(), Version(Epoch(0), 1));
}

TEST(Version, V1KeepsBothPartsAtTheirLimits) {
  const Epoch epoch((1u << 24) - 1);
  const Version version(epoch, Version::kCounterMax);
  EXPECT_EQ(version.epoch(), epoch);
  EXPECT_EQ(version.counter(), Version::kCounterMax);
  EXPECT_EQ(Version(version.bits()), version);
  EXPECT_EQ(Version().bits(), 0u);
}

}  // namespace
}  // namespace ring
