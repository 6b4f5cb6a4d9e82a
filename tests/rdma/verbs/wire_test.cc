// What the two ends of an RDMA connection tell each other: nothing of it is trusted.
#include "rdma/verbs/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "rdma/verbs/peer_keys.h"

namespace ring::rdma::verbs {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <typename T>
std::vector<std::byte> BytesOf(const T& value) {
  std::vector<std::byte> bytes(sizeof(value));
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

TEST(VerbsWire, AnotherVersionIsRefusedWithBothVersions) {
  Greeting greeting;
  greeting.version = kVerbsVersion + 1;
  Greeting read;
  EXPECT_THAT(ReadGreeting(BytesOf(greeting), &read), HasSubstr("version=2"));
  EXPECT_THAT(ReadGreeting(BytesOf(greeting), &read), HasSubstr("version=1"));
}

TEST(VerbsWire, AStrangerIsRefused) {
  Greeting read;
  EXPECT_THAT(ReadGreeting(std::vector<std::byte>(56), &read), HasSubstr("does not speak"));
  EXPECT_THAT(ReadGreeting(std::vector<std::byte>(3), &read), HasSubstr("greeting"));
}

TEST(VerbsWire, AGreetingMayBeFilledUpWithZeros) {
  std::vector<std::byte> bytes = BytesOf(Greeting{});
  bytes.resize(56);
  Greeting read;
  EXPECT_THAT(ReadGreeting(bytes, &read), IsEmpty());
}

TEST(VerbsWire, PrivateDataGoesAlongWhole) {
  ControlMessage message;
  message.set_data(std::string(kPrivateDataSizeMax, 'x'));
  ControlMessage read;
  EXPECT_THAT(ReadControlMessage(BytesOf(message), &read), IsEmpty());
  EXPECT_EQ(read.data(), std::string(kPrivateDataSizeMax, 'x'));
}

TEST(VerbsWire, ALengthThatIsNotThereIsRefused) {
  ControlMessage message;
  message.private_data_size = kPrivateDataSizeMax + 1;
  ControlMessage read;
  EXPECT_THAT(ReadControlMessage(BytesOf(message), &read), HasSubstr("private data"));
  std::vector<std::byte> cut = BytesOf(ControlMessage{});
  cut.pop_back();
  EXPECT_THAT(ReadControlMessage(cut, &read), HasSubstr("size"));
}

TEST(VerbsWire, ARejectionKeepsItsReasonAndTheSystemsHasNone) {
  std::string bytes = EncodeRejection("refused: full");
  bytes.resize(148, '\0');
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  EXPECT_EQ(DecodeRejection({data, bytes.size()}), "refused: full");
  EXPECT_EQ(DecodeRejection(std::vector<std::byte>(148)), "");
  EXPECT_EQ(DecodeRejection({}), "");
  EXPECT_LE(EncodeRejection(std::string(500, 'y')).size(), 148u);
}

TEST(VerbsPeerKeys, AKeyIsAskedForOnce) {
  PeerKeys keys;
  std::uint32_t rkey = 0;
  constexpr std::uint32_t kKey = 3u << 12 | 7;
  EXPECT_EQ(keys.Find(kKey, &rkey), PeerKeys::Answer::kUnknown);
  keys.Learn(kKey, std::uint64_t{0xabc} << 32 | kKey);
  EXPECT_EQ(keys.Find(kKey, &rkey), PeerKeys::Answer::kKnown);
  EXPECT_EQ(rkey, 0xabcu);
}

TEST(VerbsPeerKeys, WhatIsNotInThePeersTableIsRefused) {
  PeerKeys keys;
  std::uint32_t rkey = 0;
  constexpr std::uint32_t kKey = 3u << 12 | 7;
  constexpr std::uint32_t kLater = 4u << 12 | 7;
  keys.Learn(kKey, std::uint64_t{0xabc} << 32 | kLater);
  EXPECT_EQ(keys.Find(kKey, &rkey), PeerKeys::Answer::kRefused);
  keys.Learn(kLater, 0);
  EXPECT_EQ(keys.Find(kLater, &rkey), PeerKeys::Answer::kRefused);
  EXPECT_EQ(keys.Find(0, &rkey), PeerKeys::Answer::kRefused);
}

TEST(VerbsPeerKeys, ALaterGenerationTakesThePlaceOfTheOneBefore) {
  PeerKeys keys;
  std::uint32_t rkey = 0;
  constexpr std::uint32_t kKey = 3u << 12 | 7;
  constexpr std::uint32_t kLater = 4u << 12 | 7;
  keys.Learn(kKey, std::uint64_t{1} << 32 | kKey);
  EXPECT_EQ(keys.Find(kLater, &rkey), PeerKeys::Answer::kUnknown);
  keys.Learn(kLater, std::uint64_t{2} << 32 | kLater);
  EXPECT_EQ(keys.Find(kLater, &rkey), PeerKeys::Answer::kKnown);
  EXPECT_EQ(keys.Find(kKey, &rkey), PeerKeys::Answer::kUnknown);
}

}  // namespace
}  // namespace ring::rdma::verbs
