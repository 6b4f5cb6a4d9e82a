// A header of the tcp link, as a stranger may send it: as it is, and encoded again from what was
// decoded.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "rdma/soft/tcp_frame.h"
#include "ring/base/check.h"

namespace soft = ring::rdma::soft;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(data);
  const soft::TcpDecodeResult direct = soft::DecodeTcpFrame(absl::MakeConstSpan(bytes, size));
  if (size < soft::kTcpHeaderSize) {
    RING_CHECK(direct.state != soft::TcpDecodeState::kFrame);
    return 0;
  }
  // Any fields behind a right CRC: what is refused then is refused for what it says.
  soft::TcpFrame frame;
  frame.type = static_cast<soft::TcpFrameType>(data[0]);
  frame.has_imm = (data[1] & 1) != 0;
  frame.unacknowledged = (data[1] & 2) != 0;
  frame.status = data[2];
  std::memcpy(&frame.payload_length, data + 4, 4);
  std::memcpy(&frame.rkey, data + 8, 4);
  std::memcpy(&frame.remote_address, data + 16, 8);
  std::memcpy(&frame.sequence, data + 24, 8);
  std::memcpy(&frame.operand, data + 32, 8);
  std::array<std::byte, soft::kTcpHeaderSize> header;
  soft::EncodeTcpFrame(frame, header.data());
  const soft::TcpDecodeResult sealed = soft::DecodeTcpFrame(absl::MakeConstSpan(header));
  if (sealed.state == soft::TcpDecodeState::kBad) RING_CHECK(!sealed.reason.empty());
  return 0;
}
