#include "rdma/soft/hot_sockets.h"

#include <algorithm>

namespace ring::rdma::soft {
namespace {

// Turns wrap.
bool Before(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) < 0; }

}  // namespace

void HotSockets::Touch(FdHandler* handler, std::uint32_t turn, std::uint32_t stay) {
  Entry* place = nullptr;  // the one that ends first
  for (std::size_t i = 0; i < count_; ++i) {
    Entry& entry = entries_[i];
    if (entry.handler == handler) {
      entry.until = turn + stay;
      return;
    }
    if (place == nullptr || Before(entry.until, place->until)) place = &entry;
  }
  if (count_ < entries_.size()) place = &entries_[count_++];
  *place = {handler, turn + stay};
}

void HotSockets::Forget(FdHandler* handler) {
  for (std::size_t i = 0; i < count_; ++i) {
    if (entries_[i].handler == handler) entries_[i] = entries_[--count_];
  }
}

bool HotSockets::IsHot(const FdHandler* handler) const {
  return std::any_of(entries_.begin(), entries_.begin() + count_,
                     [&](const Entry& entry) { return entry.handler == handler; });
}

bool HotSockets::Receive(std::uint32_t turn) {
  for (std::size_t i = 0; i < count_;) {
    if (Before(entries_[i].until, turn)) {
      entries_[i] = entries_[--count_];
    } else {
      ++i;
    }
  }
  look_due_ = count_ == 0 || count_ > kHotMax || ++since_look_ >= period_;
  if (look_due_) return false;
  bool came = false;
  // What is received may end connections, and make others hot.
  const std::array<Entry, kHotMax + 1> round = entries_;
  const std::size_t count = count_;
  for (std::size_t i = 0; i < count; ++i) {
    if (IsHot(round[i].handler)) came |= round[i].handler->ReceiveNow();
  }
  return came;
}

void HotSockets::Looked(bool found_other) {
  since_look_ = 0;
  if (found_other) {
    period_ = 1;
    clean_looks_ = 0;
  } else if (++clean_looks_ >= kCleanLooks) {
    clean_looks_ = 0;
    period_ = std::min(period_ * 2, kPeriodMax);
  }
}

}  // namespace ring::rdma::soft
