// tools/ring-bench/target.h — the cluster that is measured.
//
// What:      Target: an embedded cluster in this process (local, or asked for), a ringd of its own
//            (shm, tcp), or one that runs already (seeds). Gives clients that use the transport
//            asked for. AddTargetOptions: which one, on the command line.
// Ownership: owns what it started; clients must be gone before it.
// Threads:   Start and the destructor on one thread; NewClient on any.
// Errors:    those of Host::Start, Client::Connect and ChildProcess.
#ifndef RING_TOOLS_RING_BENCH_TARGET_H_
#define RING_TOOLS_RING_BENCH_TARGET_H_

#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "api/client.h"
#include "ring/node/host.h"
#include "tools/common/child_process.h"

namespace ring::bench {

struct TargetOptions {
  std::string transport = "local";  // local, shm, tcp, rdma, auto
  std::vector<std::string> seeds;   // of a running cluster
  int reactor_count = 1;
  // The cluster's threads on the first reactor_count processors, the caller's on the others, so
  // that a busy neighbour cannot push both onto one.
  bool pin = false;
  // The cluster runs in this process whatever the transport: its system calls can be counted.
  bool in_process = false;
  // Of a cluster in this process: what answers pass. open: roles stay; lease, check: they may move.
  // A ringd of its own has leases.
  std::string fence = "lease";
  // ... and what calculates the deltas of puts into coded memgests: host, nic.
  std::string encode = "host";
  std::uint32_t encode_check = 1;  // of so many that the NIC calculates one is made again
  // ... its shape; 0: that of an embedded cluster. Nodes take faults, and degraded reads.
  int s = 0;
  int d = 0;
  bool fault_injection = false;
};

class Target {
 public:
  static absl::StatusOr<std::unique_ptr<Target>> Start(const TargetOptions& options);
  ~Target();

  absl::StatusOr<std::unique_ptr<Client>> NewClient(std::size_t window) const;
  // What the client really uses, e.g. "local"; "local+tcp" when its nodes differ.
  static std::string TransportInUse(const Client& client);
  // What `pin` does to the calling thread and to what it starts, and back again. Nothing where
  // there is no processor to spare.
  static void PinToFirst(int reactor_count);
  static void PinToOthers(int reactor_count);
  static void Unpin();
  // Null unless the cluster runs in this process.
  node::AdminPort* admin() { return host_ == nullptr ? nullptr : &host_->admin(); }

 private:
  static absl::StatusOr<std::unique_ptr<Target>> StartUnpinned(const TargetOptions& options);
  explicit Target(TargetOptions options) : options_(std::move(options)) {}

  TargetOptions options_;
  std::unique_ptr<node::Host> host_;
  std::unique_ptr<tools::ChildProcess> ringd_;
};

// --seeds, --transport, --reactors, --pin.
void AddTargetOptions(CLI::App* command, TargetOptions* options);

}  // namespace ring::bench

#endif  // RING_TOOLS_RING_BENCH_TARGET_H_
