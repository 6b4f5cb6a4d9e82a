#include "srs/reliability.h"

#include <algorithm>
#include <bit>

#include "ring/base/status.h"
#include "srs/decode_plan.h"
#include "srs/generator.h"
#include "srs/layout.h"

namespace ring::srs {
namespace {

// Whether a row with these losses is decodable, by rank; each question is asked many times.
class RowOracle {
 public:
  explicit RowOracle(const ec_offload::Matrix& generator)
      : generator_(generator),
        answers_(std::size_t{1} << (generator.columns() + generator.rows()), kUnknown) {}

  bool Decodable(std::uint32_t lost_columns, std::uint32_t lost_parities) {
    std::int8_t& answer = answers_[lost_columns | (lost_parities << generator_.columns())];
    if (answer == kUnknown) answer = RowDecodable(generator_, lost_columns, lost_parities) ? 1 : 0;
    return answer == 1;
  }

 private:
  static constexpr std::int8_t kUnknown = -1;
  const ec_offload::Matrix& generator_;
  std::vector<std::int8_t> answers_;
};

}  // namespace

absl::StatusOr<std::vector<PatternCount>> CountPatterns(const SrsParameters& parameters) {
  RING_ASSIGN_OR_RETURN(const Layout layout, Layout::Create(parameters));
  RING_ASSIGN_OR_RETURN(const ec_offload::Matrix generator,
                        MakeGenerator(parameters.k, parameters.m));
  RowOracle oracle(generator);
  const std::uint32_t nodes = parameters.s + parameters.m;
  std::vector<PatternCount> counts(nodes + 1);
  std::vector<std::array<std::uint32_t, kGeneratorColumnCountMax>> shards(layout.row_count());
  for (std::uint32_t p = 0; p < layout.row_count(); ++p) {
    for (std::uint32_t c = 0; c < parameters.k; ++c) shards[p][c] = layout.BlockOf(0, p, c).shard;
  }
  for (std::uint32_t pattern = 0; pattern < (1U << nodes); ++pattern) {
    PatternCount& count = counts[static_cast<std::size_t>(std::popcount(pattern))];
    ++count.total;
    const std::uint32_t lost_parities = pattern >> parameters.s;
    const bool survivable = std::all_of(shards.begin(), shards.end(), [&](const auto& row) {
      std::uint32_t lost_columns = 0;
      for (std::uint32_t c = 0; c < parameters.k; ++c)
        lost_columns |= ((pattern >> row[c]) & 1) << c;
      return oracle.Decodable(lost_columns, lost_parities);
    });
    if (survivable) ++count.survivable;
  }
  return counts;
}

}  // namespace ring::srs
