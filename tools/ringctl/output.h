// tools/ringctl/output.h — bytes for people and for programs.
//
// What:      ShowKey and In (messages), ParseVersion (arguments), SetBytes and PrintJson (--json).
// Shape:     bytes that are no UTF-8 stand in JSON as "NAME_base64".
// Threads:   one.
// Errors:    kInvalidArgument: no version.
#ifndef RING_TOOLS_RINGCTL_OUTPUT_H_
#define RING_TOOLS_RINGCTL_OUTPUT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "ring/base/id.h"

namespace ring::tools {

// For messages: of a long key its beginning and its length.
std::string ShowKey(absl::string_view key);
absl::StatusOr<Version> ParseVersion(absl::string_view text);

void SetBytes(nlohmann::json* object, const std::string& name, absl::string_view bytes);
// A list of such; one that is no UTF-8 makes it a list of base64 as a whole.
void SetBytes(nlohmann::json* object, const std::string& name,
              const std::vector<std::string>& list);
// One line on stdout. Text that SetBytes was not asked about and is no UTF-8 loses what is none.
void PrintJson(const nlohmann::json& object);

// The status with `context` in front.
absl::Status In(absl::string_view context, const absl::Status& status);

}  // namespace ring::tools

#endif  // RING_TOOLS_RINGCTL_OUTPUT_H_
