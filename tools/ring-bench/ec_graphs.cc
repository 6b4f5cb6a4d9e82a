#include "tools/ring-bench/ec_graphs.h"

#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "ec_offload/coding_matrix.h"
#include "ec_offload/schemes/ecpipe.h"
#include "ec_offload/schemes/lrc.h"
#include "ec_offload/schemes/ppr.h"
#include "ec_offload/schemes/rs.h"
#include "ec_offload/schemes/triec.h"
#include "ring/base/status.h"

namespace ring::bench {
namespace {

using ec_offload::ChunkId;
using ec_offload::Graph;
using ec_offload::GraphBuilder;
using ec_offload::Matrix;
using ec_offload::NodeId;
using ec_offload::Scheme;

constexpr ec_offload::Field kField = ec_offload::Field::kGf256;

absl::StatusOr<std::unique_ptr<Scheme>> MakeScheme(const EcWork& work) {
  const ec_offload::MdsParameters code{work.k, work.m, kField, std::nullopt};
  if (work.scheme == "rs") return ec_offload::MakeRsScheme(code);
  if (work.scheme == "lrc") return ec_offload::MakeLrcScheme({work.k, work.l, work.m, kField});
  if (work.scheme == "ppr") return ec_offload::MakePprScheme(code);
  if (work.scheme == "triec") return ec_offload::MakeTriEcScheme(code);
  return ec_offload::MakeEcPipeScheme({.code = code, .slice_size = work.slice_size});
}

// Node 0 has what the primitive is about; the others send or receive.
absl::StatusOr<Graph> MakePrimitiveGraph(const EcWork& work, std::size_t chunk_size) {
  GraphBuilder builder(kField, chunk_size);
  RING_ASSIGN_OR_RETURN(const Matrix coding, ec_offload::VandermondeCoding(kField, work.k, work.m));
  const bool receives = work.primitive != "ec-send";
  const bool sends = work.primitive != "recv-ec";
  std::vector<ChunkId> chunks(work.k);
  std::iota(chunks.begin(), chunks.end(), ChunkId{0});
  if (!receives) {
    for (const ChunkId chunk : chunks) builder.AddSource({0, chunk});
  }
  const std::size_t vertex = builder.AddVertex(0, builder.whole_chunk(),
                                               receives ? std::vector<ChunkId>() : chunks, coding);
  for (const ChunkId chunk : chunks) {
    if (!receives) break;
    const NodeId node = 1 + chunk;
    builder.AddSource({node, chunk});
    builder.Connect(builder.AddVertex(node, builder.whole_chunk(), {chunk}, Matrix::Identity(1)), 0,
                    vertex);
  }
  for (std::size_t i = 0; i < work.m; ++i) {
    const auto parity = static_cast<ChunkId>(work.k + i);
    if (!sends) {
      builder.Keep(vertex, i, parity);
      continue;
    }
    const std::size_t target = builder.AddVertex(static_cast<NodeId>(1 + parity),
                                                 builder.whole_chunk(), {}, Matrix::Identity(1));
    builder.Connect(vertex, i, target);
    builder.Keep(target, 0, parity);
  }
  return std::move(builder).Build();
}

}  // namespace

std::string EcWorkName(const EcWork& work) {
  if (work.scheme.empty())
    return absl::StrFormat("%s of %d chunks, %d outputs", work.primitive, work.k, work.m);
  const char* const name = work.scheme == "rs"       ? "RS"
                           : work.scheme == "lrc"    ? "LRC"
                           : work.scheme == "ppr"    ? "PPR"
                           : work.scheme == "ecpipe" ? "ECPipe"
                                                     : "TriEC";
  const std::string parameters = work.scheme == "lrc"
                                     ? absl::StrFormat("%d,%d,%d", work.k, work.l, work.m)
                                     : absl::StrFormat("%d,%d", work.k, work.m);
  return absl::StrFormat("%s(%s) %s", name, parameters, work.operation);
}

absl::StatusOr<Graph> MakeEcGraph(const EcWork& work, std::size_t chunk_size) {
  if (work.scheme.empty()) return MakePrimitiveGraph(work, chunk_size);
  RING_ASSIGN_OR_RETURN(const std::unique_ptr<Scheme> scheme, MakeScheme(work));
  if (work.operation == "encode") return scheme->Encode(chunk_size);
  std::vector<ChunkId> erasures(work.losses);
  std::iota(erasures.begin(), erasures.end(), ChunkId{0});
  return scheme->Decode(chunk_size, erasures);
}

std::size_t GeneratedChunks(const EcWork& work) {
  if (work.scheme.empty()) return work.m;
  if (work.operation == "decode") return work.losses;
  return work.scheme == "lrc" ? work.l + work.m : work.m;
}

std::vector<TableTerms> TableTermsOf(const EcWork& work) {
  const std::string& scheme = work.scheme;
  const bool encode = work.operation == "encode";
  if (scheme == "lrc" && encode)
    return {{"ec-send", "k (l+r) c", "L + (k+l+r) c/B", "(l+r)", "(l+r)", "0"}};
  if (scheme == "lrc") return {{"recv-ec", "(k/l)^2 c", "L + k c/(B l)", "k/l", "k/l", "0"}};
  if (scheme == "ppr" && !encode) {
    return {{"ec-send", "c", "L + c/B", "1", "1", "c"},
            {"recv-ec-send", "in c", "L + in c/B", "in", "in", "c"},
            {"recv-xor", "in c", "L + in c/B", "in", "in", "0"}};
  }
  if (scheme == "ecpipe" && !encode) {
    return {{"ec-send", "c", "L + c/B", "1", "1", "c"},
            {"recv-ec-send", "c", "L + c/B", "1", "1", "c"}};
  }
  if (scheme == "triec" && encode) {
    return {{"recv-ec-send", "m c", "L + m c/B", "m", "m", "m c"},
            {"recv-xor", "k c", "L + k c/B", "k", "k", "0"}};
  }
  if (scheme == "triec") {
    return {{"ec-send", "c", "L + c/B", "1", "1", "c"},
            {"recv-xor-send", "k c", "L + k c/B", "k", "k", "c"}};
  }
  if (!scheme.empty() && encode) return {{"ec-send", "k m c", "L + (k+m) c/B", "m", "m", "0"}};
  if (scheme == "rs") return {{"recv-ec", "k^2 c", "L + k c/B", "k", "k", "0"}};
  return {};
}

}  // namespace ring::bench
