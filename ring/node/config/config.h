// ring/node/config/config.h — the configuration file of a cluster, as one node reads it.
//
// What:      NodeConfig, read from TOML. The file describes the whole cluster and may be the same
//            on every machine; which node a process is, the file's [node] name or the caller says.
// Shape:     tools/ring.toml.example shows every key with its default.
// Units:     sizes in bytes; in the file an integer, or a string such as "4MiB" (KiB, MiB, GiB,
//            TiB).
// Ownership: values.
// Threads:   pure but for LoadNodeConfig, which reads a file.
// Errors:    kInvalidArgument: every line is one problem, file:line:column: what, and what to do.
//            LoadNodeConfig also: kNotFound, kPermissionDenied, kUnavailable for the file itself.
// Source:    docs/OPERATIONS.md "Configuration"; docs/RULES.md "Faults and bad input".
#ifndef RING_NODE_CONFIG_CONFIG_H_
#define RING_NODE_CONFIG_CONFIG_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ring/base/id.h"
#include "ring/base/limits.h"
#include "ring/base/log.h"
#include "ring/cluster/view.h"
#include "ring/node/config/control_config.h"
#include "ring/protocol/limits.h"
#include "ring/protocol/memgest_descriptor.h"

namespace ring::node {

inline constexpr std::size_t kConfigSizeMax = 1 << 20;
inline constexpr std::uint64_t kRingSizeMin = 256 * 1024;  // four PARTs of 64 KiB
inline constexpr std::uint64_t kRingSizeMax = 1ull << 30;
inline constexpr std::uint64_t kArenaSizeMin = 16ull << 20;
inline constexpr std::uint64_t kArenaSizeLimit = 64ull << 40;
inline constexpr std::uint64_t kWarmSizeMax = 1ull << 30;
inline constexpr std::uint64_t kRecoveryRateLowest = 1ull << 20;
inline constexpr std::uint64_t kRecoveryRateHighest = 1ull << 40;
inline constexpr std::uint32_t kClientCountMax = 65536;
inline constexpr std::uint64_t kMinuteNs = 60'000'000'000;
inline constexpr std::uint32_t kScrubMinutesMax = 525'600;  // a year
inline constexpr std::size_t kRdmaDeviceSizeMax = 63;       // IBV_SYSFS_NAME_MAX, with its end
inline constexpr int kRdmaGidIndexMax = 255;
inline constexpr std::size_t kShmPathSizeMax = 100;  // sun_path has 108, and devices append to it

enum class Transport : std::uint8_t {
  kAuto,  // shared memory between nodes of one host; between hosts RDMA where both can, else TCP
  kShm,   // the others: that one only
  kTcp,
  kRdma,
};
inline constexpr std::array kTransports = {Transport::kAuto, Transport::kShm, Transport::kTcp,
                                           Transport::kRdma};

enum class PollPolicy : std::uint8_t {
  kAdaptive,  // polls for poll_us after the last work, then sleeps
  kBusy,      // never sleeps: one core per reactor
  kSleep,     // sleeps at once
};

enum class EncodePath : std::uint8_t {
  kAuto,  // whichever is faster: on the software NIC, the node's thread
  kHost,  // the node's thread calculates the deltas of puts into coded memgests
  kNic,   // the network device does
};
inline constexpr std::uint32_t kEncodeCheckMax = 1'000'000;

struct NodeEntry {
  std::string name;
  std::string host;   // a label of the machine: nodes with an equal one share memory
  std::string data;   // HOST:PORT, or empty
  std::string shm;    // absolute path of the rendezvous socket, or empty
  std::string rdma;   // HOST:PORT of an RDMA device's network address, or empty
  std::string admin;  // HOST:PORT of the gRPC admin service, or empty
  std::optional<Transport> transport;  // of its links, before that of [node] (link_policy.h)
};

struct NodeConfig {
  std::string cluster_name;
  int s = 3;
  int d = 2;
  std::uint64_t value_size_max = kValueSizeMax;
  std::vector<NodeEntry> nodes;  // the first s+d are active, the rest are spares
  std::size_t added_count = 0;   // the last ones of them: the file does not name them
  std::vector<protocol::MemgestDescriptor> memgests;  // numbered from 1
  std::string default_memgest;
  ControlConfig control;

  NodeId self;  // index into nodes
  Transport transport = Transport::kAuto;
  std::string rdma_device;  // by which this node has its rdma address; empty: whose address it is
  int rdma_gid_index = -1;  // of that device's port; -1: the one that fits the address
  std::uint64_t ring_size = 4ull << 20;
  std::uint64_t arena_size_max = 8ull << 30;
  std::uint64_t warm_size = 4ull << 20;              // of memory kept ready for a takeover
  std::uint64_t recovery_rate = 256ull << 20;        // bytes a second, in the background
  std::uint64_t recovery_rate_min = 8ull << 20;      // ... while others want the processor
  std::uint64_t scrub_period_ns = kMinuteNs * 1440;  // from one scrub in idle time to the next
                                                     // of the node; 0: never
  std::uint32_t client_max = 1024;
  EncodePath encode = EncodePath::kAuto;
  std::uint32_t encode_check = 1;  // of so many calculations of the device one is made again
  std::string admin_token_file;    // what the admin service asks its callers for; empty: nothing
  // An operator may kill, pause and cut off this node, and make its device do wrong.
  bool fault_injection = false;
  PollPolicy poll = PollPolicy::kAdaptive;
  std::uint32_t poll_us = 50;
  LogSeverity log_level = LogSeverity::kINFO;

  const NodeEntry& self_entry() const { return nodes[self.value()]; }
  int voter_count() const { return control.VoterCount(nodes.size() - added_count); }
  // What all nodes start from; valid, and the same on all of them.
  cluster::View InitialView() const;
};

enum class SelfIs : std::uint8_t {
  kNamed,  // one of the file's nodes
  kAdded,  // none of them: JoinConfig (added_node.h) says which it is
};

// file: its name in messages. node_name: which node this process is; empty: as the file says.
absl::StatusOr<NodeConfig> ParseNodeConfig(absl::string_view text, absl::string_view file,
                                           absl::string_view node_name = "",
                                           SelfIs self_is = SelfIs::kNamed);
absl::StatusOr<NodeConfig> LoadNodeConfig(const std::string& path, absl::string_view node_name = "",
                                          SelfIs self_is = SelfIs::kNamed);

}  // namespace ring::node

#endif  // RING_NODE_CONFIG_CONFIG_H_
