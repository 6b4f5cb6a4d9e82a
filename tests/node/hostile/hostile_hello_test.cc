// Hellos that no peer of ours would say, floods of connections, and peers that say nothing at all.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "ring/base/random.h"
#include "tests/node/hostile/hostile_fixture.h"
#include "tests/support/random_seed.h"

namespace ring::node {
namespace {

using protocol::ClientHello;
using protocol::ControlHello;
using protocol::EncodeHello;
using protocol::HelloKind;
using protocol::LogHello;
using protocol::Outcome;
using ::testing::HasSubstr;

class HostileHello : public HostileTest {
 protected:
  // Refused over every link, with a reason that has this in it.
  void ExpectRefused(const std::string& hello, const std::string& reason, std::size_t index = 0) {
    for (const std::string& at :
         {node(index).local_address, node(index).shm_address, node(index).tcp_address}) {
      ASSERT_FALSE(client_.Connect(at, hello)) << at << " reason=" << reason;
      EXPECT_THAT(client_.reason(), HasSubstr(reason)) << at;
    }
  }

  // Says everything as the coordinator of group 0, shard 0 would.
  LogHello Log(NodeId* member) const {
    LogHello hello;
    hello.cluster = view_->cluster;
    hello.node = view_->Coordinator(GroupId(0), ShardId(0)).value();
    hello.incarnation = view_->groups[0].incarnations[0].value();
    hello.epoch = view_->groups[0].epoch.value();
    hello.credit = client_.Hello().replies;
    *member = view_->groups[0].roles.back();
    return hello;
  }
  HostileClient client_{"hello"};
};

TEST_F(HostileHello, NonsenseIsRefusedWithAReason) {
  const std::string good = EncodeHello(client_.Hello());
  ExpectRefused("", "length=0");
  ExpectRefused("x", "length=1");
  ExpectRefused(std::string(256, '\0'), "magic");
  std::string magic = good;
  magic[0] ^= 1;
  ExpectRefused(magic, "magic");
  for (const int version :
       {0, protocol::kProtocolVersion - 1, protocol::kProtocolVersion + 1, 127}) {
    std::string other = good;
    other[4] = static_cast<char>(version);
    ExpectRefused(other, "version");
  }
  for (const int kind : {0, 5, 127}) {
    std::string other = good;
    other[6] = static_cast<char>(kind);
    ExpectRefused(other, "kind");
  }
  for (std::size_t size = sizeof(protocol::HelloPrefix); size < good.size(); size += 7) {
    ExpectRefused(good.substr(0, size), "");
  }
  ExpectRefused(good + "x", "");
  EXPECT_EQ(ClientsAt(0), 1u);  // the healthy one
}

TEST_F(HostileHello, RandomHellosLeaveNothingBehind) {
  SeededRandom random(ring::testing::TestSeed());
  const std::string good = EncodeHello(client_.Hello());
  for (int i = 0; i < 400; ++i) {
    std::string hello(random.Below(257), '\0');
    for (char& c : hello) c = static_cast<char>(random.Next64());
    if (i % 2 == 0) hello.replace(0, std::min<std::size_t>(8, hello.size()), good.substr(0, 8));
    if (i % 4 == 0 && hello.size() > 6) hello[6] = static_cast<char>(1 + random.Below(4));
    client_.Connect(address(), hello);
    EXPECT_NE(client_.reason(), "no answer");
  }
  client_.Vanish();
  EXPECT_TRUE(AwaitClients(0, 1));
}

TEST_F(HostileHello, ClientMemoryThatCannotHoldItsSlotsIsRefused) {
  const auto with = [this](auto spoil) {
    ClientHello hello = client_.Hello();
    spoil(hello);
    return EncodeHello(hello);
  };
  ExpectRefused(with([](ClientHello& h) { h.reply_slot_count = 0; }), "reply_slot_count=0");
  ExpectRefused(with([](ClientHello& h) { h.reply_slot_count = 1025; }), "reply_slot_count=1025");
  ExpectRefused(with([](ClientHello& h) { h.reply_slot_count = ~0u; }), "reply_slot_count");
  ExpectRefused(with([](ClientHello& h) { h.replies.length = 0; }), "length=0");
  ExpectRefused(with([](ClientHello& h) { h.replies.length -= 1; }), "length=");
  ExpectRefused(with([](ClientHello& h) { h.client_high = h.client_low = 0; }), "client id");
  ExpectRefused(with([](ClientHello& h) { h.replies.address = ~std::uint64_t{0} - 100; }),
                "wraps around");
}

TEST_F(HostileHello, LiesAboutReplyMemoryEndTheLiarsConnection) {
  const std::string key = KeyOf(NodeId(0));
  for (int lie = 0; lie < 2; ++lie) {
    ClientHello hello = client_.Hello();
    if (lie == 0) hello.replies.rkey ^= 0x5a5a;
    if (lie == 1) hello.replies.address = 0x1000;
    for (const std::string& at : {node().local_address, node().shm_address, node().tcp_address}) {
      ASSERT_TRUE(client_.Connect(at, EncodeHello(hello)))
          << at << " lie=" << lie << ": " << client_.reason();
      client_.Send(MakeGet(key));
      EXPECT_TRUE(client_.AwaitDisconnect()) << at << " lie=" << lie;
      EXPECT_EQ(client_.StrayBytes({}), 0u);
    }
  }
}

TEST_F(HostileHello, LogConnectionsOfStrangersAreRefused) {  // L8, S10
  NodeId member;
  const LogHello good = Log(&member);
  const std::size_t index = member.value();
  const auto expect = [&](auto spoil, const std::string& reason) {
    LogHello hello = good;
    spoil(hello);
    ExpectRefused(EncodeHello(hello), reason, index);
  };
  expect([](LogHello& h) { h.cluster ^= 1; }, "another cluster");
  expect([](LogHello& h) { h.group = 5; }, "group=5");
  expect([](LogHello& h) { h.group = 65535; }, "group=65535");
  expect([](LogHello& h) { h.shard = 3; }, "shard=3");
  expect([](LogHello& h) { h.epoch += 1; }, "epoch=");
  expect([](LogHello& h) { h.epoch = 0; }, "epoch=");
  expect([](LogHello& h) { h.node += 1; }, "not the coordinator");
  expect([](LogHello& h) { h.node = ~0u; }, "not the coordinator");
  expect([](LogHello& h) { h.incarnation += 2; }, "not the coordinator");
  expect([](LogHello&) {}, "already");  // replayed: there is one log connection an epoch
  expect([](LogHello& h) { h.credit.length = 7; }, "");
  ExpectRefused(EncodeHello(good).substr(0, sizeof(LogHello) - 1), "", index);
}

TEST_F(HostileHello, ControlConnectionsOfStrangersAreRefused) {  // L8
  ControlHello good;
  good.cluster = view_->cluster;
  good.node = 0;
  good.incarnation = view_->nodes[0].incarnation.value();
  good.fence = EmbeddedConfig().control.FenceTerms();
  const auto expect = [&](auto spoil, const std::string& reason) {
    ControlHello hello = good;
    spoil(hello);
    ExpectRefused(EncodeHello(hello), reason, 1);
  };
  expect([](ControlHello& h) { h.cluster ^= 1; }, "another cluster");
  expect([](ControlHello& h) { ++h.fence; }, "lease_ms");
  expect([](ControlHello& h) { h.node = 1; }, "node=1");
  expect([](ControlHello& h) { h.node = 5; }, "node=5");
  expect([](ControlHello& h) { h.node = 60000; }, "node=60000");
  expect([](ControlHello& h) { h.node = ~0u; }, "node=");
  expect([](ControlHello& h) { h.incarnation += 2; }, "incarnation=");
  expect([](ControlHello& h) { h.incarnation = 0; }, "incarnation=");
}

TEST_F(HostileHello, PeersOfAnotherReleaseAreRefusedByTheirVersion) {
  NodeId member;
  const std::string log = EncodeHello(Log(&member));
  for (std::string hello : {log, EncodeHello(ControlHello{}), EncodeHello(protocol::WordHello{}),
                            EncodeHello(client_.Hello())}) {
    hello[4] = static_cast<char>(protocol::kProtocolVersion + 1);
    ExpectRefused(hello,
                  absl::StrCat("version=", protocol::kProtocolVersion + 1, ", this side speaks ",
                               protocol::kProtocolVersion, ": use the same release on both sides"),
                  member.value());
  }
}

class HostileFlood : public HostileHello {
 protected:
  void Configure(NodeConfig* config) override { config->client_max = 32; }
};

TEST_F(HostileFlood, ClientsBeyondTheLimitAreRefusedByName) {
  std::vector<std::unique_ptr<HostileClient>> crowd;
  for (int i = 0; i < 31; ++i) {  // and the healthy one
    crowd.push_back(std::make_unique<HostileClient>("crowd"));
    ASSERT_TRUE(crowd.back()->Connect(i % 2 == 0 ? node().local_address : node().tcp_address))
        << crowd.back()->reason();
  }
  ExpectRefused(EncodeHello(client_.Hello()), "client_max=32");
  ExpectHealthy();
  crowd.erase(crowd.begin());
  ASSERT_TRUE(AwaitClients(0, 31));
  ASSERT_TRUE(client_.Connect(address())) << client_.reason();
  EXPECT_EQ(client_.Ask(MakeGet(KeyOf(NodeId(0)))), Outcome::kNotFound);
  client_.Vanish();
  crowd.clear();
  EXPECT_TRUE(AwaitClients(0, 1));
}

int Dial(const std::string& address) {
  std::uint32_t port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof(at)) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

std::size_t ResidentKiB() {
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  unsigned long size = 0;
  unsigned long resident = 0;
  const int got = std::fscanf(file, "%lu %lu", &size, &resident);
  std::fclose(file);
  return got == 2 ? resident * 4 : 0;
}

// Both ends are in this process: as many at a time as half of its descriptors allow.
TEST_F(HostileHello, TenThousandSilentConnectionsLeaveRoomForAHealthyClient) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const std::size_t at_once =
      std::min<std::size_t>(2000, static_cast<std::size_t>(limit.rlim_cur) / 4);
  const std::size_t before_kib = ResidentKiB();
  std::size_t made = 0;
  std::size_t told = 0;
  std::size_t kept = 0;  // at most: a node lets 128 of those that are silent wait
  while (made < 10000) {
    kept += 128;
    std::vector<int> sockets;
    for (std::size_t i = 0; i < at_once && made < 10000; ++i, ++made) {
      const int fd = Dial(node().tcp_address);
      ASSERT_GE(fd, 0) << "made=" << made;
      sockets.push_back(fd);
      if (made % 500 == 0) {
        ASSERT_OK(healthy_->Put("during", "the flood").status());
      }
    }
    for (const int fd : sockets) {
      char answer[512];
      const ssize_t size = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
      const auto length = static_cast<std::size_t>(std::max<ssize_t>(size, 0));
      told += absl::StrContains(absl::string_view(answer, length), "refused") ? 1 : 0;
    }
    for (const int fd : sockets) close(fd);
  }
  EXPECT_GE(told, (made - std::min(made, kept)) / 2) << "of " << made;
  const std::size_t after_kib = ResidentKiB();
  EXPECT_LT(after_kib, before_kib + std::size_t{64} * 1024);
  bool let_in = false;
  for (int i = 0; i < 200 && !let_in; ++i) let_in = client_.Connect(node().tcp_address);
  ASSERT_TRUE(let_in) << client_.reason();
  EXPECT_EQ(client_.Ask(MakeGet(KeyOf(NodeId(0)))), Outcome::kNotFound);
  std::printf("connections=%zu refused_with_reason=%zu resident_growth_kib=%zd\n", made, told,
              static_cast<ssize_t>(after_kib) - static_cast<ssize_t>(before_kib));
}

TEST_F(HostileHello, HalfAHelloAndHalfAConnectionDelayNobody) {
  std::vector<int> sockets;
  for (int i = 0; i < 100; ++i) {
    const int fd = Dial(node(static_cast<std::size_t>(i) % 5).tcp_address);
    ASSERT_GE(fd, 0);
    const std::string half(static_cast<std::size_t>(i) % 64, 'R');
    ASSERT_EQ(send(fd, half.data(), half.size(), MSG_NOSIGNAL), static_cast<ssize_t>(half.size()));
    if (i % 3 == 0) shutdown(fd, SHUT_WR);
    if (i % 3 == 1) shutdown(fd, SHUT_RD);
    sockets.push_back(fd);
  }
  ExpectHealthy();
  ASSERT_TRUE(client_.Connect(node().tcp_address)) << client_.reason();
  EXPECT_EQ(client_.Ask(MakeGet(KeyOf(NodeId(0)))), Outcome::kNotFound);
  for (const int fd : sockets) close(fd);
}

}  // namespace
}  // namespace ring::node
