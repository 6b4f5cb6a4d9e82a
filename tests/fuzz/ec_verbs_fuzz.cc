// The ibv_exp_ec_* calls with any attributes, scatter lists, erasures and update maps: what is
// refused or fails writes nothing, what is accepted stays within its outputs, encoding is right.
#include <infiniband/verbs_exp.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ring/base/check.h"
#include "tests/ec_offload/verbs_exp/verbs_fixture.h"
#include "tests/fuzz/fuzz_input.h"

using ring::ec_verbs::Bytes;
using ring::ec_verbs::Combine;
using ring::ec_verbs::Domain;
using ring::ec_verbs::Memory;
using ring::ec_verbs::SlowField;
using ring::testing::FuzzInput;

namespace {

constexpr std::size_t kArenaSize = 8192;

struct Target {
  Domain domain;
  Memory arena{domain.pd(), kArenaSize};
};

// Entries at the blocks of the arena, one after the other, some of them spoiled.
std::vector<ibv_sge> Entries(FuzzInput& input, const Memory& arena, std::size_t count,
                             std::size_t* block, std::uint32_t size) {
  std::vector<ibv_sge> sges;
  for (std::size_t i = 0; i < count; ++i) {
    ibv_sge sge = arena.Sge(0, size);
    sge.addr += (*block)++ * size;
    switch (input.Byte()) {
      case 1:
        sge.addr = 0;
        break;
      case 2:
        sge.addr -= input.Short();
        break;
      case 3:
        sge.addr += input.Short();
        break;
      case 4:
        sge.addr = ~std::uint64_t{0} - input.Byte();
        break;
      case 5:
        sge.length = input.Short();
        break;
      case 6:
        sge.lkey = input.Short();
        break;
      default:
        break;
    }
    sges.push_back(sge);
  }
  return sges;
}

struct Call {
  std::vector<ibv_sge> data;
  std::vector<ibv_sge> code;
  ibv_exp_ec_mem mem;
};

Call MakeCall(FuzzInput& input, const Memory& arena, std::size_t data, std::size_t code) {
  static constexpr std::array<int, 8> kSizes = {64, 64, 64, 128, 0, -64, 100, 1 << 30};
  Call call;
  const int size = kSizes[input.Byte() % kSizes.size()];
  const auto length = static_cast<std::uint32_t>(std::clamp(size, 0, 128));
  std::size_t block = 0;
  call.data = Entries(input, arena, data, &block, length);
  call.code = Entries(input, arena, code, &block, length);
  call.mem = {call.data.data(), static_cast<int>(data), call.code.data(), static_cast<int>(code),
              size};
  const std::uint8_t spoil = input.Byte();
  if (spoil == 1) call.mem.num_data_sge = static_cast<std::int8_t>(input.Byte());
  if (spoil == 2) call.mem.num_code_sge = static_cast<std::int8_t>(input.Byte());
  if (spoil == 3) call.mem.data_blocks = nullptr;
  if (spoil == 4) call.mem.code_blocks = nullptr;
  return call;
}

Bytes Map(FuzzInput& input, std::size_t size) {
  Bytes map(size, 0);
  for (std::uint8_t& byte : map) byte = input.Byte() < 64 ? 1 : 0;
  return map;
}

// The bytes that differ are all within the entries of `outputs`.
void CheckWrites(const Memory& arena, const Bytes& before, const Bytes& after,
                 const std::vector<ibv_sge>& outputs) {
  const std::uint64_t base = arena.Sge(0, 0).addr;
  for (std::size_t at = 0; at < before.size(); ++at) {
    if (before[at] == after[at]) continue;
    RING_CHECK(std::any_of(outputs.begin(), outputs.end(),
                           [&](const ibv_sge& sge) {
                             return base + at >= sge.addr && base + at - sge.addr < sge.length;
                           }))
        << "at=" << at;
  }
}

void CheckEncoded(Memory& arena, const Call& call, const Bytes& matrix, int w) {
  const std::uint64_t base = arena.Sge(0, 0).addr;
  const auto bytes_of = [&](const ibv_sge& sge) {
    const auto from = arena.bytes().begin() + static_cast<std::ptrdiff_t>(sge.addr - base);
    return Bytes(from, from + static_cast<std::ptrdiff_t>(sge.length));
  };
  std::vector<Bytes> data;
  for (const ibv_sge& sge : call.data) data.push_back(bytes_of(sge));
  for (std::size_t j = 0; j < call.code.size(); ++j) {
    RING_CHECK(bytes_of(call.code[j]) == Combine(SlowField(w), data, matrix, call.code.size(), j));
  }
}

void RunCalls(FuzzInput& input, Target& target, ibv_exp_ec_calc* calc,
              const ibv_exp_ec_calc_init_attr& attr, const Bytes& matrix) {
  const auto k = static_cast<std::size_t>(attr.k);
  const auto m = static_cast<std::size_t>(attr.m);
  while (!input.empty()) {
    const std::uint8_t which = input.Byte() % 3;
    Bytes first = Map(input, which == 1 ? k + m : k);
    Bytes second = Map(input, m);
    const auto set = [](const Bytes& map) {
      return static_cast<std::size_t>(std::count(map.begin(), map.end(), 1));
    };
    const bool update = which == 2;
    Call call = MakeCall(input, target.arena, update ? set(second) + 2 * set(first) : k,
                         update ? set(second) : m);
    Bytes decode(k * (k + m));
    input.Copy(decode.data(), decode.size());
    const Bytes before = target.arena.bytes();
    int result = 0;
    std::vector<ibv_sge> outputs = call.code;
    if (which == 0) {
      result = ibv_exp_ec_encode_sync(calc, &call.mem);
    } else if (which == 1) {
      result = ibv_exp_ec_decode_sync(calc, &call.mem, first.data(), decode.data());
      outputs.clear();
      for (std::size_t block = 0; block < k + m; ++block) {
        if (first[block] != 0) {
          outputs.push_back(block < k ? call.data[block] : call.code[block - k]);
        }
      }
    } else {
      result = ibv_exp_ec_update_sync(calc, &call.mem, first.data(), second.data());
    }
    RING_CHECK(result == 0 || result == IBV_EXP_EC_CALC_FAIL || result == EINVAL ||
               result == -EINVAL)
        << "result=" << result;
    if (result != 0) RING_CHECK(target.arena.bytes() == before);
    CheckWrites(target.arena, before, target.arena.bytes(), outputs);
    if (result == 0 && which == 0) CheckEncoded(target.arena, call, matrix, attr.w);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static Target& target = *new Target;
  FuzzInput input(bytes, size);
  for (std::size_t i = 0; i < kArenaSize; ++i) {
    target.arena.bytes()[i] = static_cast<std::uint8_t>(i * 31 + i / 256);
  }
  static constexpr std::array<int, 8> kWidths = {4, 8, 4, 8, 1, 2, 3, -8};
  ibv_exp_ec_calc_init_attr attr = {};
  attr.w = kWidths[input.Byte() % kWidths.size()];
  attr.k = static_cast<std::int8_t>(input.Byte());
  attr.m = static_cast<std::int8_t>(input.Byte());
  const std::uint8_t spoil = input.Byte();
  attr.max_data_sge = attr.k + (spoil == 1 ? 1 : 0);
  attr.max_code_sge = attr.m + (spoil == 2 ? 1 : 0);
  attr.comp_mask = spoil == 3 ? input.Short() << 8 : 0;
  attr.max_inflight_calcs = input.Byte();
  attr.polling = 1;  // no thread for each input
  if (attr.k + attr.m > 40) return 0;
  Bytes matrix(64 * 64);
  const std::size_t used =
      static_cast<std::size_t>(std::max(attr.k, 0)) * static_cast<std::size_t>(std::max(attr.m, 0));
  input.Copy(matrix.data(), std::min(used, matrix.size()));
  attr.encode_matrix = spoil == 4 ? nullptr : matrix.data();
  ibv_exp_ec_calc* const calc = ibv_exp_alloc_ec_calc(target.domain.pd(), &attr);
  const bool fits = attr.k >= 1 && attr.m >= 1 && attr.w >= 1 && attr.w != 3 &&
                    attr.k + attr.m <= 1 << attr.w && spoil != 1 && spoil != 2 && spoil != 4 &&
                    attr.comp_mask < IBV_EXP_EC_CALC_INIT_ATTR_RESERVED;
  RING_CHECK((calc != nullptr) == fits);
  if (calc == nullptr) return 0;
  RunCalls(input, target, calc, attr, matrix);
  ibv_exp_dealloc_ec_calc(calc);
  return 0;
}
