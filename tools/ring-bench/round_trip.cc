#include "tools/ring-bench/round_trip.h"

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "tools/common/ticks.h"

namespace ring::bench {
namespace {

constexpr std::uint64_t kEnd = ~std::uint64_t{0};
constexpr double kDurationMaxNs = 2e9;

struct alignas(64) Line {
  std::atomic<std::uint64_t> stamp{0};
};

// One direction: a line with the stamp, and lines of payload.
class Lane {
 public:
  explicit Lane(std::size_t size) : payload_(size + 64), outgoing_(size, 'x'), incoming_(size) {}

  void Send(std::uint64_t stamp) {
    if (!outgoing_.empty()) std::memcpy(Aligned(), outgoing_.data(), outgoing_.size());
    line_.stamp.store(stamp, std::memory_order_release);
  }
  // False: the other side has ended.
  bool Receive(std::uint64_t stamp, bool yield) {
    for (std::uint64_t seen = 0; seen != stamp;) {
      seen = line_.stamp.load(std::memory_order_acquire);
      if (seen == kEnd) return false;
      if (yield) std::this_thread::yield();
    }
    if (!incoming_.empty()) std::memcpy(incoming_.data(), Aligned(), incoming_.size());
    // Keeps the copy: nobody looks at what was received.
    asm volatile("" : : "r"(incoming_.data()) : "memory");
    return true;
  }

 private:
  char* Aligned() {
    return payload_.data() + (64 - reinterpret_cast<std::uintptr_t>(payload_.data()) % 64) % 64;
  }
  Line line_;
  std::vector<char> payload_;
  std::vector<char> outgoing_;
  std::vector<char> incoming_;
};

}  // namespace

Histogram MeasureRoundTrip(const RoundTripOptions& options) {
  const bool yield = std::thread::hardware_concurrency() < 2;
  const std::uint64_t warm_up = options.rounds / 10;
  Lane request(options.request_size);
  Lane reply(options.reply_size);
  std::thread server([&] {
    for (std::uint64_t i = 1; request.Receive(i, yield); ++i) reply.Send(i);
  });
  Histogram histogram;
  const double ns_per_tick = 1 / tools::TicksPerNs();
  const std::uint64_t begun = tools::Ticks();
  const auto is_over = [&](double duration_ns) {
    return static_cast<double>(tools::Ticks() - begun) * ns_per_tick > duration_ns;
  };
  for (std::uint64_t i = 1; i <= warm_up + options.rounds; ++i) {
    // Two threads that share processors with others take turns of milliseconds.
    if (is_over(kDurationMaxNs)) break;
    const std::uint64_t start = tools::Ticks();
    request.Send(i);
    reply.Receive(i, yield);
    const std::uint64_t ticks = tools::Ticks() - start;
    if (i > warm_up || is_over(kDurationMaxNs / 2)) {
      histogram.Record(static_cast<std::uint64_t>(static_cast<double>(ticks) * ns_per_tick));
    }
  }
  request.Send(kEnd);
  server.join();
  return histogram;
}

}  // namespace ring::bench
