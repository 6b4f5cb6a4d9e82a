// A coordinator dies under load: its client's writes go on, each once, and the caller does nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/node/node_cluster.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(50);  // below the 60 s of X4

// Keys that count up: a put names the version that the last one of its key was told. Executed
// twice, or told of wrongly, it would end the count with a mismatch.
class Counters {
 public:
  Counters(Client* client, std::vector<std::string> memgests, int per_memgest) : client_(client) {
    for (const std::string& memgest : memgests) {
      for (int i = 0; i < per_memgest; ++i)
        counters_[absl::StrCat(memgest, "/", i)].memgest = memgest;
    }
  }

  // Begins the next put of every key that has none under way.
  void Go() {
    for (auto& [key, counter] : counters_) {
      if (counter.under_way || stopped_) continue;
      counter.under_way = true;
      PutOptions options = {.memgest = counter.memgest, .deadline = kPatience};
      options.if_version = counter.version;
      client_->PutAsync(key, absl::StrCat(counter.count + 1), options,
                        [&counter = counter, this](absl::StatusOr<WriteResult> put) {
                          counter.under_way = false;
                          if (!put.ok()) {
                            failures_.push_back(put.status().ToString());
                            stopped_ = true;
                            return;
                          }
                          if (put->version <= counter.version) failures_.push_back("V1");
                          counter.version = put->version;
                          ++counter.count;
                          ++done_;
                        });
    }
  }
  void RunUntilDone(int count) {
    RunUntil([&] { return done_ >= count; });
  }
  // Until every counter has so many more: those whose coordinator is lost, too.
  void RunUntilAllMoved(int more) {
    std::map<std::string, int> before;
    for (const auto& [key, counter] : counters_) before[key] = counter.count;
    RunUntil([&] {
      for (const auto& [key, counter] : counters_) {
        if (counter.count < before[key] + more) return false;
      }
      return true;
    });
  }
  void ExpectWhatWasTold() {
    stopped_ = true;
    ASSERT_OK(client_->Wait(kPatience));
    ASSERT_THAT(failures_, ::testing::IsEmpty());
    for (const auto& [key, counter] : counters_) {
      const absl::StatusOr<GetResult> got = client_->Get(key, {.deadline = kPatience});
      ASSERT_TRUE(got.ok()) << key << ": " << got.status();
      EXPECT_EQ(got->value, absl::StrCat(counter.count)) << key;
      EXPECT_EQ(got->version, counter.version) << key;
    }
  }
  int done() const { return done_; }

 private:
  struct Counter {
    std::string memgest;
    int count = 0;
    Version version;  // none: the key does not exist yet
    bool under_way = false;
  };
  void RunUntil(absl::FunctionRef<bool()> moved) {
    const auto ended = [&] { return moved() || !failures_.empty(); };
    const auto turn = [&] {
      Go();
      client_->WaitForProgress(absl::Milliseconds(20));
    };
    ASSERT_TRUE(ring::testing::HoldsWithin(kPatience, ended, turn)) << "done=" << done_;
    ASSERT_THAT(failures_, ::testing::IsEmpty());
  }

  Client* client_;
  std::map<std::string, Counter> counters_;
  std::vector<std::string> failures_;
  int done_ = 0;
  bool stopped_ = false;
};

class FailOverClientTest : public ::testing::TestWithParam<FenceKind> {
 protected:
  void SetUp() override {
    ASSERT_OK(cluster_.Start(/*fail_over=*/true, /*fault_injection=*/false, GetParam()));
    ASSERT_OK_AND_ASSIGN(client_, cluster_.Connect());
  }
  testing::NodeCluster cluster_;
  std::unique_ptr<Client> client_;
};

TEST_P(FailOverClientTest, X1ToX3WritesGoOnOnceEachWhenTheirCoordinatorDiesUnderLoad) {
  Counters counters(client_.get(), {"REP3", "REP4"}, 40);
  counters.RunUntilDone(400);
  counters.Go();
  client_->Poll();  // requests are on their way
  cluster_.Kill(NodeId(1));
  counters.RunUntilAllMoved(5);
  counters.ExpectWhatWasTold();
}

// The former coordinator's client numbers go on at the next one: records were taken over (X2), and
// what its client had the answers of is forgotten there, too (X4).
TEST_P(FailOverClientTest, X2X4NumbersGoOnAtTheNextCoordinator) {
  Counters counters(client_.get(), {"REP3"}, 30);
  counters.RunUntilDone(1'100);  // more than a window of numbers in some shard
  cluster_.Kill(NodeId(0));      // the one whose view the client began with
  counters.RunUntilDone(counters.done() + 1'200);
  counters.RunUntilAllMoved(2);
  counters.ExpectWhatWasTold();
}

INSTANTIATE_TEST_SUITE_P(Fences, FailOverClientTest,
                         ::testing::Values(FenceKind::kLease, FenceKind::kCheck),
                         [](const auto& one) {
                           return one.param == FenceKind::kLease ? "Lease" : "Check";
                         });

}  // namespace
}  // namespace ring::node
