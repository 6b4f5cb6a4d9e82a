#include "tools/ringctl/doctor/rdma_view.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tools/ringctl/doctor/files.h"

namespace ring::tools {
namespace {

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// "4: ACTIVE" is ACTIVE.
std::string Word(const std::string& line) {
  const std::size_t colon = line.find(": ");
  return colon == std::string::npos ? line : line.substr(colon + 2);
}

bool IsSet(const std::string& gid) { return gid.find_first_not_of("0:") != std::string::npos; }

// Folders end with a slash.
std::vector<RdmaGid> ReadGids(const std::string& port) {
  std::vector<RdmaGid> gids;
  for (const std::string& name : FileNames(port + "gids")) {
    RdmaGid gid;
    gid.gid = ReadLine(absl::StrCat(port, "gids/", name));
    if (!absl::SimpleAtoi(name, &gid.index) || !IsSet(gid.gid)) continue;
    gid.type = ReadLine(absl::StrCat(port, "gid_attrs/types/", name));
    gid.netdev = ReadLine(absl::StrCat(port, "gid_attrs/ndevs/", name));
    gids.push_back(std::move(gid));
  }
  std::sort(gids.begin(), gids.end(),
            [](const RdmaGid& a, const RdmaGid& b) { return a.index < b.index; });
  return gids;
}

RdmaPort ReadPort(const std::string& root, const std::string& device, int number) {
  const std::string folder = absl::StrCat(device, "ports/", number, "/");
  RdmaPort port;
  port.number = number;
  port.state = Word(ReadLine(folder + "state"));
  port.link_layer = ReadLine(folder + "link_layer");
  port.rate = ReadLine(folder + "rate");
  port.gids = ReadGids(folder);
  for (const RdmaGid& gid : port.gids) {
    if (port.netdev.empty()) port.netdev = gid.netdev;
  }
  // A port without a GID: what is below the device.
  if (port.netdev.empty() && port.ethernet()) {
    port.netdev = ReadLine(device + "parent");
    const std::vector<std::string> below = FileNames(device + "device/net");
    if (port.netdev.empty() && !below.empty()) port.netdev = below.front();
  }
  if (!port.netdev.empty()) {
    port.mtu = static_cast<std::uint32_t>(
        ReadNumber(absl::StrCat(root, "/sys/class/net/", port.netdev, "/mtu")));
  }
  return port;
}

}  // namespace

RdmaView ReadRdma(const std::string& root) {
  RdmaView view;
  const std::string sys = root + "/sys/";
  for (const std::string& name : FileNames(sys + "class/infiniband")) {
    const std::string folder = absl::StrCat(sys, "class/infiniband/", name, "/");
    RdmaDevice device;
    device.name = name;
    device.parent = ReadLine(folder + "parent");
    device.firmware = ReadLine(folder + "fw_ver");
    for (const std::string& port : FileNames(folder + "ports")) {
      int number = 0;
      if (absl::SimpleAtoi(port, &number)) device.ports.push_back(ReadPort(root, folder, number));
    }
    view.devices.push_back(std::move(device));
  }
  for (const std::string& name : FileNames(sys + "class/net")) {
    if (name != "lo") view.netdevs.push_back(name);
  }
  // A module that is built in is no folder of /sys/module, but what it makes is there.
  view.verbs_loaded = Exists(sys + "module/ib_uverbs") || Exists(sys + "class/infiniband_verbs");
  view.connections_loaded = Exists(sys + "module/rdma_ucm") || Exists(sys + "class/misc/rdma_cm");
  view.rxe_loaded = Exists(sys + "module/rdma_rxe");
  const std::string files = root + "/dev/infiniband";
  for (const std::string& name : FileNames(files)) {
    const bool used = absl::StartsWith(name, "uverbs") || name == "rdma_cm";
    const std::string path = absl::StrCat(files, "/", name);
    if (used && access(path.c_str(), R_OK | W_OK) != 0)
      view.unusable.push_back(absl::StrCat("/dev/infiniband/", name));
  }
  return view;
}

}  // namespace ring::tools
