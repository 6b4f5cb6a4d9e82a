#include "tools/ring-bench/workload.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ring/base/check.h"

namespace ring::bench {
namespace {

constexpr double kTheta = 0.99;

// The finalizer of MurmurHash3: a bijection, so that scattered ranks stay distinct before the
// reduction.
std::uint64_t Scatter(std::uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccd;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53;
  return x ^ (x >> 33);
}

}  // namespace

KeyName::KeyName(std::uint16_t space, std::uint64_t index) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::uint64_t number = (std::uint64_t{space} << 48) | (index & 0xffff'ffff'ffff);
  for (std::size_t i = kKeySize; i-- > 0; number >>= 4) bytes_[i] = kHex[number & 15];
}

KeyChooser::KeyChooser(Distribution distribution, std::uint64_t key_count, std::uint64_t seed)
    : distribution_(distribution), key_count_(key_count), random_(seed) {
  RING_CHECK(key_count > 0);
  if (distribution != Distribution::kZipfian) return;
  const auto count = static_cast<double>(key_count);
  for (std::uint64_t i = 1; i <= key_count; ++i) {
    zeta_ += 1 / std::pow(static_cast<double>(i), kTheta);
  }
  const double zeta_two = 1 + 1 / std::pow(2.0, kTheta);
  alpha_ = 1 / (1 - kTheta);
  eta_ = (1 - std::pow(2 / count, 1 - kTheta)) / (1 - zeta_two / zeta_);
}

std::uint64_t KeyChooser::NextRank() {
  const double u = NextUnit();
  const double uz = u * zeta_;
  if (uz < 1) return 0;
  if (uz < 1 + std::pow(0.5, kTheta)) return 1;
  const double rank = static_cast<double>(key_count_) * std::pow(eta_ * u - eta_ + 1, alpha_);
  return std::min(static_cast<std::uint64_t>(rank), key_count_ - 1);
}

std::uint64_t KeyChooser::Next() {
  if (distribution_ == Distribution::kUniform) return random_.Below(key_count_);
  return Scatter(NextRank()) % key_count_;
}

double WeibullScale(const DegradedOptions& options) {
  if (options.scale > 0) return options.scale;
  return 1 / (options.share * std::tgamma(1 + 1 / options.shape));
}

DegradedArrivals::DegradedArrivals(const DegradedOptions& options, std::uint64_t seed)
    : options_(options), random_(seed) {
  if (options_.share <= 0 || options_.share >= 1) return;
  scale_ = WeibullScale(options_);
  next_ = Gap();
}

double DegradedArrivals::Gap() {
  const double unit = static_cast<double>((random_.Next64() >> 11) + 1) * 0x1.0p-53;  // not 0
  return scale_ * std::pow(-std::log(unit), 1 / options_.shape);
}

bool DegradedArrivals::Next() {
  if (options_.share <= 0 || options_.share >= 1) return options_.share >= 1;
  for (clock_ += 1; next_ <= clock_; next_ += Gap()) ++waiting_;
  if (waiting_ == 0) return false;
  --waiting_;
  return true;
}

void FillValue(std::uint64_t index, absl::Span<char> value) {
  if (value.empty()) return;  // memcpy takes no null, not even for nothing
  std::memcpy(value.data(), &index, std::min(value.size(), sizeof(index)));
}

bool CheckValue(std::uint64_t index, std::size_t size_expected, absl::string_view value) {
  if (value.size() != size_expected) return false;
  return value.empty() ||
         std::memcmp(value.data(), &index, std::min(value.size(), sizeof(index))) == 0;
}

}  // namespace ring::bench
