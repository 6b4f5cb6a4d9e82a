// api/client_status.h — outcomes as the status that a program sees.
//
// What:      StatusOf names the key and the memgest, and marks unknown outcomes (rule X5).
// Threads:   pure.
// Errors:    none.
#ifndef RING_API_CLIENT_STATUS_H_
#define RING_API_CLIENT_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "api/client.h"

namespace ring::api {

absl::Status StatusOf(OpOutcome outcome, absl::string_view detail);

// key="..." with unprintable bytes escaped; long keys are cut.
std::string KeyText(absl::string_view key);

}  // namespace ring::api

#endif  // RING_API_CLIENT_STATUS_H_
