#include "memgest/log_reader.h"

#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ring/base/check.h"
#include "ring/base/mutant.h"

namespace ring::memgest {

LogReader::LogReader(const LogReaderOptions& options)
    : options_(options), ring_size_(options.size - kRingControlSize) {
  RING_CHECK(options.memory != nullptr &&
             IsAligned(reinterpret_cast<std::uintptr_t>(options.memory), kEntryAlignment));
  RING_CHECK(options.size >= kRingControlSize + kRingSizeMin &&
             IsAligned(options.size, kEntryAlignment))
      << "size=" << options.size;
  Remember();
}

std::uint64_t LogReader::LoadControlWord() const {
  if (sealed_) return sealed_commit_;
  auto* word = reinterpret_cast<std::uint64_t*>(options_.memory);
  // Acquire: the entries below the position were written before it, on the same queue pair.
  return std::max(told_commit_,
                  std::atomic_ref<std::uint64_t>(*word).load(std::memory_order_acquire));
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
  if (folded_position_ >= next_place_) Remember();
}

void LogReader::Remember() {
  places_[place_count_++ % places_.size()] = {folded_position_, prev_crc_};
  next_place_ = folded_position_ + ring_size_ / kPlacesPerRing;
}

absl::StatusOr<bool> LogReader::Next(EntryView* entry, bool check_payload) {
  const std::uint64_t commit = Mutant("E9-reader") && !sealed_
                                   ? FindTail([](const EntryView&) {}).position
                                   : LoadControlWord();
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

bool LogReader::CommitThrough(MemgestId memgest, std::uint64_t index) {
  RING_CHECK(!sealed_) << "epoch=" << options_.epoch.value();
  std::uint64_t behind = 0;
  const auto look = [&](const EntryView& entry) {
    const EntryHeader& header = entry.header;
    if (header.memgest != memgest.value() || header.index != index) return;
    const std::uint64_t left = ring_size_ - header.position % ring_size_;
    behind = NextEntryPosition(header.position, entry.size, left - entry.size);
  };
  Walk({folded_position_, prev_crc_}, folded_position_ + ring_size_, false, look);
  told_commit_ = std::max(told_commit_, behind);
  return behind != 0;
}

LogTail LogReader::FindTail(absl::FunctionRef<void(const EntryView&)> visit) const {
  // Behind one lap stand the entries that the folded position has not released.
  return Walk({folded_position_, prev_crc_}, folded_position_ + ring_size_, !Mutant("E4-torn"),
              visit);
}

LogTail LogReader::Walk(LogTail tail, std::uint64_t end, bool check_payload,
                        absl::FunctionRef<void(const EntryView&)> visit) const {
  std::uint64_t offset = tail.position % ring_size_;
  while (tail.position < end) {
    const std::uint64_t left = ring_size_ - offset;
    const std::uint64_t size = std::min(left, end - tail.position);
    absl::StatusOr<EntryView> decoded =
        DecodeEntry(absl::MakeConstSpan(options_.memory + kRingControlSize + offset, size),
                    tail.position, options_.epoch, tail.prev_crc, check_payload);
    if (!decoded.ok()) break;
    const bool pad = decoded->header.type == EntryType::kPad;
    if (pad && decoded->size != left) break;
    if (!pad) visit(*decoded);
    const std::uint64_t next =
        NextEntryPosition(tail.position, decoded->size, left - decoded->size);
    offset += next - tail.position;
    if (offset == ring_size_) offset = 0;
    tail = {.position = next, .prev_crc = decoded->header.header_crc};
  }
  return tail;
}

absl::StatusOr<LogTail> LogReader::Seal(absl::FunctionRef<void(const EntryView&)> visit) {
  RING_CHECK(!sealed_) << "epoch=" << options_.epoch.value();
  const std::uint64_t commit = commit_position();
  // What was called committed is no torn WRITE: only a payload may be damaged, and Take tells.
  const LogTail told = Walk({folded_position_, prev_crc_}, commit, false, visit);
  if (told.position < commit) {
    return absl::DataLossError(absl::StrCat("sealed ring epoch=", options_.epoch.value(),
                                            ": its valid tail ends at position=", told.position,
                                            ", committed=", commit));
  }
  const LogTail tail = Walk(told, folded_position_ + ring_size_, !Mutant("E4-torn"), visit);
  tail_ = tail;
  sealed_ = true;
  sealed_commit_ = commit_seen_ = folded_position_;
  options_.qp = nullptr;
  return tail;
}

void LogReader::CommitTail() {
  RING_CHECK(sealed_) << "epoch=" << options_.epoch.value();
  sealed_commit_ = tail_.position;
}

void LogReader::ReadBack(absl::FunctionRef<void(const EntryView&)> visit) const {
  RING_CHECK(sealed_) << "epoch=" << options_.epoch.value();
  const LogTail folded{folded_position_, prev_crc_};
  LogTail from = folded;
  std::uint64_t damaged = 0;  // nothing up to here is whole, as a walk found
  const std::uint64_t oldest = place_count_ - std::min<std::uint64_t>(place_count_, places_.size());
  for (std::uint64_t i = oldest; i < place_count_; ++i) {
    const LogTail& place = places_[i % places_.size()];
    if (place.position < damaged) continue;
    const LogTail end = Walk(place, folded.position, true, [](const EntryView&) {});
    if (end == folded) {
      from = place;
      break;
    }
    damaged = end.position + 1;
  }
  // Nobody writes here any more: what was whole above is whole.
  Walk(from, tail_.position, false, visit);
}

}  // namespace ring::memgest
