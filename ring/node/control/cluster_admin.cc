#include "ring/node/control/cluster_admin.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "ring/base/host_port.h"
#include "ring/base/status.h"
#include "ring/base/sync.h"
#include "ring/base/wire.h"
#include "ring/node/config/added_node.h"
#include "ring/node/control/control_change.h"
#include "ring/node/health_report.h"
#include "ring/node/scrub/scrub_message.h"
#include "ring/node/stats.h"

namespace ring::node {
namespace {

constexpr std::uint64_t kAskTimeoutNs = 5'000'000'000;
// Who is silent for so long is not there for an operator who wants to know.
constexpr std::uint64_t kHealthTimeoutNs = 500'000'000;
// A delete may drain for 10 s, a forced one for 60 s, who takes a role waits for its lease, and
// changes wait for each other.
constexpr std::uint64_t kChangeTimeoutNs = 120'000'000'000;
constexpr absl::Duration kScrubPollPeriod = absl::Milliseconds(10);
constexpr absl::Duration kPatience = absl::Seconds(10);  // beyond the calls' own deadlines

// Those that wait, all of them: they are a handful.
struct Waiters {
  Mutex mutex;
  CondVar changed;
  bool ended ABSL_GUARDED_BY(mutex) = false;

  bool HaveEnded() {
    MutexLock lock(mutex);
    return ended;
  }
};

// What a node's thread gives to the caller's. Whoever comes late finds nobody.
template <class T>
class Result {
 public:
  explicit Result(std::shared_ptr<Waiters> waiters) : waiters_(std::move(waiters)) {}
  void Set(absl::StatusOr<T> value) {
    MutexLock lock(waiters_->mutex);
    value_ = std::move(value);
    set_ = true;
    waiters_->changed.NotifyAll();
  }
  absl::StatusOr<T> Wait(absl::Duration timeout) {
    const absl::Time deadline = absl::Now() + timeout;
    MutexLock lock(waiters_->mutex);
    while (!set_ && !waiters_->ended && absl::Now() < deadline)
      waiters_->changed.WaitFor(waiters_->mutex, absl::ToChronoNanoseconds(deadline - absl::Now()));
    if (set_) return std::move(value_);
    if (waiters_->ended) {
      return absl::UnavailableError(
          "this node is stopping, and what was asked for may still be done: ask another node");
    }
    return absl::DeadlineExceededError("the node did not answer: it may have stopped");
  }

 private:
  const std::shared_ptr<Waiters> waiters_;
  bool set_ ABSL_GUARDED_BY(waiters_->mutex) = false;
  absl::StatusOr<T> value_ ABSL_GUARDED_BY(waiters_->mutex) = absl::UnknownError("");
};

std::string EncodeEventCursor(const EventCursor& cursor) {
  ByteWriter out;
  out.Put(cursor.incarnation.value());
  out.Put(cursor.number);
  return out.Take();
}

absl::StatusOr<NodeId> FindNode(const cluster::View& view, absl::string_view text) {
  const cluster::NodeInfo* const node = view.FindNodeByText(text);
  if (node != nullptr) return node->id;
  return absl::NotFoundError(
      absl::StrCat("no node is named ", text, ": ringctl cluster shows those that are"));
}

class ClusterAdmin final : public AdminPort {
 public:
  ClusterAdmin(std::vector<Reactor*> reactors, const std::shared_ptr<const cluster::View>& view)
      : reactors_(std::move(reactors)) {
    for (Reactor* const reactor : reactors_) {
      reactor->Post([reactor, view] {
        for (const std::unique_ptr<Node>& node : reactor->nodes()) node->ApplyView(view);
      });
    }
  }

  absl::StatusOr<std::shared_ptr<const cluster::View>> GetView() override;
  absl::StatusOr<protocol::MemgestDescriptor> CreateMemgest(
      const AdminRequestId& id, const protocol::MemgestDescriptor& descriptor) override;
  absl::Status DeleteMemgest(const AdminRequestId& id, absl::string_view name, bool force) override;
  absl::Status SetDefaultMemgest(const AdminRequestId& id, absl::string_view name) override;
  absl::StatusOr<ClusterStats> GetStats() override;
  absl::StatusOr<cluster::Health> GetHealth() override;
  absl::StatusOr<std::vector<NodeEvents>> GetEvents(absl::Span<const EventCursor> cursors) override;
  absl::Status DrainNode(absl::string_view node, bool force) override;
  absl::StatusOr<NodeId> AddNode(const cluster::NodeInfo& info) override;
  absl::Status RemoveNode(absl::string_view node, bool force) override;
  absl::StatusOr<int> AcceptLoss(absl::Span<const cluster::StoppedShard> shards) override;
  absl::Status InjectFault(absl::string_view node, const Fault& fault) override;
  absl::StatusOr<DeviceFaults> GetDeviceFaults(absl::string_view node) override;
  absl::StatusOr<ScrubReport> Scrub(
      absl::FunctionRef<bool(const ScrubProgress&)> progress) override;
  void EndCalls() override {
    MutexLock lock(waiters_->mutex);
    waiters_->ended = true;
    waiters_->changed.NotifyAll();
  }

 private:
  // Runs call(node, result) on the thread of the first node here; it sets the result now or later.
  template <class T, class Call>
  absl::StatusOr<T> Ask(absl::Duration timeout, Call call) {
    if (waiters_->HaveEnded()) {
      return absl::UnavailableError("this node is stopping: ask another node");
    }
    auto result = std::make_shared<Result<T>>(waiters_);
    Reactor* const reactor = reactors_.front();
    reactor->Post([reactor, result, call = std::move(call)]() mutable {
      if (reactor->nodes().empty()) {
        return result->Set(absl::UnavailableError("the node here was killed"));
      }
      call(*reactor->nodes().front(), result);
    });
    return result->Wait(timeout);
  }
  // What every node answers, by node; the first error of one names it.
  absl::StatusOr<std::vector<std::string>> AskAll(ControlType type, const std::string& body);
  // The same, whoever answers. Node i is asked bodies[i], those behind the last one that one.
  using Answers = std::vector<absl::StatusOr<std::string>>;
  absl::StatusOr<Answers> AskEach(ControlType type, std::vector<std::string> bodies,
                                  std::uint64_t timeout_ns);
  absl::StatusOr<std::string> Change(CatalogueChange change);
  // What is agreed upon, and what each node that is not removed says.
  struct Facts {
    std::shared_ptr<const cluster::View> view;
    NodeId leader;
    std::vector<cluster::NodeHealth> reports;
  };
  absl::StatusOr<Facts> CollectFacts();
  absl::StatusOr<cluster::ClusterResult> Propose(const cluster::ClusterCommand& command);
  absl::StatusOr<ScrubState> PollScrub(const std::string& id);

  std::vector<Reactor*> reactors_;
  const std::shared_ptr<Waiters> waiters_ = std::make_shared<Waiters>();
};

absl::StatusOr<std::shared_ptr<const cluster::View>> ClusterAdmin::GetView() {
  using Shared = std::shared_ptr<const cluster::View>;
  absl::StatusOr<Shared> view = Ask<Shared>(
      kPatience,
      [](Node& node, const std::shared_ptr<Result<Shared>>& result) { result->Set(node.view()); });
  if (absl::IsDeadlineExceeded(view.status()))
    return absl::UnavailableError(view.status().message());
  if (view.ok() && *view == nullptr) return absl::UnavailableError("no view yet");
  return view;
}

absl::StatusOr<std::string> ClusterAdmin::Change(CatalogueChange change) {
  return Ask<std::string>(
      absl::Nanoseconds(kChangeTimeoutNs) + kPatience,
      [body = EncodeChange(change)](Node& node,
                                    std::shared_ptr<Result<std::string>> result) mutable {
        if (node.view() == nullptr) return result->Set(absl::UnavailableError("no view yet"));
        node.control().Call(
            node.membership().leader(), ControlType::kCatalogue, std::move(body), kChangeTimeoutNs,
            [result](absl::StatusOr<std::string> answer) { result->Set(std::move(answer)); });
      });
}

absl::StatusOr<protocol::MemgestDescriptor> ClusterAdmin::CreateMemgest(
    const AdminRequestId& id, const protocol::MemgestDescriptor& descriptor) {
  CatalogueChange change;
  change.kind = ChangeKind::kCreate;
  change.id = id;
  change.descriptor = descriptor;
  RING_ASSIGN_OR_RETURN(const std::string body, Change(std::move(change)));
  absl::string_view in = body;
  return protocol::ConsumeMemgestDescriptor(&in);
}

absl::Status ClusterAdmin::DeleteMemgest(const AdminRequestId& id, absl::string_view name,
                                         bool force) {
  CatalogueChange change;
  change.kind = ChangeKind::kDelete;
  change.id = id;
  change.name = std::string(name.data(), name.size());
  change.force = force;
  return Change(std::move(change)).status();
}

absl::Status ClusterAdmin::SetDefaultMemgest(const AdminRequestId& id, absl::string_view name) {
  CatalogueChange change;
  change.kind = ChangeKind::kSetDefault;
  change.id = id;
  change.name = std::string(name.data(), name.size());
  return Change(std::move(change)).status();
}

absl::StatusOr<ClusterAdmin::Answers> ClusterAdmin::AskEach(ControlType type,
                                                            std::vector<std::string> bodies,
                                                            std::uint64_t timeout_ns) {
  struct Round {
    Answers answers;
    std::size_t left = 0;
  };
  return Ask<Answers>(absl::Nanoseconds(timeout_ns) + kPatience,
                      [type, timeout_ns, bodies = std::move(bodies)](
                          Node& node, const std::shared_ptr<Result<Answers>>& result) {
                        auto round = std::make_shared<Round>();
                        round->left = node.control().node_count();
                        round->answers.resize(round->left);
                        for (std::size_t i = 0; i < round->answers.size(); ++i) {
                          node.control().Call(
                              NodeId(static_cast<std::uint32_t>(i)), type,
                              bodies[std::min(i, bodies.size() - 1)], timeout_ns,
                              [round, result, i](absl::StatusOr<std::string> answer) {
                                round->answers[i] = std::move(answer);
                                if (--round->left == 0) result->Set(std::move(round->answers));
                              });
                        }
                      });
}

absl::StatusOr<std::vector<std::string>> ClusterAdmin::AskAll(ControlType type,
                                                              const std::string& body) {
  RING_ASSIGN_OR_RETURN(Answers answers, AskEach(type, {body}, kAskTimeoutNs));
  RING_ASSIGN_OR_RETURN(const std::shared_ptr<const cluster::View> view, GetView());
  std::vector<std::string> all;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!view->IsAwaited(NodeId(static_cast<std::uint32_t>(i)))) continue;
    const absl::Status& status = answers[i].status();
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat("node ", i, ": ", status.message()));
    }
    all.push_back(*std::move(answers[i]));
  }
  return all;
}

absl::StatusOr<ClusterStats> ClusterAdmin::GetStats() {
  RING_ASSIGN_OR_RETURN(const std::vector<std::string> answers, AskAll(ControlType::kStats, ""));
  ClusterStats stats;
  for (const std::string& answer : answers) {
    RING_ASSIGN_OR_RETURN(const NodeReport report, DecodeReport(answer));
    AddReport(report, &stats);
  }
  return stats;
}

absl::StatusOr<ClusterAdmin::Facts> ClusterAdmin::CollectFacts() {
  RING_ASSIGN_OR_RETURN(const Answers answers,
                        AskEach(ControlType::kHealth, {""}, kHealthTimeoutNs));
  // After the nodes answered: what they say is not judged by a view that is older.
  RING_ASSIGN_OR_RETURN(
      Facts facts,
      Ask<Facts>(kPatience, [](Node& node, const std::shared_ptr<Result<Facts>>& result) {
        if (node.view() == nullptr) return result->Set(absl::UnavailableError("no view yet"));
        result->Set(Facts{node.view(), node.membership().leader(), {}});
      }));
  for (std::size_t i = 0; i < answers.size() && i < facts.view->nodes.size(); ++i) {
    if (facts.view->nodes[i].status == cluster::NodeStatus::kRemoved) continue;
    absl::StatusOr<cluster::NodeHealth> report =
        answers[i].ok() ? DecodeHealth(*answers[i]) : answers[i].status();
    cluster::NodeHealth silent;
    silent.node = NodeId(static_cast<std::uint32_t>(i));
    if (!report.ok()) silent.error = std::string(report.status().message());
    facts.reports.push_back(report.ok() ? *std::move(report) : std::move(silent));
  }
  return facts;
}

absl::StatusOr<cluster::Health> ClusterAdmin::GetHealth() {
  RING_ASSIGN_OR_RETURN(const Facts facts, CollectFacts());
  return cluster::Summarize(*facts.view, facts.leader, facts.reports);
}

// Who leads next may do it or not; being asked again does no harm.
absl::StatusOr<cluster::ClusterResult> OrAgain(absl::StatusOr<cluster::ClusterResult> outcome) {
  if (!absl::IsUnknown(outcome.status())) return outcome;
  return absl::UnavailableError(outcome.status().message());
}

absl::StatusOr<cluster::ClusterResult> ClusterAdmin::Propose(
    const cluster::ClusterCommand& command) {
  RING_ASSIGN_OR_RETURN(
      cluster::ClusterResult result,
      Ask<cluster::ClusterResult>(
          absl::Nanoseconds(kChangeTimeoutNs) + kPatience,  // the call has its own
          [command](Node& node, const std::shared_ptr<Result<cluster::ClusterResult>>& answer) {
            node.membership().Propose(command,
                                      [answer](absl::StatusOr<cluster::ClusterResult> outcome) {
                                        answer->Set(OrAgain(std::move(outcome)));
                                      });
          }));
  RING_RETURN_IF_ERROR(result.status);
  return result;
}

absl::Status ClusterAdmin::DrainNode(absl::string_view node, bool force) {
  RING_ASSIGN_OR_RETURN(const Facts facts, CollectFacts());
  RING_ASSIGN_OR_RETURN(const NodeId id, FindNode(*facts.view, node));
  RING_RETURN_IF_ERROR(cluster::CheckDrain(*facts.view, facts.reports, id, force));
  return Propose(cluster::DrainNode{id}).status();
}

// In the place of a name its number, for all nodes the same: what is agreed upon is dialled by
// threads that serve, and these look nothing up.
absl::Status ResolveField(absl::string_view field, absl::string_view scheme, std::string* address) {
  if (address->empty()) return absl::OkStatus();
  const absl::StatusOr<std::string> number = ResolveHostPort(absl::StripPrefix(*address, scheme));
  if (number.ok()) {
    *address = absl::StrCat(scheme, *number);
    return absl::OkStatus();
  }
  const std::string what = absl::StrCat(field, "=", number.status().message());
  if (absl::IsUnavailable(number.status())) return absl::UnavailableError(what);
  return absl::InvalidArgumentError(what);
}

absl::StatusOr<NodeId> ClusterAdmin::AddNode(const cluster::NodeInfo& info) {
  RING_ASSIGN_OR_RETURN(const Transport transport,
                        Ask<Transport>(kPatience, [](Node& node, const auto& result) {
                          result->Set(node.config().transport);
                        }));
  RING_RETURN_IF_ERROR(CheckAddedNode(info, transport));
  cluster::AddNode command{info};
  RING_RETURN_IF_ERROR(ResolveField("data", "tcp:", &command.info.tcp_address));
  RING_RETURN_IF_ERROR(ResolveField("rdma", "rdma:", &command.info.rdma_address));
  RING_ASSIGN_OR_RETURN(const cluster::ClusterResult result, Propose(command));
  return result.node;
}

absl::Status ClusterAdmin::RemoveNode(absl::string_view node, bool force) {
  RING_ASSIGN_OR_RETURN(const std::shared_ptr<const cluster::View> view, GetView());
  RING_ASSIGN_OR_RETURN(const NodeId id, FindNode(*view, node));
  return Propose(cluster::RemoveNode{id, force}).status();
}

absl::StatusOr<int> ClusterAdmin::AcceptLoss(absl::Span<const cluster::StoppedShard> shards) {
  RING_ASSIGN_OR_RETURN(const Facts facts, CollectFacts());
  const auto goes_on = [&](const cluster::StoppedShard& seen) -> absl::StatusOr<bool> {
    const std::vector<cluster::GroupView>& groups = facts.view->groups;
    if (seen.lost.empty() || seen.group.value() >= groups.size()) return false;
    const cluster::GroupView& group = groups[seen.group.value()];
    if (group.epoch != seen.epoch || seen.shard.value() >= group.shards.size()) return false;
    // An attempt before, whose answer was lost, may have come so far.
    if (cluster::IsAccepted(group.shards[seen.shard.value()], seen)) return true;
    if (!cluster::IsStopped(facts.reports, seen)) return false;
    const absl::Status accepted =
        Propose(cluster::Overrun{seen.group, seen.shard, seen.epoch, seen.lost}).status();
    if (absl::IsFailedPrecondition(accepted))
      return false;  // it serves, or stopped anew, meanwhile
    RING_RETURN_IF_ERROR(accepted);
    return true;
  };
  int count = 0;
  for (const cluster::StoppedShard& seen : shards) {
    RING_ASSIGN_OR_RETURN(const bool one, goes_on(seen));
    count += one ? 1 : 0;
  }
  return count;
}

absl::Status ClusterAdmin::InjectFault(absl::string_view node, const Fault& fault) {
  RING_RETURN_IF_ERROR(CheckFault(fault));
  RING_ASSIGN_OR_RETURN(const std::shared_ptr<const cluster::View> view, GetView());
  RING_ASSIGN_OR_RETURN(const NodeId id, FindNode(*view, node));
  if (HasPeer(fault.kind) && (fault.peer.value() >= view->nodes.size() || fault.peer == id)) {
    return absl::InvalidArgumentError(
        absl::StrCat("peer=", fault.peer.value(), " must be another node of the cluster"));
  }
  return Ask<std::string>(
             kPatience,
             [id, fault](Node& here, const std::shared_ptr<Result<std::string>>& result) {
               here.control().Call(id, ControlType::kFault, EncodeFault(fault), kAskTimeoutNs,
                                   [result](absl::StatusOr<std::string> answer) {
                                     result->Set(std::move(answer));
                                   });
             })
      .status();
}

absl::StatusOr<DeviceFaults> ClusterAdmin::GetDeviceFaults(absl::string_view node) {
  RING_ASSIGN_OR_RETURN(const std::shared_ptr<const cluster::View> view, GetView());
  RING_ASSIGN_OR_RETURN(const NodeId id, FindNode(*view, node));
  RING_ASSIGN_OR_RETURN(
      const std::string bytes,
      Ask<std::string>(
          kPatience, [id](Node& here, const std::shared_ptr<Result<std::string>>& result) {
            here.control().Call(
                id, ControlType::kDeviceFaults, "", kAskTimeoutNs,
                [result](absl::StatusOr<std::string> answer) { result->Set(std::move(answer)); });
          }));
  return DecodeDeviceFaults(bytes);
}

absl::StatusOr<std::vector<NodeEvents>> ClusterAdmin::GetEvents(
    absl::Span<const EventCursor> cursors) {
  std::vector<std::string> bodies(1, EncodeEventCursor({}));  // the last one is for who has none
  for (const EventCursor& cursor : cursors) {
    if (cursor.node.value() >= cluster::kNodeCountMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("cursor of node=", cursor.node.value(), ": there is no such node"));
    }
    if (cursor.node.value() + 1 >= bodies.size()) {
      bodies.resize(cursor.node.value() + 2, bodies.back());
    }
    bodies[cursor.node.value()] = EncodeEventCursor(cursor);
  }
  RING_ASSIGN_OR_RETURN(const Answers answers,
                        AskEach(ControlType::kEvents, std::move(bodies), kHealthTimeoutNs));
  std::vector<NodeEvents> events;
  for (const absl::StatusOr<std::string>& answer : answers) {
    if (!answer.ok()) continue;
    RING_ASSIGN_OR_RETURN(NodeEvents one, DecodeEvents(*answer));
    events.push_back(std::move(one));
  }
  return events;
}

// The sum over all nodes; done when all are.
absl::StatusOr<ScrubState> ClusterAdmin::PollScrub(const std::string& id) {
  RING_ASSIGN_OR_RETURN(const std::vector<std::string> answers,
                        AskAll(ControlType::kScrubPoll, id));
  ScrubState sum;
  sum.done = true;
  for (const std::string& answer : answers) {
    RING_ASSIGN_OR_RETURN(const ScrubState one, DecodeScrubState(answer));
    RING_RETURN_IF_ERROR(one.status);
    sum.done &= one.done;
    sum.progress.checked += one.progress.checked;
    sum.progress.total += one.progress.total;
    sum.report.values_checked += one.report.values_checked;
    sum.report.replicas_checked += one.report.replicas_checked;
    sum.report.rows_checked += one.report.rows_checked;
    sum.report.mismatches += one.report.mismatches;
    for (const std::string& detail : one.report.details) {
      if (sum.report.details.size() < kScrubDetailsMax) sum.report.details.push_back(detail);
    }
  }
  return sum;
}

absl::StatusOr<ScrubReport> ClusterAdmin::Scrub(
    absl::FunctionRef<bool(const ScrubProgress&)> progress) {
  std::random_device entropy;
  const std::string id = EncodeScrubNumber((std::uint64_t{entropy()} << 32) | entropy());
  absl::StatusOr<ScrubReport> result = absl::CancelledError("the scrub was stopped");
  absl::Status status = AskAll(ControlType::kScrubStart, id).status();
  while (status.ok()) {
    absl::StatusOr<ScrubState> state = PollScrub(id);
    if (!state.ok()) {
      status = state.status();
      break;
    }
    if (!progress(state->progress)) break;
    if (state->done) {
      result = std::move(state->report);
      break;
    }
    absl::SleepFor(kScrubPollPeriod);
  }
  AskAll(ControlType::kScrubStop, id).status().IgnoreError();  // else it ends by itself
  if (!status.ok()) return status;
  return result;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AdminPort>> StartClusterAdmin(
    std::vector<Reactor*> reactors, std::shared_ptr<const cluster::View> view) {
  return std::make_unique<ClusterAdmin>(std::move(reactors), std::move(view));
}

}  // namespace ring::node
