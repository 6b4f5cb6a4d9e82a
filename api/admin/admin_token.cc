#include "api/admin/admin_token.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace ring::admin {
namespace {

constexpr absl::string_view kScheme = "Bearer ";
constexpr std::size_t kFileSizeMax = 2 * kTokenSizeMax;

absl::Status FileError(const std::string& path) {
  const std::string text = absl::StrCat("admin token file ", path, ": ", std::strerror(errno));
  if (errno == ENOENT) return absl::NotFoundError(text);
  if (errno == EACCES) return absl::PermissionDeniedError(text);
  return absl::UnavailableError(text);
}

}  // namespace

absl::StatusOr<std::string> ReadTokenFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError(path);
  const absl::Cleanup closer = [fd] { close(fd); };
  struct stat about {};
  if (fstat(fd, &about) != 0) return FileError(path);
  if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "admin token file ", path, " may be read by others than its owner: chmod 600 it"));
  }
  std::string text(kFileSizeMax + 1, '\0');
  const ssize_t got = read(fd, text.data(), text.size());
  if (got < 0) return FileError(path);
  text.resize(static_cast<std::size_t>(got));
  const std::string token(absl::StripAsciiWhitespace(text));
  const bool printable = std::all_of(token.begin(), token.end(),
                                     [](unsigned char c) { return absl::ascii_isgraph(c); });
  if (!printable || token.size() < kTokenSizeMin || token.size() > kTokenSizeMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "admin token file ", path, " must hold one word of ", kTokenSizeMin, " to ", kTokenSizeMax,
        " printable bytes, such as the output of: openssl rand -hex 32"));
  }
  return token;
}

std::string BearerOf(absl::string_view token) { return absl::StrCat(kScheme, token); }

bool IsToken(absl::string_view header, absl::string_view token) {
  const absl::string_view given = absl::StripPrefix(header, kScheme);
  // As many steps for every header of a length.
  unsigned char difference = given.size() == token.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char wanted = token.empty() ? '\0' : token[i % token.size()];
    difference = static_cast<unsigned char>(difference | (given[i] ^ wanted));
  }
  return difference == 0 && given.size() != header.size();
}

}  // namespace ring::admin
