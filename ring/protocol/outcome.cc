#include "ring/protocol/outcome.h"

#include "absl/strings/str_cat.h"

namespace ring::protocol {
namespace {

struct OutcomeText {
  absl::StatusCode code;
  absl::string_view name;
  absl::string_view message;  // what happened, and what to do about it
};

OutcomeText TextOf(Outcome outcome) {
  using absl::StatusCode;
  switch (outcome) {
    case Outcome::kOk:
      return {StatusCode::kOk, "OK", ""};
    case Outcome::kNotFound:
      return {StatusCode::kNotFound, "NOT_FOUND", "no such key"};
    case Outcome::kVersionMismatch:
      // kAborted is the canonical code of a failed test-and-set: read again, then try again.
      return {StatusCode::kAborted, "VERSION_MISMATCH",
              "the key has another version than if_version: read it again"};
    case Outcome::kTooLarge:
      return {StatusCode::kInvalidArgument, "TOO_LARGE", "key or value over the limit"};
    case Outcome::kNoSuchMemgest:
      return {StatusCode::kFailedPrecondition, "NO_SUCH_MEMGEST",
              "no such memgest: list the memgests, or create it"};
    case Outcome::kMemgestNotWritable:
      return {StatusCode::kFailedPrecondition, "MEMGEST_NOT_WRITABLE",
              "the memgest takes no writes: it is being created, drained or deleted"};
    case Outcome::kResourceExhausted:
      return {StatusCode::kResourceExhausted, "RESOURCE_EXHAUSTED",
              "the node is out of memory, or the client has too many operations under way: back "
              "off"};
    case Outcome::kWrongOwner:
      return {StatusCode::kFailedPrecondition, "WRONG_OWNER",
              "the node does not own the key: refresh the view"};
    case Outcome::kUnavailable:
      return {StatusCode::kUnavailable, "UNAVAILABLE", "the shard cannot serve this now: retry"};
    case Outcome::kRequestReused:
      return {StatusCode::kInvalidArgument, "REQUEST_REUSED",
              "the sequence number was used for another request"};
    case Outcome::kStaleRequest:
      return {StatusCode::kFailedPrecondition, "STALE_REQUEST",
              "the client had declared this sequence number complete"};
    case Outcome::kBadRequest:
      return {StatusCode::kInvalidArgument, "BAD_REQUEST", "malformed request"};
    case Outcome::kBadChecksum:
      return {StatusCode::kInvalidArgument, "BAD_CHECKSUM",
              "the value changed on its way or while it was read, and was not stored"};
    case Outcome::kReplyTooLarge:
      return {StatusCode::kOutOfRange, "REPLY_TOO_LARGE", "the value does not fit the buffer"};
    case Outcome::kDataLost:
      return {StatusCode::kDataLoss, "DATA_LOST",
              "more memories were lost than the memgest tolerates"};
    case Outcome::kUnknown:
      return {StatusCode::kDeadlineExceeded, "UNKNOWN", "the write may or may not be applied"};
  }
  return {StatusCode::kInternal, "UNKNOWN_OUTCOME", "the node answered with an unknown outcome"};
}

}  // namespace

absl::string_view OutcomeName(Outcome outcome) { return TextOf(outcome).name; }

absl::Status ToStatus(Outcome outcome, absl::string_view detail) {
  if (outcome == Outcome::kOk) return absl::OkStatus();
  const OutcomeText text = TextOf(outcome);
  if (!IsOutcome(static_cast<std::uint8_t>(outcome))) {
    return absl::Status(text.code, absl::StrCat(text.message, ": code=", static_cast<int>(outcome),
                                                detail.empty() ? "" : " ", detail));
  }
  return absl::Status(text.code, absl::StrCat(text.message, detail.empty() ? "" : ": ", detail));
}

}  // namespace ring::protocol
