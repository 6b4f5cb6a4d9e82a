#include "rdma/verbs/nic.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rdma/verbs/gid.h"
#include "ring/base/log.h"
#include "ring/base/status.h"

namespace ring::rdma::verbs {
namespace {

constexpr std::uint32_t kQueueDepthMin = 4095;

class DeviceList {
 public:
  DeviceList() : devices_(ibv_get_device_list(&count_)) {}
  ~DeviceList() {
    if (devices_ != nullptr) ibv_free_device_list(devices_);
  }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;
  absl::Span<ibv_device* const> devices() const {
    return {devices_, devices_ == nullptr ? 0 : static_cast<std::size_t>(count_)};
  }
  std::string Names() const {
    std::string names;
    for (ibv_device* const device : devices())
      absl::StrAppend(&names, names.empty() ? "" : ", ", ibv_get_device_name(device));
    return names;
  }

 private:
  int count_ = 0;
  ibv_device** devices_;
};

bool HasActivePort(ibv_device* device) {
  ibv_context* const context = ibv_open_device(device);
  if (context == nullptr) return false;
  ibv_device_attr attributes{};
  bool active = false;
  if (ibv_query_device(context, &attributes) == 0) {
    for (std::uint8_t port = 1; port <= attributes.phys_port_cnt; ++port) {
      ibv_port_attr port_attributes{};
      active |= ibv_query_port(context, port, &port_attributes) == 0 &&
                port_attributes.state == IBV_PORT_ACTIVE;
    }
  }
  ibv_close_device(context);
  return active;
}

absl::Status NoDevice() {
  return absl::FailedPreconditionError(
      "this host has no verbs device: is the card's driver loaded? \"rdma link\" shows them");
}

void MakeNonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

absl::StatusOr<std::string> ListDevices() {
  const DeviceList list;
  if (list.devices().empty()) return NoDevice();
  return list.Names();
}

absl::StatusOr<std::unique_ptr<Nic>> Nic::Open(const VerbsOptions& options,
                                               absl::string_view device_hint,
                                               DeviceCounters* counters) {
  std::unique_ptr<Nic> nic(new Nic(counters));
  RING_RETURN_IF_ERROR(nic->OpenDevice(options, device_hint));
  RING_RETURN_IF_ERROR(nic->ChoosePort(options.port));
  RING_RETURN_IF_ERROR(nic->ChooseSource(options.gid_index));
  RING_RETURN_IF_ERROR(nic->MakeQueue());
  nic->memory_ = std::make_unique<NicMemory>(nic->pd_, nic->name_, counters);
  RING_RETURN_IF_ERROR(nic->memory_->Open());
  return nic;
}

Nic::~Nic() {
  memory_.reset();
  if (cq_ != nullptr) ibv_destroy_cq(cq_);
  if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
  if (pd_ != nullptr) ibv_dealloc_pd(pd_);
  if (context_ != nullptr) ibv_close_device(context_);
}

absl::Status Nic::OpenDevice(const VerbsOptions& options, absl::string_view device_hint) {
  const DeviceList list;
  if (list.devices().empty()) return NoDevice();
  const absl::string_view wanted = options.device.empty() ? device_hint : options.device;
  const auto found =
      std::find_if(list.devices().begin(), list.devices().end(), [wanted](ibv_device* device) {
        return wanted.empty() ? HasActivePort(device) : wanted == ibv_get_device_name(device);
      });
  if (found == list.devices().end()) {
    if (wanted.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("no verbs device has an active port: \"rdma link\" shows why, devices are ",
                       list.Names()));
    }
    return absl::NotFoundError(
        absl::StrCat("verbs device=", wanted, " is not there: give one of ", list.Names()));
  }
  name_ = ibv_get_device_name(*found);
  if ((*found)->transport_type == IBV_TRANSPORT_IWARP) {
    return absl::UnimplementedError(absl::StrCat(
        "verbs device=", name_, " is an iWARP card, which has neither the atomics nor the WRITE ",
        "with immediate data that are needed: use tcp addresses"));
  }
  context_ = ibv_open_device(*found);
  if (context_ == nullptr || ibv_query_device(context_, &attributes_) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("verbs device=", name_,
                                                      " cannot be opened: ", std::strerror(errno),
                                                      ": see the rights on /dev/infiniband"));
  }
  if (attributes_.atomic_cap == IBV_ATOMIC_NONE) {
    return absl::UnimplementedError(
        absl::StrCat("verbs device=", name_, " has no atomics: use tcp addresses"));
  }
  return absl::OkStatus();
}

absl::Status Nic::ChoosePort(std::uint32_t wanted) {
  if (wanted > attributes_.phys_port_cnt) {
    return absl::NotFoundError(absl::StrCat("verbs device=", name_, " has no port=", wanted,
                                            ": it has ", attributes_.phys_port_cnt));
  }
  ibv_port_state state = IBV_PORT_NOP;
  for (std::uint8_t port = 1; port <= attributes_.phys_port_cnt; ++port) {
    if (wanted != 0 && port != wanted) continue;
    if (ibv_query_port(context_, port, &port_attributes_) != 0) continue;
    state = port_attributes_.state;
    port_ = port;
    if (state == IBV_PORT_ACTIVE) return absl::OkStatus();
  }
  return PortError(state);
}

absl::Status Nic::PortError(ibv_port_state state) const {
  return absl::FailedPreconditionError(absl::StrCat("verbs device=", name_, " port=", port_, " is ",
                                                    ibv_port_state_str(state),
                                                    ": bring its link up"));
}

absl::Status Nic::PortStatus() const {
  ibv_port_attr now{};
  const bool down = ibv_query_port(context_, port_, &now) == 0 && now.state != IBV_PORT_ACTIVE &&
                    now.state != IBV_PORT_ACTIVE_DEFER;
  return down ? PortError(now.state) : absl::OkStatus();
}

absl::Status Nic::ChooseSource(int gid_index) {
  if (port_attributes_.link_layer != IBV_LINK_LAYER_ETHERNET) return absl::OkStatus();
  std::vector<ibv_gid_entry> entries(
      static_cast<std::size_t>(std::max(port_attributes_.gid_tbl_len, 1)) *
      attributes_.phys_port_cnt);
  const ssize_t count = ibv_query_gid_table(context_, entries.data(), entries.size(), 0);
  entries.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  entries.erase(std::remove_if(entries.begin(), entries.end(),
                               [this](const auto& entry) { return entry.port_num != port_; }),
                entries.end());
  RING_ASSIGN_OR_RETURN(const ibv_gid_entry chosen, ChooseGid(entries, gid_index, name_));
  source_ = GidAddress(chosen.gid);
  return absl::OkStatus();
}

absl::Status Nic::MakeQueue() {
  pd_ = ibv_alloc_pd(context_);
  channel_ = ibv_create_comp_channel(context_);
  if (pd_ == nullptr || channel_ == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("verbs device=", name_,
                     ": no protection domain or completion channel: ", std::strerror(errno)));
  }
  MakeNonblocking(channel_->fd);
  MakeNonblocking(context_->async_fd);
  const int depth = std::min(static_cast<int>(kQueueDepthMin), attributes_.max_cqe);
  cq_ = ibv_create_cq(context_, depth, nullptr, channel_, 0);
  if (cq_ == nullptr) return RegistrationError(name_, static_cast<std::size_t>(depth) * 64, errno);
  return absl::OkStatus();
}

absl::Status Nic::ReserveCompletions(std::uint32_t count) {
  const std::uint32_t needed = reserved_ + count;
  if (needed > static_cast<std::uint32_t>(cq_->cqe)) {
    const std::uint32_t doubled = std::max(needed, 2 * static_cast<std::uint32_t>(cq_->cqe));
    const int depth =
        static_cast<int>(std::min(doubled, static_cast<std::uint32_t>(attributes_.max_cqe)));
    const int error =
        static_cast<std::uint32_t>(depth) < needed ? EOVERFLOW : ibv_resize_cq(cq_, depth);
    if (error != 0) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "verbs device=", name_, ": no completion queue with depth=", needed, " (it allows ",
          attributes_.max_cqe, "): ", std::strerror(error), ": use fewer connections per device"));
    }
  }
  reserved_ = needed;
  return absl::OkStatus();
}

std::size_t Nic::Poll(absl::Span<ibv_wc> completions) {
  const int count = ibv_poll_cq(cq_, static_cast<int>(completions.size()), completions.data());
  if (count <= 0) {  // less than none: the card is gone, of which its events tell
    reserved_ -= retired_;
    retired_ = 0;
    return 0;
  }
  counters_->card_completions += static_cast<std::size_t>(count);
  return static_cast<std::size_t>(count);
}

void Nic::Arm() {
  if (armed_) return;
  armed_ = true;
  const int error = ibv_req_notify_cq(cq_, 0);
  if (error != 0) RING_LOG(ERROR) << "verbs device=" << name_ << " cannot arm: " << error;
}

void Nic::TakeNotifications() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  unsigned int count = 0;
  while (ibv_get_cq_event(channel_, &cq, &context) == 0) ++count;
  if (count == 0) return;
  ibv_ack_cq_events(cq_, count);
  armed_ = false;
}

bool Nic::TakeEvent(ibv_event_type* type, int* port) {
  ibv_async_event event;
  if (ibv_get_async_event(context_, &event) != 0) return false;
  *type = event.event_type;
  *port = event.element.port_num;
  ibv_ack_async_event(&event);
  return true;
}

}  // namespace ring::rdma::verbs
