#include "api/client_status.h"

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "ring/protocol/outcome.h"

namespace ring::api {
namespace {

// The public names are those of the protocol.
static_assert(static_cast<int>(OpOutcome::kDataLost) ==
              static_cast<int>(protocol::Outcome::kDataLost));
static_assert(static_cast<int>(OpOutcome::kWrongOwner) ==
              static_cast<int>(protocol::Outcome::kWrongOwner));
static_assert(static_cast<int>(OpOutcome::kBadChecksum) ==
              static_cast<int>(protocol::Outcome::kBadChecksum));

}  // namespace

absl::Status StatusOf(OpOutcome outcome, absl::string_view detail) {
  switch (outcome) {
    case OpOutcome::kDeadlineExceeded:
      return absl::DeadlineExceededError(
          absl::StrCat("the deadline passed, nothing was applied: ", detail));
    case OpOutcome::kUnknown: {
      absl::Status status = absl::DeadlineExceededError(
          absl::StrCat("no answer came in time, the write may or may not be applied: ", detail));
      status.SetPayload(protocol::kUnknownOutcomeUrl, absl::Cord("unknown"));
      return status;
    }
    default:
      return protocol::ToStatus(static_cast<protocol::Outcome>(outcome), detail);
  }
}

std::string KeyText(absl::string_view key) {
  constexpr std::size_t kShownMax = 64;
  return absl::StrCat("key=\"", absl::CHexEscape(key.substr(0, kShownMax)),
                      key.size() > kShownMax ? "...\"" : "\"");
}

}  // namespace ring::api

namespace ring {

absl::Status ToStatus(const Completion& completion) {
  return api::StatusOf(completion.outcome, absl::StrCat("token=", completion.token));
}

bool IsUnknownOutcome(const absl::Status& status) {
  return status.GetPayload(protocol::kUnknownOutcomeUrl).has_value();
}

}  // namespace ring
