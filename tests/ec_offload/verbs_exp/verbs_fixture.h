// tests/ec_offload/verbs_exp/verbs_fixture.h — the first device opened by verbs calls, blocks in
// registered memory, and a slow model of the codes.
//
// What:      Domain (device, protection domain), Stripe (k + m registered blocks and their
//            descriptors), SlowField with the product and the inverse from their definitions,
//            DecodeColumns, the decode matrix as programs of MLNX_OFED make it.
// Threads:   one, except for the calls under test.
// Errors:    set-up that fails ends the process (RING_CHECK).
#ifndef RING_TESTS_EC_OFFLOAD_VERBS_EXP_VERBS_FIXTURE_H_
#define RING_TESTS_EC_OFFLOAD_VERBS_EXP_VERBS_FIXTURE_H_

#include <infiniband/verbs_exp.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "ring/base/check.h"
#include "ring/base/random.h"

namespace ring::ec_verbs {

using Bytes = std::vector<std::uint8_t>;

class Domain {
 public:
  Domain() {
    int count = 0;
    ibv_device** const devices = ibv_get_device_list(&count);
    RING_CHECK(count >= 1);
    // A test that was made for a real device must not be content with the software one.
    if (const char* const wanted = std::getenv("RING_TEST_VERBS_DEVICE"))
      RING_CHECK(std::strcmp(ibv_get_device_name(devices[0]), wanted) == 0)
          << ibv_get_device_name(devices[0]);
    context_ = ibv_open_device(devices[0]);
    ibv_free_device_list(devices);
    RING_CHECK(context_ != nullptr);
    pd_ = ibv_alloc_pd(context_);
  }
  ~Domain() {
    RING_CHECK(ibv_dealloc_pd(pd_) == 0);
    RING_CHECK(ibv_close_device(context_) == 0);
  }
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;
  ibv_context* context() const { return context_; }
  ibv_pd* pd() const { return pd_; }

 private:
  ibv_context* context_;
  ibv_pd* pd_;
};

// Registered memory.
class Memory {
 public:
  Memory(ibv_pd* pd, std::size_t size, int access = IBV_ACCESS_LOCAL_WRITE) : bytes_(size) {
    mr_ = ibv_reg_mr(pd, bytes_.data(), bytes_.size(), access);
    RING_CHECK(mr_ != nullptr);
  }
  ~Memory() { RING_CHECK(ibv_dereg_mr(mr_) == 0); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  Bytes& bytes() { return bytes_; }
  ibv_mr* mr() const { return mr_; }
  ibv_sge Sge(std::size_t from, std::size_t size) const {
    return {reinterpret_cast<std::uint64_t>(bytes_.data()) + from, static_cast<std::uint32_t>(size),
            mr_->lkey};
  }

 private:
  Bytes bytes_;
  ibv_mr* mr_;
};

// Blocks in a row, each of `size` bytes, and the ibv_exp_ec_mem over them.
class Stripe {
 public:
  Stripe(ibv_pd* pd, int data, int code, int size)
      : size_(static_cast<std::size_t>(size)),
        memory_(pd, static_cast<std::size_t>(data + code) * size_) {
    for (int i = 0; i < data; ++i) data_.push_back(memory_.Sge(Offset(i), size_));
    for (int i = data; i < data + code; ++i) code_.push_back(memory_.Sge(Offset(i), size_));
    mem_ = {data_.data(), data, code_.data(), code, size};
  }
  ibv_exp_ec_mem* mem() { return &mem_; }
  std::vector<ibv_sge>& data() { return data_; }
  std::vector<ibv_sge>& code() { return code_; }
  Memory& memory() { return memory_; }
  Bytes Block(int index) {
    const auto from = memory_.bytes().begin() + static_cast<std::ptrdiff_t>(Offset(index));
    return {from, from + static_cast<std::ptrdiff_t>(size_)};
  }
  void Set(int index, const Bytes& bytes) {
    for (std::size_t i = 0; i < size_; ++i) memory_.bytes()[Offset(index) + i] = bytes[i];
  }
  void Fill(SeededRandom& random) {
    for (std::uint8_t& byte : memory_.bytes()) byte = static_cast<std::uint8_t>(random.Next64());
  }

 private:
  std::size_t Offset(int index) const { return static_cast<std::size_t>(index) * size_; }
  std::size_t size_;
  Memory memory_;
  std::vector<ibv_sge> data_;
  std::vector<ibv_sge> code_;
  ibv_exp_ec_mem mem_;
};

// GF(2^8) for w = 8, else GF(2^4) in each nibble, as the hardware has it.
class SlowField {
 public:
  explicit SlowField(int w) : wide_(w == 8) {}
  std::uint8_t Product(std::uint8_t a, std::uint8_t b) const {
    unsigned result = 0;
    for (unsigned bit = 0; bit < (wide_ ? 8U : 4U); ++bit) {
      if (((b >> bit) & 1) != 0) result ^= static_cast<unsigned>(a) << bit;
    }
    const unsigned degree = wide_ ? 8 : 4;
    const unsigned polynomial = wide_ ? 0x11d : 0x13;
    for (unsigned bit = 2 * degree; bit-- > degree;) {
      if (((result >> bit) & 1) != 0) result ^= polynomial << (bit - degree);
    }
    return static_cast<std::uint8_t>(result);
  }
  std::uint8_t Inverse(std::uint8_t a) const {
    for (unsigned b = 1; b < (wide_ ? 256U : 16U); ++b) {
      if (Product(a, static_cast<std::uint8_t>(b)) == 1) return static_cast<std::uint8_t>(b);
    }
    return 0;
  }
  // factor * byte, a byte of a block.
  std::uint8_t Times(std::uint8_t factor, std::uint8_t byte) const {
    if (wide_) return Product(byte, factor);
    const unsigned low = Product(byte & 15, factor & 15);
    const unsigned high = Product(static_cast<std::uint8_t>(byte >> 4), factor & 15);
    return static_cast<std::uint8_t>(low | high << 4);
  }
  // 1 / (j xor (m + i)) at [i * m + j]: k rows x m columns.
  Bytes CauchyMatrix(int k, int m) const {
    Bytes matrix;
    for (int i = 0; i < k; ++i) {
      for (int j = 0; j < m; ++j) {
        const int sum = k + m == 2 ? 1 : j ^ (m + i);
        matrix.push_back(Inverse(static_cast<std::uint8_t>(sum)));
      }
    }
    return matrix;
  }

 private:
  bool wide_;
};

// The block that column `output` of `matrix` (rows x columns) makes of the inputs.
inline Bytes Combine(const SlowField& field, const std::vector<Bytes>& inputs, const Bytes& matrix,
                     std::size_t columns, std::size_t output) {
  Bytes result(inputs[0].size(), 0);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (std::size_t at = 0; at < result.size(); ++at) {
      result[at] ^= field.Times(matrix[i * columns + output], inputs[i][at]);
    }
  }
  return result;
}

// k rows x (number of erasures) columns, over the first k blocks that are left.
Bytes DecodeColumns(const SlowField& field, int k, int m, const Bytes& encode,
                    const Bytes& erasures);

inline ibv_exp_ec_calc_init_attr Attributes(int k, int m, int w, Bytes& matrix) {
  ibv_exp_ec_calc_init_attr attr = {};
  attr.comp_mask = IBV_EXP_EC_CALC_INIT_ATTR_RESERVED - 1;
  attr.max_inflight_calcs = 4;
  attr.k = k;
  attr.m = m;
  attr.w = w;
  attr.max_data_sge = k;
  attr.max_code_sge = m;
  attr.encode_matrix = matrix.data();
  return attr;
}

}  // namespace ring::ec_verbs

#endif  // RING_TESTS_EC_OFFLOAD_VERBS_EXP_VERBS_FIXTURE_H_
