// tests/memgest/log_link.h — a twin of a queue pair for tests of the log, and one ring around it.
//
// What:      FakeQueuePair executes WRITE and WAIT on local memory, in order, as fabric.h says:
//            keys and bounds are checked, a failed request breaks the pair and flushes the rest.
//            Requests can be held back, torn and failed. LogLink: writer -> ring -> reader.
// Ownership: LogLink owns all memory; writer and reader can be made again on it.
// Threads:   one.
// Errors:    as completions.
#ifndef RING_TESTS_MEMGEST_LOG_LINK_H_
#define RING_TESTS_MEMGEST_LOG_LINK_H_

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "memgest/log_reader.h"
#include "memgest/log_writer.h"
#include "rdma/fabric.h"
#include "ring/base/check.h"
#include "ring/base/crc32c.h"

namespace ring::memgest {

struct FreeBytes {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using AlignedBytes = std::unique_ptr<std::byte[], FreeBytes>;

inline AlignedBytes AllocateAligned(std::size_t size) {
  auto* bytes = static_cast<std::byte*>(std::aligned_alloc(64, AlignUp(size, 64)));
  RING_CHECK(bytes != nullptr);
  std::memset(bytes, 0, size);
  return AlignedBytes(bytes);
}

// Of the key "key".
inline EntryFields Put(std::uint64_t index) {
  EntryFields fields;
  fields.index = index;
  fields.key = "key";
  return fields;
}

class FakeQueuePair final : public rdma::QueuePair {
 public:
  FakeQueuePair() {
    queue_.reserve(4096);
    completions.reserve(4096);
  }

  std::uint32_t number() const override { return 1; }
  rdma::QpState state() const override {
    return failed ? rdma::QpState::kError : rdma::QpState::kReadyToSend;
  }
  absl::Status PostSend(const rdma::WorkRequest& chain) override {
    if (refuse != absl::StatusCode::kOk) return absl::Status(refuse, "fake refusal");
    std::size_t count = 0;
    for (const auto* request = &chain; request != nullptr; request = request->next) ++count;
    if (posted - released + count > depth) return absl::ResourceExhaustedError("fake: queue full");
    ++chains;
    for (const auto* request = &chain; request != nullptr; request = request->next) {
      RING_CHECK(request->sges.size() <= 8) << "sges=" << request->sges.size();
      Queued& queued = queue_.emplace_back();
      queued.request = *request;
      queued.total = ++posted;
      std::copy(request->sges.begin(), request->sges.end(), queued.sges);
      if (request->inline_data) {
        RING_CHECK(request->sges.size() == 1 && request->sges[0].length <= sizeof(queued.inlined));
        std::memcpy(&queued.inlined, request->sges[0].address, request->sges[0].length);
      }
    }
    if (!hold) Run();
    return absl::OkStatus();
  }
  absl::Status PostRecv(std::uint64_t, absl::Span<const rdma::Sge>) override {
    return absl::UnimplementedError("fake");
  }
  void Reset() override { failed = true; }
  std::uint32_t PeerSleep() const override { return 0; }
  absl::string_view transport() const override { return "local"; }

  // Executes what is posted.
  void Run() {
    for (Queued& queued : queue_) Execute(queued);
    queue_.clear();
  }

  rdma::RemoteBuffer target;  // the only memory that may be written
  std::size_t depth = 256;
  bool hold = false;
  bool failed = false;
  std::size_t fail_after = ~std::size_t{0};  // executed requests, then kRemoteAccess
  std::size_t tear_at = 0;  // not 0: the failing WRITE still delivers so many bytes
  absl::StatusCode refuse = absl::StatusCode::kOk;
  std::uint64_t posted = 0;
  std::uint64_t released = 0;  // known to the poster by a signalled completion
  std::size_t executed = 0;
  std::size_t chains = 0;
  std::size_t words = 0;  // 8-byte WRITEs
  std::vector<rdma::WorkCompletion> completions;

 private:
  struct Queued {
    rdma::WorkRequest request;
    rdma::Sge sges[8];
    std::uint64_t inlined = 0;
    std::uint64_t total = 0;
  };

  void Complete(const Queued& queued, rdma::WcStatus status) {
    if (status == rdma::WcStatus::kSuccess && !queued.request.signaled) return;
    released = queued.total;
    rdma::WorkCompletion completion;
    completion.wr_id = queued.request.wr_id;
    completion.qp = this;
    completion.status = status;
    completion.opcode = queued.request.opcode;
    completions.push_back(completion);
  }

  void Execute(Queued& queued) {
    const rdma::WorkRequest& request = queued.request;
    if (failed) return Complete(queued, rdma::WcStatus::kFlushed);
    RING_CHECK(request.opcode == rdma::Opcode::kWrite);
    const bool fail = executed >= fail_after || !Write(queued, false);
    if (fail) {
      if (tear_at > 0) Write(queued, true);
      failed = true;
    } else {
      ++executed;
    }
    Complete(queued, fail ? rdma::WcStatus::kRemoteAccess : rdma::WcStatus::kSuccess);
  }

  bool Write(const Queued& queued, bool torn) {
    const rdma::WorkRequest& request = queued.request;
    std::size_t size = 0;
    for (std::size_t i = 0; i < request.sges.size(); ++i) size += queued.sges[i].length;
    if (request.rkey != target.rkey || request.remote_address < target.address ||
        request.remote_address + size > target.address + target.length) {
      return false;
    }
    auto* to = reinterpret_cast<std::byte*>(request.remote_address);
    if (request.inline_data) {
      ++words;
      std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(to))
          .store(queued.inlined, std::memory_order_release);
      return true;
    }
    std::size_t left = torn ? tear_at : size;
    for (std::size_t i = 0; i < request.sges.size() && left > 0; ++i) {
      const std::size_t part = std::min<std::size_t>(left, queued.sges[i].length);
      std::memcpy(to, queued.sges[i].address, part);
      to += part;
      left -= part;
    }
    return true;
  }

  std::vector<Queued> queue_;
  std::size_t next_ = 0;
};

class LogLink {
 public:
  explicit LogLink(std::size_t ring_size = kRingSizeMin, std::uint32_t staging_size = 64 * 1024)
      : memory(AllocateAligned(kRingControlSize + ring_size)),
        staging(AllocateAligned(staging_size)),
        memory_size(kRingControlSize + ring_size) {
    to_member.target = {reinterpret_cast<std::uint64_t>(memory.get()), memory_size, 7};
    to_coordinator.target = {reinterpret_cast<std::uint64_t>(&credit), sizeof(credit), 8};
    writer_options.qp = &to_member;
    writer_options.ring = to_member.target;
    writer_options.credit = &credit;
    writer_options.staging = staging.get();
    writer_options.staging_size = staging_size;
    writer_options.writer_id = 0xabcd;
    writer_options.epoch = Epoch(5);
    reader_options.memory = memory.get();
    reader_options.size = memory_size;
    reader_options.epoch = Epoch(5);
    reader_options.qp = &to_coordinator;
    reader_options.credit = to_coordinator.target;
    writer = std::make_unique<LogWriter>(writer_options);
    reader = std::make_unique<LogReader>(reader_options);
  }

  static rdma::Sge SgeOf(const void* bytes, std::size_t size) {
    return {const_cast<std::byte*>(static_cast<const std::byte*>(bytes)),
            static_cast<std::uint32_t>(size), 1};
  }

  // Appends with the next order. REQUIRES: HasRoom.
  std::uint64_t Append(EntryFields fields, absl::Span<const char> bytes) {
    fields.payload_length = static_cast<std::uint32_t>(bytes.size());
    const std::size_t size = BuildEntryHead(fields, writer_options.epoch, head);
    const rdma::Sge sge = SgeOf(bytes.data(), bytes.size());
    EntryPayload payload;
    if (!bytes.empty()) payload.sges = absl::MakeConstSpan(&sge, 1);
    payload.crc = Crc32c(bytes.data(), bytes.size());
    writer->Append(++order, head, size, bytes.size(), payload);
    return order;
  }
  // Hands the writer its completions.
  void Poll() {
    for (const rdma::WorkCompletion& completion : to_member.completions) {
      writer->OnCompletion(completion);
    }
    to_member.completions.clear();
  }
  std::uint64_t ControlWord() const {
    std::uint64_t word;
    std::memcpy(&word, memory.get(), sizeof(word));
    return word;
  }
  void SetControlWord(std::uint64_t word) { std::memcpy(memory.get(), &word, sizeof(word)); }
  // Where the valid tail behind the reader's folded position ends.
  std::uint64_t ValidTail() const {
    return reader->FindTail([](const EntryView&) {}).position;
  }
  std::byte* ring() const { return memory.get() + kRingControlSize; }
  std::size_t ring_size() const { return memory_size - kRingControlSize; }

  AlignedBytes memory;
  AlignedBytes staging;
  std::size_t memory_size;
  alignas(64) std::atomic<std::uint64_t> credit{0};
  alignas(64) std::byte head[kEntryHeadSizeMax];
  FakeQueuePair to_member;
  FakeQueuePair to_coordinator;
  LogWriterOptions writer_options;
  LogReaderOptions reader_options;
  std::unique_ptr<LogWriter> writer;
  std::unique_ptr<LogReader> reader;
  std::uint64_t order = 0;
};

}  // namespace ring::memgest

#endif  // RING_TESTS_MEMGEST_LOG_LINK_H_
