// tests/consensus/sim/profile.h — what a seed decides before a run begins.
//
// What:      Profile: sizes, rates and which faults there are; MakeProfile draws one. Each seed has
//            some faults and not others, so that rare ones are not drowned by frequent ones.
// Units:     time in units, kTickUnits a tick; rates in 1/1000.
// Threads:   value types.
// Errors:    none.
// Source:    Groce et al., "Swarm Testing" (ISSTA 2012).
#ifndef RING_TESTS_CONSENSUS_SIM_PROFILE_H_
#define RING_TESTS_CONSENSUS_SIM_PROFILE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "consensus/ready.h"
#include "ring/base/random.h"

namespace ring::consensus::sim {

inline constexpr std::uint64_t kTickUnits = 16;

enum class Fault : std::uint8_t {
  kLoss,
  kDuplicate,
  kDelay,
  kLateMessage,
  kPartition,   // two parts
  kIsolation,   // one server
  kAsymmetric,  // one direction of some links
  kBridge,      // two parts that share one server
  kFlapping,    // a link goes up and down
  kCrash,       // what was not synced is lost, a part of what was being written remains
  kPause,       // nothing happens at a server for a while
  kSlowDisk,
  kFailedPersist,
  kDiskLoss,  // the server comes back as another one
  kMembership,
  kTransfer,
  kSnapshot,
};
inline constexpr std::size_t kFaultCount = static_cast<std::size_t>(Fault::kSnapshot) + 1;
const char* NameOf(Fault fault);

// Rules of the surroundings, not of the core, that a test breaks to see whether it would be
// noticed.
struct WorldBugs {
  bool amnesiac_keeps_its_id = false;  // 10.6
  bool no_deduplication = false;       // 10.8
};

struct Profile {
  std::uint64_t seed = 0;
  std::size_t voters = 3;
  std::size_t learners = 0;
  std::size_t spares = 0;
  std::array<bool, kFaultCount> has{};
  std::uint64_t ticks = 400;  // with faults; a calm follows
  std::uint64_t loss = 0;
  std::uint64_t duplicate = 0;
  std::uint64_t late = 0;
  std::uint64_t failed_persist = 0;
  std::uint64_t delay_max = 4;
  std::uint64_t disk_delay_max = 0;
  std::uint64_t fault_every = 20;  // ticks, on average
  std::uint64_t client_every = 3;
  std::uint64_t read_every = 4;
  std::uint64_t change_every = 0;  // 0: never
  LogIndex compact_entries = 0;    // 0: never
  std::size_t clients = 4;
  // Faults follow each other closely, and mostly hit whoever leads.
  bool storm = false;
  std::uint64_t outage_ticks_max = 60;  // of links, servers
  std::size_t filler_max = 600;         // bytes of a large command
  std::uint64_t large = 125;            // how many of them are
  std::uint64_t stall = 0;              // disk: writes that take many ticks
  Options raft;

  bool Has(Fault fault) const { return has[static_cast<std::size_t>(fault)]; }
  std::size_t nodes() const { return voters + learners + spares; }
};

Profile MakeProfile(std::uint64_t seed);

}  // namespace ring::consensus::sim

#endif  // RING_TESTS_CONSENSUS_SIM_PROFILE_H_
