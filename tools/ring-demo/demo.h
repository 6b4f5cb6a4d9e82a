// tools/ring-demo/demo.h — a folder in Ring: loaded, moved between memgests, verified, scrubbed.
//
// What:      RunDemo: puts every file into REP3, moves a third of the keys to SRS32 and a third to
//            REP1, reads everything back and compares every byte, scrubs the cluster, and prints
//            memory and latency by memgest.
// Threads:   one client, one operation at a time: the latencies are those of a lone client.
// Errors:    kDataLoss: a value differs, or the scrub found a mismatch; kInvalidArgument: addresses
//            that are none, or no folder; those of client and admin.
#ifndef RING_TOOLS_RING_DEMO_DEMO_H_
#define RING_TOOLS_RING_DEMO_DEMO_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace ring::tools {

struct DemoOptions {
  std::string folder;
  std::vector<std::string> seeds;
  std::vector<std::string> admin;  // addresses, asked in turn
  std::string admin_token_file;    // empty: none is asked for
  bool progress = true;
};

absl::Status RunDemo(const DemoOptions& options);

}  // namespace ring::tools

#endif  // RING_TOOLS_RING_DEMO_DEMO_H_
