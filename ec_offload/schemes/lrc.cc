#include "ec_offload/schemes/lrc.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ec_offload/graph/layout.h"
#include "ec_offload/schemes/code.h"
#include "ec_offload/subsets.h"
#include "ring/base/status.h"

namespace ring::ec_offload {
namespace {

using gf256::Element;

// Sets of l + r lost chunks that are tried: a second, at most.
constexpr std::uint64_t kLossSetCountMax = 200'000;

// Of n things, sets of `size`; kLossSetCountMax + 1 for all that are more.
std::uint64_t CountSets(std::uint64_t n, std::uint64_t size) {
  std::uint64_t count = 1;
  for (std::uint64_t i = 1; i <= size && count <= kLossSetCountMax; ++i)
    count = count * (n - size + i) / i;
  return count;
}

absl::Status CheckParameters(const Code& code, const LrcParameters& p) {
  const std::size_t limit = ElementCount(p.field);
  const bool in_range =
      p.k >= 1 && p.l >= 1 && p.r >= 1 && p.k < limit && p.l <= p.k && p.r <= limit;
  if (!in_range || p.k % p.l != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(code.name, ": k, l, r are at least 1, l divides k, k is below ", limit));
  }
  // Above 64 chunks there are more sets than are tried.
  if (p.k + p.l + p.r > 63 || CountSets(p.k + p.l + p.r, p.l + p.r) > kLossSetCountMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(code.name, ": more than ", kLossSetCountMax, " sets of l + r = ", p.l + p.r,
                     " losses: nobody knows whether it repairs them all"));
  }
  return absl::OkStatus();
}

Matrix MakeGenerator(const LrcParameters& p) {
  Matrix generator = Matrix::Identity(p.k);
  for (std::size_t g = 0; g < p.l; ++g) {
    std::vector<Element> row(p.k, 0);
    for (std::size_t j = 0; j < p.k / p.l; ++j) row[g * (p.k / p.l) + j] = 1;
    generator.AppendRow(row);
  }
  std::vector<Element> row(p.k, 1);
  for (std::size_t j = 1; j < p.k; ++j) row[j] = Multiply(p.field, row[j - 1], 2);
  for (std::size_t e = 0; e < p.r; ++e) {
    generator.AppendRow(row);
    for (Element& element : row) element = Multiply(p.field, element, element);
  }
  return generator;
}

class LossSet {
 public:
  LossSet(const LrcParameters& parameters, std::uint64_t chunks)
      : parameters_(parameters), chunks_(chunks) {}

  bool Has(std::size_t chunk) const { return ((chunks_ >> chunk) & 1) != 0; }

  // Of l + r losses: every group repairs one of its own, and the globals the other r.
  bool RepairableInPrinciple() const {
    const std::size_t size = parameters_.k / parameters_.l;
    for (std::size_t g = 0; g < parameters_.l; ++g) {
      bool any = Has(parameters_.k + g);
      for (std::size_t j = 0; j < size; ++j) any |= Has(g * size + j);
      if (!any) return false;
    }
    return true;
  }

  // The parities that are left determine the data that is lost.
  bool Repairable(const Code& code) const {
    std::vector<std::size_t> data;
    std::vector<std::size_t> parities;
    for (std::size_t c = 0; c < code.chunk_count(); ++c) {
      if (c < code.data_count() && Has(c)) data.push_back(c);
      if (c >= code.data_count() && !Has(c)) parities.push_back(c);
    }
    const Matrix left = code.generator.SelectRows(parities).SelectColumns(data);
    return Rank(left, code.field) == data.size();
  }

 private:
  const LrcParameters& parameters_;
  std::uint64_t chunks_;
};

// Every smaller set that can be repaired is within one of these.
absl::Status CheckComplete(const Code& code, const LrcParameters& p) {
  const std::uint64_t end = std::uint64_t{1} << code.chunk_count();
  for (std::uint64_t chunks = FirstSubset(p.l + p.r); chunks < end; chunks = NextSubset(chunks)) {
    const LossSet losses(p, chunks);
    if (losses.RepairableInPrinciple() && !losses.Repairable(code)) {
      const std::vector<std::size_t> lost = BitsOf(chunks);
      return absl::InvalidArgumentError(
          absl::StrCat(code.name, " over a field of ", ElementCount(code.field),
                       " elements does not repair the loss of ",
                       ChunkNames(std::vector<ChunkId>(lost.begin(), lost.end())),
                       ", which a code of its shape can: give a larger field, or fewer chunks"));
    }
  }
  return absl::OkStatus();
}

// The wanted chunks of a combination that need each other's helpers, set by set.
std::vector<std::vector<std::size_t>> SetsThatShareHelpers(const Combination& combination) {
  // One wanted chunk of a set stands for it.
  std::vector<std::size_t> set_of(combination.wanted.size());
  std::iota(set_of.begin(), set_of.end(), std::size_t{0});
  for (std::size_t h = 0; h < combination.helpers.size(); ++h) {
    std::size_t first = set_of.size();
    for (std::size_t i = 0; i < set_of.size(); ++i) {
      if (combination.factors.At(i, h) == 0) continue;
      if (first == set_of.size()) first = set_of[i];
      const std::size_t joined = set_of[i];
      for (std::size_t& set : set_of) {
        if (set == joined) set = first;
      }
    }
  }
  std::vector<std::vector<std::size_t>> sets(set_of.size());
  for (std::size_t i = 0; i < set_of.size(); ++i) sets[set_of[i]].push_back(i);
  std::erase_if(sets, [](const auto& set) { return set.empty(); });
  return sets;
}

Combination Part(const Combination& combination, const std::vector<std::size_t>& wanted) {
  Combination part;
  for (const std::size_t i : wanted) part.wanted.push_back(combination.wanted[i]);
  std::vector<std::size_t> columns;
  for (std::size_t h = 0; h < combination.helpers.size(); ++h) {
    const auto needs = [&](std::size_t i) { return combination.factors.At(i, h) != 0; };
    if (std::any_of(wanted.begin(), wanted.end(), needs)) columns.push_back(h);
  }
  part.factors = combination.factors.SelectRows(wanted).SelectColumns(columns);
  for (const std::size_t h : columns) part.helpers.push_back(combination.helpers[h]);
  return part;
}

class LrcScheme final : public Scheme {
 public:
  explicit LrcScheme(Code code) : Scheme(std::move(code)) {}

 private:
  // A group that repairs itself is a star of its own: its calculator is XOR, and it waits for
  // nobody else.
  void AddRepair(GraphBuilder& builder, const Repair& repair) const override {
    for (const std::vector<std::size_t>& wanted : SetsThatShareHelpers(repair.combination))
      AddStar(builder, Part(repair.combination, wanted), repair.root);
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Scheme>> MakeLrcScheme(const LrcParameters& parameters) {
  Code code;
  code.name = absl::StrCat("LRC(", parameters.k, ",", parameters.l, ",", parameters.r, ")");
  code.field = parameters.field;
  RING_RETURN_IF_ERROR(CheckParameters(code, parameters));
  code.generator = MakeGenerator(parameters);
  RING_RETURN_IF_ERROR(CheckComplete(code, parameters));
  return std::make_unique<LrcScheme>(std::move(code));
}

}  // namespace ring::ec_offload
