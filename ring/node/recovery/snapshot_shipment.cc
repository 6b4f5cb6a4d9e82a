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
                                   const recovery::InstallRequest& place, Next next, Done done)
    : send_(std::move(send)),
      now_(std::move(now)),
      pace_(pace),
      place_(place),
      next_(std::move(next)),
      done_(std::move(done)) {}

void SnapshotShipment::Progress(std::uint64_t now_ns, bool hurries) {
  if (taken_ns_ == 0) taken_ns_ = unrefused_ns_ = now_ns;
  hurries_ = hurries;
  if (over_ || asked_ || now_ns < retry_ns_) return;
  SendAtPace(now_ns);
}

void SnapshotShipment::SendAtPace(std::uint64_t now_ns) {
  if (!hurries_ && !pace_->Ready(now_ns)) return;
  if (piece_.bytes.empty()) {
    absl::StatusOr<memgest::SnapshotPiece> piece = next_();
    if (!piece.ok()) return End(piece.status());
    piece_ = *std::move(piece);
  }
  pace_->Take(piece_.bytes.size());
  SendPiece();
}

void SnapshotShipment::SendPiece() {
  place_.piece = piece_.bytes;
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
    piece_.bytes.clear();
    taken_ns_ = unrefused_ns_ = now_();
    if (!piece_.last) return SendAtPace(now_());
  } else if (GoesOn(status)) {
    if (absl::IsDeadlineExceeded(status)) unrefused_ns_ = now_();
    retry_ns_ = now_() + kRetryNs;
    return;
  }
  End(status);
}

void SnapshotShipment::End(const absl::Status& status) {
  over_ = true;
  const Done done = std::move(done_);
  done(status);  // may end this
}

}  // namespace ring::node
