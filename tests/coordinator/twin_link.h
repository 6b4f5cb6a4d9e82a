// tests/coordinator/twin_link.h — a member of a shard behind a link that a test steps.
//
// What:      SteppedQueuePair holds what is posted until Land, and completions until they are
//            taken: bytes are gathered when the WRITE lands, as a device does (S11). MemberTwin:
//            that queue pair, a ring, a real MemberShard and real ParityStores behind it.
// Ownership: MemberTwin owns all of it; the writer belongs to the coordinator's log.
// Threads:   one.
// Errors:    a fold that fails ends the test.
#ifndef RING_TESTS_COORDINATOR_TWIN_LINK_H_
#define RING_TESTS_COORDINATOR_TWIN_LINK_H_

#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "memgest/log_writer.h"
#include "memgest/member_shard.h"
#include "memgest/parity_store.h"
#include "memgest/shard_log.h"
#include "ring/base/check.h"
#include "tests/memgest/log_link.h"

namespace ring::coordinator {

class SteppedQueuePair final : public rdma::QueuePair {
 public:
  static constexpr std::size_t kAll = ~std::size_t{0};

  std::uint32_t number() const override { return 1; }
  rdma::QpState state() const override {
    return failed_ ? rdma::QpState::kError : rdma::QpState::kReadyToSend;
  }
  absl::Status PostSend(const rdma::WorkRequest& chain) override {
    if (refuse != absl::StatusCode::kOk) return absl::Status(refuse, "twin refuses");
    for (const auto* request = &chain; request != nullptr; request = request->next) {
      Posted& posted = posted_.emplace_back();
      posted.request = *request;
      posted.sges.assign(request->sges.begin(), request->sges.end());
      if (request->inline_data) {
        RING_CHECK(request->sges.size() == 1 && request->sges[0].length == 8);
        std::memcpy(&posted.word, request->sges[0].address, sizeof(posted.word));
      }
    }
    return absl::OkStatus();
  }
  absl::Status PostRecv(std::uint64_t, absl::Span<const rdma::Sge>) override {
    return absl::UnimplementedError("twin");
  }
  void Reset() override { failed_ = true; }
  std::uint32_t PeerSleep() const override { return 0; }
  absl::string_view transport() const override { return "local"; }

  // The next `count` requests take effect; what they are signalled for waits in completions.
  void Land(std::size_t count = kAll) {
    for (; count > 0 && !posted_.empty(); --count) {
      const Posted& posted = posted_.front();
      if (!failed_) Execute(posted);
      if (posted.request.signaled || failed_) {
        rdma::WorkCompletion completion;
        completion.wr_id = posted.request.wr_id;
        completion.qp = this;
        completion.opcode = posted.request.opcode;
        completion.status = failed_ ? rdma::WcStatus::kFlushed : rdma::WcStatus::kSuccess;
        completions.push_back(completion);
      }
      posted_.pop_front();
    }
  }
  // Whatever is posted from now on, or has not landed, is flushed.
  void Fail() { failed_ = true; }
  // A queue pair of a further epoch: nothing of what was posted lands any more (L5).
  void Renew(const rdma::RemoteBuffer& to) {
    posted_.clear();
    completions.clear();
    failed_ = false;
    target = to;
  }
  // What landed, and was not acknowledged, comes back failed: the answer was lost.
  void FailUnacknowledged() {
    failed_ = true;
    for (rdma::WorkCompletion& completion : completions) {
      completion.status = rdma::WcStatus::kRetryExceeded;
    }
  }
  std::size_t posted() const { return posted_.size(); }

  std::deque<rdma::WorkCompletion> completions;
  absl::StatusCode refuse = absl::StatusCode::kOk;
  rdma::RemoteBuffer target;

 private:
  struct Posted {
    rdma::WorkRequest request;
    std::vector<rdma::Sge> sges;
    std::uint64_t word = 0;
  };

  void Execute(const Posted& posted) const {
    const rdma::WorkRequest& request = posted.request;
    RING_CHECK(request.opcode == rdma::Opcode::kWrite && request.rkey == target.rkey);
    auto* to = reinterpret_cast<std::byte*>(request.remote_address);
    std::size_t size = 0;
    for (const rdma::Sge& sge : posted.sges) size += sge.length;
    RING_CHECK(request.remote_address >= target.address &&
               request.remote_address + size <= target.address + target.length);
    if (request.inline_data) {
      std::memcpy(to, &posted.word, sizeof(posted.word));
      return;
    }
    for (const rdma::Sge& sge : posted.sges) {
      std::memcpy(to, sge.address, sge.length);
      to += sge.length;
    }
  }

  std::deque<Posted> posted_;
  bool failed_ = false;
};

class MemberTwin {
 public:
  MemberTwin(rdma::Device* device, Role role, Epoch epoch, std::size_t ring_size,
             std::uint32_t line_count_max)
      : role_(role),
        ring_size_(ring_size),
        staging_(memgest::AllocateAligned(kStagingSize)),
        shard_(device, GroupId(0), ShardId(0), line_count_max) {
    to_coordinator_.target = {reinterpret_cast<std::uint64_t>(&credit_), sizeof(credit_), 8};
    writer_options_.qp = &qp;
    writer_options_.credit = &credit_;
    writer_options_.staging = staging_.get();
    writer_options_.staging_size = kStagingSize;
    writer_options_.writer_id = static_cast<std::uint16_t>(role.value() + 1);
    writer_options_.send_depth = 1024;
    OpenRing(epoch);
  }

  void MakeWriter(memgest::ShardLog* log) {
    writer_ = log->AddWriter(role_, std::make_unique<memgest::LogWriter>(writer_options_));
  }
  // Step 2 of an epoch change: what was posted and has not landed never will (L5).
  std::vector<memgest::SealedLog> Seal(Epoch next, Epoch last_normal) {
    qp.Renew({});
    writer_ = nullptr;
    absl::StatusOr<std::vector<memgest::SealedLog>> sealed = shard_.Seal(next, last_normal);
    RING_CHECK(sealed.ok()) << "role=" << role_.value() << ": " << sealed.status().ToString();
    return *std::move(sealed);
  }
  // Step 5: a fresh ring; the coordinator sends what is not held.
  absl::Status Rejoin(memgest::ShardLog* log, Epoch epoch,
                      absl::Span<const memgest::SealedLog> held) {
    OpenRing(epoch);
    absl::StatusOr<memgest::LogWriter*> writer =
        log->AddWriter(role_, std::make_unique<memgest::LogWriter>(writer_options_), held);
    if (writer.ok()) writer_ = *writer;
    return writer.status();
  }
  // adopted: of each log, the last entry; nobody who is named has more.
  void Adopt(Epoch epoch, absl::Span<const memgest::SealedLog> adopted) {
    for (const memgest::SealedLog& log : adopted) {
      if (shard_.sealed() == nullptr) break;
      for (const memgest::SealedLog& own : shard_.sealed()->logs())
        RING_CHECK(own.memgest != log.memgest || own.last <= log.last) << "role=" << role_.value();
    }
    const absl::Status status = shard_.Adopt(epoch);
    RING_CHECK(status.ok()) << "role=" << role_.value() << ": " << status.ToString();
  }
  void AddMemgest(rdma::Device* device, const protocol::MemgestDescriptor& descriptor, int s) {
    if (descriptor.scheme == protocol::Scheme::kReplicated) {
      shard_.AddReplica(descriptor);
      return;
    }
    auto& store = parities_[descriptor.id.value()];
    store = std::make_unique<memgest::ParityStore>(device, descriptor, s, int{role_.value()} - s);
    shard_.AddParity(descriptor, store.get());
  }

  // Hands up to `count` completions to the writer: acknowledgements, as the coordinator sees them.
  void Ack(std::size_t count = SteppedQueuePair::kAll) {
    for (; count > 0 && !qp.completions.empty(); --count) {
      const rdma::WorkCompletion completion = qp.completions.front();
      qp.completions.pop_front();
      if (writer_ != nullptr) writer_->OnCompletion(completion);
    }
  }
  int Fold(int budget = 1 << 20) {
    const absl::StatusOr<int> folded = shard_.Fold(budget);
    RING_CHECK(folded.ok()) << "role=" << role_.value() << ": " << folded.status().ToString();
    if (shard_.reader() != nullptr) RING_CHECK(shard_.reader()->ShareCredit(*folded == 0).ok());
    return *folded;
  }

  Role role() const { return role_; }
  memgest::LogWriter* writer() { return writer_; }
  memgest::MemberShard& shard() { return shard_; }
  memgest::ParityStore* parity(MemgestId id) {
    const auto found = parities_.find(id.value());
    return found == parities_.end() ? nullptr : found->second.get();
  }
  const std::byte* ring() const { return rings_.back().get() + memgest::kRingControlSize; }

  SteppedQueuePair qp;
  // What a turn of the harness does by itself.
  bool lands = true;
  bool acks = true;
  bool folds = true;
  bool gone = false;  // its node died

 private:
  static constexpr std::uint32_t kStagingSize = 256 * 1024;

  void OpenRing(Epoch epoch) {
    const std::size_t size = memgest::kRingControlSize + ring_size_;
    rings_.push_back(memgest::AllocateAligned(size));  // those before may be sealed
    credit_ = 0;
    qp.Renew({reinterpret_cast<std::uint64_t>(rings_.back().get()), size, 7});
    memgest::LogReaderOptions reader;
    reader.memory = rings_.back().get();
    reader.size = size;
    reader.epoch = epoch;
    reader.qp = &to_coordinator_;
    reader.credit = to_coordinator_.target;
    shard_.Attach(std::make_unique<memgest::LogReader>(reader));
    writer_options_.ring = qp.target;
    writer_options_.epoch = epoch;
  }

  Role role_;
  std::size_t ring_size_;
  std::vector<memgest::AlignedBytes> rings_;
  memgest::AlignedBytes staging_;
  alignas(64) std::atomic<std::uint64_t> credit_{0};
  memgest::FakeQueuePair to_coordinator_;
  memgest::LogWriterOptions writer_options_;
  std::map<std::uint16_t, std::unique_ptr<memgest::ParityStore>> parities_;
  memgest::MemberShard shard_;
  memgest::LogWriter* writer_ = nullptr;
};

}  // namespace ring::coordinator

#endif  // RING_TESTS_COORDINATOR_TWIN_LINK_H_
