#include "tools/ringctl/doctor/files.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

namespace ring::tools {
namespace {
constexpr std::size_t kFileSizeMax = 64 * 1024;
}  // namespace

std::string ReadSmallFile(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return "";
  std::string text(kFileSizeMax, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

std::string ReadLine(const std::string& path) {
  const std::string text = ReadSmallFile(path);
  return std::string(absl::StripAsciiWhitespace(text.substr(0, text.find('\n'))));
}

std::uint64_t ReadNumber(const std::string& path) {
  std::uint64_t number = 0;
  return absl::SimpleAtoi(ReadLine(path), &number) ? number : 0;
}

std::vector<std::string> FileNames(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(path, error), end; !error && at != end;
       at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string ChosenWord(absl::string_view line) {
  const std::size_t open = line.find('[');
  const std::size_t close = line.find(']');
  if (open == absl::string_view::npos || close == absl::string_view::npos || close < open)
    return "";
  return std::string(line.substr(open + 1, close - open - 1));
}

}  // namespace ring::tools
