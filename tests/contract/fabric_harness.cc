#include "tests/contract/fabric_harness.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "rdma/engine/engine_device.h"
#include "rdma/sim/sim_device.h"
#include "rdma/soft/shared_copy.h"
#include "tests/support/await.h"

namespace ring::rdma {
namespace {

// Of simulated time, each time that somebody looks whether something happened.
constexpr std::uint64_t kSimStepNs = 10'000;

void LetTimePass(sim::SimNetwork* network) {
  sim::EventQueue& events = network->events();
  const std::uint64_t until_ns = events.now_ns() + kSimStepNs;
  while (!events.empty() && events.next_ns() <= until_ns) events.RunNext();
  events.PassTo(until_ns);
}

}  // namespace

std::string LinkKindName(LinkKind kind) {
  switch (kind) {
    case LinkKind::kLocal:
      return "Local";
    case LinkKind::kLocalCrossThread:
      return "LocalCrossThread";
    case LinkKind::kShm:
      return "Shm";
    case LinkKind::kTcp:
      return "Tcp";
    case LinkKind::kTcpUring:
      return "TcpUring";
    case LinkKind::kSim:
      return "Sim";
    case LinkKind::kEngineLocal:
      return "EngineLocal";
    case LinkKind::kEngineShm:
      return "EngineShm";
    case LinkKind::kEngineTcp:
      return "EngineTcp";
    case LinkKind::kVerbs:
      return "Verbs";
    case LinkKind::kVerbsCrossThread:
      return "VerbsCrossThread";
  }
  return "";
}

bool HasVerbs() { return std::getenv("RING_TEST_VERBS_DEVICE") != nullptr; }

std::vector<LinkKind> WithVerbs(std::vector<LinkKind> kinds, std::vector<LinkKind> of_verbs) {
  if (HasVerbs()) kinds.insert(kinds.end(), of_verbs.begin(), of_verbs.end());
  return kinds;
}

VerbsOptions TestVerbsOptions(bool peer) {
  const char* name = peer ? std::getenv("RING_TEST_VERBS_PEER") : nullptr;
  if (name == nullptr) name = std::getenv("RING_TEST_VERBS_DEVICE");
  return {.device = name == nullptr ? "" : name};
}

std::string FreshAddress(LinkKind kind) {
  static std::atomic<int> counter{0};
  const std::string unique = absl::StrCat("ring-fabric-", getpid(), "-", counter.fetch_add(1));
  if (IsShm(kind)) return absl::StrCat("shm:/tmp/", unique);
  if (IsTcp(kind)) return "tcp:127.0.0.1:0";
  if (IsVerbs(kind)) return "rdma::0";
  return absl::StrCat("local:", unique);
}

Side::Side(const SoftDeviceOptions& options, bool own_thread, sim::SimNetwork* network, bool engine)
    : network_(network), engine_(engine) {
  if (own_thread) thread_ = std::make_unique<std::thread>([this] { Loop(); });
  Run([&] { Open(options); });
}

Side::~Side() {
  Run([&] { Close(); });
  if (thread_ == nullptr) return;
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  thread_->join();
}

void Side::Open(const SoftDeviceOptions& options) {
  if (network_ != nullptr) {
    auto opened = sim::SimDevice::Open(network_, network_->AddHost(this), options);
    ASSERT_TRUE(opened.ok()) << opened.status();
    device = std::move(*opened);
  } else if (engine_) {
    auto opened = OpenEngineDevice({.soft = options});
    ASSERT_TRUE(opened.ok()) << opened.status();
    device = std::move(*opened);
  } else {
    auto opened = OpenSoftDevice(options);
    ASSERT_TRUE(opened.ok()) << opened.status();
    device = std::move(*opened);
  }
  send_cq = *device->CreateCompletionQueue(1024);
  recv_cq = *device->CreateCompletionQueue(1024);
  memory = *device->Allocate(kMemorySize, rdma::MemoryKind::kShared);
  region = *device->Register(memory, kMemorySize, kRemoteRead | kRemoteWrite | kRemoteAtomic);
}

void Side::Close() {
  qp.reset();
  region.reset();
  send_cq.reset();
  recv_cq.reset();
  device.reset();
}

void Side::Run(absl::FunctionRef<void()> work) {
  if (thread_ == nullptr) {
    work();
    return;
  }
  MutexLock lock(mutex_);
  work_ = &work;
  while (work_ != nullptr) done_.Wait(mutex_);
}

void Side::Loop() {
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (work_ != nullptr) {
        (*work_)();
        work_ = nullptr;
        done_.NotifyAll();
      }
      if (stop_) return;
      if (device != nullptr) CollectEvents();
    }
    ring::testing::LetOthersRun();
  }
}

QueuePairOptions Side::qp_options() {
  QueuePairOptions options;
  options.send_cq = send_cq.get();
  options.recv_cq = recv_cq.get();
  options.send_depth = kDepth;
  options.recv_depth = kDepth;
  return options;
}

void Side::CollectEvents() {
  woken_ = false;
  if (network_ != nullptr) LetTimePass(network_);
  device->Progress();
  ConnectionEvent event;
  while (device->PollEvent(&event)) events.push_back(event);
}

bool Side::Readable(int timeout_ms) {
  if (network_ == nullptr) {
    pollfd entry{device->event_fd(), POLLIN, 0};
    return poll(&entry, 1, timeout_ms) == 1;
  }
  const std::uint64_t until_ns =
      network_->now_ns() + static_cast<std::uint64_t>(timeout_ms) * 1'000'000;
  while (!woken_ && network_->now_ns() < until_ns) LetTimePass(network_);
  return woken_;
}

bool Side::TakeEvent(ConnectionEvent::Kind kind, ConnectionEvent* event) {
  for (auto it = events.begin(); it != events.end(); ++it) {
    if (it->kind != kind) continue;
    *event = *it;
    events.erase(it);
    return true;
  }
  return false;
}

void FabricContract::SetUp() {
  SoftDeviceOptions options;
  options.arena_size_max = std::uint64_t{64} << 20;
  options.shareable = IsShm(GetParam());
  options.tcp_uring = UsesUring(GetParam());
  options.rnr_timeout_ms = 2000;  // an engine that is not scheduled posts its receives late
  if (GetParam() == LinkKind::kSim)
    network_ = std::make_unique<sim::SimNetwork>(::testing::UnitTest::GetInstance()->random_seed(),
                                                 sim::SimOptions());
  options.name = "a";
  options.verbs = TestVerbsOptions(/*peer=*/false);
  a_ = std::make_unique<Side>(options, false, network_.get(), HasEngine(GetParam()));
  options.name = "b";
  options.verbs = TestVerbsOptions(/*peer=*/true);
  b_ = std::make_unique<Side>(options, IsCrossThread(GetParam()), network_.get(),
                              HasEngine(GetParam()));
  b_->Run([&] {
    auto listening = b_->device->Listen(FreshAddress(GetParam()));
    ASSERT_TRUE(listening.ok()) << listening.status();
    address_ = *listening;
  });
  Connect(&a_->qp, &b_->qp);
}

void FabricContract::TearDown() {
  // In this order a reset peer is met too.
  a_.reset();
  b_.reset();
}

bool FabricContract::WaitFor(absl::FunctionRef<bool()> condition) {
  return ring::testing::HoldsWithin(ring::testing::kPatience, condition, [&] {
    a_->CollectEvents();
    b_->Run([&] { b_->CollectEvents(); });
  });
}

void FabricContract::Connect(std::unique_ptr<QueuePair>* from_a, std::unique_ptr<QueuePair>* at_b,
                             const QueuePairOptions& options_of_a) {
  auto connecting = a_->device->Connect(address_, options_of_a, "hello");
  ASSERT_TRUE(connecting.ok()) << connecting.status();
  *from_a = std::move(*connecting);
  ConnectionEvent event;
  ASSERT_TRUE(WaitFor([&] {
    bool found = false;
    b_->Run([&] { found = b_->TakeEvent(ConnectionEvent::Kind::kConnectRequest, &event); });
    return found;
  }));
  EXPECT_EQ(event.private_data, "hello");
  b_->Run([&] {
    auto accepted = b_->device->Accept(event.request, b_->qp_options(), "welcome");
    ASSERT_TRUE(accepted.ok()) << accepted.status();
    *at_b = std::move(*accepted);
  });
  ASSERT_TRUE(WaitFor([&] { return a_->TakeEvent(ConnectionEvent::Kind::kEstablished, &event); }));
  EXPECT_EQ(event.private_data, "welcome");
  EXPECT_EQ(event.qp, from_a->get());
  ASSERT_TRUE(WaitFor([&] {
    bool found = false;
    b_->Run([&] { found = b_->TakeEvent(ConnectionEvent::Kind::kEstablished, &event); });
    return found;
  }));
  EXPECT_EQ((*from_a)->state(), QpState::kReadyToSend);
}

std::vector<WorkCompletion> FabricContract::Completions(Side& side, CompletionQueue& cq,
                                                        std::size_t count) {
  std::vector<WorkCompletion> found;
  const bool enough = WaitFor([&] {
    side.Run([&] {
      WorkCompletion completion;
      while (found.size() < count && cq.Poll(absl::MakeSpan(&completion, 1)) == 1)
        found.push_back(completion);
    });
    return found.size() == count;
  });
  EXPECT_TRUE(enough) << "completions=" << found.size() << " of count=" << count;
  return found;
}

bool FabricContract::IsQuiet(Side& side, CompletionQueue& cq) {
  bool quiet = true;
  for (int i = 0; i < 50; ++i) {
    a_->CollectEvents();
    b_->Run([&] { b_->CollectEvents(); });
    WorkCompletion completion;
    side.Run([&] { quiet = quiet && cq.Poll(absl::MakeSpan(&completion, 1)) == 0; });
  }
  return quiet;
}

WorkCompletion FabricContract::PostOne(WorkRequest wr) {
  wr.signaled = true;
  const absl::Status posted = a_->qp->PostSend(wr);
  EXPECT_TRUE(posted.ok()) << posted;
  return OneCompletion(*a_, *a_->send_cq);
}

WorkRequest FabricContract::Write(const Sge& sge, std::size_t remote_offset,
                                  std::uint64_t wr_id) const {
  WorkRequest wr;
  wr.wr_id = wr_id;
  wr.opcode = Opcode::kWrite;
  wr.sges = absl::MakeConstSpan(&sge, 1);
  wr.remote_address = b_->AddressAt(remote_offset);
  wr.rkey = b_->region->rkey();
  return wr;
}

void FabricContract::PostReceiveAtB(std::uint64_t wr_id, std::size_t offset, std::size_t length) {
  b_->Run([&] {
    const Sge sge = b_->At(offset, length);
    const absl::Status posted = b_->qp->PostRecv(wr_id, absl::MakeConstSpan(&sge, 1));
    ASSERT_TRUE(posted.ok()) << posted;
  });
}

bool FabricContract::BytesAtB(std::size_t offset, absl::string_view expected) {
  // The device's thread may be writing them.
  std::vector<std::byte> bytes(expected.size());
  b_->Run([&] { soft::CopyFromShared(bytes.data(), b_->memory + offset, bytes.size()); });
  return std::memcmp(bytes.data(), expected.data(), bytes.size()) == 0;
}

}  // namespace ring::rdma
