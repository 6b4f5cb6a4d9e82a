// ring/base/pace.h — how fast work in the background may go.
//
// What:      Pace: a bucket of bytes that fills with the configured rate.
// Shape:     holds at most a tenth of a second's bytes; a step may take more, and leaves a debt.
// Units:     bytes; nanoseconds of the caller's clock.
// Ownership: value; one a node, shared by everything that recovers or rebuilds on it.
// Threads:   one, the node's.
// Errors:    none.
#ifndef RING_BASE_PACE_H_
#define RING_BASE_PACE_H_

#include <algorithm>
#include <cstdint>

namespace ring {

class Pace {
 public:
  explicit Pace(std::uint64_t bytes_per_second) : rate_(bytes_per_second) {}

  // Whether something may begin now. What it costs may be more than what is left: then others wait
  // for longer.
  bool Ready(std::uint64_t now_ns) {
    const std::uint64_t passed_ns = now_ns - std::min(now_ns, filled_ns_);
    const std::uint64_t full = rate_ / 10;
    const double added = static_cast<double>(passed_ns) * 1e-9 * static_cast<double>(rate_);
    left_ = std::min(left_ + added, static_cast<double>(full));
    filled_ns_ = std::max(filled_ns_, now_ns);
    return left_ > 0;
  }
  // What operations wait for is taken, too, without asking first.
  void Take(std::uint64_t bytes) { left_ -= static_cast<double>(bytes); }

 private:
  std::uint64_t rate_;
  double left_ = 0;
  std::uint64_t filled_ns_ = 0;
};

}  // namespace ring

#endif  // RING_BASE_PACE_H_
