// Calls between the nodes of a cluster: one process and several hosts, nodes that are not there.
#include "ring/node/control/control_port.h"

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "api/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rdma/soft/soft_device.h"
#include "ring/base/boot_clock.h"
#include "ring/base/status.h"
#include "ring/node/host.h"
#include "ring/recovery/fetch_message.h"
#include "tests/node/control/two_ports.h"
#include "tests/node/node_cluster.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"
#include "tools/common/free_ports.h"

namespace ring::node {
namespace {

using ::ring::testing::Await;
using ::ring::testing::StatusIs;
using ::testing::HasSubstr;
using testing::TwoPorts;

class ControlPortTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(cluster_.Start()); }
  absl::StatusOr<std::string> Call(std::uint32_t from, std::uint32_t to, ControlType type,
                                   const std::string& body) {
    auto done = std::make_shared<std::promise<absl::StatusOr<std::string>>>();
    cluster_.Run([&] {
      cluster_.node(from).control().Call(
          NodeId(to), type, body, 5'000'000'000,
          [done](absl::StatusOr<std::string> answer) { done->set_value(std::move(answer)); });
    });
    return done->get_future().get();
  }
  testing::NodeCluster cluster_;
};

TEST_F(ControlPortTest, EveryNodeReachesEveryOtherAndItself) {
  for (std::uint32_t from = 0; from < 6; ++from) {
    for (std::uint32_t to = 0; to < 6; ++to)
      EXPECT_OK(Call(from, to, ControlType::kPing, "").status()) << from << " to " << to;
  }
}

TEST_F(ControlPortTest, S2AWriteIsDoneWhenItsBytesAreThereAndNeverOnceItsConnectionEnded) {
  constexpr std::size_t kSize = 64 * 1024;
  std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::unique_ptr<rdma::MemoryRegion> region;
  std::atomic<int> done{0};
  std::atomic<bool> right{true};
  const auto write = [&] {
    return cluster_.node(1).control().Write(NodeId(2),
                                            {from, kSize, cluster_.node(1).device().LocalKey(from)},
                                            region->remote().address, region->rkey(), [&] {
                                              right = right && std::memcmp(from, to, kSize) == 0;
                                              ++done;
                                            });
  };
  absl::Status posted;
  cluster_.Run([&] {
    rdma::Device& target = cluster_.node(2).device();
    from = *cluster_.node(1).device().Allocate(kSize, rdma::MemoryKind::kPrivate);
    to = *target.Allocate(kSize, rdma::MemoryKind::kShared);
    region = *target.Register(to, kSize, rdma::kRemoteWrite);
    std::memset(from, 7, kSize);
    posted = write();
  });
  ASSERT_OK(posted);
  Await("the write", [&] { return done.load() != 0; });
  EXPECT_TRUE(right.load());
  cluster_.Run([&] {
    std::memset(from, 8, kSize);
    posted = write();
    cluster_.node(1).control().Break(NodeId(2));
  });
  ASSERT_OK(posted);
  Await("another connection", [&] { return Call(1, 2, ControlType::kPing, "").ok(); });
  EXPECT_EQ(done.load(), 1);
  cluster_.Run([&] {
    region.reset();
    cluster_.node(1).device().Free(from, kSize, rdma::MemoryKind::kPrivate);
    cluster_.node(2).device().Free(to, kSize, rdma::MemoryKind::kShared);
  });
}

TEST_F(ControlPortTest, MalformedBodiesAreRefusedByEveryHandler) {
  // Questions without a body, and what nobody waits for an answer of.
  const std::set<ControlType> others = {
      ControlType::kCredit, ControlType::kPing,         ControlType::kStats,    ControlType::kProbe,
      ControlType::kHealth, ControlType::kDeviceFaults, ControlType::kConsensus};
  // Refused whatever it says, where faults are off.
  EXPECT_THAT(Call(1, 0, ControlType::kFault, "x").status(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  for (std::size_t i = 0; i < kControlTypeCount; ++i) {
    const auto type = static_cast<ControlType>(i);
    if (others.contains(type) || type == ControlType::kFault) continue;
    EXPECT_THAT(Call(1, 0, type, "x").status(), StatusIs(absl::StatusCode::kInvalidArgument)) << i;
  }
}

// Who asks for a value counts refusals, and gives it up after so many: a node that does not know
// itself a member of the shard, as its view is an older one, refuses nothing.
TEST_F(ControlPortTest, AValueThatANodeHasNoPlaceForYetIsNotRefused) {
  recovery::FetchRequest request;
  request.kind = recovery::FetchKind::kValue;
  request.epoch = Epoch(1);
  request.version = Version(1);
  request.memgests = {MemgestId(1)};
  EXPECT_THAT(Call(0, 5, ControlType::kFetch, recovery::EncodeFetchRequest(request)).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("has nothing of group=0")));
}

TEST_F(ControlPortTest, ManyLargeMessagesBothWaysAllArrive) {
  constexpr int kCount = 20;
  std::atomic<int> arrived{0};
  const std::string body(500'000, 'v');  // no view: refused, once it has arrived whole
  cluster_.Run([&] {
    for (int i = 0; i < kCount; ++i) {
      for (const std::uint32_t from : {0u, 3u}) {
        cluster_.node(from).control().Call(
            NodeId(3 - from), ControlType::kView, body, 20'000'000'000,
            [&](const absl::StatusOr<std::string>& answer) {
              EXPECT_THAT(answer.status(), StatusIs(absl::StatusCode::kInvalidArgument));
              ++arrived;
            });
      }
    }
  });
  Await("every answer", [&] { return arrived.load() >= 2 * kCount; });
}

TEST_F(ControlPortTest, CallsOverTheBoundAreRefusedAtOnceAndTheOthersAnswered) {
  constexpr std::size_t kCount = 3000;
  std::atomic<std::size_t> answered{0};
  std::atomic<std::size_t> refused{0};
  cluster_.Run([&] {  // node 3 does nothing meanwhile
    for (std::size_t i = 0; i < kCount; ++i) {
      cluster_.node(0).control().Call(
          NodeId(3), ControlType::kPing, "", 20'000'000'000,
          [&](const absl::StatusOr<std::string>& answer) {
            if (answer.ok()) {
              ++answered;
            } else {
              EXPECT_THAT(answer.status(), StatusIs(absl::StatusCode::kResourceExhausted,
                                                    HasSubstr("node 3: queued_count=1024")));
              ++refused;
            }
          });
    }
  });
  Await("every answer", [&] { return answered.load() + refused.load() >= kCount; });
  EXPECT_GE(answered.load(), ControlLink::kOutgoingCountMax);
  EXPECT_GT(refused.load(), 0u);
  EXPECT_OK(Call(0, 3, ControlType::kPing, "").status());
}

// A control peer of a test's own: it asks within what it is given, and never says that it took an
// answer.
class DeafPeer {
 public:
  static constexpr std::size_t kReceives = 64;

  absl::Status Connect(const std::string& address, std::uint64_t cluster, std::uint32_t fence) {
    rdma::SoftDeviceOptions options;
    options.name = "deaf";
    options.clock = &clock_;
    RING_ASSIGN_OR_RETURN(device_, rdma::OpenSoftDevice(options));
    RING_ASSIGN_OR_RETURN(cq_, device_->CreateCompletionQueue(1024));
    constexpr std::size_t kSize = (kReceives + 1) * kControlBufferSize;
    RING_ASSIGN_OR_RETURN(memory_, device_->Allocate(kSize, rdma::MemoryKind::kShared));
    RING_ASSIGN_OR_RETURN(region_, device_->Register(memory_, kSize, rdma::kLocalOnly));
    protocol::ControlHello hello;
    hello.cluster = cluster;
    hello.incarnation = 7;
    hello.node = 0;
    hello.fence = fence;
    RING_ASSIGN_OR_RETURN(
        qp_,
        device_->Connect(
            address,
            {.send_cq = cq_.get(), .recv_cq = cq_.get(), .send_depth = 64, .recv_depth = kReceives},
            protocol::EncodeHello(hello)));
    for (std::size_t i = 0; i < kReceives; ++i) Receive(i);
    return absl::OkStatus();
  }
  // Asks until the connection ends; gives how often. has_imm: with immediate data, which no message
  // has.
  std::uint32_t AskUntilItEnds(bool has_imm = false) {
    std::uint32_t asked = 0;
    std::uint32_t taken = 0;
    bool up = false;
    Await("the connection's end", [&] {
      device_->Progress();
      for (rdma::ConnectionEvent event; device_->PollEvent(&event);) {
        if (event.kind != rdma::ConnectionEvent::Kind::kEstablished) return true;
        up = true;
      }
      for (rdma::WorkCompletion done; cq_->Poll(absl::MakeSpan(&done, 1)) > 0;) {
        if (done.status != rdma::WcStatus::kSuccess || done.opcode != rdma::Opcode::kRecv) continue;
        ControlHeader header;
        std::memcpy(&header, memory_ + done.wr_id * kControlBufferSize, sizeof(header));
        taken = header.consumed;
        Receive(done.wr_id);
      }
      if (up && asked - taken < ControlLink::kWindow && Ask(has_imm)) ++asked;
      return false;
    });
    return asked;
  }

 private:
  void Receive(std::size_t index) {
    const rdma::Sge to = {memory_ + index * kControlBufferSize, kControlBufferSize,
                          region_->lkey()};
    qp_->PostRecv(index, absl::MakeConstSpan(&to, 1)).IgnoreError();
  }
  bool Ask(bool has_imm) {
    ControlHeader header;
    header.type = ControlType::kPing;
    std::byte* const from = memory_ + kReceives * kControlBufferSize;
    std::memcpy(from, &header, sizeof(header));
    const rdma::Sge sge = {from, sizeof(header), region_->lkey()};
    rdma::WorkRequest request;
    request.opcode = rdma::Opcode::kSend;
    request.signaled = true;
    request.has_imm = has_imm;
    request.sges = absl::MakeConstSpan(&sge, 1);
    return qp_->PostSend(request).ok();
  }

  BootClock clock_;
  std::unique_ptr<rdma::Device> device_;
  std::unique_ptr<rdma::CompletionQueue> cq_;
  std::byte* memory_ = nullptr;
  std::unique_ptr<rdma::MemoryRegion> region_;
  std::unique_ptr<rdma::QueuePair> qp_;
};

// One node of a cluster whose others are not there, and a peer that is no node.
class ControlPortPeerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    HostOptions options;
    options.config = EmbeddedConfig();
    ASSERT_OK_AND_ASSIGN(std::vector<int> ports,
                         tools::FreePorts(static_cast<int>(options.config.nodes.size())));
    for (NodeEntry& node : options.config.nodes) {
      node.data = absl::StrCat("127.0.0.1:", ports.back());
      ports.pop_back();
    }
    options.hosted = {NodeId(5)};
    ASSERT_OK_AND_ASSIGN(host_, Host::Start(options));
    ASSERT_OK(peer_.Connect(
        "tcp:" + options.config.nodes[5].data,
        cluster::ClusterHash(options.config.cluster_name, options.config.s, options.config.d),
        options.config.control.FenceTerms()));
  }

  std::unique_ptr<Host> host_;
  DeafPeer peer_;
};

TEST_F(ControlPortPeerTest, WhoAsksAndTakesNoAnswerLosesItsConnection) {
  EXPECT_GT(peer_.AskUntilItEnds(), ControlLink::kOutgoingCountMax);
}

// Such a completion is of a receive, and not of something that the node sent.
TEST_F(ControlPortPeerTest, AMessageWithImmediateDataEndsItsConnection) {
  EXPECT_LE(peer_.AskUntilItEnds(/*has_imm=*/true), ControlLink::kWindow);
}

TEST(ControlPort, L8OldViewsEndNoConnectionOfALaterStart) {
  TwoPorts two;
  ASSERT_OK(two.Connect());
  for (const std::uint64_t start : {5, 6, 7}) {  // as who catches up sees them
    two.port(0).OnRegistered(NodeId(1), Incarnation(start));
    EXPECT_TRUE(two.port(0).connected(NodeId(1))) << start;
  }
  two.port(0).OnRegistered(NodeId(1), Incarnation(TwoPorts::kStart));
  EXPECT_TRUE(two.port(0).connected(NodeId(1)));
  two.port(0).OnRegistered(NodeId(1), Incarnation(11));
  EXPECT_FALSE(two.port(0).connected(NodeId(1))) << "another start is the present one";
}

// 10.6: whoever has its part in a cluster that was founded anew since, and does not know it.
TEST(ControlPort, WhoHasItsPartInAnotherFoundingIsNotSpokenTo) {
  TwoPorts two;
  ASSERT_OK(two.Open());
  two.port(1).SetFounding(7);
  Await("both ports", [&] {
    two.Progress();
    return two.port(0).ready() && two.port(1).ready();
  });
  two.port(0).SetFounding(7);
  EXPECT_TRUE(two.port(0).connected(NodeId(1))) << "it is the same";
  two.port(0).SetFounding(8);
  EXPECT_FALSE(two.port(0).connected(NodeId(1)));
  const int before = two.refused();
  Await("a refusal", [&] {
    two.Progress();
    return two.refused() > before;
  });
  EXPECT_THAT(two.port(0).Missing(), HasSubstr("founded anew"));
  EXPECT_FALSE(two.port(0).connected(NodeId(1)));
}

TEST(ControlPort, APeerThatAnotherTransportReachesIsConnectedToAnew) {
  TwoPorts two;
  ASSERT_OK(two.Connect());
  const std::uint32_t before = two.port(0).generation(NodeId(1));
  ASSERT_OK_AND_ASSIGN(const std::string tcp, two.device(1).Listen("tcp:127.0.0.1:0"));
  two.port(0).SetAddresses({"", tcp}, {true, true});
  EXPECT_TRUE(two.port(0).connected(NodeId(1))) << "whoever gave the view is still heard";
  Await("the other transport", [&] {
    two.Progress();
    return two.port(0).TransportTo(NodeId(1)) == "tcp" && two.port(1).ready();
  });
  EXPECT_GT(two.port(0).generation(NodeId(1)), before);
  // The same one again changes nothing.
  const std::uint32_t after = two.port(0).generation(NodeId(1));
  two.port(0).SetAddresses({"", tcp}, {true, true});
  for (int i = 0; i < 1000; ++i) two.Progress();
  EXPECT_EQ(two.port(0).generation(NodeId(1)), after);
}

TEST(ControlPort, ATurnEndsAfterItsBytesAndTheNextOneGoesOn) {
  constexpr std::size_t kMessages = 6;
  constexpr std::size_t kSize = ControlPort::kTurnBytes / 2;
  TwoPorts two;
  ASSERT_OK(two.Connect());
  std::size_t handled = 0;
  two.port(1).Handle(ControlType::kStats, [&](NodeId, absl::string_view, ControlReply reply) {
    ++handled;
    reply(std::string());
  });
  std::size_t answered = 0;
  for (std::size_t i = 0; i < kMessages; ++i) {
    two.port(0).Call(NodeId(1), ControlType::kStats, std::string(kSize, 'x'), 60'000'000'000,
                     [&](const absl::StatusOr<std::string>& answer) { answered += answer.ok(); });
  }
  std::size_t turns = 0;
  bool more = false;
  Await("all answers", [&] {
    const std::size_t before = handled;
    two.Progress(1);
    EXPECT_LE(handled - before, 2u);
    more |= two.port(1).HasWork();  // so its node does not sleep
    turns += handled > before;
    two.Progress(0);
    return answered == kMessages;
  });
  EXPECT_EQ(handled, kMessages);
  EXPECT_GE(turns, kMessages / 2);
  EXPECT_TRUE(more);
}

TEST(ControlPort, ACallToItselfCountsWhatItBrings) {
  constexpr std::size_t kCalls = 5;
  TwoPorts two;
  ASSERT_OK(two.Connect());
  std::size_t handled = 0;
  two.port(0).Handle(ControlType::kStats, [&](NodeId, absl::string_view, ControlReply) {
    ++handled;
    two.port(0).Spend(ControlPort::kTurnBytes);  // as one that copies a block
  });
  for (std::size_t i = 0; i < kCalls; ++i) {
    two.port(0).Call(NodeId(0), ControlType::kStats, "", 60'000'000'000,
                     [](const absl::StatusOr<std::string>&) {});
  }
  for (std::size_t i = 1; i <= kCalls; ++i) {
    two.Progress(0);
    EXPECT_EQ(handled, i);
    EXPECT_TRUE(two.port(0).HasWork());
  }
  two.Progress(0);
  EXPECT_EQ(handled, kCalls);
  EXPECT_FALSE(two.port(0).HasWork());
}

// F11: as in a takeover that wants many large values at once.
TEST(ControlPort, F11AnswersThatDoNotFitAreRefusedAndTheConnectionStays) {
  constexpr std::size_t kCount = 40;
  const std::string body(ControlLink::kOutgoingBytesMax / 20, 'v');
  TwoPorts two;
  ASSERT_OK(two.Connect());
  std::vector<ControlReply> held;
  two.port(1).Handle(ControlType::kFetch, [&](NodeId, absl::string_view, ControlReply reply) {
    held.push_back(std::move(reply));
  });
  std::size_t answered = 0;
  std::size_t refused = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    two.port(0).Call(NodeId(1), ControlType::kFetch, "", 20'000'000'000,
                     [&](const absl::StatusOr<std::string>& answer) {
                       if (answer.ok()) {
                         EXPECT_EQ(*answer, body);
                         ++answered;
                       } else {
                         EXPECT_THAT(answer.status(),
                                     StatusIs(absl::StatusCode::kResourceExhausted,
                                              HasSubstr("too many control messages")));
                         ++refused;
                       }
                     });
  }
  Await("every request", [&] {
    two.Progress();
    return held.size() == kCount;
  });
  for (ControlReply& reply : held) reply(body);
  Await("every answer", [&] {
    two.Progress();
    return answered + refused == kCount;
  });
  EXPECT_GE(answered, 20u);
  EXPECT_GT(refused, 0u);
  EXPECT_TRUE(two.port(0).connected(NodeId(1)));
}

TEST_F(ControlPortTest, G10MemgestThatKeepsItsKeysIsActiveAgainAfterTenSeconds) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Client> client, cluster_.Connect());
  for (int i = 0; i < 7; ++i)
    ASSERT_OK(client->Put(absl::StrCat("k", i), "v", {.memgest = "SRS21"}).status());
  const AdminRequestId id = {"test", 1};
  const absl::Status first = cluster_.admin().DeleteMemgest(id, "SRS21", false);
  EXPECT_THAT(first, StatusIs(absl::StatusCode::kFailedPrecondition,
                              HasSubstr("NOT_EMPTY memgest=SRS21 keys=7 versions=7")));
  EXPECT_EQ(cluster_.admin().DeleteMemgest(id, "SRS21", false), first);  // X6: at once
  EXPECT_OK(client->Put("k", "v", {.memgest = "SRS21"}).status());
  EXPECT_OK(client->Get("k3").status());
}

}  // namespace
}  // namespace ring::node
