// The simulated fabric: equal seeds give equal runs, and every fault does what it says and is
// counted. What a sound fabric does is tested in tests/contract.
#include "rdma/sim/sim_network.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "rdma/sim/sim_device.h"
#include "ring/base/align.h"

namespace ring::rdma::sim {
namespace {

class Process final : public SimHost {
 public:
  Process(SimNetwork* network, std::string name) : network_(network) {
    host = network->AddHost(this);
    SoftDeviceOptions options;
    options.name = name;
    options.arena_size_max = 16 << 20;
    options.rnr_timeout_ms = 5;
    device = *SimDevice::Open(network, host, options);
    cq = *device->CreateCompletionQueue(1024);
    memory = *device->Allocate(2 << 20, MemoryKind::kShared);
    region = *device->Register(memory, 2 << 20, kRemoteRead | kRemoteWrite | kRemoteAtomic);
  }
  ~Process() override { network_->ForgetHost(host); }
  void OnDelivery() override { ++deliveries; }

  QueuePairOptions qp_options() {
    return {.send_cq = cq.get(), .recv_cq = cq.get(), .send_depth = 64, .recv_depth = 16};
  }
  absl::Status Write(std::size_t from, std::size_t size, const Process& to, std::size_t at,
                     std::uint64_t wr_id = 1) {
    const Sge sge{memory + from, static_cast<std::uint32_t>(size), region->lkey()};
    WorkRequest wr;
    wr.wr_id = wr_id;
    wr.opcode = Opcode::kWrite;
    wr.signaled = true;
    wr.sges = absl::MakeConstSpan(&sge, 1);
    wr.remote_address = to.region->remote().address + at;
    wr.rkey = to.region->rkey();
    return qp->PostSend(wr);
  }
  std::vector<WorkCompletion> Poll() {
    std::vector<WorkCompletion> found;
    device->Progress();
    ConnectionEvent event;
    while (device->PollEvent(&event)) events.push_back(event);
    WorkCompletion one;
    while (cq->Poll(absl::MakeSpan(&one, 1)) == 1) found.push_back(one);
    return found;
  }

  SimNetwork* network_;
  HostId host = 0;
  int deliveries = 0;
  std::unique_ptr<SimDevice> device;
  std::unique_ptr<CompletionQueue> cq;
  std::byte* memory = nullptr;
  std::unique_ptr<MemoryRegion> region;
  std::unique_ptr<QueuePair> qp;
  std::vector<ConnectionEvent> events;
};

class SimNetworkTest : public ::testing::Test {
 protected:
  void Open(std::uint64_t seed, const SimOptions& options) {
    Close();
    network_ = std::make_unique<SimNetwork>(seed, options);
    a_ = std::make_unique<Process>(network_.get(), "a");
    b_ = std::make_unique<Process>(network_.get(), "b");
    ASSERT_TRUE(b_->device->Listen("sim:b").ok());
    a_->qp = *a_->device->Connect("sim:b", a_->qp_options(), "");
    while (b_->events.empty()) Step();
    b_->qp = *b_->device->Accept(b_->events[0].request, b_->qp_options(), "");
    while (a_->qp->state() != QpState::kReadyToSend) Step();
    b_->events.clear();
    a_->events.clear();
  }
  void Step() {
    ASSERT_FALSE(network_->events().empty());
    network_->events().RunNext();
    a_->Poll();
    if (b_ != nullptr) b_->Poll();
  }
  // What side a is told of next; kSuccess of no request when nothing comes any more.
  WorkCompletion Await() {
    for (;;) {
      const std::vector<WorkCompletion> found = a_->Poll();
      if (!found.empty()) return found[0];
      if (network_->events().empty()) return {};
      network_->events().RunNext();
    }
  }
  std::uint64_t Faults(FaultClass fault) const {
    return network_->faults().by_class[static_cast<std::size_t>(fault)];
  }
  void Close() {
    for (std::unique_ptr<Process>* one : {&a_, &b_}) {
      if (*one == nullptr) continue;
      (*one)->qp.reset();
      (*one)->region.reset();
      (*one)->cq.reset();
      (*one)->device.reset();
      one->reset();
    }
    network_.reset();
  }
  void TearDown() override { Close(); }

  std::unique_ptr<SimNetwork> network_;
  std::unique_ptr<Process> a_;
  std::unique_ptr<Process> b_;
};

// Links read requests where they wait: none may be lost, or be read as another, when more of them
// wait than ever before.
TEST_F(SimNetworkTest, S11RequestsThatWaitKeepTheirOrderAndBytesWhenTheirSlotsGrow) {
  constexpr std::size_t kCount = 64;
  Open(1, {});
  for (std::uint64_t i = 0; i < 3; ++i) {  // so that those that wait do not begin at slot 0
    ASSERT_TRUE(a_->Write(0, 1, *b_, 0, i).ok());
    EXPECT_EQ(Await().wr_id, i);
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    a_->memory[i] = static_cast<std::byte>(i + 1);
    ASSERT_TRUE(a_->Write(i, 1, *b_, i, 100 + i).ok());
  }
  std::vector<std::uint64_t> done;
  while (done.size() < kCount && !network_->events().empty()) {
    network_->events().RunNext();
    for (const WorkCompletion& completion : a_->Poll()) done.push_back(completion.wr_id);
  }
  ASSERT_EQ(done.size(), kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(done[i], 100 + i);
    EXPECT_EQ(b_->memory[i], static_cast<std::byte>(i + 1));
  }
}

TEST_F(SimNetworkTest, EqualSeedsGiveEqualRunsAndOthersDoNot) {
  std::vector<std::uint64_t> hashes;
  for (const std::uint64_t seed : {7u, 7u, 8u}) {
    SimOptions options;
    options.late_ppm = options.loss_ppm = options.late_completion_ppm = 100'000;
    Open(seed, options);
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(a_->Write(0, 64, *b_, 64 * static_cast<std::size_t>(i)).ok());
      Await();
    }
    hashes.push_back(network_->trace_hash());
  }
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_NE(hashes[0], hashes[2]);
}

TEST_F(SimNetworkTest, WordsAreSeenWholeAndBehindWhatWasPostedBefore) {
  SimOptions options;
  options.parts_ppm = options.gap_ppm = 500'000;
  Open(3, options);
  bool in_parts = false;
  for (std::uint64_t round = 1; round <= 200; ++round) {
    for (std::size_t i = 0; i < 33; ++i) std::memcpy(a_->memory + 8 * i, &round, 8);
    ASSERT_TRUE(a_->Write(0, 8 * 32, *b_, 4).ok());  // not aligned to words of the target
    ASSERT_TRUE(a_->Write(0, 8, *b_, 1024).ok());
    std::uint64_t word = 0;
    while (word != round) {
      Step();
      std::memcpy(&word, b_->memory + 1024, 8);
      ASSERT_TRUE(word == round || word == round - 1) << word;
      std::uint64_t last = 0;
      std::uint64_t first = 0;
      std::memcpy(&first, b_->memory + 4, 8);
      std::memcpy(&last, b_->memory + 4 + 8 * 31, 8);
      in_parts |= (first & 0xffff) == round && last != round;
      if (word == round) {
        ASSERT_EQ(last, round);
      }
    }
    while (a_->qp->state() == QpState::kReadyToSend && !network_->events().empty()) Step();
  }
  EXPECT_TRUE(in_parts);
}

TEST_F(SimNetworkTest, F7LossIsTriedAgainAndFailsTheQueuePairInTheEnd) {
  SimOptions options;
  options.loss_ppm = 300'000;
  options.retry_max = 20;
  Open(1, options);
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(a_->Write(0, 8, *b_, 0).ok());
    ASSERT_EQ(Await().status, WcStatus::kSuccess);
  }
  EXPECT_GT(Faults(FaultClass::kF7Message), 5u);
  network_->options().loss_ppm = 1'000'000;
  ASSERT_TRUE(a_->Write(0, 8, *b_, 0, 77).ok());
  const WorkCompletion failed = Await();
  EXPECT_EQ(failed.wr_id, 77u);
  EXPECT_EQ(failed.status, WcStatus::kRetryExceeded);
  EXPECT_EQ(a_->qp->state(), QpState::kError);
}

TEST_F(SimNetworkTest, F6PartitionThatHealsInTimeIsOnlyADelay) {
  Open(1, SimOptions());
  network_->Block(a_->host, b_->host);
  ASSERT_TRUE(a_->Write(0, 8, *b_, 0).ok());
  const std::uint64_t before_ns = network_->now_ns();
  while (network_->now_ns() < before_ns + 10'000'000) Step();
  EXPECT_EQ(b_->deliveries, 1);  // the connect request
  network_->HealAll();
  EXPECT_EQ(Await().status, WcStatus::kSuccess);
}

TEST_F(SimNetworkTest, F6APartitionHealsWhenTheLastReasonForItEnds) {
  Open(1, SimOptions());
  const std::uint64_t begun_ns = network_->now_ns();
  network_->Block(a_->host, b_->host, begun_ns + 20'000'000);
  network_->Block(a_->host, b_->host, begun_ns + 10'000'000);
  ASSERT_TRUE(a_->Write(0, 8, *b_, 0).ok());
  EXPECT_EQ(Await().status, WcStatus::kSuccess);
  EXPECT_GE(network_->now_ns(), begun_ns + 20'000'000);
  EXPECT_TRUE(network_->Reaches(a_->host, b_->host));
}

TEST_F(SimNetworkTest, F6WhoStartsAgainReachesNoMoreThanTheFormerStart) {
  Open(1, SimOptions());
  network_->Block(a_->host, b_->host);
  Process again(network_.get(), "again");
  EXPECT_TRUE(network_->Reaches(again.host, b_->host));
  network_->TakePlaceOf(a_->host, again.host);
  EXPECT_FALSE(network_->Reaches(again.host, b_->host));
  EXPECT_TRUE(network_->Reaches(b_->host, again.host));
}

TEST_F(SimNetworkTest, F6AHandshakeWaitsForTheHostThatItIsFor) {
  SimOptions options;
  Open(1, options);
  Process c(network_.get(), "c");
  ASSERT_TRUE(c.device->Listen("sim:c").ok());
  std::unique_ptr<QueuePair> to_c = *b_->device->Connect("sim:c", b_->qp_options(), "");
  network_->Block(b_->host, a_->host);  // the first host, and no concern of theirs
  const auto step_until = [&](std::uint64_t end_ns) {
    while (network_->now_ns() < end_ns && !network_->events().empty()) {
      network_->events().RunNext();
      b_->Poll();
      c.Poll();
    }
  };
  step_until(network_->now_ns() + options.silence_ns / 2);
  ASSERT_EQ(c.events.size(), 1u);
  c.qp = *c.device->Accept(c.events[0].request, c.qp_options(), "");
  step_until(network_->now_ns() + options.silence_ns / 2);
  EXPECT_EQ(to_c->state(), QpState::kReadyToSend);

  c.events.clear();
  network_->HealAll();
  network_->Block(b_->host, c.host);
  std::unique_ptr<QueuePair> again = *b_->device->Connect("sim:c", b_->qp_options(), "");
  step_until(network_->now_ns() + 2 * options.silence_ns);
  EXPECT_TRUE(c.events.empty());
  EXPECT_EQ(again->state(), QpState::kError);
}

TEST_F(SimNetworkTest, F6PartitionOfAnswersAloneLeavesAnExecutedRequestInTheDark) {  // X5
  Open(1, SimOptions());
  network_->Block(b_->host, a_->host);
  std::memcpy(a_->memory, "executed", 8);
  ASSERT_TRUE(a_->Write(0, 8, *b_, 0).ok());
  EXPECT_EQ(Await().status, WcStatus::kRetryExceeded);
  EXPECT_EQ(std::memcmp(b_->memory, "executed", 8), 0);
}

TEST_F(SimNetworkTest, L5WhatIsOnItsWayWhenTheRegionIsRevokedDoesNotLand) {
  Open(1, SimOptions());
  std::memcpy(a_->memory, "too late", 8);
  ASSERT_TRUE(a_->Write(0, 8, *b_, 0).ok());
  b_->region->Revoke();
  EXPECT_EQ(Await().status, WcStatus::kRemoteAccess);
  EXPECT_EQ(b_->memory[0], std::byte{0});
}

TEST_F(SimNetworkTest, F1CrashOfTheInitiatorLeavesAPrefixOfWhatItPosted) {
  bool some = false;
  bool torn = false;
  bool none = false;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Open(seed, SimOptions());
    std::memset(a_->memory, 1, 1024);
    for (std::size_t i = 0; i < 4; ++i) ASSERT_TRUE(a_->Write(0, 64, *b_, 64 * i).ok());
    network_->Crash(a_->host);
    while (!network_->events().empty()) network_->events().RunNext();
    std::size_t landed = 0;
    while (landed < 256 && b_->memory[landed] == std::byte{1}) ++landed;
    for (std::size_t i = landed; i < 1024; ++i) ASSERT_EQ(b_->memory[i], std::byte{0});
    none |= landed == 0;
    some |= landed > 0 && landed < 256;
    torn |= landed % 64 != 0;
    b_->Poll();
    ASSERT_FALSE(b_->events.empty());
    EXPECT_EQ(b_->events.back().kind, ConnectionEvent::Kind::kDisconnected);
    EXPECT_EQ(Faults(FaultClass::kF1Crash), 1u);
  }
  EXPECT_TRUE(none && some && torn);
}

TEST_F(SimNetworkTest, F8AWriteThatIsTornBehindItsFirstPartKeepsThatPart) {
  SimOptions options;
  options.parts_ppm = 1'000'000;
  bool stops_there = false;
  bool goes_on = false;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Open(seed, options);
    std::memset(a_->memory, 1, 1024);
    ASSERT_TRUE(a_->Write(0, 1024, *b_, 0).ok());
    const auto landed = [this] {
      return static_cast<std::size_t>(std::count(b_->memory, b_->memory + 2048, std::byte{1}));
    };
    while (landed() == 0) network_->events().RunNext();
    const std::size_t first = landed();
    network_->Crash(a_->host);
    while (!network_->events().empty()) network_->events().RunNext();
    ASSERT_GE(landed(), first) << "seed=" << seed;
    ASSERT_LE(landed(), 1024u) << "seed=" << seed;
    stops_there |= landed() == first;
    goes_on |= landed() > first && landed() < 1024;
  }
  EXPECT_TRUE(stops_there && goes_on);
}

TEST_F(SimNetworkTest, F1CrashOfTheTargetFailsRequestsAfterTheSilence) {
  SimOptions options;
  options.crash_notice_ns = 0;  // nobody tells
  Open(1, options);
  network_->Crash(b_->host);
  ASSERT_TRUE(a_->Write(0, 8, *b_, 0).ok());
  const std::uint64_t before_ns = network_->now_ns();
  EXPECT_EQ(Await().status, WcStatus::kRetryExceeded);
  EXPECT_GE(network_->now_ns() - before_ns, options.silence_ns);
}

TEST_F(SimNetworkTest, F1CrashOfWhoIsAskedForAConnectionIsToldToWhoAsks) {
  for (const char* const answer : {"none", "accepts", "rejects"}) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {  // answers get out before the crash, or not
      SCOPED_TRACE(testing::Message() << "answer=" << answer << " seed=" << seed);
      Open(seed, SimOptions());
      b_->qp.reset();
      while (!network_->events().empty()) Step();
      a_->events.clear();
      b_->events.clear();
      a_->qp = *a_->device->Connect("sim:b", a_->qp_options(), "");
      while (b_->events.empty()) Step();
      const std::uint64_t request = b_->events[0].request;
      if (answer[0] == 'a') b_->qp = *b_->device->Accept(request, b_->qp_options(), "");
      if (answer[0] == 'r') b_->device->Reject(request, "");
      network_->Crash(b_->host);
      while (!network_->events().empty()) network_->events().RunNext();
      a_->Poll();
      ASSERT_FALSE(a_->events.empty());
      EXPECT_NE(a_->events.back().kind, ConnectionEvent::Kind::kEstablished);
      EXPECT_NE(a_->qp->state(), QpState::kInit);
    }
  }
}

TEST_F(SimNetworkTest, F10FlippedBitsOfPayloadsAreCounted) {
  SimOptions options;
  options.flip_ppm = 1'000'000;
  Open(1, options);
  ASSERT_TRUE(a_->Write(0, 64, *b_, 0).ok());
  EXPECT_EQ(Await().status, WcStatus::kSuccess);
  int bits = 0;
  for (std::size_t i = 0; i < 64; ++i)
    bits += __builtin_popcount(static_cast<unsigned>(b_->memory[i]));
  EXPECT_EQ(bits, 1);
  EXPECT_EQ(Faults(FaultClass::kF10BitFlip), 1u);
}

TEST_F(SimNetworkTest, F11MemoryThatRunsOutIsATypedError) {
  SimOptions options;
  options.allocation_fail_ppm = 1'000'000;
  options.allocation_fail_from_ns = 2'000'000'000;
  Open(1, options);
  ASSERT_TRUE(a_->device->Allocate(4096, MemoryKind::kPrivate).ok());
  while (!network_->events().empty()) Step();
  network_->events().PassTo(options.allocation_fail_from_ns);
  EXPECT_TRUE(absl::IsResourceExhausted(a_->device->Allocate(4096, MemoryKind::kPrivate).status()));
  EXPECT_EQ(Faults(FaultClass::kF11Exhaustion), 1u);
}

class Negation final : public Calculator {
 public:
  std::size_t input_count() const override { return 1; }
  std::size_t output_count() const override { return 1; }
  bool Run(const std::byte* const* inputs, std::byte* const* outputs, std::size_t length,
           std::uint32_t*) const override {
    for (std::size_t i = 0; i < length; ++i) outputs[0][i] = ~inputs[0][i];
    return true;
  }
};

TEST_F(SimNetworkTest, F15CalcFailsIsWrongOrComesLate) {
  const Negation negation;
  for (const int kind : {0, 1, 2}) {
    SimOptions options;
    std::uint32_t* const chances[] = {&options.calc_fail_ppm, &options.calc_wrong_ppm,
                                      &options.calc_late_ppm};
    *chances[kind] = 1'000'000;
    Open(1, options);
    const Sge input{a_->memory, 64, a_->region->lkey()};
    const Sge output{a_->memory + 64, 64, a_->region->lkey()};
    const CalcArguments arguments{.calculator = &negation,
                                  .inputs = absl::MakeConstSpan(&input, 1),
                                  .outputs = absl::MakeConstSpan(&output, 1)};
    WorkRequest wr;
    wr.wr_id = 5;
    wr.opcode = Opcode::kCalc;
    wr.calc = &arguments;
    wr.signaled = true;
    const std::uint64_t before_ns = network_->now_ns();
    ASSERT_TRUE(a_->qp->PostSend(wr).ok());
    const WorkCompletion completion = Await();
    EXPECT_EQ(completion.wr_id, 5u);
    EXPECT_EQ(completion.status, kind == 0 ? WcStatus::kCalcFailed : WcStatus::kSuccess);
    if (kind == 1) {
      EXPECT_EQ(a_->memory[64], std::byte{0xfe});
    }
    if (kind == 2) {
      EXPECT_GT(network_->now_ns(), before_ns);
    }
    EXPECT_EQ(Faults(FaultClass::kF15Calc), 1u);
  }
}

TEST_F(SimNetworkTest, F9ClocksDriftAndJumpForwardAndNeverGoBack) {
  Open(1, SimOptions());
  DriftingClock clock(&network_->clock());
  clock.set_drift_ppm(-1000);
  const std::uint64_t start_ns = clock.NowNs();
  while (!network_->events().empty()) Step();
  network_->events().PassTo(start_ns + 1'000'000'000);
  EXPECT_EQ(clock.NowNs(), start_ns + 999'000'000);
  clock.set_drift_ppm(1000);
  EXPECT_EQ(clock.NowNs(), start_ns + 999'000'000);
  clock.Jump(5);
  EXPECT_EQ(clock.NowNs(), start_ns + 999'000'005);
}

}  // namespace
}  // namespace ring::rdma::sim
