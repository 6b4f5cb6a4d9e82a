// tools/ringctl/doctor/rdma_view.h — the RDMA devices of a machine, as its kernel shows them.
//
// What:      ReadRdma: devices, their ports and GIDs, what of the verbs the kernel has loaded, and
//            whether this user may use them.
// Shape:     from files alone. What files do not tell (the limits of a device, its ports' MTU) is
//            for card_limits.h to add.
// Ownership: values.
// Threads:   any.
// Errors:    none: what cannot be read is empty, or 0.
// Source:    Linux, Documentation/ABI/stable/sysfs-class-infiniband.
#ifndef RING_TOOLS_RINGCTL_DOCTOR_RDMA_VIEW_H_
#define RING_TOOLS_RINGCTL_DOCTOR_RDMA_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

namespace ring::tools {

struct RdmaGid {
  int index = 0;
  std::string gid;     // "fe80:0000:..."
  std::string type;    // "RoCE v2", "IB/RoCE v1"
  std::string netdev;  // whose address it is; empty for InfiniBand
};

struct RdmaPort {
  int number = 1;
  std::string state;             // "ACTIVE", "DOWN", "INIT", "ARMED"
  std::string link_layer;        // "Ethernet", "InfiniBand"
  std::string rate;              // "100 Gb/sec (4X EDR)"
  std::string netdev;            // of its GIDs; empty for InfiniBand
  std::uint32_t mtu = 0;         // of the netdev, in bytes
  std::uint32_t active_mtu = 0;  // 0: not known (card_limits.h)
  std::vector<RdmaGid> gids;     // those that are set
  bool active() const { return state == "ACTIVE"; }
  bool ethernet() const { return link_layer == "Ethernet"; }
};

struct RdmaDevice {
  std::string name;
  std::string parent;  // the netdev below a device that the kernel makes (rxe, siw); else empty
  std::string firmware;
  std::vector<RdmaPort> ports;
  std::uint32_t queue_pairs_max = 0;  // 0: this and the next two are not known (card_limits.h)
  std::uint32_t regions_max = 0;
  std::uint32_t requests_max = 0;  // of a queue pair, under way
  std::string limits_error = {};   // why
  bool soft() const { return !parent.empty(); }
};

struct RdmaView {
  std::vector<RdmaDevice> devices;    // by name
  std::vector<std::string> netdevs;   // that a device could be made of: not the loopback
  bool verbs_loaded = false;          // ib_uverbs
  bool connections_loaded = false;    // rdma_ucm
  bool rxe_loaded = false;            // rdma_rxe
  std::vector<std::string> unusable;  // device files that this user may not read and write
};

// root: where /sys and /dev are, "" for the machine's own.
RdmaView ReadRdma(const std::string& root);

}  // namespace ring::tools

#endif  // RING_TOOLS_RINGCTL_DOCTOR_RDMA_VIEW_H_
