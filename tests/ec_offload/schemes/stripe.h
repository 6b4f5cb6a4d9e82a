// tests/ec_offload/schemes/stripe.h — the chunks of a stripe, and whether graphs give them.
//
// What:      Stripe: random data, and all chunks of it by the definition of the code, one product
//            after another. RunsRight: a graph's results are the stripe's chunks.
// Ownership: values.
// Threads:   one.
// Errors:    test failures.
#ifndef RING_TESTS_EC_OFFLOAD_SCHEMES_STRIPE_H_
#define RING_TESTS_EC_OFFLOAD_SCHEMES_STRIPE_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "ec_offload/graph/memory_run.h"
#include "ec_offload/schemes/scheme.h"
#include "ec_offload/subsets.h"
#include "gtest/gtest.h"
#include "tests/ec_offload/random_blocks.h"
#include "tests/support/random_seed.h"

namespace ring::ec_offload {

class Stripe {
 public:
  Stripe(const Code& code, std::size_t chunk_size) : chunk_size_(chunk_size) {
    SeededRandom random(testing::SeedFor(code.name));
    chunks_ = RandomBlocks(random, code.data_count(), chunk_size);
    for (std::size_t row = code.data_count(); row < code.chunk_count(); ++row) {
      std::vector<std::byte> parity(chunk_size);
      for (std::size_t i = 0; i < chunk_size; ++i) {
        unsigned sum = 0;
        for (std::size_t c = 0; c < code.data_count(); ++c) {
          sum ^= MultiplyByte(code.field, code.generator.At(row, c),
                              std::to_integer<std::uint8_t>(chunks_[c][i]));
        }
        parity[i] = static_cast<std::byte>(sum);
      }
      chunks_.push_back(std::move(parity));
    }
  }

  std::size_t chunk_size() const { return chunk_size_; }
  const std::vector<std::byte>& chunk(ChunkId chunk) const { return chunks_[chunk]; }

 private:
  std::size_t chunk_size_;
  Blocks chunks_;
};

// Runs the graph with nothing in memory but its sources.
inline ::testing::AssertionResult RunsRight(const absl::StatusOr<Graph>& graph,
                                            const Stripe& stripe) {
  if (!graph.ok()) return ::testing::AssertionFailure() << graph.status();
  StripeMemory memory;
  for (const ChunkPlace& place : graph->sources()) memory[place] = stripe.chunk(place.chunk);
  if (const absl::Status status = RunInMemory(*graph, memory); !status.ok())
    return ::testing::AssertionFailure() << status;
  for (const ChunkPlace& place : graph->results()) {
    if (memory.at(place) == stripe.chunk(place.chunk)) continue;
    return ::testing::AssertionFailure()
           << "chunk " << place.chunk << " at node " << place.node << " is wrong";
  }
  return ::testing::AssertionSuccess();
}

// Every source is a chunk that is not lost, at its home.
inline bool ReadsSurvivorsAlone(const Graph& graph, std::uint64_t lost) {
  for (const ChunkPlace& place : graph.sources()) {
    if (place.node != place.chunk || ((lost >> place.chunk) & 1) != 0) return false;
  }
  return true;
}

inline std::vector<ChunkId> ChunksOf(std::uint64_t subset) {
  const std::vector<std::size_t> bits = BitsOf(subset);
  return {bits.begin(), bits.end()};
}

}  // namespace ring::ec_offload

#endif  // RING_TESTS_EC_OFFLOAD_SCHEMES_STRIPE_H_
