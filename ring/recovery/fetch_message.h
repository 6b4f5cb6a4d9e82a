// ring/recovery/fetch_message.h — what a node that takes over or joins asks its sources for.
//
// What:      FetchRequest: a snapshot of logs (memgest/snapshot.h), the entries of one log behind
//            an index (memgest/log_tail.h), or a value of one version; FetchAnswer: a piece of it.
// Shape:     bodies of control messages; integers little-endian, no padding:
//            request   u8 kind, u16 group, u16 shard, u32 epoch, u64 id, u32 piece,
//                      u64 index, u32 line, u64 version, u16 n, n * u16 memgest
//            answer    the piece, u64 id, u32 piece_count: the piece is not copied for it
//            The first request of a snapshot or a tail has id 0: the source prepares it, and says
//            its id with the first piece. A snapshot is encoded as it is asked for: its pieces are
//            counted (0 until then) with the last one.
// Ownership: values.
// Threads:   pure.
// Errors:    Decode*: kInvalidArgument naming the field.
// Source:    steps 4 and 5 of an epoch change; L7; S5.
#ifndef RING_RECOVERY_FETCH_MESSAGE_H_
#define RING_RECOVERY_FETCH_MESSAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ring/base/id.h"

namespace ring::recovery {

// Travels: never renumber.
enum class FetchKind : std::uint8_t { kSnapshot = 1, kTail = 2, kValue = 3 };

// Of a value; other pieces are as long as their encoders make them.
inline constexpr std::uint32_t kValuePieceSize = 64 * 1024;
constexpr std::uint32_t ValuePieceCount(std::uint32_t value_length) {
  return value_length == 0 ? 1 : (value_length - 1) / kValuePieceSize + 1;
}

// Bytes of an answer, at most.
constexpr std::uint32_t ValueAnswerMax(std::uint32_t value_length) {
  return value_length < kValuePieceSize ? value_length : kValuePieceSize;
}

struct FetchRequest {
  FetchKind kind = FetchKind::kSnapshot;
  GroupId group;
  ShardId shard;
  Epoch epoch;           // of the group, that the asking node is in
  std::uint64_t id = 0;  // of what was prepared
  std::uint32_t piece = 0;
  // tail: the entries behind it; value: the source has folded the log up to it (E3), or answers
  // kUnavailable.
  std::uint64_t index = 0;
  std::uint32_t line = 0;           // value
  Version version;                  // value
  std::vector<MemgestId> memgests;  // snapshot: some; tail, value: one
  friend bool operator==(const FetchRequest&, const FetchRequest&) = default;
};

struct FetchAnswer {
  std::uint64_t id = 0;
  std::uint32_t piece_count = 0;  // 0: not known yet, there are more
  absl::string_view piece;
};

std::string EncodeFetchRequest(const FetchRequest& request);
absl::StatusOr<FetchRequest> DecodeFetchRequest(absl::string_view bytes);
std::string EncodeFetchAnswer(const FetchAnswer& answer);
inline constexpr std::size_t kFetchTrailerSize = 12;
// Makes an answer of its piece.
void EndFetchAnswer(std::uint64_t id, std::uint32_t piece_count, std::string* piece);
// The piece refers to `bytes`.
absl::StatusOr<FetchAnswer> DecodeFetchAnswer(absl::string_view bytes);
// ... of a value, whose pieces are counted from the first.
absl::StatusOr<FetchAnswer> DecodeValueAnswer(absl::string_view bytes);

}  // namespace ring::recovery

#endif  // RING_RECOVERY_FETCH_MESSAGE_H_
