// ISA-L's loop, and libecoffload.
#include "tools/ring-bench/ec_coder.h"

#include <ecOffload/eco_decoder.h>
#include <ecOffload/eco_encoder.h>
#include <isa-l/erasure_code.h>

#include <cerrno>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"

namespace ring::bench {
namespace {

class IsalCoder final : public EcCoder {
 public:
  IsalCoder(const EcCode& code, EcStripe* stripe)
      : size_(static_cast<int>(stripe->block_size())),
        encode_(Prepare(code.coding)),
        decode_(Prepare(code.plan.decode)) {
    RING_CHECK(code.w == 8);
    for (std::size_t i = 0; i < code.k; ++i) encode_.inputs.push_back(stripe->Block(i));
    for (std::size_t j = 0; j < code.m; ++j) encode_.outputs.push_back(stripe->Block(code.k + j));
    for (const std::size_t index : code.plan.survivors)
      decode_.inputs.push_back(stripe->Block(index));
    for (std::size_t i = 0; i < code.erased_count; ++i) decode_.outputs.push_back(stripe->Block(i));
  }
  absl::Status Encode(int count) override { return Run(encode_, count); }
  absl::Status Decode(int count) override { return Run(decode_, count); }

 private:
  struct Product {
    std::vector<std::uint8_t> tables;
    std::vector<std::uint8_t*> inputs, outputs;
  };
  static Product Prepare(const ec_offload::Matrix& matrix) {
    Product product;
    std::vector<std::uint8_t> elements(matrix.elements().begin(), matrix.elements().end());
    product.tables.resize(32 * elements.size());
    ec_init_tables(static_cast<int>(matrix.columns()), static_cast<int>(matrix.rows()),
                   elements.data(), product.tables.data());
    return product;
  }
  absl::Status Run(Product& product, int count) {
    for (int i = 0; i < count; ++i) {
      ec_encode_data(size_, static_cast<int>(product.inputs.size()),
                     static_cast<int>(product.outputs.size()), product.tables.data(),
                     product.inputs.data(), product.outputs.data());
    }
    return absl::OkStatus();
  }

  int size_;
  Product encode_, decode_;
};

class EcoCoder final : public EcCoder {
 public:
  EcoCoder(const EcCode& code, EcStripe* stripe)
      : k_(static_cast<int>(code.k)),
        m_(static_cast<int>(code.m)),
        size_(static_cast<int>(stripe->block_size())),
        encoder_(mlx_eco_encoder_init_w(k_, m_, code.matrix == EcMatrix::kVandermonde, code.w)),
        decoder_(mlx_eco_decoder_init_w(k_, m_, code.matrix == EcMatrix::kVandermonde, code.w)) {
    for (std::size_t i = 0; i < code.k; ++i) data_.push_back(stripe->Block(i));
    for (std::size_t j = 0; j < code.m; ++j) coding_.push_back(stripe->Block(code.k + j));
    for (std::size_t i = 0; i < code.erased_count; ++i) erased_.push_back(static_cast<int>(i));
  }
  ~EcoCoder() override {
    if (encoder_ != nullptr) mlx_eco_encoder_release(encoder_);
    if (decoder_ != nullptr) mlx_eco_decoder_release(decoder_);
  }
  bool made() const { return encoder_ != nullptr && decoder_ != nullptr; }

  absl::Status Encode(int count) override {
    for (int i = 0; i < count; ++i) {
      const int error =
          mlx_eco_encoder_encode(encoder_, data_.data(), coding_.data(), k_, m_, size_);
      if (error != 0) return absl::InternalError(absl::StrCat("mlx_eco_encoder_encode=", error));
    }
    return absl::OkStatus();
  }
  absl::Status Decode(int count) override {
    for (int i = 0; i < count; ++i) {
      const int error =
          mlx_eco_decoder_decode(decoder_, data_.data(), coding_.data(), k_, m_, size_,
                                 erased_.data(), static_cast<int>(erased_.size()));
      if (error != 0) return absl::InternalError(absl::StrCat("mlx_eco_decoder_decode=", error));
    }
    return absl::OkStatus();
  }

 private:
  int k_, m_, size_;
  eco_encoder* encoder_;
  eco_decoder* decoder_;
  std::vector<std::uint8_t*> data_, coding_;
  std::vector<int> erased_;
};

}  // namespace

std::unique_ptr<EcCoder> MakeIsalCoder(const EcCode& code, EcStripe* stripe) {
  return std::make_unique<IsalCoder>(code, stripe);
}

absl::StatusOr<std::unique_ptr<EcCoder>> MakeEcoCoder(const EcCode& code, EcStripe* stripe) {
  auto coder = std::make_unique<EcoCoder>(code, stripe);
  if (!coder->made()) return absl::InternalError(absl::StrCat("mlx_eco_..._init errno=", errno));
  return coder;
}

}  // namespace ring::bench
