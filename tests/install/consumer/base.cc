#include <cstdio>

#include "ring/base/crc32c.h"
#include "ring/base/histogram.h"
#include "ring/base/status.h"

int main() {
  ring::Histogram latency_ns;
  latency_ns.Record(1200);
  const bool good = latency_ns.Percentile(50) == 1200 &&
                    ring::Crc32c("123456789", 9) == 0xe3069283 && absl::OkStatus().ok();
  std::puts(good ? "base: good" : "base: wrong");
  return good ? 0 : 1;
}
