// ring/base/pace.h — how fast work in the background may go.
//
// What:      Pace: a bucket of bytes that fills with the configured rate, or more slowly, but never
//            below the least one, while others want the processor.
// Shape:     holds at most what 5 ms bring. A step may take more, and leaves a debt, which is never
//            more than the largest step's, or 5 ms: what operations wait for does not stop all else
//            for long. What is small counts as kLeastCost: its messages cost that.
// Units:     bytes; nanoseconds of the caller's clock.
// Ownership: value; one a node, shared by everything that recovers or rebuilds on it.
// Threads:   one, the node's.
// Errors:    none.
#ifndef RING_BASE_PACE_H_
#define RING_BASE_PACE_H_

#include <algorithm>
#include <cstdint>
#include <utility>

namespace ring {

class Pace {
 public:
  static constexpr std::uint64_t kLeastCost = 512;

  // Bytes a second. least: as rate where that is less.
  Pace(std::uint64_t rate, std::uint64_t least)
      : rate_(rate), least_(std::min(rate, least)), now_(rate) {}

  // Whether something may begin now. What it costs may be more than what is left: then others wait
  // for longer.
  bool Ready(std::uint64_t now_ns) {
    asked_ = true;
    const std::uint64_t passed_ns = now_ns - std::min(now_ns, filled_ns_);
    const double full = static_cast<double>(now_) / kFullsPerSecond;
    const double added = static_cast<double>(passed_ns) * 1e-9 * static_cast<double>(now_);
    left_ = std::min(left_ + added, full);
    filled_ns_ = std::max(filled_ns_, now_ns);
    open_ = left_ > (open_ ? 0 : full / 4);  // several at once cost fewer messages
    waits_ |= !open_;
    return open_;
  }
  // What operations wait for is taken, too, without asking first.
  void Take(std::uint64_t bytes) {
    if (bytes == 0) return;
    const auto cost = static_cast<double>(std::max(bytes, kLeastCost));
    const double deepest = -std::max(cost, static_cast<double>(now_) / kFullsPerSecond);
    left_ = std::max(left_ - cost, std::min(left_, deepest));
  }

  // From now on this share of the rate, or the least one.
  void Slow(double share) {
    const double slower = share * static_cast<double>(rate_);
    now_ = std::clamp(static_cast<std::uint64_t>(slower), least_, rate_);
  }
  // Whether anything asked since this was called last.
  bool WasAsked() { return std::exchange(asked_, false); }
  // Whether anything had to wait since this was called last.
  bool Waits() { return std::exchange(waits_, false); }

 private:
  static constexpr double kFullsPerSecond = 200;

  std::uint64_t rate_;
  std::uint64_t least_;
  std::uint64_t now_;
  double left_ = 0;
  std::uint64_t filled_ns_ = 0;
  bool open_ = false;
  bool asked_ = false;
  bool waits_ = false;
};

}  // namespace ring

#endif  // RING_BASE_PACE_H_
