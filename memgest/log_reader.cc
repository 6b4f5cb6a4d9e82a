#include "memgest/log_reader.h"

#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ring/base/check.h"

namespace ring::memgest {

LogReader::LogReader(const LogReaderOptions& options)
    : options_(options), ring_size_(options.size - kRingControlSize) {
  RING_CHECK(options.memory != nullptr &&
             IsAligned(reinterpret_cast<std::uintptr_t>(options.memory), kEntryAlignment));
  RING_CHECK(options.size >= kRingControlSize + kRingSizeMin &&
             IsAligned(options.size, kEntryAlignment))
      << "size=" << options.size;
}

std::uint64_t LogReader::LoadControlWord() const {
  auto* word = reinterpret_cast<std::uint64_t*>(options_.memory);
  // Acquire: the entries below the position were written before it, on the same queue pair.
  return std::atomic_ref<std::uint64_t>(*word).load(std::memory_order_acquire);
}

bool LogReader::IsRight(std::uint64_t control_word) const {
  return control_word >= commit_seen_ && control_word - folded_position_ <= ring_size_ &&
         IsAligned(control_word, kEntryAlignment);
}

bool LogReader::HasCommitted() const { return LoadControlWord() != folded_position_; }

std::uint64_t LogReader::commit_position() const {
  const std::uint64_t word = LoadControlWord();
  return IsRight(word) ? word : commit_seen_;
}

void LogReader::MoveBehind(const EntryView& entry) {
  const std::uint64_t next =
      NextEntryPosition(folded_position_, entry.size, ring_size_ - offset_ - entry.size);
  offset_ += next - folded_position_;
  if (offset_ == ring_size_) offset_ = 0;
  folded_position_ = next;
  prev_crc_ = entry.header.header_crc;
}

absl::StatusOr<bool> LogReader::Next(EntryView* entry, bool check_payload) {
  const std::uint64_t commit = LoadControlWord();
  if (!IsRight(commit)) {
    return absl::DataLossError(absl::StrFormat(
        "commit position=%d of a ring of size=%d, folded=%d, commit before=%d: drop the connection",
        commit, ring_size_, folded_position_, commit_seen_));
  }
  commit_seen_ = commit;
  while (folded_position_ != commit) {
    const std::uint64_t left = ring_size_ - offset_;
    const std::size_t size = std::min(left, commit - folded_position_);
    const absl::Status decoded =
        DecodeEntryTo(absl::MakeConstSpan(options_.memory + kRingControlSize + offset_, size),
                      folded_position_, options_.epoch, prev_crc_, check_payload, entry);
    if (!decoded.ok()) {
      return absl::DataLossError(absl::StrCat("committed entry is damaged: ", decoded.message()));
    }
    if (entry->header.type != EntryType::kPad) {
      // The 64 bytes that no header fits in are part of the commit position, too.
      if (NextEntryPosition(folded_position_, entry->size, left - entry->size) > commit) {
        return absl::DataLossError(absl::StrFormat(
            "commit position=%d lies within an entry, folded=%d", commit, folded_position_));
      }
      return true;
    }
    if (entry->size != left) {
      return absl::DataLossError(absl::StrFormat("PAD position=%d size=%d, but left=%d",
                                                 folded_position_, entry->size, left));
    }
    MoveBehind(*entry);
  }
  return false;
}

void LogReader::Consume(const EntryView& entry) {
  RING_CHECK(entry.header.position == folded_position_)
      << "position=" << entry.header.position << " folded=" << folded_position_;
  MoveBehind(entry);
}

absl::Status LogReader::ShareCredit(bool idle) {
  const std::uint64_t news = folded_position_ - shared_position_;
  if (news == 0 || (!idle && news < ring_size_ / 8)) return absl::OkStatus();
  if (options_.qp == nullptr) {
    return absl::FailedPreconditionError("a ring without a queue pair gives no credit");
  }
  std::uint64_t word = folded_position_;
  const rdma::Sge sge{reinterpret_cast<std::byte*>(&word), sizeof(word), 0};
  rdma::WorkRequest request;
  request.wr_id = options_.wr_id;
  request.opcode = rdma::Opcode::kWrite;
  request.inline_data = true;
  request.signaled = (credits_ + 1) % kCreditSignalEvery == 0;
  request.sges = absl::MakeConstSpan(&sge, 1);
  request.remote_address = options_.credit.address;
  request.rkey = options_.credit.rkey;
  if (absl::Status status = options_.qp->PostSend(request); !status.ok()) return status;
  shared_position_ = folded_position_;
  ++credits_;
  return absl::OkStatus();
}

LogTail LogReader::FindTail(absl::FunctionRef<void(const EntryView&)> visit) const {
  LogTail tail{.position = folded_position_, .prev_crc = prev_crc_};
  std::uint64_t offset = offset_;
  while (true) {
    // Behind one lap stand the entries that the folded position has not released.
    const std::uint64_t left = ring_size_ - offset;
    const std::uint64_t unread = ring_size_ - (tail.position - folded_position_);
    absl::StatusOr<EntryView> decoded = DecodeEntry(
        absl::MakeConstSpan(options_.memory + kRingControlSize + offset, std::min(left, unread)),
        tail.position, options_.epoch, tail.prev_crc, true);
    if (!decoded.ok()) return tail;
    const bool pad = decoded->header.type == EntryType::kPad;
    if (pad && decoded->size != left) return tail;
    if (!pad) visit(*decoded);
    const std::uint64_t next =
        NextEntryPosition(tail.position, decoded->size, left - decoded->size);
    offset += next - tail.position;
    if (offset == ring_size_) offset = 0;
    tail = {.position = next, .prev_crc = decoded->header.header_crc};
  }
}

}  // namespace ring::memgest
