// ring/recovery/block_message.h — what nodes ask each other about the blocks of coded memgests.
//
// What:      Freeze: a block at a cut, by its coordinator, to who reads it (scrub, decode). Decode:
//            a Lost block, by a parity node, to the shard's new coordinator. Row: a parity's row,
//            to the parity node that decodes.
// Shape:     bodies of control messages; the fields in order, little-endian, no padding; bytes of a
//            block stand last. A decoded block and a row travel as messages: a late one has no
//            memory to land in (L5), and is what it was when it was captured. A frozen block is
//            WRITTEN to its reader, which keeps the memory for as long as that may happen
//            (ring/node/recovery/held_memory.h).
// Ownership: values; Decode* of answers with bytes borrow the body.
// Threads:   pure.
// Errors:    Decode*: kInvalidArgument naming the message.
// Source:    rules S2, S5, S7; Ring section 5.5.
#ifndef RING_RECOVERY_BLOCK_MESSAGE_H_
#define RING_RECOVERY_BLOCK_MESSAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ring/base/id.h"

namespace ring::recovery {

// One shard of one memgest: Log(M, i).
struct LogName {
  GroupId group;
  ShardId shard;
  MemgestId memgest;
  friend bool operator==(const LogName&, const LogName&) = default;
};

// A parity row.
struct RowName {
  GroupId group;
  MemgestId memgest;
  std::uint32_t extent = 0;
  std::uint32_t row = 0;
};

struct FreezeRequest {
  LogName log;
  Epoch epoch;  // of the group: a freeze ends with it
  std::uint32_t block = 0;
  std::uint64_t token = 0;    // of the reader, for the release
  bool held = false;          // the bytes stay where they are, for partial sums
  std::uint64_t address = 0;  // else: where the block's bytes are to be written
  std::uint32_t rkey = 0;
  friend bool operator==(const FreezeRequest&, const FreezeRequest&) = default;
};
// Travels: never renumber.
enum class FrozenBytes : std::uint8_t {
  kWritten = 0,  // to the reader, before the answer; or held here, if that was asked for
  kZero = 1,     // never used, nothing was written
  kLost = 2,     // not on this node (S4): an erasure
};
struct FreezeAnswer {
  std::uint64_t last_touch = 0;   // n_i: the last index of the log that touches the block
  std::uint32_t block_count = 0;  // high-water mark of the shard's heap
  FrozenBytes bytes = FrozenBytes::kWritten;
  friend bool operator==(const FreezeAnswer&, const FreezeAnswer&) = default;
};

struct DecodeRequest {
  LogName log;
  Epoch epoch;
  std::uint32_t block = 0;
  std::uint64_t index = 0;  // of the log, that was adopted: nothing behind it touches the block
  bool urgent = false;      // an operation waits
  // Blocks of the row that are not decoded from, as what they gave did not fit: bit c is column c,
  // bit k + j parity j.
  std::uint32_t left_out = 0;
  friend bool operator==(const DecodeRequest&, const DecodeRequest&) = default;
};
struct DecodeAnswer {
  std::uint64_t last_touch = 0;  // index of the log that touched the block last
  absl::string_view bytes;       // empty: the block is zero
};

// To another parity of the row: its row, once it has folded just what the asking one has.
struct RowRequest {
  GroupId group;
  MemgestId memgest;
  Epoch epoch;
  std::uint32_t extent = 0;
  std::uint32_t row = 0;
  std::vector<std::uint64_t> last_touch;  // by column
  friend bool operator==(const RowRequest&, const RowRequest&) = default;
};
// Answered by the row's bytes alone; none: it is zero.

std::string Encode(const FreezeRequest& request);
std::string Encode(const FreezeAnswer& answer);
std::string Encode(const DecodeRequest& request);
std::string Encode(const DecodeAnswer& answer);
std::string Encode(const RowRequest& request);
absl::StatusOr<FreezeRequest> DecodeFreezeRequest(absl::string_view bytes);
absl::StatusOr<FreezeAnswer> DecodeFreezeAnswer(absl::string_view bytes);
absl::StatusOr<DecodeRequest> DecodeDecodeRequest(absl::string_view bytes);
absl::StatusOr<DecodeAnswer> DecodeDecodeAnswer(absl::string_view bytes);
absl::StatusOr<RowRequest> DecodeRowRequest(absl::string_view bytes);

}  // namespace ring::recovery

#endif  // RING_RECOVERY_BLOCK_MESSAGE_H_
