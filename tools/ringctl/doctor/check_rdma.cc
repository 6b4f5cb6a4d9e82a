// RDMA devices: which there are, their ports, MTU and GIDs.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/ringctl/doctor/checks.h"

namespace ring::tools {
namespace {

// Of a RoCE packet, what is not payload: GRH or IP, UDP, BTH, the largest further header, CRC.
constexpr std::uint32_t kRoceHeaderSize = 96;
constexpr std::uint32_t kMtuMax = 4096;
constexpr std::uint32_t kEthernetMtu = 4200;  // leaves room for kMtuMax

// Verbs know these MTUs only.
std::uint32_t RdmaMtu(std::uint32_t ethernet_mtu) {
  for (std::uint32_t mtu = kMtuMax; mtu >= 256; mtu /= 2) {
    if (ethernet_mtu >= mtu + kRoceHeaderSize) return mtu;
  }
  return 0;
}

std::string Names(const std::vector<RdmaDevice>& devices) {
  return absl::StrJoin(devices, ", ", [](std::string* out, const RdmaDevice& device) {
    absl::StrAppend(out, device.name);
  });
}

void CheckPortState(const RdmaPort& port, Level missing, const std::string& name, Report* report) {
  const std::string found =
      absl::StrCat(port.state.empty() ? "state unknown" : port.state, ", ",
                   port.link_layer.empty() ? "link layer unknown" : port.link_layer,
                   port.rate.empty() ? "" : ", ", port.rate);
  std::string remedy = "plug in its cable, and look at the switch's port";
  if (port.ethernet() && !port.netdev.empty()) {
    remedy = absl::StrCat("sudo ip link set ", port.netdev, " up");
  } else if (port.state == "INIT" || port.state == "ARMED") {
    remedy = "sudo systemctl start opensm (a subnet manager, on one machine of the fabric)";
  }
  report->Add(port.active() ? Level::kOk : missing, absl::StrCat("port ", name), found, remedy);
}

void CheckPortMtu(const RdmaDevice& device, const RdmaPort& port, Need need,
                  const std::string& name, Report* report) {
  const std::string check = absl::StrCat("mtu ", name);
  if (port.active_mtu != 0 && !port.ethernet())
    return report->Ok(check, absl::StrCat(port.active_mtu));
  if (!port.ethernet()) {
    return report->Ok(check, absl::StrCat("not in /sys for ", port.link_layer, ": ibv_devinfo -d ",
                                          device.name, " shows active_mtu"));
  }
  const std::uint32_t mtu = port.active_mtu != 0 ? port.active_mtu : RdmaMtu(port.mtu);
  const std::string found =
      mtu == 0 ? "unknown" : absl::StrCat(mtu, ", for ", port.netdev, " has mtu=", port.mtu);
  // In a device that the kernel makes the packets cost, not their headers.
  const bool small = mtu < kMtuMax && !device.soft() && need != Need::kNo && !port.netdev.empty();
  report->Add(small ? Level::kWarn : Level::kOk, check, found,
              absl::StrCat("sudo ip link set ", port.netdev, " mtu ", kEthernetMtu,
                           " (on all machines, and the switch)"));
}

bool IsRoutable(const RdmaGid& gid) { return gid.type == "RoCE v2"; }

void CheckPortGids(const RdmaPort& port, const Needs& needs, Level missing, const std::string& name,
                   Report* report) {
  const std::string check = absl::StrCat("gids ", name);
  const std::string netdev = port.netdev.empty() ? "NETDEV" : port.netdev;
  if (port.gids.empty()) {
    return report->Add(missing, check, "none: the port has no address",
                       port.ethernet()
                           ? absl::StrCat("sudo ip addr add ADDRESS/24 dev ", netdev)
                           : "sudo systemctl start opensm (a subnet manager gives them)");
  }
  const std::string found =
      absl::StrJoin(port.gids, ", ", [&port](std::string* out, const RdmaGid& gid) {
        const bool infiniband = !port.ethernet();
        absl::StrAppend(out, gid.index, ": ", infiniband ? "InfiniBand" : gid.type, " ", gid.gid);
      });
  const auto with = [&port](auto rule) {
    return std::find_if(port.gids.begin(), port.gids.end(), rule);
  };
  if (needs.rdma_gid_index >= 0) {
    const auto chosen =
        with([&needs](const RdmaGid& gid) { return gid.index == needs.rdma_gid_index; });
    return report->Add(chosen == port.gids.end() ? missing : Level::kOk, check,
                       absl::StrCat("rdma_gid_index=", needs.rdma_gid_index,
                                    chosen == port.gids.end() ? " is not among " : " of ", found),
                       "take one of these for rdma_gid_index in [node], or leave it out");
  }
  const auto routable = with(IsRoutable);
  const bool old_only = port.ethernet() && routable == port.gids.end();
  report->Add(old_only && missing != Level::kOk ? Level::kWarn : Level::kOk, check,
              absl::StrCat(found, old_only ? ": RoCE v1 crosses no router" : ""),
              absl::StrCat("sudo ip addr add ADDRESS/24 dev ", netdev,
                           " (an IP address gives a RoCE v2 GID)"));
}

void CheckDevice(const RdmaDevice& device, const Needs& needs, Report* report) {
  const bool chosen = needs.rdma_device.empty() || needs.rdma_device == device.name;
  const Need need = chosen ? needs.rdma : Need::kNo;
  report->Ok(absl::StrCat("device ", device.name),
             device.soft() ? absl::StrCat("made by the kernel over ", device.parent)
                           : absl::StrCat("hardware", device.firmware.empty() ? "" : ", firmware ",
                                          device.firmware));
  // One port that works is enough.
  const bool works = std::any_of(device.ports.begin(), device.ports.end(), [](const auto& port) {
    return port.active() && !port.gids.empty();
  });
  const Level missing = works ? std::min(Missing(need), Level::kWarn) : Missing(need);
  for (const RdmaPort& port : device.ports) {
    const std::string name = absl::StrCat(device.name, "/", port.number);
    CheckPortState(port, missing, name, report);
    CheckPortMtu(device, port, need, name, report);
    const bool fixed = needs.rdma_gid_index >= 0;
    CheckPortGids(port, needs, fixed ? Missing(need) : missing, name, report);
  }
  const std::string limits = absl::StrCat("limits ", device.name);
  if (device.queue_pairs_max != 0) {
    return report->Ok(limits, absl::StrCat("max_qp=", device.queue_pairs_max, " max_mr=",
                                           device.regions_max, " max_qp_wr=", device.requests_max));
  }
  report->Ok(limits,
             absl::StrCat(device.limits_error.empty() ? "max_qp, max_mr, max_qp_wr not known"
                                                      : device.limits_error,
                          ": ibv_devinfo -v -d ", device.name, " shows them"));
}

}  // namespace

void CheckRdma(const SystemView& view, const Needs& needs, Report* report) {
  const std::vector<RdmaDevice>& devices = view.rdma.devices;
  if (devices.empty()) {
    const std::string netdev = view.rdma.netdevs.empty() ? "eth0" : view.rdma.netdevs.front();
    return report->Add(
        Missing(needs.rdma), "rdma device",
        absl::StrCat("none", needs.rdma == Need::kNo     ? "; not needed"
                             : needs.rdma == Need::kMust ? ", and transport=rdma needs one"
                                                         : ": other hosts are reached by tcp"),
        absl::StrCat("sudo modprobe rdma_rxe && sudo rdma link add rxe0 type rxe netdev ", netdev,
                     " (a software device; for a network card, its driver)"));
  }
  const bool named = std::any_of(devices.begin(), devices.end(), [&needs](const RdmaDevice& one) {
    return needs.rdma_device.empty() || one.name == needs.rdma_device;
  });
  if (!named) {
    report->Add(
        Missing(needs.rdma), "rdma device",
        absl::StrCat("rdma_device=", needs.rdma_device, " is not here; there are ", Names(devices)),
        absl::StrCat("set rdma_device = \"", devices.front().name,
                     "\" in [node], or leave it out"));
  }
  for (const RdmaDevice& device : devices) CheckDevice(device, needs, report);
}

}  // namespace ring::tools
