#include "rdma/soft/tcp_frame.h"

#include <bit>
#include <cstring>

#include "rdma/fabric.h"
#include "rdma/soft/send_slot.h"
#include "ring/base/crc32c.h"

namespace ring::rdma::soft {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the wire is little-endian and so is every target so far");

struct Wire {
  std::uint32_t magic;
  std::uint8_t version;
  std::uint8_t type;
  std::uint8_t flags;
  std::uint8_t status;
  std::uint32_t payload_length;
  std::uint32_t rkey;
  std::uint64_t remote_address;
  std::uint64_t sequence;
  std::uint64_t operand;
  std::uint64_t swap;
  std::uint32_t imm;
  std::uint32_t unused[2];
  std::uint32_t crc;
};
static_assert(sizeof(Wire) == kTcpHeaderSize);

constexpr std::uint8_t kHasImm = 1;
constexpr std::uint8_t kUnacknowledged = 2;

std::uint64_t PayloadMax(TcpFrameType type) {
  switch (type) {
    case TcpFrameType::kHello:
    case TcpFrameType::kAccept:
    case TcpFrameType::kReject:
      return kPrivateDataSizeMax;
    case TcpFrameType::kSend:
    case TcpFrameType::kWrite:
    case TcpFrameType::kWriteWithImm:
    case TcpFrameType::kReadResponse:
      return kMessageSizeMax;
    default:
      return 0;
  }
}

TcpDecodeResult Bad(absl::string_view reason) { return {TcpDecodeState::kBad, {}, reason}; }

}  // namespace

TcpDecodeResult DecodeTcpFrame(absl::Span<const std::byte> bytes) {
  Wire wire{};
  // A peer that speaks something else is found out with its first bytes, not when it has sent 64.
  if (bytes.size() < sizeof(wire)) {
    std::memcpy(&wire, bytes.data(), bytes.size());
    if (bytes.size() >= 4 && wire.magic != kTcpMagic)
      return Bad("refused: not Ring's tcp link (magic)");
    return {};
  }
  std::memcpy(&wire, bytes.data(), sizeof(wire));
  if (wire.magic != kTcpMagic) return Bad("refused: not Ring's tcp link (magic)");
  if (wire.version != kTcpVersion)
    return Bad("refused: another protocol version, run the same release on both sides");
  if (wire.crc != Crc32cHeader(&wire, sizeof(wire) - sizeof(wire.crc)))
    return Bad("refused: header CRC mismatch");
  if (wire.type == 0 || wire.type > kTcpFrameTypeMax) return Bad("refused: unknown frame type");
  TcpDecodeResult result;
  TcpFrame& frame = result.frame;
  frame.type = static_cast<TcpFrameType>(wire.type);
  frame.has_imm = (wire.flags & kHasImm) != 0;
  frame.unacknowledged = (wire.flags & kUnacknowledged) != 0;
  frame.status = wire.status;
  frame.payload_length = wire.payload_length;
  frame.rkey = wire.rkey;
  frame.imm = wire.imm;
  frame.remote_address = wire.remote_address;
  frame.sequence = wire.sequence;
  frame.operand = wire.operand;
  frame.swap = wire.swap;
  const bool flags_agree = (wire.flags & ~(kHasImm | kUnacknowledged)) == 0 &&
                           (!frame.unacknowledged || frame.type == TcpFrameType::kWrite);
  if (!flags_agree) return Bad("refused: flags that its type does not have");
  if (frame.payload_length > PayloadMax(frame.type))
    return Bad("refused: frame too long for its type");
  if (frame.type == TcpFrameType::kRead && frame.operand > kMessageSizeMax)
    return Bad("refused: READ too long");
  if (frame.type == TcpFrameType::kNak &&
      (frame.status == 0 || frame.status > static_cast<std::uint8_t>(WcStatus::kCalcFailed))) {
    return Bad("refused: unknown status");
  }
  result.state = TcpDecodeState::kFrame;
  return result;
}

void EncodeTcpFrame(const TcpFrame& frame, std::byte* header) {
  Wire wire{};
  wire.magic = kTcpMagic;
  wire.version = kTcpVersion;
  wire.type = static_cast<std::uint8_t>(frame.type);
  wire.flags = static_cast<std::uint8_t>((frame.has_imm ? kHasImm : 0) |
                                         (frame.unacknowledged ? kUnacknowledged : 0));
  wire.status = frame.status;
  wire.payload_length = frame.payload_length;
  wire.rkey = frame.rkey;
  wire.remote_address = frame.remote_address;
  wire.sequence = frame.sequence;
  wire.operand = frame.operand;
  wire.swap = frame.swap;
  wire.imm = frame.imm;
  wire.crc = Crc32cHeader(&wire, sizeof(wire) - sizeof(wire.crc));
  std::memcpy(header, &wire, sizeof(wire));
}

}  // namespace ring::rdma::soft
