// A coordinator's log connections, and members that are stopped in the middle of telling what they
// folded: L5, E5.
#include "ring/node/log_links.h"

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "rdma/soft/soft_device.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

constexpr std::uint64_t kRingSize = memgest::kRingSizeMin;
constexpr cluster::Holder kStopped = {NodeId(3), Incarnation(7)};
constexpr cluster::Holder kOther = {NodeId(4), Incarnation(8)};
constexpr Role kFirst{0};
constexpr Role kSecond{1};

// What happens between a member's look at the key and its store; empty: nothing.
std::function<void()> before_store;

// Lets every coordinator in.
class Member {
 public:
  explicit Member(const std::string& name) {
    rdma::SoftDeviceOptions options;
    options.name = name;
    options.arena_size_max = std::uint64_t{64} << 20;
    options.copy_hook.function = [](void*) {
      if (before_store) std::exchange(before_store, nullptr)();
    };
    device_ = *rdma::OpenSoftDevice(options);
    cq_ = *device_->CreateCompletionQueue(64);
    constexpr std::size_t kSize = memgest::kRingControlSize + kRingSize;
    memory_ = *device_->Allocate(kSize, rdma::MemoryKind::kShared);
    region_ = *device_->Register(memory_, kSize, rdma::kRemoteWrite);
    address_ = *device_->Listen(absl::StrCat("local:log-links-", name));
  }
  const std::string& address() const { return address_; }
  void Pump() {
    device_->Progress();
    rdma::ConnectionEvent event;
    while (device_->PollEvent(&event)) {
      if (event.kind != rdma::ConnectionEvent::Kind::kConnectRequest) continue;
      hello_ = *protocol::DecodeHello<protocol::LogHello>(event.private_data);
      protocol::LogAccept accept;
      const rdma::RemoteBuffer ring = region_->remote();
      accept.ring = {ring.address, ring.length, ring.rkey, 0};
      qp_ = *device_->Accept(event.request, {.send_cq = cq_.get(), .recv_cq = cq_.get()},
                             protocol::EncodeHello(accept));
    }
  }
  void TellFolded(std::uint64_t position) {
    std::byte* const word = memory_ + memgest::kRingControlSize;
    std::memcpy(word, &position, sizeof(position));
    const rdma::Sge sge = {word, sizeof(position), region_->lkey()};
    rdma::WorkRequest request;
    request.opcode = rdma::Opcode::kWrite;
    request.signaled = true;
    request.sges = absl::MakeConstSpan(&sge, 1);
    request.remote_address = hello_.credit.address;
    request.rkey = hello_.credit.rkey;
    qp_->PostSend(request).IgnoreError();
    device_->Progress();
  }

 private:
  std::unique_ptr<rdma::Device> device_;
  std::unique_ptr<rdma::CompletionQueue> cq_;
  std::byte* memory_ = nullptr;
  std::unique_ptr<rdma::MemoryRegion> region_;
  std::string address_;
  protocol::LogHello hello_;
  std::unique_ptr<rdma::QueuePair> qp_;
};

class LogLinksTest : public ::testing::Test {
 protected:
  LogLinksTest() {
    context_.device = device_.get();
    context_.log_cq = cq_.get();
    context_.credits = &credits_;
    context_.staging = &staging_;
    context_.ring_size = kRingSize;
  }
  static std::unique_ptr<rdma::Device> OpenDevice() {
    rdma::SoftDeviceOptions options;
    options.name = "coordinator";
    options.arena_size_max = std::uint64_t{64} << 20;
    return *rdma::OpenSoftDevice(options);
  }
  void Connect(Role role, const cluster::Holder& holder, Member& member) {
    ASSERT_OK(links_.Connect(role, holder, member.address(), false));
  }
  void Establish(Member& member) {
    LogLinks::Outcome outcome = LogLinks::Outcome::kNone;
    for (int i = 0; i < 100 && outcome != LogLinks::Outcome::kConnected; ++i) {
      member.Pump();
      device_->Progress();
      rdma::ConnectionEvent event;
      while (device_->PollEvent(&event)) outcome = links_.OnEvent(event).outcome;
    }
    ASSERT_EQ(outcome, LogLinks::Outcome::kConnected);
  }
  // The writer believes nothing but what its own ring's member said: nothing.
  void ExpectNoCredit(Role role) {
    ASSERT_OK_AND_ASSIGN(const auto writer, links_.MakeWriter(role, Epoch(2)));
    EXPECT_EQ(writer->LookAtFolded(), 0u);
    EXPECT_FALSE(writer->broken());
  }
  void BeginEpoch(std::uint32_t epoch) {
    protocol::LogHello hello;
    hello.epoch = epoch;
    links_.Begin(hello);
  }

  std::unique_ptr<rdma::Device> device_ = OpenDevice();
  std::unique_ptr<rdma::CompletionQueue> cq_ = *device_->CreateCompletionQueue(64);
  CreditLines credits_{device_.get(), 64};
  BufferPool staging_{device_.get(), memgest::kStagingSizeMin, 64};
  LogLinkContext context_;
  Member stopped_{"stopped"};
  Member other_{"other"};
  LogLinks links_{&context_, 2, 1};
};

// It was about to store when it was stopped; its role went to another node meanwhile.
TEST_F(LogLinksTest, L5AStoppedMembersCreditLineIsNotUsedAgain) {
  BeginEpoch(1);
  ASSERT_NO_FATAL_FAILURE(Connect(kFirst, kStopped, stopped_));
  ASSERT_NO_FATAL_FAILURE(Establish(stopped_));
  before_store = [&] {
    BeginEpoch(2);
    Connect(kSecond, kOther, other_);
    Establish(other_);
  };
  stopped_.TellFolded(4096);
  ASSERT_EQ(before_store, nullptr) << "it was not stopped";
  ExpectNoCredit(kSecond);
}

// A line that the same member gets again: what it was about to store comes before it answers.
TEST_F(LogLinksTest, L5WhatAMemberStoredBeforeItConnectedIsNoCredit) {
  BeginEpoch(1);
  ASSERT_NO_FATAL_FAILURE(Connect(kFirst, kStopped, stopped_));
  ASSERT_NO_FATAL_FAILURE(Establish(stopped_));
  before_store = [&] {
    BeginEpoch(2);
    Connect(kFirst, kStopped, stopped_);
  };
  stopped_.TellFolded(4096);
  ASSERT_EQ(before_store, nullptr) << "it was not stopped";
  ASSERT_NO_FATAL_FAILURE(Establish(stopped_));
  ExpectNoCredit(kFirst);
}

TEST_F(LogLinksTest, AMemberWithAnotherRingSizeIsNotConnectedAndBothSizesAreTold) {
  context_.ring_size = 2 * kRingSize;
  BeginEpoch(1);
  ASSERT_NO_FATAL_FAILURE(Connect(kFirst, kOther, other_));
  LogLinks::News news;
  for (int i = 0; i < 100 && news.outcome == LogLinks::Outcome::kNone; ++i) {
    other_.Pump();
    device_->Progress();
    rdma::ConnectionEvent event;
    while (device_->PollEvent(&event)) news = links_.OnEvent(event);
  }
  EXPECT_EQ(news.outcome, LogLinks::Outcome::kFailed);
  EXPECT_EQ(news.error, absl::StrCat("ring_size=", kRingSize, " at the member, ", 2 * kRingSize,
                                     " here: give all nodes the same ring_size"));
}

// Lines come back: those of the same start at once, those of a dead one when that is known.
TEST_F(LogLinksTest, L5LinesOfTheDeadAndOfWhoConnectsAgainAreUsedAgain) {
  CreditLines lines(device_.get(), 1);
  for (int i = 0; i < 10; ++i) {
    ASSERT_OK_AND_ASSIGN(BufferPool::Buffer line, lines.Take(kStopped));
    lines.GiveBack(kStopped, std::move(line));
  }
  EXPECT_FALSE(lines.Take(kOther).ok()) << "the only one may yet be written to";
  lines.OnIncarnation(kStopped.node, kStopped.incarnation);
  lines.OnIncarnation(kStopped.node, Incarnation());  // removed, and added again
  lines.OnIncarnation(kOther.node, Incarnation(9));
  EXPECT_FALSE(lines.Take(kOther).ok());
  lines.OnIncarnation(kStopped.node, Incarnation(8));
  ASSERT_OK_AND_ASSIGN(BufferPool::Buffer line, lines.Take(kOther));
  lines.GiveBack(kOther, std::move(line));
}

}  // namespace
}  // namespace ring::node
