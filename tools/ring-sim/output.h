// tools/ring-sim/output.h — what a run leaves behind: its summary, and files.
//
// What:      SummaryJson: the summary's fields that all ways to run have. WriteText: a file of this
//            text. Open, Close: the ends of one that others write to.
// Threads:   one.
// Errors:    null or false, and a line that names the file, where not all of it is written.
#ifndef RING_TOOLS_RING_SIM_OUTPUT_H_
#define RING_TOOLS_RING_SIM_OUTPUT_H_

#include <cstdint>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/string_view.h"

namespace ring::tools {

struct SummaryHead {
  std::uint64_t seeds = 0;
  std::uint64_t failed_seeds = 0;                   // with a violation, or several
  std::map<std::string, std::uint64_t> violations;  // by what they are of
  std::uint64_t trace_hash = 0;                     // over all seeds, in order
  double simulated_seconds = 0;
  double wall_seconds = 0;
};
nlohmann::ordered_json SummaryJson(const SummaryHead& head);
// 16 hexadecimal digits.
std::string HashText(std::uint64_t hash);

// Without a name nothing is written, and nothing opened.
bool WriteText(const std::string& name, absl::string_view text);
std::FILE* Open(const std::string& name);
bool Close(std::FILE* file, const std::string& name);

}  // namespace ring::tools

#endif  // RING_TOOLS_RING_SIM_OUTPUT_H_
