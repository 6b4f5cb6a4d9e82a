#include "tools/ring-sim/output.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tools/common/program.h"

namespace ring::tools {
namespace {

bool Fail(const std::string& name) {
  PrintError("ring-sim", absl::StrCat("cannot write ", name, ": ", std::strerror(errno)));
  return false;
}

}  // namespace

nlohmann::ordered_json SummaryJson(const SummaryHead& head) {
  nlohmann::ordered_json json;
  json["seeds"] = head.seeds;
  json["failed_seeds"] = head.failed_seeds;
  json["violations"] = nlohmann::ordered_json::object();
  for (const auto& [kind, count] : head.violations) json["violations"][kind] = count;
  json["trace_hash"] = HashText(head.trace_hash);
  json["simulated_seconds"] = head.simulated_seconds;
  json["wall_seconds"] = head.wall_seconds;
  return json;
}

std::string HashText(std::uint64_t hash) { return absl::StrCat(absl::Hex(hash, absl::kZeroPad16)); }

bool WriteText(const std::string& name, absl::string_view text) {
  std::FILE* const file = Open(name);
  if (file == nullptr) return name.empty();
  std::fwrite(text.data(), 1, text.size(), file);
  return Close(file, name);
}

std::FILE* Open(const std::string& name) {
  if (name.empty()) return nullptr;
  std::FILE* const file = std::fopen(name.c_str(), "w");
  if (file == nullptr) Fail(name);
  return file;
}

bool Close(std::FILE* file, const std::string& name) {
  const bool written = std::fflush(file) == 0 && std::ferror(file) == 0;
  const int error = errno;
  const bool closed = std::fclose(file) == 0;
  if (written && closed) return true;
  if (!written) errno = error;
  return Fail(name);
}

}  // namespace ring::tools
