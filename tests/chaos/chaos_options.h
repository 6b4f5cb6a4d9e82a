// tests/chaos/chaos_options.h — what a chaos run does, and for how long.
//
// What:      ChaosOptions: the cluster, the load, which classes of faults, the bounds.
// Threads:   value type.
// Errors:    none.
#ifndef RING_TESTS_CHAOS_CHAOS_OPTIONS_H_
#define RING_TESTS_CHAOS_CHAOS_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace ring::chaos {

// Until a node serves, and until nothing lacks protection, times time_factor.
inline constexpr absl::Duration kReadyMax = absl::Seconds(60);
inline constexpr absl::Duration kProtectedMax = absl::Seconds(90);

struct ChaosOptions {
  std::string config;                   // of all nodes: a ring.toml
  std::string folder;                   // for logs; voters' files are in its folder "voters"
  std::string ringd;                    // the program
  std::vector<std::string> namespaces;  // of the network, one a node; empty: none
  std::string transport = "shm";        // of the clients: shm, tcp or rdma
  absl::Duration duration = absl::Minutes(1);
  std::vector<std::string> faults;  // classes (faults.h)
  int fault_max = 1'000'000;
  std::uint64_t seed = 1;
  int processes = 6;         // clients, each with a thread
  int window = 2;            // operations that each has under way
  double rate = 400;         // operations a second, of all together
  std::string history;       // file; empty: none
  bool unprotected = false;  // the cluster may end without being protected
  int time_factor = 1;       // all deadlines are so many times longer: for emulated machines
};

}  // namespace ring::chaos

#endif  // RING_TESTS_CHAOS_CHAOS_OPTIONS_H_
