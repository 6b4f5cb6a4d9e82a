// What an RDMA card, its settings and its memory may lack or lose, and how that is told.
#include "rdma/verbs/verbs_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <linux/capability.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "rdma/soft/socket_address.h"
#include "rdma/verbs/nic.h"
#include "rdma/verbs/wire.h"
#include "tests/contract/fabric_harness.h"
#include "tests/rdma/child_process.h"
#include "tests/support/await.h"

namespace ring::rdma {
namespace {

using ::testing::HasSubstr;

SoftDeviceOptions Options() {
  SoftDeviceOptions options;
  options.arena_size_max = std::uint64_t{64} << 20;
  options.verbs = TestVerbsOptions(/*peer=*/false);
  return options;
}

absl::Status ListenWith(const SoftDeviceOptions& options) {
  return (*OpenSoftDevice(options))->Listen("rdma::0").status();
}

TEST(VerbsAbsent, AHostWithoutACardSaysSoAndServesTheRest) {
  if (verbs::ListDevices().ok()) return;  // there is one
  const std::unique_ptr<Device> device = *OpenSoftDevice({});
  const std::unique_ptr<CompletionQueue> cq = *device->CreateCompletionQueue(16);
  const QueuePairOptions options{.send_cq = cq.get(), .recv_cq = cq.get()};
  for (const absl::Status& status : {device->Listen("rdma::0").status(),
                                     device->Connect("rdma:10.0.0.1:1", options, "").status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("no verbs device"));
  }
  EXPECT_TRUE(device->Listen("tcp:127.0.0.1:0").ok());
}

class VerbsEndpoint : public FabricContract {
 protected:
  bool Await(Side& side, ConnectionEvent::Kind kind, ConnectionEvent* event) {
    return WaitFor([&] { return side.TakeEvent(kind, event); });
  }
};

TEST_P(VerbsEndpoint, WhatIsNotThereIsNamedWithWhatIs) {
  SoftDeviceOptions options = Options();
  const std::string real = options.verbs.device;
  options.verbs.device = "mlx9_9";
  absl::Status status = ListenWith(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("mlx9_9"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(real));
  options.verbs = {.device = real, .gid_index = 99};
  status = ListenWith(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("gid_index=99"));
  options.verbs = {.device = real, .port = 9};
  status = ListenWith(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("port=9"));
}

TEST_P(VerbsEndpoint, AnAddressOfNoCardIsRefused) {
  EXPECT_EQ((*OpenSoftDevice({}))->Listen("rdma:192.0.2.1:0").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(a_->device->Listen("rdma:nothing").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(VerbsEndpoint, WithoutASettingTheAddressDecidesOnTheCard) {
  const std::unique_ptr<Device> device = *OpenSoftDevice({});
  const std::string host = address_.substr(0, address_.rfind(':'));
  const auto listening = device->Listen(host + ":0");
  ASSERT_TRUE(listening.ok()) << listening.status();
  EXPECT_EQ(listening->substr(0, listening->rfind(':')), host);
}

TEST_P(VerbsEndpoint, MemoryFromAfterTheConnectionIsReached) {
  std::byte* const later = *b_->device->Allocate(4096, MemoryKind::kShared);
  const auto region = *b_->device->Register(later, 4096, kRemoteWrite);
  std::byte* const own = *a_->device->Allocate(4096, MemoryKind::kPrivate);
  Put(own, "later");
  const Sge sge{own, 5, a_->device->LocalKey(own)};
  WorkRequest wr = Write(sge, 0);
  wr.remote_address = region->remote().address;
  wr.rkey = region->rkey();
  EXPECT_EQ(PostOne(wr).status, WcStatus::kSuccess);
  EXPECT_EQ(std::memcmp(later, "later", 5), 0);
}

TEST_P(VerbsEndpoint, MemoryOfAnotherOriginIsSent) {
  std::vector<std::byte> foreign(4096);
  const auto region = *a_->device->Register(foreign.data(), foreign.size(), kLocalOnly);
  Put(foreign.data(), "foreign");
  const Sge sge{foreign.data(), 7, region->lkey()};
  EXPECT_EQ(PostOne(Write(sge, 64)).status, WcStatus::kSuccess);
  EXPECT_TRUE(BytesAtB(64, "foreign"));
}

// Pages that were dropped would be others to the host than to the card.
TEST_P(VerbsEndpoint, DiscardedAndFreedMemoryStaysWhatTheCardReaches) {
  constexpr std::size_t kSize = std::size_t{4} << 20;
  const Sge sge = a_->At(0, 8);
  Put(a_->memory, "discards");
  EXPECT_EQ(PostOne(Write(sge, 0)).status, WcStatus::kSuccess);
  b_->device->Discard(b_->memory, kSize);
  EXPECT_TRUE(BytesAtB(0, std::string(8, '\0')));
  EXPECT_EQ(PostOne(Write(sge, 0)).status, WcStatus::kSuccess);
  EXPECT_TRUE(BytesAtB(0, "discards"));
  for (int i = 0; i < 3; ++i) {
    std::byte* const memory = *b_->device->Allocate(kSize, MemoryKind::kShared);
    EXPECT_EQ(memory[0], std::byte{0});
    auto region = *b_->device->Register(memory, kSize, kRemoteWrite);
    WorkRequest wr = Write(sge, 0);
    wr.remote_address = region->remote().address;
    wr.rkey = region->rkey();
    EXPECT_EQ(PostOne(wr).status, WcStatus::kSuccess);
    EXPECT_EQ(std::memcmp(memory, "discards", 8), 0);
    region.reset();
    b_->device->Free(memory, kSize, MemoryKind::kShared);
  }
}

TEST_P(VerbsEndpoint, OneRegionServesPeersOfSeveralLinks) {
  const std::string over_tcp = *b_->device->Listen("tcp:127.0.0.1:0");
  std::unique_ptr<QueuePair> tcp = *a_->device->Connect(over_tcp, a_->qp_options(), "");
  ConnectionEvent event;
  ASSERT_TRUE(Await(*b_, ConnectionEvent::Kind::kConnectRequest, &event));
  std::unique_ptr<QueuePair> accepted = *b_->device->Accept(event.request, b_->qp_options(), "");
  ASSERT_TRUE(Await(*a_, ConnectionEvent::Kind::kEstablished, &event));
  EXPECT_EQ(a_->qp->transport(), "rdma");
  EXPECT_EQ(tcp->transport(), "tcp");
  Put(a_->memory, "both");
  const Sge sge = a_->At(0, 4);
  EXPECT_EQ(PostOne(Write(sge, 0)).status, WcStatus::kSuccess);
  WorkRequest wr = Write(sge, 64);
  wr.signaled = true;
  ASSERT_TRUE(tcp->PostSend(wr).ok());
  EXPECT_EQ(OneCompletion(*a_, *a_->send_cq).status, WcStatus::kSuccess);
  EXPECT_TRUE(BytesAtB(0, "both"));
  EXPECT_TRUE(BytesAtB(64, "both"));
}

// Each look costs a system call: it is made often only while a connection begins or ends.
TEST_P(VerbsEndpoint, AConnectionAtRestAndOneThatEndedAskTheSystemForNothing) {
  const auto looks_of = [&](int turns) {
    for (int i = 0; i < 2000; ++i) a_->CollectEvents();  // takes what came before
    const std::uint64_t before = a_->device->device_counters().waits;
    for (int i = 0; i < turns; ++i) a_->device->Progress();
    return a_->device->device_counters().waits - before;
  };
  EXPECT_LE(looks_of(4096), 5u);
  b_->qp.reset();
  ConnectionEvent event;
  ASSERT_TRUE(Await(*a_, ConnectionEvent::Kind::kDisconnected, &event));
  EXPECT_LE(looks_of(4096), 5u) << "the queue pair in error is still there";
  a_->qp.reset();
  EXPECT_LE(looks_of(4096), 5u);
}

TEST_P(VerbsEndpoint, AFullDeviceRefusesWithItsReason) {
  SoftDeviceOptions options = Options();
  options.connection_count_max = 0;
  options.verbs = TestVerbsOptions(/*peer=*/true);
  const std::unique_ptr<Device> full = *OpenSoftDevice(options);
  const std::string address = *full->Listen("rdma::0");
  auto qp = *a_->device->Connect(address, a_->qp_options(), "");
  ConnectionEvent event;
  ASSERT_TRUE(WaitFor([&] {
    full->Progress();
    return a_->TakeEvent(ConnectionEvent::Kind::kRejected, &event);
  }));
  EXPECT_THAT(event.private_data, HasSubstr("connection_count_max=0"));
}

// Whoever connects without our greeting is told why not.
TEST_P(VerbsEndpoint, AnotherVersionIsRejectedWithItsReason) {
  rdma_event_channel* const channel = rdma_create_event_channel();
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), 0);
  soft::SocketAddress target = *soft::ReadAddress("rdma", address_.substr(5), false);
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, target.raw(), 1000), 0);
  ASSERT_EQ(rdma_get_cm_event(channel, &event), 0);
  rdma_ack_cm_event(event);
  ASSERT_EQ(rdma_resolve_route(id, 1000), 0);
  ASSERT_EQ(rdma_get_cm_event(channel, &event), 0);
  rdma_ack_cm_event(event);
  verbs::Greeting greeting;
  greeting.version = 77;
  rdma_conn_param parameters{};
  parameters.private_data = &greeting;
  parameters.private_data_len = sizeof(greeting);
  parameters.qp_num = 4711;
  ASSERT_EQ(rdma_connect(id, &parameters), 0);
  std::string reason;
  ASSERT_TRUE(WaitFor([&] {
    pollfd entry{channel->fd, POLLIN, 0};
    if (poll(&entry, 1, 0) != 1) return false;
    EXPECT_EQ(rdma_get_cm_event(channel, &event), 0);
    EXPECT_EQ(event->event, RDMA_CM_EVENT_REJECTED);
    reason = verbs::DecodeRejection({static_cast<const std::byte*>(event->param.conn.private_data),
                                     event->param.conn.private_data_len});
    rdma_ack_cm_event(event);
    return true;
  }));
  EXPECT_THAT(reason, HasSubstr("version=77"));
  rdma_destroy_id(id);
  rdma_destroy_event_channel(channel);
}

// A limit on locked memory does not count for those who may ignore it.
bool DropIpcLock() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  for (auto* const set : {&data[0].effective, &data[0].permitted}) *set &= ~(1u << CAP_IPC_LOCK);
  return syscall(SYS_capset, &header, data) == 0;
}

TEST_P(VerbsEndpoint, TooLittleLockedMemoryIsNamedWithItsLimit) {
  ChildProcess limited([&](const Channel&) {
    const rlimit limit{1 << 20, 1 << 20};
    if (!DropIpcLock() || setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 1;
    const std::unique_ptr<Device> device = *OpenSoftDevice(Options());
    if (!device->Allocate(std::size_t{8} << 20, MemoryKind::kShared).ok()) return 2;
    const absl::Status status = device->Listen("rdma::0").status();
    if (status.code() != absl::StatusCode::kResourceExhausted) return 3;
    return status.message().find("1048576") == absl::string_view::npos ? 4 : 0;
  });
  EXPECT_EQ(limited.AwaitExit(), 0);
}

// Only where RING_TEST_VERBS_UNPLUG allows to take that away.
std::vector<LinkKind> IfUnplugged(absl::string_view what) {
  const char* const allowed = std::getenv("RING_TEST_VERBS_UNPLUG");
  if (allowed == nullptr || what != allowed) return {};
  return WithVerbs({}, {LinkKind::kVerbs});
}
class VerbsCard : public VerbsEndpoint {};
class VerbsPort : public VerbsEndpoint {};

int Shell(const std::string& command) { return std::system(command.c_str()); }

// Its addresses come a while after it.
bool IsBack() {
  return testing::HoldsWithin(testing::kPatience, [] { return ListenWith(Options()).ok(); });
}

std::string InterfaceOf(const std::string& card) {
  std::ifstream file(absl::StrCat("/sys/class/infiniband/", card, "/parent"));
  std::string name;
  file >> name;
  return name;
}

// It takes until the last process has closed the card, which librdmacm does at its end.
TEST_P(VerbsCard, ACardThatIsTakenOutEndsItsConnections) {
  const std::string card = Options().verbs.device;
  ASSERT_EQ(Shell(absl::StrCat("rdma link delete ", card, " &")), 0);
  ConnectionEvent event;
  EXPECT_TRUE(Await(*a_, ConnectionEvent::Kind::kDisconnected, &event));
  EXPECT_EQ(a_->qp->state(), QpState::kError);
  const absl::Status status = a_->device->Listen("rdma::0").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

TEST_P(VerbsPort, APortThatGoesDownEndsItsConnections) {
  const std::string interface = InterfaceOf(Options().verbs.device);
  ASSERT_EQ(Shell(absl::StrCat("ip link set ", interface, " down")), 0);
  ConnectionEvent event;
  EXPECT_TRUE(Await(*a_, ConnectionEvent::Kind::kDisconnected, &event));
  EXPECT_EQ(a_->qp->state(), QpState::kError);
  const absl::Status status = ListenWith(Options());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("is down"));
  EXPECT_EQ(Shell(absl::StrCat("ip link set ", interface, " up")), 0);
  EXPECT_TRUE(IsBack());
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(VerbsEndpoint);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(VerbsCard);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(VerbsPort);
INSTANTIATE_TEST_SUITE_P(Links, VerbsEndpoint,
                         ::testing::ValuesIn(WithVerbs({}, {LinkKind::kVerbs})),
                         [](const auto& link) { return LinkKindName(link.param); });
INSTANTIATE_TEST_SUITE_P(Links, VerbsCard, ::testing::ValuesIn(IfUnplugged("card")),
                         [](const auto& link) { return LinkKindName(link.param); });
INSTANTIATE_TEST_SUITE_P(Links, VerbsPort, ::testing::ValuesIn(IfUnplugged("port")),
                         [](const auto& link) { return LinkKindName(link.param); });

}  // namespace
}  // namespace ring::rdma
