// The log over the software NIC's local link, each end on its own thread.
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "memgest/log_reader.h"
#include "memgest/log_writer.h"
#include "rdma/soft/soft_device.h"
#include "ring/base/check.h"
#include "ring/base/crc32c.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::memgest {
namespace {

constexpr std::uint64_t kEntries = 3000;
constexpr std::size_t kPayloadSize = 1000;
constexpr std::size_t kRingMemory = kRingControlSize + kRingSizeMin;

// A device, memory that the peer may write, and a queue pair.
struct End {
  std::unique_ptr<rdma::Device> device;
  std::unique_ptr<rdma::CompletionQueue> cq;
  std::unique_ptr<rdma::MemoryRegion> region;
  std::unique_ptr<rdma::QueuePair> qp;  // goes first
  std::byte* memory = nullptr;
  rdma::RemoteBuffer peer;

  explicit End(std::size_t size) {
    rdma::SoftDeviceOptions options;
    options.arena_size_max = 16 << 20;
    device = rdma::OpenSoftDevice(options).value();
    cq = device->CreateCompletionQueue(1024).value();
    memory = device->Allocate(size, rdma::MemoryKind::kShared).value();
    region = device->Register(memory, size, rdma::kRemoteWrite).value();
  }
  rdma::QueuePairOptions options() const { return {.send_cq = cq.get(), .recv_cq = cq.get()}; }
  std::string Name() const {
    const rdma::RemoteBuffer remote = region->remote();
    return std::string(reinterpret_cast<const char*>(&remote), sizeof(remote));
  }
  void Learn(const std::string& name) {
    RING_CHECK(name.size() == sizeof(peer));
    std::memcpy(static_cast<void*>(&peer), name.data(), sizeof(peer));
  }
  void WaitFor(rdma::ConnectionEvent::Kind kind, rdma::ConnectionEvent* event) {
    testing::Await("an event of the connection", [&] {
      device->Progress();
      device->PollEvent(event);
      return event->kind == kind && (event->request != 0 || event->qp != nullptr);
    });
  }
};

char ByteOf(std::uint64_t index) { return static_cast<char>('a' + index % 26); }

void Fold(const std::string& address, std::atomic<bool>* listening, std::atomic<bool>* finished) {
  End end(kRingMemory);
  ASSERT_OK(end.device->Listen(address));
  listening->store(true);
  rdma::ConnectionEvent event;
  end.WaitFor(rdma::ConnectionEvent::Kind::kConnectRequest, &event);
  end.Learn(event.private_data);
  end.qp = end.device->Accept(event.request, end.options(), end.Name()).value();

  LogReaderOptions options;
  options.memory = end.memory;
  options.size = kRingMemory;
  options.epoch = Epoch(2);
  options.qp = end.qp.get();
  options.credit = end.peer;
  LogReader reader(options);
  std::uint64_t index = 0;
  EntryView entry;
  rdma::WorkCompletion completions[16];
  while (index < kEntries && !finished->load()) {
    end.device->Progress();
    end.cq->Poll(absl::MakeSpan(completions));
    if (!reader.HasCommitted()) {
      ASSERT_OK(reader.ShareCredit(true));
      ring::testing::LetOthersRun();
      continue;
    }
    ASSERT_OK_AND_ASSIGN(const bool found, reader.Next(&entry));
    if (!found) continue;
    ASSERT_EQ(entry.header.index, ++index);
    const auto* bytes = reinterpret_cast<const char*>(entry.payload);
    ASSERT_EQ(std::string(bytes, entry.header.payload_length),
              std::string(kPayloadSize, ByteOf(index)));
    reader.Consume(entry);
    ASSERT_OK(reader.ShareCredit(false));
  }
  ASSERT_OK(reader.ShareCredit(true));
  testing::Await("the writer's end", [&] {
    end.device->Progress();
    return finished->load();
  });
}

TEST(LogOverSoftDevice, E5E9EveryEntryIsFoldedOnceAndInOrder) {
  static std::atomic<int> run{0};
  const std::string address = absl::StrCat("local:log-soft-test-", run.fetch_add(1));
  std::atomic<bool> listening{false};
  std::atomic<bool> finished{false};
  std::atomic<bool> folded{false};
  std::jthread member([&] {
    Fold(address, &listening, &finished);
    folded.store(true);
  });
  const absl::Cleanup finish = [&] { finished.store(true); };  // before the join, on every way out
  testing::Await("the member's listener", [&] { return listening.load(); });

  // The coordinator: the peer needs its credit word; staging and payloads are its own.
  constexpr std::size_t kStaging = 64 * 1024;
  End end(64);
  std::byte* own = end.device->Allocate(kStaging + 26 * 1024, rdma::MemoryKind::kShared).value();
  const auto own_region = end.device->Register(own, kStaging + 26 * 1024, rdma::kLocalOnly).value();
  for (std::uint64_t i = 0; i < 26; ++i) {
    std::memset(own + kStaging + i * 1024, ByteOf(i), kPayloadSize);
  }
  end.qp = end.device->Connect(address, end.options(), end.Name()).value();
  rdma::ConnectionEvent event;
  end.WaitFor(rdma::ConnectionEvent::Kind::kEstablished, &event);
  end.Learn(event.private_data);

  LogWriterOptions options;
  options.qp = end.qp.get();
  options.ring = end.peer;
  options.credit = reinterpret_cast<const std::atomic<std::uint64_t>*>(end.memory);
  options.staging = own;
  options.staging_size = kStaging;
  options.staging_lkey = own_region->lkey();
  options.epoch = Epoch(2);
  LogWriter writer(options);
  alignas(64) std::byte head[kEntryHeadSizeMax];
  EntryFields fields;
  fields.key = "key";
  fields.payload_length = kPayloadSize;
  rdma::WorkCompletion completions[64];
  std::uint64_t index = 0;
  while (writer.folded_position() < writer.position() || index < kEntries) {
    while (index < kEntries && writer.HasRoom(EntrySize(fields), false)) {
      fields.index = ++index;
      const std::size_t head_size = BuildEntryHead(fields, Epoch(2), head);
      const rdma::Sge sge{own + kStaging + index % 26 * 1024, kPayloadSize, own_region->lkey()};
      const EntryPayload payload{.sges = absl::MakeConstSpan(&sge, 1),
                                 .crc = Crc32c(sge.address, sge.length)};
      writer.Append(index, head, head_size, kPayloadSize, payload);
    }
    ASSERT_OK(writer.Flush());
    end.device->Progress();
    const std::size_t count = end.cq->Poll(absl::MakeSpan(completions));
    for (std::size_t i = 0; i < count; ++i) writer.OnCompletion(completions[i]);
    writer.AdvanceCommit(writer.acked_order() + 1);
    writer.ShareCommit();
    ASSERT_FALSE(writer.broken());
    ASSERT_FALSE(folded.load()) << "the member gave up";
    if (count == 0) ring::testing::LetOthersRun();
  }
  EXPECT_EQ(writer.acked_order(), kEntries);
}

}  // namespace
}  // namespace ring::memgest
