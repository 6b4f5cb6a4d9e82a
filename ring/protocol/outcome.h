// ring/protocol/outcome.h — how an operation ended, in one byte.
//
// What:      Outcome travels in replies and completion records; the client's edge turns it into
//            absl::Status.
// Shape:     values are part of the protocol: never renumber.
// Threads:   pure.
// Errors:    ToStatus: what the caller should do follows absl's canonical codes. Of a write each
//            but kUnknown is certain; a client that cannot know adds the payload
//            kUnknownOutcomeUrl to its kDeadlineExceeded (rule X5).
#ifndef RING_PROTOCOL_OUTCOME_H_
#define RING_PROTOCOL_OUTCOME_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ring::protocol {

enum class Outcome : std::uint8_t {
  kOk = 0,
  kNotFound = 1,
  kVersionMismatch = 2,  // if_version did not hold; the reply carries the version that is there
  kTooLarge = 3,         // key or value over the limit
  kNoSuchMemgest = 4,
  kMemgestNotWritable = 5,  // CREATING, DRAINING or DELETED
  kResourceExhausted = 6,   // memory, outstanding operations of a client
  kWrongOwner = 7,          // the reply's view epoch says which view to ask for
  kUnavailable = 8,         // e.g. no writable memgest is strong enough for a tombstone (G4)
  kRequestReused = 9,       // the same (client, seq) with another payload (X2)
  kStaleRequest = 10,       // seq below the client's first incomplete (X3): not executed now
  kBadRequest = 11,         // malformed
  kBadChecksum = 12,        // the value does not match its CRC: nothing was stored
  kReplyTooLarge = 13,      // the value does not fit the reply; value_length says what is needed
  kDataLost = 14,
  kUnknown = 15,  // a write that may be applied or not (X5): the role was lost, or too few have it
};

// detail names the thing ("key=...", "memgest=...") and goes into the message.
absl::Status ToStatus(Outcome outcome, absl::string_view detail);

// Whether a code in a message is one of the above.
constexpr bool IsOutcome(std::uint8_t code) {
  return code <= static_cast<std::uint8_t>(Outcome::kUnknown);
}

// Status payload that marks an unknown outcome (X5).
inline constexpr char kUnknownOutcomeUrl[] = "ring/unknown-outcome";

}  // namespace ring::protocol

#endif  // RING_PROTOCOL_OUTCOME_H_
