#include "ring/node/recovery/snapshot_shipment.h"

#include <utility>

namespace ring::node {
namespace {

constexpr std::uint64_t kInstallTimeoutNs = 500'000'000;
constexpr std::uint64_t kRetryNs = 2'000'000;

// The same piece is welcome later.
bool Passes(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) ||
         absl::IsFailedPrecondition(status);
}

}  // namespace

SnapshotShipment::SnapshotShipment(ControlPort* control, NodeId to,
                                   const recovery::InstallRequest& place,
                                   memgest::Snapshot snapshot, Done done)
    : control_(control),
      to_(to),
      place_(place),
      snapshot_(std::move(snapshot)),
      done_(std::move(done)) {}

void SnapshotShipment::Progress(std::uint64_t now_ns) {
  if (taken_ns_ == 0) taken_ns_ = unrefused_ns_ = now_ns;
  if (over_ || asked_ || now_ns < retry_ns_) return;
  Send();
}

void SnapshotShipment::Send() {
  place_.piece = snapshot_.pieces[next_];
  asked_ = true;
  control_->Call(
      to_, ControlType::kInstall, recovery::EncodeInstallRequest(place_), kInstallTimeoutNs,
      [this, alive = std::weak_ptr<bool>(alive_)](const absl::StatusOr<std::string>& answer) {
        if (!alive.expired()) OnAnswer(answer.status());
      },
      CallWait::kForTheSlow);
}

bool SnapshotShipment::GoesOn(const absl::Status& status) const {
  const std::uint64_t now_ns = control_->now_ns();
  if (absl::IsDeadlineExceeded(status)) return now_ns - taken_ns_ < kSilenceNs;
  return Passes(status) && now_ns - unrefused_ns_ < kPatienceNs;
}

void SnapshotShipment::OnAnswer(const absl::Status& status) {
  asked_ = false;
  if (status.ok()) {
    snapshot_.pieces[next_] = std::string();
    taken_ns_ = unrefused_ns_ = control_->now_ns();
    if (++next_ < snapshot_.pieces.size()) return Send();
  } else if (GoesOn(status)) {
    if (absl::IsDeadlineExceeded(status)) unrefused_ns_ = control_->now_ns();
    retry_ns_ = control_->now_ns() + kRetryNs;
    return;
  }
  over_ = true;
  const Done done = std::move(done_);
  done(status);  // may end this
}

}  // namespace ring::node
