// tools/ringctl/doctor/rdma_view.h — the RDMA devices of a machine, as its kernel shows them.
//
// What:      ReadRdma: devices, their ports and GIDs, what of the verbs the kernel has loaded, and
//            whether this user may use them.
// Shape:     from files alone, so that a look costs no library and no open device. What files do
//            not tell (the limits of a device, the MTU of an InfiniBand port) is not in here.
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
  std::string state;          // "ACTIVE", "DOWN", "INIT", "ARMED"
  std::string link_layer;     // "Ethernet", "InfiniBand"
  std::string rate;           // "100 Gb/sec (4X EDR)"
  std::string netdev;         // of its GIDs; empty for InfiniBand
  std::uint32_t mtu = 0;      // of the netdev, in bytes
  std::vector<RdmaGid> gids;  // those that are set
  bool active() const { return state == "ACTIVE"; }
  bool ethernet() const { return link_layer == "Ethernet"; }
};

struct RdmaDevice {
  std::string name;
  std::string parent;  // the netdev below a device that the kernel makes (rxe, siw); else empty
  std::string firmware;
  std::vector<RdmaPort> ports;
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
