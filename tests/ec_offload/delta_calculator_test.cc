#include "ec_offload/delta_calculator.h"

#include <vector>

#include "ec_offload/matrix_calculator.h"
#include "gtest/gtest.h"
#include "ring/base/crc32c.h"
#include "ring/base/random.h"
#include "tests/support/random_bytes.h"

namespace ring::ec_offload {
namespace {

using testing::RandomBytes;
using Bytes = std::vector<std::byte>;

TEST(DeltaCalculator, EqualsTheMatrixWithColumnsGjGj) {
  SeededRandom random(31);
  for (std::size_t count = 1; count <= kDeltaCountMax; ++count) {
    std::vector<gf256::Element> coefficients = {1};
    while (coefficients.size() < count)
      coefficients.push_back(static_cast<gf256::Element>(random.Next64()));
    Matrix rows(count, 2);
    for (std::size_t j = 0; j < count; ++j) rows.At(j, 0) = rows.At(j, 1) = coefficients[j];
    const auto oracle = ScalarMatrixCalculator::Create(rows);
    ASSERT_TRUE(oracle.ok());
    const DeltaCalculator calculator(coefficients, DeltaCalculator::Slot::kUntouched);
    ASSERT_EQ(calculator.output_count(), count);
    const Bytes old_bytes = RandomBytes(random, 1000);
    const Bytes new_bytes = RandomBytes(random, 1000);
    const std::byte* inputs[] = {old_bytes.data(), new_bytes.data()};
    std::vector<Bytes> actual(count, Bytes(1000)), expected(count, Bytes(1000));
    std::vector<std::byte*> actual_outputs, expected_outputs;
    for (std::size_t j = 0; j < count; ++j) {
      actual_outputs.push_back(actual[j].data());
      expected_outputs.push_back(expected[j].data());
    }
    std::vector<std::uint32_t> actual_crcs(count), expected_crcs(count);
    ASSERT_TRUE(calculator.Run(inputs, actual_outputs.data(), 1000, actual_crcs.data()));
    ASSERT_TRUE((*oracle)->Run(inputs, expected_outputs.data(), 1000, expected_crcs.data()));
    EXPECT_EQ(actual, expected);
    EXPECT_EQ(actual_crcs, expected_crcs);
  }
}

TEST(DeltaCalculator, WritesTheSlotInPlaceBehindTheReadOfItS11) {
  SeededRandom random(32);
  const std::vector<gf256::Element> coefficients = {1, 29};
  for (auto form : {DeltaCalculator::Slot::kWritten, DeltaCalculator::Slot::kWrittenUnsummed}) {
    const DeltaCalculator calculator(coefficients, form);
    ASSERT_EQ(calculator.output_count(), 3U);
    Bytes slot = RandomBytes(random, 777);
    const Bytes old_bytes = slot;
    const Bytes new_bytes = RandomBytes(random, 777);
    Bytes first(777), second(777);
    const std::byte* inputs[] = {slot.data(), new_bytes.data()};
    std::byte* outputs[] = {first.data(), second.data(), slot.data()};
    std::uint32_t crcs[3] = {1, 2, 3};
    ASSERT_TRUE(calculator.Run(inputs, outputs, 777, crcs));
    EXPECT_EQ(slot, new_bytes);
    for (std::size_t i = 0; i < 777; ++i) {
      const auto difference = std::to_integer<gf256::Element>(old_bytes[i] ^ new_bytes[i]);
      ASSERT_EQ(std::to_integer<gf256::Element>(first[i]), difference);
      ASSERT_EQ(std::to_integer<gf256::Element>(second[i]), gf256::Multiply(29, difference));
    }
    EXPECT_EQ(crcs[0], Crc32c(first.data(), 777));
    EXPECT_EQ(crcs[1], Crc32c(second.data(), 777));
    EXPECT_EQ(crcs[2], form == DeltaCalculator::Slot::kWritten ? Crc32c(slot.data(), 777) : 3U);
  }
}

TEST(DeltaCalculator, NeedsNoCrcs) {
  const std::vector<gf256::Element> coefficients = {1, 5, 9, 11};
  const DeltaCalculator calculator(coefficients, DeltaCalculator::Slot::kWritten);
  Bytes slot(64, std::byte{3}), fresh(64, std::byte{4});
  std::vector<Bytes> deltas(4, Bytes(64));
  const std::byte* inputs[] = {slot.data(), fresh.data()};
  std::byte* outputs[] = {deltas[0].data(), deltas[1].data(), deltas[2].data(), deltas[3].data(),
                          slot.data()};
  ASSERT_TRUE(calculator.Run(inputs, outputs, 64, nullptr));
  EXPECT_EQ(slot, fresh);
  EXPECT_EQ(deltas[0], Bytes(64, std::byte{7}));
  EXPECT_EQ(std::to_integer<gf256::Element>(deltas[3][5]), gf256::Multiply(11, 7));
}

}  // namespace
}  // namespace ring::ec_offload
