#include "rdma/soft/tcp_transmit.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "rdma/soft/region_table.h"
#include "rdma/soft/shared_copy.h"

namespace ring::rdma::soft {

TcpTransmit::Item& TcpTransmit::Push() {
  if (count_ == ring_.size()) {
    std::vector<Item> larger(std::max<std::size_t>(16, ring_.size() * 2));
    for (std::size_t i = 0; i < count_; ++i) larger[i] = At(i);
    ring_ = std::move(larger);
    head_ = 0;
  }
  return ring_[(head_ + count_++) & (ring_.size() - 1)] = Item();
}

std::byte* TcpTransmit::Grow(std::size_t size) {
  if (copies_end_ + size > copies_.size()) {
    const std::size_t used = copies_end_ - copies_begin_;
    if (used + size > copies_.size() / 2) {
      std::vector<std::byte> larger(std::max<std::size_t>(4096, 2 * (used + size)));
      std::copy_n(copies_.data() + copies_begin_, used, larger.data());
      copies_ = std::move(larger);
    } else {
      std::memmove(copies_.data(), copies_.data() + copies_begin_, used);
    }
    copies_begin_ = 0;
    copies_end_ = used;
  }
  std::byte* const room = copies_.data() + copies_end_;
  copies_end_ += size;
  return room;
}

// Adds a frame that is copied whole; the caller fills in the payload.
TcpTransmit::Item& TcpTransmit::CopyFrame(const TcpFrame& frame, std::size_t payload_size,
                                          std::byte** payload) {
  const bool joins = count_ != 0 && At(count_ - 1).is_copy && At(count_ - 1).size < kRunMax;
  Item& item = joins ? At(count_ - 1) : Push();
  const std::size_t size = kTcpHeaderSize + payload_size;
  std::byte* const room = Grow(size);
  EncodeTcpFrame(frame, room);
  *payload = room + kTcpHeaderSize;
  item.is_copy = true;
  item.copied += size;
  item.size += size;
  bytes_ += size;
  return item;
}

void TcpTransmit::Add(const TcpFrame& frame, absl::Span<const Sge> pieces) {
  Item& item = Push();
  EncodeTcpFrame(frame, Grow(kTcpHeaderSize));
  item.copied = kTcpHeaderSize;
  item.pieces = pieces;
  item.size = kTcpHeaderSize + frame.payload_length;
  item.sequence = frame.sequence;
  item.request = true;
  bytes_ += item.size;
}

void TcpTransmit::AddCopy(const TcpFrame& frame, absl::Span<const Sge> pieces) {
  std::byte* payload = nullptr;
  Item& item = CopyFrame(frame, frame.payload_length, &payload);
  item.sequence = frame.sequence;
  item.request = true;
  for (const Sge& piece : pieces) {
    CopyFromShared(payload, piece.address, piece.length);
    payload += piece.length;
  }
}

void TcpTransmit::AddOne(const TcpFrame& frame, const std::byte* payload, std::uint32_t rkey) {
  if (frame.payload_length <= kShortMax) {
    std::byte* copy = nullptr;
    CopyFrame(frame, frame.payload_length, &copy);
    if (frame.payload_length != 0) CopyFromShared(copy, payload, frame.payload_length);
    return;
  }
  Item& item = Push();
  EncodeTcpFrame(frame, Grow(kTcpHeaderSize));
  item.copied = kTcpHeaderSize;
  item.own = {const_cast<std::byte*>(payload), frame.payload_length, rkey};
  item.size = kTcpHeaderSize + frame.payload_length;
  bytes_ += item.size;
}

void TcpTransmit::DropRequests() {
  std::size_t kept = 0;
  std::size_t from = copies_begin_;
  std::size_t to = copies_begin_;
  bytes_ = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    const Item item = At(i);
    // A request without payload that is partly sent is finished: its bytes are all here.
    const bool drop = item.request && !item.is_copy && !(i == 0 && sent_of_head_ != 0);
    if (!drop) {
      std::memmove(copies_.data() + to, copies_.data() + from, item.copied);
      to += item.copied;
      bytes_ += item.size;
      At(kept++) = item;
    }
    from += item.copied;
  }
  count_ = kept;
  copies_end_ = to;
  if (kept != 0) bytes_ -= sent_of_head_;
}

void TcpTransmit::Clear() {
  count_ = 0;
  bytes_ = 0;
  sent_of_head_ = 0;
  copies_begin_ = copies_end_ = 0;
}

void TcpTransmit::Consume(std::uint64_t sent) {
  bytes_ -= sent;
  sent += sent_of_head_;
  while (count_ != 0 && sent >= At(0).size) {
    const Item& item = At(0);
    sent -= item.size;
    copies_begin_ += item.copied;
    if (item.request) {
      sent_sequence_ = item.sequence;
      anything_sent_ = true;
    }
    head_ = (head_ + 1) & (ring_.size() - 1);
    --count_;
  }
  sent_of_head_ = sent;
  if (count_ == 0) copies_begin_ = copies_end_ = 0;
}

bool TcpTransmit::MayBeSent(const Item& item, const Mapping& own) {
  return item.own.lkey == 0 || StillValid(own, item.own.lkey);
}

TcpTransmit::Result TcpTransmit::Flush(int fd, const Mapping& own, std::uint64_t* calls) {
  while (count_ != 0) {
    iovec vector[kVectorMax];
    int used = 0;
    std::uint64_t skip = sent_of_head_;
    std::uint64_t offered = 0;
    const auto add = [&](const std::byte* data, std::uint64_t size) {
      const std::uint64_t skipped = std::min(skip, size);
      skip -= skipped;
      if (size == skipped) return;
      vector[used++] = {const_cast<std::byte*>(data) + skipped, size - skipped};
      offered += size - skipped;
    };
    const std::byte* copies = copies_.data() + copies_begin_;
    for (std::size_t i = 0; i < count_; ++i) {
      const Item& item = At(i);
      if (used + 2 + static_cast<int>(item.pieces.size()) > kVectorMax) break;
      if (!MayBeSent(item, own)) {
        if (used == 0) return Result::kBroken;
        break;  // what is before it goes first
      }
      add(copies, item.copied);
      copies += item.copied;
      for (const Sge& piece : item.pieces) add(piece.address, piece.length);
      add(item.own.address, item.own.length);
    }
    msghdr message{};
    message.msg_iov = vector;
    message.msg_iovlen = static_cast<std::size_t>(used);
    ++*calls;
    const ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK ? Result::kSocketFull : Result::kBroken;
    }
    Consume(static_cast<std::uint64_t>(sent));
    if (static_cast<std::uint64_t>(sent) < offered) return Result::kSocketFull;
  }
  return Result::kSentAll;
}

}  // namespace ring::rdma::soft
