// tests/node/recovery/fail_over_fixture.h — a cluster in this process that others take over in.
//
// What:      FailOverFixture starts it with fail-over, puts values of many sizes, and reads all of
//            them back, for as long as no fail-over takes.
// Threads:   as node_cluster.h.
// Errors:    a put that fails, and a value that is wrong or not back in time, fail the test.
#ifndef RING_TESTS_NODE_RECOVERY_FAIL_OVER_FIXTURE_H_
#define RING_TESTS_NODE_RECOVERY_FAIL_OVER_FIXTURE_H_

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/node/node_cluster.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::node::testing {

class FailOverFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(cluster_.Start(/*fail_over=*/true));
    ASSERT_OK_AND_ASSIGN(client_, cluster_.Connect());
  }

  void Load(const std::string& memgest, int count) {
    for (int i = 0; i < count; ++i) {
      const std::string key = absl::StrCat(memgest, "/", i);
      const std::string value(static_cast<std::size_t>(1 + i * 997 % 20000),
                              static_cast<char>('a' + i % 26));
      const absl::StatusOr<WriteResult> put = client_->Put(key, value, {.memgest = memgest});
      ASSERT_TRUE(put.ok()) << key << ": " << put.status();
      values_[key] = value;
    }
  }

  // What is read until it is there, or a deadline passed that no fail-over needs.
  void ExpectEverything() {
    for (const auto& [key, value] : values_) {
      absl::StatusOr<GetResult> got;
      const auto answered = [&, &key = key] {
        got = client_->Get(key);
        return !absl::IsUnavailable(got.status()) && !absl::IsDeadlineExceeded(got.status());
      };
      ASSERT_TRUE(ring::testing::HoldsWithin(ring::testing::kPatience, answered) && got.ok())
          << key << ": " << got.status();
      ASSERT_EQ(got->value, value) << key;
    }
  }

  NodeCluster cluster_;
  std::unique_ptr<Client> client_;
  std::map<std::string, std::string> values_;
};

}  // namespace ring::node::testing

#endif  // RING_TESTS_NODE_RECOVERY_FAIL_OVER_FIXTURE_H_
