// ring/node/control/answer_times.h — how long a peer takes to answer, and is waited for.
//
// What:      Links are reliable and in order: what is asked twice waits behind what was asked, and
//            takes the room of others. AnswerTimes stretches the time-out of the next question to
//            twice what answers took of late, and doubles it where none came at all.
// Shape:     one for each peer, of its present connection; by type of message, as a decode takes
//            longer than a piece of a value. For callers who say so: bulk, and nobody else to be
//            asked for it. What else waits for an answer means its time-out.
// Units:     nanoseconds of the caller's clock.
// Ownership: values.
// Threads:   one, the node's.
// Errors:    none.
// Cost:      one comparison a call.
// Source:    RFC 6298, sections 2 and 5.5 (retransmission of TCP); fault F11.
#ifndef RING_NODE_CONTROL_ANSWER_TIMES_H_
#define RING_NODE_CONTROL_ANSWER_TIMES_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "ring/node/control/control_message.h"

namespace ring::node {

class AnswerTimes {
 public:
  // No answer is waited for longer, unless its caller's time-out is.
  static constexpr std::uint64_t kStretchedMaxNs = 8'000'000'000;

  std::uint64_t Stretched(ControlType type, std::uint64_t timeout_ns) const {
    return std::max(timeout_ns, std::min(2 * took_ns_[Index(type)], kStretchedMaxNs));
  }
  // An answer came, were it too late; a slow one counts at once, and is forgotten by and by.
  void OnAnswer(ControlType type, std::uint64_t took_ns) {
    std::uint64_t& known = took_ns_[Index(type)];
    known = std::max(took_ns, known - known / 8 + took_ns / 8);
  }
  // None came for so long.
  void OnTimeout(ControlType type, std::uint64_t waited_ns) {
    std::uint64_t& known = took_ns_[Index(type)];
    known = std::max(known, waited_ns);
  }
  void Forget() { took_ns_ = {}; }

 private:
  static std::size_t Index(ControlType type) { return static_cast<std::size_t>(type); }

  std::array<std::uint64_t, kControlTypeCount> took_ns_ = {};
};

}  // namespace ring::node

#endif  // RING_NODE_CONTROL_ANSWER_TIMES_H_
