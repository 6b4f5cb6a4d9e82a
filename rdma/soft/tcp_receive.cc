// The part of TcpConnection that reads: the handshake, frames, and payloads into their places.
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "rdma/soft/device.h"
#include "rdma/soft/queue_pair.h"
#include "rdma/soft/shared_copy.h"
#include "rdma/soft/tcp_connection.h"

namespace ring::rdma::soft {
namespace {

constexpr int kReadsPerTurn = 16;
constexpr std::uint64_t kStraightMin = 64 << 10;
constexpr std::uint64_t kStraightPieceMin = 4 << 10;  // less goes through the buffer
constexpr std::uint64_t kWord = sizeof(std::uint64_t);

}  // namespace

void TcpConnection::ReadHandshake() {
  if (state_ == State::kDraining) {
    std::byte scratch[4096];
    for (int i = 0; i < kReadsPerTurn; ++i) {
      const ssize_t size = recv(fd_, scratch, sizeof(scratch), MSG_DONTWAIT);
      if (size > 0) continue;
      if (size == 0 || (errno != EAGAIN && errno != EINTR)) OnHangUp();
      return;
    }
    return;
  }
  // No more than one handshake frame is taken; a peer that sends more before the answer waits in
  // the socket.
  const ssize_t size =
      recv(fd_, buffer_.data() + buffer_end_, kHelloSize - buffer_end_, MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) {
    if (size == 0 && buffer_end_ == kHelloSize && state_ == State::kRequested) {
      WatchFor(false, want_write_);  // full: the rest is read once we are linked
      return;
    }
    return OnHangUp();
  }
  buffer_end_ += static_cast<std::size_t>(size);
  if (state_ == State::kRequested) return;
  const TcpDecodeResult result = DecodeTcpFrame(absl::MakeConstSpan(buffer_.data(), buffer_end_));
  if (result.state == TcpDecodeState::kNeedMore) return;
  const bool handshake =
      result.state == TcpDecodeState::kFrame && result.frame.type <= TcpFrameType::kReject;
  if (!handshake) {
    if (state_ == State::kAwaitHello) {
      return Refuse(result.state == TcpDecodeState::kBad ? result.reason
                                                         : "refused: expected a hello");
    }
    return OnHangUp();
  }
  const std::size_t whole = kTcpHeaderSize + result.frame.payload_length;
  if (buffer_end_ < whole) return;
  std::string private_data(reinterpret_cast<const char*>(buffer_.data() + kTcpHeaderSize),
                           result.frame.payload_length);
  buffer_begin_ = whole;
  OnHandshakeFrame(result.frame, std::move(private_data));
  if (state_ == State::kLinked && buffer_begin_ != buffer_end_) ReadFrames();
}

// Reads until the socket is empty, which a read that is not filled tells too; else read_on_ is left
// set, as nothing tells of these bytes again. Less than a word may stay: what belongs to it will be
// told of.
void TcpConnection::ReadFrames() {
  read_on_ = false;
  if (!ParseBuffer()) return;
  if (uring_ != nullptr) return ShrinkBuffer();  // more is brought by OnBytes
  for (int i = 0; i < kReadsPerTurn && state_ == State::kLinked; ++i) {
    std::uint64_t available = 0;
    if (const std::uint64_t straight = StraightSize(&available); straight != 0) {
      if (!ReadStraight(straight)) return;
      if (available - straight < kWord && !end_near_) return;
      continue;
    }
    const std::size_t room = RoomToRead();
    ++device_->mutable_counters().receives;
    const ssize_t size = recv(fd_, buffer_.data() + buffer_end_, room, MSG_DONTWAIT);
    if (size < 0 && errno == EAGAIN) {
      ++device_->mutable_counters().receives_in_vain;
      return;
    }
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return OnHangUp();
    buffer_end_ += static_cast<std::size_t>(size);
    BytesCame();
    if (!ParseBuffer()) return;
    if (static_cast<std::size_t>(size) < room && !end_near_) return;
  }
  read_on_ = state_ == State::kLinked;
}

void TcpConnection::BytesCame() {
  if (came_turn_ == device_->turn()) return;
  came_turn_ = device_->turn();
  ++device_->mutable_counters().batches_received;
  if (uring_ == nullptr) device_->hot_sockets().Came(this, came_turn_);
}

// What the receiver brought: parsed where it lies, but for the part of a header or of a word that
// the last segment left.
void TcpConnection::OnBytes(absl::Span<const std::byte> bytes) {
  if (state_ != State::kLinked) return;  // what comes while the connection drains is for nobody
  BytesCame();
  while (!bytes.empty() && !paused_ && !crowded_ && state_ == State::kLinked) {
    if (buffer_begin_ == buffer_end_) {
      std::size_t begin = 0;
      const bool whole = Parse(bytes.data(), &begin, bytes.size());
      bytes.remove_prefix(begin);
      if (whole) break;
      continue;
    }
    const std::size_t added = std::min(bytes.size(), kPartMax);
    Keep(bytes.first(added));
    bytes.remove_prefix(added);
    if (!ParseBuffer()) continue;
    const std::size_t left = buffer_end_ - buffer_begin_;
    if (left > added) continue;
    // What is left is of these bytes: it is parsed where it lies, too.
    bytes = absl::MakeConstSpan(bytes.data() - left, bytes.size() + left);
    buffer_begin_ = buffer_end_ = 0;
  }
  if (state_ != State::kLinked) return;
  Keep(bytes);
  if (IsDue()) BecomeDue();
}

void TcpConnection::OnEnd() {
  if (state_ != State::kDead) OnHangUp();
}

// After a request has had to wait, and much behind it.
void TcpConnection::ShrinkBuffer() {
  if (buffer_.size() <= kPartsSize) return;
  std::vector<std::byte> smaller(kPartsSize);
  buffer_end_ -= buffer_begin_;
  std::memcpy(smaller.data(), buffer_.data() + buffer_begin_, buffer_end_);
  buffer_begin_ = 0;
  buffer_ = std::move(smaller);
}

// Puts what cannot be handled yet behind what waits in the buffer.
void TcpConnection::Keep(absl::Span<const std::byte> bytes) {
  const std::size_t kept = buffer_end_ - buffer_begin_;
  if (buffer_begin_ != 0) std::memmove(buffer_.data(), buffer_.data() + buffer_begin_, kept);
  if (kept + bytes.size() > buffer_.size()) buffer_.resize(kept + bytes.size());
  if (!bytes.empty()) std::memcpy(buffer_.data() + kept, bytes.data(), bytes.size());
  buffer_begin_ = 0;
  buffer_end_ = kept + bytes.size();
}

// Moves what is left in the buffer to its front; gives how much to read behind it.
std::size_t TcpConnection::RoomToRead() {
  if (buffer_begin_ != 0) {
    std::memmove(buffer_.data(), buffer_.data() + buffer_begin_, buffer_end_ - buffer_begin_);
    buffer_end_ -= buffer_begin_;
    buffer_begin_ = 0;
  }
  // The rest of a word of a large payload: what comes after it is read straight again.
  if (sink_.active && sink_.left >= kStraightMin && buffer_end_ != 0 && buffer_end_ < kWord)
    return kWord - buffer_end_;
  return buffer_.size() - buffer_end_;
}

// Of the next `size` bytes of the payload, how many may be shown: none that would leave a small
// payload, or an aligned word of the target, half written.
std::uint64_t TcpConnection::MayLand(std::uint64_t size) const {
  if (size >= sink_.left) return sink_.left;
  if (sink_.frame.payload_length <= kWholeMax) return 0;
  std::uint64_t in_piece = size;
  for (std::size_t i = sink_.at; i < sink_.piece_count; ++i) {
    const Sge& piece = sink_.pieces[i];
    if (in_piece < piece.length) {
      const std::uint64_t over =
          (reinterpret_cast<std::uintptr_t>(piece.address) + in_piece) % kWord;
      return size - std::min(over, in_piece);
    }
    in_piece -= piece.length;
  }
  return size;
}

// How much of a large payload to read without the buffer between; 0: read into the buffer. The
// socket is asked first how much is there, as a read could end within a word.
std::uint64_t TcpConnection::StraightSize(std::uint64_t* available) const {
  if (!sink_.active || sink_.left < kStraightMin || buffer_begin_ != buffer_end_) return 0;
  int size = 0;
  ++device_->mutable_counters().receives;
  if (ioctl(fd_, FIONREAD, &size) != 0 || size < 0) return 0;
  *available = static_cast<std::uint64_t>(size);
  return *available < kStraightPieceMin ? 0 : MayLand(*available);
}

// Reads up to `limit` bytes of the payload into their place. False: stop reading for now.
bool TcpConnection::ReadStraight(std::uint64_t limit) {
  if (!SinkStillAllowed()) return false;
  iovec vector[16];
  int used = 0;
  std::uint64_t offered = 0;
  for (std::size_t i = sink_.at; i < sink_.piece_count && offered < limit; ++i) {
    const std::uint64_t size = std::min<std::uint64_t>(sink_.pieces[i].length, limit - offered);
    if (size == 0) continue;
    vector[used++] = {sink_.pieces[i].address, size};
    offered += size;
  }
  ++device_->mutable_counters().receives;
  const ssize_t size = readv(fd_, vector, used);
  if (size < 0 && errno == EINTR) return true;
  if (size < 0 && errno == EAGAIN) return false;
  if (size <= 0) {
    OnHangUp();
    return false;
  }
  BytesCame();
  std::uint64_t got = static_cast<std::uint64_t>(size);
  sink_.left -= got;
  while (got != 0) {
    Sge& piece = sink_.pieces[sink_.at];
    const auto taken = static_cast<std::uint32_t>(std::min<std::uint64_t>(got, piece.length));
    piece.address += taken;
    piece.length -= taken;
    got -= taken;
    if (piece.length == 0) ++sink_.at;
  }
  return sink_.left != 0 || FinishSink();
}

// Handles what is in data from *begin on, and moves it behind that. False: stop reading (paused,
// broken, or closed).
bool TcpConnection::Parse(const std::byte* data, std::size_t* begin, std::size_t end) {
  while (*begin != end || (sink_.active && sink_.left == 0)) {
    const std::size_t available = end - *begin;
    if (sink_.active) {
      const std::uint64_t size = MayLand(available);
      if (size != 0 && !SinkBytes(data + *begin, size)) return false;
      *begin += size;
      if (sink_.left != 0) return true;
      if (!FinishSink()) return false;
      continue;
    }
    const TcpDecodeResult result = DecodeTcpFrame(absl::MakeConstSpan(data + *begin, available));
    if (result.state == TcpDecodeState::kNeedMore) return true;
    if (result.state == TcpDecodeState::kBad) return Violation();
    if (!OnFrame(result.frame)) return false;
    *begin += kTcpHeaderSize;
  }
  return true;
}

bool TcpConnection::SinkBytes(const std::byte* data, std::uint64_t size) {
  if (!SinkStillAllowed()) return false;
  sink_.left -= size;
  while (size != 0) {
    Sge& piece = sink_.pieces[sink_.at];
    const auto taken = static_cast<std::uint32_t>(std::min<std::uint64_t>(size, piece.length));
    CopyToShared(piece.address, data, taken);
    data += taken;
    size -= taken;
    piece.address += taken;
    piece.length -= taken;
    if (piece.length == 0) ++sink_.at;
  }
  StoreFence();
  return true;
}

// A region revoked, or a queue pair reset, while a payload comes in: no byte of it lands any more.
bool TcpConnection::SinkStillAllowed() {
  const TcpFrameType type = sink_.frame.type;
  if (type == TcpFrameType::kWrite || type == TcpFrameType::kWriteWithImm) {
    if (StillValid(*device_->mapping(), sink_.frame.rkey)) return true;
    return Nak(sink_.frame, WcStatus::kRemoteAccess);
  }
  SoftQueuePair* own = qp();
  if (own == nullptr || own->state() != QpState::kReadyToSend) return Violation();
  if (type == TcpFrameType::kReadResponse)
    return own->IsOutstanding(sink_.frame.sequence) || Violation();
  return !own->receives().Empty() || Violation();
}

bool TcpConnection::FinishSink() {
  sink_.active = false;
  const TcpFrame frame = sink_.frame;
  SoftQueuePair* own = qp();
  if (own == nullptr || own->state() != QpState::kReadyToSend) return Violation();
  if (frame.type == TcpFrameType::kReadResponse) {
    own->OnRemoteDone(frame.sequence);
    return state_ == State::kLinked;
  }
  if (frame.type != TcpFrameType::kWrite) {
    Arrival arrival;
    arrival.has_imm = frame.has_imm;
    arrival.imm = frame.imm;
    arrival.opcode = frame.has_imm ? Opcode::kRecvWithImm : Opcode::kRecv;
    arrival.byte_len = frame.payload_length;
    own->CompleteReceive(arrival);
  }
  Executed(frame);
  return state_ == State::kLinked;
}

}  // namespace ring::rdma::soft
