#include "ec_offload/graph/layout.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ring/base/check.h"

namespace ring::ec_offload {
namespace {

using gf256::Element;

// What one helper does for one wanted chunk.
struct Term {
  ChunkPlace place;
  Element factor = 0;
};

std::vector<Term> TermsOf(const Combination& combination, std::size_t wanted) {
  std::vector<Term> terms;
  for (std::size_t h = 0; h < combination.helpers.size(); ++h) {
    const Element factor = combination.factors.At(wanted, h);
    if (factor != 0) terms.push_back({combination.helpers[h], factor});
  }
  return terms;
}

Matrix Ones(std::size_t columns) {
  Matrix ones(1, columns);
  for (std::size_t c = 0; c < columns; ++c) ones.At(0, c) = 1;
  return ones;
}

std::vector<ChunkId> FirstChunks(std::size_t count) {
  std::vector<ChunkId> chunks(count);
  std::iota(chunks.begin(), chunks.end(), ChunkId{0});
  return chunks;
}

// A vertex that holds the agent's k chunks.
std::size_t AddAgent(GraphBuilder& builder, NodeId agent, Matrix matrix) {
  std::vector<ChunkId> chunks = FirstChunks(matrix.columns());
  for (const ChunkId chunk : chunks) builder.AddSource({agent, chunk});
  return builder.AddVertex(agent, builder.whole_chunk(), std::move(chunks), std::move(matrix));
}

std::size_t AddReader(GraphBuilder& builder, ByteRange range, ChunkPlace place, Matrix matrix) {
  builder.AddSource(place);
  return builder.AddVertex(place.node, range, {place.chunk}, std::move(matrix));
}

// factor times the own chunk, plus `incoming_count` partial sums.
std::size_t AddPartialSum(GraphBuilder& builder, ByteRange range, const Term& term,
                          std::size_t incoming_count) {
  Matrix matrix = Ones(1 + incoming_count);
  matrix.At(0, 0) = term.factor;
  return AddReader(builder, range, term.place, std::move(matrix));
}

void AddSlice(GraphBuilder& builder, ByteRange range, absl::Span<const Term> terms,
              ChunkPlace result) {
  std::size_t last = AddPartialSum(builder, range, terms[0], 0);
  for (const Term& term : terms.subspan(1)) {
    const std::size_t next = AddPartialSum(builder, range, term, 1);
    builder.Connect(last, 0, next);
    last = next;
  }
  const std::size_t root = builder.AddVertex(result.node, range, {}, Ones(1));
  builder.Connect(last, 0, root);
  builder.Keep(root, 0, result.chunk);
}

}  // namespace

void AddScatter(GraphBuilder& builder, NodeId agent, const Matrix& generator,
                absl::Span<const ChunkPlace> targets) {
  const std::size_t from = AddAgent(builder, agent, generator);
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const std::size_t to = builder.AddVertex(targets[t].node, builder.whole_chunk(), {}, Ones(1));
    builder.Connect(from, t, to);
    builder.Keep(to, 0, targets[t].chunk);
  }
}

void AddTripartiteEncode(GraphBuilder& builder, NodeId agent, const Matrix& generator,
                         absl::Span<const ChunkPlace> targets) {
  const std::size_t k = generator.columns();
  const std::size_t from = AddAgent(builder, agent, Matrix::Identity(k));
  std::vector<std::size_t> parities;
  for (std::size_t p = k; p < targets.size(); ++p) {
    parities.push_back(builder.AddVertex(targets[p].node, builder.whole_chunk(), {}, Ones(k)));
    builder.Keep(parities.back(), 0, targets[p].chunk);
  }
  for (std::size_t j = 0; j < k; ++j) {
    Matrix products = Matrix::Identity(1);
    for (std::size_t p = k; p < targets.size(); ++p)
      products.AppendRow(generator.Row(p).subspan(j, 1));
    const std::size_t data =
        builder.AddVertex(targets[j].node, builder.whole_chunk(), {}, std::move(products));
    builder.Connect(from, j, data);
    builder.Keep(data, 0, targets[j].chunk);
    for (std::size_t i = 0; i < parities.size(); ++i) builder.Connect(data, 1 + i, parities[i]);
  }
}

void AddStar(GraphBuilder& builder, const Combination& combination, NodeId root) {
  const std::size_t to = builder.AddVertex(root, builder.whole_chunk(), {}, combination.factors);
  for (std::size_t i = 0; i < combination.wanted.size(); ++i)
    builder.Keep(to, i, combination.wanted[i]);
  for (const ChunkPlace& place : combination.helpers)
    builder.Connect(AddReader(builder, builder.whole_chunk(), place, Ones(1)), 0, to);
}

void AddBinomialTree(GraphBuilder& builder, const Combination& combination, NodeId root) {
  for (std::size_t i = 0; i < combination.wanted.size(); ++i) {
    const std::vector<Term> terms = TermsOf(combination, i);
    // Participant 0 is the root, the others are helpers; the parent of p is p without its lowest
    // bit.
    std::vector<std::size_t> child_counts(terms.size() + 1, 0);
    for (std::size_t p = 1; p <= terms.size(); ++p) ++child_counts[p & (p - 1)];
    std::vector<std::size_t> vertices = {
        builder.AddVertex(root, builder.whole_chunk(), {}, Ones(child_counts[0]))};
    builder.Keep(vertices[0], 0, combination.wanted[i]);
    for (std::size_t p = 1; p <= terms.size(); ++p) {
      vertices.push_back(
          AddPartialSum(builder, builder.whole_chunk(), terms[p - 1], child_counts[p]));
    }
    for (std::size_t p = 1; p <= terms.size(); ++p)
      builder.Connect(vertices[p], 0, vertices[p & (p - 1)]);
  }
}

void AddChain(GraphBuilder& builder, const Combination& combination, NodeId root,
              std::size_t slice_size, ChainOrder order) {
  RING_CHECK(slice_size > 0) << "a chunk has no slices of size 0";
  for (std::size_t i = 0; i < combination.wanted.size(); ++i) {
    const std::vector<Term> terms = TermsOf(combination, i);
    if (terms.empty()) continue;
    std::size_t slice = 0;
    for (std::size_t at = 0; at < builder.chunk_size(); at += slice_size, ++slice) {
      std::vector<Term> ordered = terms;
      if (order == ChainOrder::kCyclic && terms.size() > 1) {
        const std::size_t first = slice % (terms.size() - 1);
        std::rotate(ordered.begin(), ordered.begin() + static_cast<std::ptrdiff_t>(first),
                    ordered.end());
      }
      const ByteRange range{at, std::min(slice_size, builder.chunk_size() - at)};
      AddSlice(builder, range, ordered, {root, combination.wanted[i]});
    }
  }
}

void AddTripartiteDecode(GraphBuilder& builder, const Combination& combination,
                         const Aggregators& aggregators, NodeId root) {
  const std::size_t count = combination.wanted.size();
  RING_CHECK(aggregators.nodes.size() == count) << aggregators.nodes.size() << " for " << count;
  const std::size_t to =
      builder.AddVertex(root, builder.whole_chunk(), {}, Matrix::Identity(count));
  std::vector<std::size_t> sums;
  for (std::size_t i = 0; i < count; ++i) {
    sums.push_back(builder.AddVertex(aggregators.nodes[i], builder.whole_chunk(), {},
                                     Ones(TermsOf(combination, i).size())));
    builder.Connect(sums[i], 0, to);
    if (aggregators.keep) builder.Keep(sums[i], 0, combination.wanted[i]);
    builder.Keep(to, i, combination.wanted[i]);
  }
  for (std::size_t h = 0; h < combination.helpers.size(); ++h) {
    Matrix products;
    std::vector<std::size_t> takers;
    for (std::size_t i = 0; i < count; ++i) {
      if (combination.factors.At(i, h) == 0) continue;
      products.AppendRow(combination.factors.Row(i).subspan(h, 1));
      takers.push_back(sums[i]);
    }
    const std::size_t from =
        AddReader(builder, builder.whole_chunk(), combination.helpers[h], std::move(products));
    for (std::size_t o = 0; o < takers.size(); ++o) builder.Connect(from, o, takers[o]);
  }
}

}  // namespace ring::ec_offload
