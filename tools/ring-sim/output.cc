#include "tools/ring-sim/output.h"

#include <cerrno>
#include <cstring>

namespace ring::tools {
namespace {

bool Fail(const std::string& name) {
  std::fprintf(stderr, "ring-sim: cannot write %s: %s\n", name.c_str(), std::strerror(errno));
  return false;
}

}  // namespace

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
