// Requests that come once more, late, and to whoever owns their key by then (F7).
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "tests/sim/sim_cluster.h"
#include "tests/sim/sim_echo.h"

namespace ring::sim {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kMs = 1'000'000;
constexpr int kKey = 3;

class SimCopies : public ::testing::Test {
 protected:
  SimCopies() : cluster_(Options()) {}
  static ClusterOptions Options() {
    ClusterOptions options;
    options.seed = 7;
    return options;
  }
  void SetUp() override {
    ASSERT_TRUE(cluster_.Open().ok());
    ASSERT_TRUE(cluster_.AddClient(4, /*operations=*/0, /*sleeps=*/false).ok());
    ASSERT_TRUE(cluster_.AddClient(4, /*operations=*/0, /*sleeps=*/false).ok());
    absl::StatusOr<std::shared_ptr<SimEcho>> echo = SimEcho::Open(&cluster_.network());
    ASSERT_TRUE(echo.ok()) << echo.status();
    echo_ = *std::move(echo);
    Pass(100 * kMs);
    Await(Get(0));  // connections are there
    Await(Get(1));
  }
  void TearDown() override {
    if (echo_ != nullptr) echo_->Close();
  }

  void Pass(std::uint64_t ns) {
    cluster_.RunUntil(cluster_.network().now_ns() + ns, [] { return false; });
  }
  std::size_t Ask(std::size_t client, const Operation& op) {
    const std::size_t at = cluster_.history().operations().size();
    cluster_.clients()[client]->Ask(op);
    cluster_.RunUntil(
        cluster_.network().now_ns() + kSecond,
        [&] { return cluster_.history().operations().size() > at; }, 1'000);
    return at;
  }
  std::size_t Put(std::size_t client, ValueId value) {
    Operation op;
    op.kind = OpKind::kPut;
    op.key = kKey;
    op.value = value;
    op.size = 100;
    return Ask(client, op);
  }
  std::size_t Get(std::size_t client) {
    Operation op;
    op.key = kKey;
    return Ask(client, op);
  }
  const Operation& Await(std::size_t at) {
    EXPECT_TRUE(cluster_.RunUntil(
        cluster_.network().now_ns() + 20 * kSecond, [&] { return At(at).return_ns != 0; }, kMs));
    return At(at);
  }
  const Operation& At(std::size_t at) { return cluster_.history().operations()[at]; }
  ValueId Read() { return Await(Get(1)).value; }
  // The newest request comes once more, to the key's owner.
  void Copy() {
    const SentRequest* const sent = cluster_.CopyToSend(0);
    ASSERT_NE(sent, nullptr);
    ASSERT_TRUE(echo_->Send(*sent, cluster_.AddressOf(cluster_.OwnerOf(kKey))));
    Pass(20 * kMs);
  }

  SimCluster cluster_;
  std::shared_ptr<SimEcho> echo_;
};

// The client cannot reach the owner: whatever is executed was the copy.
TEST_F(SimCopies, F7ACopyIsTheRequestItself) {
  SimNode& owner = *cluster_.nodes()[cluster_.OwnerOf(kKey).value()];
  cluster_.network().Block(cluster_.clients()[0]->host(), owner.host());
  const std::size_t put = Put(0, 11);
  Pass(10 * kMs);
  ASSERT_EQ(At(put).result, OpResult::kPending);
  ASSERT_EQ(Read(), 0u);
  ASSERT_NO_FATAL_FAILURE(Copy());
  EXPECT_EQ(Read(), 11u);
  const Version version = At(Get(1)).version;
  cluster_.network().HealAll();
  EXPECT_EQ(Await(put).result, OpResult::kOk);
  EXPECT_EQ(Await(Get(1)).version, At(put).version) << ToString(version);
}

TEST_F(SimCopies, X1ACopyOfWhatWasAnsweredIsNotExecutedAgain) {
  Await(Put(0, 11));
  const SentRequest first = *cluster_.CopyToSend(0);
  Await(Put(1, 12));
  ASSERT_TRUE(echo_->Send(first, cluster_.AddressOf(cluster_.OwnerOf(kKey))));
  Pass(20 * kMs);
  EXPECT_EQ(Read(), 12u);
}

TEST_F(SimCopies, X2NorByTheNextOwner) {
  Await(Put(0, 11));
  const SentRequest first = *cluster_.CopyToSend(0);
  Await(Put(1, 12));
  const NodeId owner = cluster_.OwnerOf(kKey);
  cluster_.CrashNode(owner);
  ASSERT_TRUE(cluster_.RunUntil(
      cluster_.network().now_ns() + 20 * kSecond,
      [&] { return cluster_.OwnerOf(kKey) != owner && cluster_.OwnerOf(kKey) != cluster::kNoNode; },
      kMs));
  EXPECT_EQ(Read(), 12u);
  ASSERT_TRUE(echo_->Send(first, cluster_.AddressOf(cluster_.OwnerOf(kKey))));
  Pass(20 * kMs);
  EXPECT_EQ(Read(), 12u);
}

}  // namespace
}  // namespace ring::sim
