#include "ec_offload/schemes/ppr.h"

#include <utility>

#include "ec_offload/graph/layout.h"
#include "ring/base/status.h"

namespace ring::ec_offload {
namespace {

class PprScheme final : public Scheme {
 public:
  explicit PprScheme(Code code) : Scheme(std::move(code)) {}

 private:
  void AddRepair(GraphBuilder& builder, const Repair& repair) const override {
    AddBinomialTree(builder, repair.combination, repair.root);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Scheme>> MakePprScheme(const MdsParameters& parameters) {
  RING_ASSIGN_OR_RETURN(Code code, MakeMdsCode("PPR", parameters));
  return std::make_unique<PprScheme>(std::move(code));
}

}  // namespace ring::ec_offload
