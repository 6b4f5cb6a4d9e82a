// What the checker of members' metadata sees, and what it leaves alone.
#include "tests/sim/checkers/metadata_checker.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sim/sim_values.h"

namespace ring::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class MetadataCheckerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(values_.Start());
    ASSERT_THAT(CheckMetadata(&values_.cluster()).violations, IsEmpty());
    for (const std::shared_ptr<SimNode>& node : values_.cluster().nodes()) {
      for (node::MemberPort::HeldShard& held : node->node().members().held_shards()) {
        memgest::LineTable& lines = held.store->lines();
        for (std::uint32_t i = 0; i < lines.granule_count() * memgest::kLinesPerGranule; ++i) {
          if (!lines.Has(i) || lines.line(i).version == 0) continue;
          held_ = held.store.get();
          line_ = i;
        }
      }
    }
    ASSERT_NE(held_, nullptr) << "no member has any line";
  }
  memgest::MetadataLine& line() { return held_->lines().line(line_); }
  void ExpectFound(const std::string& text) {
    const MetadataResult result = CheckMetadata(&values_.cluster());
    ASSERT_FALSE(result.violations.empty());
    EXPECT_EQ(result.violations[0].kind, "metadata");
    EXPECT_THAT(result.violations[0].detail, HasSubstr(text));
  }

  SimValues values_{ClusterOptions{}};
  memgest::MemberShard* held_ = nullptr;
  std::uint32_t line_ = 0;
};

TEST_F(MetadataCheckerTest, ComparesEveryLineAndRecordOfEveryMember) {
  const MetadataResult result = CheckMetadata(&values_.cluster());
  EXPECT_GE(result.lines, std::uint64_t{SimValues::kKeyCount});
  EXPECT_GE(result.records, std::uint64_t{1});
}

TEST_F(MetadataCheckerTest, E9AMemberThatLacksALineIsFound) {
  const std::uint64_t version = std::exchange(line().version, 0);
  ExpectFound("lacks line");
  line().version = version;
  EXPECT_THAT(CheckMetadata(&values_.cluster()).violations, IsEmpty());
}

TEST_F(MetadataCheckerTest, E9ALineThatSaysSomethingElseIsFound) {
  ++line().value_crc;
  ExpectFound("another value");
  --line().value_crc;
  ++line().version;
  ExpectFound("another version");
}

TEST_F(MetadataCheckerTest, G2ALineThatIsGoneAtTheCoordinatorIsFound) {
  memgest::LineTable& lines = held_->lines();
  std::uint32_t free = line_ / memgest::kLinesPerGranule * memgest::kLinesPerGranule;
  while (lines.line(free).version != 0) ++free;
  ASSERT_EQ(free / memgest::kLinesPerGranule, line_ / memgest::kLinesPerGranule);
  lines.line(free) = line();
  ExpectFound("which is gone");
}

TEST_F(MetadataCheckerTest, X2AMemberWithoutRecordsIsFound) {
  held_->completions().DropAll();
  ExpectFound("lacks the record");
}

}  // namespace
}  // namespace ring::sim
