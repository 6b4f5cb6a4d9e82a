#include "rdma/soft/tcp_frame.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "rdma/soft/send_slot.h"
#include "ring/base/crc32c.h"
#include "ring/base/random.h"

namespace ring::rdma::soft {
namespace {

using Header = std::array<std::byte, kTcpHeaderSize>;

Header Encoded(const TcpFrame& frame) {
  Header header;
  EncodeTcpFrame(frame, header.data());
  return header;
}

// Changes bytes and makes the CRC fit again: what a hostile peer would send.
Header Forged(Header header, std::size_t offset, std::byte value) {
  header[offset] = value;
  const std::uint32_t crc = Crc32cHeader(header.data(), kTcpHeaderSize - 4);
  std::memcpy(header.data() + kTcpHeaderSize - 4, &crc, 4);
  return header;
}

TEST(TcpFrame, RoundTripsEveryField) {
  TcpFrame frame;
  frame.type = TcpFrameType::kWriteWithImm;
  frame.has_imm = true;
  frame.payload_length = 12345;
  frame.rkey = 0xdeadbeef;
  frame.imm = 0x01020304;
  frame.remote_address = 0x1122334455667788;
  frame.sequence = 77;
  frame.operand = 0x8877665544332211;
  frame.swap = 5;
  const TcpDecodeResult result = DecodeTcpFrame(Encoded(frame));
  ASSERT_EQ(result.state, TcpDecodeState::kFrame);
  EXPECT_EQ(result.frame.type, frame.type);
  EXPECT_TRUE(result.frame.has_imm);
  EXPECT_EQ(result.frame.payload_length, frame.payload_length);
  EXPECT_EQ(result.frame.rkey, frame.rkey);
  EXPECT_EQ(result.frame.imm, frame.imm);
  EXPECT_EQ(result.frame.remote_address, frame.remote_address);
  EXPECT_EQ(result.frame.sequence, frame.sequence);
  EXPECT_EQ(result.frame.operand, frame.operand);
  EXPECT_EQ(result.frame.swap, frame.swap);
}

TEST(TcpFrame, OnlyAWriteMayGoUnacknowledged) {
  TcpFrame frame;
  frame.unacknowledged = true;
  for (std::uint8_t type = 1; type <= kTcpFrameTypeMax; ++type) {
    frame.type = static_cast<TcpFrameType>(type);
    frame.status = frame.type == TcpFrameType::kNak ? 1 : 0;
    const TcpDecodeResult result = DecodeTcpFrame(Encoded(frame));
    const bool allowed = frame.type == TcpFrameType::kWrite;
    EXPECT_EQ(result.state == TcpDecodeState::kFrame, allowed) << int{type};
    EXPECT_EQ(result.frame.unacknowledged, allowed) << int{type};
  }
  frame = TcpFrame{};
  frame.type = TcpFrameType::kWrite;
  EXPECT_EQ(DecodeTcpFrame(Forged(Encoded(frame), 6, std::byte{4})).state, TcpDecodeState::kBad);
}

TEST(TcpFrame, AsksForMoreWhileTheHeaderIsShort) {
  const Header header = Encoded(TcpFrame{});
  for (std::size_t size = 0; size < header.size(); ++size) {
    EXPECT_EQ(DecodeTcpFrame(absl::MakeConstSpan(header.data(), size)).state,
              TcpDecodeState::kNeedMore)
        << size;
  }
}

TEST(TcpFrame, AForeignProtocolIsKnownByFourBytes) {
  const char* http = "GET / HTTP/1.1";
  const auto bytes = absl::MakeConstSpan(reinterpret_cast<const std::byte*>(http), 4);
  EXPECT_EQ(DecodeTcpFrame(bytes).state, TcpDecodeState::kBad);
}

TEST(TcpFrame, EveryBitIsGuarded) {
  TcpFrame frame;
  frame.type = TcpFrameType::kWrite;
  frame.payload_length = 100;
  const Header header = Encoded(frame);
  for (std::size_t bit = 0; bit < kTcpHeaderSize * 8; ++bit) {
    Header flipped = header;
    flipped[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_EQ(DecodeTcpFrame(flipped).state, TcpDecodeState::kBad) << bit;
  }
}

TEST(TcpFrame, RefusesVersionTypeLengthAndStatus) {
  TcpFrame frame;
  EXPECT_EQ(DecodeTcpFrame(Forged(Encoded(frame), 4, std::byte{9})).state, TcpDecodeState::kBad);
  EXPECT_EQ(DecodeTcpFrame(Forged(Encoded(frame), 5, std::byte{0})).state, TcpDecodeState::kBad);
  EXPECT_EQ(DecodeTcpFrame(Forged(Encoded(frame), 5, std::byte{kTcpFrameTypeMax + 1})).state,
            TcpDecodeState::kBad);
  frame.payload_length = 257;  // of a hello
  EXPECT_EQ(DecodeTcpFrame(Encoded(frame)).state, TcpDecodeState::kBad);
  frame.type = TcpFrameType::kWrite;
  frame.payload_length = kMessageSizeMax + 1;
  EXPECT_EQ(DecodeTcpFrame(Encoded(frame)).state, TcpDecodeState::kBad);
  frame.type = TcpFrameType::kAck;
  frame.payload_length = 1;
  EXPECT_EQ(DecodeTcpFrame(Encoded(frame)).state, TcpDecodeState::kBad);
  frame.type = TcpFrameType::kRead;
  frame.payload_length = 0;
  frame.operand = kMessageSizeMax + 1;
  EXPECT_EQ(DecodeTcpFrame(Encoded(frame)).state, TcpDecodeState::kBad);
  frame.type = TcpFrameType::kNak;
  frame.status = 0;
  EXPECT_EQ(DecodeTcpFrame(Encoded(frame)).state, TcpDecodeState::kBad);
}

TEST(TcpFrame, AcceptsNoNoise) {
  SeededRandom random(4711);
  for (int i = 0; i < 20000; ++i) {
    Header header = Encoded(TcpFrame{});
    const std::size_t changes = 1 + random.Below(8);
    for (std::size_t j = 0; j < changes; ++j) {
      header[random.Below(kTcpHeaderSize)] ^= static_cast<std::byte>(1 + random.Below(255));
    }
    if (header == Encoded(TcpFrame{})) continue;
    EXPECT_EQ(DecodeTcpFrame(header).state, TcpDecodeState::kBad);
  }
}

}  // namespace
}  // namespace ring::rdma::soft
