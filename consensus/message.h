// consensus/message.h — what servers tell each other, and its encoding.
//
// What:      Message with Encode and Decode; the encodings of Configuration, HardState and Snapshot
//            that the log and the files hold.
// Shape:     little-endian; a header of kMessageHeaderSize bytes and a body by type. The byte
//            tables are in docs/PROTOCOL.md, "Consensus".
// Ownership: decoded values own their bytes.
// Threads:   pure.
// Errors:    kInvalidArgument that names the field; nothing is read outside the given bytes.
#ifndef RING_CONSENSUS_MESSAGE_H_
#define RING_CONSENSUS_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "consensus/types.h"
#include "ring/base/wire.h"

namespace ring::consensus {

// Travels: never renumber.
enum class MessageType : std::uint8_t {
  kPreVote = 1,  // "would you vote for me?": nobody's term changes (10.3)
  kPreVoteReply = 2,
  kVote = 3,
  kVoteReply = 4,
  kAppend = 5,  // entries behind a known one
  kAppendReply = 6,
  kHeartbeat = 7,  // carries the round that confirms reads (10.5)
  kHeartbeatReply = 8,
  kSnapshot = 9,  // one chunk of an encoded Snapshot
  kSnapshotReply = 10,
  kTimeoutNow = 11,   // "campaign at once": leadership is handed over
  kReadRequest = 12,  // a follower asks for a read index
  kReadReply = 13,
};
inline constexpr MessageType kMessageTypeMax = MessageType::kReadReply;

struct Message {
  MessageType type = MessageType::kHeartbeat;
  ServerId from;
  ServerId to;
  Term term = 0;  // the sender's; of a pre-vote and its grant, the term that is asked for
  // kPreVote, kVote: the candidate's last entry. kAppend: the entry before the first. kAppendReply:
  // the last entry that is the leader's and durable, or the refused one. kSnapshot and its reply:
  // what the snapshot stands for. kReadReply: the read index.
  LogIndex index = 0;
  Term log_term = 0;           // of the entry at index; in a refusal: of the entry at hint
  LogIndex commit = 0;         // kAppend, kHeartbeat
  LogIndex hint = 0;           // a refused kAppend: where the logs may agree
  std::uint64_t round = 0;     // kHeartbeat, kReadRequest and their replies: chosen by who asks
  std::uint64_t offset = 0;    // kSnapshot: of the chunk. kSnapshotReply: bytes that are here
  std::uint64_t total = 0;     // kSnapshot: size of the encoded snapshot
  bool reject = false;         // a reply: no
  bool force = false;          // kVote: the leader itself wants it, heed no other leader
  std::vector<Entry> entries;  // kAppend
  std::string data;            // kSnapshot
  friend bool operator==(const Message&, const Message&) = default;
};

inline constexpr std::size_t kMessageHeaderSize = 28;
// What a kAppend takes besides its entries, and an entry besides its data.
inline constexpr std::size_t kAppendOverhead = kMessageHeaderSize + 28;
inline constexpr std::size_t kEntryOverhead = 13;
inline constexpr std::size_t kSnapshotOverhead = kMessageHeaderSize + 36;

std::string EncodeMessage(const Message& message);
absl::StatusOr<Message> DecodeMessage(absl::string_view bytes);

std::string EncodeConfiguration(const Configuration& configuration);
absl::StatusOr<Configuration> DecodeConfiguration(absl::string_view bytes);
// What a configuration takes when it is encoded.
std::size_t EncodedSize(const Configuration& configuration);

std::string EncodeSnapshot(const Snapshot& snapshot);
absl::StatusOr<Snapshot> DecodeSnapshot(absl::string_view bytes);

// One entry, as kAppend and the log file hold it: everything but the index.
void PutEntry(const Entry& entry, ByteWriter& out);
absl::StatusOr<Entry> TakeEntry(LogIndex index, ByteReader& in);

}  // namespace ring::consensus

#endif  // RING_CONSENSUS_MESSAGE_H_
