#include "memgest/log_retention.h"

#include <cstddef>
#include <cstring>
#include <new>

#include "ring/base/align.h"
#include "ring/base/check.h"

namespace ring::memgest {

static_assert(LogRetention::kHeadBytes >= 4 * kEntryHeadSizeMax);

void LogRetention::FreeBytes::operator()(std::byte* bytes) const {
  ::operator delete[](bytes, std::align_val_t{kCacheLine});
}

LogRetention::LogRetention()
    : heads_(new (std::align_val_t{kCacheLine}) std::byte[kHeadBytes]), kept_(kEntriesMax) {}

// The used bytes are [head_first_, head_next_), or around the end of the ring.
bool LogRetention::HasRoom() const {
  if (head_next_ >= head_first_) {
    return kHeadBytes - head_next_ >= kEntryHeadSizeMax || head_first_ > kEntryHeadSizeMax;
  }
  return head_first_ - head_next_ > kEntryHeadSizeMax;
}

std::byte* LogRetention::NextHead() {
  RING_CHECK(HasRoom()) << "ask HasRoom before";
  if (head_next_ >= head_first_ && kHeadBytes - head_next_ < kEntryHeadSizeMax) head_next_ = 0;
  return heads_.get() + head_next_;
}

void LogRetention::Keep(std::uint64_t order, std::size_t head_size,
                        absl::Span<const EntryPayload> payloads) {
  RING_CHECK(order == end_ && end_ - first_kept_ < kEntriesMax)
      << "order=" << order << " first_kept=" << first_kept_;
  Kept& kept = at(end_++);
  kept.head_offset = static_cast<std::uint32_t>(head_next_);
  kept.head_size = static_cast<std::uint32_t>(head_size);
  head_next_ += head_size;
  kept.payload_count = 0;
  if (head_size == 0) return;
  if (payloads.empty()) kept.payloads.fill({});
  kept.payload_count = static_cast<std::uint32_t>(payloads.size());
  RING_CHECK(payloads.size() <= kPayloadsMax) << "payloads=" << payloads.size();
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    RING_CHECK(payloads[i].sges.size() <= 1)
        << "an entry that could not be sent again: sges=" << payloads[i].sges.size();
    kept.payloads[i].sge = payloads[i].sges.empty() ? rdma::Sge() : payloads[i].sges[0];
    kept.payloads[i].crc = payloads[i].crc;
    kept.payloads[i].withheld = payloads[i].withheld;
  }
}

void LogRetention::Release(std::uint64_t first_kept) {
  if (first_kept <= first_kept_) return;
  RING_CHECK(first_kept <= end_) << "first_kept=" << first_kept << " end=" << end_;
  first_kept_ = first_kept;
  if (first_kept_ == end_) {
    // Starts over, so that a quiet log stays within a few cache lines.
    head_first_ = head_next_ = 0;
  } else {
    head_first_ = at(first_kept_).head_offset;
  }
}

void LogRetention::SetEpoch(std::uint64_t end_order, Epoch epoch) {
  const std::uint32_t number = epoch.value();
  for (std::uint64_t order = first_kept_; order < end_order; ++order) {
    if (at(order).head_size == 0) continue;
    std::memcpy(heads_.get() + at(order).head_offset + offsetof(EntryHeader, epoch), &number,
                sizeof(number));
  }
}

absl::Span<const std::byte> LogRetention::Head(std::uint64_t order) const {
  RING_CHECK(order >= first_kept_ && order < end_) << "order=" << order << " is not kept";
  return {heads_.get() + at(order).head_offset, at(order).head_size};
}

std::uint64_t LogRetention::Index(std::uint64_t order) const {
  std::uint64_t index = 0;
  std::memcpy(&index, Head(order).data() + offsetof(EntryHeader, index), sizeof(index));
  return index;
}

EntryPayload LogRetention::Payload(std::uint64_t order, std::size_t member) const {
  const KeptPayload& one = PayloadOf(at(order), member);
  EntryPayload payload;
  if (one.sge.length > 0) payload.sges = absl::MakeConstSpan(&one.sge, 1);
  payload.crc = one.crc;
  payload.withheld = one.withheld;
  return payload;
}

std::size_t LogRetention::PayloadBytes(std::uint64_t order) const {
  std::size_t size = 0;
  for (std::size_t i = 0; i < at(order).payload_count; ++i) {
    size += AlignUp(at(order).payloads[i].sge.length, kCacheLine);
  }
  return size;
}

std::byte* LogRetention::MovePayloads(std::uint64_t order, std::byte* to, std::uint32_t lkey) {
  Kept& kept = at(order);
  for (std::size_t i = 0; i < kept.payload_count; ++i) {
    rdma::Sge& sge = kept.payloads[i].sge;
    if (sge.length == 0) continue;
    std::memcpy(to, sge.address, sge.length);
    sge.address = to;
    sge.lkey = lkey;
    to += AlignUp(sge.length, kCacheLine);
  }
  return to;
}

}  // namespace ring::memgest
