// rdma/soft/tcp_frame.h — the wire format of the "tcp:" link.
//
// What:      a stream of frames: a 64-byte header with a CRC, then payload_length bytes.
//            DecodeTcpFrame checks a header and everything in it that can be checked without state.
// Shape:     connector: kHello, then requests; acceptor: kAccept or kReject, then requests of its
//            own. Each request is answered by kReadResponse or kAtomicResponse, by a kAck of its
//            sequence or of a later one, or by a kNak; a WRITE that is unacknowledged by a kNak or
//            not at all.
// Units:     bytes; little-endian.
// Threads:   pure.
// Errors:    DecodeTcpFrame gives kBad with a reason that may be sent to the peer; it reads nothing
//            behind the header.
// Cost:      one CRC of 60 bytes a frame. Payloads carry no CRC: what must be certain has its own.
#ifndef RING_RDMA_SOFT_TCP_FRAME_H_
#define RING_RDMA_SOFT_TCP_FRAME_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace ring::rdma::soft {

inline constexpr std::uint32_t kTcpMagic = 0x31504752;  // "RGP1"
inline constexpr std::uint8_t kTcpVersion = 2;
inline constexpr std::size_t kTcpHeaderSize = 64;

enum class TcpFrameType : std::uint8_t {  // never renumber
  kHello = 1,
  kAccept = 2,
  kReject = 3,
  kSend = 4,
  kWrite = 5,
  kWriteWithImm = 6,
  kRead = 7,
  kReadResponse = 8,
  kCmpAndSwp = 9,
  kFetchAndAdd = 10,
  kAtomicResponse = 11,
  kAck = 12,
  kNak = 13,
};
inline constexpr std::uint8_t kTcpFrameTypeMax = 13;

struct TcpFrame {
  TcpFrameType type = TcpFrameType::kHello;
  bool has_imm = false;
  bool unacknowledged = false;  // kWrite: the sender wants no kAck
  std::uint8_t status = 0;      // kNak: a WcStatus
  std::uint32_t payload_length = 0;
  std::uint32_t rkey = 0;
  std::uint32_t imm = 0;
  std::uint64_t remote_address = 0;
  std::uint64_t sequence = 0;
  std::uint64_t operand = 0;  // compare or addend; old value in kAtomicResponse; length of a kRead
  std::uint64_t swap = 0;
};

enum class TcpDecodeState : std::uint8_t { kFrame = 0, kNeedMore = 1, kBad = 2 };

struct TcpDecodeResult {
  TcpDecodeState state = TcpDecodeState::kNeedMore;
  TcpFrame frame;
  absl::string_view reason;  // kBad: a literal
};

TcpDecodeResult DecodeTcpFrame(absl::Span<const std::byte> bytes);
void EncodeTcpFrame(const TcpFrame& frame, std::byte* header);  // kTcpHeaderSize bytes

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_TCP_FRAME_H_
