#include "tools/ring-bench/rounds.h"

#include <utility>

#include "ring/base/check.h"
#include "tools/ring-bench/report.h"

namespace ring::bench {

void AddRoundOptions(CLI::App* command, Rounds* rounds) {
  command->add_option("--rounds", rounds->count, "Measurements of each, in turn")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--milliseconds", rounds->milliseconds, "About how long one measures")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
}

double RoundRatio(const std::vector<double>& peer_ns, const std::vector<double>& own_ns) {
  RING_CHECK(peer_ns.size() == own_ns.size()) << peer_ns.size() << " of " << own_ns.size();
  std::vector<double> ratios;
  for (std::size_t i = 0; i < own_ns.size(); ++i) ratios.push_back(peer_ns[i] / own_ns[i]);
  return Median(std::move(ratios));
}

}  // namespace ring::bench
