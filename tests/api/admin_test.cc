// The admin service and its client over a port in memory, through real gRPC on loopback.
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "api/admin.grpc.pb.h"
#include "api/admin/admin_client.h"
#include "api/admin/admin_service.h"
#include "api/admin/convert.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/api/admin_fake_port.h"
#include "tests/api/raw_call.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::admin {
namespace {

using ::ring::testing::FakeAdminPort;
using ::ring::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

protocol::MemgestDescriptor Srs(std::string name, int k, int m) {
  protocol::MemgestDescriptor memgest;
  memgest.name = std::move(name);
  memgest.scheme = protocol::Scheme::kStretchedReedSolomon;
  memgest.k = static_cast<std::uint8_t>(k);
  memgest.m = static_cast<std::uint8_t>(m);
  return memgest;
}

class AdminTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = StartAdminServer("127.0.0.1:0", &port_);
    ASSERT_OK(server.status());
    server_ = *std::move(server);
    address_ = absl::StrCat("127.0.0.1:", server_->port());
    auto client = AdminClient::Create({.addresses = {address_}, .deadline = absl::Seconds(20)});
    ASSERT_OK(client.status());
    client_ = *std::move(client);
    channel_ = grpc::CreateChannel(address_, grpc::InsecureChannelCredentials());
    stub_ = v1::Admin::NewStub(channel_);
  }

  v1::CreateMemgestRequest ValidCreate() {
    v1::CreateMemgestRequest request;
    request.mutable_request_id()->set_client("test");
    request.mutable_request_id()->set_seq(1);
    request.mutable_spec()->set_name("cold");
    request.mutable_spec()->mutable_stretched()->set_data_blocks(2);
    request.mutable_spec()->mutable_stretched()->set_parity_blocks(1);
    return request;
  }

  grpc::Status Create(const v1::CreateMemgestRequest& request) {
    grpc::ClientContext context;
    v1::CreateMemgestResponse response;
    return stub_->CreateMemgest(&context, request, &response);
  }

  // The creation is refused before the port is asked.
  void ExpectRefused(const v1::CreateMemgestRequest& request, const std::string& text) {
    const grpc::Status status = Create(request);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << request.DebugString();
    EXPECT_THAT(status.error_message(), HasSubstr(text));
    EXPECT_TRUE(port_.requests.empty());
  }

  grpc::Status CallRaw(const std::string& method, const std::string& bytes,
                       std::string* answer = nullptr) {
    return admin::CallRaw(channel_, method, bytes, answer);
  }

  FakeAdminPort port_;
  std::unique_ptr<AdminServer> server_;
  std::string address_;
  std::unique_ptr<AdminClient> client_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Admin::Stub> stub_;
};

TEST_F(AdminTest, CreatesShowsListsAndDeletesAMemgest) {
  ASSERT_OK_AND_ASSIGN(const auto created, client_->CreateMemgest(Srs("cold", 2, 1)));
  EXPECT_EQ(created.id, MemgestId(8));
  EXPECT_EQ(created.state, protocol::MemgestState::kActive);
  EXPECT_EQ(created.SchemeName(), "SRS(2,1)");
  EXPECT_THAT(client_->GetMemgestDescriptor("cold"), ::ring::testing::IsOkAndHolds(created));
  ASSERT_OK_AND_ASSIGN(const auto listed, client_->ListMemgests(false));
  EXPECT_EQ(listed.size(), 8u);
  ASSERT_OK(client_->DeleteMemgest("cold", false));
  EXPECT_THAT(client_->GetMemgestDescriptor("cold"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(client_->ListMemgests(false)->size(), 7u);
  EXPECT_EQ(client_->ListMemgests(true)->size(), 8u);
}

TEST_F(AdminTest, AnEmptyNameIsMadeFromTheScheme) {
  EXPECT_THAT(client_->CreateMemgest(Srs("", 3, 2)),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("SRS32")));
  protocol::MemgestDescriptor all;
  all.r = 5;
  all.commit = protocol::CommitRule::kAll;
  EXPECT_EQ(client_->CreateMemgest(all)->name, "REP5-ALL");
}

TEST_F(AdminTest, ThePortsStatusesPassUnchanged) {
  EXPECT_THAT(client_->CreateMemgest(Srs("SRS32", 2, 1)),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("name=SRS32")));
  EXPECT_THAT(client_->DeleteMemgest("REP3", false),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("default")));
  EXPECT_THAT(client_->DeleteMemgest("none", false), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(client_->SetDefaultMemgest("none"), StatusIs(absl::StatusCode::kNotFound));
  port_.not_empty = "REP2";
  EXPECT_THAT(client_->DeleteMemgest("REP2", false),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not empty")));
  EXPECT_OK(client_->DeleteMemgest("REP2", true));
}

TEST_F(AdminTest, ANodeIsAddedWithWhatItIsReachedBy) {
  cluster::NodeInfo info;
  info.name = "n9";
  info.tcp_address = "tcp:10.0.0.9:7800";
  info.shm_address = "shm:/run/n9.sock";
  info.admin_address = "10.0.0.9:7900";
  info.rdma_address = "rdma:10.1.0.9:7801";
  EXPECT_THAT(client_->AddNode(info),
              ::ring::testing::IsOkAndHolds(
                  NodeId(static_cast<std::uint32_t>((*port_.GetView())->nodes.size()))));
  EXPECT_THAT(port_.node_changes,
              ElementsAre("add n9 tcp:10.0.0.9:7800 shm:/run/n9.sock 10.0.0.9:7900 "
                          "rdma:10.1.0.9:7801"));
  port_.fail_next = {absl::AlreadyExistsError("address=tcp:10.0.0.9:7800 is that of node 1")};
  EXPECT_THAT(client_->AddNode(info).status(),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("is that of node 1")));
  info.name.clear();
  EXPECT_THAT(client_->AddNode(info).status(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(AdminTest, G10TheDefaultCanBeChangedAndThenDeleted) {
  ASSERT_OK(client_->SetDefaultMemgest("SRS32"));
  EXPECT_EQ(client_->GetClusterView()->default_memgest, (*port_.GetView())->default_memgest);
  EXPECT_OK(client_->DeleteMemgest("REP3", false));
}

TEST_F(AdminTest, X6ALostAnswerIsAskedForAgainWithTheSameRequestId) {
  port_.fail_after = {absl::UnavailableError("lost"), absl::DeadlineExceededError("lost")};
  ASSERT_OK_AND_ASSIGN(const auto created, client_->CreateMemgest(Srs("cold", 2, 1)));
  EXPECT_EQ(created.id, MemgestId(8));
  ASSERT_EQ(port_.requests.size(), 3u);
  for (const auto& id : port_.requests) {
    EXPECT_EQ(id.client, port_.requests[0].client);
    EXPECT_EQ(id.seq, port_.requests[0].seq);
  }
  EXPECT_EQ(client_->ListMemgests(true)->size(), 8u);
  ASSERT_OK(client_->DeleteMemgest("cold", false));
  EXPECT_NE(port_.requests.back().seq, port_.requests.front().seq);
}

TEST_F(AdminTest, ARefusalIsNotSentAgain) {
  port_.fail_next = {absl::InternalError("no"), absl::ResourceExhaustedError("full")};
  EXPECT_THAT(client_->SetDefaultMemgest("SRS32"), StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(client_->SetDefaultMemgest("SRS32"), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(port_.requests.size(), 2u);
}

TEST_F(AdminTest, TheNextAddressAnswersWhenTheFirstIsDown) {
  ASSERT_OK_AND_ASSIGN(const auto client,
                       AdminClient::Create({.addresses = {"127.0.0.1:1", address_}}));
  EXPECT_OK(client->GetClusterView().status());
  EXPECT_OK(client->Scrub([](const auto&) { return true; }).status());
  EXPECT_OK(client->GetDeviceFaults("n0").status());
}

TEST_F(AdminTest, NoAnswerNamesTheAddressesAndTheDeadline) {
  ASSERT_OK_AND_ASSIGN(
      const auto client,
      AdminClient::Create({.addresses = {"127.0.0.1:1"}, .deadline = absl::Milliseconds(100)}));
  const absl::Status status = client->GetClusterView().status();
  EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("127.0.0.1:1"), HasSubstr("100ms")));
  EXPECT_THAT(AdminClient::Create({}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(AdminClient::Create({.addresses = {"host"}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("HOST:PORT")));
}

TEST_F(AdminTest, ViewsAndStatisticsArriveWhole) {
  EXPECT_THAT(client_->GetClusterView(), ::ring::testing::IsOkAndHolds(**port_.GetView()));
  port_.stats.memgests = {{MemgestId(2), 1, 2, 3, 4, 5}};
  node::NodeStats node;
  node.node = NodeId(3);
  node.resident_bytes = 1;
  node.gets = 2;
  node.puts = 3;
  node.deletes = 4;
  node.moves = 5;
  node.refusals = 6;
  node.clients = 7;
  node.log_entries_appended = 8;
  node.log_entries_folded = 9;
  node.log_bytes = 10;
  node.wakeups = 11;
  node.device_counters = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
  node.transports = {"tcp", "shm", ""};
  node.fence = "check";
  port_.stats.nodes = {node};
  ASSERT_OK_AND_ASSIGN(const node::ClusterStats stats, client_->GetStats());
  ASSERT_EQ(stats.memgests.size(), 1u);
  EXPECT_EQ(stats.memgests[0].id, MemgestId(2));
  EXPECT_EQ(stats.memgests[0].keys + stats.memgests[0].versions * 10 +
                stats.memgests[0].logical_bytes * 100 + stats.memgests[0].slot_bytes * 1000 +
                stats.memgests[0].resident_bytes * 10000,
            54321u);
  ASSERT_EQ(stats.nodes.size(), 1u);
  const node::NodeStats& n = stats.nodes[0];
  EXPECT_EQ(n.node, NodeId(3));
  EXPECT_THAT((std::vector<std::uint64_t>{n.resident_bytes, n.gets, n.puts, n.deletes, n.moves,
                                          n.refusals, n.clients, n.log_entries_appended,
                                          n.log_entries_folded, n.log_bytes, n.wakeups}),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_EQ(n.device_counters, node.device_counters);
  EXPECT_THAT(n.transports, ElementsAre("tcp", "shm", ""));
  EXPECT_EQ(n.fence, "check");
}

TEST_F(AdminTest, HealthArrivesWhole) {
  port_.health.level = cluster::HealthLevel::kFail;
  port_.health.view_epoch = 7;
  port_.health.leader = NodeId(2);
  port_.health.memgests = {
      {MemgestId(3), "SRS32", "SRS(3,2)", cluster::Condition::kRecovering, 2, 1, 0.25, 100, 10, 1}};
  port_.health.shards = {
      {GroupId(1), ShardId(2), NodeId(5), true, "lost", Epoch(3), {MemgestId(3), MemgestId(9)}},
      {GroupId(1), ShardId(2), cluster::kNoNode, true, "no node", Epoch(3), {}},
      {GroupId(3), ShardId(0), NodeId(4), false, "fetches metadata", Epoch(3), {}}};
  port_.health.warnings = {"node 3 (n3) is down"};
  EXPECT_THAT(client_->GetHealth(), ::ring::testing::IsOkAndHolds(port_.health));
  port_.fail_next = {absl::FailedPreconditionError("no view yet")};
  EXPECT_THAT(client_->GetHealth(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(AdminTest, EventsArriveWholeAndOnlyThoseNotSeen) {
  node::NodeEvents node{NodeId(4), Incarnation(77), -12, {}};
  for (int kind = 1; kind <= node::kEventKindMax; ++kind) {
    node::Event event;
    event.number = static_cast<std::uint64_t>(kind);
    event.time_ns = 1000 + event.number;
    event.kind = static_cast<node::EventKind>(kind);
    if (kind % 2 == 0) event.group = 0;
    if (kind % 2 == 0) event.shard = 1;
    event.epoch = Epoch(9);
    if (kind % 3 == 0) event.subject = NodeId(0);
    node.events.push_back(event);
  }
  port_.events = {node};
  ASSERT_OK_AND_ASSIGN(const auto all, client_->GetEvents({}));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].node, node.node);
  EXPECT_EQ(all[0].incarnation, node.incarnation);
  EXPECT_EQ(all[0].unix_offset_ns, node.unix_offset_ns);
  EXPECT_EQ(all[0].events, node.events);
  const node::EventCursor seen{node.node, node.incarnation, 15};
  ASSERT_OK_AND_ASSIGN(const auto rest, client_->GetEvents({&seen, 1}));
  EXPECT_EQ(rest[0].events.size(), node::kEventKindMax - 15u);
  const node::EventCursor other_start{node.node, Incarnation(76), 15};
  ASSERT_OK_AND_ASSIGN(const auto anew, client_->GetEvents({&other_start, 1}));
  EXPECT_EQ(anew[0].events.size(), node.events.size());
}

TEST_F(AdminTest, AScrubTellsItsProgressAndThenItsReport) {
  std::uint64_t calls = 0;
  ASSERT_OK_AND_ASSIGN(const node::ScrubReport report,
                       client_->Scrub([&](const node::ScrubProgress& progress) {
                         EXPECT_EQ(progress.checked, calls++);
                         EXPECT_EQ(progress.total, 10u);
                         return true;
                       }));
  EXPECT_EQ(calls, 10u);
  EXPECT_EQ(report.values_checked, 7u);
  EXPECT_EQ(report.replicas_checked, 14u);
  EXPECT_EQ(report.rows_checked, 3u);
  EXPECT_EQ(report.mismatches, 1u);
  EXPECT_THAT(report.details, ElementsAre("key=a: replica 1 differs"));
}

TEST_F(AdminTest, OneScrubAtATimeAndItsCallerCanStopIt) {
  port_.endless_scrub = true;
  bool refused = false;
  EXPECT_THAT(client_->Scrub([&](const node::ScrubProgress&) {
    EXPECT_THAT(client_->Scrub([](const auto&) { return true; }),
                StatusIs(absl::StatusCode::kResourceExhausted));
    refused = true;
    return false;
  }),
              StatusIs(absl::StatusCode::kCancelled));
  EXPECT_TRUE(refused);
}

TEST_F(AdminTest, AScrubEndsAtItsDeadlineAndSaysHowFarItCame) {
  port_.endless_scrub = true;
  std::optional<std::uint64_t> seen;
  // A busy machine needs more than the first for the scrub to get anywhere.
  for (absl::Duration deadline = absl::Milliseconds(200); !seen.has_value(); deadline *= 4) {
    ASSERT_LT(deadline, absl::Minutes(1));
    ASSERT_OK_AND_ASSIGN(const auto hasty, AdminClient::Create({.addresses = {address_},
                                                                .scrub_deadline = deadline}));
    const auto report = hasty->Scrub([&](const node::ScrubProgress& progress) {
      seen = progress.checked;
      return true;
    });
    ASSERT_THAT(report, StatusIs(absl::StatusCode::kDeadlineExceeded));
    if (!seen.has_value()) continue;
    EXPECT_THAT(std::string(report.status().message()),
                HasSubstr(absl::StrCat("not done within ", absl::FormatDuration(deadline),
                                       ": checked=", *seen, " of 10")));
  }
}

TEST_F(AdminTest, ShutdownEndsAnEndlessScrub) {
  port_.endless_scrub = true;
  std::thread stopper;
  const auto report = client_->Scrub([&](const node::ScrubProgress&) {
    if (!stopper.joinable()) stopper = std::thread([&] { server_->Shutdown(); });
    return true;
  });
  stopper.join();
  EXPECT_FALSE(report.ok());
}

// gRPC waits for its handlers, whatever it cancelled.
TEST_F(AdminTest, ShutdownEndsCallsThatWaitForTheCluster) {
  port_.drains_hang = true;
  grpc::Status drained;
  std::thread caller([&] {
    grpc::ClientContext context;
    v1::DrainRequest request;
    request.set_node("n1");
    v1::DrainResponse response;
    drained = stub_->Drain(&context, request, &response);
  });
  ring::testing::Await("the call", [&] { return port_.drain_waits(); });
  server_->Shutdown();
  caller.join();
  EXPECT_EQ(drained.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(drained.error_message(), HasSubstr("is stopping"));
}

TEST_F(AdminTest, RefusesFieldsBeforeThePortIsAsked) {
  auto request = ValidCreate();
  request.clear_request_id();
  ExpectRefused(request, "request_id is missing");
  request = ValidCreate();
  request.mutable_request_id()->set_seq(0);
  ExpectRefused(request, "request_id.seq=0");
  request = ValidCreate();
  request.mutable_request_id()->clear_client();
  ExpectRefused(request, "request_id.client has size=0");
  request.mutable_request_id()->set_client(std::string(65, 'c'));
  ExpectRefused(request, "request_id.client has size=65");
  request = ValidCreate();
  request.mutable_spec()->clear_scheme();
  ExpectRefused(request, "spec.scheme is missing");
  request.clear_spec();
  ExpectRefused(request, "spec.scheme is missing");
  request = ValidCreate();
  request.mutable_spec()->set_commit(static_cast<v1::CommitRule>(9));
  ExpectRefused(request, "spec.commit=9");
  request = ValidCreate();
  request.mutable_spec()->set_name(std::string(64, 'n'));
  ExpectRefused(request, "spec.name has size=64");
  request.mutable_spec()->set_name("no good");
  ExpectRefused(request, "name");
}

TEST_F(AdminTest, RefusesImpossibleDescriptorsBeforeThePortIsAsked) {
  for (const std::uint32_t k : {0u, 1u, 4u, 255u, 256u, 258u, 0xffffffffu}) {
    auto request = ValidCreate();
    request.mutable_spec()->mutable_stretched()->set_data_blocks(k);
    ExpectRefused(request, absl::StrCat("=", k));
  }
  for (const std::uint32_t m : {0u, 3u, 257u}) {
    auto request = ValidCreate();
    request.mutable_spec()->mutable_stretched()->set_parity_blocks(m);
    ExpectRefused(request, absl::StrCat("=", m));
  }
  for (const std::uint32_t r : {0u, 6u, 259u}) {
    auto request = ValidCreate();
    request.mutable_spec()->mutable_replicated()->set_copies(r);
    ExpectRefused(request, absl::StrCat("=", r));
  }
  for (const std::uint32_t size : {1u, 5000u, 2048u, 4u << 20}) {
    auto request = ValidCreate();
    request.mutable_spec()->set_block_size(size);
    ExpectRefused(request, absl::StrCat("block_size=", size));
  }
}

TEST_F(AdminTest, RefusesMalformedAndHugeMessages) {
  const std::string method = "/ring.admin.v1.Admin/CreateMemgest";
  EXPECT_FALSE(CallRaw(method, "\x0a\xff\xff\xff\xff\x0f").ok());
  EXPECT_FALSE(CallRaw(method, std::string(1000, '\xff')).ok());
  // A repeated unknown field, as large as a message may be and larger.
  std::string repeated;
  while (repeated.size() < kAdminMessageSizeMax - 8) repeated += "\xfa\x01\x01x";
  EXPECT_EQ(CallRaw(method, repeated).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  while (repeated.size() < 4 * kAdminMessageSizeMax) repeated += "\xfa\x01\x01x";
  EXPECT_EQ(CallRaw(method, repeated).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  // Groups nested deeper than any honest message.
  EXPECT_FALSE(CallRaw(method, std::string(kAdminMessageSizeMax / 2, '\x0b')).ok());
  EXPECT_EQ(CallRaw("/ring.admin.v1.Admin/Bogus", "").error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_TRUE(port_.requests.empty());
  EXPECT_OK(client_->GetClusterView().status());
}

TEST_F(AdminTest, X2AnotherChangeWithAUsedRequestIdIsRefused) {
  auto request = ValidCreate();
  EXPECT_TRUE(Create(request).ok());
  EXPECT_TRUE(Create(request).ok());
  request.mutable_spec()->set_name("other");
  EXPECT_EQ(Create(request).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(client_->ListMemgests(true)->size(), 8u);
}

TEST_F(AdminTest, AnExpiredDeadlineChangesNothing) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() - std::chrono::seconds(1));
  v1::CreateMemgestResponse response;
  EXPECT_EQ(stub_->CreateMemgest(&context, ValidCreate(), &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(port_.requests.empty());
}

TEST_F(AdminTest, HealthAndReflectionAnswer) {
  std::string answer;
  EXPECT_TRUE(CallRaw("/grpc.health.v1.Health/Check", "", &answer).ok());
  EXPECT_EQ(answer, "\x08\x01");  // SERVING
  EXPECT_EQ(CallRaw("/grpc.health.v1.Health/Check", "\x0a\x05zilch").error_code(),
            grpc::StatusCode::NOT_FOUND);
  // A ServerReflectionRequest with list_services, as grpcurl begins.
  answer.clear();
  const grpc::Status listed =
      CallRaw("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
              std::string("\x3a\x00", 2), &answer);
  EXPECT_TRUE(listed.ok()) << listed.error_message();
  EXPECT_THAT(answer, HasSubstr("ring.admin.v1.Admin"));
}

TEST_F(AdminTest, ATakenOrImpossibleAddressIsAnError) {
  FakeAdminPort other;
  EXPECT_THAT(StartAdminServer(address_, &other),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(address_)));
  EXPECT_THAT(StartAdminServer("nowhere", &other), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(StartAdminServer("192.0.2.1:1", &other), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(AdminTest, ShutdownIsIdempotentAndFreesTheAddress) {
  server_->Shutdown();
  server_->Shutdown();
  FakeAdminPort other;
  EXPECT_OK(StartAdminServer(address_, &other).status());
}

}  // namespace
}  // namespace ring::admin
