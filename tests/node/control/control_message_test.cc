#include "ring/node/control/control_message.h"

#include <cstring>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

std::string Bytes(const ControlHeader& header, const std::string& body) {
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + body;
}

ControlHeader Header(std::uint32_t total, std::uint32_t offset = 0) {
  ControlHeader header;
  header.type = ControlType::kView;
  header.request = 7;
  header.total = total;
  header.offset = offset;
  return header;
}

TEST(ControlMessage, AssemblesWhatWasCut) {
  const std::string body = std::string(kControlChunkSize, 'a') + "b";
  const auto total = static_cast<std::uint32_t>(body.size());
  ControlAssembler assembler;
  const std::string first = Bytes(Header(total), body.substr(0, kControlChunkSize));
  const std::string second = Bytes(Header(total, kControlChunkSize), "b");
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK_AND_ASSIGN(const ControlChunk one, DecodeControlChunk(first));
    ASSERT_OK_AND_ASSIGN(const bool partial, assembler.Add(one));
    EXPECT_FALSE(partial);
    ASSERT_OK_AND_ASSIGN(const ControlChunk two, DecodeControlChunk(second));
    ASSERT_OK_AND_ASSIGN(const bool whole, assembler.Add(two));
    EXPECT_TRUE(whole);
    EXPECT_EQ(assembler.body(), body);
    EXPECT_EQ(assembler.header().request, 7u);
  }
}

TEST(ControlMessage, EmptyMessageIsOneChunk) {
  const std::string bytes = Bytes(Header(0), "");
  ASSERT_OK_AND_ASSIGN(const ControlChunk chunk, DecodeControlChunk(bytes));
  ControlAssembler assembler;
  ASSERT_OK_AND_ASSIGN(const bool whole, assembler.Add(chunk));
  EXPECT_TRUE(whole);
}

TEST(ControlMessage, RefusesWhatCannotBe) {
  const auto refuse = [](auto change, const std::string& body, const char* field) {
    ControlHeader header = Header(static_cast<std::uint32_t>(body.size()));
    change(header);
    EXPECT_THAT(DecodeControlChunk(Bytes(header, body)).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(field)));
  };
  refuse([](ControlHeader& h) { h.magic = 1; }, "x", "magic");
  refuse([](ControlHeader& h) { h.type = static_cast<ControlType>(kControlTypeCount); }, "x",
         "type");
  refuse([](ControlHeader& h) { h.flags = 2; }, "x", "flags");
  refuse([](ControlHeader& h) { h.code = 3; }, "x", "code");
  refuse(
      [](ControlHeader& h) {
        h.code = 200;
        h.flags = kControlAnswer;
      },
      "x", "code");
  refuse([](ControlHeader& h) { h.reserved = 1; }, "x", "reserved");
  refuse([](ControlHeader& h) { h.total = kControlBodyMax + 1; }, "x", "total");
  refuse([](ControlHeader& h) { h.offset = 1; }, "x", "offset");
  refuse([](ControlHeader& h) { h.offset = ~0u; }, "x", "offset");
  refuse([](ControlHeader& h) { h.total = 5; }, "", "chunk");
  refuse([](ControlHeader& h) { h.type = ControlType::kCredit; }, "x", "total");
  EXPECT_FALSE(DecodeControlChunk("short").ok());
}

TEST(ControlMessage, RefusesAChunkOfAnotherMessageInBetween) {
  ControlAssembler assembler;
  const std::string first = Bytes(Header(4), "ab");
  ASSERT_OK(assembler.Add(*DecodeControlChunk(first)).status());
  ControlHeader other = Header(4, 2);
  other.request = 8;
  const std::string second = Bytes(other, "cd");
  EXPECT_FALSE(assembler.Add(*DecodeControlChunk(second)).ok());
  const std::string third = Bytes(Header(4, 3), "d");
  EXPECT_FALSE(assembler.Add(*DecodeControlChunk(third)).ok());
}

}  // namespace
}  // namespace ring::node
