// What is particular to receiving through io_uring: a system that refuses it, a device that changes
// its thread, connections that end while the kernel holds their receives, more bytes than its
// buffers.
#include <dlfcn.h>
#include <liburing.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "rdma/soft/uring_receiver.h"
#include "ring/base/log.h"
#include "tests/contract/fabric_harness.h"
#include "tests/support/await.h"

namespace ring::rdma {
namespace {

// From now on the system refuses this thread an io_uring, as sandboxes do.
void RefuseUring() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof(code) / sizeof(code[0]), code};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

// So many further calls of this thread with entries find the kernel without memory for them; then
// all is well again.
thread_local int calls_without_memory = 0;

}  // namespace

// In the place of the library's: as when the kernel takes none of the entries.
extern "C" int io_uring_submit_and_get_events(io_uring* ring) {
  if (calls_without_memory > 0 && io_uring_sq_ready(ring) != 0) {
    --calls_without_memory;
    ring->sq.sqe_head = ring->sq.sqe_tail;
    __atomic_store_n(ring->sq.ktail, ring->sq.sqe_tail, __ATOMIC_RELEASE);
    return -ENOMEM;
  }
  static const auto real =
      reinterpret_cast<int (*)(io_uring*)>(dlsym(RTLD_NEXT, "io_uring_submit_and_get_events"));
  return real(ring);
}

namespace {

std::atomic<int> warnings{0};
void CountWarnings(LogSeverity severity, absl::string_view line) {
  if (severity == LogSeverity::kWARNING && line.find("one by one") != absl::string_view::npos)
    ++warnings;
}

void ConnectOne(const std::string& address, Side& a, Side& b, std::unique_ptr<QueuePair>* from_a,
                std::unique_ptr<QueuePair>* at_b) {
  *from_a = *a.device->Connect(address, a.qp_options(), "");
  ConnectionEvent event;
  testing::Await("the connection", [&] {
    a.CollectEvents();
    b.CollectEvents();
    if (b.TakeEvent(ConnectionEvent::Kind::kConnectRequest, &event))
      *at_b = *b.device->Accept(event.request, b.qp_options(), "");
    return a.TakeEvent(ConnectionEvent::Kind::kEstablished, &event);
  });
}

class UringReceiverTest : public FabricContract {
 protected:
  void SetUp() override {
    FabricContract::SetUp();
    ASSERT_EQ(a_->device->device_counters().urings, 1u) << "run where the system allows io_uring";
  }
  void ExpectOneWrite(char fill) {
    const Sge sge = a_->At(0, 4096);
    std::memset(a_->memory, fill, 4096);
    EXPECT_EQ(PostOne(Write(sge, 8192)).status, WcStatus::kSuccess);
    EXPECT_TRUE(BytesAtB(8192, std::string(4096, fill)));
  }
};

// Two devices by a mapped link, the second with a ring for another one.
class UringBell : public ::testing::Test {
 protected:
  static SoftDeviceOptions Options() {
    SoftDeviceOptions options;
    options.arena_size_max = std::uint64_t{64} << 20;
    return options;
  }
  void SetUp() override {
    ASSERT_TRUE(b.device->Listen("tcp:127.0.0.1:0").ok());
    ASSERT_EQ(b.device->device_counters().urings, 1u) << "run where the system allows io_uring";
    const auto address = b.device->Listen(FreshAddress(LinkKind::kLocal));
    ASSERT_TRUE(address.ok()) << address.status();
    ConnectOne(*address, a, b, &a.qp, &b.qp);
  }

  Side a{Options(), false};
  Side b{Options(), false};
  const Sge receive = b.At(0, 64);
};

// Through the ring it would come with the kernel's next grace period, milliseconds later.
TEST_F(UringBell, APeerOfAnotherLinkWakesTheDeviceAtOnce) {
  for (std::uint64_t round = 0; round < 100; ++round) {
    ASSERT_TRUE(b.qp->PostRecv(round, absl::MakeConstSpan(&receive, 1)).ok());
    b.device->SetSleeping(true);
    b.recv_cq->Arm();
    while (b.device->Progress()) continue;
    ASSERT_FALSE(b.Readable(0));  // what woke it before does not wake it again
    WorkRequest bell;
    bell.opcode = Opcode::kSend;
    ASSERT_TRUE(a.qp->PostSend(bell).ok());
    ASSERT_TRUE(b.Readable(0));
    b.device->SetSleeping(false);
    WorkCompletion completion;
    ASSERT_EQ(b.recv_cq->Poll(absl::MakeSpan(&completion, 1)), 1u);
    a.device->Progress();
  }
}

// Its completion is polled in the last look before the sleep, and queues are armed no more: who
// sleeps all the same would not be woken by another bell.
TEST_F(UringBell, ABellOfTheLastLookIsSignalled) {
  ASSERT_TRUE(b.qp->PostRecv(1, absl::MakeConstSpan(&receive, 1)).ok());
  b.device->SetSleeping(true);
  b.recv_cq->Arm();
  WorkRequest bell;
  bell.opcode = Opcode::kSend;
  ASSERT_TRUE(a.qp->PostSend(bell).ok());
  while (b.device->Progress()) continue;
  WorkCompletion completion;
  ASSERT_EQ(b.recv_cq->Poll(absl::MakeSpan(&completion, 1)), 1u);
  EXPECT_TRUE(b.Readable(0));
}

TEST(UringRefused, SocketsAreReceivedFromOneByOneAndItIsSaidOnce) {
  SetLogSink(&CountWarnings);
  std::thread confined([] {
    RefuseUring();
    ASSERT_FALSE(::testing::Test::HasFatalFailure());
    SoftDeviceOptions options;
    options.arena_size_max = std::uint64_t{64} << 20;
    Side a(options, false);
    Side b(options, false);
    const auto address = b.device->Listen("tcp:127.0.0.1:0");
    ASSERT_TRUE(address.ok()) << address.status();
    ConnectOne(*address, a, b, &a.qp, &b.qp);
    const Sge sge = a.At(0, 8);
    WorkRequest wr;
    wr.opcode = Opcode::kWrite;
    wr.signaled = true;
    wr.sges = absl::MakeConstSpan(&sge, 1);
    wr.remote_address = b.AddressAt(64);
    wr.rkey = b.region->rkey();
    ASSERT_TRUE(a.qp->PostSend(wr).ok());
    WorkCompletion completion;
    testing::Await("the write", [&] {
      a.CollectEvents();
      b.CollectEvents();
      return a.send_cq->Poll(absl::MakeSpan(&completion, 1)) != 0;
    });
    EXPECT_EQ(completion.status, WcStatus::kSuccess);
    for (const Side* side : {&a, &b}) {
      EXPECT_EQ(side->device->device_counters().urings, 0u);
      EXPECT_EQ(side->device->device_counters().uring_enters, 0u);
      EXPECT_GT(side->device->device_counters().receives, 0u);
    }
  });
  confined.join();
  SetLogSink(nullptr);
  EXPECT_EQ(warnings, 1);
}

TEST_P(UringReceiverTest, ADeviceMayChangeItsThread) {
  ExpectOneWrite('1');
  std::thread([&] { ExpectOneWrite('2'); }).join();
  // What came while nobody looked is not lost with the ring of the thread before.
  const Sge sge = a_->At(0, 64);
  std::memset(a_->memory, '3', 64);
  WorkRequest wr = Write(sge, 0);
  wr.unacknowledged = true;
  ASSERT_TRUE(a_->qp->PostSend(wr).ok());
  std::thread([&] {
    EXPECT_TRUE(WaitFor([&] { return BytesAtB(0, std::string(64, '3')); }));
  }).join();
  ExpectOneWrite('4');
}

// For many turns, while connections come, pause and go.
TEST_P(UringReceiverTest, AKernelWithoutMemoryIsAskedAgainInTheNextTurn) {
  ExpectOneWrite('1');
  calls_without_memory = 100;
  std::unique_ptr<QueuePair> from_a;
  std::unique_ptr<QueuePair> at_b;
  Connect(&from_a, &at_b);
  EXPECT_LT(calls_without_memory, 100) << "it was never without";
  ExpectOneWrite('2');
  calls_without_memory = 100;
  from_a.reset();
  at_b.reset();
  while (calls_without_memory > 0) {
    a_->CollectEvents();
    b_->CollectEvents();
    Connect(&from_a, &at_b);
    from_a.reset();
    at_b.reset();
  }
  ExpectOneWrite('3');
}

// The receiver is told to stop while it has much of what was sent already.
TEST(UringPause, MessagesThatWaitForReceivesKeepTheirOrder) {
  constexpr std::uint64_t kCount = 60;
  constexpr std::size_t kSize = 48 << 10;
  SoftDeviceOptions options;
  options.arena_size_max = std::uint64_t{64} << 20;
  options.rnr_timeout_ms = 60'000;
  Side a(options, false);
  Side b(options, false);
  const auto address = b.device->Listen("tcp:127.0.0.1:0");
  ASSERT_TRUE(address.ok()) << address.status();
  ASSERT_EQ(b.device->device_counters().urings, 1u) << "run where the system allows io_uring";
  ConnectOne(*address, a, b, &a.qp, &b.qp);
  std::vector<Sge> sges(kCount);
  for (std::uint64_t i = 0; i < kCount; ++i) {
    std::memset(a.memory + i * kSize, static_cast<int>(i + 1), kSize);
    sges[i] = a.At(i * kSize, kSize);
    WorkRequest wr;
    wr.opcode = Opcode::kSend;
    wr.sges = absl::MakeConstSpan(&sges[i], 1);
    ASSERT_TRUE(a.qp->PostSend(wr).ok());
    a.device->Progress();
    b.device->Progress();
  }
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const Sge place = b.At(kSize * (i % 4), kSize);
    ASSERT_TRUE(b.qp->PostRecv(i, absl::MakeConstSpan(&place, 1)).ok());
    WorkCompletion completion;
    testing::Await("a message", [&] {
      a.device->Progress();
      b.device->Progress();
      return b.recv_cq->Poll(absl::MakeSpan(&completion, 1)) != 0;
    });
    ASSERT_EQ(completion.status, WcStatus::kSuccess);
    EXPECT_EQ(completion.wr_id, i);
    EXPECT_EQ(std::memcmp(place.address, a.memory + i * kSize, kSize), 0) << i;
  }
}

// Connections end in all orders with receives armed; their descriptors' numbers are taken again.
TEST_P(UringReceiverTest, ConnectionsThatEndInTheMiddleLeaveTheOthersAlone) {
  for (int round = 0; round < 50; ++round) {
    std::vector<std::unique_ptr<QueuePair>> from_a(5);
    std::vector<std::unique_ptr<QueuePair>> at_b(5);
    for (std::size_t i = 0; i < from_a.size(); ++i) Connect(&from_a[i], &at_b[i]);
    const Sge sge = a_->At(0, 100'000);
    for (const auto& qp : from_a) {
      ASSERT_TRUE(qp->PostSend(Write(sge, 1 << 20)).ok());
    }
    b_->device->Progress();
    // Half of it is in the kernel's hands.
    (round % 2 == 0 ? from_a : at_b).clear();
    if (round % 3 == 0) b_->device->Progress();
    from_a.clear();  // with what it would tell of failed requests
    ExpectOneWrite(static_cast<char>('a' + round % 26));
  }
}

INSTANTIATE_TEST_SUITE_P(Links, UringReceiverTest, ::testing::Values(LinkKind::kTcpUring),
                         [](const auto& test) { return LinkKindName(test.param); });

}  // namespace
}  // namespace ring::rdma
