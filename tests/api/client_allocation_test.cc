// The low-level path and GetInto allocate nothing. Counts operator new of the calling thread, which
// is all that C++ code of the client can reach; the twin's thread is not counted.
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "api/client.h"
#include "gtest/gtest.h"
#include "tests/api/twin_cluster.h"
#include "tests/support/status_matchers.h"

namespace {

thread_local std::size_t allocation_count = 0;

void* CountedAllocate(std::size_t size) {
  ++allocation_count;
  void* memory = std::malloc(size);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return CountedAllocate(size); }
void* operator new[](std::size_t size) { return CountedAllocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace ring {
namespace {

using ::ring::testing::TwinCluster;

TEST(ClientAllocation, TheHookCounts) {
  const std::size_t before = allocation_count;
  const std::string text(1000, 'x');
  EXPECT_EQ(allocation_count, before + 1) << text.size();
}

TEST(ClientAllocation, ThePipelineAllocatesNothingPerOperation) {
  TwinCluster cluster;
  const auto client = cluster.Connect();
  const std::string value(1024, 'v'), large(50000, 'w');
  std::vector<Completion> completions(16);
  std::string buffer(50000, '.');
  std::size_t allocated = 0;
  // As many large buffers as can be in use at a time: those under way, and those lent by a poll.
  for (std::uint64_t i = 0; i < 40; ++i) ASSERT_TRUE(client->SubmitPut(i, "large", large).ok());
  for (std::size_t finished = 0; finished < 40;) {
    client->WaitForProgress(absl::Milliseconds(10));
    finished += client->PollCompletions(absl::MakeSpan(completions));
  }
  for (int round = 0; round < 200; ++round) {
    if (round == 100) allocated = allocation_count;
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
  EXPECT_EQ(allocation_count - allocated, 0u);
}

TEST(ClientAllocation, AFullWindowIsRefusedWithoutAnAllocation) {
  TwinCluster cluster;
  ClientOptions options;
  options.window = 1;
  const auto client = cluster.Connect(options);
  ASSERT_TRUE(client->SubmitGet(1, "key").ok());
  (void)client->SubmitGet(2, "key");
  const std::size_t before = allocation_count;
  EXPECT_FALSE(client->SubmitGet(2, "key").ok());
  EXPECT_EQ(allocation_count, before);
}

TEST(ClientAllocation, PutAndGetIntoThatWaitAllocateNothing) {
  TwinCluster cluster;
  const auto client = cluster.Connect();
  std::string buffer(2000, '.');
  const std::string value(1024, 'v');
  for (int i = 0; i < 10; ++i) ASSERT_OK(client->Put("key", value));
  const std::size_t before = allocation_count;
  bool ok = true;
  for (int i = 0; i < 100; ++i) {
    ok &= client->Put("key", value).ok();
    ok &= client->GetInto("key", absl::MakeSpan(buffer)).ok();
  }
  EXPECT_EQ(allocation_count, before);
  EXPECT_TRUE(ok);
}

}  // namespace
}  // namespace ring
