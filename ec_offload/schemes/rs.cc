#include "ec_offload/schemes/rs.h"

#include <utility>

#include "ec_offload/graph/layout.h"
#include "ring/base/status.h"

namespace ring::ec_offload {
namespace {

class RsScheme final : public Scheme {
 public:
  explicit RsScheme(Code code) : Scheme(std::move(code)) {}

 private:
  void AddRepair(GraphBuilder& builder, const Repair& repair) const override {
    AddStar(builder, repair.combination, repair.root);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Scheme>> MakeRsScheme(const MdsParameters& parameters) {
  RING_ASSIGN_OR_RETURN(Code code, MakeMdsCode("RS", parameters));
  return std::make_unique<RsScheme>(std::move(code));
}

}  // namespace ring::ec_offload
