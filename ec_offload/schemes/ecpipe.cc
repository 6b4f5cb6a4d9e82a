#include "ec_offload/schemes/ecpipe.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/status.h"

namespace ring::ec_offload {
namespace {

class EcPipeScheme final : public Scheme {
 public:
  EcPipeScheme(Code code, std::size_t slice_size, ChainOrder order)
      : Scheme(std::move(code)), slice_size_(slice_size), order_(order) {}

 private:
  void AddRepair(GraphBuilder& builder, const Repair& repair) const override {
    AddChain(builder, repair.combination, repair.root, slice_size_, order_);
  }

  std::size_t slice_size_;
  ChainOrder order_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Scheme>> MakeEcPipeScheme(const EcPipeParameters& parameters) {
  RING_ASSIGN_OR_RETURN(Code code, MakeMdsCode("ECPipe", parameters.code));
  if (parameters.slice_size == 0)
    return absl::InvalidArgumentError(absl::StrCat(code.name, ": slice_size=0: give at least 1"));
  return std::make_unique<EcPipeScheme>(std::move(code), parameters.slice_size, parameters.order);
}

}  // namespace ring::ec_offload
