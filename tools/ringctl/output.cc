#include "tools/ringctl/output.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tools/common/format.h"

namespace ring::tools {
namespace {

constexpr std::size_t kShownKeySizeMax = 64;

}  // namespace

std::string ShowKey(absl::string_view key) {
  if (key.size() <= kShownKeySizeMax) return ShowBytes(key);
  // A cut in the middle of a character would look like bytes that are no text.
  std::size_t size = kShownKeySizeMax;
  while (size > 0 && (static_cast<unsigned char>(key[size]) & 0xc0u) == 0x80) --size;
  return absl::StrCat(ShowBytes(key.substr(0, size)), "...(", key.size(), " bytes)");
}

absl::StatusOr<Version> ParseVersion(absl::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(text, '.');
  std::uint32_t epoch = 0;
  std::uint64_t counter = 0;
  const bool digits = text.find_first_not_of("0123456789.") == absl::string_view::npos;
  if (!digits || parts.size() != 2 || !absl::SimpleAtoi(parts[0], &epoch) ||
      !absl::SimpleAtoi(parts[1], &counter) || epoch >= (1u << 24) ||
      counter > Version::kCounterMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("version=", text, " must be EPOCH.COUNTER, as get --json shows it"));
  }
  return Version(Epoch(epoch), counter);
}

void SetBytes(nlohmann::json* object, const std::string& name, absl::string_view bytes) {
  if (IsUtf8(bytes)) {
    (*object)[name] = std::string(bytes);
  } else {
    (*object)[name + "_base64"] = absl::Base64Escape(bytes);
  }
}

void SetBytes(nlohmann::json* object, const std::string& name,
              const std::vector<std::string>& list) {
  if (std::all_of(list.begin(), list.end(), [](const std::string& one) { return IsUtf8(one); })) {
    (*object)[name] = list;
    return;
  }
  nlohmann::json encoded = nlohmann::json::array();
  for (const std::string& one : list) encoded.push_back(absl::Base64Escape(one));
  (*object)[name + "_base64"] = std::move(encoded);
}

void PrintJson(const nlohmann::json& object) {
  const auto replace = nlohmann::json::error_handler_t::replace;
  std::printf("%s\n", object.dump(-1, ' ', /*ensure_ascii=*/false, replace).c_str());
}

absl::Status In(absl::string_view context, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

}  // namespace ring::tools
