// consensus/types.h — what a consensus log is made of.
//
// What:      ServerId, Term, LogIndex, Entry, Configuration, HardState, Snapshot.
// Shape:     log indices begin with 1 and are dense; index 0, term 0 and kNoServer are "none".
// Ownership: value types; a Snapshot is shared, because it is immutable and may be large.
// Threads:   value types.
// Errors:    Validate: kInvalidArgument that names the server.
// Source:    Ongaro, "Consensus: Bridging Theory and Practice" (2014), chapters 3 and 4.
#ifndef RING_CONSENSUS_TYPES_H_
#define RING_CONSENSUS_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ring/base/id.h"

namespace ring::consensus {

// One server of the consensus: the node's id in the upper 16 bits, and in the lower 48 a number
// that a server with a directory keeps for ever and one without draws anew at each start. A server
// that lost its memory is thus another server, which nobody takes for the one that voted (10.6).
using ServerId = Id<struct ServerIdTag, std::uint64_t>;
inline constexpr ServerId kNoServer{};

inline constexpr int kServerNumberBits = 48;
inline constexpr std::uint64_t kServerNumberMax = (std::uint64_t{1} << kServerNumberBits) - 1;
constexpr ServerId MakeServerId(std::uint16_t node, std::uint64_t number) {
  return ServerId((std::uint64_t{node} << kServerNumberBits) | (number & kServerNumberMax));
}
constexpr std::uint16_t NodeOf(ServerId id) {
  return static_cast<std::uint16_t>(id.value() >> kServerNumberBits);
}

using Term = std::uint64_t;
using LogIndex = std::uint64_t;

// Travels, and is on disk: never renumber.
enum class EntryKind : std::uint8_t {
  kNoop = 1,     // the first entry of each term (10.2)
  kCommand = 2,  // data is the state machine's
  kConfig = 3,   // data is an encoded Configuration
};

struct Entry {
  Term term = 0;
  LogIndex index = 0;
  EntryKind kind = EntryKind::kNoop;
  std::string data;
  friend bool operator==(const Entry&, const Entry&) = default;
};

// Who decides (voters) and who only receives (learners). Both sorted, disjoint.
struct Configuration {
  static constexpr std::size_t kVotersMax = 9;
  static constexpr std::size_t kServersMax = 1024;

  std::vector<ServerId> voters;
  std::vector<ServerId> learners;

  bool IsVoter(ServerId id) const;
  bool IsLearner(ServerId id) const;
  bool Contains(ServerId id) const { return IsVoter(id) || IsLearner(id); }
  // An empty one is what a server knows that waits to be added.
  bool empty() const { return voters.empty(); }
  // Each takes the server out of the other list. Adding one that is there, or removing one that is
  // not, changes nothing.
  void AddVoter(ServerId id);
  void AddLearner(ServerId id);
  void Remove(ServerId id);
  absl::Status Validate() const;
  friend bool operator==(const Configuration&, const Configuration&) = default;
};

// What a server must never forget, and writes before anybody hears of it (10.6).
struct HardState {
  Term term = 0;
  ServerId vote;
  friend bool operator==(const HardState&, const HardState&) = default;
};

// The state machine after the entry at index, and the configuration of that moment.
struct Snapshot {
  LogIndex index = 0;
  Term term = 0;
  Configuration configuration;
  std::string data;
  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};
using SnapshotRef = std::shared_ptr<const Snapshot>;

}  // namespace ring::consensus

#endif  // RING_CONSENSUS_TYPES_H_
