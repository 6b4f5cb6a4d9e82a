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

SnapshotShipment::SnapshotShipment(Send send, Now now, Pace* pace,
                                   const recovery::InstallRequest& place,
                                   memgest::Snapshot snapshot, Done done)
    : send_(std::move(send)),
      now_(std::move(now)),
      pace_(pace),
      place_(place),
      snapshot_(std::move(snapshot)),
      done_(std::move(done)) {}

void SnapshotShipment::Progress(std::uint64_t now_ns, bool hurries) {
  if (taken_ns_ == 0) taken_ns_ = unrefused_ns_ = now_ns;
  hurries_ = hurries;
  if (over_ || asked_ || now_ns < retry_ns_) return;
  SendAtPace(now_ns);
}

void SnapshotShipment::SendAtPace(std::uint64_t now_ns) {
  if (!hurries_ && !pace_->Ready(now_ns)) return;
  pace_->Take(snapshot_.pieces[next_].size());
  SendPiece();
}

void SnapshotShipment::SendPiece() {
  place_.piece = snapshot_.pieces[next_];
  asked_ = true;
  send_(recovery::EncodeInstallRequest(place_), kInstallTimeoutNs,
        [this, alive = std::weak_ptr<bool>(alive_)](const absl::StatusOr<std::string>& answer) {
          if (!alive.expired()) OnAnswer(answer.status());
        });
}

bool SnapshotShipment::GoesOn(const absl::Status& status) const {
  const std::uint64_t now_ns = now_();
  if (absl::IsDeadlineExceeded(status)) return now_ns - taken_ns_ < kSilenceNs;
  return Passes(status) && now_ns - unrefused_ns_ < kPatienceNs;
}

void SnapshotShipment::OnAnswer(const absl::Status& status) {
  asked_ = false;
  if (status.ok()) {
    snapshot_.pieces[next_] = std::string();
    taken_ns_ = unrefused_ns_ = now_();
    if (++next_ < snapshot_.pieces.size()) return SendAtPace(now_());
  } else if (GoesOn(status)) {
    if (absl::IsDeadlineExceeded(status)) unrefused_ns_ = now_();
    retry_ns_ = now_() + kRetryNs;
    return;
  }
  over_ = true;
  const Done done = std::move(done_);
  done(status);  // may end this
}

}  // namespace ring::node
