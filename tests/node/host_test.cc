// The whole store in one process: client, fabric, coordinators, logs, members.
#include "ring/node/host.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/support/await.h"
#include "tests/support/random_seed.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

class HostTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HostOptions options;
    options.config = EmbeddedConfig();
    ASSERT_OK_AND_ASSIGN(host_, Host::Start(options));
    ASSERT_OK(host_->WaitReady(ring::testing::kPatience));
    ClientOptions client;
    client.seeds = {host_->local_seed()};
    client.transport = ring::Transport::kLocal;
    client.deadline = absl::Seconds(60);  // 16 MiB under ThreadSanitizer beside another test
    ASSERT_OK_AND_ASSIGN(client_, Client::Connect(client));
  }

  std::unique_ptr<Host> host_;
  std::unique_ptr<Client> client_;
};

const std::vector<std::string> kPaperMemgests = {"REP1",  "REP2",  "REP3", "REP4",
                                                 "SRS21", "SRS31", "SRS32"};

TEST_F(HostTest, PutThenGetThroughEveryMemgest) {
  for (const std::string& memgest : kPaperMemgests) {
    const std::string key = "key-of-" + memgest;
    ASSERT_OK_AND_ASSIGN(const WriteResult put,
                         client_->Put(key, "value in " + memgest, {.memgest = memgest}));
    ASSERT_OK_AND_ASSIGN(const GetResult got, client_->Get(key));
    EXPECT_EQ(got.value, "value in " + memgest);
    EXPECT_EQ(got.version, put.version);
    EXPECT_EQ(got.memgest, put.memgest);
  }
}

TEST_F(HostTest, GetOfAnUnknownKeyIsNotFound) {
  EXPECT_EQ(client_->Get("nobody").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(HostTest, DeleteMakesTheKeyUnknown) {
  ASSERT_OK(client_->Put("k", "v", {.memgest = "SRS32"}).status());
  ASSERT_OK(client_->Delete("k").status());
  EXPECT_EQ(client_->Get("k").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(client_->Delete("k").status().code(), absl::StatusCode::kNotFound);
  ASSERT_OK(client_->Put("k", "again", {.memgest = "REP2"}).status());
  ASSERT_OK_AND_ASSIGN(const GetResult got, client_->Get("k"));
  EXPECT_EQ(got.value, "again");
}

TEST_F(HostTest, MoveKeepsTheValueBetweenEveryPairOfMemgests) {
  for (const std::string& from : kPaperMemgests) {
    for (const std::string& to : kPaperMemgests) {
      const std::string key = from + "->" + to;
      ASSERT_OK(client_->Put(key, "value of " + key, {.memgest = from}).status());
      ASSERT_OK(client_->Move(key, to).status());
      ASSERT_OK(client_->Move(key, from).status());
      ASSERT_OK_AND_ASSIGN(const GetResult got, client_->Get(key));
      EXPECT_EQ(got.value, "value of " + key);
    }
  }
}

TEST_F(HostTest, AMoveWithAVersionMovesOnlyThatVersion) {
  ASSERT_OK_AND_ASSIGN(const WriteResult first, client_->Put("cond", "1", {.memgest = "REP3"}));
  ASSERT_OK_AND_ASSIGN(const WriteResult second, client_->Put("cond", "2", {.memgest = "REP3"}));
  EXPECT_THAT(client_->Move("cond", "SRS32", {.if_version = first.version}),
              ring::testing::StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(client_->Get("cond")->version, second.version);
  ASSERT_OK_AND_ASSIGN(const WriteResult moved,
                       client_->Move("cond", "SRS32", {.if_version = second.version}));
  EXPECT_GT(moved.version, second.version);
  // The version that was there before is gone for a batch, too.
  Batch batch;
  batch.Move("cond", "REP1", {.if_version = second.version});
  batch.Delete("cond", {.if_version = second.version});
  ASSERT_OK_AND_ASSIGN(const auto refused, client_->Execute(batch));
  for (const auto& result : refused) {
    EXPECT_THAT(result, ring::testing::StatusIs(absl::StatusCode::kAborted));
  }
  ASSERT_OK_AND_ASSIGN(const GetResult got, client_->Get("cond"));
  EXPECT_EQ(got.value, "2");
  EXPECT_EQ(got.version, moved.version);
  EXPECT_EQ(client_->MemgestName(got.memgest), "SRS32");
}

// Never an unbounded spin with fewer processors than threads that poll.
TEST(Polling, BusyWithMorePollersThanProcessorsIsRefused) {
  HostOptions options;
  options.config = EmbeddedConfig();
  options.config.poll = PollPolicy::kBusy;
  options.reactor_count = 2;
  options.processor_count = 1;
  EXPECT_THAT(Host::Start(options),
              ring::testing::StatusIs(absl::StatusCode::kInvalidArgument,
                                      ::testing::AllOf(::testing::HasSubstr("reactors=2"),
                                                       ::testing::HasSubstr("processors=1"),
                                                       ::testing::HasSubstr("poll=\"adaptive\""))));
  // Nodes of other processes of this host poll as well.
  options.hosted = {NodeId(0)};
  options.processor_count = 5;
  EXPECT_THAT(Host::Start(options), ring::testing::StatusIs(absl::StatusCode::kInvalidArgument,
                                                            ::testing::HasSubstr("pollers=6")));
  // As many as there are may.
  options.hosted.clear();
  options.processor_count = 2;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Host> host, Host::Start(options));
  EXPECT_OK(host->WaitReady(ring::testing::kPatience));
}

TEST_F(HostTest, LargeValuesGoThroughEveryMemgest) {
  SeededRandom random(ring::testing::TestSeed());
  for (const std::size_t size : {8193u, 65536u, 65537u, 262144u, 262145u, 3000001u, 16777216u}) {
    std::string value(size, '\0');
    for (char& c : value) c = static_cast<char>(random.Next64());
    for (const std::string& memgest : kPaperMemgests) {
      const std::string key = "large-" + memgest;
      ASSERT_OK(client_->Put(key, value, {.memgest = memgest}).status())
          << memgest << " size=" << size;
      ASSERT_OK_AND_ASSIGN(const GetResult got, client_->Get(key));
      ASSERT_TRUE(got.value == value) << memgest << " size=" << size;
      ASSERT_OK(client_->Move(key, memgest == "SRS32" ? "REP3" : "SRS32").status())
          << memgest << " size=" << size;
      ASSERT_OK_AND_ASSIGN(const GetResult moved, client_->Get(key));
      ASSERT_TRUE(moved.value == value) << memgest << " size=" << size;
    }
  }
}

TEST_F(HostTest, RandomOperationsAgreeWithAMap) {
  SeededRandom random(ring::testing::TestSeed());
  std::map<std::string, std::string> model;
  for (int i = 0; i < 20000; ++i) {
    const std::string key = "k" + std::to_string(random.Below(300));
    const std::string& memgest = kPaperMemgests[random.Below(kPaperMemgests.size())];
    switch (random.Below(6)) {
      case 0:
      case 1:
      case 2: {
        const std::string value(random.Below(3000), static_cast<char>('a' + random.Below(26)));
        ASSERT_OK(client_->Put(key, value, {.memgest = memgest}).status());
        model[key] = value;
        break;
      }
      case 3: {
        const absl::Status status = client_->Delete(key).status();
        ASSERT_EQ(status.ok(), model.erase(key) == 1) << status;
        break;
      }
      case 4: {
        const absl::Status status = client_->Move(key, memgest).status();
        ASSERT_EQ(status.ok(), model.count(key) == 1) << status;
        break;
      }
      default: {
        const absl::StatusOr<GetResult> got = client_->Get(key);
        ASSERT_EQ(got.ok(), model.count(key) == 1) << got.status();
        if (got.ok()) {
          ASSERT_EQ(got->value, model[key]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ring::node
