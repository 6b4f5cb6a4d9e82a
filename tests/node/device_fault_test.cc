// Faults of a node's network device in a cluster that serves: nothing acknowledged is lost, no
// wrong byte is told, every fault is counted, and it ends when it is cleared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/node/node_cluster.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"
#include "tools/common/protection.h"

namespace ring::node {
namespace {

using rdma::DeviceFault;
using rdma::DeviceFaultKind;
using ::ring::testing::HoldsWithin;
using ::ring::testing::kPatience;
using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

constexpr absl::Duration kPause = absl::Milliseconds(1);
constexpr int kKeys = 24;

// A value says which write it is of, all over.
std::string ValueOf(int key, std::uint64_t number) {
  std::string value = absl::StrCat(key, ":", number, ":");
  const std::string part = value;
  while (value.size() < 1500) value += part;
  return value;
}

// One client that writes and reads its own keys, in one memgest.
class Writer {
 public:
  Writer(std::unique_ptr<Client> client, std::string memgest)
      : client_(std::move(client)), memgest_(std::move(memgest)), keys_(kKeys) {}
  ~Writer() { Stop(); }
  void Start() {
    thread_ = std::thread([this] {
      for (std::uint64_t i = 0; !stop_.load(); ++i) {
        // A third of the keys is never written, and all are read.
        if (i % 3 == 2) {
          Check(static_cast<int>(i / 3 % kKeys));
        } else {
          Write(static_cast<int>(i % kKeys));
        }
      }
    });
  }
  void Stop() {
    stop_.store(true);
    if (thread_.joinable()) thread_.join();
  }
  std::uint64_t acknowledged() const { return acknowledged_.load(); }
  // Every key, patiently. REQUIRES: stopped.
  void CheckAll() {
    for (int key = 0; key < kKeys; ++key) {
      ASSERT_TRUE(HoldsWithin(
          kPatience, [&] { return Check(key); }, kPause))
          << KeyOf(key) << ": " << last_;
    }
  }

 private:
  struct Key {
    std::uint64_t acknowledged = 0;  // 0: none
    std::uint64_t tried = 0;
  };
  std::string KeyOf(int key) const { return absl::StrCat(memgest_, "-", key); }
  void Write(int key) {
    const std::uint64_t number = ++keys_[key].tried;
    const absl::Status written =
        client_->Put(KeyOf(key), ValueOf(key, number), {.memgest = memgest_}).status();
    if (!written.ok()) return;
    keys_[key].acknowledged = number;
    acknowledged_.fetch_add(1);
  }
  // False: it was not answered.
  bool Check(int key) {
    const absl::StatusOr<GetResult> got = client_->Get(KeyOf(key));
    const Key& known = keys_[key];
    if (absl::IsNotFound(got.status()) && known.acknowledged == 0) return true;
    last_ = got.status();
    EXPECT_FALSE(absl::IsNotFound(got.status())) << KeyOf(key) << " was acknowledged, and is gone";
    EXPECT_FALSE(absl::IsDataLoss(got.status())) << KeyOf(key) << ": " << got.status();
    if (!got.ok()) return false;
    for (std::uint64_t number = known.acknowledged; number <= known.tried; ++number) {
      if (got->value == ValueOf(key, number)) return true;
    }
    ADD_FAILURE() << KeyOf(key) << ": of writes " << known.acknowledged << " to " << known.tried
                  << " none was " << got->value.substr(0, 20);
    return true;
  }

  std::unique_ptr<Client> client_;
  const std::string memgest_;
  std::vector<Key> keys_;
  absl::Status last_;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> acknowledged_{0};
  std::thread thread_;
};

class DeviceFaultTest : public ::testing::TestWithParam<Transport> {
 protected:
  void SetUp() override {
    ASSERT_OK(cluster_.Start(/*fail_over=*/true, /*fault_injection=*/true, FenceKind::kLease,
                             [](NodeConfig* config) { config->transport = GetParam(); }));
    for (const char* const memgest : {"REP3", "SRS32"}) {
      ASSERT_OK_AND_ASSIGN(std::unique_ptr<Client> client, cluster_.Connect());
      writers_.push_back(std::make_unique<Writer>(std::move(client), memgest));
      writers_.back()->Start();
    }
    AwaitMore(20);
  }
  void TearDown() override { writers_.clear(); }

  // So many further writes of each client are acknowledged.
  void AwaitMore(std::uint64_t count) {
    std::vector<std::uint64_t> before;
    for (const auto& writer : writers_) before.push_back(writer->acknowledged());
    for (std::size_t i = 0; i < writers_.size(); ++i) {
      ASSERT_TRUE(HoldsWithin(
          kPatience, [&] { return writers_[i]->acknowledged() >= before[i] + count; }, kPause))
          << "writer " << i << " got no further";
    }
  }
  void Inject(absl::string_view node, const DeviceFault& device) {
    Fault fault;
    fault.kind = FaultKind::kDevice;
    fault.device = device;
    ASSERT_OK(cluster_.admin().InjectFault(node, fault));
  }
  void Clear(absl::string_view node) {
    Fault fault;
    fault.kind = FaultKind::kClear;
    absl::Status status;
    // What is to be cleared may break the control connection that this takes.
    const auto answered = [&] {
      status = cluster_.admin().InjectFault(node, fault);
      return !absl::IsUnavailable(status);
    };
    ASSERT_TRUE(HoldsWithin(kPatience, answered, kPause)) << status;
    ASSERT_OK(status);
  }
  rdma::DeviceFaultStatus StatusOf(absl::string_view node, DeviceFaultKind kind) {
    rdma::DeviceFaultStatus found;
    absl::Status failed;
    const auto look = [&] {
      const absl::StatusOr<DeviceFaults> faults = cluster_.admin().GetDeviceFaults(node);
      failed = faults.status();
      if (!faults.ok()) return false;
      for (const rdma::DeviceFaultStatus& status : *faults) {
        if (status.fault.kind != kind) continue;
        found = status;
        return true;
      }
      return false;
    };
    EXPECT_TRUE(HoldsWithin(kPatience, look, kPause))
        << "no fault of the kind is known: " << failed;
    return found;
  }
  void AwaitInjected(absl::string_view node, DeviceFaultKind kind, std::uint64_t count) {
    ASSERT_TRUE(HoldsWithin(
        kPatience, [&] { return StatusOf(node, kind).injected >= count; }, kPause))
        << "injected " << StatusOf(node, kind).injected;
  }
  void AwaitProtected() {
    std::string missing;
    const auto whole = [&] {
      missing = tools::Unprotected(cluster_.admin().GetHealth());
      return missing.empty();
    };
    ASSERT_TRUE(HoldsWithin(kPatience, whole, absl::Milliseconds(5))) << missing;
  }
  // A fault that is over leaves a cluster in which nothing is lost and everything is protected.
  void ExpectWhole() {
    AwaitMore(50);
    AwaitProtected();
    for (const auto& writer : writers_) writer->Stop();
    for (const auto& writer : writers_) writer->CheckAll();
    const absl::StatusOr<ScrubReport> scrub =
        cluster_.admin().Scrub([](const ScrubProgress&) { return true; });
    ASSERT_OK(scrub.status());
    EXPECT_EQ(scrub->mismatches, 0u) << (scrub->details.empty() ? "" : scrub->details[0]);
  }
  // Injects into node 1, which coordinates shards and is a member of others, until it happened
  // `count` times; then it ends, as it was cleared.
  void Try(DeviceFault fault, std::uint64_t count) {
    Inject("n1", fault);
    TryInjected(fault, count);
  }
  void TryInjected(const DeviceFault& fault, std::uint64_t count) {
    AwaitInjected("n1", fault.kind, count);
    Clear("n1");
    const rdma::DeviceFaultStatus status = StatusOf("n1", fault.kind);
    EXPECT_FALSE(status.active);
    ExpectWhole();
    EXPECT_EQ(StatusOf("n1", fault.kind).injected, status.injected);
    ASSERT_OK_AND_ASSIGN(const ClusterStats stats, cluster_.admin().GetStats());
    for (const NodeStats& node : stats.nodes) {
      const bool hit = node.node == NodeId(1);
      EXPECT_EQ(node.device_faults, hit ? Injected() : 0u) << node.node.value();
    }
  }
  std::uint64_t Injected() {
    std::uint64_t all = 0;
    const absl::StatusOr<DeviceFaults> faults = cluster_.admin().GetDeviceFaults("n1");
    EXPECT_OK(faults.status());
    if (!faults.ok()) return 0;
    for (const rdma::DeviceFaultStatus& status : *faults) all += status.injected;
    return all;
  }
  // Queue pairs fail, so that others have to be made: the first ones are refused. That is said
  // before they fail: what is said over a connection that breaks may come all the same.
  void TryToRefuse(DeviceFaultKind kind) {
    const DeviceFault refuse = Make(kind, 5, 1);
    Inject("n1", refuse);
    StatusOf("n1", kind);  // a fault is in the device a little after the answer
    DeviceFault fail = Make(DeviceFaultKind::kFail, 0, 100);
    fail.duration_ms = 60'000;
    Inject("n1", fail);
    TryInjected(refuse, 5);
  }
  static DeviceFault Make(DeviceFaultKind kind, std::uint32_t count, std::uint32_t one_in) {
    DeviceFault fault;
    fault.kind = kind;
    fault.count = count;
    fault.one_in = one_in;
    return fault;
  }

  testing::NodeCluster cluster_;
  std::vector<std::unique_ptr<Writer>> writers_;
};
INSTANTIATE_TEST_SUITE_P(Transports, DeviceFaultTest,
                         ::testing::Values(Transport::kAuto, Transport::kTcp),
                         [](const auto& test) {
                           return test.param == Transport::kTcp ? "Tcp" : "Local";
                         });

TEST_P(DeviceFaultTest, F8QueuePairsThatFailLoseNothing) {
  Try(Make(DeviceFaultKind::kFail, 6, 100), 6);
}

TEST_P(DeviceFaultTest, F8ReceiversThatAreNotReadyLoseNothing) {
  DeviceFault fault = Make(DeviceFaultKind::kFail, 3, 50);
  fault.status = rdma::WcStatus::kRnrRetryExceeded;
  Try(fault, 3);
}

TEST_P(DeviceFaultTest, F8TornWritesLoseNothing) { Try(Make(DeviceFaultKind::kTear, 4, 50), 4); }

TEST_P(DeviceFaultTest, F7LateCompletionsLoseNothing) {
  DeviceFault fault = Make(DeviceFaultKind::kLate, 0, 5);
  fault.duration_ms = 60'000;
  fault.delay_us = 3000;
  Try(fault, 200);
}

TEST_P(DeviceFaultTest, F10BitsThatTurnOnTheWayAreNoticed) {
  Try(Make(DeviceFaultKind::kFlip, 2, 40), 2);
}

TEST_P(DeviceFaultTest, F11MemoryThatIsRefusedForAWhileLosesNothing) {
  TryToRefuse(DeviceFaultKind::kNoMemory);
}

TEST_P(DeviceFaultTest, F11QueuePairsThatAreRefusedForAWhileLoseNothing) {
  TryToRefuse(DeviceFaultKind::kNoQueuePair);
}

TEST_P(DeviceFaultTest, AFaultWithoutAnEndOrOfNoKindIsRefused) {
  Fault fault;
  fault.kind = FaultKind::kDevice;
  EXPECT_THAT(cluster_.admin().InjectFault("n1", fault),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("count and duration_ms")));
  fault.device.count = 1;
  fault.device.kind = static_cast<DeviceFaultKind>(99);
  EXPECT_THAT(cluster_.admin().InjectFault("n1", fault),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("kind=99")));
  EXPECT_THAT(cluster_.admin().GetDeviceFaults("nobody"), StatusIs(absl::StatusCode::kNotFound));
  ASSERT_OK_AND_ASSIGN(const DeviceFaults none, cluster_.admin().GetDeviceFaults("n1"));
  EXPECT_TRUE(none.empty());
}

TEST(DeviceFaults, AreRefusedUnlessTheConfigurationAllowsThem) {
  testing::NodeCluster cluster;
  ASSERT_OK(cluster.Start());
  Fault fault;
  fault.kind = FaultKind::kDevice;
  fault.device.count = 1;
  const auto refused =
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("fault_injection"));
  EXPECT_THAT(cluster.admin().InjectFault("n1", fault), refused);
  fault.kind = FaultKind::kClear;
  EXPECT_THAT(cluster.admin().InjectFault("n1", fault), refused);
  EXPECT_THAT(cluster.admin().GetDeviceFaults("n1").status(), refused);
}

TEST(DeviceFaults, TravelWholeOrAreRefused) {
  rdma::DeviceFaultStatus status;
  status.fault = {DeviceFaultKind::kLate, 3, 400, 5, 6, rdma::WcStatus::kRnrRetryExceeded};
  status.active = true;
  status.left = 2;
  status.left_ms = 300;
  status.injected = 7;
  const std::string bytes = EncodeDeviceFaults({status, status});
  ASSERT_OK_AND_ASSIGN(const DeviceFaults got, DecodeDeviceFaults(bytes));
  EXPECT_THAT(got, ::testing::ElementsAre(status, status));
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(DecodeDeviceFaults(absl::string_view(bytes).substr(0, size)).ok()) << size;
  EXPECT_FALSE(DecodeDeviceFaults(bytes + "x").ok());
}

}  // namespace
}  // namespace ring::node
