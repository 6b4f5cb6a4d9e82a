#include "tests/sim/sim_admin.h"

#include <utility>

#include "ring/node/control_services.h"

namespace ring::sim {
namespace {
constexpr std::uint64_t kChangeTimeoutNs = 120'000'000'000;
constexpr std::uint64_t kAskTimeoutNs = 5'000'000'000;
constexpr std::uint64_t kAgainNs = 20'000'000;

// Calls of a node that is lost are dropped: who waits for one is told all the same.
class Told {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::string>)>;
  explicit Told(Done done) : done_(std::move(done)) {}
  Told(Told&& other) noexcept : done_(std::exchange(other.done_, nullptr)) {}
  Told& operator=(Told&&) = delete;
  ~Told() {
    if (done_ != nullptr) done_(absl::UnavailableError("the node that was asked is lost"));
  }
  void operator()(absl::StatusOr<std::string> answer) {
    std::exchange(done_, nullptr)(std::move(answer));
  }

 private:
  Done done_;
};

}  // namespace

SimNode* SimAdmin::NodeToAsk() const {
  for (std::size_t i = 0; i < nodes_->size(); ++i) {
    SimNode* const node = (*nodes_)[(first_ + i) % nodes_->size()].get();
    if (node->up() && !node->paused()) return node;
  }
  return nullptr;
}

void SimAdmin::Change(node::CatalogueChange change, absl::AnyInvocable<void(absl::Status)> done) {
  change.id = {"0123456789abcdef0123456789abcdef", next_seq_++};
  Ask(std::move(change), std::move(done));
}

void SimAdmin::Ask(node::CatalogueChange change, absl::AnyInvocable<void(absl::Status)> done) {
  SimNode* const asked = NodeToAsk();
  std::string body = node::EncodeChange(change);
  Told told([this, change = std::move(change),
             done = std::move(done)](const absl::StatusOr<std::string>& answer) mutable {
    const bool unsure =
        absl::IsUnavailable(answer.status()) || absl::IsDeadlineExceeded(answer.status());
    if (!unsure || !asks_again_) return done(answer.status());
    unsure_.push_back({std::move(change), std::move(done), answer.status()});
  });
  if (asked == nullptr) return told(absl::UnavailableError("no node is up"));
  node::Node& node = asked->node();
  node.control().Call(node.membership().leader(), node::ControlType::kCatalogue, std::move(body),
                      kChangeTimeoutNs, std::move(told));
  asked->Touch();
}

void SimAdmin::AskAgain(std::uint64_t now_ns) {
  asks_again_ = true;
  if (now_ns < again_ns_) return;
  again_ns_ = now_ns + kAgainNs;
  for (Unsure& one : std::exchange(unsure_, {})) Ask(std::move(one.change), std::move(one.done));
}

void SimAdmin::StopAsking() {
  asks_again_ = false;
  for (Unsure& one : std::exchange(unsure_, {})) one.done(one.status);
}

void SimAdmin::Create(const protocol::MemgestDescriptor& descriptor,
                      absl::AnyInvocable<void(absl::Status)> done) {
  node::CatalogueChange change;
  change.kind = node::ChangeKind::kCreate;
  change.descriptor = descriptor;
  Change(std::move(change), std::move(done));
}

void SimAdmin::Delete(const std::string& name, bool force,
                      absl::AnyInvocable<void(absl::Status)> done) {
  node::CatalogueChange change;
  change.kind = node::ChangeKind::kDelete;
  change.name = name;
  change.force = force;
  Change(std::move(change), std::move(done));
}

void SimAdmin::SetDefault(const std::string& name, absl::AnyInvocable<void(absl::Status)> done) {
  node::CatalogueChange change;
  change.kind = node::ChangeKind::kSetDefault;
  change.name = name;
  Change(std::move(change), std::move(done));
}

void SimAdmin::AskAll(node::ControlType type, const std::shared_ptr<Scrub>& scrub) {
  SimNode* const asked = NodeToAsk();
  if (asked == nullptr) {
    scrub->status.Update(absl::UnavailableError("no node is up"));
    return;
  }
  node::Node& node = asked->node();
  std::vector<NodeId> asked_nodes;
  for (const cluster::NodeInfo& one : node.view()->nodes) {
    if (one.status != cluster::NodeStatus::kRemoved) asked_nodes.push_back(one.id);
  }
  scrub->awaited = asked_nodes.size();
  scrub->all_done = true;
  scrub->round = {};
  for (const NodeId one : asked_nodes) {
    node.control().Call(one, type, scrub->id, kAskTimeoutNs,
                        Told([scrub, type](const absl::StatusOr<std::string>& answer) {
                          --scrub->awaited;
                          scrub->status.Update(answer.status());
                          scrub->started |= scrub->awaited == 0 && scrub->status.ok();
                          if (!answer.ok() || type != node::ControlType::kScrubPoll) return;
                          absl::StatusOr<node::ScrubState> state = node::DecodeScrubState(*answer);
                          scrub->status.Update(state.status());
                          if (!state.ok()) return;
                          scrub->status.Update(state->status);
                          scrub->all_done &= state->done;
                          scrub->round.values_checked += state->report.values_checked;
                          scrub->round.replicas_checked += state->report.replicas_checked;
                          scrub->round.rows_checked += state->report.rows_checked;
                          scrub->round.mismatches += state->report.mismatches;
                          for (std::string& detail : state->report.details)
                            scrub->round.details.push_back(std::move(detail));
                          if (scrub->awaited > 0 || !scrub->all_done) return;
                          scrub->done = true;
                          scrub->sum = scrub->round;
                        }));
  }
  asked->Touch();
}

void SimAdmin::StartScrub(std::uint64_t id) {
  scrub_ = std::make_shared<Scrub>();
  scrub_->id = node::EncodeScrubNumber(id);
  AskAll(node::ControlType::kScrubStart, scrub_);
}

void SimAdmin::PollScrub() {
  if (scrub_->awaited > 0 || scrub_->done) return;
  AskAll(node::ControlType::kScrubPoll, scrub_);
}

void SimAdmin::StopScrub() {
  auto stop = std::make_shared<Scrub>();
  stop->id = scrub_->id;
  stop->status = scrub_->started ? absl::OkStatus() : absl::UnknownError("may be begun later");
  AskAll(node::ControlType::kScrubStop, stop);
  stops_.push_back(std::move(stop));
}

bool SimAdmin::StopsHeard() {
  std::erase_if(stops_, [](const std::shared_ptr<Scrub>& stop) {
    return stop->awaited == 0 && stop->status.ok();
  });
  for (const std::shared_ptr<Scrub>& stop : stops_) {
    if (stop->awaited > 0) continue;
    stop->status = absl::OkStatus();
    AskAll(node::ControlType::kScrubStop, stop);
  }
  return stops_.empty();
}

}  // namespace ring::sim
