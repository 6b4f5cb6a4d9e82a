#include "ring/node/cluster_admin.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ring/base/status.h"
#include "ring/base/sync.h"
#include "ring/node/control_change.h"
#include "ring/node/control_services.h"
#include "ring/node/scrub_message.h"
#include "ring/node/stats.h"

namespace ring::node {
namespace {

constexpr std::uint64_t kAskTimeoutNs = 5'000'000'000;
// A delete may drain for 10 s, a forced one for 60 s, and changes wait for each other.
constexpr std::uint64_t kChangeTimeoutNs = 120'000'000'000;
constexpr absl::Duration kScrubPollPeriod = absl::Milliseconds(10);
constexpr absl::Duration kPatience = absl::Seconds(10);  // beyond the calls' own deadlines

// What a node's thread gives to the caller's. Whoever comes late finds nobody.
template <class T>
class Result {
 public:
  void Set(absl::StatusOr<T> value) {
    MutexLock lock(mutex_);
    value_ = std::move(value);
    set_ = true;
    done_.NotifyAll();
  }
  absl::StatusOr<T> Wait(absl::Duration timeout) {
    const absl::Time deadline = absl::Now() + timeout;
    MutexLock lock(mutex_);
    while (!set_ && absl::Now() < deadline)
      done_.WaitFor(mutex_, absl::ToChronoNanoseconds(deadline - absl::Now()));
    if (!set_) return absl::DeadlineExceededError("the node did not answer: it may have stopped");
    return std::move(value_);
  }

 private:
  Mutex mutex_;
  CondVar done_;
  bool set_ ABSL_GUARDED_BY(mutex_) = false;
  absl::StatusOr<T> value_ ABSL_GUARDED_BY(mutex_) = absl::UnknownError("");
};

class ClusterAdmin final : public AdminPort {
 public:
  ClusterAdmin(std::vector<Reactor*> reactors, std::shared_ptr<const cluster::View> view)
      : reactors_(std::move(reactors)), view_(std::move(view)) {
    for (Reactor* const reactor : reactors_) {
      reactor->Post([reactor, view = view_] {
        for (const std::unique_ptr<Node>& node : reactor->nodes()) node->ApplyView(view);
      });
    }
  }

  std::shared_ptr<const cluster::View> GetView() override;
  absl::StatusOr<protocol::MemgestDescriptor> CreateMemgest(
      const AdminRequestId& id, const protocol::MemgestDescriptor& descriptor) override;
  absl::Status DeleteMemgest(const AdminRequestId& id, absl::string_view name, bool force) override;
  absl::Status SetDefaultMemgest(const AdminRequestId& id, absl::string_view name) override;
  absl::StatusOr<ClusterStats> GetStats() override;
  absl::StatusOr<ScrubReport> Scrub(
      absl::FunctionRef<bool(const ScrubProgress&)> progress) override;

 private:
  // Runs call(node, result) on the thread of the first node here; it sets the result now or later.
  template <class T, class Call>
  absl::StatusOr<T> Ask(absl::Duration timeout, Call call) {
    auto result = std::make_shared<Result<T>>();
    Reactor* const reactor = reactors_.front();
    reactor->Post([reactor, result, call = std::move(call)]() mutable {
      call(*reactor->nodes().front(), result);
    });
    return result->Wait(timeout);
  }
  // What every node answers, by node; the first error of one names it.
  absl::StatusOr<std::vector<std::string>> AskAll(ControlType type, const std::string& body);
  absl::StatusOr<std::string> Change(CatalogueChange change);
  absl::StatusOr<ScrubState> PollScrub(const std::string& id);

  std::vector<Reactor*> reactors_;
  std::shared_ptr<const cluster::View> view_;  // the first
};

std::shared_ptr<const cluster::View> ClusterAdmin::GetView() {
  using Shared = std::shared_ptr<const cluster::View>;
  absl::StatusOr<Shared> view = Ask<Shared>(
      kPatience,
      [](Node& node, const std::shared_ptr<Result<Shared>>& result) { result->Set(node.view()); });
  return view.ok() && *view != nullptr ? *view : view_;
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

absl::StatusOr<std::vector<std::string>> ClusterAdmin::AskAll(ControlType type,
                                                              const std::string& body) {
  using All = std::vector<std::string>;
  struct Round {
    All answers;
    absl::Status status;
    std::size_t left = 0;
  };
  return Ask<All>(absl::Nanoseconds(kAskTimeoutNs) + kPatience,
                  [type, body](Node& node, const std::shared_ptr<Result<All>>& result) {
                    auto round = std::make_shared<Round>();
                    round->left = node.control().node_count();
                    round->answers.resize(round->left);
                    for (std::size_t i = 0; i < round->answers.size(); ++i) {
                      node.control().Call(
                          NodeId(static_cast<std::uint32_t>(i)), type, body, kAskTimeoutNs,
                          [round, result, i](absl::StatusOr<std::string> answer) {
                            if (answer.ok()) {
                              round->answers[i] = *std::move(answer);
                            } else {
                              round->status.Update(absl::Status(
                                  answer.status().code(),
                                  absl::StrCat("node ", i, ": ", answer.status().message())));
                            }
                            if (--round->left > 0) return;
                            if (!round->status.ok()) return result->Set(round->status);
                            result->Set(std::move(round->answers));
                          });
                    }
                  });
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
    std::vector<Reactor*> reactors, std::shared_ptr<const cluster::View> view, const Clock*) {
  return std::make_unique<ClusterAdmin>(std::move(reactors), std::move(view));
}

}  // namespace ring::node
