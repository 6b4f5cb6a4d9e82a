// tools/common/admin_token_option.h — where a program that asks admin services has its token.
//
// What:      AddAdminTokenFile: --admin-token-file, or RING_ADMIN_TOKEN_FILE. TokenOf: what is in
//            it.
// Threads:   one.
// Errors:    TokenOf: those of admin::ReadTokenFile; without a file an empty token.
#ifndef RING_TOOLS_COMMON_ADMIN_TOKEN_OPTION_H_
#define RING_TOOLS_COMMON_ADMIN_TOKEN_OPTION_H_

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "api/admin/admin_token.h"

namespace ring::tools {

inline CLI::Option* AddAdminTokenFile(CLI::App& app, std::string* file) {
  return app.add_option("--admin-token-file", *file, "The token that the admin service asks for")
      ->envname("RING_ADMIN_TOKEN_FILE")
      ->type_name("FILE");
}

inline absl::StatusOr<std::string> TokenOf(const std::string& file) {
  return file.empty() ? absl::StatusOr<std::string>("") : admin::ReadTokenFile(file);
}

}  // namespace ring::tools

#endif  // RING_TOOLS_COMMON_ADMIN_TOKEN_OPTION_H_
