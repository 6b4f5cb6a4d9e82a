// rdma/soft/mailbox_pool.h — which mailboxes of a device are free.
//
// What:      hands out mailbox indices with fresh keys. A mailbox is used again only when its queue
//            pair is gone and its peer said that it lets go (or is known to be dead): a peer
//            stopped in mid-SEND must not write into the next connection's mailbox.
// Threads:   the device's.
// Errors:    kResourceExhausted.
#ifndef RING_RDMA_SOFT_MAILBOX_POOL_H_
#define RING_RDMA_SOFT_MAILBOX_POOL_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace ring::rdma::soft {

class MailboxPool {
 public:
  struct Name {
    std::uint32_t index = 0;
    std::uint32_t key = 0;
  };

  explicit MailboxPool(std::uint32_t count) : states_(count) {
    for (std::uint32_t i = 0; i < count; ++i) free_.push_back(i);
  }

  absl::StatusOr<Name> Take() {
    if (free_.empty()) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "no free mailbox: qp_count_max=", states_.size(), " queue pairs, or peers that hold on"));
    }
    const std::uint32_t index = free_.front();
    free_.pop_front();
    if (++last_key_ == 0) ++last_key_;
    states_[index] = {last_key_, true, false};
    return Name{index, last_key_};
  }
  // A peer learned the mailbox's name.
  void AttachPeer(const Name& name) {
    if (states_[name.index].key == name.key) states_[name.index].peer = true;
  }
  void DetachPeer(const Name& name) {
    if (name.index >= states_.size() || states_[name.index].key != name.key) return;
    states_[name.index].peer = false;
    left_.erase(name.key);
    FreeIfUnused(name.index);
  }
  void Release(const Name& name) {
    states_[name.index].owner = false;
    if (states_[name.index].peer) left_.insert(name.key);
    FreeIfUnused(name.index);
  }
  // Of a mailbox whose queue pair is gone: its peer has not let go.
  bool IsLeftToPeer(std::uint32_t key) const { return left_.contains(key); }

 private:
  struct State {
    std::uint32_t key = 0;
    bool owner = false;
    bool peer = false;
  };
  void FreeIfUnused(std::uint32_t index) {
    State& state = states_[index];
    if (state.key == 0 || state.owner || state.peer) return;
    state.key = 0;
    free_.push_back(index);
  }

  std::vector<State> states_;
  std::deque<std::uint32_t> free_;
  absl::flat_hash_set<std::uint32_t> left_;  // keys
  std::uint32_t last_key_ = 0;
};

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_MAILBOX_POOL_H_
