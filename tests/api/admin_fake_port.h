// tests/api/admin_fake_port.h — an AdminPort in memory, for tests of what stands above it.
//
// What:      FakeAdminPort: a catalogue that is changed at once, counted calls, and switches for
//            errors.
// Threads:   any.
// Errors:    as the port's contract; also the next status put into `fail_next`.
#ifndef RING_TESTS_API_ADMIN_FAKE_PORT_H_
#define RING_TESTS_API_ADMIN_FAKE_PORT_H_

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ring/base/sync.h"
#include "ring/cluster/catalogue.h"
#include "ring/cluster/default_memgests.h"
#include "ring/cluster/placement.h"
#include "ring/node/admin_port.h"

namespace ring::testing {

inline cluster::View FakeView() {
  std::vector<cluster::NodeInfo> nodes;
  for (std::uint32_t i = 0; i < 6; ++i) {
    cluster::NodeInfo node;
    node.id = NodeId(i);
    node.name = absl::StrCat("n", i);
    node.incarnation = Incarnation(100 + i);
    node.tcp_address = absl::StrCat("tcp:127.0.0.1:", 7000 + i);
    node.host = std::string("\xffhost\0", 6);
    nodes.push_back(std::move(node));
  }
  cluster::View view = cluster::InitialView(3, 2, nodes, cluster::DefaultMemgests(3, 2));
  view.cluster = cluster::ClusterHash("fake", 3, 2);
  // Something of everything that a fail-over leaves behind.
  view.fail_over = true;
  view.nodes[3].status = cluster::NodeStatus::kDown;
  cluster::GroupView& group = view.groups[4];
  group.epoch = Epoch(2);
  group.demoted = 0b1000;
  cluster::NormalRecord& normal = group.shards[0].normal;
  normal.epoch = Epoch(1);
  for (std::size_t x = 0; x < group.roles.size(); ++x) {
    normal.holders.push_back({group.roles[x], group.incarnations[x]});
  }
  normal.memgests = {{MemgestId(1), 0b11001, 0b01001, false, {{Role(4), 3}}},
                     {MemgestId(2), 0b00001, 0b00001, true, {}}};
  group.shards[1].overrun_epoch = Epoch(2);
  group.shards[1].overrun = {MemgestId(2)};
  group.roles[4] = cluster::kNoNode;
  group.incarnations[4] = Incarnation();
  return view;
}

class FakeAdminPort : public node::AdminPort {
 public:
  FakeAdminPort() : view_(FakeView()), catalogue_(view_) {}

  absl::StatusOr<std::shared_ptr<const cluster::View>> GetView() override {
    MutexLock lock(mutex_);
    return std::make_shared<const cluster::View>(view_);
  }

  absl::StatusOr<protocol::MemgestDescriptor> CreateMemgest(
      const node::AdminRequestId& id, const protocol::MemgestDescriptor& descriptor) override {
    MutexLock lock(mutex_);
    const auto result = Change(id, cluster::CreateCommand({id.client, id.seq}, descriptor));
    if (!result.status.ok()) return result.status;
    Step(result.memgest, protocol::MemgestState::kCreating, protocol::MemgestState::kActive);
    if (absl::Status status = TakeFailure(fail_after); !status.ok()) return status;
    return *catalogue_.Find(result.memgest);
  }

  absl::Status DeleteMemgest(const node::AdminRequestId& id, absl::string_view name,
                             bool force) override {
    MutexLock lock(mutex_);
    using protocol::MemgestState;
    const auto* memgest = catalogue_.Find(name);
    if (memgest == nullptr) return absl::NotFoundError(absl::StrCat("memgest=", name));
    if (!force && name == not_empty) {
      return absl::FailedPreconditionError(absl::StrCat("memgest=", name, " is not empty"));
    }
    const MemgestId found = memgest->id;
    const auto result =
        Change(id, cluster::SetStateCommand({id.client, id.seq}, found, MemgestState::kActive,
                                            MemgestState::kDraining));
    if (result.status.ok()) Step(found, MemgestState::kDraining, MemgestState::kDeleted);
    return result.status;
  }

  absl::Status SetDefaultMemgest(const node::AdminRequestId& id, absl::string_view name) override {
    MutexLock lock(mutex_);
    const auto* memgest = catalogue_.Find(name);
    if (memgest == nullptr) return absl::NotFoundError(absl::StrCat("memgest=", name));
    return Change(id, cluster::SetDefaultCommand({id.client, id.seq}, memgest->id)).status;
  }

  absl::StatusOr<node::ClusterStats> GetStats() override {
    MutexLock lock(mutex_);
    if (absl::Status status = TakeFailure(fail_next); !status.ok()) return status;
    return stats;
  }

  absl::StatusOr<cluster::Health> GetHealth() override {
    MutexLock lock(mutex_);
    if (absl::Status status = TakeFailure(fail_next); !status.ok()) return status;
    return health;
  }

  // Behind the cursors, as a node does.
  absl::StatusOr<std::vector<node::NodeEvents>> GetEvents(
      absl::Span<const node::EventCursor> cursors) override {
    MutexLock lock(mutex_);
    if (absl::Status status = TakeFailure(fail_next); !status.ok()) return status;
    std::vector<node::NodeEvents> answer = events;
    for (node::NodeEvents& one : answer) {
      for (const node::EventCursor& cursor : cursors) {
        if (cursor.node != one.node || cursor.incarnation != one.incarnation) continue;
        std::erase_if(one.events,
                      [&](const node::Event& event) { return event.number <= cursor.number; });
      }
    }
    return answer;
  }

  absl::Status DrainNode(absl::string_view node, bool force) override {
    MutexLock lock(mutex_);
    drain_waits_ = drains_hang;
    while (drain_waits_ && !ended_) changed_.Wait(mutex_);
    if (drain_waits_) return absl::UnavailableError("the node is stopping");
    return ChangeNode("drain", node, force, cluster::NodeStatus::kDraining);
  }
  absl::StatusOr<NodeId> AddNode(const cluster::NodeInfo& info) override {
    MutexLock lock(mutex_);
    node_changes.push_back(absl::StrCat("add ", info.name, " ", info.tcp_address, " ",
                                        info.shm_address, " ", info.admin_address,
                                        info.rdma_address.empty() ? "" : " ", info.rdma_address));
    if (absl::Status status = TakeFailure(fail_next); !status.ok()) return status;
    return NodeId(static_cast<std::uint32_t>(view_.nodes.size()));
  }
  absl::Status RemoveNode(absl::string_view node, bool force) override {
    MutexLock lock(mutex_);
    return ChangeNode("remove", node, force, cluster::NodeStatus::kRemoved);
  }

  absl::StatusOr<int> AcceptLoss(absl::Span<const cluster::StoppedShard> shards) override {
    MutexLock lock(mutex_);
    if (absl::Status status = TakeFailure(fail_next); !status.ok()) return status;
    node_changes.push_back("accept-loss");
    return static_cast<int>(std::erase_if(health.shards, [&](const cluster::ShardHealth& shard) {
      const cluster::StoppedShard seen{shard.group, shard.shard, shard.epoch, shard.lost};
      return shard.stopped && std::find(shards.begin(), shards.end(), seen) != shards.end();
    }));
  }

  absl::Status InjectFault(absl::string_view node, const node::Fault& fault) override {
    MutexLock lock(mutex_);
    faults.emplace_back(std::string(node), fault);
    return TakeFailure(fail_next);
  }
  absl::StatusOr<node::DeviceFaults> GetDeviceFaults(absl::string_view) override {
    MutexLock lock(mutex_);
    if (absl::Status status = TakeFailure(fail_next); !status.ok()) return status;
    return device_faults;
  }

  absl::StatusOr<node::ScrubReport> Scrub(
      absl::FunctionRef<bool(const node::ScrubProgress&)> progress) override {
    for (std::uint64_t checked = 0; endless_scrub || checked < 10; ++checked) {
      if (!progress({checked, 10})) return absl::CancelledError("stopped");
    }
    return node::ScrubReport{7, 14, 3, 1, {"key=a: replica 1 differs"}};
  }

  bool drain_waits() {
    MutexLock lock(mutex_);
    return drain_waits_;
  }
  void EndCalls() override {
    MutexLock lock(mutex_);
    ended_ = true;
    changed_.NotifyAll();
  }

  // Set before the server starts, or by the test's thread between calls.
  std::deque<absl::Status> fail_next;   // before anything is done
  std::deque<absl::Status> fail_after;  // after the change was made: the answer is lost
  node::ClusterStats stats;
  cluster::Health health;
  std::vector<node::NodeEvents> events;
  std::string not_empty;
  bool endless_scrub = false;
  bool drains_hang = false;  // until EndCalls
  std::vector<node::AdminRequestId> requests;
  std::vector<std::pair<std::string, node::Fault>> faults;
  node::DeviceFaults device_faults;
  std::vector<std::string> node_changes;  // "drain n3 force"

 private:
  static absl::Status TakeFailure(std::deque<absl::Status>& failures) {
    if (failures.empty()) return absl::OkStatus();
    absl::Status status = failures.front();
    failures.pop_front();
    return status;
  }

  void ShowCatalogue() {
    ++view_.epoch;
    view_.memgests = catalogue_.memgests();
    view_.default_memgest = catalogue_.default_memgest();
  }

  cluster::CommandResult Change(const node::AdminRequestId& id,
                                const cluster::CatalogueCommand& command) {
    requests.push_back(id);
    if (absl::Status status = TakeFailure(fail_next); !status.ok()) {
      return {status, MemgestId(), false, false};
    }
    cluster::CommandResult result = catalogue_.Apply(command);
    if (result.changed) ShowCatalogue();
    return result;
  }

  absl::Status ChangeNode(absl::string_view what, absl::string_view name, bool force,
                          cluster::NodeStatus to) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    node_changes.push_back(absl::StrCat(what, " ", name, force ? " force" : ""));
    if (absl::Status status = TakeFailure(fail_next); !status.ok()) return status;
    const cluster::NodeInfo* const node = view_.FindNodeByText(name);
    if (node == nullptr) return absl::NotFoundError(absl::StrCat("no node is named ", name));
    view_.nodes[node->id.value()].status = to;
    cluster::Vacate(&view_, node->id);
    return absl::OkStatus();
  }

  void Step(MemgestId id, protocol::MemgestState from, protocol::MemgestState to) {
    const bool deletes = to == protocol::MemgestState::kDeleted;
    if (catalogue_
            .Apply(deletes ? cluster::DeletedCommand(id, catalogue_.revision())
                           : cluster::SetStateCommand({}, id, from, to))
            .changed) {
      ShowCatalogue();
    }
  }

  Mutex mutex_;
  CondVar changed_;
  bool ended_ = false;
  bool drain_waits_ = false;
  cluster::View view_;
  cluster::Catalogue catalogue_;
};

}  // namespace ring::testing

#endif  // RING_TESTS_API_ADMIN_FAKE_PORT_H_
