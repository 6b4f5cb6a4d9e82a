#include "rdma/soft/shm_wire.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ring::rdma::soft {
namespace {

constexpr std::uint64_t kMagic = 0x52494e4748534b31;  // "RINGHSK1"
constexpr std::uint32_t kVersion = 1;

struct Packet {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t kind;
  MappingLayout layout;
  std::uint64_t arena_address;
  MailboxName mailbox;
  std::uint32_t private_size;
  std::uint32_t unused;
  char private_data[kPrivateDataSizeMax];
};
static_assert(sizeof(Packet) == 344 && offsetof(Packet, magic) == 0 &&
              offsetof(Packet, version) == 8 && offsetof(Packet, kind) == 12 &&
              offsetof(Packet, layout) == 16 && offsetof(Packet, arena_address) == 56 &&
              offsetof(Packet, mailbox) == 64 && offsetof(Packet, private_size) == 80 &&
              offsetof(Packet, private_data) == 88 && sizeof(MailboxName) == 16);

constexpr std::size_t kFdBytes = 2 * sizeof(int);

}  // namespace

ShmReceived::ShmReceived(ShmReceived&& other) noexcept
    : message(std::move(other.message)), fds{other.TakeMemoryFd(), other.TakeEventFd()} {}

ShmReceived::~ShmReceived() {
  for (const int fd : fds) {
    if (fd >= 0) close(fd);
  }
}

int ShmReceived::TakeMemoryFd() { return std::exchange(fds[0], -1); }
int ShmReceived::TakeEventFd() { return std::exchange(fds[1], -1); }

bool SendShmMessage(int socket, const ShmMessage& message, int memory_fd, int event_fd) {
  Packet packet{};
  packet.magic = kMagic;
  packet.version = kVersion;
  packet.kind = static_cast<std::uint32_t>(message.kind);
  packet.layout = message.layout;
  packet.arena_address = message.arena_address;
  packet.mailbox = message.mailbox;
  packet.private_size =
      static_cast<std::uint32_t>(std::min(message.private_data.size(), kPrivateDataSizeMax));
  std::memcpy(packet.private_data, message.private_data.data(), packet.private_size);
  iovec piece{&packet, sizeof(packet)};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kFdBytes)] = {};
  if (message.kind != ShmMessage::Kind::kReject) {
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(kFdBytes);
    const int fds[2] = {memory_fd, event_fd};
    std::memcpy(CMSG_DATA(rights), fds, kFdBytes);
  }
  return sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(sizeof(packet));
}

absl::StatusOr<ShmReceived> ReceiveShmMessage(int socket) {
  Packet packet;
  iovec piece{&packet, sizeof(packet)};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kFdBytes)] = {};
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  ssize_t size;
  do {
    size = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size < 0 && errno == EAGAIN) return absl::FailedPreconditionError("nothing to read");
  if (size < 0) return absl::UnavailableError("the peer closed the handshake socket");
  ShmReceived received;  // closes what came, whatever it came with
  std::size_t fd_count = 0;
  for (cmsghdr* rights = CMSG_FIRSTHDR(&header); rights != nullptr;
       rights = CMSG_NXTHDR(&header, rights)) {
    if (rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(rights) + i * sizeof(int), sizeof(int));
      if (fd_count < 2) {
        received.fds[fd_count++] = fd;
      } else {
        close(fd);
      }
    }
  }
  if (size == 0) return absl::UnavailableError("the peer closed the handshake socket");
  if (size != static_cast<ssize_t>(sizeof(packet)) || packet.magic != kMagic) {
    return absl::InvalidArgumentError("refused: not a handshake of Ring's shared-memory link");
  }
  if (packet.version != kVersion) {
    return absl::InvalidArgumentError(absl::StrCat("refused: handshake version=", packet.version,
                                                   ", this side has version=", kVersion,
                                                   ": run the same release on both sides"));
  }
  if (packet.kind < 1 || packet.kind > 3 || packet.private_size > kPrivateDataSizeMax) {
    return absl::InvalidArgumentError("refused: malformed handshake");
  }
  received.message.kind = static_cast<ShmMessage::Kind>(packet.kind);
  if (received.message.kind != ShmMessage::Kind::kReject && fd_count != 2) {
    if ((header.msg_flags & MSG_CTRUNC) != 0) {
      return absl::InvalidArgumentError("refused: the process is out of file descriptors");
    }
    return absl::InvalidArgumentError("refused: handshake without the two descriptors");
  }
  received.message.layout = packet.layout;
  received.message.arena_address = packet.arena_address;
  received.message.mailbox = packet.mailbox;
  received.message.private_data.assign(packet.private_data, packet.private_size);
  return received;
}

}  // namespace ring::rdma::soft
