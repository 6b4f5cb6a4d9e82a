// ring/node/scrub/scrub_tally.h — what a scrub has seen so far.
//
// What:      ScrubTally: counts, and the first mismatches by name.
// Ownership: value.
// Threads:   thread-compatible.
// Errors:    none; `failure` ends the scrub: something could not be compared at all.
#ifndef RING_NODE_SCRUB_SCRUB_TALLY_H_
#define RING_NODE_SCRUB_SCRUB_TALLY_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "ring/node/scrub/scrub_message.h"

namespace ring::node {

struct ScrubTally {
  ScrubProgress progress;
  ScrubReport report;
  absl::Status failure;

  void AddMismatch(std::string detail) {
    ++report.mismatches;
    if (report.details.size() < kScrubDetailsMax) report.details.push_back(std::move(detail));
  }
};

}  // namespace ring::node

#endif  // RING_NODE_SCRUB_SCRUB_TALLY_H_
