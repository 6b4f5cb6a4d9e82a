// ring/recovery/join_message.h — what a coordinator sends to a member that joins its shard.
//
// What:      InstallRequest: a piece of the snapshot that the member's ring is open behind.
//            ProgressRequest and ProgressAnswer: how far each log is folded there, and how many
//            values are still to come of what is.
// Shape:     bodies of control messages; integers little-endian, no padding:
//            install   u16 group, u16 shard, u32 epoch, u32 attempt, the piece
//            progress  u16 group, u16 shard, u32 epoch
//            answer    u16 n, n * {u16 memgest, u64 applied, u64 absent, u64 total}
//            An install is answered with an empty body.
// Ownership: values; InstallRequest::piece borrows.
// Threads:   pure.
// Errors:    Decode*: kInvalidArgument naming the field.
// Source:    rule L7; docs/GLOSSARY.md (data-complete).
#ifndef RING_RECOVERY_JOIN_MESSAGE_H_
#define RING_RECOVERY_JOIN_MESSAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ring/base/id.h"

namespace ring::recovery {

struct InstallRequest {
  GroupId group;
  ShardId shard;
  Epoch epoch;
  std::uint32_t attempt = 0;  // of the log connection (LogHello) that goes on behind the snapshot
  absl::string_view piece;    // memgest/snapshot.h
};

struct ProgressRequest {
  GroupId group;
  ShardId shard;
  Epoch epoch;
  friend bool operator==(const ProgressRequest&, const ProgressRequest&) = default;
};

struct ValuesToCome {
  MemgestId memgest;
  std::uint64_t applied = 0;  // absent counts what the log says up to here
  std::uint64_t absent = 0;
  std::uint64_t total = 0;  // that ever were
  friend bool operator==(const ValuesToCome&, const ValuesToCome&) = default;
};

std::string EncodeInstallRequest(const InstallRequest& request);
// The piece refers to `bytes`.
absl::StatusOr<InstallRequest> DecodeInstallRequest(absl::string_view bytes);
std::string EncodeProgressRequest(const ProgressRequest& request);
absl::StatusOr<ProgressRequest> DecodeProgressRequest(absl::string_view bytes);
std::string EncodeProgressAnswer(const std::vector<ValuesToCome>& memgests);
absl::StatusOr<std::vector<ValuesToCome>> DecodeProgressAnswer(absl::string_view bytes);

}  // namespace ring::recovery

#endif  // RING_RECOVERY_JOIN_MESSAGE_H_
