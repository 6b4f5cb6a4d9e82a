#include "ring/protocol/client_frame.h"
#include "ring/base/limits.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/support/random_seed.h"

namespace ring::protocol {
namespace {

constexpr std::size_t kCells = kRequestRingSize / kCell;
constexpr std::size_t kValueMax = kValueSizeMax;

// A ring on the heap, exactly as long as one: a sanitizer sees what reads past it.
class DecodeRequestTest : public ::testing::Test {
 protected:
  DecodeRequestTest() : ring_(new (std::align_val_t{kCell}) std::byte[kRequestRingSize]()) {}

  static RequestHeader Get(std::size_t key_length) {
    RequestHeader header;
    header.word = {1, Operation::kGet, 0, static_cast<std::uint16_t>(key_length)};
    return header;
  }
  static RequestHeader Put(std::size_t key_length, std::size_t value_length) {
    RequestHeader header;
    header.word = {1, Operation::kPut, 0, static_cast<std::uint16_t>(key_length)};
    header.value_length = static_cast<std::uint32_t>(value_length);
    header.seq = 1;
    return header;
  }
  void Store(std::size_t cell, const RequestHeader& header) {
    std::memcpy(ring_.get() + cell * kCell, &header, sizeof(header));
  }
  void StoreExtension(std::size_t cell, const RequestExtension& extension) {
    std::memcpy(ring_.get() + cell * kCell, &extension, sizeof(extension));
  }
  Outcome Decode(std::size_t cell) { return DecodeRequest(ring_.get(), cell, kValueMax, &view_); }
  Outcome Decode(const RequestHeader& header) {
    Store(0, header);
    return Decode(0);
  }

  struct AlignedDelete {
    void operator()(std::byte* bytes) const { operator delete[](bytes, std::align_val_t{kCell}); }
  };
  std::unique_ptr<std::byte[], AlignedDelete> ring_;
  RequestView view_;
};

TEST_F(DecodeRequestTest, AShortKeyStandsInTheHeaderAndTheViewHoldsACopy) {
  RequestHeader header = Get(5);
  std::memcpy(header.key, "a\0b\xff!", 5);  // keys are binary
  ASSERT_EQ(Decode(header), Outcome::kOk);
  std::memset(ring_.get(), 0xee, kCell);  // the client overwrites its request
  EXPECT_EQ(view_.key, absl::string_view("a\0b\xff!", 5));
  EXPECT_EQ(view_.header.word.operation, Operation::kGet);
  EXPECT_EQ(view_.size_cells, 1u);
  EXPECT_EQ(view_.value, nullptr);
}

TEST_F(DecodeRequestTest, ALongKeyAndAnInlineValueFollowInCellsOfTheirOwn) {
  const std::string key(70, 'k');
  Store(4, Put(key.size(), 65));
  std::memcpy(ring_.get() + 5 * kCell, key.data(), key.size());
  ASSERT_EQ(Decode(4), Outcome::kOk);
  EXPECT_EQ(view_.key, key);
  EXPECT_EQ(view_.size_cells, 1u + 2u + 2u);
  EXPECT_EQ(view_.value, ring_.get() + 7 * kCell);
}

TEST_F(DecodeRequestTest, ALargeValueIsNamedByTheExtensionBehindTheKey) {
  RequestHeader header = Put(25, 1 << 20);
  header.word.flags = kLargeValue;
  Store(0, header);
  RequestExtension extension;
  extension.buffer_address = 0x1000;
  extension.buffer_length = 1 << 20;
  extension.buffer_rkey = 7;
  StoreExtension(2, extension);
  ASSERT_EQ(Decode(0), Outcome::kOk);
  EXPECT_EQ(view_.extension.buffer_rkey, 7u);
  EXPECT_EQ(view_.size_cells, 3u);
  EXPECT_EQ(view_.value, nullptr);
}

TEST_F(DecodeRequestTest, KeysAreOneTo1024BytesLong) {
  EXPECT_EQ(Decode(Get(0)), Outcome::kBadRequest);
  EXPECT_EQ(Decode(Get(1)), Outcome::kOk);
  EXPECT_EQ(Decode(Get(kInlineKeySizeMax)), Outcome::kOk);
  EXPECT_EQ(Decode(Get(kInlineKeySizeMax + 1)), Outcome::kOk);
  EXPECT_EQ(Decode(Get(kKeySizeMax)), Outcome::kOk);
  EXPECT_EQ(Decode(Get(kKeySizeMax + 1)), Outcome::kTooLarge);
  EXPECT_EQ(view_.size_cells, 1u + 17u);                // so that the reader stays in step
  EXPECT_EQ(Decode(Get(65535)), Outcome::kBadRequest);  // would not fit the ring
}

TEST_F(DecodeRequestTest, OnlyAViewRequestHasNoKey) {
  RequestHeader header = Get(0);
  header.word.operation = Operation::kGetView;
  EXPECT_EQ(Decode(header), Outcome::kOk);
  EXPECT_TRUE(view_.key.empty());
  header.word.key_length = 1;
  EXPECT_EQ(Decode(header), Outcome::kBadRequest);
}

TEST_F(DecodeRequestTest, X3AQuestionForAnOwnerNamesASlotAndHasNoKey) {
  RequestHeader header = Get(0);
  header.word.operation = Operation::kWhoOwns;
  const auto ask = [&](OwnerQuestion question) {
    header.if_version = std::bit_cast<std::uint64_t>(question);
    return Decode(header);
  };
  EXPECT_EQ(ask({7, 0, 0}), Outcome::kOk);
  EXPECT_EQ(ask({~0u, kSlotCount - 1, 0}), Outcome::kOk);
  EXPECT_TRUE(view_.key.empty());
  EXPECT_EQ(view_.size_cells, 1u);
  EXPECT_EQ(ask({7, kSlotCount, 0}), Outcome::kBadRequest);
  EXPECT_EQ(ask({7, 0xffff, 0}), Outcome::kBadRequest);
  EXPECT_EQ(ask({7, 0, 1}), Outcome::kBadRequest);
  header.word.key_length = 1;
  EXPECT_EQ(ask({7, 0, 0}), Outcome::kBadRequest);
  header.word.key_length = 0;
  header.seq = 1;
  EXPECT_EQ(ask({7, 0, 0}), Outcome::kBadRequest);
}

TEST_F(DecodeRequestTest, InlineValuesEndAtTheirLimit) {
  EXPECT_EQ(Decode(Put(3, 0)), Outcome::kOk);
  EXPECT_EQ(view_.value, nullptr);
  EXPECT_EQ(Decode(Put(3, kInlineValueSizeMax)), Outcome::kOk);
  for (const std::size_t length :
       {kInlineValueSizeMax + 1, std::size_t{1} << 31, std::size_t{0xffffffff}}) {
    EXPECT_EQ(Decode(Put(3, length)), Outcome::kBadRequest) << length;
  }
}

TEST_F(DecodeRequestTest, LargeValuesEndAtTheCapAndFitTheirBuffer) {
  RequestExtension extension;
  extension.buffer_address = 64;
  extension.buffer_length = 0xffffffff;
  StoreExtension(1, extension);
  RequestHeader header = Put(3, kValueMax);
  header.word.flags = kLargeValue;
  EXPECT_EQ(Decode(header), Outcome::kOk);
  for (const std::uint32_t length :
       {static_cast<std::uint32_t>(kValueMax + 1), 0x80000000u, 0xffffffffu}) {
    header.value_length = length;
    EXPECT_EQ(Decode(header), Outcome::kTooLarge) << length;
    EXPECT_EQ(view_.size_cells, 2u);
  }
  header.value_length = 100;
  extension.buffer_length = 99;
  StoreExtension(1, extension);
  EXPECT_EQ(Decode(header), Outcome::kBadRequest);
  extension.buffer_length = 100;
  extension.buffer_address = ~std::uint64_t{0} - 98;  // wraps around
  StoreExtension(1, extension);
  EXPECT_EQ(Decode(header), Outcome::kBadRequest);
}

TEST_F(DecodeRequestTest, ReservedBytesOfTheExtensionAreZero) {
  RequestHeader header = Get(3);
  header.word.flags = kLargeValue;
  for (std::size_t i = 0; i < sizeof(RequestExtension::reserved); ++i) {
    RequestExtension extension;
    extension.reserved[i] = 1;
    StoreExtension(1, extension);
    EXPECT_EQ(Decode(header), Outcome::kBadRequest) << i;
  }
}

TEST_F(DecodeRequestTest, ARequestNeverReachesTheLastCell) {
  const std::size_t two = kCells - 1 - RequestCells(3, false, 64);
  Store(two, Put(3, 64));
  EXPECT_EQ(Decode(two), Outcome::kOk);
  Store(two + 1, Put(3, 64));
  EXPECT_EQ(Decode(two + 1), Outcome::kBadRequest);
  Store(kCells - 2, Get(3));
  EXPECT_EQ(Decode(kCells - 2), Outcome::kOk);
  Store(kCells - 1, Get(3));
  EXPECT_EQ(Decode(kCells - 1), Outcome::kBadRequest);
  RequestHeader large = Get(3);
  large.word.flags = kLargeValue;
  Store(kCells - 2, large);
  EXPECT_EQ(Decode(kCells - 2), Outcome::kBadRequest);
}

TEST_F(DecodeRequestTest, APadLeadsToTheEndOfTheRingAndIsNeverInCellZero) {
  RequestHeader pad;
  pad.word = {9, Operation::kPad, 0, 0};
  for (const std::size_t cell : {std::size_t{1}, std::size_t{500}, kCells - 1}) {
    Store(cell, pad);
    ASSERT_EQ(Decode(cell), Outcome::kOk);
    EXPECT_EQ(cell + view_.size_cells, kCells);
  }
  Store(0, pad);
  EXPECT_EQ(Decode(0), Outcome::kBadRequest);
  pad.word.key_length = 1;
  Store(1, pad);
  EXPECT_EQ(Decode(1), Outcome::kBadRequest);
}

TEST_F(DecodeRequestTest, UnknownOperationsAndFlagsAreRefused) {
  for (int code = 0; code < 256; ++code) {
    RequestHeader header = Get(3);
    header.word.operation = static_cast<Operation>(code);
    if (code >= 3 && code <= 5) header.seq = 1;
    if (code == 6) header.word.key_length = 0;
    EXPECT_EQ(Decode(header) == Outcome::kOk, code >= 2 && code <= 7) << code;
  }
  const int allowed[] = {0,
                         0,
                         kLargeValue | kDegraded,
                         kIfVersion | kLargeValue | kDefaultMemgest | kRetried,
                         kIfVersion | kRetried,
                         kIfVersion | kDefaultMemgest | kRetried,
                         kLargeValue,
                         0};
  for (int code = 2; code <= 7; ++code) {
    for (int flags = 0; flags < 256; ++flags) {
      RequestHeader header = Get(code == 6 ? 0 : 3);
      header.word.operation = static_cast<Operation>(code);
      header.word.flags = static_cast<std::uint8_t>(flags);
      header.seq = code >= 3 && code <= 5 ? 1 : 0;
      EXPECT_EQ(Decode(header) == Outcome::kOk, (flags & ~allowed[code]) == 0)
          << code << " " << flags;
    }
  }
}

// X1, X3: what changes something has a sequence number, what only reads has none.
TEST_F(DecodeRequestTest, SequenceNumbersBelongToMutationsAndCoverTheirDelta) {
  RequestHeader get = Get(3);
  get.seq = 1;
  EXPECT_EQ(Decode(get), Outcome::kBadRequest);
  get.seq = 0;
  get.incomplete_delta = 1;
  EXPECT_EQ(Decode(get), Outcome::kBadRequest);
  RequestHeader put = Put(3, 0);
  put.seq = 0;
  EXPECT_EQ(Decode(put), Outcome::kBadRequest);
  put.seq = 5;
  put.incomplete_delta = 4;  // first incomplete: 1
  EXPECT_EQ(Decode(put), Outcome::kOk);
  put.incomplete_delta = 5;
  EXPECT_EQ(Decode(put), Outcome::kBadRequest);
  put.incomplete_delta = 0xffffffff;
  EXPECT_EQ(Decode(put), Outcome::kBadRequest);
}

TEST_F(DecodeRequestTest, OnlyAPutHasAValue) {
  RequestHeader header = Get(3);
  header.value_length = 1;
  EXPECT_EQ(Decode(header), Outcome::kBadRequest);
}

TEST_F(DecodeRequestTest, ReplySlotsAreBelowTheirCount) {
  RequestHeader header = Get(3);
  header.reply_slot = kReplySlotCountMax - 1;
  EXPECT_EQ(Decode(header), Outcome::kOk);
  header.reply_slot = kReplySlotCountMax;
  EXPECT_EQ(Decode(header), Outcome::kBadRequest);
  header.reply_slot = 65535;
  EXPECT_EQ(Decode(header), Outcome::kBadRequest);
}

TEST_F(DecodeRequestTest, WhateverIsInTheRingTheViewStaysInside) {
  SeededRandom random(ring::testing::SeedFor("frames"));
  int accepted = 0;
  for (int round = 0; round < 100000; ++round) {
    const std::size_t cell =
        random.Below(4) == 0 ? kCells - 1 - random.Below(20) : random.Below(kCells);
    RequestHeader header;
    header.word.stamp = 1;
    header.word.operation = static_cast<Operation>(random.Below(10));
    header.word.flags = static_cast<std::uint8_t>(random.Below(random.Below(2) == 0 ? 8 : 256));
    header.word.key_length =
        static_cast<std::uint16_t>(random.Below(8) == 0 ? random.Below(65536) : random.Below(1200));
    header.value_length =
        random.Below(2) == 0 ? 0 : static_cast<std::uint32_t>(random.Below(20000));
    header.seq = random.Below(2);
    Store(cell, header);
    if (Decode(cell) != Outcome::kOk) continue;
    ++accepted;
    ASSERT_LE(cell + view_.size_cells, kCells);
    if (view_.header.word.operation == Operation::kPad) continue;
    std::size_t sum = 0;
    for (const char c : view_.key) sum += static_cast<unsigned char>(c);
    if (view_.value != nullptr) {
      for (std::size_t i = 0; i < view_.header.value_length; ++i) {
        sum += static_cast<std::size_t>(view_.value[i]);
      }
    }
    EXPECT_LT(sum, std::size_t{256} * kRequestSizeMax);
  }
  EXPECT_GT(accepted, 1000);
}

}  // namespace
}  // namespace ring::protocol
