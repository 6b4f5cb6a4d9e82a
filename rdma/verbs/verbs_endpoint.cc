#include "rdma/verbs/verbs_endpoint.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "rdma/soft/device.h"
#include "rdma/soft/queue_pair.h"
#include "rdma/soft/socket_address.h"
#include "rdma/soft/socket_listener.h"
#include "rdma/verbs/nic.h"
#include "rdma/verbs/verbs_connection.h"
#include "ring/base/log.h"
#include "ring/base/status.h"

namespace ring::rdma::verbs {
namespace {

constexpr absl::string_view kScheme = "rdma";
constexpr int kBacklog = 512;

bool IsWildcard(const soft::SocketAddress& address) {
  if (address.storage.ss_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    return IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr);
  }
  return reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr.s_addr == INADDR_ANY;
}

std::string NameOf(const rdma_cm_id* id) {
  return id->verbs == nullptr ? "" : ibv_get_device_name(id->verbs->device);
}

// Passes on that a descriptor is ready.
template <typename Owner>
class Forward final : public soft::FdHandler {
 public:
  using Method = void (Owner::*)();
  Forward(Owner* owner, Method method) : owner_(owner), method_(method) {}
  void OnReady(std::uint32_t) override { (owner_->*method_)(); }

 private:
  Owner* owner_;
  Method method_;
};

class VerbsEndpoint final : public soft::NicEndpoint, public VerbsConnection::Hub {
 public:
  VerbsEndpoint(soft::SoftDevice* device, rdma_event_channel* channel)
      : device_(device),
        channel_(channel),
        on_event_(this, &VerbsEndpoint::TakeCmEvents),
        on_completion_(this, &VerbsEndpoint::TakeNotifications),
        on_card_(this, &VerbsEndpoint::TakeCardEvents) {}
  ~VerbsEndpoint() override;
  absl::Status Start() { return device_->Watch(channel_->fd, &on_event_, EPOLLIN); }

  bool mapped() const override { return false; }
  absl::StatusOr<std::string> Listen(absl::string_view text) override;
  absl::Status Connect(absl::string_view text, soft::SoftQueuePair* qp,
                       absl::string_view private_data) override;
  bool Progress() override;

  absl::Status OnAllocate(std::byte* address, std::size_t size) override {
    return nic_ == nullptr ? absl::OkStatus() : nic_->memory().AddRun(address, size);
  }
  void OnFree(std::byte* address, std::size_t) override {
    if (nic_ != nullptr) nic_->memory().RemoveRun(address);
  }
  absl::Status OnRegister(const soft::RegionRange& range) override {
    return nic_ == nullptr ? absl::OkStatus() : nic_->memory().AddRegion(range);
  }
  void OnClose(std::uint32_t key) override {
    if (nic_ != nullptr) nic_->memory().CloseRegion(key);
  }
  void OnRelease(std::uint32_t key) override {
    if (nic_ != nullptr) nic_->memory().ReleaseRegion(key);
  }
  bool IsPinned(const std::byte* address, std::size_t size) const override {
    return nic_ != nullptr && nic_->memory().Overlaps(address, size);
  }
  void PrepareToSleep(bool sleeping) override;
  absl::Status CardStatus() const override {
    if (!gone_) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat("verbs device=", nic_->name(),
                                               " went away: open the device anew once it is back"));
  }

  absl::StatusOr<Nic*> NicOf(rdma_cm_id* id) override { return OpenNic(NameOf(id)); }
  void Drain() override {
    while (TakeCompletions()) {
    }
  }
  // A card that is gone takes its connections along: nothing of them is left to wait.
  absl::Status PortStatus() override {
    return nic_ == nullptr || gone_ ? absl::OkStatus() : nic_->PortStatus();
  }
  void AddRestless(int delta) override {
    restless_ += delta;
    device_->AddPolledConnection(delta);
  }

 private:
  absl::StatusOr<Nic*> OpenNic(const std::string& name);
  absl::Status Bind(rdma_cm_id* id, absl::string_view text, soft::SocketAddress address);
  std::shared_ptr<VerbsConnection> Add();
  void Arm();
  bool TakeCompletions();
  void TakeCmEvents();
  void OnRequest(rdma_cm_id* id, absl::Span<const std::byte> private_data);
  void TakeNotifications();
  void TakeCardEvents();
  void HangUpAll(absl::string_view why);

  soft::SoftDevice* device_;
  rdma_event_channel* channel_;
  Forward<VerbsEndpoint> on_event_;
  Forward<VerbsEndpoint> on_completion_;
  Forward<VerbsEndpoint> on_card_;
  std::unique_ptr<Nic> nic_;
  std::vector<rdma_cm_id*> listeners_;
  absl::flat_hash_map<std::uint32_t, std::shared_ptr<VerbsConnection>> connections_;
  std::uint32_t next_serial_ = 1;
  int restless_ = 0;
  bool taking_ = false;
  bool sleeping_ = false;
  bool gone_ = false;  // the card
  bool told_card_event_ = false;
};

VerbsEndpoint::~VerbsEndpoint() {
  connections_.clear();
  for (rdma_cm_id* const id : listeners_) rdma_destroy_id(id);
  device_->Unwatch(channel_->fd, &on_event_);
  if (nic_ != nullptr) {
    device_->Unwatch(nic_->completion_fd(), &on_completion_);
    device_->Unwatch(nic_->event_fd(), &on_card_);
  }
  nic_.reset();
  rdma_destroy_event_channel(channel_);
}

// --- the card ---

absl::StatusOr<Nic*> VerbsEndpoint::OpenNic(const std::string& name) {
  const VerbsOptions& options = device_->options().verbs;
  const std::string wanted = nic_ != nullptr ? nic_->name() : options.device;
  if (!wanted.empty() && !name.empty() && wanted != name) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the address is of verbs device=", name, ", and device ", device_->options().name, " uses ",
        wanted, ": give an address of that, or name the other"));
  }
  RING_RETURN_IF_ERROR(CardStatus());
  if (nic_ != nullptr) return nic_.get();
  RING_ASSIGN_OR_RETURN(std::unique_ptr<Nic> nic,
                        Nic::Open(options, name, &device_->mutable_counters()));
  nic_ = std::move(nic);
  absl::Status opened = device_->TellMemory(this);
  if (opened.ok()) opened = device_->Watch(nic_->completion_fd(), &on_completion_, EPOLLIN);
  if (opened.ok()) opened = device_->Watch(nic_->event_fd(), &on_card_, EPOLLIN);
  if (!opened.ok()) {
    device_->Unwatch(nic_->completion_fd(), &on_completion_);
    nic_.reset();
    return opened;
  }
  return nic_.get();
}

void VerbsEndpoint::PrepareToSleep(bool sleeping) {
  sleeping_ = sleeping;
  if (nic_ == nullptr || !sleeping) return;
  for (const auto& [serial, connection] : connections_) connection->TellSleeping();
  Arm();
}

void VerbsEndpoint::Arm() {
  nic_->Arm();
  // What came before the arming wakes nobody.
  if (TakeCompletions()) device_->mapping()->Wake();
}

// The last look before a sleep may find what was told before it.
void VerbsEndpoint::TakeNotifications() {
  nic_->TakeNotifications();
  if (sleeping_) Arm();
}

void VerbsEndpoint::TakeCardEvents() {
  ibv_event_type type;
  int port = 0;
  while (nic_->TakeEvent(&type, &port)) {
    const bool gone = type == IBV_EVENT_DEVICE_FATAL;
    const bool down = type == IBV_EVENT_PORT_ERR && port == nic_->port();
    gone_ |= gone;
    if (gone || down) HangUpAll(ibv_event_type_str(type));
    if (type == IBV_EVENT_PORT_ACTIVE && port == nic_->port() && told_card_event_ && !gone_) {
      told_card_event_ = false;
      RING_LOG(INFO) << "verbs device=" << nic_->name() << " port=" << port << " is active again";
    }
  }
}

void VerbsEndpoint::HangUpAll(absl::string_view why) {
  if (!std::exchange(told_card_event_, true))
    RING_LOG(ERROR) << "verbs device=" << nic_->name() << ": " << why << ": its connections end";
  std::vector<std::shared_ptr<VerbsConnection>> all;
  for (const auto& [serial, connection] : connections_) all.push_back(connection);
  for (const auto& connection : all) connection->OnHangUp();
}

bool VerbsEndpoint::TakeCompletions() {
  if (nic_ == nullptr || taking_) return false;
  constexpr std::size_t kCount = 32;
  std::array<ibv_wc, kCount> completions;
  taking_ = true;
  const std::size_t count = nic_->Poll(absl::MakeSpan(completions));
  for (std::size_t i = 0; i < count; ++i) {
    const WrId id = UnpackWrId(completions[i].wr_id);
    const auto found = connections_.find(id.serial);
    if (found != connections_.end()) found->second->OnCompletion(id, completions[i]);
  }
  taking_ = false;
  return count != 0;
}

bool VerbsEndpoint::Progress() {
  bool worked = TakeCompletions();
  if (restless_ == 0) return worked;
  std::vector<std::uint32_t> dead;
  std::vector<std::shared_ptr<VerbsConnection>> all;
  for (const auto& [serial, connection] : connections_) {
    if (connection->state() == VerbsConnection::State::kDead) {
      dead.push_back(serial);
    } else if (connection->restless()) {
      all.push_back(connection);
    }
  }
  for (const std::uint32_t serial : dead) {
    connections_[serial]->Forget();  // a link may still hold it
    connections_.erase(serial);
    worked = true;
  }
  for (const auto& connection : all) worked |= connection->Progress();
  return worked;
}

// --- connections ---

std::shared_ptr<VerbsConnection> VerbsEndpoint::Add() {
  while (next_serial_ == 0 || connections_.contains(next_serial_))
    next_serial_ = (next_serial_ + 1) % kSerialMax;
  auto connection = std::make_shared<VerbsConnection>(device_, this, next_serial_);
  connections_[next_serial_] = connection;
  next_serial_ = (next_serial_ + 1) % kSerialMax;
  return connection;
}

absl::Status VerbsEndpoint::Bind(rdma_cm_id* id, absl::string_view text,
                                 soft::SocketAddress address) {
  if (rdma_bind_addr(id, address.raw()) != 0) {
    if (errno == EADDRINUSE)
      return absl::AlreadyExistsError(absl::StrCat("rdma:", text, " is in use"));
    return absl::InvalidArgumentError(absl::StrCat("rdma:", text, ": ", std::strerror(errno),
                                                   ": give an address of a verbs device"));
  }
  if (id->verbs != nullptr) RING_RETURN_IF_ERROR(OpenNic(NameOf(id)).status());
  if (rdma_listen(id, kBacklog) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("rdma:", text, ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> VerbsEndpoint::Listen(absl::string_view text) {
  RING_ASSIGN_OR_RETURN(soft::SocketAddress address,
                        soft::ReadAddress(kScheme, text, /*passive=*/true));
  if (!device_->options().verbs.device.empty()) RING_RETURN_IF_ERROR(OpenNic("").status());
  if (IsWildcard(address) && nic_ != nullptr && !nic_->source().empty()) {
    const std::string own = absl::StrCat("[", nic_->source(), "]", text.substr(text.rfind(':')));
    RING_ASSIGN_OR_RETURN(address, soft::ReadAddress(kScheme, own, /*passive=*/true));
  }
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP) != 0)
    return absl::ResourceExhaustedError(absl::StrCat("rdma_create_id: ", std::strerror(errno)));
  if (absl::Status bound = Bind(id, text, address); !bound.ok()) {
    rdma_destroy_id(id);
    return bound;
  }
  listeners_.push_back(id);
  reinterpret_cast<sockaddr_in*>(address.raw())->sin_port = rdma_get_src_port(id);
  return soft::FormatAddress(kScheme, address);
}

absl::Status VerbsEndpoint::Connect(absl::string_view text, soft::SoftQueuePair* qp,
                                    absl::string_view private_data) {
  RING_ASSIGN_OR_RETURN(const soft::SocketAddress target,
                        soft::ReadAddress(kScheme, text, /*passive=*/false));
  if (!device_->options().verbs.device.empty()) RING_RETURN_IF_ERROR(OpenNic("").status());
  const bool bound = nic_ != nullptr && !nic_->source().empty();
  soft::SocketAddress source;
  if (bound) {
    RING_ASSIGN_OR_RETURN(
        source, soft::ReadAddress(kScheme, absl::StrCat("[", nic_->source(), "]:0"), true));
  }
  return Add()->Connect(channel_, bound ? &source : nullptr, target, qp, private_data);
}

void VerbsEndpoint::OnRequest(rdma_cm_id* id, absl::Span<const std::byte> private_data) {
  std::size_t waiting = 0;
  for (const auto& [serial, connection] : connections_)
    waiting += connection->AwaitsHello() ? 1 : 0;
  const std::string full = soft::FullReason(device_->options(), connections_.size(), waiting);
  if (full.empty()) return Add()->Admit(id, private_data);
  const std::string rejection = EncodeRejection(full);
  rdma_reject(id, rejection.data(), static_cast<std::uint8_t>(rejection.size()));
  rdma_destroy_id(id);
}

// An event is copied and given back first: an id is not destroyed while it has one.
void VerbsEndpoint::TakeCmEvents() {
  constexpr int kBatch = 32;
  for (int i = 0; i < kBatch; ++i) {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(channel_, &event) != 0) return;
    CmEvent copy;
    copy.type = event->event;
    copy.status = event->status;
    const auto* data = static_cast<const std::byte*>(event->param.conn.private_data);
    if (data != nullptr) copy.private_data.assign(data, data + event->param.conn.private_data_len);
    rdma_cm_id* const id = event->id;
    const bool listens = std::find(listeners_.begin(), listeners_.end(), id) != listeners_.end();
    auto* const connection = static_cast<VerbsConnection*>(id->context);
    rdma_ack_cm_event(event);
    // Of every id there is such an event; the first ends them all.
    const bool removed = copy.type == RDMA_CM_EVENT_DEVICE_REMOVAL;
    if (removed && !gone_ && nic_ != nullptr && NameOf(id) == nic_->name()) {
      gone_ = true;
      HangUpAll("removed");
    }
    if (copy.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      OnRequest(id, copy.private_data);
    } else if (!listens) {
      connection->OnCmEvent(copy);
    } else if (removed) {
      listeners_.erase(std::find(listeners_.begin(), listeners_.end(), id));
      rdma_destroy_id(id);
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<soft::NicEndpoint>> MakeVerbsEndpoint(soft::SoftDevice* device) {
  RING_RETURN_IF_ERROR(ListDevices().status());
  rdma_event_channel* const channel = rdma_create_event_channel();
  if (channel == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("no connection manager of RDMA: ", std::strerror(errno),
                     ": load the module rdma_ucm, and see the rights on /dev/infiniband/rdma_cm"));
  }
  fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
  auto endpoint = std::make_unique<VerbsEndpoint>(device, channel);
  RING_RETURN_IF_ERROR(endpoint->Start());
  return endpoint;
}

}  // namespace ring::rdma::verbs
