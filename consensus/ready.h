// consensus/ready.h — what a Raft server wants done, and how it is set up.
//
// What:      Options, InitialState, PersistRequest, Ready, PeerStatus.
// Units:     time in ticks, sizes in bytes.
// Ownership: value types.
// Threads:   value types.
// Errors:    none.
#ifndef RING_CONSENSUS_READY_H_
#define RING_CONSENSUS_READY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "consensus/message.h"
#include "consensus/progress.h"
#include "consensus/types.h"

namespace ring::consensus {

struct Options {
  ServerId id;
  // Drawn anew at each start. Requests for a read index are numbered from it, so that an answer to
  // a request of an earlier start is none to this one's.
  std::uint64_t nonce = 0;
  // A follower campaigns after election_ticks .. 2 * election_ticks - 1 of silence; a leader
  // without a quorum for election_ticks resigns.
  std::uint64_t election_ticks = 10;
  std::uint64_t heartbeat_ticks = 2;
  // No message is larger when it is encoded, and no proposal that would not fit alone is taken.
  std::size_t message_size_max = 16 * 1024;
  // Unanswered messages per peer.
  std::size_t in_flight_max = 16;
  // Bytes of proposals that are not committed; a leader refuses more.
  std::size_t uncommitted_size_max = 4 * 1024 * 1024;
  // Reads that wait; a server refuses more.
  std::size_t reads_max = 4096;
  // A learner becomes a voter only when it lacks at most so many entries.
  LogIndex promote_lag_max = 64;
  // Entries kept in memory behind a snapshot, for peers that lag a little.
  LogIndex trailing_entries = 256;
};

// What a server starts from: what its storage holds. A new cluster's voters all begin with the same
// snapshot of index 0, which holds the first configuration; a server that waits to be added begins
// with an empty one.
struct InitialState {
  HardState hard_state;
  SnapshotRef snapshot;        // nullptr: index 0, empty configuration
  std::vector<Entry> entries;  // behind the snapshot, dense
};

// One durable step. After a crash any prefix of it may be there, in this order: hard state,
// snapshot, entries one by one.
struct PersistRequest {
  std::uint64_t id = 0;
  std::optional<HardState> hard_state;
  SnapshotRef snapshot;
  // The snapshot came from a leader: nothing of the log before this request counts any more. Else
  // it is our own, and stands for the entries up to its index.
  bool snapshot_replaces_log = false;
  // Entries; the first one's index may be at or below the last durable one, which then ends before.
  std::vector<Entry> entries;
};

enum class Role : std::uint8_t { kFollower, kPreCandidate, kCandidate, kLeader };

// A read that may be served once the entry at index is applied.
struct ReadState {
  std::uint64_t context = 0;  // the caller's
  LogIndex index = 0;
};

// To be done in the order of the fields.
struct Ready {
  // At most one request is under way; tell the outcome with Raft::Persisted.
  std::optional<PersistRequest> persist;
  // What they claim is durable: may be sent at once, in any order, any number of times (10.1).
  std::vector<Message> messages;
  // The state machine becomes this, before `committed`.
  SnapshotRef restore;
  // Committed and durable here; dense.
  std::vector<Entry> committed;
  std::vector<ReadState> reads;
  // Contexts of reads that will not be answered: leadership moved. The caller reads again.
  std::vector<std::uint64_t> failed_reads;
};

// What a leader knows of another server.
struct PeerStatus {
  ServerId id;
  bool voter = false;
  LogIndex match = 0;
  // Ticks since it was last heard; since the start of this leader's tenure, if never.
  std::uint64_t silent_ticks = 0;
  // Ticks since when nothing became durable there, though it lacks what is committed.
  std::uint64_t stuck_ticks = 0;
  SendState state = SendState::kProbe;
};

}  // namespace ring::consensus

#endif  // RING_CONSENSUS_READY_H_
