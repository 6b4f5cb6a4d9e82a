#include "ring/node/cluster_admin.h"

#include <utility>

namespace ring::node {
namespace {

class ClusterAdmin final : public AdminPort {
 public:
  explicit ClusterAdmin(std::vector<Reactor*> reactors, std::shared_ptr<const cluster::View> view)
      : reactors_(std::move(reactors)), view_(std::move(view)) {
    for (Reactor* const reactor : reactors_) {
      reactor->Post([reactor, view = view_] {
        for (const std::unique_ptr<Node>& node : reactor->nodes()) node->ApplyView(view);
      });
    }
  }
  std::shared_ptr<const cluster::View> GetView() override { return view_; }
  absl::StatusOr<protocol::MemgestDescriptor> CreateMemgest(
      const AdminRequestId&, const protocol::MemgestDescriptor&) override {
    return absl::UnavailableError("catalogue changes need the control plane");
  }
  absl::Status DeleteMemgest(const AdminRequestId&, absl::string_view, bool) override {
    return absl::UnavailableError("catalogue changes need the control plane");
  }
  absl::Status SetDefaultMemgest(const AdminRequestId&, absl::string_view) override {
    return absl::UnavailableError("catalogue changes need the control plane");
  }
  absl::StatusOr<ClusterStats> GetStats() override { return ClusterStats(); }
  absl::StatusOr<ScrubReport> Scrub(absl::FunctionRef<bool(const ScrubProgress&)>) override {
    return ScrubReport();
  }

 private:
  std::vector<Reactor*> reactors_;
  std::shared_ptr<const cluster::View> view_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<AdminPort>> StartClusterAdmin(
    std::vector<Reactor*> reactors, std::shared_ptr<const cluster::View> view, const Clock*) {
  return std::make_unique<ClusterAdmin>(std::move(reactors), std::move(view));
}

}  // namespace ring::node
