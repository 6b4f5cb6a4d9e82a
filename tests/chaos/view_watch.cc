#include "tests/chaos/view_watch.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "ring/base/check.h"
#include "tools/common/protection.h"
#include "tools/common/ticks.h"

namespace ring::chaos {
namespace {

constexpr absl::Duration kPause = absl::Milliseconds(20);
constexpr absl::Duration kPatience = absl::Milliseconds(300);

std::unique_ptr<admin::AdminClient> NewClient(std::vector<std::string> addresses,
                                              absl::Duration attempt, absl::Duration deadline) {
  admin::AdminClientOptions options;
  options.addresses = std::move(addresses);
  options.attempt_deadline = attempt;
  options.deadline = deadline;
  absl::StatusOr<std::unique_ptr<admin::AdminClient>> client = admin::AdminClient::Create(options);
  RING_CHECK(client.ok()) << client.status();
  return *std::move(client);
}

}  // namespace

ViewWatch::ViewWatch(const std::vector<std::string>& admin_addresses, int time_factor)
    : late_max_ns_(kLateMaxNs * static_cast<std::uint64_t>(time_factor)) {
  const absl::Duration patience = kPatience * time_factor;
  for (const std::string& address : admin_addresses) {
    admins_.push_back(NewClient({address}, patience, patience));
  }
  any_ = NewClient(admin_addresses, absl::Seconds(1) * time_factor, absl::Seconds(5) * time_factor);
  thread_ = std::thread([this] { Run(); });
}

ViewWatch::~ViewWatch() {
  stop_ = true;
  thread_.join();
}

void ViewWatch::Run() {
  for (std::size_t next = 0; !stop_; next = (next + 1) % admins_.size()) {
    absl::StatusOr<cluster::View> view = admins_[next]->GetClusterView();
    if (view.ok()) Take(*std::move(view));
    absl::SleepFor(kPause);
  }
}

void ViewWatch::Take(cluster::View view) {
  const std::uint64_t now_ns = tools::MonotonicNs();
  MutexLock lock(mutex_);
  if (view_ != nullptr && view.epoch <= view_->epoch) return;
  for (std::size_t g = 0; view_ != nullptr && g < view.groups.size(); ++g) {
    const cluster::GroupView& before = view_->groups[g];
    const cluster::GroupView& after = view.groups[g];
    for (std::size_t i = 0; i < static_cast<std::size_t>(view.s); ++i) {
      if (before.roles[i] == after.roles[i] && before.incarnations[i] == after.incarnations[i])
        continue;
      losses_.push_back(
          {{GroupId(static_cast<std::uint16_t>(g)), ShardId(static_cast<std::uint16_t>(i))},
           after.epoch,
           now_ns - std::min(now_ns, late_max_ns_),
           now_ns});
    }
  }
  view_ = std::make_shared<const cluster::View>(std::move(view));
}

std::shared_ptr<const cluster::View> ViewWatch::view() const {
  MutexLock lock(mutex_);
  return view_;
}

std::vector<OwnerLoss> ViewWatch::losses() const {
  MutexLock lock(mutex_);
  return losses_;
}

std::string ViewWatch::Unprotected() const {
  return view() == nullptr ? "no node gave a view yet" : tools::Unprotected(any_->GetHealth());
}

NodeId ViewWatch::Leader() const {
  const absl::StatusOr<cluster::Health> health = any_->GetHealth();
  return health.ok() ? health->leader : cluster::kNoNode;
}

absl::Status ViewWatch::WaitProtected(absl::Duration timeout) const {
  return tools::WaitProtected([this] { return Unprotected(); }, timeout);
}

}  // namespace ring::chaos
