#include "ec_offload/schemes/triec.h"

#include <utility>

#include "ec_offload/graph/layout.h"
#include "ring/base/status.h"

namespace ring::ec_offload {
namespace {

class TriEcScheme final : public Scheme {
 public:
  explicit TriEcScheme(Code code) : Scheme(std::move(code)) {}

 private:
  void AddEncode(GraphBuilder& builder) const override {
    AddTripartiteEncode(builder, placement().agent(), code().generator, Homes());
  }

  void AddRepair(GraphBuilder& builder, const Repair& repair) const override {
    Aggregators aggregators;
    for (const ChunkId chunk : repair.combination.wanted)
      aggregators.nodes.push_back(placement().Replacement(chunk));
    aggregators.keep = repair.keep;
    AddTripartiteDecode(builder, repair.combination, aggregators, repair.root);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Scheme>> MakeTriEcScheme(const MdsParameters& parameters) {
  RING_ASSIGN_OR_RETURN(Code code, MakeMdsCode("TriEC", parameters));
  return std::make_unique<TriEcScheme>(std::move(code));
}

}  // namespace ring::ec_offload
