// ring/node/recovery/room_pause.h — how long who has no memory for what comes asks for nothing.
//
// What:      RoomPause: values that were fetched and have no room are fetched again, and cross the
//            network in vain. Each time that happens the pause doubles; once something had room it
//            is over.
// Shape:     one for each shard whose values are fetched. Several values that were under way
//            together count once.
// Units:     nanoseconds of the caller's clock.
// Ownership: values.
// Threads:   pure.
// Errors:    none.
// Source:    fault F11.
#ifndef RING_NODE_RECOVERY_ROOM_PAUSE_H_
#define RING_NODE_RECOVERY_ROOM_PAUSE_H_

#include <algorithm>
#include <cstdint>

namespace ring::node {

class RoomPause {
 public:
  static constexpr std::uint64_t kMinNs = 20'000'000;
  static constexpr std::uint64_t kMaxNs = 2'000'000'000;

  // Whether it is worth telling: there was room before.
  bool OnNoRoom(std::uint64_t now_ns) {
    const bool is_news = length_ns_ == 0;
    if (!over(now_ns)) return false;
    length_ns_ = std::clamp(2 * length_ns_, kMinNs, kMaxNs);
    until_ns_ = now_ns + length_ns_;
    return is_news;
  }
  void OnRoom() { length_ns_ = until_ns_ = 0; }
  bool over(std::uint64_t now_ns) const { return now_ns >= until_ns_; }

 private:
  std::uint64_t length_ns_ = 0;
  std::uint64_t until_ns_ = 0;
};

}  // namespace ring::node

#endif  // RING_NODE_RECOVERY_ROOM_PAUSE_H_
