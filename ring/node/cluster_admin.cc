#include "ring/node/cluster_admin.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ring/base/status.h"
#include "ring/base/sync.h"
#include "ring/node/control_change.h"
#include "ring/node/control_services.h"
#include "ring/node/stats.h"

namespace ring::node {
namespace {

constexpr std::uint64_t kStatsTimeoutNs = 5'000'000'000;
// A delete may drain for 10 s, a forced one for 60 s, and changes wait for each other.
constexpr std::uint64_t kChangeTimeoutNs = 120'000'000'000;
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
  absl::StatusOr<ScrubReport> Scrub(absl::FunctionRef<bool(const ScrubProgress&)>) override {
    return ScrubReport();
  }

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
  absl::StatusOr<std::string> Change(CatalogueChange change);

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
            node.services().catalogue().Leader(), ControlType::kCatalogue, std::move(body),
            kChangeTimeoutNs,
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

absl::StatusOr<ClusterStats> ClusterAdmin::GetStats() {
  struct Gathered {
    ClusterStats stats;
    absl::Status status;
    std::size_t left = 0;
  };
  return Ask<ClusterStats>(
      absl::Nanoseconds(kStatsTimeoutNs) + kPatience,
      [](Node& node, const std::shared_ptr<Result<ClusterStats>>& result) {
        auto all = std::make_shared<Gathered>();
        all->left = node.control().node_count();
        for (std::size_t i = 0; i < node.control().node_count(); ++i) {
          node.control().Call(NodeId(static_cast<std::uint32_t>(i)), ControlType::kStats, "",
                              kStatsTimeoutNs, [all, result](absl::StatusOr<std::string> answer) {
                                absl::StatusOr<NodeReport> report =
                                    answer.ok() ? DecodeReport(*answer) : answer.status();
                                if (report.ok()) AddReport(*report, &all->stats);
                                all->status.Update(report.status());
                                if (--all->left > 0) return;
                                if (!all->status.ok()) return result->Set(all->status);
                                result->Set(std::move(all->stats));
                              });
        }
      });
}

}  // namespace

absl::StatusOr<std::unique_ptr<AdminPort>> StartClusterAdmin(
    std::vector<Reactor*> reactors, std::shared_ptr<const cluster::View> view, const Clock*) {
  return std::make_unique<ClusterAdmin>(std::move(reactors), std::move(view));
}

}  // namespace ring::node
