#include "ec_offload/schemes/scheme.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ring/base/status.h"

namespace ring::ec_offload {

std::vector<ChunkPlace> Scheme::Homes() const {
  std::vector<ChunkPlace> homes;
  for (ChunkId chunk = 0; chunk < code_.chunk_count(); ++chunk)
    homes.push_back(placement().Home(chunk));
  return homes;
}

void Scheme::AddEncode(GraphBuilder& builder) const {
  AddScatter(builder, placement().agent(), code_.generator, Homes());
}

absl::StatusOr<GraphBuilder> Scheme::StartGraph(std::size_t chunk_size) const {
  if (chunk_size == 0)
    return absl::InvalidArgumentError(absl::StrCat(name(), ": chunk_size=0: give at least 1"));
  return GraphBuilder(code_.field, chunk_size);
}

absl::StatusOr<Graph> Scheme::Encode(std::size_t chunk_size) const {
  RING_ASSIGN_OR_RETURN(GraphBuilder builder, StartGraph(chunk_size));
  AddEncode(builder);
  return std::move(builder).Build();
}

absl::StatusOr<std::vector<ChunkId>> Scheme::SurvivorsOf(absl::Span<const ChunkId> erasures) const {
  std::vector<bool> lost(code_.chunk_count(), false);
  for (const ChunkId chunk : erasures) {
    if (chunk >= lost.size() || lost[chunk]) {
      return absl::InvalidArgumentError(absl::StrCat(
          name(), ": erasure ", chunk, ": name each lost chunk once, from 0 to ", lost.size() - 1));
    }
    lost[chunk] = true;
  }
  if (erasures.empty())
    return absl::InvalidArgumentError(absl::StrCat(name(), ": no erasures: nothing is lost"));
  std::vector<ChunkId> survivors;
  for (ChunkId chunk = 0; chunk < lost.size(); ++chunk) {
    if (!lost[chunk]) survivors.push_back(chunk);
  }
  return survivors;
}

absl::StatusOr<Graph> Scheme::BuildRepair(std::size_t chunk_size,
                                          absl::Span<const ChunkId> erasures,
                                          std::vector<ChunkId> wanted, NodeId root,
                                          bool keep) const {
  RING_ASSIGN_OR_RETURN(const std::vector<ChunkId> survivors, SurvivorsOf(erasures));
  RING_ASSIGN_OR_RETURN(GraphBuilder builder, StartGraph(chunk_size));
  RING_ASSIGN_OR_RETURN(Recipe recipe, Combine(code_, survivors, wanted));
  Repair repair;
  for (const ChunkId helper : recipe.helpers)
    repair.combination.helpers.push_back(placement().Home(helper));
  repair.combination.wanted = std::move(wanted);
  repair.combination.factors = std::move(recipe.factors);
  repair.root = root;
  repair.keep = keep;
  AddRepair(builder, repair);
  return std::move(builder).Build();
}

absl::StatusOr<Graph> Scheme::Decode(std::size_t chunk_size,
                                     absl::Span<const ChunkId> erasures) const {
  std::vector<ChunkId> wanted(erasures.begin(), erasures.end());
  std::sort(wanted.begin(), wanted.end());
  return BuildRepair(chunk_size, erasures, std::move(wanted), placement().agent(), true);
}

absl::StatusOr<Graph> Scheme::DegradedRead(std::size_t chunk_size,
                                           absl::Span<const ChunkId> erasures,
                                           ChunkId wanted) const {
  if (std::count(erasures.begin(), erasures.end(), wanted) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(), ": chunk ", wanted, " is not among the erasures: read it"));
  }
  return BuildRepair(chunk_size, erasures, {wanted}, placement().requestor(), false);
}

}  // namespace ring::ec_offload
