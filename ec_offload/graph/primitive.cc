#include "ec_offload/graph/primitive.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ring::ec_offload {

std::optional<std::size_t> CopiedInput(const Matrix& matrix, std::size_t output) {
  std::optional<std::size_t> copied;
  for (std::size_t c = 0; c < matrix.columns(); ++c) {
    const gf256::Element coefficient = matrix.At(output, c);
    if (coefficient == 0) continue;
    if (coefficient != 1 || copied.has_value()) return std::nullopt;
    copied = c;
  }
  return copied;
}

std::vector<std::size_t> ComputedOutputs(const Vertex& vertex) {
  std::vector<std::size_t> computed;
  for (std::size_t o = 0; o < vertex.matrix.rows(); ++o) {
    if (!CopiedInput(vertex.matrix, o).has_value()) computed.push_back(o);
  }
  return computed;
}

PrimitiveChoice ChoosePrimitive(const Vertex& vertex) {
  PrimitiveChoice choice;
  if (vertex.in_degree() > 0) {
    choice.primitive = vertex.out_degree() == 0 ? Primitive::kRecvEc : Primitive::kRecvEcSend;
  }
  const std::vector<std::size_t> computed = ComputedOutputs(vertex);
  if (computed.empty()) return choice;
  const bool all_ones = std::all_of(computed.begin(), computed.end(), [&](std::size_t o) {
    const auto row = vertex.matrix.Row(o);
    return std::all_of(row.begin(), row.end(), [](gf256::Element e) { return e == 1; });
  });
  choice.calculator = all_ones ? CalculatorKind::kXor : CalculatorKind::kEc;
  return choice;
}

std::string ToString(const PrimitiveChoice& choice) {
  absl::string_view calculator;
  if (choice.calculator == CalculatorKind::kXor) calculator = "xor";
  if (choice.calculator == CalculatorKind::kEc) calculator = "ec";
  const absl::string_view dash = calculator.empty() ? "" : "-";
  switch (choice.primitive) {
    case Primitive::kEcSend:
      return absl::StrCat(calculator, dash, "send");
    case Primitive::kRecvEcSend:
      return absl::StrCat("recv-", calculator, dash, "send");
    case Primitive::kRecvEc:
      break;
  }
  return absl::StrCat("recv", dash, calculator);
}

}  // namespace ring::ec_offload
