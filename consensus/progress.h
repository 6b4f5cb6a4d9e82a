// consensus/progress.h — what a leader knows of one other server.
//
// What:      Progress (match, next, how it is being sent to, when it was heard) and the quorum
//            arithmetic over voters.
// Units:     time in ticks of the leader.
// Threads:   thread-compatible; pure.
// Errors:    none.
// Source:    Ongaro's dissertation, 3.5 and 10.2.1; the three states are those of etcd's raft.
#ifndef RING_CONSENSUS_PROGRESS_H_
#define RING_CONSENSUS_PROGRESS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "consensus/types.h"

namespace ring::consensus {

enum class SendState : std::uint8_t {
  kProbe,      // where the logs agree is not known: one message, then wait
  kReplicate,  // messages follow each other without waiting, up to a window
  kSnapshot,   // lacks entries that are compacted: gets chunks
};

struct Progress {
  LogIndex match = 0;  // known durable there, and ours
  LogIndex next = 1;   // first entry to be sent
  SendState state = SendState::kProbe;
  bool probe_under_way = false;
  std::deque<LogIndex> in_flight;  // last entry of each unanswered message (kReplicate)
  LogIndex commit_sent = 0;        // highest commit index told
  std::uint64_t last_heard = 0;    // tick of the last answer; of the start of the tenure before one
  std::uint64_t round = 0;         // highest heartbeat round answered (10.5)
  LogIndex match_seen = 0;         // at the last tick
  std::uint64_t moved = 0;         // tick since which it lacks what is committed, and gets nothing
  SnapshotRef snapshot;            // what is being sent (kSnapshot), and its encoding
  std::shared_ptr<const std::string> snapshot_bytes;
  std::uint64_t snapshot_acked = 0;     // highest byte count answered
  std::uint64_t snapshot_reported = 0;  // the last one, lower when the receiver began anew
  std::uint64_t snapshot_sent = 0;
  bool snapshot_moved = false;  // since the last heartbeat

  void LookAtMatch(std::uint64_t now_ticks, LogIndex commit) {
    const bool moves = match >= commit || match != match_seen || state == SendState::kSnapshot;
    if (moves) moved = now_ticks;
    match_seen = match;
  }
  void BecomeProbe(LogIndex next_index) {
    state = SendState::kProbe;
    next = std::max(next_index, match + 1);
    probe_under_way = false;
    in_flight.clear();
    snapshot = nullptr;
    snapshot_bytes = nullptr;
  }
  void BecomeReplicate() {
    BecomeProbe(match + 1);
    state = SendState::kReplicate;
  }
  void Acknowledge(LogIndex index) {
    match = std::max(match, index);
    next = std::max(next, match + 1);
    while (!in_flight.empty() && in_flight.front() <= match) in_flight.pop_front();
  }
};

constexpr std::size_t QuorumOf(std::size_t voters) { return voters / 2 + 1; }

// The highest value that a quorum has reached; value_of(voter) is each one's.
template <class ValueOf>
std::uint64_t QuorumValue(const std::vector<ServerId>& voters, ValueOf value_of) {
  if (voters.empty()) return 0;
  std::uint64_t values[Configuration::kVotersMax];
  std::size_t count = 0;
  for (const ServerId id : voters) values[count++] = value_of(id);
  std::sort(values, values + count, [](auto a, auto b) { return a > b; });
  return values[QuorumOf(count) - 1];
}

}  // namespace ring::consensus

#endif  // RING_CONSENSUS_PROGRESS_H_
