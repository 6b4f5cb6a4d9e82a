// tools/ring-bench/ec_stripe.h — a code and a stripe of blocks for erasure-coding measurements.
//
// What:      EcCode: k + m blocks over GF(2^w), one of Jerasure's matrices, and how its first
//            erased_count data blocks come back. EcStripe: the blocks; CheckEncode and CheckDecode
//            compare what an interface wrote with sums made one byte at a time.
// Shape:     block i < k is data block i, k + j is parity j; blocks of one size, on pages.
// Ownership: owns the blocks.
// Threads:   thread-compatible.
// Errors:    EcCode::Create: kInvalidArgument. Check...: the operation's own, or kDataLoss naming
//            the block.
#ifndef RING_TOOLS_RING_BENCH_EC_STRIPE_H_
#define RING_TOOLS_RING_BENCH_EC_STRIPE_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ec_offload/coding_matrix.h"
#include "ec_offload/field.h"
#include "ec_offload/matrix.h"

namespace ring::bench {

enum class EcMatrix : std::uint8_t { kVandermonde, kCauchy };

struct EcCode {
  static absl::StatusOr<EcCode> Create(std::size_t k, std::size_t m, int w, EcMatrix matrix);

  std::size_t k = 0;
  std::size_t m = 0;
  int w = 8;
  EcMatrix matrix = EcMatrix::kVandermonde;
  ec_offload::Field field = ec_offload::Field::kGf256;
  std::size_t erased_count = 0;  // m, or k where that is less
  ec_offload::Matrix coding;     // m x k
  ec_offload::DecodePlan plan;   // of data blocks 0 .. erased_count - 1
};

class EcStripe {
 public:
  // REQUIRES: block_size > 0.
  EcStripe(const EcCode& code, std::size_t block_size);

  std::size_t block_size() const { return block_size_; }
  std::uint8_t* Block(std::size_t index) { return blocks_[index].get(); }
  // `encode` writes the parities of `code` once.
  absl::Status CheckEncode(const EcCode& code, const std::function<absl::Status()>& encode);
  // `decode` writes the erased blocks of `code` once.
  absl::Status CheckDecode(const EcCode& code, const std::function<absl::Status()>& decode);

 private:
  struct Free {
    void operator()(std::uint8_t* memory) const { std::free(memory); }
  };
  using Bytes = std::vector<std::uint8_t>;
  // The right parities, one byte at a time.
  std::vector<Bytes> Parities(const EcCode& code) const;
  void Write(const std::vector<Bytes>& from, std::size_t first);
  absl::Status Compare(const std::vector<Bytes>& right, std::size_t first);

  std::size_t block_size_;
  std::vector<std::unique_ptr<std::uint8_t, Free>> blocks_;
  std::vector<Bytes> data_;  // what the data blocks are
};

}  // namespace ring::bench

#endif  // RING_TOOLS_RING_BENCH_EC_STRIPE_H_
