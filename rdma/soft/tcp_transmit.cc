#include "rdma/soft/tcp_transmit.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "rdma/soft/shared_copy.h"

namespace ring::rdma::soft {

TcpTransmit::Item& TcpTransmit::Push() {
  if (count_ == ring_.size()) {
    std::vector<Item> larger(std::max<std::size_t>(16, ring_.size() * 2));
    for (std::size_t i = 0; i < count_; ++i) larger[i] = At(i);
    ring_ = std::move(larger);
    head_ = 0;
  }
  return ring_[(head_ + count_++) & (ring_.size() - 1)];
}

void TcpTransmit::Add(const TcpFrame& frame, absl::Span<const Sge> pieces) {
  Item& item = Push();
  EncodeTcpFrame(frame, item.header.data());
  item.header_size = kTcpHeaderSize;
  item.pieces = pieces;
  item.own = {};
  item.size = kTcpHeaderSize + frame.payload_length;
  item.sequence = frame.sequence;
  item.request = true;
  bytes_ += item.size;
}

void TcpTransmit::AddOne(const TcpFrame& frame, const std::byte* payload) {
  Item& item = Push();
  EncodeTcpFrame(frame, item.header.data());
  item.pieces = {};
  item.header_size = kTcpHeaderSize;
  item.own = {const_cast<std::byte*>(payload), frame.payload_length, 0};
  if (frame.payload_length != 0 && frame.payload_length <= kShortMax) {
    CopyFromShared(item.header.data() + kTcpHeaderSize, payload, frame.payload_length);
    item.header_size += frame.payload_length;
    item.own = {};
  }
  item.size = kTcpHeaderSize + frame.payload_length;
  item.sequence = 0;
  item.request = false;
  bytes_ += item.size;
}

void TcpTransmit::DropRequests() {
  std::size_t kept = 0;
  bytes_ = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    Item item = At(i);
    // A request without payload that is partly sent is finished: its bytes are all here.
    if (item.request && !(i == 0 && sent_of_head_ != 0)) continue;
    bytes_ += item.size;
    ring_[(head_ + kept++) & (ring_.size() - 1)] = item;
  }
  count_ = kept;
  if (kept != 0) bytes_ -= sent_of_head_;
}

void TcpTransmit::Clear() {
  count_ = 0;
  bytes_ = 0;
  sent_of_head_ = 0;
}

void TcpTransmit::Consume(std::uint64_t sent) {
  bytes_ -= sent;
  sent += sent_of_head_;
  while (count_ != 0 && sent >= At(0).size) {
    const Item& item = At(0);
    sent -= item.size;
    if (item.request) {
      sent_sequence_ = item.sequence;
      anything_sent_ = true;
    }
    head_ = (head_ + 1) & (ring_.size() - 1);
    --count_;
  }
  sent_of_head_ = sent;
}

TcpTransmit::Result TcpTransmit::Flush(int fd) {
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
    for (std::size_t i = 0; i < count_; ++i) {
      const Item& item = At(i);
      if (used + 2 + static_cast<int>(item.pieces.size()) > kVectorMax) break;
      add(item.header.data(), item.header_size);
      for (const Sge& piece : item.pieces) add(piece.address, piece.length);
      add(item.own.address, item.own.length);
    }
    msghdr message{};
    message.msg_iov = vector;
    message.msg_iovlen = static_cast<std::size_t>(used);
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
