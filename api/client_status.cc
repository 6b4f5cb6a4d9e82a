#include "api/client_status.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "ring/protocol/outcome.h"

namespace ring::api {
namespace {

// The public codes are those of the protocol but for kUnknown, which is told apart before it comes
// here.
constexpr std::pair<OpOutcome, protocol::Outcome> kSame[] = {
    {OpOutcome::kOk, protocol::Outcome::kOk},
    {OpOutcome::kNotFound, protocol::Outcome::kNotFound},
    {OpOutcome::kVersionMismatch, protocol::Outcome::kVersionMismatch},
    {OpOutcome::kTooLarge, protocol::Outcome::kTooLarge},
    {OpOutcome::kNoSuchMemgest, protocol::Outcome::kNoSuchMemgest},
    {OpOutcome::kMemgestNotWritable, protocol::Outcome::kMemgestNotWritable},
    {OpOutcome::kResourceExhausted, protocol::Outcome::kResourceExhausted},
    {OpOutcome::kWrongOwner, protocol::Outcome::kWrongOwner},
    {OpOutcome::kUnavailable, protocol::Outcome::kUnavailable},
    {OpOutcome::kRequestReused, protocol::Outcome::kRequestReused},
    {OpOutcome::kStaleRequest, protocol::Outcome::kStaleRequest},
    {OpOutcome::kBadRequest, protocol::Outcome::kBadRequest},
    {OpOutcome::kBadChecksum, protocol::Outcome::kBadChecksum},
    {OpOutcome::kReplyTooLarge, protocol::Outcome::kReplyTooLarge},
    {OpOutcome::kDataLost, protocol::Outcome::kDataLost},
};
static_assert(std::all_of(std::begin(kSame), std::end(kSame), [](const auto& same) {
  return static_cast<int>(same.first) == static_cast<int>(same.second);
}));
static_assert(std::size(kSame) == static_cast<std::size_t>(protocol::Outcome::kUnknown));

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
