// Random commands against the state machine: what must hold after every one of them.
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "ring/cluster/cluster_state.h"
#include "ring/cluster/role_return.h"
#include "tests/cluster/cluster_state_builders.h"
#include "tests/support/random_seed.h"
#include "tests/support/status_matchers.h"

namespace ring::cluster {
namespace {

// Commands that mostly fit the present view, with everything else mixed in.
class CommandSource {
 public:
  explicit CommandSource(Random* random) : random_(random) {}

  ClusterCommand Next(const ClusterState& state) {
    const View& view = *state.view();
    switch (Below(15)) {
      case 0:
      case 1:
      case 2:
        return RegisterSome(view);
      case 3:
      case 4: {
        const NodeInfo& node = view.nodes[Below(view.nodes.size())];
        const std::uint64_t start = Below(5) == 0 ? 1 + Below(next_) : node.incarnation.value();
        return FailNode{node.id, Incarnation(start), "silent"};
      }
      case 5:
        return DrainNode{NodeId(static_cast<std::uint32_t>(Below(8)))};
      case 6:
        return RemoveNode{NodeId(static_cast<std::uint32_t>(Below(8)))};
      case 7:
        return NewEpoch{GroupId(static_cast<std::uint16_t>(Below(6))), SomeEpoch(view),
                        Below(3) == 0 ? static_cast<std::uint32_t>(Below(64)) : 0, "full"};
      case 8:
      case 9:
        return SomeNormal(view);
      case 10:
        return SomeOverrun(view);
      case 11: {
        AddNode command = Add(static_cast<int>(Below(9)));
        if (Below(4) == 0) command.info.tcp_address = view.nodes[0].tcp_address;
        return command;
      }
      case 12:
      case 13:
        return SomeReturn(view);
      default:
        return SomeCatalogue(view, state.catalogue().revision());
    }
  }

 private:
  std::uint64_t Below(std::uint64_t bound) { return random_->Below(bound); }
  Epoch SomeEpoch(const View& view) {
    const Epoch epoch = view.groups[Below(view.groups.size())].epoch;
    return Below(6) == 0 ? Epoch(epoch.value() + 1) : epoch;
  }
  ClusterCommand RegisterSome(const View& view) {
    const int i = static_cast<int>(Below(9));
    const NodeInfo* node = view.FindNode(absl::StrCat("n", i));
    const bool same = node != nullptr && Below(node->status == NodeStatus::kUp ? 3 : 2) == 0;
    RegisterNode command = Register(i, same ? node->incarnation.value() : next_++);
    if (Below(10) == 0) command.info.incarnation = Incarnation(Below(next_));
    if (Below(20) == 0) command.info.tcp_address = view.nodes[0].tcp_address;
    return command;
  }
  ClusterCommand SomeNormal(const View& view) {
    SetNormal command =
        NormalOf(view, static_cast<std::uint16_t>(Below(5)), static_cast<std::uint16_t>(Below(3)));
    for (MemgestNormal& one : command.memgests) {
      if (Below(3) == 0) one.active &= static_cast<std::uint32_t>(random_->Next64());
      one.complete &= one.active;
      if (Below(3) == 0) one.complete &= static_cast<std::uint32_t>(random_->Next64());
      if (Below(8) == 0) one.lost = one.records_lost = true;
      if (Below(8) == 0) one.records_lost = true;
      if (Below(6) == 0) {
        one.active_from.push_back({Role(static_cast<std::uint16_t>(Below(6))), Below(4)});
      }
    }
    if (Below(8) == 0 && !command.memgests.empty()) command.memgests.pop_back();
    if (Below(8) == 0) command.epoch = SomeEpoch(view);
    return command;
  }
  ClusterCommand SomeOverrun(const View& view) {
    const GroupId group(static_cast<std::uint16_t>(Below(5)));
    return Overrun{group,
                   ShardId(static_cast<std::uint16_t>(Below(4))),
                   view.groups[group.value()].epoch,
                   {MemgestId(static_cast<std::uint16_t>(Below(5)))}};
  }
  // Such as are possible are rare: one is taken where there is one.
  ClusterCommand SomeReturn(const View& view) {
    ReturnRole command{GroupId(static_cast<std::uint16_t>(Below(6))),
                       ShardId(static_cast<std::uint16_t>(Below(4))), SomeEpoch(view),
                       Role(static_cast<std::uint16_t>(Below(6)))};
    if (Below(3) == 0) return command;
    for (std::uint16_t g = 0; g < view.groups.size(); ++g) {
      for (std::uint16_t i = 0; i < view.groups[g].shards.size(); ++i) {
        for (std::uint16_t x = 0; x < view.groups[g].roles.size(); ++x) {
          if (CheckReturn(view, GroupId(g), ShardId(i), Role(x)).ok())
            return ReturnRole{GroupId(g), ShardId(i), view.groups[g].epoch, Role(x)};
        }
      }
    }
    return command;
  }
  ClusterCommand SomeCatalogue(const View& view, std::uint64_t revision) {
    using protocol::MemgestState;
    const MemgestId id(static_cast<std::uint16_t>(1 + Below(view.memgests.size() + 1)));
    const RequestId request{absl::StrCat("c", Below(3)), 1 + Below(60)};
    switch (Below(6)) {
      case 0:
        return CreateCommand(request,
                             Rep(absl::StrCat("R", Below(4)), 1 + static_cast<int>(Below(4))));
      case 1:
        return SetDefaultCommand(request, id);
      case 2:
        return SetStateCommand({}, id, MemgestState::kCreating, MemgestState::kActive);
      case 3:
        return DeleteCommand(request, absl::StrCat("R", Below(4)), Below(2) == 0);
      case 4:
        return RefuseDeleteCommand(request, id, revision - Below(2), "NOT_EMPTY");
      default:
        return Below(2) == 0
                   ? SetStateCommand({}, id, MemgestState::kActive, MemgestState::kDraining)
                   : DeletedCommand(id, revision - Below(2));
    }
  }

  Random* random_;
  std::uint64_t next_ = 1000;
};

// Between two neighbouring views.
void CheckStep(const View& before, const View& after) {
  for (std::size_t g = 0; g < after.groups.size(); ++g) {
    const GroupView& old = before.groups[g];
    const GroupView& now = after.groups[g];
    // Epochs are dense and rise.
    ASSERT_TRUE(now.epoch == old.epoch || now.epoch.value() == old.epoch.value() + 1);
    // Roles change with the epoch only.
    if (now.epoch == old.epoch) {
      ASSERT_EQ(now.roles, old.roles) << "g=" << g;
    }
    for (std::size_t i = 0; i < now.shards.size(); ++i) {
      const NormalRecord& was = old.shards[i].normal;
      const NormalRecord& is = now.shards[i].normal;
      if (was == is) continue;
      // A record is for the present epoch, and within an epoch takes nothing back (L7).
      ASSERT_EQ(is.epoch, now.epoch);
      for (std::size_t x = 0; x < now.roles.size(); ++x) {
        ASSERT_EQ(is.holders[x], (Holder{now.roles[x], now.incarnations[x]}));
      }
      if (was.epoch != is.epoch) continue;
      for (const MemgestNormal& one : was.memgests) {
        const MemgestNormal* next = is.Find(one.id);
        if (next == nullptr) {
          ASSERT_EQ(after.FindMemgest(one.id)->state, protocol::MemgestState::kDeleted);
          continue;
        }
        ASSERT_EQ(one.active & ~next->active, 0u);
        ASSERT_EQ(one.complete & ~next->complete, 0u);
      }
    }
  }
}

Holder PresentHolder(const GroupView& group, std::size_t role) {
  return {group.roles[role], group.incarnations[role]};
}

// I2: a return takes no values that count for any shard, and leaves no coordinator's role vacant.
void CheckReturned(const View& before, const View& after, const ReturnRole& command) {
  const GroupView& old = before.groups[command.group.value()];
  const GroupView& now = after.groups[command.group.value()];
  ASSERT_EQ(PresentHolder(now, command.role.value()),
            old.shards[command.shard.value()].normal.holders[command.role.value()]);
  for (std::size_t i = 0; i < old.shards.size(); ++i) {
    ASSERT_TRUE(old.roles[i] == kNoNode || now.roles[i] != kNoNode) << "shard=" << i;
    const NormalRecord& normal = old.shards[i].normal;
    for (const MemgestNormal& one : normal.memgests) {
      const protocol::MemgestDescriptor& memgest = *before.FindMemgest(one.id);
      if (memgest.state == protocol::MemgestState::kDeleted || memgest.FailuresTolerated() == 0)
        continue;
      for (std::size_t x = 0; x < old.roles.size(); ++x) {
        const bool counted = normal.holders[x] == PresentHolder(old, x);
        if (x == i || !counted || (one.complete >> x & 1) == 0) continue;
        ASSERT_EQ(PresentHolder(now, x), PresentHolder(old, x)) << "shard=" << i << " role=" << x;
      }
    }
  }
}

// L10, L8, and what a holder is.
void CheckView(const View& view) {
  ASSERT_OK(view.Validate());
  for (const GroupView& group : view.groups) {
    std::set<NodeId> seen;
    for (std::size_t x = 0; x < group.roles.size(); ++x) {
      if (group.roles[x] == kNoNode) continue;
      ASSERT_TRUE(seen.insert(group.roles[x]).second);
      const NodeInfo& node = view.nodes[group.roles[x].value()];
      ASSERT_EQ(node.status, NodeStatus::kUp);
      ASSERT_EQ(node.incarnation, group.incarnations[x]);
    }
    // Nobody idles while a role is vacant.
    if (seen.size() == group.roles.size()) continue;
    for (const NodeInfo& node : view.nodes) {
      ASSERT_FALSE(node.status == NodeStatus::kUp && node.incarnation.value() != 0 &&
                   !seen.contains(node.id));
    }
  }
}

TEST(ClusterStateProperty, RandomCommandsKeepTheInvariants) {
  SeededRandom random(testing::SeedFor("cluster_state"));
  std::set<std::size_t> changed_kinds;
  std::set<std::size_t> refused_kinds;
  for (int run = 0; run < 60; ++run) {
    ClusterState state(FailOverView());
    ClusterState twin(FailOverView());
    CommandSource source(&random);
    for (int step = 0; step < 250; ++step) {
      const ClusterCommand command = source.Next(state);
      SCOPED_TRACE(absl::StrCat("step=", step, " kind=", command.index() + 1));
      const std::shared_ptr<const View> before = state.view();
      const std::string snapshot = state.Snapshot();
      const ClusterResult result = state.Apply(command);
      // Equal commands give equal states, by value and by their bytes.
      const ClusterResult same = twin.Apply(absl::string_view(EncodeClusterCommand(command)));
      ASSERT_EQ(result.status, same.status);
      ASSERT_EQ(state.Snapshot(), twin.Snapshot());
      ASSERT_EQ(result.changed, *before != *state.view());
      ASSERT_EQ(state.view()->epoch, before->epoch + (result.changed ? 1 : 0));
      if (!result.status.ok()) {
        ASSERT_FALSE(result.changed);
        refused_kinds.insert(command.index());
        // Only admin requests are remembered, refused or not.
        if (!std::holds_alternative<CatalogueCommand>(command)) {
          ASSERT_EQ(state.Snapshot(), snapshot);
        }
      }
      if (result.changed) changed_kinds.insert(command.index());
      ASSERT_NO_FATAL_FAILURE(CheckStep(*before, *state.view()));
      ASSERT_NO_FATAL_FAILURE(CheckView(*state.view()));
      if (const auto* given = std::get_if<ReturnRole>(&command); given && result.changed) {
        ASSERT_NO_FATAL_FAILURE(CheckReturned(*before, *state.view(), *given));
      }
      if (step % 50 == 0) {  // a node that joins later goes on from a snapshot
        ASSERT_OK_AND_ASSIGN(ClusterState restored, ClusterState::FromSnapshot(state.Snapshot()));
        ASSERT_EQ(restored, state);
        ASSERT_EQ(restored.Snapshot(), state.Snapshot());
        twin = std::move(restored);
      }
    }
  }
  EXPECT_EQ(changed_kinds.size(), 10u) << "some kind of command never changed anything";
  EXPECT_EQ(refused_kinds.size(), 10u) << "some kind of command was never refused";
}

TEST(ClusterSnapshot, OfMutatedBytesIsAnErrorOrAState) {
  SeededRandom random(testing::SeedFor("snapshot"));
  ClusterState state(FailOverView());
  CommandSource source(&random);
  for (int step = 0; step < 60; ++step) state.Apply(source.Next(state));
  const std::string bytes = state.Snapshot();
  for (std::size_t size = 0; size < bytes.size(); size += 7) {
    EXPECT_FALSE(ClusterState::FromSnapshot(bytes.substr(0, size)).ok()) << "size=" << size;
  }
  EXPECT_FALSE(ClusterState::FromSnapshot(bytes + '\0').ok());
  for (int round = 0; round < 2000; ++round) {
    std::string mutated = bytes;
    mutated[random.Below(mutated.size())] = static_cast<char>(random.Next64());
    const absl::StatusOr<ClusterState> decoded = ClusterState::FromSnapshot(mutated);
    if (!decoded.ok()) continue;
    ASSERT_EQ(decoded->Snapshot(), mutated);
  }
}

TEST(ClusterCommands, GiveBackWhatWasEncoded) {
  SeededRandom random(testing::SeedFor("commands"));
  CommandSource source(&random);
  const ClusterState state(FailOverView());
  for (int round = 0; round < 500; ++round) {
    const ClusterCommand command = source.Next(state);
    const std::string bytes = EncodeClusterCommand(command);
    ASSERT_OK_AND_ASSIGN(const ClusterCommand decoded, DecodeClusterCommand(bytes));
    SCOPED_TRACE(absl::StrCat("round=", round, " kind=", command.index() + 1));
    ASSERT_EQ(decoded.index(), command.index());
    // Bytes of a catalogue's creation lack what it does not look at.
    if (!std::holds_alternative<CatalogueCommand>(command)) {
      ASSERT_TRUE(decoded == command);
    }
    ASSERT_EQ(EncodeClusterCommand(decoded), bytes);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      ASSERT_FALSE(DecodeClusterCommand(absl::string_view(bytes).substr(0, size)).ok());
    }
    ASSERT_FALSE(DecodeClusterCommand(bytes + '\0').ok());
  }
}

TEST(ClusterCommands, LongReasonsAreCutAndUnknownOnesRefused) {
  const std::string bytes =
      EncodeClusterCommand(FailNode{NodeId(1), Incarnation(2), std::string(1000, 'r')});
  ASSERT_OK_AND_ASSIGN(const ClusterCommand decoded, DecodeClusterCommand(bytes));
  EXPECT_EQ(std::get<FailNode>(decoded).reason.size(), kReasonSizeMax);
  std::string other = bytes;
  other[0] = 9;
  EXPECT_THAT(DecodeClusterCommand(other), testing::StatusIs(absl::StatusCode::kInvalidArgument));
  other[0] = 1;
  other[1] = 9;
  EXPECT_THAT(DecodeClusterCommand(other), testing::StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace ring::cluster
