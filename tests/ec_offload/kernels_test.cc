#include "ec_offload/kernels.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "ring/base/crc32c.h"
#include "ring/base/random.h"

namespace ring::ec_offload {
namespace {

constexpr std::size_t kLengthMax = 300;
constexpr std::size_t kRoom = kLengthMax + 192;

// Lengths 0..300 and some around the sizes at which kernels change their step.
std::vector<std::size_t> Lengths() {
  std::vector<std::size_t> lengths;
  for (std::size_t n = 0; n <= kLengthMax; ++n) lengths.push_back(n);
  return lengths;
}

class Buffer {
 public:
  Buffer(SeededRandom& random, std::size_t room = kRoom)
      : bytes_(room), at_(64 + random.Below(64)) {
    for (auto& byte : bytes_) byte = static_cast<std::uint8_t>(random.Next64());
  }
  std::uint8_t* data() { return bytes_.data() + at_; }
  const std::vector<std::uint8_t>& all() const { return bytes_; }
  friend bool operator==(const Buffer& a, const Buffer& b) { return a.bytes_ == b.bytes_; }

 private:
  std::vector<std::uint8_t> bytes_;
  std::size_t at_;
};

TEST(Kernels, EveryEngineXorsLikeTheOracleAndWritesNothingElse) {
  SeededRandom random(11);
  const KernelEngine& oracle = *KernelEngines().front();
  for (const KernelEngine* engine : KernelEngines()) {
    for (std::size_t length : Lengths()) {
      Buffer source(random), other(random), destination(random);
      Buffer expected = destination;
      oracle.xor_into(expected.data(), source.data(), length);
      Buffer actual = destination;
      engine->xor_into(actual.data(), source.data(), length);
      ASSERT_EQ(actual, expected) << engine->name << " length=" << length;
      actual = destination;
      ASSERT_EQ(engine->xor_into_crc(actual.data(), source.data(), length),
                Crc32c(source.data(), length))
          << engine->name << " length=" << length;
      ASSERT_EQ(actual, expected) << engine->name << " length=" << length;
      expected = actual = destination;
      oracle.xor_copy(expected.data(), source.data(), other.data(), length);
      engine->xor_copy(actual.data(), source.data(), other.data(), length);
      ASSERT_EQ(actual, expected) << engine->name << " length=" << length;
    }
  }
}

TEST(Kernels, EveryEngineMultipliesLikeTheOracleByEveryFactor) {
  SeededRandom random(12);
  for (const KernelEngine* engine : KernelEngines()) {
    for (unsigned value = 0; value < 256; ++value) {
      const gf256::Factor& factor = FactorOf(static_cast<gf256::Element>(value));
      const std::size_t length = 256 + random.Below(44);
      Buffer source(random), destination(random);
      for (unsigned i = 0; i < 256; ++i) source.data()[i] = static_cast<std::uint8_t>(i);
      Buffer product = destination, sum = destination;
      engine->multiply(product.data(), source.data(), factor, length);
      engine->multiply_add(sum.data(), source.data(), factor, length);
      for (std::size_t i = 0; i < length; ++i) {
        const gf256::Element expected = gf256::Multiply(factor.value, source.data()[i]);
        ASSERT_EQ(product.data()[i], expected) << engine->name << " factor=" << value;
        ASSERT_EQ(sum.data()[i], expected ^ destination.data()[i]) << engine->name;
      }
    }
  }
}

TEST(Kernels, EveryEngineMultipliesLikeTheOracleAtEveryLength) {
  SeededRandom random(13);
  const KernelEngine& oracle = *KernelEngines().front();
  for (const KernelEngine* engine : KernelEngines()) {
    for (std::size_t length : Lengths()) {
      const gf256::Factor& factor = FactorOf(static_cast<gf256::Element>(random.Next64()));
      Buffer source(random), destination(random);
      Buffer expected = destination, actual = destination;
      oracle.multiply(expected.data(), source.data(), factor, length);
      engine->multiply(actual.data(), source.data(), factor, length);
      ASSERT_EQ(actual, expected) << engine->name << " length=" << length;
      expected = actual = destination;
      oracle.multiply_add(expected.data(), source.data(), factor, length);
      engine->multiply_add(actual.data(), source.data(), factor, length);
      ASSERT_EQ(actual, expected) << engine->name << " length=" << length;
      expected = actual = source;
      oracle.multiply(expected.data(), expected.data(), factor, length);
      engine->multiply(actual.data(), actual.data(), factor, length);
      ASSERT_EQ(actual, expected) << engine->name << " in place, length=" << length;
    }
  }
}

// Runs one form of one engine, in place in the slot when the form writes it.
struct DeltaRun {
  Buffer slot;
  std::vector<Buffer> deltas;
  std::vector<std::uint32_t> crcs;

  void Run(const KernelEngine& engine, const DeltaForm& form, const gf256::Factor* factors,
           Buffer& fresh, std::size_t length) {
    crcs.assign(form.count + 1, 0xabababab);
    DeltaArguments arguments;
    arguments.old_bytes = slot.data();
    arguments.new_bytes = fresh.data();
    for (std::size_t j = 0; j < form.count; ++j) arguments.deltas[j] = deltas[j].data();
    if (form.slot) arguments.slot = slot.data();
    arguments.factors = factors;
    arguments.length = length;
    if (form.crc) arguments.delta_crcs = crcs.data();
    if (form.slot_crc) arguments.slot_crc = &crcs[form.count];
    engine.select_delta(form)(arguments);
  }
};

void ExpectDeltasEqualOracle(const KernelEngine& engine, const DeltaForm& form,
                             SeededRandom& random, std::size_t length) {
  std::array<gf256::Factor, kDeltaCountMax> factors;
  for (auto& factor : factors) factor = FactorOf(static_cast<gf256::Element>(random.Next64()));
  factors[0] = FactorOf(1);
  const std::size_t room = length + 192;
  Buffer fresh(random, room);
  DeltaRun expected{Buffer(random, room), {}, {}};
  for (std::size_t j = 0; j < form.count; ++j) expected.deltas.emplace_back(random, room);
  DeltaRun actual = expected;
  expected.Run(*KernelEngines().front(), form, factors.data(), fresh, length);
  actual.Run(engine, form, factors.data(), fresh, length);
  ASSERT_EQ(actual.slot, expected.slot) << engine.name << " length=" << length;
  ASSERT_EQ(actual.deltas, expected.deltas) << engine.name << " length=" << length;
  ASSERT_EQ(actual.crcs, expected.crcs) << engine.name << " length=" << length;
  for (std::size_t j = 0; form.crc && j < form.count; ++j) {
    ASSERT_EQ(actual.crcs[j], Crc32c(actual.deltas[j].data(), length));
  }
  if (form.slot) {
    ASSERT_EQ(std::memcmp(actual.slot.data(), fresh.data(), length), 0);
  }
  if (form.slot_crc) {
    ASSERT_EQ(actual.crcs[form.count], Crc32c(fresh.data(), length));
  }
}

TEST(Kernels, EveryFormOfDeltaEqualsTheOracleAtEveryLengthS3) {
  SeededRandom random(14);
  for (const KernelEngine* engine : KernelEngines()) {
    for (std::size_t count = 1; count <= kDeltaCountMax; ++count) {
      for (const DeltaForm& form :
           {DeltaForm{count, false, false, false}, DeltaForm{count, true, false, false},
            DeltaForm{count, false, true, false}, DeltaForm{count, true, true, false},
            DeltaForm{count, true, true, true}}) {
        for (std::size_t length : Lengths()) ExpectDeltasEqualOracle(*engine, form, random, length);
        for (std::size_t length : {1000U, 1023U, 1024U, 1025U, 4096U, 5001U}) {
          ExpectDeltasEqualOracle(*engine, form, random, length);
        }
      }
    }
  }
}

TEST(Kernels, PublicFunctionsUseTheBestEngine) {
  SeededRandom random(15);
  Buffer source(random), destination(random);
  Buffer expected = destination;
  std::byte* to = reinterpret_cast<std::byte*>(destination.data());
  const std::byte* from = reinterpret_cast<const std::byte*>(source.data());
  XorInto(to, from, kLengthMax);
  XorInto(to, from, kLengthMax);
  ASSERT_EQ(destination, expected);
  XorIntoCrc(to, from, kLengthMax);
  MultiplyAdd(to, from, 1, kLengthMax);
  ASSERT_EQ(destination, expected);
  MultiplyAdd(to, from, 0, kLengthMax);
  ASSERT_EQ(destination, expected);
  XorCopy(to, from, from, kLengthMax);
  ASSERT_EQ(std::vector<std::uint8_t>(destination.data(), destination.data() + kLengthMax),
            std::vector<std::uint8_t>(kLengthMax, 0));
  Multiply(to, from, 7, kLengthMax);
  ASSERT_EQ(std::to_integer<gf256::Element>(to[9]), gf256::Multiply(7, source.data()[9]));
}

}  // namespace
}  // namespace ring::ec_offload
