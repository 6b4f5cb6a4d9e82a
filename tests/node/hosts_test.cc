// Six hosts that know each other by their configuration alone: the catalogue of all of them (G11),
// admin requests that come again (X6), and starts (L8).
#include "ring/node/host.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "api/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"
#include "tools/common/free_ports.h"

namespace ring::node {
namespace {

using ::ring::testing::Await;
using ::ring::testing::kPatience;
using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

// Six hosts with a node each, as six processes would be: they know each other by their
// configuration alone.
class HostsTest : public ::testing::TestWithParam<Transport> {
 protected:
  void SetUp() override {
    config_ = EmbeddedConfig();
    config_.transport = GetParam();
    Configure(&config_);
    ASSERT_OK_AND_ASSIGN(std::vector<int> ports,
                         tools::FreePorts(static_cast<int>(config_.nodes.size())));
    for (NodeEntry& node : config_.nodes) {
      node.data = absl::StrCat("127.0.0.1:", ports.back());
      ports.pop_back();
    }
    hosts_.resize(config_.nodes.size());
    for (std::uint32_t i = 0; i < hosts_.size(); ++i) ASSERT_OK(StartHost(i));
    for (const std::unique_ptr<Host>& host : hosts_) ASSERT_OK(host->WaitReady(kPatience));
    ClientOptions client;
    client.seeds = {hosts_[0]->seeds()};
    client.transport =
        GetParam() == Transport::kTcp ? ring::Transport::kTcp : ring::Transport::kAuto;
    ASSERT_OK_AND_ASSIGN(client_, Client::Connect(client));
  }
  // Nobody is lost, however busy the machine is.
  virtual void Configure(NodeConfig* config) { config->control.detect_ms = kDetectMsMax; }
  absl::Status StartHost(std::uint32_t i) {
    HostOptions options;
    options.config = config_;
    options.hosted = {NodeId(i)};
    options.found_without = kPatience;  // a node that is there has answered by then
    RING_ASSIGN_OR_RETURN(hosts_[i], Host::Start(options));
    return absl::OkStatus();
  }
  AdminRequestId NextId() { return {"test", ++seq_}; }
  // Asks again under the same id (X6) while there is no leader: a busy machine elects another one.
  template <class Change>
  static auto Ask(const Change& change) {
    auto asked = change();
    Await("a leader", absl::Milliseconds(5), [&] {
      if (!absl::IsUnavailable(::ring::testing::StatusOf(asked))) return true;
      asked = change();
      return false;
    });
    return asked;
  }

  NodeConfig config_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::unique_ptr<Client> client_;
  std::uint64_t seq_ = 0;
};

// Somebody is lost, which is to be noticed soon; the others rarely seem to be.
class LossHostsTest : public HostsTest {
 protected:
  void Configure(NodeConfig* config) override { config->control.detect_ms = 2'000; }
};

// Who is lost keeps its roles.
class StaticHostsTest : public LossHostsTest {
 protected:
  void Configure(NodeConfig* config) override {
    LossHostsTest::Configure(config);
    config->control.fail_over = false;
  }
};

// One node's links are tcp, whatever the others' are.
class OwnTransportTest : public HostsTest {
 protected:
  void Configure(NodeConfig* config) override {
    HostsTest::Configure(config);
    config->nodes[2].transport = Transport::kTcp;
  }
};

std::string NameOf(const ::testing::TestParamInfo<Transport>& transport) {
  return transport.param == Transport::kTcp ? "Tcp" : "Auto";
}
const auto kTransports = ::testing::Values(Transport::kAuto, Transport::kTcp);
INSTANTIATE_TEST_SUITE_P(Transports, HostsTest, kTransports, NameOf);
INSTANTIATE_TEST_SUITE_P(Transports, LossHostsTest, kTransports, NameOf);
INSTANTIATE_TEST_SUITE_P(Transports, StaticHostsTest, kTransports, NameOf);
INSTANTIATE_TEST_SUITE_P(Transports, OwnTransportTest, ::testing::Values(Transport::kAuto), NameOf);

protocol::MemgestDescriptor Stretched(const std::string& name) {
  protocol::MemgestDescriptor memgest;
  memgest.name = name;
  memgest.scheme = protocol::Scheme::kStretchedReedSolomon;
  memgest.k = 3;
  memgest.m = 2;
  memgest.block_size = 65536;
  return memgest;
}

TEST_P(OwnTransportTest, IsThatOfItsLinksAndOfNoOthers) {
  ASSERT_OK(client_->Put("key", std::string(20'000, 'x'), {.memgest = "SRS32"}).status());
  ASSERT_OK_AND_ASSIGN(const ClusterStats stats, hosts_[0]->admin().GetStats());
  ASSERT_EQ(stats.nodes.size(), 6u);
  for (std::size_t from = 0; from < 6; ++from) {
    for (std::size_t to = 0; to < 6; ++to) {
      const bool own = from == 2 || to == 2;
      EXPECT_EQ(stats.nodes[from].transports[to], from == to ? ""
                                                  : own      ? "tcp"
                                                             : "shm")
          << from << " to " << to;
    }
  }
  EXPECT_EQ((*hosts_[0]->admin().GetView())->nodes[2].shm_address, "") << "nobody may come there";
}

TEST_P(HostsTest, G11AnyNodeChangesTheCatalogueOfAll) {
  ASSERT_OK(hosts_[3]->admin().CreateMemgest(NextId(), Stretched("new")).status());
  for (const std::unique_ptr<Host>& host : hosts_) {
    const auto view = *host->admin().GetView();
    ASSERT_NE(view->FindMemgest("new"), nullptr);
    EXPECT_EQ(view->FindMemgest("new")->state, protocol::MemgestState::kActive);
  }
  for (int i = 0; i < 50; ++i) {
    ASSERT_OK(
        client_->Put(absl::StrCat("k", i), std::string(20'000, 'x'), {.memgest = "new"}).status());
  }
  ASSERT_OK_AND_ASSIGN(const ClusterStats stats, hosts_[5]->admin().GetStats());
  ASSERT_EQ(stats.nodes.size(), 6u);
  EXPECT_EQ(stats.nodes[0].transports[1], GetParam() == Transport::kTcp ? "tcp" : "shm");
  ASSERT_OK_AND_ASSIGN(const ScrubReport report,
                       hosts_[2]->admin().Scrub([](const ScrubProgress&) { return true; }));
  EXPECT_EQ(report.mismatches, 0u) << ::testing::PrintToString(report.details);
  EXPECT_EQ(report.values_checked, 50u);
  EXPECT_GT(report.rows_checked, 0u);
  ASSERT_OK(hosts_[4]->admin().DeleteMemgest(NextId(), "new", true));
  EXPECT_EQ(client_->Get("k1").status().code(), absl::StatusCode::kNotFound);
  ASSERT_OK(hosts_[3]->admin().SetDefaultMemgest(NextId(), "REP2"));
  for (const std::unique_ptr<Host>& host : hosts_) {
    const auto view = *host->admin().GetView();
    EXPECT_EQ(view->default_memgest, view->FindMemgest("REP2")->id);
  }
}

constexpr absl::Duration kPause = absl::Milliseconds(5);
void AwaitDown(Host& host, std::size_t node) {
  Await("a node's loss", kPause, [&] {
    return (*host.admin().GetView())->nodes[node].status == cluster::NodeStatus::kDown;
  });
}

TEST_P(StaticHostsTest, G11AChangeGoesOnWithoutANodeThatIsDown) {
  hosts_[4]->Stop();
  AwaitDown(*hosts_[1], 4);
  const AdminRequestId id = NextId();
  ASSERT_OK(Ask([&] { return hosts_[1]->admin().CreateMemgest(id, Stretched("new")); }).status());
  EXPECT_EQ((*hosts_[0]->admin().GetView())->FindMemgest("new")->state,
            protocol::MemgestState::kActive);
  // G10: what its shards hold cannot be counted.
  EXPECT_THAT(hosts_[1]->admin().DeleteMemgest(NextId(), "SRS21", false),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no coordinator that lives")));
  EXPECT_NE((*hosts_[1]->admin().GetView())->FindMemgest("SRS21"), nullptr);
  EXPECT_THAT(hosts_[1]->admin().GetStats().status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("node 4")));
}

TEST_P(LossHostsTest, X6AnotherNodeLeadsWhenTheLeaderIsLostAndKnowsWhatWasAsked) {
  const AdminRequestId id = NextId();
  ASSERT_OK(Ask([&] { return hosts_[2]->admin().SetDefaultMemgest(id, "SRS32"); }));
  const AdminRequestId created = NextId();
  const auto create = [&](std::size_t at) {
    return Ask([&] { return hosts_[at]->admin().CreateMemgest(created, Stretched("new")); });
  };
  ASSERT_OK(create(2).status());
  hosts_[0]->Stop();
  const AdminRequestId next = NextId();
  Await("a leader", kPause,
        [&] { return hosts_[1]->admin().SetDefaultMemgest(next, "REP2").ok(); });
  // Asked again, the first change is not done again, nor is another one under its id.
  EXPECT_OK(Ask([&] { return hosts_[3]->admin().SetDefaultMemgest(id, "SRS32"); }));
  const auto view = *hosts_[3]->admin().GetView();
  EXPECT_EQ(view->FindMemgest("REP2")->id, view->default_memgest);
  EXPECT_THAT(Ask([&] { return hosts_[3]->admin().SetDefaultMemgest(id, "SRS31"); }),
              StatusIs(absl::StatusCode::kInvalidArgument));
  ASSERT_OK_AND_ASSIGN(const protocol::MemgestDescriptor again, create(3));
  EXPECT_EQ(again.id, view->FindMemgest("new")->id);
  AwaitDown(*hosts_[5], 0);
}

TEST_P(StaticHostsTest, L8ARestartedNodeIsAnotherStartAndAnotherServer) {
  const Incarnation before = (*hosts_[0]->admin().GetView())->nodes[2].incarnation;
  for (const NodeId node : {NodeId(2), NodeId(5)}) {  // a voter, and a spare
    const std::size_t at = node.value();
    hosts_[at].reset();
    const Incarnation known = (*hosts_[0]->admin().GetView())->nodes[at].incarnation;
    ASSERT_OK(StartHost(node.value()));
    Await("its next start", kPause, [&] {
      const auto view = *hosts_[0]->admin().GetView();
      return view->nodes[at].incarnation != known &&
             view->nodes[at].status == cluster::NodeStatus::kUp;
    });
    // It knows what was agreed upon before.
    const std::uint32_t epoch = (*hosts_[0]->admin().GetView())->epoch;
    Await("the view", kPause, [&] { return (*hosts_[at]->admin().GetView())->epoch >= epoch; });
    // It reaches everybody, also a node whose former start it met in the views that it caught up.
    Await("every node's statistics", kPause, [&] { return hosts_[at]->admin().GetStats().ok(); });
  }
  const auto view = *hosts_[0]->admin().GetView();
  EXPECT_NE(view->nodes[2].incarnation, before);
  // The roles are the dead start's (L8).
  EXPECT_EQ(view->groups[2].roles[0], NodeId(2));
  EXPECT_EQ(view->groups[2].incarnations[0], before);
  // The voter votes again: with it, one more of five may be lost, and then another.
  hosts_[0].reset();
  hosts_[1].reset();
  const AdminRequestId id = NextId();
  Await("a leader", kPause, [&] { return hosts_[3]->admin().SetDefaultMemgest(id, "REP2").ok(); });
}

// Its file gives it an address that is another node's by now.
TEST_P(HostsTest, L8ARestartedNodeThatMayNotRegisterKeepsNobodyFromItsRoles) {
  const std::string admin = absl::StrCat(config_.nodes[5].data, "0");
  hosts_[5].reset();
  config_.nodes[5].admin = admin;
  ASSERT_OK(StartHost(5));
  Await("its address", kPause,
        [&] { return (*hosts_[0]->admin().GetView())->nodes[5].admin_address == admin; });
  ASSERT_EQ((*hosts_[0]->admin().GetView())->groups[2].roles[0], NodeId(2));
  hosts_[2].reset();
  config_.nodes[5].admin.clear();
  config_.nodes[2].admin = admin;
  ASSERT_OK(StartHost(2));
  Await("another holder of its role", kPause,
        [&] { return (*hosts_[0]->admin().GetView())->groups[2].roles[0] != NodeId(2); });
  EXPECT_EQ((*hosts_[0]->admin().GetView())->nodes[2].status, cluster::NodeStatus::kDown);
  for (int i = 0; i < 50; ++i)
    ASSERT_OK(client_->Put(absl::StrCat("k", i), "value", {.memgest = "REP3"}).status());
}

// Their servers would have the numbers of the former ones, and their entries those of others.
TEST_P(HostsTest, R10_6VotersThatForgotEverythingFoundNothingBesideWhoRemembers) {
  ASSERT_OK(client_->Put("key", "value", {.memgest = "REP3"}).status());
  const std::uint64_t before = (*hosts_[5]->admin().GetView())->founding;
  EXPECT_NE(before, 0u);
  for (std::uint32_t i = 0; i < 5; ++i) hosts_[i].reset();
  for (std::uint32_t i = 0; i < 5; ++i) ASSERT_OK(StartHost(i));
  Await("what is waited for", kPause, [&] {
    const absl::Status waits = hosts_[0]->WaitReady(absl::Milliseconds(100));
    EXPECT_FALSE(waits.ok());
    return absl::StrContains(waits.message(), "no voter remembers");
  });
  EXPECT_EQ((*hosts_[0]->admin().GetView())->founding, 0u);
  hosts_[5].reset();
  ASSERT_OK(StartHost(5));
  for (const std::unique_ptr<Host>& host : hosts_) ASSERT_OK(host->WaitReady(kPatience));
  const std::uint64_t after = (*hosts_[0]->admin().GetView())->founding;
  EXPECT_GT(after, before) << "whoever meets both goes to the later one";
  // The client knew the former one: nothing of it is here.
  EXPECT_THAT(client_->Get("key", {.deadline = kPatience}).status(),
              StatusIs(absl::StatusCode::kNotFound));
  ASSERT_OK(client_->Put("key", "again", {.memgest = "REP3", .deadline = kPatience}).status());
}

// Hosts whose names are looked up; those of others not before they are told that these are known.
class NamesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    config_ = EmbeddedConfig();
    config_.transport = Transport::kTcp;
    config_.control.detect_ms = kDetectMsMax;
    ASSERT_OK_AND_ASSIGN(ports_, tools::FreePorts(static_cast<int>(config_.nodes.size())));
    for (std::size_t i = 0; i < ports_.size(); ++i)
      config_.nodes[i].data = absl::StrCat("host", i, ".test:", ports_[i]);
  }
  absl::StatusOr<std::unique_ptr<Host>> Start(std::uint32_t id, bool knows_itself) {
    HostOptions options;
    options.config = config_;
    options.hosted = {NodeId(id)};
    options.resolve_period = absl::Milliseconds(20);
    const std::string own = knows_itself ? config_.nodes[id].data : "";
    options.resolve = [this, own](absl::string_view text) -> absl::StatusOr<std::string> {
      if (text != own && !known_.load())
        return absl::NotFoundError(absl::StrCat(text, ": nobody knows it"));
      return absl::StrCat("127.0.0.1", text.substr(text.rfind(':')));
    };
    return Host::Start(options);
  }

  NodeConfig config_;
  std::vector<int> ports_;
  std::atomic<bool> known_{false};
};

// A cluster that starts as a whole, before its names are everywhere.
TEST_F(NamesTest, ANodeIsReachedOnceItsNameIsKnown) {
  std::vector<std::unique_ptr<Host>> hosts;
  for (std::uint32_t i = 0; i < config_.nodes.size(); ++i) {
    ASSERT_OK_AND_ASSIGN(std::unique_ptr<Host> host, Start(i, true));
    hosts.push_back(std::move(host));
  }
  EXPECT_THAT(hosts[0]->WaitReady(absl::Milliseconds(300)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("host1.test:")));
  known_.store(true);
  for (const std::unique_ptr<Host>& host : hosts) ASSERT_OK(host->WaitReady(kPatience));
  for (const cluster::NodeInfo& node : (*hosts[0]->admin().GetView())->nodes)
    EXPECT_EQ(node.tcp_address, absl::StrCat("tcp:127.0.0.1:", ports_[node.id.value()]));
}

TEST_F(NamesTest, ANodeWhoseOwnNameNobodyKnowsDoesNotStart) {
  EXPECT_THAT(Start(2, false).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("node n2: data=host2.test:")));
}

}  // namespace
}  // namespace ring::node
