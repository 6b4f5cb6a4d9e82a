// rdma/sim/sim_options.h — how the simulated fabric behaves, and every fault it can be given.
//
// What:      SimOptions; FaultClass and FaultCounts, by which injected faults are counted.
// Units:     nanoseconds of simulated time; chances in parts per million (integers, so that a seed
//            gives the same run everywhere).
// Ownership: values.
// Threads:   thread-compatible.
// Errors:    none.
// Source:    fault classes F1 to F15.
#ifndef RING_RDMA_SIM_SIM_OPTIONS_H_
#define RING_RDMA_SIM_SIM_OPTIONS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace ring::rdma::sim {

enum class FaultClass : std::uint8_t {
  kF1Crash = 1,
  kF2DoubleCrash = 2,
  kF3BeyondF = 3,
  kF4FastRestart = 4,
  kF5Pause = 5,
  kF6Partition = 6,
  kF7Message = 7,   // loss, delay
  kF8OneSided = 8,  // late or torn WRITEs, late completions, RNR, queue pair errors
  kF9Clock = 9,
  kF10BitFlip = 10,
  kF11Exhaustion = 11,
  kF12Change = 12,  // catalogue changes with operations under way
  kF13Quorum = 13,
  kF14Versions = 14,
  kF15Calc = 15,
};
inline constexpr std::size_t kFaultClassCount = 16;  // by number; 0 is not used

struct FaultCounts {
  std::array<std::uint64_t, kFaultClassCount> by_class{};
  // Those that a class is counted apart by, e.g. "F8 log connection".
  std::map<std::string, std::uint64_t> by_kind;
  void Count(FaultClass fault) { ++by_class[static_cast<std::size_t>(fault)]; }
  void Count(FaultClass fault, const char* kind) {
    Count(fault);
    ++by_kind["F" + std::to_string(static_cast<int>(fault)) + " " + kind];
  }
  void Add(const FaultCounts& other) {
    for (std::size_t i = 0; i < kFaultClassCount; ++i) by_class[i] += other.by_class[i];
    for (const auto& [kind, count] : other.by_kind) by_kind[kind] += count;
  }
};

struct SimOptions {
  // --- A sound fabric: what may be told apart is legal at any time. ---
  std::uint64_t delay_min_ns = 1'000;
  std::uint64_t delay_spread_ns = 2'000;
  // A request comes up to gap_ns_max after the one before it on its queue pair, not with it.
  std::uint32_t gap_ppm = 100'000;
  // A WRITE is seen in two parts, so far apart.
  std::uint32_t parts_ppm = 50'000;
  std::uint64_t gap_ns_max = 3'000;
  // Whether QueuePair::PeerSleep tells of sleepers, who then need a doorbell. Else any WRITE
  // wakes.
  bool doorbells = true;

  // --- F7: messages ---
  std::uint32_t late_ppm = 0;
  std::uint64_t late_ns_max = 2'000'000;
  std::uint32_t loss_ppm = 0;  // each attempt; the queue pair fails after retry_max of them
  std::uint64_t retry_ns = 50'000;
  std::uint32_t retry_max = 7;

  // --- F8: one-sided requests ---
  std::uint32_t late_completion_ppm = 0;
  std::uint64_t late_completion_ns_max = 2'000'000;
  std::uint32_t rnr_ppm = 0;  // a SEND finds no receive for a while, though one is posted

  // --- F6: a request that does not get through fails after this ---
  std::uint64_t silence_ns = 200'000'000;
  // F1: peers of a crashed process see its connections end so much later; 0: they are not told.
  std::uint64_t crash_notice_ns = 1'000'000;

  // --- F10: payloads; those of flip_size_min bytes and more ---
  std::uint32_t flip_ppm = 0;
  std::uint32_t flip_size_min = 64;

  // --- F11: Allocate and Register, from this time on ---
  std::uint32_t allocation_fail_ppm = 0;
  std::uint64_t allocation_fail_from_ns = 0;
  // Connect and Accept find no queue pair.
  std::uint32_t queue_pair_fail_ppm = 0;

  // --- F15: CALC ---
  std::uint32_t calc_fail_ppm = 0;
  std::uint32_t calc_wrong_ppm = 0;
  std::uint32_t calc_late_ppm = 0;
  std::uint64_t calc_late_ns_max = 40'000;
};

}  // namespace ring::rdma::sim

#endif  // RING_RDMA_SIM_SIM_OPTIONS_H_
