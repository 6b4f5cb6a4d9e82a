#include "ec_offload/kernels.h"

#include <atomic>

#include "ec_offload/kernel_engines.h"
#include "ring/base/crc32c.h"

namespace ring::ec_offload {
namespace {

constexpr std::array<gf256::Factor, 256> MakeFactors() {
  std::array<gf256::Factor, 256> factors{};
  for (unsigned value = 0; value < 256; ++value) {
    factors[value] = gf256::MakeFactor(static_cast<gf256::Element>(value));
  }
  return factors;
}
constexpr std::array<gf256::Factor, 256> kFactors = MakeFactors();

// the scalar oracle: one byte at a time, from the definitions

void ScalarXorInto(std::uint8_t* destination, const std::uint8_t* source, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i)
    destination[i] = static_cast<std::uint8_t>(destination[i] ^ source[i]);
}

std::uint32_t ScalarXorIntoCrc(std::uint8_t* destination, const std::uint8_t* source,
                               std::size_t size) {
  ScalarXorInto(destination, source, size);
  return Crc32c(source, size);
}

void ScalarXorCopy(std::uint8_t* destination, const std::uint8_t* a, const std::uint8_t* b,
                   std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) destination[i] = static_cast<std::uint8_t>(a[i] ^ b[i]);
}

void ScalarMultiply(std::uint8_t* destination, const std::uint8_t* source,
                    const gf256::Factor& factor, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) destination[i] = gf256::Multiply(factor.value, source[i]);
}

void ScalarMultiplyAdd(std::uint8_t* destination, const std::uint8_t* source,
                       const gf256::Factor& factor, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) {
    destination[i] =
        static_cast<std::uint8_t>(destination[i] ^ gf256::Multiply(factor.value, source[i]));
  }
}

template <std::size_t count, DeltaMode mode>
struct ScalarDelta {
  static void Run(const DeltaArguments& a) {
    for (std::size_t i = 0; i < a.length; ++i) {
      const std::uint8_t fresh = a.new_bytes[i];
      const auto difference = static_cast<std::uint8_t>(a.old_bytes[i] ^ fresh);
      for (std::size_t j = 0; j < count; ++j)
        a.deltas[j][i] = gf256::Multiply(a.factors[j].value, difference);
      if constexpr (WritesSlot(mode)) a.slot[i] = fresh;
    }
    if constexpr (Sums(mode)) {
      for (std::size_t j = 0; j < count; ++j) a.delta_crcs[j] = Crc32c(a.deltas[j], a.length);
    }
    if constexpr (SumsSlot(mode)) *a.slot_crc = Crc32c(a.slot, a.length);
  }
};

std::uint8_t* Bytes(std::byte* p) { return reinterpret_cast<std::uint8_t*>(p); }
const std::uint8_t* Bytes(const std::byte* p) { return reinterpret_cast<const std::uint8_t*>(p); }

constexpr std::array<const KernelEngine*, 3> kEngines = {&kScalarEngine, &kAvx2Engine,
                                                         &kWideEngine};

}  // namespace

constinit const KernelEngine kScalarEngine = {
    "scalar",       ScalarXorInto,     ScalarXorIntoCrc,        ScalarXorCopy,
    ScalarMultiply, ScalarMultiplyAdd, SelectDelta<ScalarDelta>};

absl::Span<const KernelEngine* const> KernelEngines() {
  return absl::MakeConstSpan(kEngines.data(), WideEngineSupported() ? 3 : 2);
}

const KernelEngine& BestKernelEngine() {
  static constinit std::atomic<const KernelEngine*> chosen{nullptr};
  const KernelEngine* engine = chosen.load(std::memory_order_relaxed);
  if (engine == nullptr) [[unlikely]] {
    engine = KernelEngines().back();
    chosen.store(engine, std::memory_order_relaxed);
  }
  return *engine;
}

const gf256::Factor& FactorOf(gf256::Element value) { return kFactors[value]; }

void XorInto(std::byte* destination, const std::byte* source, std::size_t size) {
  BestKernelEngine().xor_into(Bytes(destination), Bytes(source), size);
}

std::uint32_t XorIntoCrc(std::byte* destination, const std::byte* source, std::size_t size) {
  return BestKernelEngine().xor_into_crc(Bytes(destination), Bytes(source), size);
}

void XorCopy(std::byte* destination, const std::byte* a, const std::byte* b, std::size_t size) {
  BestKernelEngine().xor_copy(Bytes(destination), Bytes(a), Bytes(b), size);
}

void Multiply(std::byte* destination, const std::byte* source, gf256::Element factor,
              std::size_t size) {
  BestKernelEngine().multiply(Bytes(destination), Bytes(source), FactorOf(factor), size);
}

void MultiplyAdd(std::byte* destination, const std::byte* source, gf256::Element factor,
                 std::size_t size) {
  BestKernelEngine().multiply_add(Bytes(destination), Bytes(source), FactorOf(factor), size);
}

}  // namespace ring::ec_offload
