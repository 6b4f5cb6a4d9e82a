#include "ring/protocol/outcome.h"

#include "absl/strings/str_cat.h"

namespace ring::protocol {
namespace {

struct OutcomeText {
  absl::StatusCode code;
  absl::string_view message;  // what happened, and what to do about it
};

OutcomeText TextOf(Outcome outcome) {
  using absl::StatusCode;
  switch (outcome) {
    case Outcome::kOk:
      return {StatusCode::kOk, ""};
    case Outcome::kNotFound:
      return {StatusCode::kNotFound, "no such key"};
    case Outcome::kVersionMismatch:
      // kAborted is the canonical code of a failed test-and-set: read again, then try again.
      return {StatusCode::kAborted, "the key has another version than if_version: read it again"};
    case Outcome::kTooLarge:
      return {StatusCode::kInvalidArgument, "key or value over the limit"};
    case Outcome::kNoSuchMemgest:
      return {StatusCode::kFailedPrecondition, "no such memgest: list the memgests, or create it"};
    case Outcome::kMemgestNotWritable:
      return {StatusCode::kFailedPrecondition,
              "the memgest takes no writes: it is being created, drained or deleted"};
    case Outcome::kResourceExhausted:
      return {StatusCode::kResourceExhausted,
              "the node is out of memory, or the client has too many operations under way: back "
              "off"};
    case Outcome::kWrongOwner:
      return {StatusCode::kFailedPrecondition, "the node does not own the key: refresh the view"};
    case Outcome::kUnavailable:
      return {StatusCode::kUnavailable, "the shard cannot serve this now: retry"};
    case Outcome::kRequestReused:
      return {StatusCode::kInvalidArgument, "the sequence number was used for another request"};
    case Outcome::kStaleRequest:
      return {StatusCode::kFailedPrecondition,
              "the client had declared this sequence number complete"};
    case Outcome::kBadRequest:
      return {StatusCode::kInvalidArgument, "malformed request"};
    case Outcome::kBadChecksum:
      return {StatusCode::kInvalidArgument,
              "the value changed on its way or while it was read, and was not stored"};
    case Outcome::kReplyTooLarge:
      return {StatusCode::kOutOfRange, "the value does not fit the buffer"};
    case Outcome::kDataLost:
      return {StatusCode::kDataLoss, "more memories were lost than the memgest tolerates"};
    case Outcome::kUnknown:
      return {StatusCode::kDeadlineExceeded, "the write may or may not be applied"};
  }
  return {StatusCode::kInternal, "the node answered with an unknown outcome"};
}

}  // namespace

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
