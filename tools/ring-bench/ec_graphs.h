// tools/ring-bench/ec_graphs.h — the graphs that ring-bench ec runs.
//
// What:      MakeEcGraph: an operation of a scheme, or of one primitive with the smallest graph in
//            which it stands; TableTermsOf, what INEC's Table I says about its cost.
// Units:     bytes.
// Threads:   pure.
// Errors:    kInvalidArgument: parameters that make no code or graph.
// Source:    INEC (SC'20), figure 1, table I.
#ifndef RING_TOOLS_RING_BENCH_EC_GRAPHS_H_
#define RING_TOOLS_RING_BENCH_EC_GRAPHS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ec_offload/graph/graph.h"

namespace ring::bench {

struct EcWork {
  std::string scheme;     // "rs", "lrc", "ppr", "ecpipe", "triec"; or empty,
  std::string primitive;  // and "ec-send", "recv-ec-send", "recv-ec"
  std::string operation;  // of a scheme: "encode", "decode"
  std::size_t k = 3;
  std::size_t m = 2;  // lrc: global parities
  std::size_t l = 2;
  std::size_t losses = 1;  // decode: the first chunks
  std::size_t slice_size = 32 * 1024;
};

// "TriEC(6,3) decode", "recv-ec of 6 chunks".
std::string EcWorkName(const EcWork& work);

absl::StatusOr<ec_offload::Graph> MakeEcGraph(const EcWork& work, std::size_t chunk_size);

// Chunks that an operation makes: INEC's bandwidth is their bytes over time.
std::size_t GeneratedChunks(const EcWork& work);

// A row of Table I, in its letters.
struct TableTerms {
  std::string primitive;
  std::string operations;
  std::string communication;
  std::string states;
  std::string cpu_involvement;
  std::string dma;
};
// Empty where the table has no row: encoding with PPR and ECPipe is that of RS.
std::vector<TableTerms> TableTermsOf(const EcWork& work);

}  // namespace ring::bench

#endif  // RING_TOOLS_RING_BENCH_EC_GRAPHS_H_
