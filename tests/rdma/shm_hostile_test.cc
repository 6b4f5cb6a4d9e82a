// What a shm link does with peers that say nothing or what is not so, and when there are no
// descriptors left.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "rdma/soft/mapping.h"
#include "rdma/soft/receive_queue.h"
#include "rdma/soft/shm_wire.h"
#include "tests/contract/fabric_harness.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/await.h"

namespace ring::rdma {
namespace {

using soft::ShmMessage;

int NewSocket() { return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

sockaddr_un PathOf(absl::string_view address) {
  absl::ConsumePrefix(&address, "shm:");
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  std::memcpy(at.sun_path, address.data(), address.size());
  return at;
}

class RawShmPeer {
 public:
  explicit RawShmPeer(absl::string_view address) : fd_(NewSocket()) {
    const sockaddr_un at = PathOf(address);
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&at), sizeof(at)), 0) << errno;
  }
  ~RawShmPeer() { close(fd_); }
  RawShmPeer(const RawShmPeer&) = delete;
  RawShmPeer& operator=(const RawShmPeer&) = delete;

  int fd() const { return fd_; }
  // Reads what is there; true once the other side has closed.
  bool Closed() {
    auto received = soft::ReceiveShmMessage(fd_);
    if (received.ok()) heard_ = received->message.private_data;
    return absl::IsUnavailable(received.status());
  }
  const std::string& heard() const { return heard_; }

 private:
  int fd_;
  std::string heard_;
};

class ShmHostile : public ::testing::Test {
 protected:
  void SetUp() override {
    SoftDeviceOptions options;
    options.arena_size_max = std::uint64_t{64} << 20;
    options.shareable = true;
    options.hello_timeout_ms = 20'000;
    side_ = std::make_unique<Side>(options, false);
    address_ = *side_->device->Listen(FreshAddress(LinkKind::kShm));
  }
  bool Until(absl::FunctionRef<bool()> condition) {
    return testing::HoldsWithin(testing::kPatience, [&] {
      side_->CollectEvents();
      return condition();
    });
  }
  // A well-behaved peer still gets through.
  void ExpectServing() {
    SoftDeviceOptions options;
    options.arena_size_max = std::uint64_t{64} << 20;
    options.shareable = true;
    Side good(options, false);
    good.qp = *good.device->Connect(address_, good.qp_options(), "good");
    ConnectionEvent event;
    EXPECT_TRUE(Until([&] {
      good.CollectEvents();
      return side_->TakeEvent(ConnectionEvent::Kind::kConnectRequest, &event) &&
             event.private_data == "good";
    }));
  }

  std::unique_ptr<Side> side_;
  std::string address_;
};

// Who has not said hello costs the listener 4 KiB at most.
TEST_F(ShmHostile, AConnectionBeforeItsHelloIsSmall) {
  constexpr std::size_t kCount = 100;
  for (int i = 0; i < 5000; ++i) side_->CollectEvents();  // what is allocated once
  std::vector<std::unique_ptr<RawShmPeer>> peers;
  for (std::size_t i = 0; i < kCount; ++i) peers.push_back(std::make_unique<RawShmPeer>(address_));
  const std::uint64_t before = AllocatedBytes();
  for (int i = 0; i < 20'000; ++i) side_->CollectEvents();
  const std::uint64_t used = AllocatedBytes() - before;
  EXPECT_GT(used, kCount * 64) << "nobody was let in";
  EXPECT_LE(used, kCount * 4096);
  for (const std::unique_ptr<RawShmPeer>& peer : peers) EXPECT_FALSE(peer->Closed());
  peers.clear();
  ExpectServing();
}

TEST_F(ShmHostile, OutOfDescriptorsIsATypedRefusal) {
  RawShmPeer silent(address_);
  RawShmPeer greeting(address_);
  // Let in while there were descriptors; those of its hello have no room.
  for (int i = 0; i < 5000; ++i) side_->CollectEvents();
  RawShmPeer late(address_);
  const int memory = open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_TRUE(soft::SendShmMessage(greeting.fd(), ShmMessage{}, memory, memory));
  rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit small = before;
  small.rlim_cur = 64;
  setrlimit(RLIMIT_NOFILE, &small);
  std::vector<int> hoard = {memory};
  for (int fd; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) hoard.push_back(fd);
  EXPECT_TRUE(Until([&] { return greeting.Closed() && late.Closed(); }));
  for (const int fd : hoard) close(fd);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(absl::StrContains(greeting.heard(), "out of file descriptors")) << greeting.heard();
  EXPECT_TRUE(absl::StrContains(late.heard(), "out of file descriptors")) << late.heard();
  EXPECT_FALSE(silent.Closed());
  ExpectServing();
}

std::size_t OpenDescriptors() {
  std::size_t count = 0;
  for (int fd = 0; fd < 1024; ++fd) count += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

// Sends no bytes at all, and two descriptors.
void SendDescriptorsAlone(int socket) {
  msghdr header{};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  cmsghdr* const rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(2 * sizeof(int));
  const int fds[2] = {STDOUT_FILENO, STDERR_FILENO};
  std::memcpy(CMSG_DATA(rights), fds, sizeof(fds));
  EXPECT_EQ(sendmsg(socket, &header, MSG_NOSIGNAL), 0) << errno;
}

TEST_F(ShmHostile, DescriptorsThatComeWithNothingAreClosed) {
  const std::size_t before = OpenDescriptors();
  for (int i = 0; i < 20; ++i) {
    RawShmPeer peer(address_);
    SendDescriptorsAlone(peer.fd());
    EXPECT_TRUE(Until([&] { return peer.Closed(); }));
  }
  EXPECT_EQ(OpenDescriptors(), before);
  ExpectServing();
}

// Its pages may not be there when they are touched, and that would end the process.
TEST_F(ShmHostile, MemoryOfHugePagesIsRefused) {
  const int memory = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
  if (memory < 0) return;  // a system without them has none to refuse
  ShmMessage hello;
  hello.kind = ShmMessage::Kind::kHello;
  hello.layout.mailbox_offset = 37 * 4096;  // behind the control page
  hello.layout.mailbox_stride = 4096;
  hello.layout.mailbox_count = 1;
  hello.layout.arena_offset = hello.layout.arena_size = std::uint64_t{2} << 20;
  ASSERT_EQ(ftruncate(memory, static_cast<off_t>(hello.layout.total_size())), 0);
  ASSERT_EQ(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  const int event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  RawShmPeer peer(address_);
  ASSERT_TRUE(soft::SendShmMessage(peer.fd(), hello, memory, event));
  EXPECT_TRUE(Until([&] { return peer.Closed(); }));
  EXPECT_TRUE(absl::StrContains(peer.heard(), "ordinary pages")) << peer.heard();
  close(event);
  close(memory);
  ExpectServing();
}

// That it was a WRITE is the peer's word, too.
TEST_F(ShmHostile, AMessageIsNoLongerThanItsReceiveWhateverTheArrivalSays) {
  std::shared_ptr<soft::Mapping> own = *soft::Mapping::Create(
      {.arena_size_max = 1 << 20, .mailbox_count = 1, .recv_depth_max = 4, .shareable = true});
  const soft::MailboxName own_mailbox{.index = 0, .key = 1, .depth = 4};
  const soft::ReceiveQueue receives(*own, own->mailbox(0), own_mailbox);
  ShmMessage hello;
  hello.layout = own->layout();
  hello.arena_address = own->owner_arena_address();
  hello.mailbox = own_mailbox;
  RawShmPeer peer(address_);
  ASSERT_TRUE(soft::SendShmMessage(peer.fd(), hello, own->memory_fd(), own->event_fd()));
  ConnectionEvent event;
  ASSERT_TRUE(
      Until([&] { return side_->TakeEvent(ConnectionEvent::Kind::kConnectRequest, &event); }));
  side_->qp = *side_->device->Accept(event.request, side_->qp_options(), "");
  auto accepted = soft::ReceiveShmMessage(peer.fd());
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  const soft::MailboxName mailbox = accepted->message.mailbox;
  const std::shared_ptr<soft::Mapping> theirs =
      *soft::Mapping::Attach(accepted->TakeMemoryFd(), accepted->TakeEventFd(),
                             accepted->message.layout, accepted->message.arena_address);
  auto* const arrivals = reinterpret_cast<soft::SharedArrival*>(
      theirs->mailbox(mailbox.index) + soft::ArrivalsOffset(mailbox.depth));
  std::uint32_t count = 0;
  for (const Opcode opcode : {Opcode::kSend, Opcode::kWriteWithImm, Opcode::kRecvWithImm}) {
    for (const bool has_imm : {false, true}) {
      const Sge to = side_->At(0, 16);
      ASSERT_TRUE(side_->qp->PostRecv(count, absl::MakeConstSpan(&to, 1)).ok());
      soft::SharedArrival& arrival = arrivals[count++ % mailbox.depth];
      arrival.key.store(mailbox.key);
      arrival.byte_len.store(~std::uint32_t{0});
      arrival.has_imm.store(has_imm ? 1 : 0);
      arrival.opcode.store(static_cast<std::uint8_t>(opcode));
      arrival.stamp.store(count);
      theirs->control()->cqs[mailbox.cq_cell].ready.fetch_or(std::uint64_t{1}
                                                             << (mailbox.index % 64));
      WorkCompletion received;
      ASSERT_EQ(side_->recv_cq->Poll(absl::MakeSpan(&received, 1)), 1u);
      EXPECT_EQ(received.opcode, has_imm ? Opcode::kRecvWithImm : Opcode::kRecv);
      // A WRITE_WITH_IMM has its length from the bytes that it wrote elsewhere.
      if (!has_imm || opcode != Opcode::kWriteWithImm) {
        EXPECT_EQ(received.byte_len, 16u) << static_cast<int>(opcode);
      }
    }
  }
  own->ReleaseOwner();
}

// A process that listens, and stands still but for what the test lets it do.
class StoppedListener {
 public:
  StoppedListener() : address_(FreshAddress(LinkKind::kShm)), fd_(NewSocket()) {
    const sockaddr_un at = PathOf(address_);
    unlink(at.sun_path);  // of a process that had this number, and was killed
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&at), sizeof(at)), 0) << errno;
    EXPECT_EQ(listen(fd_, 128), 0) << errno;
  }
  ~StoppedListener() {
    close(fd_);
    unlink(PathOf(address_).sun_path);
  }
  StoppedListener(const StoppedListener&) = delete;
  StoppedListener& operator=(const StoppedListener&) = delete;

  const std::string& address() const { return address_; }
  int Accept() { return accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); }

 private:
  std::string address_;
  int fd_;
};

TEST_F(ShmHostile, WhoGivesUpAConnectionToAStoppedProcessKeepsNothingOfIt) {
  StoppedListener stopped;
  const std::size_t before = OpenDescriptors();
  std::vector<std::uint32_t> numbers;
  for (int i = 0; i < 100; ++i) {
    const auto qp = *side_->device->Connect(stopped.address(), side_->qp_options(), "");
    EXPECT_EQ(qp->state(), QpState::kInit);
    numbers.push_back(qp->number());
  }
  EXPECT_TRUE(Until([&] { return OpenDescriptors() == before; }));
  for (const std::uint32_t number : numbers) EXPECT_FALSE(side_->device->PeerHoldsOn(number));
}

TEST_F(ShmHostile, WhoStillWantsAConnectionToAStoppedProcessWaitsForIt) {
  StoppedListener stopped;
  side_->qp = *side_->device->Connect(stopped.address(), side_->qp_options(), "");
  for (int i = 0; i < 5000; ++i) side_->CollectEvents();
  EXPECT_EQ(side_->qp->state(), QpState::kInit);
  const int fd = stopped.Accept();
  ASSERT_GE(fd, 0) << errno;
  EXPECT_TRUE(soft::ReceiveShmMessage(fd).ok());
  ShmMessage refusal;
  refusal.kind = ShmMessage::Kind::kReject;
  refusal.private_data = "no";
  EXPECT_TRUE(soft::SendShmMessage(fd, refusal, -1, -1));
  ConnectionEvent event;
  EXPECT_TRUE(Until([&] { return side_->TakeEvent(ConnectionEvent::Kind::kRejected, &event); }));
  EXPECT_EQ(event.private_data, "no");
  close(fd);
}

// L5: it may have been stopped in the middle of a message.
TEST_F(ShmHostile, L5WhoGivesUpAConnectionThatWasAnsweredWaitsForThePeersEnd) {
  StoppedListener stopped;
  auto qp = *side_->device->Connect(stopped.address(), side_->qp_options(), "");
  const std::uint32_t number = qp->number();
  const int fd = stopped.Accept();
  ASSERT_GE(fd, 0) << errno;
  const auto hello = soft::ReceiveShmMessage(fd);
  ASSERT_TRUE(hello.ok()) << hello.status();
  ShmMessage answer = hello->message;
  answer.kind = ShmMessage::Kind::kAccept;
  ASSERT_TRUE(soft::SendShmMessage(fd, answer, hello->fds[0], hello->fds[1]));
  qp.reset();
  for (int i = 0; i < 5000; ++i) side_->CollectEvents();
  EXPECT_TRUE(side_->device->PeerHoldsOn(number));
  close(fd);
  EXPECT_TRUE(Until([&] { return !side_->device->PeerHoldsOn(number); }));
}

// Its peers tried again and again while it stood still.
TEST_F(ShmHostile, WhoGoesOnHearsNoHelloOfAConnectorThatGaveUp) {
  SoftDeviceOptions options;
  options.arena_size_max = std::uint64_t{64} << 20;
  options.shareable = true;
  Side other(options, false);
  const std::size_t before = OpenDescriptors();
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(other.device->Connect(address_, other.qp_options(), "given up").ok());
  }
  EXPECT_TRUE(testing::HoldsWithin(testing::kPatience, [&] {
    other.CollectEvents();
    return OpenDescriptors() == before;
  }));
  other.qp = *other.device->Connect(address_, other.qp_options(), "wanted");
  ConnectionEvent event;
  ASSERT_TRUE(
      Until([&] { return side_->TakeEvent(ConnectionEvent::Kind::kConnectRequest, &event); }));
  EXPECT_EQ(event.private_data, "wanted");
}

// A peer has the device's wake-up descriptor, and with it its flags.
TEST_F(ShmHostile, AWakeUpDescriptorThatWasMadeToBlockBlocksNobody) {
  for (const bool by_ring : {false, true}) {
    if (by_ring) {
      ASSERT_TRUE(side_->device->Listen("tcp:127.0.0.1:0").ok());
    }
    int cleared = 0;
    for (int fd = 3; fd < 256; ++fd) {
      char link[64] = {};
      if (readlink(absl::StrCat("/proc/self/fd/", fd).c_str(), link, sizeof(link) - 1) <= 0 ||
          std::strcmp(link, "anon_inode:[eventfd]") != 0)
        continue;
      ASSERT_EQ(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK), 0);
      ++cleared;
    }
    ASSERT_GT(cleared, 0);
    for (int i = 0; i < 3; ++i) {
      side_->device->SetSleeping(true);
      side_->CollectEvents();
      side_->device->SetSleeping(false);
    }
    ExpectServing();
  }
}

}  // namespace
}  // namespace ring::rdma
