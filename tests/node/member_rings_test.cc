// The members' door alone, with a peer that coordinates every shard.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "memgest/log_writer.h"
#include "rdma/soft/soft_device.h"
#include "ring/base/boot_clock.h"
#include "ring/node/member_port.h"
#include "tests/cluster/view_builders.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ::ring::testing::Await;
using ::ring::testing::StatusIs;

constexpr std::uint64_t kRingSize = memgest::kRingSizeMin;
constexpr std::size_t kStagingSize = 64 * 1024;
constexpr int kBells = 4;  // that a coordinator may ring before the member looks

// What happens in the middle of the next copy by either device.
std::function<void()> in_mid_copy;

std::unique_ptr<rdma::Device> OpenDevice(const char* name) {
  rdma::SoftDeviceOptions options;
  options.copy_hook.function = [](void*) {
    if (in_mid_copy) std::exchange(in_mid_copy, nullptr)();
  };
  options.name = name;
  options.arena_size_max = std::uint64_t{4} << 30;
  return *rdma::OpenSoftDevice(options);
}

class MemberRingsTest : public ::testing::Test {
 protected:
  // One of the members' queue pairs seen from its coordinator.
  struct Link {
    std::unique_ptr<rdma::QueuePair> qp;
    protocol::LogAccept accept;
    bool established = false;
  };

  // Node 0 of a cluster of this shape, with all its rings.
  void Start(int s, int d) {
    StartPort(s, d, /*static_membership=*/true);
    links_.resize(port_->held_shards().size());
    ConnectAll();
  }
  void StartPort(int s, int d, bool static_membership) {
    protocol::MemgestDescriptor memgest;
    memgest.name = "REP2";
    memgest.r = 2;
    StartPort(s, d, static_membership, memgest);
  }
  void StartPort(int s, int d, bool static_membership, const protocol::MemgestDescriptor& memgest) {
    std::vector<cluster::NodeInfo> infos;
    for (int i = 0; i < s + d; ++i) {
      cluster::NodeInfo info;
      info.id = NodeId(static_cast<std::uint32_t>(i));
      info.name = absl::StrCat("n", i);
      infos.push_back(std::move(info));
    }
    view_ = cluster::InitialView(s, d, std::move(infos), {memgest});
    MemberPort::Options options;
    options.device = node_.get();
    options.node = NodeId(0);
    options.ring_size = kRingSize;
    options.membership_max = static_cast<std::size_t>(s * (s + d - 1));
    options.clock = &clock_;
    options.static_membership = static_membership;
    ASSERT_OK_AND_ASSIGN(port_, MemberPort::Create(options));
    port_->ApplyView(view_);
    peer_cq_ = *peer_->CreateCompletionQueue(16384);
    credits_ = *peer_->Allocate(kCreditsSize, rdma::MemoryKind::kShared);
    credits_region_ = *peer_->Register(credits_, kCreditsSize, rdma::kRemoteWrite);
    staging_ = *peer_->Allocate(kStagingSize, rdma::MemoryKind::kShared);
    staging_region_ = *peer_->Register(staging_, kStagingSize, rdma::kLocalOnly);
    address_ = *node_->Listen(absl::StrCat("local:ring-member-", getpid()));
  }

  protocol::LogHello HelloOf(const MemberPort::HeldShard& held) const {
    const cluster::GroupView& group = view_.groups[held.group.value()];
    protocol::LogHello hello;
    hello.cluster = view_.cluster;
    hello.node = view_.Coordinator(held.group, held.shard).value();
    hello.incarnation = group.incarnations[held.shard.value()].value();
    hello.epoch = group.epoch.value();
    hello.group = held.group.value();
    hello.shard = held.shard.value();
    hello.credit.length = sizeof(std::uint64_t);
    return hello;
  }
  // ... of whoever is to begin from nothing.
  protocol::LogHello JoinOf(const MemberPort::HeldShard& held) const {
    protocol::LogHello hello = HelloOf(held);
    hello.flags = protocol::kLogJoins;
    hello.attempt = 1;
    return hello;
  }
  // What the door says to a coordinator: nothing, when it lets it in.
  std::string Knock(const protocol::LogHello& hello) {
    links_.emplace_back();
    std::atomic<bool> done{false};
    std::thread door([&] {
      while (!done.load()) PumpPort();
    });
    auto qp = peer_->Connect(address_, {.send_cq = peer_cq_.get(), .recv_cq = peer_cq_.get()},
                             protocol::EncodeHello(hello));
    std::string refusal = qp.ok() ? "" : std::string(qp.status().message());
    bool answered = !qp.ok();
    Await("the door's answer", [&] {
      peer_->Progress();
      rdma::ConnectionEvent event;
      while (!answered && peer_->PollEvent(&event)) {
        if (event.qp != qp->get()) continue;
        answered = true;
        if (event.kind != rdma::ConnectionEvent::Kind::kEstablished) refusal = event.private_data;
      }
      return answered;
    });
    done.store(true);
    door.join();
    if (refusal.empty()) links_.back().qp = *std::move(qp);
    return refusal;
  }

  void ConnectAll() {
    // Connect waits for the other side, which is this thread's as well.
    std::atomic<bool> done{false};
    std::thread door([&] {
      while (!done.load()) PumpPort();
    });
    for (std::size_t i = 0; i < links_.size(); ++i) {
      const MemberPort::HeldShard& held = port_->held_shards()[i];
      protocol::LogHello hello = HelloOf(held);
      const rdma::RemoteBuffer credits = credits_region_->remote();
      hello.credit = {credits.address + i * sizeof(std::uint64_t), sizeof(std::uint64_t),
                      credits.rkey, 0};
      auto qp = peer_->Connect(address_, {.send_cq = peer_cq_.get(), .recv_cq = peer_cq_.get()},
                               protocol::EncodeHello(hello));
      EXPECT_OK(qp);
      if (qp.ok()) links_[i].qp = *std::move(qp);
    }
    // Each is let in, or told why not.
    Await("every link's answer", [&] {
      PumpPeer();
      return answers_ >= links_.size();
    });
    done.store(true);
    door.join();
  }

  void PumpPort() {
    node_->Progress();
    rdma::ConnectionEvent event;
    while (node_->PollEvent(&event)) {
      if (event.kind == rdma::ConnectionEvent::Kind::kConnectRequest)
        port_->OnConnectRequest(event.request, event.private_data);
    }
  }
  void PumpPeer() {
    peer_->Progress();
    rdma::ConnectionEvent event;
    while (peer_->PollEvent(&event)) {
      for (Link& link : links_) {
        if (link.qp == nullptr || link.qp.get() != event.qp) continue;
        ++answers_;
        link.established = event.kind == rdma::ConnectionEvent::Kind::kEstablished;
        EXPECT_TRUE(link.established) << event.private_data;
        if (link.established)
          link.accept = *protocol::DecodeHello<protocol::LogAccept>(event.private_data);
      }
    }
  }
  const std::atomic<std::uint64_t>* Credit(std::size_t i) const {
    return reinterpret_cast<const std::atomic<std::uint64_t>*>(credits_) + i;
  }
  // A committed entry without effect in the ring of this shard.
  void AppendCollect(std::size_t i) {
    memgest::LogWriterOptions options;
    options.qp = links_[i].qp.get();
    const protocol::BufferFields& ring = links_[i].accept.ring;
    options.ring = {ring.address, ring.length, ring.rkey};
    options.credit = Credit(i);
    options.staging = staging_;
    options.staging_size = kStagingSize;
    options.staging_lkey = staging_region_->lkey();
    options.epoch = Epoch(view_.groups[port_->held_shards()[i].group.value()].epoch);
    memgest::LogWriter writer(options);
    memgest::EntryFields fields;
    fields.type = memgest::EntryType::kCollect;
    fields.memgest = view_.memgests[0].id;
    fields.index = 1;
    alignas(8) std::byte head[memgest::kEntryHeadSizeMax];
    writer.Append(1, head, memgest::BuildEntryHead(fields, options.epoch, head), 0, {});
    ASSERT_OK(writer.Flush());
    rdma::WorkCompletion completion;
    Await("the entry's write", [&] {
      node_->Progress();
      peer_->Progress();
      if (peer_cq_->Poll(absl::MakeSpan(&completion, 1)) > 0) writer.OnCompletion(completion);
      return writer.acked_order() >= 1 || writer.broken();
    });
    ASSERT_FALSE(writer.broken());
    writer.AdvanceCommit(2);
    writer.ShareCommit();
    Await("the commit index", [&] {
      node_->Progress();
      peer_->Progress();
      return port_->HasCommitted();
    });
  }

  // For the epoch that follows.
  absl::Status SealBehind(const protocol::LogHello& hello) {
    const Epoch next(hello.epoch + 1);
    const GroupId group(hello.group);
    return port_->Seal({group, ShardId(hello.shard), next, Epoch(hello.epoch), {}}).status();
  }
  std::vector<MemberPort::HeldShard*> HeldAs(Role role) {
    std::vector<MemberPort::HeldShard*> found;
    for (MemberPort::HeldShard& held : port_->held_shards()) {
      if (held.role == role) found.push_back(&held);
    }
    return found;
  }
  // The shard is Normal with its coordinator alone.
  void NameWithoutMembers(const MemberPort::HeldShard& held, Epoch epoch) {
    cluster::NormalRecord& normal =
        view_.groups[held.group.value()].shards[held.shard.value()].normal;
    normal.epoch = epoch;
    normal.holders.resize(3);
    normal.memgests.emplace_back().id = view_.memgests[0].id;
    normal.memgests.back().active = RoleBit(Role(held.shard.value()));
    port_->ApplyView(view_);
  }

  static constexpr std::size_t kCreditsSize = 8192;

  BootClock clock_;
  std::unique_ptr<rdma::Device> node_ = OpenDevice("node");
  std::unique_ptr<rdma::Device> peer_ = OpenDevice("peer");
  cluster::View view_;
  std::unique_ptr<rdma::CompletionQueue> peer_cq_;
  std::byte* credits_ = nullptr;
  std::unique_ptr<rdma::MemoryRegion> credits_region_;
  std::byte* staging_ = nullptr;
  std::unique_ptr<rdma::MemoryRegion> staging_region_;
  std::unique_ptr<MemberPort> port_;
  std::string address_;
  std::vector<Link> links_;
  std::size_t answers_ = 0;
};

// Bells and credits of all held shards at once, before anybody looks at the completions.
TEST_F(MemberRingsTest, E5EveryRingOfTheLargestClusterHasPlacesForItsBellsAndItsCredit) {
  Start(cluster::kShardCountMax, cluster::kRedundancyMax);
  ASSERT_EQ(links_.size(), 304u);
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const MemberPort::HeldShard& held = port_->held_shards()[i];
    ASSERT_TRUE(links_[i].established) << i;
    ASSERT_NE(held.qp, nullptr) << i;
    ASSERT_NE(held.store->reader(), nullptr) << "half accepted: " << i;
  }
  for (Link& link : links_) {
    for (int i = 0; i < kBells; ++i) {
      rdma::WorkRequest bell;
      bell.opcode = rdma::Opcode::kSend;
      ASSERT_OK(link.qp->PostSend(bell));
    }
  }
  const rdma::RemoteBuffer credits = credits_region_->remote();
  std::uint64_t word = 7;
  const rdma::Sge sge{reinterpret_cast<std::byte*>(&word), sizeof(word), 0};
  for (std::size_t i = 0; i < links_.size(); ++i) {
    rdma::WorkRequest credit;
    credit.opcode = rdma::Opcode::kWrite;
    credit.inline_data = true;
    credit.signaled = true;
    credit.sges = absl::MakeConstSpan(&sge, 1);
    credit.remote_address = credits.address + i * sizeof(word);
    credit.rkey = credits.rkey;
    ASSERT_OK(port_->held_shards()[i].qp->PostSend(credit)) << i;
  }
  for (std::size_t i = 0; i < links_.size(); ++i) EXPECT_EQ(Credit(i)->load(), 7u) << i;
  for (const Link& link : links_) EXPECT_EQ(link.qp->state(), rdma::QpState::kReadyToSend);
}

// A node that was sealed when its snapshot had not come yet has an epoch, and nothing in it.
TEST_F(MemberRingsTest, L7WhoAwaitsASnapshotTakesNoRingThatGoesOnFromASeal) {
  StartPort(2, 1, /*static_membership=*/false);
  MemberPort::HeldShard& member = port_->held_shards().front();
  protocol::LogHello hello = HelloOf(member);
  cluster::NormalRecord& normal =
      view_.groups[member.group.value()].shards[member.shard.value()].normal;
  normal.epoch = Epoch(hello.epoch);
  normal.holders.resize(3);
  cluster::GroupView& group = view_.groups[member.group.value()];
  group.epoch = Epoch(group.epoch.value() + 1);
  hello.epoch = group.epoch.value();
  port_->ApplyView(view_);
  EXPECT_THAT(Knock(hello), ::testing::HasSubstr("not sealed for epoch"));
  hello.flags = protocol::kLogJoins;
  hello.attempt = 1;
  ASSERT_EQ(Knock(hello), "");
  ASSERT_EQ(member.join, MemberPort::HeldShard::Join::kAwaitsSnapshot);
  recovery::SealRequest seal;
  seal.group = member.group;
  seal.shard = member.shard;
  seal.epoch = Epoch(hello.epoch + 1);
  seal.last_normal = normal.epoch;
  EXPECT_THAT(port_->Seal(seal), StatusIs(absl::StatusCode::kAborted));
  hello.flags = 0;
  EXPECT_THAT(Knock(hello), ::testing::HasSubstr("has to join from nothing"));
  EXPECT_EQ(member.join, MemberPort::HeldShard::Join::kAwaitsSnapshot);
  hello.flags = protocol::kLogJoins;
  hello.attempt = 2;
  EXPECT_EQ(Knock(hello), "");
}

// Its coordinator had not named it: what it learned is no reason for another shard of the parity to
// wait, as that one's is none for this one.
TEST_F(MemberRingsTest, S6WhoIsAskedToJoinAgainWhileItLearnsIsNotCountedOn) {
  StartPort(2, 1, /*static_membership=*/false, cluster::Srs("SRS21", 2, 1));
  const std::vector<MemberPort::HeldShard*> learners = HeldAs(Role(2));
  ASSERT_EQ(learners.size(), 2u);
  const MemgestId id = view_.memgests[0].id;
  std::vector<protocol::LogHello> hellos;
  for (const MemberPort::HeldShard* const held : learners) {
    hellos.push_back(JoinOf(*held));
    NameWithoutMembers(*held, Epoch(hellos.back().epoch));
  }
  for (std::size_t i = 0; i < learners.size(); ++i) {
    ASSERT_EQ(Knock(hellos[i]), "");
    learners[i]->join = MemberPort::HeldShard::Join::kLearner;
    memgest::ParityStore& parity = *port_->FindParity(learners[i]->group, id);
    parity.BeginRebuild(learners[i]->shard, 1);
    ASSERT_OK(parity.Base(learners[i]->shard, 0, nullptr, parity.block_size(), 0));
    ASSERT_TRUE(parity.Holds(learners[i]->shard));
  }
  for (protocol::LogHello& hello : hellos) ++hello.attempt;
  EXPECT_THAT(Knock(hellos[0]), ::testing::HasSubstr("counts on it"));
  EXPECT_EQ(Knock(hellos[1]), "");
  EXPECT_EQ(Knock(hellos[0]), "");
}

// Its first coordinator comes when the parity was dropped for another shard, and goes on with who
// has nothing to lose: a parity that waited for a snapshot would take none of its deltas.
TEST_F(MemberRingsTest, S6AShardThatWasNeverNormalIsCoveredThoughItsParityWasDropped) {
  StartPort(2, 1, /*static_membership=*/false, cluster::Srs("SRS21", 2, 1));
  std::vector<MemberPort::HeldShard*> shards = HeldAs(Role(2));
  ASSERT_EQ(shards.size(), 2u);
  MemberPort::HeldShard& joins = *shards[0];
  MemberPort::HeldShard& first = *shards[1];
  const MemgestId id = view_.memgests[0].id;
  protocol::LogHello hello = JoinOf(joins);
  NameWithoutMembers(joins, Epoch(hello.epoch));
  ASSERT_EQ(Knock(hello), "");
  memgest::ParityStore& parity = *port_->FindParity(joins.group, id);
  parity.BeginRebuild(joins.shard, 1);
  ASSERT_OK(parity.Base(joins.shard, 0, nullptr, parity.block_size(), 0));
  ++hello.attempt;
  ASSERT_EQ(Knock(hello), "");
  const memgest::ParityStore& fresh = *port_->FindParity(joins.group, id);
  EXPECT_FALSE(fresh.Holds(joins.shard));
  EXPECT_FALSE(fresh.Covers(joins.shard)) << "until its snapshot says from where on";
  ASSERT_EQ(Knock(HelloOf(first)), "");
  EXPECT_TRUE(fresh.Covers(first.shard));
}

// That L is Normal is agreed upon before all have applied it; the seal is how this member hears of
// it.
TEST_F(MemberRingsTest, Step2AMemberThatHasNotAppliedNormalIsSealedAllTheSame) {
  StartPort(2, 1, /*static_membership=*/false);
  const MemberPort::HeldShard& member = port_->held_shards().front();
  const protocol::LogHello hello = HelloOf(member);
  ASSERT_EQ(Knock(hello), "");
  EXPECT_OK(SealBehind(hello));
}

// Its seal was answered too late: the record does without it, and so what its ring holds behind the
// adopted log was never part of the log.
TEST_F(MemberRingsTest, Step7WhoJoinedInAnEarlierEpochFoldsNothingUnlessItIsNamed) {
  StartPort(2, 1, /*static_membership=*/false);
  MemberPort::HeldShard& member = *HeldAs(Role(2)).front();
  protocol::LogHello hello = JoinOf(member);
  ASSERT_EQ(Knock(hello), "");
  member.join = MemberPort::HeldShard::Join::kLearner;
  ASSERT_OK(SealBehind(hello));
  ASSERT_NE(member.store->sealed(), nullptr);
  view_.groups[member.group.value()].epoch = Epoch(hello.epoch + 1);
  NameWithoutMembers(member, Epoch(hello.epoch + 1));
  EXPECT_NE(member.store->sealed(), nullptr);
  EXPECT_FALSE(member.store->HasWork()) << "it may not fold what it sealed";
}

TEST_F(MemberRingsTest, L8AnotherStartOfTheCoordinatorIsRefused) {
  StartPort(2, 1, /*static_membership=*/false);
  protocol::LogHello hello = HelloOf(port_->held_shards().front());
  ++hello.incarnation;
  EXPECT_THAT(Knock(hello), ::testing::HasSubstr("is not the coordinator"));
  --hello.incarnation;
  EXPECT_EQ(Knock(hello), "");
}

// The member hears of a coordinator by more ways than one: of what it said before it was stopped in
// the middle of a copy some may be found only now.
TEST_F(MemberRingsTest, L5AHelloFromBeforeACopyDoesNotGiveItsRingAway) {
  StartPort(2, 1, /*static_membership=*/false);
  MemberPort::HeldShard& member = port_->held_shards().front();
  protocol::LogHello hello = JoinOf(member);
  ASSERT_EQ(Knock(hello), "");
  const rdma::RemoteBuffer first = member.ring.region->remote();
  ++hello.attempt;
  ASSERT_OK_AND_ASSIGN(
      const auto second,
      peer_->Connect(address_, {.send_cq = peer_cq_.get(), .recv_cq = peer_cq_.get()},
                     protocol::EncodeHello(hello)));
  in_mid_copy = [this] { PumpPort(); };  // finds the hello
  constexpr std::size_t kSize = 4096;
  std::fill_n(staging_, kSize, std::byte{7});
  const rdma::Sge sge{staging_, kSize, staging_region_->lkey()};
  rdma::WorkRequest write;
  write.opcode = rdma::Opcode::kWrite;
  write.sges = absl::MakeConstSpan(&sge, 1);
  write.remote_address = first.address;
  write.rkey = first.rkey;
  ASSERT_OK(links_.back().qp->PostSend(write));
  ASSERT_EQ(member.attempt, 2) << "the hello was not found in the middle of the copy";
  const auto is_clean = [&] {
    return std::all_of(member.ring.address, member.ring.address + kSize,
                       [](std::byte byte) { return byte == std::byte{0}; });
  };
  EXPECT_TRUE(is_clean()) << "of another connection's ring";
  // It runs again, and says so by letting go.
  peer_->Progress();
  node_->Progress();
  ++hello.attempt;
  ASSERT_EQ(Knock(hello), "");
  EXPECT_EQ(member.ring.region->remote().address, first.address) << "it is lost";
  EXPECT_TRUE(is_clean());
}

// A ring that is full brings nothing more to fold, so nothing else would tell of it again.
TEST_F(MemberRingsTest, E5ACreditThatFoundNoPlaceIsToldLater) {
  Start(2, 1);
  MemberPort::HeldShard* member = nullptr;
  std::size_t place = 0;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const std::vector<Role> roles =
        view_.memgests[0].MemberRoles(port_->held_shards()[i].shard, view_.s, view_.d);
    if (roles.front() != port_->held_shards()[i].role) continue;
    member = &port_->held_shards()[i];
    place = i;
  }
  ASSERT_NE(member, nullptr);
  ASSERT_TRUE(links_[place].established);
  AppendCollect(place);
  // Completions that nobody looks at take all the places.
  const rdma::RemoteBuffer credits = credits_region_->remote();
  std::uint64_t word = 0;
  const rdma::Sge sge{reinterpret_cast<std::byte*>(&word), sizeof(word), 0};
  rdma::WorkRequest filler;
  filler.opcode = rdma::Opcode::kWrite;
  filler.inline_data = true;
  filler.signaled = true;
  filler.sges = absl::MakeConstSpan(&sge, 1);
  filler.remote_address = credits.address + kCreditsSize - sizeof(word);
  filler.rkey = credits.rkey;
  absl::Status status;
  while (status.ok()) status = member->qp->PostSend(filler);
  ASSERT_TRUE(absl::IsResourceExhausted(status)) << status;

  ASSERT_EQ(port_->Fold(static_cast<int>(links_.size())), 1);
  EXPECT_TRUE(port_->ShareCredits());
  EXPECT_EQ(Credit(place)->load(), 0u);
  port_->PollCompletions();
  EXPECT_FALSE(port_->ShareCredits());
  EXPECT_EQ(Credit(place)->load(), member->store->reader()->folded_position());
  EXPECT_GT(Credit(place)->load(), 0u);
}

}  // namespace
}  // namespace ring::node
