// Faults of a device that are asked for: each does what it says to both ends, is counted, and ends.
#include "rdma/faulty/faulty_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "rdma/soft/soft_device.h"
#include "tests/contract/fabric_harness.h"
#include "tests/support/status_matchers.h"

namespace ring::rdma {
namespace {

using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

class TestClock final : public Clock {
 public:
  std::uint64_t NowNs() const override { return now_ns; }
  std::uint64_t now_ns = 1'000'000'000;
};

DeviceFault Fault(DeviceFaultKind kind, std::uint32_t count) {
  DeviceFault fault;
  fault.kind = kind;
  fault.count = count;
  if (kind == DeviceFaultKind::kLate) fault.delay_us = 5000;
  return fault;
}

// A faulty device that is connected to a sound one.
class FaultyDeviceTest : public ::testing::TestWithParam<LinkKind> {
 protected:
  static constexpr std::size_t kSize = std::size_t{2} << 20;
  static constexpr int kTurns = 200'000;  // a hang alone makes so many

  struct Side {
    std::unique_ptr<Device> device;
    std::unique_ptr<CompletionQueue> cq;
    std::byte* memory = nullptr;
    std::unique_ptr<MemoryRegion> region;
    std::unique_ptr<QueuePair> qp;
    bool connected = false;
    int disconnects = 0;
  };

  void SetUp() override {
    SoftDeviceOptions options;
    options.arena_size_max = 64 << 20;
    options.tcp_uring = UsesUring(GetParam());
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Device> below, OpenSoftDevice(options));
    auto faulty = std::make_unique<FaultyDevice>(std::move(below), &clock_, 7);
    faulty_ = faulty.get();
    a_.device = std::move(faulty);
    ASSERT_OK_AND_ASSIGN(b_.device, OpenSoftDevice(options));
    for (Side* const side : {&a_, &b_}) {
      ASSERT_OK_AND_ASSIGN(side->cq, side->device->CreateCompletionQueue(1024));
      ASSERT_OK_AND_ASSIGN(side->memory, side->device->Allocate(kSize, MemoryKind::kShared));
      ASSERT_OK_AND_ASSIGN(side->region,
                           side->device->Register(side->memory, kSize, kRemoteRead | kRemoteWrite));
    }
    ASSERT_OK_AND_ASSIGN(address_, b_.device->Listen(FreshAddress(GetParam())));
    Connect();
  }
  void TearDown() override {
    for (Side* const side : {&a_, &b_}) {
      side->qp.reset();
      side->region.reset();
      side->cq.reset();
      side->device.reset();
    }
  }

  static QueuePairOptions OptionsOf(const Side& side) {
    return {.send_cq = side.cq.get(), .recv_cq = side.cq.get(), .send_depth = 64, .recv_depth = 16};
  }
  void Connect() {
    a_.connected = false;
    a_.qp.reset();
    ASSERT_OK_AND_ASSIGN(a_.qp, a_.device->Connect(address_, OptionsOf(a_), ""));
    for (int i = 0; i < kTurns && !a_.connected; ++i) Turn();
    ASSERT_TRUE(a_.connected);
  }
  void Turn() {
    for (Side* const side : {&a_, &b_}) {
      side->device->Progress();
      ConnectionEvent event;
      while (side->device->PollEvent(&event)) {
        if (event.kind == ConnectionEvent::Kind::kConnectRequest) {
          ASSERT_OK_AND_ASSIGN(side->qp, side->device->Accept(event.request, OptionsOf(*side), ""));
        } else if (event.kind == ConnectionEvent::Kind::kEstablished) {
          EXPECT_EQ(event.qp, side->qp.get());
          side->connected = true;
        } else if (event.kind == ConnectionEvent::Kind::kDisconnected) {
          EXPECT_EQ(event.qp, side->qp.get());
          ++side->disconnects;
        }
      }
    }
  }
  WorkRequest Write(std::size_t size, std::uint64_t wr_id) {
    sges_.push_back(
        std::make_unique<Sge>(Sge{a_.memory, static_cast<std::uint32_t>(size), a_.region->lkey()}));
    WorkRequest wr;
    wr.wr_id = wr_id;
    wr.opcode = Opcode::kWrite;
    wr.signaled = true;
    wr.sges = absl::MakeConstSpan(sges_.back().get(), 1);
    wr.remote_address = b_.region->remote().address;
    wr.rkey = b_.region->rkey();
    return wr;
  }
  // So many completions of a, or as many as come.
  std::vector<WorkCompletion> Completions(std::size_t count) {
    std::vector<WorkCompletion> found;
    for (int i = 0; i < kTurns && found.size() < count; ++i) {
      Turn();
      WorkCompletion one;
      while (a_.cq->Poll(absl::MakeSpan(&one, 1)) == 1) {
        EXPECT_EQ(one.qp, a_.qp.get());
        found.push_back(one);
      }
    }
    EXPECT_EQ(found.size(), count);
    return found;
  }
  WorkCompletion PostOne(const WorkRequest& wr) {
    EXPECT_OK(a_.qp->PostSend(wr));
    const std::vector<WorkCompletion> found = Completions(1);
    return found.empty() ? WorkCompletion{} : found[0];
  }
  void AwaitDisconnects() {
    for (int i = 0; i < kTurns && (a_.disconnects == 0 || b_.disconnects == 0); ++i) Turn();
    EXPECT_EQ(a_.disconnects, 1);
    EXPECT_EQ(b_.disconnects, 1);
  }
  // So many of the first bytes at b are a's.
  std::size_t LandedAtB(std::size_t size) const {
    std::size_t landed = 0;
    while (landed < size && a_.memory[landed] == b_.memory[landed]) ++landed;
    return landed;
  }

  TestClock clock_;
  FaultyDevice* faulty_ = nullptr;
  Side a_;
  Side b_;
  std::string address_;
  std::vector<std::unique_ptr<Sge>> sges_;
};
INSTANTIATE_TEST_SUITE_P(Links, FaultyDeviceTest,
                         ::testing::Values(LinkKind::kLocal, LinkKind::kTcp, LinkKind::kTcpUring),
                         [](const auto& test) { return LinkKindName(test.param); });

TEST_P(FaultyDeviceTest, WithoutAFaultEverythingPasses) {
  std::memset(a_.memory, 7, 1000);
  EXPECT_EQ(PostOne(Write(1000, 3)).status, WcStatus::kSuccess);
  EXPECT_EQ(LandedAtB(1000), 1000u);
  EXPECT_TRUE(faulty_->Status().empty());
}

TEST_P(FaultyDeviceTest, F8AFailedRequestTakesItsQueuePairAndFlushesTheRest) {
  DeviceFault fault = Fault(DeviceFaultKind::kFail, 1);
  fault.status = WcStatus::kRnrRetryExceeded;
  ASSERT_OK(faulty_->Inject(fault));
  std::memset(a_.memory, 7, 100);
  WorkRequest send = Write(100, 1);
  send.opcode = Opcode::kSend;
  const WorkRequest behind = Write(100, 2);
  send.next = &behind;
  ASSERT_OK(a_.qp->PostSend(send));
  const std::vector<WorkCompletion> found = Completions(2);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].wr_id, 1u);
  EXPECT_EQ(found[0].opcode, Opcode::kSend);
  EXPECT_EQ(found[0].status, WcStatus::kRnrRetryExceeded);
  EXPECT_EQ(found[1].wr_id, 2u);
  EXPECT_EQ(found[1].status, WcStatus::kFlushed);
  EXPECT_EQ(a_.qp->state(), QpState::kError);
  AwaitDisconnects();
  EXPECT_EQ(faulty_->injected(), 1u);
  EXPECT_FALSE(faulty_->Status()[0].active);
  Connect();  // and the next one is sound
  EXPECT_EQ(PostOne(Write(100, 3)).status, WcStatus::kSuccess);
}

TEST_P(FaultyDeviceTest, F8ATornWriteLandsInPartAndFails) {
  ASSERT_OK(faulty_->Inject(Fault(DeviceFaultKind::kTear, 1)));
  std::memset(a_.memory, 7, 4096);
  EXPECT_EQ(PostOne(Write(8, 1)).status, WcStatus::kSuccess);  // a word is seen whole
  EXPECT_EQ(faulty_->injected(), 0u);
  EXPECT_EQ(PostOne(Write(4092, 2)).status, WcStatus::kRetryExceeded);
  AwaitDisconnects();
  EXPECT_GT(LandedAtB(4092), 0u);
  EXPECT_LT(LandedAtB(4092), 4092u);
  EXPECT_EQ(LandedAtB(4092) % 8, 0u);
}

TEST_P(FaultyDeviceTest, F10OneBitOfALongWriteTurnsAndNoWordsDo) {
  ASSERT_OK(faulty_->Inject(Fault(DeviceFaultKind::kFlip, 2)));
  std::memset(a_.memory, 7, 1000);
  EXPECT_EQ(PostOne(Write(64, 1)).status, WcStatus::kSuccess);
  EXPECT_EQ(LandedAtB(64), 64u);
  EXPECT_EQ(faulty_->injected(), 0u);
  for (std::uint64_t i = 1; i <= 2; ++i) {
    EXPECT_EQ(PostOne(Write(1000, 1 + i)).status, WcStatus::kSuccess);
    int turned = 0;
    for (std::size_t j = 0; j < 1000; ++j)
      turned += __builtin_popcount(static_cast<unsigned>(a_.memory[j] ^ b_.memory[j]));
    EXPECT_EQ(turned, 1);
    EXPECT_EQ(faulty_->injected(), i);
  }
  EXPECT_EQ(PostOne(Write(1000, 4)).status, WcStatus::kSuccess);
  EXPECT_EQ(LandedAtB(1000), 1000u);
}

TEST_P(FaultyDeviceTest, F7CompletionsComeLateInOrderAndAtOnceWhenCleared) {
  ASSERT_OK(faulty_->Inject(Fault(DeviceFaultKind::kLate, 1)));
  const WorkRequest second = Write(100, 2);
  WorkRequest first = Write(100, 1);
  first.next = &second;
  const auto quiet = [this] {
    WorkCompletion one;
    for (int i = 0; i < 1000; ++i) {
      Turn();
      if (a_.cq->Poll(absl::MakeSpan(&one, 1)) != 0) return false;
    }
    return true;
  };
  ASSERT_OK(a_.qp->PostSend(first));
  EXPECT_TRUE(quiet());
  clock_.now_ns += 4'999'000;
  EXPECT_TRUE(quiet());
  EXPECT_TRUE(faulty_->Progress());  // who waits for it must not sleep
  clock_.now_ns += 1'000;
  std::vector<WorkCompletion> found = Completions(2);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].wr_id, 1u);
  EXPECT_EQ(found[1].wr_id, 2u);

  ASSERT_OK(faulty_->Inject(Fault(DeviceFaultKind::kLate, 1)));
  ASSERT_OK(a_.qp->PostSend(first));
  EXPECT_TRUE(quiet());
  faulty_->Clear();
  EXPECT_EQ(Completions(2).size(), 2u);
  EXPECT_EQ(faulty_->injected(), 2u);
}

TEST_P(FaultyDeviceTest, F7NothingIsToldOfAQueuePairThatIsGone) {
  ASSERT_OK(faulty_->Inject(Fault(DeviceFaultKind::kLate, 1)));
  ASSERT_OK(a_.qp->PostSend(Write(100, 1)));
  for (int i = 0; i < kTurns && faulty_->injected() == 0; ++i) {
    Turn();
    WorkCompletion one;
    EXPECT_EQ(a_.cq->Poll(absl::MakeSpan(&one, 1)), 0u);
  }
  a_.qp.reset();
  clock_.now_ns += 5'000'000;
  WorkCompletion one;
  EXPECT_EQ(a_.cq->Poll(absl::MakeSpan(&one, 1)), 0u);
}

TEST_P(FaultyDeviceTest, F11ResourcesAreRefusedSoOftenAndThenGiven) {
  ASSERT_OK(faulty_->Inject(Fault(DeviceFaultKind::kNoMemory, 2)));
  ASSERT_OK(faulty_->Inject(Fault(DeviceFaultKind::kNoQueuePair, 2)));
  const auto refused = StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("injected"));
  EXPECT_THAT(faulty_->Allocate(kSize, MemoryKind::kPrivate).status(), refused);
  EXPECT_THAT(faulty_->Register(a_.memory, 64, kLocalOnly).status(), refused);
  EXPECT_OK(faulty_->Register(a_.memory, 64, kLocalOnly).status());
  EXPECT_THAT(faulty_->CreateCompletionQueue(16).status(), refused);
  EXPECT_THAT(faulty_->Connect(address_, OptionsOf(a_), "").status(), refused);
  EXPECT_OK(faulty_->Connect(address_, OptionsOf(a_), "").status());
  EXPECT_EQ(faulty_->injected(), 4u);
}

TEST_P(FaultyDeviceTest, F6ACutAddressIsNotReachedUntilItIsOver) {
  faulty_->Cut("local:another", 60'000);
  EXPECT_EQ(PostOne(Write(100, 1)).status, WcStatus::kSuccess);
  std::memset(a_.memory, 7, 1000);
  faulty_->Cut(address_, 10);
  EXPECT_EQ(PostOne(Write(1000, 2)).status, WcStatus::kRetryExceeded);
  EXPECT_EQ(LandedAtB(1000), 0u);
  AwaitDisconnects();
  EXPECT_THAT(faulty_->Connect(address_, OptionsOf(a_), "").status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("cut off")));
  EXPECT_EQ(faulty_->stopped(), 2u);
  clock_.now_ns += 10'000'000;
  Connect();
  EXPECT_EQ(PostOne(Write(1000, 3)).status, WcStatus::kSuccess);
  EXPECT_EQ(LandedAtB(1000), 1000u);

  faulty_->Cut(address_, 60'000);
  faulty_->Clear();
  EXPECT_EQ(PostOne(Write(1000, 4)).status, WcStatus::kSuccess);
  EXPECT_EQ(faulty_->stopped(), 2u);
}

TEST_P(FaultyDeviceTest, AFaultEndsByTimeByCountAndByChanceNotSooner) {
  DeviceFault fault = Fault(DeviceFaultKind::kNoMemory, 0);
  fault.duration_ms = 10;
  ASSERT_OK(faulty_->Inject(fault));
  clock_.now_ns += 9'999'999;
  EXPECT_FALSE(faulty_->Register(a_.memory, 64, kLocalOnly).ok());
  EXPECT_EQ(faulty_->Status()[0].left_ms, 1u);
  clock_.now_ns += 1;
  EXPECT_FALSE(faulty_->Status()[0].active);
  EXPECT_OK(faulty_->Register(a_.memory, 64, kLocalOnly).status());

  fault = Fault(DeviceFaultKind::kNoMemory, 50);
  fault.one_in = 4;
  ASSERT_OK(faulty_->Inject(fault));
  int asked = 0;
  for (; faulty_->Status()[0].active && asked < 100'000; ++asked)
    faulty_->Register(a_.memory, 64, kLocalOnly).IgnoreError();
  EXPECT_GT(asked, 100);
  EXPECT_LT(asked, 1000);
  EXPECT_EQ(faulty_->injected(), 51u);
}

TEST(DeviceFault, EachHasItsBoundsAndItsName) {
  const auto refused = [](DeviceFault fault, const char* field) {
    EXPECT_THAT(CheckDeviceFault(fault),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(field)));
  };
  DeviceFault fault = Fault(DeviceFaultKind::kFail, 1);
  EXPECT_OK(CheckDeviceFault(fault));
  fault.count = 0;
  refused(fault, "count and duration_ms are both 0");
  fault.duration_ms = kDeviceFaultMsMax + 1;
  refused(fault, "duration_ms=60001");
  fault = Fault(DeviceFaultKind::kFail, kDeviceFaultCountMax + 1);
  refused(fault, "count=1000001");
  fault = Fault(DeviceFaultKind::kFail, 1);
  fault.one_in = 0;
  refused(fault, "one_in=0");
  fault.one_in = 1;
  fault.delay_us = 1;
  refused(fault, "delay_us=1");
  fault = Fault(DeviceFaultKind::kLate, 1);
  fault.delay_us = 0;
  refused(fault, "delay_us=0");
  fault = Fault(DeviceFaultKind::kFail, 1);
  fault.status = WcStatus::kSuccess;
  refused(fault, "status=0");
  refused(Fault(static_cast<DeviceFaultKind>(7), 1), "kind=7");
  for (const char* const name :
       {"retry", "rnr", "remote-access", "remote-invalid", "local-protection", "local-length"}) {
    EXPECT_EQ(FaultStatusName(FaultStatusFromName(name).value_or(WcStatus::kSuccess)), name);
  }
  EXPECT_FALSE(FaultStatusFromName("").has_value());
}

}  // namespace
}  // namespace ring::rdma
