#include "rdma/soft/shm_endpoint.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rdma/soft/device.h"
#include "rdma/soft/queue_pair.h"
#include "rdma/soft/shm_connection.h"
#include "rdma/soft/socket_listener.h"
#include "ring/base/status.h"

namespace ring::rdma::soft {
namespace {

class ShmEndpoint final : public Endpoint, public SocketListener::Sink, public ShmPeers {
 public:
  explicit ShmEndpoint(SoftDevice* device) : device_(device) {}
  ~ShmEndpoint() override {
    for (const std::string& path : paths_) unlink(path.c_str());
    for (const auto& connection : connections_) connection->Die();
  }
  bool mapped() const override { return true; }
  absl::StatusOr<std::string> Listen(absl::string_view address) override;
  absl::Status Connect(absl::string_view address, SoftQueuePair* qp,
                       absl::string_view private_data) override;
  bool Progress() override;
  void OnAccepted(int fd) override;
  void Refuse(int fd, absl::string_view reason) override { SendShmRefusal(fd, reason); }
  void NoteDead() override { sweep_ = true; }
  absl::StatusOr<std::shared_ptr<Mapping>> MapPeer(ShmReceived& received) override;

 private:
  struct Known {
    dev_t device;
    ino_t inode;
    std::weak_ptr<Mapping> mapping;
  };
  std::size_t AwaitingHello() const;

  SoftDevice* device_;
  std::vector<std::shared_ptr<ShmConnection>> connections_;
  std::vector<std::string> paths_;
  std::vector<std::unique_ptr<SocketListener>> listeners_;
  std::vector<Known> known_;
  bool sweep_ = false;
};

absl::StatusOr<sockaddr_un> UnixAddress(absl::string_view path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("shm:", path, ": the path must have 1 to ",
                                                   sizeof(address.sun_path) - 1, " characters"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

absl::StatusOr<std::string> ShmEndpoint::Listen(absl::string_view path) {
  RING_ASSIGN_OR_RETURN(const sockaddr_un address, UnixAddress(path));
  const auto* raw = reinterpret_cast<const sockaddr*>(&address);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::ResourceExhaustedError(absl::StrCat("socket: ", strerror(errno)));
  int bound = bind(fd, raw, sizeof(address));
  if (bound != 0 && errno == EADDRINUSE) {
    // Left behind by a dead process if nobody answers.
    const int probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const bool dead =
        probe >= 0 && connect(probe, raw, sizeof(address)) != 0 && errno == ECONNREFUSED;
    if (probe >= 0) close(probe);
    if (dead) {
      unlink(address.sun_path);
      bound = bind(fd, raw, sizeof(address));
    } else {
      errno = EADDRINUSE;
    }
  }
  if (bound != 0 || listen(fd, 128) != 0) {
    const int error = errno;
    close(fd);
    if (error == EADDRINUSE)
      return absl::AlreadyExistsError(absl::StrCat("shm:", path, " is in use"));
    return absl::InvalidArgumentError(absl::StrCat("shm:", path, ": ", strerror(error)));
  }
  paths_.emplace_back(path);
  listeners_.push_back(std::make_unique<SocketListener>(device_, fd, this));
  RING_RETURN_IF_ERROR(listeners_.back()->Start());
  return absl::StrCat("shm:", path);
}

absl::Status ShmEndpoint::Connect(absl::string_view path, SoftQueuePair* qp,
                                  absl::string_view private_data) {
  RING_ASSIGN_OR_RETURN(const sockaddr_un address, UnixAddress(path));
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::ResourceExhaustedError(absl::StrCat("socket: ", strerror(errno)));
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    close(fd);
    device_->FailConnect(qp, "");
    return absl::OkStatus();
  }
  connections_.push_back(
      std::make_shared<ShmConnection>(this, device_, fd, ShmConnection::State::kAwaitAnswer));
  ShmConnection& connection = *connections_.back();
  absl::Status watched = connection.Start();
  if (!watched.ok() || !connection.SendOwn(ShmMessage::Kind::kHello, qp, private_data)) {
    connection.Die();
    if (!watched.ok()) return watched;
    device_->FailConnect(qp, "");
  }
  return absl::OkStatus();
}

std::size_t ShmEndpoint::AwaitingHello() const {
  std::size_t count = 0;
  for (const auto& connection : connections_) {
    count += connection->state() == ShmConnection::State::kAwaitHello ? 1 : 0;
  }
  return count;
}

void ShmEndpoint::OnAccepted(int fd) {
  const std::string full = FullReason(device_->options(), connections_.size(), AwaitingHello());
  if (!full.empty()) {
    Refuse(fd, full);
    close(fd);
    return;
  }
  connections_.push_back(
      std::make_shared<ShmConnection>(this, device_, fd, ShmConnection::State::kAwaitHello));
  if (!connections_.back()->Start().ok()) connections_.back()->Die();
}

bool ShmEndpoint::Progress() {
  const std::uint64_t limit = std::uint64_t{device_->options().hello_timeout_ms} * 1'000'000;
  std::uint64_t now = 0;
  for (const auto& connection : connections_) {
    if (connection->state() == ShmConnection::State::kAwaitAnswer) connection->EndIfGivenUp();
    if (connection->state() != ShmConnection::State::kAwaitHello) continue;
    if (now == 0) now = device_->NowNs();
    if (now - connection->created_ns() > limit) connection->Refuse("refused: no hello in time");
  }
  if (!sweep_) return false;
  sweep_ = false;
  connections_.erase(
      std::remove_if(connections_.begin(), connections_.end(),
                     [](const auto& c) { return c->state() == ShmConnection::State::kDead; }),
      connections_.end());
  return true;
}

absl::StatusOr<std::shared_ptr<Mapping>> ShmEndpoint::MapPeer(ShmReceived& received) {
  struct stat status;
  if (fstat(received.fds[0], &status) != 0)
    return absl::InvalidArgumentError("the memory descriptor is not valid");
  known_.erase(std::remove_if(known_.begin(), known_.end(),
                              [](const Known& k) { return k.mapping.expired(); }),
               known_.end());
  const MappingLayout& layout = received.message.layout;
  for (const Known& known : known_) {
    std::shared_ptr<Mapping> mapping = known.mapping.lock();
    if (mapping != nullptr && known.device == status.st_dev && known.inode == status.st_ino &&
        std::memcmp(&mapping->layout(), &layout, sizeof(layout)) == 0 &&
        mapping->owner_arena_address() == received.message.arena_address) {
      return mapping;
    }
  }
  RING_ASSIGN_OR_RETURN(std::shared_ptr<Mapping> mapping,
                        Mapping::Attach(received.TakeMemoryFd(), received.TakeEventFd(), layout,
                                        received.message.arena_address));
  known_.push_back({status.st_dev, status.st_ino, mapping});
  return mapping;
}

}  // namespace

std::unique_ptr<Endpoint> MakeShmEndpoint(SoftDevice* device) {
  return std::make_unique<ShmEndpoint>(device);
}

}  // namespace ring::rdma::soft
