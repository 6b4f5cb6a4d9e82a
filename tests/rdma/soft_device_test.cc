// What is particular to the software NIC: no allocation per request, revocation against a racing
// writer, and shared memory handshakes with peers that do not play by the rules.
#include "rdma/soft/soft_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "tests/contract/fabric_harness.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::rdma {
namespace {

using ::ring::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

SoftDeviceOptions Options(bool shareable) {
  SoftDeviceOptions options;
  options.arena_size_max = std::uint64_t{64} << 20;
  options.shareable = shareable;
  return options;
}

void ConnectPair(const std::string& address, Side& a, Side& b) {
  auto listening = b.device->Listen(address);
  ASSERT_TRUE(listening.ok()) << listening.status();
  a.qp = *a.device->Connect(*listening, a.qp_options(), "");
  ConnectionEvent event;
  for (bool done = false; !done;) {
    a.CollectEvents();
    b.CollectEvents();
    if (b.TakeEvent(ConnectionEvent::Kind::kConnectRequest, &event)) {
      b.qp = *b.device->Accept(event.request, b.qp_options(), "");
    }
    done = a.TakeEvent(ConnectionEvent::Kind::kEstablished, &event);
  }
}

class SoftDeviceAllocations : public ::testing::TestWithParam<LinkKind> {};

TEST_P(SoftDeviceAllocations, NoneForARequest) {
  SoftDeviceOptions options = Options(true);
  options.tcp_uring = UsesUring(GetParam());
  Side a(options, false);
  Side b(options, false);
  ConnectPair(FreshAddress(GetParam()), a, b);
  const auto round = [&](std::uint64_t i) {
    const Sge receive = b.At(0, 64);
    ASSERT_TRUE(b.qp->PostRecv(i, absl::MakeConstSpan(&receive, 1)).ok());
    const Sge source = a.At(0, 64);
    WorkRequest write;
    write.opcode = Opcode::kWrite;
    write.sges = absl::MakeConstSpan(&source, 1);
    write.remote_address = b.AddressAt(4096);
    write.rkey = b.region->rkey();
    WorkRequest send;
    send.opcode = Opcode::kSend;
    send.inline_data = true;
    send.sges = write.sges;
    send.signaled = true;
    write.next = &send;
    ASSERT_TRUE(a.qp->PostSend(write).ok());
    WorkCompletion completion;
    for (CompletionQueue* cq : {a.send_cq.get(), b.recv_cq.get()}) {
      testing::Await("a completion", [&] {
        a.device->Progress();
        b.device->Progress();
        return cq->Poll(absl::MakeSpan(&completion, 1)) != 0;
      });
      ASSERT_EQ(completion.status, WcStatus::kSuccess);
    }
  };
  for (std::uint64_t i = 0; i < 300; ++i) round(i);  // queues grow to their working size
  const std::uint64_t before = AllocationCount();
  for (std::uint64_t i = 0; i < 1000; ++i) round(i);
  EXPECT_EQ(AllocationCount(), before);
}

INSTANTIATE_TEST_SUITE_P(Links, SoftDeviceAllocations,
                         ::testing::Values(LinkKind::kLocal, LinkKind::kShm, LinkKind::kTcp,
                                           LinkKind::kTcpUring),
                         [](const auto& link) { return LinkKindName(link.param); });

void AwaitEvent(Side& side, ConnectionEvent::Kind kind, ConnectionEvent* event) {
  testing::Await("an event of the connection", [&] {
    side.CollectEvents();
    return side.TakeEvent(kind, event);
  });
}

// A writer on another thread never gets success for a WRITE that a scan after Revoke did not see
// (L5).
TEST(SoftDeviceRevoke, ScanSeesEverySuccessfulWrite) {
  constexpr int kRounds = 200;
  Side b(Options(false), false);
  const std::string address = FreshAddress(LinkKind::kLocal);
  ASSERT_TRUE(b.device->Listen(address).ok());
  std::atomic<std::uint64_t> rkey{0};  // of the round
  std::atomic<std::uint64_t> acked{
      0};  // value of the last successful WRITE of the round, published at its end
  std::atomic<int> writer_round{0};
  std::thread writer([&] {
    for (int round = 1; round <= kRounds; ++round) {
      Side a(Options(false), false);
      a.qp = *a.device->Connect(address, a.qp_options(), "");
      ConnectionEvent event;
      AwaitEvent(a, ConnectionEvent::Kind::kEstablished, &event);
      testing::Await("the round's region", [&] { return rkey.load() != 0; });
      RemoteBuffer remote;
      std::memcpy(&remote, event.private_data.data(), sizeof(remote));
      remote.rkey = static_cast<std::uint32_t>(rkey.load());
      std::uint64_t value = 0;
      for (;;) {
        const std::uint64_t next = value + 1;
        std::memcpy(a.memory, &next, 8);
        const Sge sge = a.At(0, 8);
        WorkRequest wr;
        wr.opcode = Opcode::kWrite;
        wr.sges = absl::MakeConstSpan(&sge, 1);
        wr.remote_address = remote.address;
        wr.rkey = remote.rkey;
        wr.signaled = true;
        ASSERT_TRUE(a.qp->PostSend(wr).ok());
        WorkCompletion completion;
        ASSERT_EQ(a.send_cq->Poll(absl::MakeSpan(&completion, 1)), 1u);
        if (completion.status != WcStatus::kSuccess) {
          EXPECT_EQ(completion.status, WcStatus::kRemoteAccess);
          break;
        }
        value = next;
      }
      acked.store(value);
      writer_round.store(round);
      testing::Await("the round's end", [&] { return rkey.load() == 0; });
    }
  });
  auto* word = reinterpret_cast<std::uint64_t*>(b.memory);
  for (int round = 1; round <= kRounds; ++round) {
    ConnectionEvent event;
    AwaitEvent(b, ConnectionEvent::Kind::kConnectRequest, &event);
    const RemoteBuffer remote = b.region->remote();
    b.qp = *b.device->Accept(
        event.request, b.qp_options(),
        absl::string_view(reinterpret_cast<const char*>(&remote), sizeof(remote)));
    __atomic_store_n(word, 0, __ATOMIC_RELEASE);
    auto ring = *b.device->Register(b.memory, 4096, kRemoteWrite);
    rkey.store(ring->rkey());
    testing::Await("20 writes", [&] { return __atomic_load_n(word, __ATOMIC_ACQUIRE) >= 20; });
    ring->Revoke();
    const std::uint64_t scanned = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    testing::Await("the writer", [&] { return writer_round.load() == round; });
    EXPECT_LE(acked.load(), scanned);
    b.qp.reset();
    b.events.clear();
    rkey.store(0);
  }
  writer.join();
}

// Says something to a shm listener by hand.
std::string RefusalOf(Side& side, const std::string& address, absl::string_view message) {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  const std::string path = address.substr(4);
  std::memcpy(at.sun_path, path.data(), path.size());
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
  if (!message.empty()) {
    EXPECT_GT(send(fd, message.data(), message.size(), MSG_NOSIGNAL), 0);
  }
  std::string heard;
  testing::Await("the listener's end of the connection", [&] {
    side.CollectEvents();
    char buffer[1024];
    const ssize_t size = recv(fd, buffer, sizeof(buffer), 0);
    if (size > 0) heard.append(buffer, static_cast<std::size_t>(size));
    return size == 0;
  });
  close(fd);
  return heard;
}

TEST(ShmHandshake, GarbageAndSilenceAreRefusedWithAReason) {
  SoftDeviceOptions options = Options(true);
  options.hello_timeout_ms = 20;
  Side side(options, false);
  const std::string address = *side.device->Listen(FreshAddress(LinkKind::kShm));
  EXPECT_TRUE(absl::StrContains(RefusalOf(side, address, "hello?"), "not a handshake"));
  EXPECT_TRUE(absl::StrContains(RefusalOf(side, address, ""), "no hello in time"));
  EXPECT_TRUE(side.events.empty());
}

TEST(ShmHandshake, NeedsAShareableDevice) {
  Side side(Options(false), false);
  EXPECT_EQ(side.device->Listen(FreshAddress(LinkKind::kShm)).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(ShmHandshake, ALeftOverPathIsTakenOver) {
  const std::string address = FreshAddress(LinkKind::kShm);
  const std::string path = address.substr(4);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  std::memcpy(at.sun_path, path.data(), path.size());
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
  close(fd);  // as a killed process leaves it
  Side side(Options(true), false);
  EXPECT_TRUE(side.device->Listen(address).ok());
}

TEST(SoftDeviceArena, AllocatesUpToItsSize) {
  Side side(Options(false), false);  // 40 of 64 MiB are in use
  auto more = side.device->Allocate(1, rdma::MemoryKind::kPrivateHuge);
  ASSERT_TRUE(more.ok());
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(*more) % (2 << 20), 0u);
  EXPECT_EQ((*more)[0], std::byte{0});
  EXPECT_EQ(side.device->Allocate(32 << 20, rdma::MemoryKind::kShared).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(side.device->Allocate(~std::size_t{0}, rdma::MemoryKind::kShared).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(SoftDeviceArena, WhatIsFreedIsZeroAndServesAgain) {
  Side side(Options(false), false);
  constexpr std::size_t kSize = 2 << 20;
  for (const MemoryKind kind :
       {MemoryKind::kShared, MemoryKind::kPrivate, MemoryKind::kPrivateHuge}) {
    for (int i = 0; i < 100; ++i) {  // more than the arena holds
      auto memory = side.device->Allocate(kSize, kind);
      ASSERT_TRUE(memory.ok()) << memory.status();
      EXPECT_EQ((*memory)[kSize - 1], std::byte{0});
      (*memory)[kSize - 1] = std::byte{1};
      if (kind == MemoryKind::kPrivate) side.device->PreferHuge(*memory, kSize);
      EXPECT_EQ((*memory)[kSize - 1], std::byte{1});
      side.device->Free(*memory, kSize, kind);
    }
  }
}

// F11: what decodes blocks of a MiB, or a key table that grows, takes runs that are longer.
TEST(SoftDeviceArena, LongerRunsServeAgainAndAreCut) {
  Side side(Options(false), false);
  constexpr std::size_t kSize = 3 << 20;  // 4 MiB of the arena
  for (int i = 0; i < 50; ++i) {          // more than the arena holds
    ASSERT_OK_AND_ASSIGN(std::byte* const last, side.device->Allocate(kSize, MemoryKind::kShared));
    EXPECT_EQ(last[kSize - 1], std::byte{0});
    last[kSize - 1] = std::byte{1};
    side.device->Free(last, kSize, MemoryKind::kShared);
  }
  while (side.device->Progress()) {
  }
  const std::byte* wanted = nullptr;
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK_AND_ASSIGN(std::byte* const piece,
                         side.device->Allocate(2 << 20, MemoryKind::kShared));
    EXPECT_TRUE(wanted == nullptr || piece == wanted);
    EXPECT_EQ(piece[(2 << 20) - 1], std::byte{0});
    wanted = piece + (2 << 20);
  }
}

// F11: rings of members that come and go would leave no room for anything longer.
TEST(SoftDeviceArena, PiecesThatTouchEachOtherServeAsOne) {
  Side side(Options(false), false);
  constexpr std::size_t kPiece = 2 << 20;
  std::vector<std::byte*> pieces;
  for (auto piece = side.device->Allocate(kPiece, MemoryKind::kShared); piece.ok();
       piece = side.device->Allocate(kPiece, MemoryKind::kShared)) {
    pieces.push_back(*piece);
  }
  ASSERT_GE(pieces.size(), 4u);
  EXPECT_THAT(side.device->Allocate(kPiece, MemoryKind::kPrivate).status(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("room=0"), HasSubstr("shared="), HasSubstr("private=0"))));
  for (const std::size_t order : {1, 3, 0, 2})
    side.device->Free(pieces[order], kPiece, MemoryKind::kShared);
  ASSERT_OK_AND_ASSIGN(std::byte* const whole,
                       side.device->Allocate(4 * kPiece, MemoryKind::kShared));
  EXPECT_EQ(whole, pieces[0]);
}

// F11: what counts is what is in use, whatever it was used for before.
TEST(SoftDeviceArena, WhatWasSharedIsPrivateLater) {
  Side side(Options(false), false);
  constexpr std::size_t kSize = 16 << 20;  // of 24 that are left
  for (int i = 0; i < 3; ++i) {
    for (const MemoryKind kind :
         {MemoryKind::kShared, MemoryKind::kPrivate, MemoryKind::kPrivateHuge}) {
      ASSERT_OK_AND_ASSIGN(std::byte* const memory, side.device->Allocate(kSize, kind));
      EXPECT_EQ(memory[kSize - 1], std::byte{0});
      memory[kSize - 1] = std::byte{1};
      EXPECT_FALSE(side.device->Allocate(kSize, MemoryKind::kShared).ok());
      EXPECT_FALSE(side.device->Allocate(kSize, MemoryKind::kPrivate).ok());
      side.device->Free(memory, kSize, kind);
    }
  }
}

// Who takes a shard over writes into pages that are there.
TEST(SoftDeviceArena, WhatIsKeptReadyIsGivenFirst) {
  constexpr std::size_t kSize = 2 << 20;
  SoftDeviceOptions options = Options(false);
  options.warm_size = 1 << 20;
  Side side(options, false);
  const auto resident_pages = [](std::byte* memory) {
    std::vector<unsigned char> pages(kSize / 4096);
    EXPECT_EQ(mincore(memory, kSize, pages.data()), 0);
    return std::count(pages.begin(), pages.end(), 1);
  };
  for (int i = 0; i < 100'000; ++i) side.device->Progress();
  std::vector<std::byte*> runs;
  for (const int warm_pages : {128, 128, 0}) {
    ASSERT_OK_AND_ASSIGN(std::byte* const run, side.device->Allocate(kSize, MemoryKind::kPrivate));
    EXPECT_EQ(resident_pages(run), warm_pages);
    EXPECT_EQ(run[0], std::byte{0});
    run[0] = std::byte{1};
    runs.push_back(run);
  }
  for (std::byte* const run : runs) side.device->Free(run, kSize, MemoryKind::kPrivate);
  for (int i = 0; i < 100'000; ++i) side.device->Progress();
  ASSERT_OK_AND_ASSIGN(std::byte* const again, side.device->Allocate(kSize, MemoryKind::kPrivate));
  EXPECT_EQ(resident_pages(again), 128);
  EXPECT_EQ(again[0], std::byte{0});
}

// The pages of a shard are too many to be given back while others wait for the thread.
TEST(SoftDeviceArena, WhatIsFreedGoesToTheSystemInSlices) {
  constexpr std::size_t kSize = 8 << 20;
  Side side(Options(false), false);
  const auto resident_pages = [](std::byte* memory) {
    std::vector<unsigned char> pages(kSize / 4096);
    EXPECT_EQ(mincore(memory, kSize, pages.data()), 0);
    return std::count(pages.begin(), pages.end(), 1);
  };
  ASSERT_OK_AND_ASSIGN(std::byte* const run, side.device->Allocate(kSize, MemoryKind::kPrivate));
  std::memset(run, 1, kSize);
  side.device->Free(run, kSize, MemoryKind::kPrivate);
  auto left = resident_pages(run);
  EXPECT_EQ(left, 2048);
  while (left > 0) {
    EXPECT_TRUE(side.device->Progress()) << "who sleeps gives nothing back";
    const auto now = resident_pages(run);
    ASSERT_LT(now, left);
    EXPECT_LE(left - now, 64);
    left = now;
  }
  ASSERT_OK_AND_ASSIGN(std::byte* const again, side.device->Allocate(kSize, MemoryKind::kPrivate));
  EXPECT_EQ(again, run);
  EXPECT_EQ(std::count(again, again + kSize, std::byte{0}), static_cast<std::ptrdiff_t>(kSize));
}

// F11: it is nobody's memory, and serves whoever needs the last of it.
TEST(SoftDeviceArena, WhatIsKeptReadyIsRoomForAll) {
  constexpr std::size_t kSize = 2 << 20;
  SoftDeviceOptions options = Options(false);
  Side side(options, false);
  std::size_t without = 0;
  while (side.device->Allocate(kSize, MemoryKind::kShared).ok()) ++without;
  options.warm_size = 2 << 20;
  Side warm(options, false);
  for (int i = 0; i < 100'000; ++i) warm.device->Progress();
  std::size_t with = 0;
  for (auto run = warm.device->Allocate(kSize, MemoryKind::kPrivateHuge); run.ok();
       run = warm.device->Allocate(kSize, MemoryKind::kPrivateHuge)) {
    EXPECT_EQ((*run)[0], std::byte{0});
    ++with;
  }
  EXPECT_EQ(with, without);
}

TEST(SoftDeviceRegions, ForeignMemoryIsLocalOnlyAndKeysAreBounded) {
  Side side(Options(false), false);
  std::vector<std::byte> foreign(64);
  EXPECT_TRUE(side.device->Register(foreign.data(), foreign.size(), kLocalOnly).ok());
  EXPECT_EQ(side.device->Register(foreign.data(), foreign.size(), kRemoteRead).status().code(),
            absl::StatusCode::kInvalidArgument);
  std::vector<std::unique_ptr<MemoryRegion>> regions;
  for (;;) {
    auto region = side.device->Register(side.memory, 64, kRemoteRead);
    if (!region.ok()) {
      EXPECT_EQ(region.status().code(), absl::StatusCode::kResourceExhausted);
      break;
    }
    regions.push_back(std::move(*region));
  }
  EXPECT_GE(regions.size(), 4000u);
}

TEST(SoftDeviceAddresses, MalformedOnesAreRefused) {
  Side side(Options(true), false);
  for (const char* address :
       {"", "local", "local:", "udp:1:2", "tcp:nowhere", "tcp:127.0.0.1:99999", "shm:"}) {
    EXPECT_FALSE(side.device->Listen(address).ok()) << address;
  }
}

// To look one up may take seconds, in which the thread would serve nobody.
TEST(SoftDeviceAddresses, ANameOfAHostIsNotLookedUp) {
  Side side(Options(true), false);
  const absl::Status listens = side.device->Listen("tcp:localhost:0").status();
  const absl::Status connects =
      side.device->Connect("tcp:localhost:1", side.qp_options(), "").status();
  for (const absl::Status& status : {listens, connects}) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "not a numeric address")) << status;
  }
}

}  // namespace
}  // namespace ring::rdma
