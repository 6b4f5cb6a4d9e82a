// Each switch of a rule of new parities and small sets is noticed by the history that the rule is
// there for, and by nothing else: S6, S13.
#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ring/base/mutant.h"
#include "tests/memgest/coded_group.h"

namespace ring::memgest {
namespace {

constexpr std::uint64_t kSeed = 7;

// Parity 1 is lost after some load, and a new one joins all shards.
void Replace(CodedGroup& group) {
  for (int n = 0; n < 20; ++n) {
    for (int i = 0; i < group.shard_count(); ++i) {
      group.Put(i, static_cast<std::uint32_t>(1 + group.random().Below(CodedGroup::kBlock)));
      group.Turn(i);
      for (int j = 0; j < 2; ++j) group.Fold(i, j);
    }
  }
  for (int n = 0; n < 10; ++n) group.Collect(0);
  group.Settle();
  group.Lose(1);
  for (int i = 0; i < group.shard_count(); ++i) {
    group.BeginEpoch(i, {0});
    group.Normal(i);
    group.Join(i, 1);
    group.Name(i, 1);
  }
  group.Settle();
}

// Bytes change before and behind their base, and all bases are sent twice.
bool RebuiltRowsAreWrong() {
  CodedGroup group(kSeed, 2, 2, 3);
  Replace(group);
  for (int i = 0; i < group.shard_count(); ++i) group.Part(i, 0, 2000);
  for (int n = 0; n < 6; ++n) {
    for (int i = 0; i < group.shard_count(); ++i) group.Rebuild(i);
    group.Settle();
  }
  for (int i = 0; i < group.shard_count(); ++i) {
    group.Part(i, 4, 2000);
    CodedGroup::Shard& shard = group.shard(i);
    const std::vector<ParityRebuild::From> from = shard.memgest->rebuild().parities();
    shard.memgest->rebuild().OnNormal(shard.active, {}, false);  // it forgets what it sent
    shard.memgest->rebuild().OnNormal(shard.active, from, false);
  }
  group.Settle(/*rebuild=*/true);
  return group.Compare(1).wrong > 0;
}

// A put that the new parity acknowledged and cannot decode.
bool AnAcknowledgedPutIsNotCovered() {
  CodedGroup group(kSeed, 2, 2, 3);
  Replace(group);
  for (int n = 0; n < 40; ++n) {
    group.Put(0, static_cast<std::uint32_t>(1 + group.random().Below(CodedGroup::kBlock)));
    const std::uint64_t offset = std::uint64_t{group.shard(0).live.back().slot.offset_cells} * 64;
    group.Settle();
    const srs::Position at = group.codec().layout().Locate(0, offset);
    const ParityStore& parity = *group.parity(1).store;
    const bool based = offset / 64 < parity.based_cells(ShardId(0));
    if (!based && at.extent < group.shard(0).memgest->rebuild().parities()[0].extent) return true;
  }
  return false;
}

// Nobody is named but the coordinator, and entries are accepted.
bool TooFewAreEnough() {
  protocol::MemgestDescriptor descriptor;
  descriptor.id = CodedGroup::kSrs;
  descriptor.scheme = protocol::Scheme::kStretchedReedSolomon;
  descriptor.k = 2;
  descriptor.m = 2;
  MemberSet members(descriptor, {Role(3), Role(4)});
  members.SetActive(0);
  return members.Enough();
}

struct Scenario {
  const char* mutant;
  bool (*broken)();
};
const Scenario kScenarios[] = {
    {"S6-early", RebuiltRowsAreWrong}, {"S6-late", RebuiltRowsAreWrong},
    {"S6-twice", RebuiltRowsAreWrong}, {"S6-alloc", AnAcknowledgedPutIsNotCovered},
    {"S13", TooFewAreEnough},
};

class MemgestMutantTest : public ::testing::TestWithParam<Scenario> {
 protected:
  void TearDown() override { SetMutant(""); }
};

TEST_P(MemgestMutantTest, TheScenarioIsBrokenByTheMutantAlone) {
  EXPECT_FALSE(GetParam().broken());
  SetMutant(GetParam().mutant);
  EXPECT_TRUE(GetParam().broken());
}

INSTANTIATE_TEST_SUITE_P(Rules, MemgestMutantTest, ::testing::ValuesIn(kScenarios),
                         [](const auto& scenario) {
                           std::string name = scenario.param.mutant;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace ring::memgest
