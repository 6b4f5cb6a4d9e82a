// A stream of the tcp link behind the handshake, as a peer may send it: frames with right check
// sums and any fields, payloads that are too short or too long, and plain bytes, cut into segments
// anywhere. Nothing outside the memory that the peer was given may change.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "rdma/soft/soft_device.h"
#include "rdma/soft/tcp_frame.h"
#include "ring/base/check.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

namespace rdma = ring::rdma;
namespace soft = ring::rdma::soft;

constexpr std::size_t kPage = 4096;  // given to the peer, between two that are not
constexpr std::uint32_t kReceives = 4;
constexpr std::uint32_t kReceiveSize = 64;

using Input = ring::testing::FuzzInput;

class Target {
 public:
  explicit Target(bool uring) {
    rdma::SoftDeviceOptions options;
    options.arena_size_max = std::uint64_t{64} << 20;
    options.qp_count_max = 16;
    options.recv_depth_max = kReceives;
    options.tcp_uring = uring;
    options.rnr_timeout_ms = 0;
    device_ = *rdma::OpenSoftDevice(options);
    send_cq_ = *device_->CreateCompletionQueue(64);
    recv_cq_ = *device_->CreateCompletionQueue(64);
    memory_ = *device_->Allocate(3 * kPage, rdma::MemoryKind::kShared);
    region_ = *device_->Register(memory_ + kPage, kPage,
                                 rdma::kRemoteRead | rdma::kRemoteWrite | rdma::kRemoteAtomic);
    receives_ = *device_->Register(memory_, 3 * kPage, rdma::kLocalOnly);
    const std::string address = *device_->Listen("tcp:127.0.0.1:0");
    std::uint32_t port = 0;
    RING_CHECK(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    port_ = static_cast<std::uint16_t>(port);
  }

  void Run(Input input) {
    const int fd = Dial();
    Say(fd, Encode(soft::TcpFrame{}));
    rdma::ConnectionEvent event;
    while (!device_->PollEvent(&event)) device_->Progress();
    RING_CHECK(event.kind == rdma::ConnectionEvent::Kind::kConnectRequest);
    rdma::QueuePairOptions options;
    options.send_cq = send_cq_.get();
    options.recv_cq = recv_cq_.get();
    options.send_depth = 8;
    options.recv_depth = kReceives;
    std::unique_ptr<rdma::QueuePair> qp = *device_->Accept(event.request, options, "");
    Post(qp.get(), input.Byte());
    while (!input.empty()) {
      Say(fd, Next(&input));
      // More than one turn: what one leaves is for the next.
      for (int turns = 1 + input.Byte() % 3; turns > 0; --turns) device_->Progress();
    }
    for (int i = 0; i < 4; ++i) device_->Progress();
    CheckMemory();
    qp.reset();
    close(fd);  // at once, by SO_LINGER: no port waits for the end of its time
    for (int i = 0; i < 8; ++i) device_->Progress();
    Drain();
  }

 private:
  static std::string Encode(const soft::TcpFrame& frame) {
    std::string bytes(soft::kTcpHeaderSize, '\0');
    soft::EncodeTcpFrame(frame, reinterpret_cast<std::byte*>(bytes.data()));
    return bytes;
  }

  int Dial() const {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port_);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof(at)) != 0) {
      // The fuzzer's alarm interrupts a connect, which then goes on by itself.
      RING_CHECK(errno == EINTR) << "connect: errno=" << errno;
      pollfd writable{fd, POLLOUT, 0};
      int ready = 0;
      while ((ready = poll(&writable, 1, 10'000)) < 0) RING_CHECK(errno == EINTR);
      RING_CHECK(ready == 1) << "connect does not end";
    }
    const linger reset{1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    return fd;
  }
  static void Say(int fd, const std::string& bytes) {
    // The link may have closed: the rest of the input is for nobody.
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    static_cast<void>(sent);
  }

  // Requests that the peer's answers may belong to, and receives for its messages.
  void Post(rdma::QueuePair* qp, std::uint8_t choice) {
    for (std::uint32_t i = 0; i < choice % (kReceives + 1); ++i) {
      const rdma::Sge sge{memory_ + kPage + i * kReceiveSize, kReceiveSize, receives_->lkey()};
      RING_CHECK(qp->PostRecv(i, absl::MakeConstSpan(&sge, 1)).ok());
    }
    const rdma::Sge sge{memory_ + kPage + 1024, 512, receives_->lkey()};
    for (const rdma::Opcode opcode : {rdma::Opcode::kRead, rdma::Opcode::kFetchAndAdd}) {
      rdma::WorkRequest wr;
      wr.opcode = opcode;
      wr.signaled = true;
      const rdma::Sge word{sge.address, 8, sge.lkey};
      wr.sges = absl::MakeConstSpan(opcode == rdma::Opcode::kRead ? &sge : &word, 1);
      wr.remote_address = 4096;
      wr.rkey = 1;
      if ((choice & 0x80) != 0) qp->PostSend(wr).IgnoreError();
    }
  }

  // The next segment.
  std::string Next(Input* input) {
    const std::uint8_t kind = input->Byte();
    if (kind >= 0xc0) return input->Take(kind - 0xbfu);  // plain bytes
    soft::TcpFrame frame;
    frame.type = static_cast<soft::TcpFrameType>(kind & 0x1f);
    const std::uint8_t flags = input->Byte();
    frame.has_imm = (flags & 1) != 0;
    frame.unacknowledged = (flags & 2) != 0;
    frame.status = (flags & 4) != 0 ? input->Byte() : 0;
    frame.imm = flags;
    frame.payload_length = input->Short();
    if ((flags & 8) != 0) frame.payload_length <<= 16;
    frame.rkey = (flags & 16) != 0 ? input->Byte() : region_->rkey();
    // Near both ends of the region.
    frame.remote_address = region_->remote().address + input->Short() - 256;
    frame.sequence = (flags & 32) != 0 ? input->Byte() : sequence_++;
    frame.operand = input->Short();
    frame.swap = flags;
    std::string bytes = Encode(frame);
    const std::size_t payload = (flags & 64) != 0 ? input->Byte() : frame.payload_length;
    bytes += input->Take(std::min<std::size_t>(payload, 8192));
    // Cut short: the next one comes in its middle.
    if ((flags & 128) != 0) bytes.resize(bytes.size() - input->Byte() % bytes.size());
    return bytes;
  }

  void CheckMemory() const {
    const auto untouched = [](const std::byte* from) {
      return std::all_of(from, from + kPage, [](std::byte b) { return b == std::byte{0}; });
    };
    RING_CHECK(untouched(memory_)) << "before the region";
    RING_CHECK(untouched(memory_ + 2 * kPage)) << "behind the region";
  }
  void Drain() {
    rdma::ConnectionEvent event;
    while (device_->PollEvent(&event)) {
    }
    rdma::WorkCompletion completions[16];
    while (send_cq_->Poll(absl::MakeSpan(completions)) != 0) {
    }
    while (recv_cq_->Poll(absl::MakeSpan(completions)) != 0) {
    }
    sequence_ = 0;
    std::memset(memory_ + kPage, 0, kPage);
  }

  std::unique_ptr<rdma::Device> device_;
  std::unique_ptr<rdma::CompletionQueue> send_cq_;
  std::unique_ptr<rdma::CompletionQueue> recv_cq_;
  std::byte* memory_ = nullptr;
  std::unique_ptr<rdma::MemoryRegion> region_;
  std::unique_ptr<rdma::MemoryRegion> receives_;
  std::uint16_t port_ = 0;
  std::uint64_t sequence_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  static auto* const one_by_one = new Target(/*uring=*/false);
  static auto* const uring = new Target(/*uring=*/true);
  ((data[0] & 1) != 0 ? uring : one_by_one)->Run(Input(data + 1, size - 1));
  return 0;
}
