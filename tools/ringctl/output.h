// tools/ringctl/output.h — bytes for people and for programs.
//
// What:      ShowBytes (keys in messages), SetBytes and PrintJson (--json), files and stdin whole.
// Shape:     bytes that are no UTF-8 stand in JSON as "NAME_base64".
// Threads:   one.
// Errors:    kNotFound, kPermissionDenied, kResourceExhausted, kUnavailable for files;
//            kInvalidArgument: a folder, or too large.
#ifndef RING_TOOLS_RINGCTL_OUTPUT_H_
#define RING_TOOLS_RINGCTL_OUTPUT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "ring/base/id.h"

namespace ring::tools {

bool IsUtf8(absl::string_view bytes);
// As it is, or C-escaped when it holds anything that a terminal would not show.
std::string ShowBytes(absl::string_view bytes);
// For messages: of a long key its beginning and its length.
std::string ShowKey(absl::string_view key);
std::string ShowVersion(Version version);  // "EPOCH.COUNTER"
absl::StatusOr<Version> ParseVersion(absl::string_view text);

void SetBytes(nlohmann::json* object, const std::string& name, absl::string_view bytes);
// One line on stdout.
void PrintJson(const nlohmann::json& object);

// The status with `context` in front.
absl::Status In(absl::string_view context, const absl::Status& status);

// "-" is stdin. Reads at most size_max bytes; a larger file is refused with its size named.
absl::StatusOr<std::string> ReadWhole(const std::string& path, std::uint64_t size_max);
// "-" is stdout. A file appears whole or not at all.
absl::Status WriteWhole(const std::string& path, absl::string_view bytes);

}  // namespace ring::tools

#endif  // RING_TOOLS_RINGCTL_OUTPUT_H_
