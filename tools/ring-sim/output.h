// tools/ring-sim/output.h — files that a run leaves behind.
//
// What:      WriteText: a file of this text. Open, Close: the ends of one that others write to.
// Threads:   one.
// Errors:    null or false, and a line that names the file, where not all of it is written.
#ifndef RING_TOOLS_RING_SIM_OUTPUT_H_
#define RING_TOOLS_RING_SIM_OUTPUT_H_

#include <cstdio>
#include <string>

#include "absl/strings/string_view.h"

namespace ring::tools {

// Without a name nothing is written, and nothing opened.
bool WriteText(const std::string& name, absl::string_view text);
std::FILE* Open(const std::string& name);
bool Close(std::FILE* file, const std::string& name);

}  // namespace ring::tools

#endif  // RING_TOOLS_RING_SIM_OUTPUT_H_
