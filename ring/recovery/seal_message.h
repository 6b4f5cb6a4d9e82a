// ring/recovery/seal_message.h — what a new epoch asks of the members of the last one.
//
// What:      SealRequest: promise the epoch, take nothing more from the old coordinator, tell where
//            your logs end. SealAnswer: the ends.
// Shape:     bodies of control messages; integers little-endian, no padding:
//            request   u16 group, u16 shard, u32 epoch, u32 last_normal, u64 incarnation
//            answer    u64 incarnation, u8 leaves, u16 n, n * {u16 memgest, u64 applied, u64 last}
// Ownership: values.
// Threads:   pure.
// Errors:    Decode*: kInvalidArgument naming the field.
// Source:    step 2 of an epoch change; L5, L8.
#ifndef RING_RECOVERY_SEAL_MESSAGE_H_
#define RING_RECOVERY_SEAL_MESSAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ring/base/id.h"
#include "ring/recovery/adoption.h"

namespace ring::recovery {

struct SealRequest {
  GroupId group;
  ShardId shard;
  Epoch epoch;              // that is to be promised
  Epoch last_normal;        // L, whose logs are asked for
  Incarnation incarnation;  // of the asked node: another one has lost its memory (L8)
  friend bool operator==(const SealRequest&, const SealRequest&) = default;
};

struct SealAnswer {
  Incarnation incarnation;
  bool leaves = false;  // it has to join another shard, and would rather be done without (S6)
  std::vector<LogEnd> logs;
  friend bool operator==(const SealAnswer&, const SealAnswer&) = default;
};

std::string EncodeSealRequest(const SealRequest& request);
absl::StatusOr<SealRequest> DecodeSealRequest(absl::string_view bytes);
std::string EncodeSealAnswer(const SealAnswer& answer);
absl::StatusOr<SealAnswer> DecodeSealAnswer(absl::string_view bytes);

}  // namespace ring::recovery

#endif  // RING_RECOVERY_SEAL_MESSAGE_H_
