#include "tools/ring-bench/ec_stripe.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/base/random.h"
#include "ring/base/status.h"

namespace ring::bench {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::uint8_t kSpoiled = 0xa5;

}  // namespace

absl::StatusOr<EcCode> EcCode::Create(std::size_t k, std::size_t m, int w, EcMatrix matrix) {
  const auto field = ec_offload::FieldOfWidth(w);
  if (!field.has_value()) return absl::InvalidArgumentError(absl::StrCat("w=", w));
  EcCode code;
  code.k = k;
  code.m = m;
  code.w = w;
  code.matrix = matrix;
  code.field = *field;
  code.erased_count = std::min(k, m);
  const auto make =
      matrix == EcMatrix::kVandermonde ? ec_offload::VandermondeCoding : ec_offload::CauchyCoding;
  RING_ASSIGN_OR_RETURN(code.coding, make(*field, k, m));
  std::vector<std::size_t> erased(code.erased_count);
  for (std::size_t i = 0; i < erased.size(); ++i) erased[i] = i;
  RING_ASSIGN_OR_RETURN(code.plan, ec_offload::PlanDecoding(*field, code.coding, erased));
  return code;
}

EcStripe::EcStripe(const EcCode& code, std::size_t block_size) : block_size_(block_size) {
  SeededRandom random(91);
  const std::size_t padded = (block_size + kPage - 1) / kPage * kPage;
  for (std::size_t i = 0; i < code.k + code.m; ++i) {
    blocks_.emplace_back(static_cast<std::uint8_t*>(std::aligned_alloc(kPage, padded)));
    RING_CHECK(blocks_.back() != nullptr);
    std::memset(Block(i), kSpoiled, padded);
    if (i >= code.k) continue;
    Bytes& bytes = data_.emplace_back(block_size);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.Next64());
  }
  Write(data_, 0);
}

std::vector<EcStripe::Bytes> EcStripe::Parities(const EcCode& code) const {
  std::vector<Bytes> parities(code.m, Bytes(block_size_, 0));
  for (std::size_t j = 0; j < code.m; ++j) {
    for (std::size_t i = 0; i < code.k; ++i) {
      std::array<std::uint8_t, 256> products;
      for (std::size_t byte = 0; byte < products.size(); ++byte) {
        products[byte] = ec_offload::MultiplyByte(code.field, code.coding.At(j, i),
                                                  static_cast<std::uint8_t>(byte));
      }
      for (std::size_t at = 0; at < block_size_; ++at) parities[j][at] ^= products[data_[i][at]];
    }
  }
  return parities;
}

void EcStripe::Write(const std::vector<Bytes>& from, std::size_t first) {
  for (std::size_t i = 0; i < from.size(); ++i)
    std::memcpy(Block(first + i), from[i].data(), block_size_);
}

absl::Status EcStripe::Compare(const std::vector<Bytes>& right, std::size_t first) {
  for (std::size_t i = 0; i < right.size(); ++i) {
    if (std::memcmp(Block(first + i), right[i].data(), block_size_) != 0) {
      return absl::DataLossError(absl::StrCat("block=", first + i, " size=", block_size_,
                                              ": other bytes than one at a time"));
    }
  }
  return absl::OkStatus();
}

absl::Status EcStripe::CheckEncode(const EcCode& code,
                                   const std::function<absl::Status()>& encode) {
  Write(data_, 0);
  for (std::size_t j = 0; j < code.m; ++j) std::memset(Block(code.k + j), kSpoiled, block_size_);
  RING_RETURN_IF_ERROR(encode());
  RING_RETURN_IF_ERROR(Compare(Parities(code), code.k));
  return Compare(data_, 0);
}

absl::Status EcStripe::CheckDecode(const EcCode& code,
                                   const std::function<absl::Status()>& decode) {
  const std::vector<Bytes> parities = Parities(code);
  Write(data_, 0);
  Write(parities, code.k);
  for (std::size_t i = 0; i < code.erased_count; ++i) std::memset(Block(i), kSpoiled, block_size_);
  RING_RETURN_IF_ERROR(decode());
  RING_RETURN_IF_ERROR(Compare(data_, 0));
  return Compare(parities, code.k);
}

}  // namespace ring::bench
