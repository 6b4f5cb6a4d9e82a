#include "ec_offload/graph/memory_run.h"

#include <utility>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace ring::ec_offload {
namespace {

using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

std::vector<std::byte> Bytes(std::initializer_list<unsigned> values) {
  std::vector<std::byte> bytes;
  for (const unsigned value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

// Node 0 sends chunk 0 and 3 * chunk 0 + chunk 1; node 1 keeps the first and adds both to 2.
absl::StatusOr<Graph> Example(Field field) {
  GraphBuilder builder(field, 3);
  builder.AddSource({0, 0});
  builder.AddSource({0, 1});
  builder.AddVertex(0, builder.whole_chunk(), {0, 1}, Matrix{{1, 0}, {3, 1}});
  builder.AddVertex(1, builder.whole_chunk(), {}, Matrix{{1, 0}, {1, 1}});
  builder.Connect(0, 0, 1);
  builder.Connect(0, 1, 1);
  builder.Keep(1, 0, 0);
  builder.Keep(1, 1, 2);
  return std::move(builder).Build();
}

TEST(MemoryRun, ComputesInTheFieldOfTheGraph) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Example(Field::kGf256));
  StripeMemory memory = {{{0, 0}, Bytes({1, 0x80, 0xff})}, {{0, 1}, Bytes({4, 5, 6})}};
  ASSERT_OK(RunInMemory(graph, memory));
  EXPECT_EQ((memory[{1, 0}]), Bytes({1, 0x80, 0xff}));
  // 3 * 0x80 = 0x9d, 3 * 0xff = 0x1c
  EXPECT_EQ((memory[{1, 2}]), Bytes({1 ^ 3 ^ 4, 0x80 ^ 0x9d ^ 5, 0xff ^ 0x1c ^ 6}));
  ASSERT_OK_AND_ASSIGN(const Graph nibbles, Example(Field::kGf16));
  memory = {{{0, 0}, Bytes({0x11, 0x80, 0x08})}, {{0, 1}, Bytes({0, 0, 0})}};
  ASSERT_OK(RunInMemory(nibbles, memory));
  // 3 * 8 = 0xb in GF(16)
  EXPECT_EQ((memory[{1, 2}]), Bytes({0x11 ^ 0x33, 0x80 ^ 0xb0, 0x08 ^ 0x0b}));
}

TEST(MemoryRun, RefusesASourceThatIsMissingOrOfAnotherSizeAndChangesNothing) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Example(Field::kGf256));
  StripeMemory memory = {{{0, 0}, Bytes({1, 2, 3})}};
  EXPECT_THAT(RunInMemory(graph, memory),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("chunk 1 at node 0 has size=0: give 3")));
  memory[{0, 1}] = Bytes({1, 2});
  EXPECT_THAT(RunInMemory(graph, memory),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has size=2: give 3")));
  EXPECT_EQ(memory.size(), 2U);
}

}  // namespace
}  // namespace ring::ec_offload
