// tools/ring-bench/alpha_beta.h — INEC's performance model, fitted to measurements.
//
// What:      FitAlphaBeta: time = alpha * size + beta by least squares.
// Shape:     of relative errors: sizes and times span several powers of ten, and the largest ones
//            would decide alone.
// Units:     alpha: nanoseconds a byte; beta: nanoseconds.
// Threads:   pure.
// Errors:    none. REQUIRES: two points of different sizes, times above 0.
// Source:    INEC (SC'20), section III-B: alpha stands for computation, bandwidth and DMA, beta for
//            latency, states and CPU involvement.
#ifndef RING_TOOLS_RING_BENCH_ALPHA_BETA_H_
#define RING_TOOLS_RING_BENCH_ALPHA_BETA_H_

#include <algorithm>
#include <cmath>

#include "absl/types/span.h"

namespace ring::bench {

struct SizeAndTime {
  double size = 0;
  double time_ns = 0;
};

struct AlphaBeta {
  double alpha = 0;
  double beta = 0;
  double worst_error = 0;  // the largest |model / time - 1|
};

inline AlphaBeta FitAlphaBeta(absl::Span<const SizeAndTime> points) {
  double w = 0;
  double wx = 0;
  double wy = 0;
  double wxx = 0;
  double wxy = 0;
  for (const SizeAndTime& point : points) {
    const double weight = 1 / (point.time_ns * point.time_ns);
    w += weight;
    wx += weight * point.size;
    wy += weight * point.time_ns;
    wxx += weight * point.size * point.size;
    wxy += weight * point.size * point.time_ns;
  }
  AlphaBeta fit;
  fit.alpha = (w * wxy - wx * wy) / (w * wxx - wx * wx);
  fit.beta = (wy - fit.alpha * wx) / w;
  for (const SizeAndTime& point : points) {
    const double model = fit.alpha * point.size + fit.beta;
    fit.worst_error = std::max(fit.worst_error, std::abs(model / point.time_ns - 1));
  }
  return fit;
}

}  // namespace ring::bench

#endif  // RING_TOOLS_RING_BENCH_ALPHA_BETA_H_
