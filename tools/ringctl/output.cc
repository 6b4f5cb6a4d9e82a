#include "tools/ringctl/output.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tools/common/format.h"

namespace ring::tools {
namespace {

constexpr std::size_t kReadStep = 256 * 1024;
constexpr std::size_t kShownKeySizeMax = 64;

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

absl::Status FileError(absl::string_view verb, const std::string& path, int error) {
  const std::string what =
      absl::StrCat("cannot ", verb, " file=", ShowBytes(path), ": ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(what);
  if (error == EACCES) return absl::PermissionDeniedError(what);
  if (error == EISDIR || error == ENOTDIR) return absl::InvalidArgumentError(what);
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(what);
  return absl::UnavailableError(what);
}

absl::Status TooLarge(const std::string& path, absl::string_view size, std::uint64_t size_max) {
  return absl::InvalidArgumentError(absl::StrCat(
      "file=", path == "-" ? "stdin" : ShowBytes(path), " has size=", size, ", a value may have ",
      size_max, " (", FormatBytes(static_cast<double>(size_max)),
      "): split it, or raise value_size_max of the cluster"));
}

}  // namespace

bool IsUtf8(absl::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size();) {
    const auto lead = static_cast<unsigned char>(bytes[i]);
    std::size_t more = 0;
    std::uint32_t point = lead;
    if (lead >= 0xf0 && lead < 0xf5) {
      more = 3, point = lead & 0x07u;
    } else if (lead >= 0xe0 && lead < 0xf0) {
      more = 2, point = lead & 0x0fu;
    } else if (lead >= 0xc2 && lead < 0xe0) {
      more = 1, point = lead & 0x1fu;
    } else if (lead >= 0x80) {
      return false;
    }
    if (bytes.size() - i <= more) return false;
    for (std::size_t j = 1; j <= more; ++j) {
      const auto next = static_cast<unsigned char>(bytes[i + j]);
      if ((next & 0xc0u) != 0x80) return false;
      point = (point << 6) | (next & 0x3fu);
    }
    if ((more == 2 && point < 0x800) || (more == 3 && point < 0x10000)) return false;
    if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return false;
    i += more + 1;
  }
  return true;
}

std::string ShowBytes(absl::string_view bytes) {
  bool plain = IsUtf8(bytes);
  for (const char c : bytes) plain &= !absl::ascii_iscntrl(static_cast<unsigned char>(c));
  return plain ? std::string(bytes) : absl::CHexEscape(bytes);
}

std::string ShowKey(absl::string_view key) {
  if (key.size() <= kShownKeySizeMax) return ShowBytes(key);
  // A cut in the middle of a character would look like bytes that are no text.
  std::size_t size = kShownKeySizeMax;
  while (size > 0 && (static_cast<unsigned char>(key[size]) & 0xc0u) == 0x80) --size;
  return absl::StrCat(ShowBytes(key.substr(0, size)), "...(", key.size(), " bytes)");
}

std::string ShowVersion(Version version) {
  return absl::StrCat(version.epoch().value(), ".", version.counter());
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

void PrintJson(const nlohmann::json& object) { std::printf("%s\n", object.dump().c_str()); }

absl::Status In(absl::string_view context, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

absl::StatusOr<std::string> ReadWhole(const std::string& path, std::uint64_t size_max) {
  std::unique_ptr<std::FILE, Closer> owned;
  std::FILE* file = stdin;
  if (path != "-") {
    owned.reset(std::fopen(path.c_str(), "rb"));
    if (owned == nullptr) return FileError("read", path, errno);
    file = owned.get();
  }
  std::string bytes;
  struct stat info {};
  if (fstat(fileno(file), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return FileError("read", path, EISDIR);
    if (S_ISREG(info.st_mode)) {
      const auto size = static_cast<std::uint64_t>(info.st_size);
      if (size > size_max) return TooLarge(path, absl::StrCat(size), size_max);
      bytes.reserve(size);
    }
  }
  for (std::size_t got = kReadStep; got == kReadStep;) {
    const std::size_t size = bytes.size();
    bytes.resize(size + kReadStep);
    got = std::fread(bytes.data() + size, 1, kReadStep, file);
    bytes.resize(size + got);
    if (std::ferror(file) != 0) return FileError("read", path, errno);
    if (bytes.size() > size_max) return TooLarge(path, absl::StrCat(">", size_max), size_max);
  }
  return bytes;
}

absl::Status WriteWhole(const std::string& path, absl::string_view bytes) {
  if (path == "-") {
    if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size()) {
      return FileError("write", "stdout", errno);
    }
    return absl::OkStatus();
  }
  struct stat info {};
  // A pipe or a device is written in place; a name beside it would not be the same thing.
  const bool special = stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
  const std::string target = special ? path : absl::StrCat(path, ".ringctl-", getpid());
  std::FILE* file = std::fopen(target.c_str(), "wb");
  if (file == nullptr) return FileError("write", path, errno);
  int error = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size() ? 0 : errno;
  if (std::fclose(file) != 0 && error == 0) error = errno;
  if (error == 0 && !special && std::rename(target.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  if (!special) std::remove(target.c_str());
  return FileError("write", path, error);
}

}  // namespace ring::tools
