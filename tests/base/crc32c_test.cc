#include "ring/base/crc32c.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ring/base/random.h"

namespace ring {
namespace {

// Bit by bit, from the definition.
std::uint32_t Oracle(const std::uint8_t* data, std::size_t size) {
  std::uint32_t crc = 0xffffffff;
  for (std::size_t i = 0; i < size; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0U);
  }
  return ~crc;
}

std::vector<std::uint8_t> RandomBytes(std::size_t size, std::uint64_t seed) {
  SeededRandom random(seed);
  std::vector<std::uint8_t> bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random.Next64());
  return bytes;
}

TEST(Crc32c, GivesThePublishedCheckValues) {
  EXPECT_EQ(Crc32c("123456789", 9), 0xe3069283U);
  EXPECT_EQ(Crc32c("", 0), 0U);
  const std::vector<std::uint8_t> zeros(32, 0);
  EXPECT_EQ(Crc32c(zeros.data(), zeros.size()), 0x8a9136aaU);
  const std::vector<std::uint8_t> ones(32, 0xff);
  EXPECT_EQ(Crc32c(ones.data(), ones.size()), 0x62a8ab43U);
}

TEST(Crc32c, EveryEngineAgreesWithTheDefinitionForEveryLengthAndAlignment) {
  const std::vector<std::uint8_t> bytes = RandomBytes(8192, 1);
  SeededRandom random(2);
  std::vector<std::size_t> sizes;
  for (std::size_t size = 0; size <= 1100; ++size) sizes.push_back(size);
  for (std::size_t size : {2047UL, 2048UL, 2049UL, 4096UL, 5000UL, 8000UL}) sizes.push_back(size);
  for (const Crc32cEngine& engine : Crc32cEngines()) {
    for (std::size_t size : sizes) {
      const std::uint8_t* source = bytes.data() + random.Below(70);
      const std::uint32_t expected = Oracle(source, size);
      ASSERT_EQ(~engine.extend(0xffffffff, source, size), expected)
          << engine.name << " size=" << size;
    }
  }
}

TEST(Crc32c, EveryEngineCopiesAndSumsAndWritesNothingElse) {
  const std::vector<std::uint8_t> bytes = RandomBytes(4096, 3);
  SeededRandom random(4);
  alignas(64) std::uint8_t destination[4096];
  for (const Crc32cEngine& engine : Crc32cEngines()) {
    for (std::size_t size = 0; size <= 1100; ++size) {
      const std::uint8_t* source = bytes.data() + random.Below(70);
      for (std::size_t shift : {std::size_t{0}, static_cast<std::size_t>(random.Below(64))}) {
        for (auto copy : {engine.copy, engine.copy_stream}) {
          std::memset(destination, 0x5a, sizeof(destination));
          std::uint8_t* to = destination + 64 + shift;
          ASSERT_EQ(~copy(0xffffffff, to, source, size), Oracle(source, size))
              << engine.name << " size=" << size;
          ASSERT_EQ(std::memcmp(to, source, size), 0);
          ASSERT_EQ(to[-1], 0x5a);
          ASSERT_EQ(to[size], 0x5a);
        }
      }
    }
  }
}

TEST(Crc32c, SeedContinuesASumAtAnyCut) {
  const std::vector<std::uint8_t> bytes = RandomBytes(700, 5);
  const std::uint32_t whole = Crc32c(bytes.data(), bytes.size());
  std::vector<std::uint8_t> copy(bytes.size());
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    const std::uint32_t first = Crc32c(bytes.data(), cut);
    ASSERT_EQ(Crc32c(bytes.data() + cut, bytes.size() - cut, first), whole);
    ASSERT_EQ(Crc32cCopy(copy.data() + cut, bytes.data() + cut, bytes.size() - cut, first), whole);
    ASSERT_EQ(Crc32cCopyStream(copy.data() + cut, bytes.data() + cut, bytes.size() - cut, first),
              whole);
  }
}

TEST(Crc32c, HeaderFormEqualsTheGeneralOne) {
  const std::vector<std::uint8_t> bytes = RandomBytes(256, 6);
  for (std::size_t size = 0; size <= bytes.size(); size += 4) {
    const std::uint32_t sum = Crc32cHeader(bytes.data(), size);
    ASSERT_EQ(sum, Crc32c(bytes.data(), size));
    ASSERT_EQ(Crc32cHeader(bytes.data() + size, bytes.size() - size, sum),
              Crc32c(bytes.data(), bytes.size()));
  }
}

}  // namespace
}  // namespace ring
