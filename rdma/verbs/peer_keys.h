// rdma/verbs/peer_keys.h — the peer's keys, as far as this end has met them.
//
// What:      PeerKeys: which key of the peer's card stands for a key that came in a message.
// Shape:     one entry for each place of the peer's table (nic_memory.h); a key that stands at the
//            same place as another takes its place.
// Threads:   thread-compatible.
// Errors:    none.
// Cost:      Find is one load. The table is made with the first key: 48 KiB.
#ifndef RING_RDMA_VERBS_PEER_KEYS_H_
#define RING_RDMA_VERBS_PEER_KEYS_H_

#include <cstdint>
#include <vector>

#include "rdma/soft/control_layout.h"

namespace ring::rdma::verbs {

class PeerKeys {
 public:
  enum class Answer : std::uint8_t {
    kUnknown = 0,  // look into the peer's table
    kKnown = 1,
    kRefused = 2,  // it was not there: revoked, or never the peer's. A key never comes back
  };

  Answer Find(std::uint32_t key, std::uint32_t* rkey) const {
    if (key == 0) return Answer::kRefused;
    if (entries_.empty()) return Answer::kUnknown;
    const Entry& entry = entries_[key & soft::kRegionIndexMask];
    if (entry.key != key) return Answer::kUnknown;
    *rkey = entry.rkey;
    return entry.valid ? Answer::kKnown : Answer::kRefused;
  }

  // word: what stood in the peer's table at the place of this key.
  void Learn(std::uint32_t key, std::uint64_t word) {
    if (entries_.empty()) entries_.resize(soft::kRegionCountMax);
    Entry& entry = entries_[key & soft::kRegionIndexMask];
    entry = {key, static_cast<std::uint32_t>(word >> 32), static_cast<std::uint32_t>(word) == key};
  }

 private:
  struct Entry {
    std::uint32_t key = 0;
    std::uint32_t rkey = 0;
    bool valid = false;
  };
  std::vector<Entry> entries_;
};

}  // namespace ring::rdma::verbs

#endif  // RING_RDMA_VERBS_PEER_KEYS_H_
