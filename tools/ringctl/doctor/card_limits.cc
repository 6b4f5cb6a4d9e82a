#include "tools/ringctl/doctor/card_limits.h"

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace ring::tools {
namespace {

void ReadDevice(ibv_context* context, RdmaDevice* out) {
  ibv_device_attr attributes{};
  if (const int error = ibv_query_device(context, &attributes); error != 0) {
    out->limits_error = absl::StrCat("cannot be asked: ", std::strerror(error));
    return;
  }
  out->queue_pairs_max = static_cast<std::uint32_t>(attributes.max_qp);
  out->regions_max = static_cast<std::uint32_t>(attributes.max_mr);
  out->requests_max = static_cast<std::uint32_t>(attributes.max_qp_wr);
  for (RdmaPort& port : out->ports) {
    ibv_port_attr found{};
    if (ibv_query_port(context, static_cast<std::uint8_t>(port.number), &found) == 0)
      port.active_mtu = 128u << static_cast<unsigned>(found.active_mtu);
  }
}

}  // namespace

void ReadLimits(std::vector<RdmaDevice>* devices) {
  for (RdmaDevice& device : *devices)
    device.limits_error = "libibverbs does not know it: is ibverbs-providers installed?";
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  for (int i = 0; list != nullptr && i < count; ++i) {
    for (RdmaDevice& device : *devices) {
      if (device.name != ibv_get_device_name(list[i])) continue;
      device.limits_error.clear();
      ibv_context* const context = ibv_open_device(list[i]);
      if (context == nullptr) {
        device.limits_error = absl::StrCat("cannot be opened: ", std::strerror(errno));
        continue;
      }
      ReadDevice(context, &device);
      ibv_close_device(context);
    }
  }
  if (list != nullptr) ibv_free_device_list(list);
}

}  // namespace ring::tools
