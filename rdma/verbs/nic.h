// rdma/verbs/nic.h — one RDMA card, opened for one device.
//
// What:      Nic opens the card that VerbsOptions name, or the one that an address belongs to: its
//            protection domain, one completion queue for everything, and the descriptors that tell
//            of completions and of the card's own events.
// Shape:     the completion queue has a place for every request and receive of the queue pairs that
//            reserved theirs, and grows. A destroyed queue pair's completions may still be in it:
//            its places are free again when the queue was seen empty.
// Ownership: of the verbs objects; queue pairs and their connections go before it.
// Threads:   the device's.
// Errors:    kNotFound (no such device, port or GID), kFailedPrecondition (no device, no active
//            port, no address), kUnimplemented (iWARP), kResourceExhausted (memory, queue).
// Cost:      Poll of an empty queue is one call of the card's library, none of the system.
#ifndef RING_RDMA_VERBS_NIC_H_
#define RING_RDMA_VERBS_NIC_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rdma/verbs/nic_memory.h"
#include "rdma/verbs/verbs_options.h"

namespace ring::rdma::verbs {

class Nic {
 public:
  // device_hint: of the address, used where the options name none; empty: the first active one.
  // counters: where it counts what it is asked for.
  static absl::StatusOr<std::unique_ptr<Nic>> Open(const VerbsOptions& options,
                                                   absl::string_view device_hint,
                                                   DeviceCounters* counters);
  ~Nic();
  Nic(const Nic&) = delete;
  Nic& operator=(const Nic&) = delete;

  const std::string& name() const { return name_; }
  NicMemory& memory() { return *memory_; }
  DeviceCounters& counters() { return *counters_; }
  ibv_pd* pd() const { return pd_; }
  ibv_cq* cq() const { return cq_; }
  const ibv_device_attr& attributes() const { return attributes_; }
  ibv_mtu mtu() const { return port_attributes_.active_mtu; }
  std::uint8_t port() const { return port_; }
  std::uint32_t message_size_max() const { return port_attributes_.max_msg_sz; }
  // The IP address that requests come from; empty: the routes decide (InfiniBand).
  const std::string& source() const { return source_; }
  int completion_fd() const { return channel_->fd; }
  int event_fd() const { return context_->async_fd; }

  absl::Status ReserveCompletions(std::uint32_t count);
  void ReleaseCompletions(std::uint32_t count) { retired_ += count; }
  std::size_t Poll(absl::Span<ibv_wc> completions);
  // The next completion makes completion_fd() readable. Poll again afterwards.
  void Arm();
  void TakeNotifications();
  // kFailedPrecondition: what is sent through the port gets nowhere, and what to do. Asks the
  // system.
  absl::Status PortStatus() const;
  // The card's next event; false: there is none.
  bool TakeEvent(ibv_event_type* type, int* port);

 private:
  explicit Nic(DeviceCounters* counters) : counters_(counters) {}
  absl::Status OpenDevice(const VerbsOptions& options, absl::string_view device_hint);
  absl::Status ChoosePort(std::uint32_t wanted);
  absl::Status PortError(ibv_port_state state) const;
  absl::Status ChooseSource(int gid_index);
  absl::Status MakeQueue();

  DeviceCounters* counters_;
  std::string name_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_device_attr attributes_{};
  ibv_port_attr port_attributes_{};
  std::uint8_t port_ = 0;
  std::string source_;
  std::unique_ptr<NicMemory> memory_;
  std::uint32_t reserved_ = 0;
  std::uint32_t retired_ = 0;  // of those: given up, and maybe still in the queue
  bool armed_ = false;
};

// The names of the cards of this host, or why there are none.
absl::StatusOr<std::string> ListDevices();

}  // namespace ring::rdma::verbs

#endif  // RING_RDMA_VERBS_NIC_H_
