#include "ring/cluster/routing.h"

#include <array>
#include <cstddef>
#include <cstring>

#include "ring/base/check.h"

namespace ring::cluster {
namespace {

// kTables[n][b]: the CRC of byte b followed by n zero bytes.
using Tables = std::array<std::array<std::uint16_t, 256>, 8>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    unsigned crc = byte << 8;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 0x8000u) != 0 ? (crc << 1) ^ 0x1021u : crc << 1;
    }
    tables[0][byte] = static_cast<std::uint16_t>(crc);
  }
  for (std::size_t n = 1; n < tables.size(); ++n) {
    for (unsigned byte = 0; byte < 256; ++byte) {
      const unsigned crc = tables[n - 1][byte];
      tables[n][byte] = static_cast<std::uint16_t>((crc << 8) ^ tables[0][(crc >> 8) & 0xff]);
    }
  }
  return tables;
}

alignas(64) constexpr Tables kTables = MakeTables();

}  // namespace

std::uint16_t Crc16(absl::string_view bytes) {
  const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
  std::size_t left = bytes.size();
  unsigned crc = 0;
  for (; left >= 8; left -= 8, at += 8) {
    crc = static_cast<unsigned>(kTables[7][at[0] ^ (crc >> 8)] ^ kTables[6][at[1] ^ (crc & 0xff)] ^
                                kTables[5][at[2]] ^ kTables[4][at[3]] ^ kTables[3][at[4]] ^
                                kTables[2][at[5]] ^ kTables[1][at[6]] ^ kTables[0][at[7]]);
  }
  for (; left > 0; --left, ++at) {
    crc = ((crc << 8) & 0xffff) ^ kTables[0][((crc >> 8) ^ *at) & 0xff];
  }
  return static_cast<std::uint16_t>(crc);
}

absl::string_view HashedPart(absl::string_view key) {
  if (key.empty()) return key;
  const auto* open = static_cast<const char*>(std::memchr(key.data(), '{', key.size()));
  if (open == nullptr) [[likely]] {
    return key;
  }
  const absl::string_view tail = key.substr(static_cast<std::size_t>(open - key.data()) + 1);
  const std::size_t size = tail.find('}');
  return size == absl::string_view::npos || size == 0 ? key : tail.substr(0, size);
}

int KeySlot(absl::string_view key) { return Crc16(HashedPart(key)) & (kSlotCount - 1); }

Routing::Divider Routing::DividerBy(int divisor) {
  const auto by = static_cast<std::uint32_t>(divisor);
  return {((std::uint64_t{1} << 32) + by - 1) / by, by};
}

Routing::Routing(int s, int d) {
  RING_CHECK(s >= 1) << "s=" << s;
  RING_CHECK(d >= 0) << "d=" << d;
  RING_CHECK(s + d <= kSlotCount) << "s=" << s << " d=" << d;
  by_group_ = DividerBy(s + d);
  by_shard_ = DividerBy(s);
}

}  // namespace ring::cluster
