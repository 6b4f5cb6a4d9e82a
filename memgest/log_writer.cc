#include "memgest/log_writer.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "absl/strings/str_format.h"
#include "ring/base/check.h"
#include "ring/base/mutant.h"

namespace ring::memgest {
namespace {

constexpr std::uint64_t kLow48 = (std::uint64_t{1} << 48) - 1;
// In the order of a wr_id: the request wrote the control word.
constexpr std::uint64_t kControlBit = std::uint64_t{1} << 47;
constexpr std::uint64_t kShareEvery = 64;       // entries (E5)
constexpr std::uint64_t kShareBusy = 8;         // entries, while more are coming
constexpr std::uint64_t kSignalControlAt = 16;  // requests since a signalled one
// PAD and WRITE.
constexpr std::size_t kRequestsPerEntry = 2;
constexpr std::size_t kTrailerStagingSize =
    kEntryAlignment + kEntryTrailerSize;  // with zeros before

}  // namespace

LogWriter::LogWriter(const LogWriterOptions& options)
    : options_(options),
      ring_size_(options.ring.length - kRingControlSize),
      wr_id_base_(std::uint64_t{options.writer_id} << 48),
      requests_(kStagedMax * kRequestsPerEntry),
      gathers_(kStagedMax * kRequestsPerEntry),
      in_flight_(kInFlightMax) {
  RING_CHECK(options.qp != nullptr && options.credit != nullptr && options.staging != nullptr);
  RING_CHECK(options.ring.length >= kRingControlSize + kRingSizeMin &&
             IsAligned(ring_size_, kEntryAlignment))
      << "ring length=" << options.ring.length;
  RING_CHECK(options.staging_size >= kStagingSizeMin &&
             IsAligned(options.staging_size, kEntryAlignment))
      << "staging_size=" << options.staging_size;
  RING_CHECK(IsAligned(reinterpret_cast<std::uintptr_t>(options.staging), kEntryAlignment));
  RING_CHECK(options.send_depth >= 8) << "send_depth=" << options.send_depth;
}

LogWriter::Place LogWriter::PlaceFor(std::size_t entry_size) const {
  const std::uint64_t left = ring_size_ - offset_;
  if (entry_size > left) {
    return {.pad_size = left, .next_position = position_ + left + entry_size};
  }
  return {.pad_size = 0,
          .next_position = NextEntryPosition(position_, entry_size, left - entry_size)};
}

bool LogWriter::RingHasRoom(const Place& place, bool reserved) const {
  const std::uint64_t limit = reserved ? ring_size_ : ring_size_ - ring_size_ / 16;
  return place.next_position - folded_position_ <= limit;
}

std::size_t LogWriter::StagingCost(std::size_t size) const {
  const std::size_t left = options_.staging_size - (staging_used_ == 0 ? 0 : staging_next_);
  const std::size_t cost = size <= left ? size : left + size;
  return staging_used_ + cost <= options_.staging_size ? cost : 0;
}

void LogWriter::RefreshCredit() const {
  const std::uint64_t folded = options_.credit->load(std::memory_order_acquire);
  if (folded < folded_position_ || folded > flushed_position_) {
    broken_ = true;
    return;
  }
  folded_position_ = folded;
}

bool LogWriter::HasRoom(std::size_t entry_size, bool reserved) const {
  if (broken_ || staged_count_ == kStagedMax) return false;
  if (InFlightFull()) return false;
  // One request is kept back, so that the control word can always be told.
  if (RequestsOutstanding() + kRequestsPerEntry + 1 > options_.send_depth) return false;
  const std::size_t staging =
      kEntryHeaderSize + std::min(entry_size, kEntryHeadSizeMax + kTrailerStagingSize);
  if (StagingCost(staging) == 0) return false;
  const Place place = PlaceFor(entry_size);
  if (RingHasRoom(place, reserved || Mutant("E5-reserve")) || Mutant("E5")) return true;
  RefreshCredit();
  return !broken_ && RingHasRoom(place, reserved);
}

rdma::WorkRequest& LogWriter::StageRequest(std::uint64_t order) {
  rdma::WorkRequest& request = requests_[staged_requests_];
  // Only what the writer ever sets: the rest keeps its initial values.
  request.wr_id = wr_id_base_ | order;
  request.next = nullptr;
  request.signaled = false;
  if (staged_requests_ > 0) requests_[staged_requests_ - 1].next = &request;
  ++staged_requests_;
  ++request_total_;
  return request;
}

void LogWriter::StageWrite(std::uint64_t order, std::size_t sge_count) {
  const Gather& gather = gathers_[staged_requests_];
  rdma::WorkRequest& request = StageRequest(order);
  request.opcode = rdma::Opcode::kWrite;
  request.appends = true;
  request.sges = absl::MakeConstSpan(gather.sges, sge_count);
  request.remote_address = RingAddress();
  request.rkey = options_.ring.rkey;
}

void LogWriter::MoveTo(std::uint64_t next_position) {
  offset_ += next_position - position_;
  if (offset_ >= ring_size_) offset_ -= ring_size_;
  position_ = next_position;
}

void LogWriter::StagePad(std::uint64_t order, std::uint64_t pad_size, std::byte* staging) {
  EntryFields fields;
  fields.type = EntryType::kPad;
  fields.payload_length = static_cast<std::uint32_t>(pad_size - kEntryHeaderSize);
  BuildEntryHead(fields, options_.epoch, staging);
  prev_crc_ =
      SealEntryHead(staging, kEntryHeaderSize, position_, prev_crc_, commit_position_, staging);
  gathers_[staged_requests_].sges[0] = {staging, kEntryHeaderSize, options_.staging_lkey};
  StageWrite(order, 1);
  MoveTo(position_ + pad_size);
}

std::byte* LogWriter::TakeStaging(std::size_t size, std::uint32_t* cost) {
  if (staging_used_ == 0) staging_next_ = 0;
  const std::size_t taken = StagingCost(size);
  RING_CHECK(taken > 0) << "ask HasRoom before";
  if (taken != size) staging_next_ = 0;
  std::byte* at = options_.staging + staging_next_;
  staging_next_ += size;
  staging_used_ += taken;
  *cost = static_cast<std::uint32_t>(taken);
  return at;
}

void LogWriter::StageEntry(std::uint64_t order, std::byte* head, std::size_t head_size,
                           std::byte* trailer, std::size_t zeros, const EntryPayload& payload) {
  const std::uint32_t lkey = options_.staging_lkey;
  rdma::Sge* sges = gathers_[staged_requests_].sges;
  std::size_t count = 0;
  if (payload.sges.empty()) {
    sges[count++] = {head, static_cast<std::uint32_t>(head_size + kEntryTrailerSize), lkey};
  } else {
    sges[count++] = {head, static_cast<std::uint32_t>(head_size), lkey};
    for (const rdma::Sge& sge : payload.sges) sges[count++] = sge;
    sges[count++] = {trailer - zeros, static_cast<std::uint32_t>(zeros + kEntryTrailerSize), lkey};
  }
  StageWrite(order, count);
}

std::uint32_t* LogWriter::Append(std::uint64_t order, const std::byte* head, std::size_t head_size,
                                 std::size_t payload_length, const EntryPayload& payload) {
  RING_CHECK(order > last_order_ && order <= kOrderMax)
      << "order=" << order << " last_order=" << last_order_;
  RING_CHECK(payload.sges.size() <= kPayloadSgesMax) << "sges=" << payload.sges.size();
  RING_CHECK(head_size >= kEntryHeaderSize && head_size <= kEntryHeadSizeMax &&
             IsAligned(head_size, kEntryAlignment))
      << "head_size=" << head_size;
  std::size_t gathered = 0;
  for (const rdma::Sge& sge : payload.sges) gathered += sge.length;
  RING_CHECK(gathered == payload_length && payload_length <= kPayloadSizeMax)
      << "sges hold " << gathered << " payload_length=" << payload_length;
  const std::size_t padded = AlignUp(payload_length, kEntryAlignment);
  const std::size_t zeros = padded - payload_length;
  const Place place = PlaceFor(head_size + padded + kEntryTrailerSize);
  RING_CHECK(staged_count_ < kStagedMax && !InFlightFull() && RingHasRoom(place, true))
      << "ask HasRoom before";

  // The piece of staging: [PAD] head [zeros] trailer, the trailer on a line of its own.
  const std::size_t tail_size = zeros > 0 ? kTrailerStagingSize : kEntryTrailerSize;
  const std::size_t pad_head_size = place.pad_size > 0 ? kEntryHeaderSize : 0;
  std::uint32_t cost = 0;
  std::byte* at = TakeStaging(pad_head_size + head_size + tail_size, &cost);
  if (place.pad_size > 0) StagePad(order, place.pad_size, at);
  at += pad_head_size;
  prev_crc_ = SealEntryHead(head, head_size, position_, prev_crc_, commit_position_, at);
  if (zeros > 0) std::memset(at + head_size, 0, kEntryAlignment);
  std::byte* trailer_at = at + head_size + (tail_size - kEntryTrailerSize);
  EntryTrailer* trailer = new (trailer_at) EntryTrailer;
  trailer->position = position_;
  trailer->payload_crc = payload.crc;
  StageEntry(order, at, head_size, trailer_at, zeros, payload);
  MoveTo(place.next_position);

  if (in_flight_acked_ == in_flight_end_ && in_flight_committed_ == in_flight_end_) {
    // Starts over, so that a quiet writer stays within a few cache lines.
    in_flight_acked_ = in_flight_committed_ = in_flight_end_ = 0;
  }
  At(in_flight_end_++) = {.order = order,
                          .end_position = position_,
                          .request_total = request_total_,
                          .staging_size = cost};
  last_order_ = order;
  ++staged_count_;
  return &trailer->payload_crc;
}

void LogWriter::DropStaged() {
  staged_count_ = 0;
  staged_requests_ = 0;
}

absl::Status LogWriter::Flush() {
  if (staged_count_ == 0) return absl::OkStatus();
  if (!broken_) {
    requests_[staged_requests_ - 1].signaled = true;
    const absl::Status status = options_.qp->PostSend(requests_[0]);
    if (status.code() == absl::StatusCode::kResourceExhausted) {
      requests_[staged_requests_ - 1].signaled = false;
      return status;
    }
    if (status.ok()) {
      flushed_order_ = last_order_;
      flushed_position_ = position_;
      request_signalled_ = request_total_;
      DropStaged();
      return absl::OkStatus();
    }
    broken_ = true;
  }
  DropStaged();
  return absl::UnavailableError(
      absl::StrFormat("log writer id=%d epoch=%d is broken: reconnect it, or leave the member out "
                      "by an epoch change",
                      options_.writer_id, options_.epoch.value()));
}

void LogWriter::OnCompletion(const rdma::WorkCompletion& completion) {
  if (completion.qp != nullptr && completion.qp != options_.qp) return;
  if ((completion.wr_id & ~kLow48) != wr_id_base_ && !Mutant("L6")) return;
  if (completion.status != rdma::WcStatus::kSuccess) {
    broken_ = true;
    return;
  }
  const std::uint64_t order = completion.wr_id & kLow48;
  if ((order & kControlBit) != 0) {
    // In its order: whatever was posted before the control word is done as well.
    request_done_ = std::max(request_done_, control_signalled_);
    control_signalled_ = 0;
    return;
  }
  if (order > flushed_order_) {
    broken_ = true;
    return;
  }
  acked_order_ = std::max(acked_order_, order);
  while (in_flight_acked_ < in_flight_end_ && At(in_flight_acked_).order <= order) {
    const InFlight& entry = At(in_flight_acked_);
    staging_used_ -= entry.staging_size;
    request_done_ = std::max(request_done_, entry.request_total);
    ++in_flight_acked_;
  }
}

void LogWriter::AdvanceCommit(std::uint64_t first_uncommitted) {
  while (in_flight_committed_ < in_flight_end_ &&
         At(in_flight_committed_).order < first_uncommitted) {
    commit_position_ = At(in_flight_committed_).end_position;
    ++in_flight_committed_;
    ++commits_since_share_;
  }
}

void LogWriter::ShareCommit(bool busy) {
  // What is staged is counted as if it stood before the control word.
  if (broken_ || staged_count_ > 0) return;
  RefreshCredit();
  if (broken_ || commit_position_ == shared_position_ || Mutant("E5-share")) return;
  const bool drained =
      in_flight_acked_ == in_flight_end_ && (!busy || commits_since_share_ >= kShareBusy);
  const bool scarce = position_ - folded_position_ > ring_size_ - ring_size_ / 4;
  if (!drained && !scarce && commits_since_share_ < kShareEvery) return;
  if (RequestsOutstanding() >= options_.send_depth) return;

  std::uint64_t word = commit_position_;
  const rdma::Sge sge{reinterpret_cast<std::byte*>(&word), sizeof(word), 0};
  rdma::WorkRequest request;
  request.wr_id = wr_id_base_ | kControlBit | flushed_order_;
  request.opcode = rdma::Opcode::kWrite;
  request.inline_data = true;
  request.sges = absl::MakeConstSpan(&sge, 1);
  request.remote_address = options_.ring.address;
  request.rkey = options_.ring.rkey;
  // Entries signal every chain; only control words alone could fill the queue unnoticed.
  request.signaled =
      control_signalled_ == 0 && request_total_ + 1 - request_signalled_ >= kSignalControlAt;
  const absl::Status status = options_.qp->PostSend(request);
  if (!status.ok()) {
    broken_ = status.code() != absl::StatusCode::kResourceExhausted;
    return;
  }
  ++request_total_;
  if (request.signaled) control_signalled_ = request_signalled_ = request_total_;
  shared_position_ = commit_position_;
  commits_since_share_ = 0;
}

void LogWriter::RingDoorbell() {
  if (broken_ || RequestsOutstanding() >= options_.send_depth) return;
  rdma::WorkRequest request;
  request.wr_id = wr_id_base_ | kControlBit | flushed_order_;
  request.opcode = rdma::Opcode::kSend;
  if (options_.qp->PostSend(request).ok()) ++request_total_;
}

}  // namespace ring::memgest
