#include "rdma/soft/hot_sockets.h"

#include <algorithm>

namespace ring::rdma::soft {
namespace {

// Turns wrap.
bool Before(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) < 0; }

}  // namespace

HotSockets::Owed* HotSockets::FindOwed(const HotSocket* socket) {
  Owed* const end = owed_.data() + owed_count_;
  Owed* const found =
      std::find_if(owed_.data(), end, [socket](const Owed& owed) { return owed.socket == socket; });
  return found == end ? nullptr : found;
}

void HotSockets::Came(HotSocket* socket, std::uint32_t turn) {
  ++batches_;
  if (Owed* const owed = FindOwed(socket); owed != nullptr) owed->until = turn + kStayAfterAnswer;
  socket->credit_ = std::min(socket->credit_ + 1, kCreditMax);
  if (socket->credit_ < kMissCost || socket->listed_) return;
  socket->listed_ = true;
  busy_.push_back(socket);
}

void HotSockets::Expect(HotSocket* socket, std::uint32_t turn) {
  Owed* place = FindOwed(socket);
  if (place == nullptr && owed_count_ < owed_.size()) place = &owed_[owed_count_++];
  if (place == nullptr) {
    place = &*std::min_element(owed_.begin(), owed_.end(), [](const Owed& a, const Owed& b) {
      return Before(a.until, b.until);
    });
  }
  *place = {socket, turn + kStayForAnswer};
}

void HotSockets::Unlist(HotSocket* socket) {
  if (!socket->listed_) return;
  socket->listed_ = false;
  *std::find(busy_.begin(), busy_.end(), socket) = busy_.back();
  busy_.pop_back();
}

void HotSockets::Forget(HotSocket* socket) {
  Unlist(socket);
  socket->credit_ = 0;
  if (Owed* const owed = FindOwed(socket); owed != nullptr) *owed = owed_[--owed_count_];
}

bool HotSockets::IsHot(const HotSocket* socket) {
  return socket->listed_ || FindOwed(socket) != nullptr;
}

bool HotSockets::Receive(std::uint32_t turn) {
  tried_ = false;
  const bool came = ReceiveFromBusy() || ReceiveFromOwed(turn);
  if (!came) ++quiet_turns_;
  look_due_ =
      !tried_ || found_other_ || batches_ >= kBatchesPerLook || (!came && quiet_turns_ >= period_);
  return came;
}

bool HotSockets::ReceiveFromBusy() {
  bool came = false;
  std::size_t left = std::min(busy_.size(), kTriesMax);
  tried_ = left != 0;
  while (left != 0) {
    next_ %= busy_.size();
    HotSocket* const socket = busy_[next_];
    const bool brought = socket->ReceiveNow();
    came |= brought;
    --left;
    // It may have ended, and others with it.
    bool stays = next_ < busy_.size() && busy_[next_] == socket;
    if (stays && !brought) socket->credit_ -= kMissCost;
    if (stays && socket->credit_ < kMissCost) {
      Unlist(socket);  // another has taken its place
      stays = false;
    }
    if (stays) ++next_;
    left = std::min(left, busy_.size() - (stays ? 1 : 0));
  }
  return came;
}

bool HotSockets::ReceiveFromOwed(std::uint32_t turn) {
  for (std::size_t i = 0; i < owed_count_;) {
    if (Before(owed_[i].until, turn)) {
      owed_[i] = owed_[--owed_count_];
    } else {
      ++i;
    }
  }
  if (owed_count_ > kOwedMax) return false;
  bool came = false;
  // What is received may end connections, and make others hot.
  const std::array<Owed, kOwedMax + 1> round = owed_;
  const std::size_t count = owed_count_;
  for (std::size_t i = 0; i < count; ++i) {
    HotSocket* const socket = round[i].socket;
    if (FindOwed(socket) == nullptr || socket->listed_) continue;
    tried_ = true;
    came |= socket->ReceiveNow();
  }
  return came;
}

void HotSockets::Looked() {
  batches_ = 0;
  quiet_turns_ = 0;
  found_other_ = false;
  if (++clean_looks_ < kCleanLooks) return;
  clean_looks_ = 0;
  period_ = std::min(period_ * 2, kPeriodMax);
}

void HotSockets::Found(const HotSocket* socket) {
  if (IsHot(socket)) return;
  found_other_ = true;
  period_ = 1;
  clean_looks_ = 0;
}

}  // namespace ring::rdma::soft
