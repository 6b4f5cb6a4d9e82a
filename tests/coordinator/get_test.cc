// Reads: V4, V6, V8.
#include "tests/coordinator/shard_harness.h"

namespace ring::coordinator {
namespace {

using protocol::Outcome;

TEST(Get, AnswersWhatWasPutInEveryMemgest) {
  ShardHarness harness;
  for (std::uint16_t id = 0; id < kMemgestCount; ++id) {
    const std::string key = "key" + std::to_string(id);
    const std::string value = Bytes(100u + 1000u * id, id);
    const Version version = harness.Run(harness.Put(MemgestId(id), key, value)).version;
    const Answered& got = harness.Run(harness.Get(key));
    EXPECT_EQ(got.outcome, Outcome::kOk);
    EXPECT_EQ(got.version, version);
    EXPECT_TRUE(got.value == value);
    EXPECT_EQ(got.memgest, MemgestId(id));
  }
  harness.Settle();
  harness.Scrub();
}

}  // namespace
}  // namespace ring::coordinator
