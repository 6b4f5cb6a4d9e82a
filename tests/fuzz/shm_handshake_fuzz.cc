// What any process of the machine may send to a node's socket: a handshake of the shared-memory
// link, with descriptors, and the layout of the memory that comes with it.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>

#include "absl/strings/string_view.h"
#include "rdma/soft/mapping.h"
#include "rdma/soft/shm_wire.h"
#include "ring/base/check.h"

namespace {

using ring::rdma::soft::Mapping;

constexpr int kDescriptorsMax = 4;

// The memory that a sound peer would share.
const Mapping& Peer() {
  static const std::shared_ptr<Mapping>* const peer = [] {
    Mapping::Options options;
    options.arena_size_max = 1 << 20;
    options.mailbox_count = 4;
    options.recv_depth_max = 16;
    options.shareable = true;
    auto created = Mapping::Create(options);
    RING_CHECK(created.ok()) << created.status();
    return new std::shared_ptr<Mapping>(*std::move(created));
  }();
  return **peer;
}

void Send(int socket, absl::string_view bytes, int descriptor_count) {
  iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  int fds[kDescriptorsMax];
  for (int i = 0; i < kDescriptorsMax; ++i)
    fds[i] = i % 2 == 0 ? Peer().memory_fd() : Peer().event_fd();
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(fds))] = {};
  if (descriptor_count > 0) {
    const std::size_t size = static_cast<std::size_t>(descriptor_count) * sizeof(int);
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(size);
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(size);
    std::memcpy(CMSG_DATA(rights), fds, size);
  }
  (void)sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int NextDescriptor() {
  const int next = fcntl(Peer().event_fd(), F_DUPFD_CLOEXEC, 0);
  close(next);
  return next;
}

}  // namespace

// How many descriptors come along, and the packet.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ring::rdma::soft;
  if (size == 0) return 0;
  int sockets[2];
  RING_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0);
  Send(sockets[0], absl::string_view(reinterpret_cast<const char*>(data) + 1, size - 1),
       data[0] % (kDescriptorsMax + 1));
  if (absl::StatusOr<ShmReceived> received = ReceiveShmMessage(sockets[1]); received.ok()) {
    const ShmMessage message = received->message;
    RING_CHECK(message.private_data.size() <= ring::rdma::kPrivateDataSizeMax);
    if (message.kind != ShmMessage::Kind::kReject) {
      const auto attached = Mapping::Attach(received->TakeMemoryFd(), received->TakeEventFd(),
                                            message.layout, message.arena_address);
      // Only what lies in the memory that came is mapped.
      if (attached.ok()) {
        RING_CHECK((*attached)->layout().total_size() == Peer().layout().total_size());
        (void)(*attached)->OwnerAlive();
      }
    }
  }
  close(sockets[0]);
  close(sockets[1]);
  // Nobody keeps a descriptor: the next free one is always the same. But for a moment: the C
  // library opens files when the thread that unmaps memory asks it for some.
  static const int lowest = NextDescriptor();
  int next = NextDescriptor();
  for (int tries = 0; next > lowest && tries < 1'000'000; ++tries) {
    std::this_thread::yield();
    next = NextDescriptor();
  }
  RING_CHECK(next <= lowest) << "descriptors are lost: next=" << next << " at first=" << lowest;
  return 0;
}
