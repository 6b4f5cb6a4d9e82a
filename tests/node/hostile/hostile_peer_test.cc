// Clients that go away in the middle, never read, never answer, or never stop ringing: what they
// held comes back, and nobody else waits for them.
#include <cstring>

#include "ring/base/crc32c.h"
#include "tests/node/hostile/hostile_fixture.h"
#include "tests/support/await.h"

namespace ring::node {
namespace {

using protocol::Outcome;

class HostilePeer : public HostileTest {
 protected:
  static constexpr std::uint32_t kLarge = 4u << 20;

  HostileFrame LargePut(HostileClient& client, const std::string& key, const char* memgest,
                        std::uint64_t seq) {
    HostileFrame put = MakePut(key, "", Memgest(memgest), seq);
    put.header.word.flags = protocol::kLargeValue;
    put.header.value_length = kLarge;
    std::memset(client.large(), 'L', kLarge);
    put.header.value_crc = Crc32c(client.large(), kLarge);
    put.extension = client.LargeBuffer(0, kLarge);
    return put;
  }
  HostileFrame LargeGet(HostileClient& client, const std::string& key) {
    HostileFrame get = MakeGet(key);
    get.header.word.flags = protocol::kLargeValue;
    get.extension = client.LargeBuffer(0, kLarge);
    return get;
  }

  // Nothing of a key's versions stays once it is deleted: no slot, no pin, no version.
  void ExpectGivenBack(const std::vector<std::string>& keys) {
    for (const std::string& key : keys) {
      const absl::Status status = healthy_->Delete(key).status();
      EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kNotFound) << status;
    }
    const std::uint64_t expected = view_->memgests.size() * kKeysPerMemgest;
    std::uint64_t versions = 0;
    const auto given_back = [&] {
      const absl::StatusOr<ClusterStats> stats = host_->admin().GetStats();
      if (!stats.ok()) return false;
      versions = 0;
      for (const MemgestStats& memgest : stats->memgests) versions += memgest.versions;
      return versions == expected;
    };
    EXPECT_TRUE(testing::HoldsWithin(testing::kPatience, given_back, absl::Milliseconds(5)))
        << "versions=" << versions << " expected=" << expected;
  }
};

TEST_F(HostilePeer, VanishingInTheMiddleOfALargePutLeavesNothing) {
  std::vector<std::string> keys;
  for (const std::string& at : {node().tcp_address, node().local_address, node().shm_address}) {
    for (const char* memgest : {"REP3", "SRS32"}) {
      for (int i = 0; i < 4; ++i) {
        HostileClient client("vanishing");
        ASSERT_TRUE(client.Connect(at)) << client.reason();
        keys.push_back(KeyOf(NodeId(0), static_cast<int>(keys.size())));
        client.Send(LargePut(client, keys.back(), memgest, 1));
        for (int turn = 0; turn < i * 40; ++turn) client.Progress();
        client.Vanish();
        const absl::StatusOr<GetResult> got = healthy_->Get(keys.back());
        if (got.ok()) {  // all of it was read in time
          EXPECT_EQ(got->value, std::string(kLarge, 'L'));
        }
      }
    }
  }
  ASSERT_TRUE(AwaitClients(0, 1));
  ExpectGivenBack(keys);
}

TEST_F(HostilePeer, VanishingInTheMiddleOfALargeGetGivesThePinsBack) {
  std::vector<std::string> keys;
  for (const char* memgest : {"REP3", "SRS32"}) {
    const std::string key = KeyOf(NodeId(0), static_cast<int>(keys.size()));
    keys.push_back(key);
    ASSERT_OK(healthy_->Put(key, std::string(kLarge, 'v'), {.memgest = memgest}).status());
    for (const std::string& at : {node().tcp_address, node().local_address, node().shm_address}) {
      HostileClient client("vanishing");
      ASSERT_TRUE(client.Connect(at)) << client.reason();
      for (std::uint16_t slot = 0; slot < 10; ++slot) {
        HostileFrame get = LargeGet(client, key);
        get.header.reply_slot = slot;
        client.Send(get);
      }
      for (int turn = 0; turn < 3; ++turn) client.Progress();
      client.Vanish();
    }
  }
  ASSERT_TRUE(AwaitClients(0, 1));
  ExpectGivenBack(keys);
}

// 64 KiB of requests for 4 MiB each, and not one byte of an answer is read: the node holds
// references, not copies.
TEST_F(HostilePeer, ClientThatNeverReadsIsEndedAndHoldsUpNobody) {
  const std::string key = KeyOf(NodeId(0));
  ASSERT_OK(healthy_->Put(key, std::string(kLarge, 'v'), {.memgest = "REP3"}).status());
  HostileClient client("deaf");
  ASSERT_TRUE(client.Connect(node().tcp_address)) << client.reason();
  for (int i = 0; i < 300; ++i) {
    HostileFrame get = LargeGet(client, key);
    get.header.reply_slot = static_cast<std::uint16_t>(i % HostileClient::kSlotCount);
    client.Send(get);
  }
  ExpectHealthy();
  EXPECT_TRUE(AwaitClients(0, 1));  // it is ended: the pins come back
  ExpectGivenBack({key, "after/REP1", "after/REP2", "after/REP3", "after/REP4", "after/SRS21",
                   "after/SRS31", "after/SRS32"});
}

// V6: a node ends with values in the device's hands and READs under way; what it gives back, and to
// whom, must still be there.
TEST_F(HostilePeer, V6ANodeThatStopsInTheMiddleGivesEveryPinBackFirst) {
  const std::string key = KeyOf(NodeId(0));
  ASSERT_OK(healthy_->Put(key, std::string(kLarge, 'v'), {.memgest = "REP3"}).status());
  HostileClient deaf("deaf");
  HostileClient stingy("stingy");
  ASSERT_TRUE(deaf.Connect(node().tcp_address)) << deaf.reason();
  ASSERT_TRUE(stingy.Connect(node().tcp_address)) << stingy.reason();
  const auto served = [this] {
    const absl::StatusOr<ClusterStats> stats = host_->admin().GetStats();
    return stats.ok() ? stats->nodes[0].gets : 0;
  };
  const std::uint64_t before = served();
  for (std::uint16_t slot = 0; slot < 20; ++slot) {
    HostileFrame get = LargeGet(deaf, key);
    get.header.reply_slot = slot;
    deaf.Send(get);
  }
  stingy.Send(LargePut(stingy, KeyOf(NodeId(0), 1), "SRS32", 1));
  deaf.device().Progress();  // the requests leave; what comes back is not looked at
  stingy.device().Progress();
  ::ring::testing::Await("20 gets", [&] { return served() >= before + 20; });
  healthy_.reset();
  host_->Stop();
}

// Answers to them would fill the completion queue that all clients share.
TEST_F(HostilePeer, ClientsThatNeverReadLeavePlacesToTheOthers) {
  const std::string key = KeyOf(NodeId(0));
  const std::string value(8000, 'v');
  ASSERT_OK(healthy_->Put(key, value, {.memgest = "REP3"}).status());
  const std::string large = KeyOf(NodeId(0), 1);
  ASSERT_OK(healthy_->Put(large, std::string(kLarge, 'v'), {.memgest = "REP3"}).status());
  std::vector<std::unique_ptr<HostileClient>> deaf;
  for (int c = 0; c < 12; ++c) {
    deaf.push_back(std::make_unique<HostileClient>(absl::StrCat("deaf", c)));
    ASSERT_TRUE(deaf.back()->Connect(node().tcp_address)) << deaf.back()->reason();
    for (int i = 0; i < 8; ++i) deaf.back()->Send(LargeGet(*deaf.back(), large));
    HostileFrame get = MakeGet(key);
    for (int i = 0; i < 450; ++i) {
      get.header.reply_slot = static_cast<std::uint16_t>(i % HostileClient::kSlotCount);
      deaf.back()->Send(get);
    }
    deaf.back()->device().Progress();  // the requests leave; what comes back is not looked at
  }
  ClientOptions options;
  options.seeds = {host_->seeds()};
  options.transport = ring::Transport::kTcp;
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Client> other, Client::Connect(options));
  for (int i = 0; i < 100; ++i) {
    ASSERT_OK_AND_ASSIGN(const GetResult got, other->Get(key));
    ASSERT_EQ(got.value, value);
    ASSERT_OK(other->Put(absl::StrCat("other", i), value).status());
  }
  EXPECT_GE(ClientsAt(0), 2u);  // a slow machine may have ended some that stood in the way
  other.reset();
  // What fits their sockets holds nothing of the node: such a client may stay as long as it likes.
  for (const std::unique_ptr<HostileClient>& client : deaf) client->Vanish();
  EXPECT_TRUE(AwaitClients(0, 1));
}

// Offers values and does not answer the READs: all large writes of the shard would be its.
TEST_F(HostilePeer, ClientThatOffersValuesAndDoesNotGiveThemIsEnded) {
  const cluster::Place shard = ShardOfNode0();
  HostileClient client("stingy");
  ASSERT_TRUE(client.Connect(node().tcp_address)) << client.reason();
  const std::string at = KeyOf(NodeId(0), 0, 0, &shard);
  HostileFrame put = LargePut(client, at, "REP3", 1);
  for (std::uint16_t i = 0; i < 120; ++i) {  // and every second one twice
    put.header.seq = i + 1u;
    put.header.incomplete_delta = i;
    put.header.reply_slot = i % HostileClient::kSlotCount;
    for (int copy = 0; copy <= i % 2; ++copy) client.Send(put);
  }
  client.device().Progress();  // the requests leave; what comes back is not looked at
  ExpectHealthy();
  EXPECT_EQ(ClientsAt(0), 2u);  // nobody waited for its end
  EXPECT_TRUE(AwaitClients(0, 1));
  const std::string key = KeyOf(NodeId(0), 100, 0, &shard);
  ASSERT_OK(healthy_->Put(key, std::string(kLarge, 'h'), {.memgest = "REP3"}).status());
  ASSERT_OK_AND_ASSIGN(const GetResult got, healthy_->Get(key));
  EXPECT_EQ(got.value, std::string(kLarge, 'h'));
}

TEST_F(HostilePeer, DoorbellsWithoutEndAreOnlyNoise) {
  for (const std::string& at : {node().tcp_address, node().local_address, node().shm_address}) {
    HostileClient client("ringer");
    ASSERT_TRUE(client.Connect(at)) << client.reason();
    for (int i = 0; i < 3000 && !client.disconnected(); ++i) {
      client.RingDoorbell();
      client.Progress();
      if (i % 500 == 0) {
        ASSERT_OK(healthy_->Put("bells", "heard").status());
      }
    }
    ASSERT_TRUE(client.Connect(at));
    client.RingDoorbell(64);  // no bell has bytes
    EXPECT_TRUE(client.AwaitDisconnect());
    client.Vanish();
  }
  EXPECT_TRUE(AwaitClients(0, 1));
}

// Every bell of every client at once, more than a queue of any fixed depth.
TEST_F(HostilePeer, AllBellsOfAllClientsAtOnce) {
  HostileClient one("many");
  std::vector<std::unique_ptr<rdma::QueuePair>> crowd;
  for (std::uint64_t i = 0; i < 700; ++i) {
    protocol::ClientHello hello = one.Hello();
    hello.client_low += 1000000 + i;
    absl::StatusOr<std::unique_ptr<rdma::QueuePair>> qp =
        one.device().Connect(address(), one.qp_options(), protocol::EncodeHello(hello));
    ASSERT_OK(qp.status());
    crowd.push_back(*std::move(qp));
  }
  ASSERT_TRUE(one.WaitFor([&] {
    return std::all_of(crowd.begin(), crowd.end(),
                       [](const auto& qp) { return qp->state() == rdma::QpState::kReadyToSend; });
  }));
  for (int round = 0; round < 20; ++round) {
    for (const std::unique_ptr<rdma::QueuePair>& qp : crowd) {
      for (int bell = 0; bell < 8; ++bell) {
        rdma::WorkRequest request;
        request.opcode = rdma::Opcode::kSend;
        qp->PostSend(request).IgnoreError();
      }
    }
    one.Progress();
  }
  ExpectHealthy();
  crowd.clear();
  EXPECT_TRUE(AwaitClients(0, 1));
}

TEST_F(HostilePeer, ConnectionsThatComeAndGoLeaveNothing) {
  const std::string key = KeyOf(NodeId(0));
  ASSERT_OK(healthy_->Put(key, std::string(5000, 'v'), {.memgest = "REP2"}).status());
  HostileClient client("restless");
  for (int i = 0; i < 600; ++i) {
    ASSERT_TRUE(client.Connect(i % 2 == 0 ? node().local_address : node().tcp_address));
    client.Send(MakeGet(key));
    if (i % 5 == 0) client.WriteRing(client.cell() * protocol::kCell, std::string(8, '\xff'));
    client.Vanish();
  }
  EXPECT_TRUE(AwaitClients(0, 1));
  ExpectGivenBack({key});
}

}  // namespace
}  // namespace ring::node
