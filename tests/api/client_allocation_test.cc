// The low-level path and GetInto allocate nothing. Counts operator new of the calling thread, which
// is all that C++ code of the client can reach; the twin's thread is not counted.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "api/client.h"
#include "gtest/gtest.h"
#include "ring/base/boot_clock.h"
#include "tests/api/twin_cluster.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring {
namespace {

using ::ring::testing::Await;
using ::ring::testing::TwinCluster;

// So slow that no node is silent for long, on a busy machine either: the client would ask for the
// view, which allocates.
class SlowClock final : public Clock {
 public:
  std::uint64_t NowNs() const override { return BootClock().NowNs() / 1000; }
};

TEST(ClientAllocation, TheHookCounts) {
  const std::uint64_t before = AllocationCount();
  const std::string text(1000, 'x');
  EXPECT_EQ(AllocationCount(), before + 1) << text.size();
}

TEST(ClientAllocation, ThePipelineAllocatesNothingPerOperation) {
  TwinCluster cluster;
  const SlowClock clock;
  ClientOptions options;
  options.spin_max = absl::ZeroDuration();  // by that clock it would take the node's processor
  const auto client = cluster.Connect(options, &clock);
  const std::string value(1024, 'v'), large(50000, 'w');
  std::vector<Completion> completions(16);
  std::string buffer(50000, '.');
  std::uint64_t allocated = 0;
  // As many large buffers as can be in use at a time: those under way, and those lent by a poll.
  for (std::uint64_t i = 0; i < 40; ++i) ASSERT_TRUE(client->SubmitPut(i, "large", large).ok());
  for (std::size_t finished = 0; finished < 40;) {
    client->WaitForProgress(absl::Milliseconds(10));
    finished += client->PollCompletions(absl::MakeSpan(completions));
  }
  for (int round = 0; round < 200; ++round) {
    if (round == 100) allocated = AllocationCount();
    for (std::uint64_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(client->SubmitPut(i, "key", value).ok());
      ASSERT_TRUE(client->SubmitGet(i, "key").ok());
      ASSERT_TRUE(client->SubmitPut(i, "large", large).ok());
      ASSERT_TRUE(client->SubmitGetInto(i, "large", absl::MakeSpan(buffer)).ok());
    }
    for (std::size_t finished = 0; finished < 16;) {
      finished += client->PollCompletions(absl::MakeSpan(completions));
      if (finished < 16) client->WaitForProgress(absl::Seconds(1));
    }
  }
  EXPECT_EQ(AllocationCount() - allocated, 0u);
}

// A large value is written by its node into a registered buffer of the client and lent from there:
// no copy is made, so no memory of its size is asked for, and the same buffers come again. A node
// that is silent for long on a busy machine is asked for the view meanwhile, into a buffer of the
// same size: that registration is small, and it makes one buffer more.
TEST(ClientAllocation, ALargeValueIsLentWhereItsNodeWroteIt) {
  constexpr std::size_t kSize = 1 << 20;
  TwinCluster cluster;
  const auto client = cluster.Connect();
  ASSERT_OK(client->Put("large", std::string(kSize, 'w')));
  std::vector<Completion> completions(1);
  std::vector<const char*> lent;
  lent.reserve(10);
  std::uint64_t before = 0;
  for (int round = 0; round < 20; ++round) {
    if (round == 10) before = AllocatedBytes();
    ASSERT_TRUE(client->SubmitGet(1, "large").ok());
    Await("a get", [&] {
      client->WaitForProgress(absl::Seconds(1));
      return client->PollCompletions(absl::MakeSpan(completions)) != 0;
    });
    ASSERT_EQ(completions[0].outcome, OpOutcome::kOk);
    ASSERT_EQ(completions[0].value.size(), kSize);
    EXPECT_EQ(completions[0].value.front(), 'w');
    EXPECT_EQ(completions[0].value.back(), 'w');
    if (round >= 10) lent.push_back(completions[0].value.data());
  }
  EXPECT_LT(AllocatedBytes() - before, kSize / 100) << "copies";
  EXPECT_LE(std::set<const char*>(lent.begin(), lent.end()).size(), 3u) << "used again";
}

TEST(ClientAllocation, AFullWindowIsRefusedWithoutAnAllocation) {
  TwinCluster cluster;
  const SlowClock clock;
  ClientOptions options;
  options.window = 1;
  const auto client = cluster.Connect(options, &clock);
  ASSERT_TRUE(client->SubmitGet(1, "key").ok());
  (void)client->SubmitGet(2, "key");
  const std::uint64_t before = AllocationCount();
  EXPECT_FALSE(client->SubmitGet(2, "key").ok());
  EXPECT_EQ(AllocationCount(), before);
}

TEST(ClientAllocation, PutAndGetIntoThatWaitAllocateNothing) {
  TwinCluster cluster;
  const SlowClock clock;
  ClientOptions options;
  options.spin_max = absl::ZeroDuration();  // by that clock it would take the node's processor
  const auto client = cluster.Connect(options, &clock);
  std::string buffer(2000, '.');
  const std::string value(1024, 'v');
  for (int i = 0; i < 10; ++i) ASSERT_OK(client->Put("key", value));
  const std::uint64_t before = AllocationCount();
  bool ok = true;
  for (int i = 0; i < 100; ++i) {
    ok &= client->Put("key", value).ok();
    ok &= client->GetInto("key", absl::MakeSpan(buffer)).ok();
  }
  EXPECT_EQ(AllocationCount(), before);
  EXPECT_TRUE(ok);
}

}  // namespace
}  // namespace ring
