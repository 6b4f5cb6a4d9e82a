// api/client_operation.h — one request under way, and what is known of it.
//
// What:      Operation: its frame in registered memory, where it was sent, its deadline, its
//            result.
// Shape:     operation i uses reply slot i of whichever connection it is sent on, so an operation
//            that was given up keeps its place (kAbandoned) until its answer came or its connection
//            ended.
// Ownership: of ClientCore's table.
// Threads:   the client's.
// Errors:    none.
#ifndef RING_API_CLIENT_OPERATION_H_
#define RING_API_CLIENT_OPERATION_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "api/client.h"
#include "api/client_memory.h"
#include "ring/protocol/client_frame.h"

namespace ring::api {

class Connection;

enum class OpState : std::uint8_t {
  kFree = 0,
  kQueued = 1,     // waits for a connection, room, a view or a moment to try again
  kWaiting = 2,    // sent (or about to be, with the next flush)
  kDone = 3,       // the result is there; not taken yet
  kAbandoned = 4,  // the result was taken; the answer may still come
};

// Who takes the result.
enum class Sink : std::uint8_t { kCaller = 0, kPipeline = 1, kCallback = 2, kView = 3, kOwner = 4 };

struct OpResult {
  OpOutcome outcome = OpOutcome::kOk;
  MemgestId memgest;
  Version version;
  std::uint32_t value_size = 0;
  NodeId owner;
  std::uint32_t view_epoch = 0;      // of the node that answered
  bool of_former_cluster = false;    // nobody answered: another was founded in its place
  const std::byte* value = nullptr;  // in a reply slot or large buffer, checked; null: copied out
  bool held = false;                 // value lies in a retired buffer (ClientBuffers::Hold)
};

struct Operation {
  // Set once.
  std::uint16_t index = 0;
  std::byte* frame = nullptr;

  OpState state = OpState::kFree;
  Sink sink = Sink::kCaller;
  bool on_wire = false;     // an answer may be written to the reply slot
  bool unanswered = false;  // an attempt was lost: the node may have executed it
  Version known_version;    // the highest of the shard before the first attempt (X7)
  std::uint32_t stamp = 0;  // of the answer that is waited for
  std::uint64_t ring_end = 0;
  Connection* connection = nullptr;  // while on_wire

  std::uint32_t cells = 0;
  std::uint16_t window = 0;  // which SequenceWindow; meaningful when seq != 0
  std::uint64_t seq = 0;
  int slot = 0;  // of the key
  std::uint64_t token = 0;

  std::uint64_t timeout_ns = 0;
  std::uint64_t deadline_ns = 0;       // 0: not started
  std::uint64_t first_attempt_ns = 0;  // 0: never sent
  std::uint64_t not_before_ns = 0;
  std::uint64_t backoff_ns = 0;
  std::uint64_t view_refreshes_needed = 0;
  int damaged_count = 0;  // answers about wrong check sums
  OpOutcome last_refusal = OpOutcome::kDeadlineExceeded;

  // Where a get's value is copied; null: it stays in result.value.
  char* destination = nullptr;
  std::size_t destination_size = 0;

  ClientBuffer large;
  OpResult result;
  // Frees it, before it calls anybody.
  absl::AnyInvocable<void(Operation*)> callback;

  protocol::RequestHeader* header() const {
    return reinterpret_cast<protocol::RequestHeader*>(frame);
  }
  bool mutates() const { return seq != 0; }
  // A put or move into another memgest than the cluster's default.
  bool names_memgest() const {
    const protocol::RequestWord& word = header()->word;
    const bool stores =
        word.operation == protocol::Operation::kPut || word.operation == protocol::Operation::kMove;
    return stores && (word.flags & protocol::kDefaultMemgest) == 0;
  }
  // On a version, not on there being none.
  bool names_version() const {
    return (header()->word.flags & protocol::kIfVersion) != 0 && header()->if_version != 0;
  }
  // The client's own question.
  bool internal() const { return sink == Sink::kView || sink == Sink::kOwner; }
  absl::string_view key() const {
    const std::size_t length = header()->word.key_length;
    const char* bytes = length > protocol::kInlineKeySizeMax
                            ? reinterpret_cast<const char*>(frame + protocol::kCell)
                            : header()->key;
    return absl::string_view(bytes, length);
  }
};

}  // namespace ring::api

#endif  // RING_API_CLIENT_OPERATION_H_
