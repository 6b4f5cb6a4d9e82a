#include "ring/base/log.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ring {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::string captured;

class LogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    captured.clear();
    SetLogSink(
        [](LogSeverity, absl::string_view line) { captured.append(line.data(), line.size()); });
  }
  void TearDown() override {
    SetLogSink(nullptr);
    SetMinLogSeverity(LogSeverity::kINFO);
  }
};

TEST_F(LogTest, ARecordIsOneLineWithSeverityTimeAndPlace) {
  RING_LOG(WARNING) << "peer slow after_ms=" << 250;
  EXPECT_THAT(captured,
              MatchesRegex("W [0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+\\.[0-9][0-9][0-9]Z "
                           "log_test\\.cc:[0-9]+ peer slow after_ms=250\n"));
}

TEST_F(LogTest, DropsRecordsBelowTheSeverityWithoutEvaluatingThem) {
  SetMinLogSeverity(LogSeverity::kERROR);
  int evaluations = 0;
  RING_LOG(INFO) << ++evaluations;
  RING_LOG(WARNING) << ++evaluations;
  EXPECT_EQ(captured, "");
  EXPECT_EQ(evaluations, 0);
  RING_LOG(ERROR) << ++evaluations;
  EXPECT_THAT(captured, HasSubstr(" 1\n"));
}

TEST_F(LogTest, WithoutASinkWritesToStderr) {
  SetLogSink(nullptr);
  ::testing::internal::CaptureStderr();
  RING_LOG(INFO) << "view epoch=5";
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("view epoch=5\n"));
  EXPECT_EQ(captured, "");
}

}  // namespace
}  // namespace ring
