// api/admin/admin_token.h — the secret that an admin service asks its callers for.
//
// What:      ReadTokenFile: the token in a file of the operator's. IsToken: whether a caller's
//            header carries it. BearerOf: the header's value that a caller sends.
// Shape:     kTokenSizeMin to kTokenSizeMax printable bytes without blanks; white space around it
//            in the file is not part of it.
// Threads:   pure, but for the file.
// Errors:    kNotFound, kPermissionDenied, kUnavailable (the file); kInvalidArgument: too short,
//            too long, bytes that are no token, or a file that others than its owner may read.
//            No message holds any of the token.
// Cost:      IsToken takes the same time wherever the first wrong byte is.
// Source:    unauthorised admin, of the bad inputs in docs/RULES.md; RFC 6750 section 2.1.
#ifndef RING_API_ADMIN_ADMIN_TOKEN_H_
#define RING_API_ADMIN_ADMIN_TOKEN_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ring::admin {

inline constexpr std::size_t kTokenSizeMin = 16;
inline constexpr std::size_t kTokenSizeMax = 1024;
inline constexpr char kTokenHeader[] = "authorization";

absl::StatusOr<std::string> ReadTokenFile(const std::string& path);
std::string BearerOf(absl::string_view token);
bool IsToken(absl::string_view header, absl::string_view token);

}  // namespace ring::admin

#endif  // RING_API_ADMIN_ADMIN_TOKEN_H_
