// Which keys and memgests the model of turned bits (F10) forgives, and which not.
#include "tests/sim/damage_model.h"

#include "gtest/gtest.h"

namespace ring::sim {
namespace {

protocol::MemgestDescriptor Replicated() {
  protocol::MemgestDescriptor memgest;
  memgest.id = MemgestId(3);
  memgest.name = "REP3";
  memgest.r = 3;
  return memgest;
}

protocol::MemgestDescriptor Coded() {
  protocol::MemgestDescriptor memgest;
  memgest.id = MemgestId(5);
  memgest.name = "SRS32";
  memgest.scheme = protocol::Scheme::kStretchedReedSolomon;
  memgest.r = 0;
  memgest.k = 3;
  memgest.m = 2;
  return memgest;
}

Operation Put(int key, MemgestId memgest) {
  Operation put;
  put.kind = OpKind::kPut;
  put.key = key;
  put.memgest = memgest;
  put.result = OpResult::kOk;
  return put;
}

TEST(DamageModelTest, F10AReplicatedValueConcernsItsKeyAlone) {
  History history;
  history.Add(Put(1, MemgestId(3)));
  history.Add(Put(2, MemgestId(3)));
  DamageModel damage;
  EXPECT_FALSE(damage.any());
  EXPECT_FALSE(damage.Concerns(1, history));
  damage.AddValue(1, Replicated());
  EXPECT_TRUE(damage.any());
  EXPECT_TRUE(damage.Concerns(1, history));
  EXPECT_FALSE(damage.Concerns(2, history));
}

TEST(DamageModelTest, F10S3ACodedOneConcernsWhatMayShareARowWithIt) {
  History history;
  history.Add(Put(1, MemgestId(5)));
  history.Add(Put(2, MemgestId(5)));
  history.Add(Put(3, MemgestId(3)));
  history.Add(Put(4, MemgestId(0)));  // by default, which may be the damaged one
  Operation get;
  get.key = 6;
  get.memgest = MemgestId(5);
  history.Add(get);
  DamageModel damage;
  damage.AddRow(Coded());
  EXPECT_TRUE(damage.Concerns(1, history));
  EXPECT_TRUE(damage.Concerns(2, history));
  EXPECT_FALSE(damage.Concerns(3, history));
  EXPECT_TRUE(damage.Concerns(4, history));
  EXPECT_FALSE(damage.Concerns(6, history));
  damage.AddValue(6, Coded());
  EXPECT_TRUE(damage.Concerns(6, history));
}

TEST(DamageModelTest, S12AFindingIsExplainedByDamageInItsMemgest) {
  DamageModel damage;
  damage.AddRow(Coded());
  EXPECT_TRUE(damage.Concerns(MemgestId(5)));
  EXPECT_FALSE(damage.Concerns(MemgestId(3)));
  EXPECT_TRUE(damage.Explains("parity memgest=SRS32 group=0 node=3 extent=0 row=0: differs"));
  EXPECT_TRUE(damage.Explains("member memgest=5 group=0 shard=1 node=2: no"));
  EXPECT_FALSE(damage.Explains("replica memgest=REP3 group=0 shard=1 node=2 line=7: is missing"));
  EXPECT_FALSE(damage.Explains("member memgest=53 group=5 shard=1 node=2: no"));
}

}  // namespace
}  // namespace ring::sim
