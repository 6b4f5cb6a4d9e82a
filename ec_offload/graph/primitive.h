// ec_offload/graph/primitive.h — which INEC primitive and which calculator a vertex takes.
//
// What:      ChoosePrimitive, by in-degree, out-degree and coefficients; CopiedInput, which tells
//            outputs that are copies of an input from those that a calculator makes.
// Shape:     in-degree 0: ec-send. Out-degree 0: recv-ec. Else recv-ec-send. A vertex all of whose
//            outputs are copies computes nothing: send, recv, recv-send. Where all coefficients of
//            the other outputs are 1 the calculator is XOR, else EC.
// Threads:   pure.
// Errors:    none.
// Source:    INEC (SC'20), "Dynamic EC Graph", the rules for picking primitives. That the paper
//            calls the first layer of TriEC's encoding ec-send in one place and a plain send in
//            another is settled by its rule: no computation, no calculator.
#ifndef RING_EC_OFFLOAD_GRAPH_PRIMITIVE_H_
#define RING_EC_OFFLOAD_GRAPH_PRIMITIVE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ec_offload/graph/graph.h"

namespace ring::ec_offload {

enum class Primitive : std::uint8_t { kEcSend, kRecvEcSend, kRecvEc };
enum class CalculatorKind : std::uint8_t { kNone, kXor, kEc };

struct PrimitiveChoice {
  Primitive primitive = Primitive::kEcSend;
  CalculatorKind calculator = CalculatorKind::kNone;
  friend bool operator==(const PrimitiveChoice&, const PrimitiveChoice&) = default;
};

// The input that this output is a copy of: its only coefficient other than 0 is 1.
std::optional<std::size_t> CopiedInput(const Matrix& matrix, std::size_t output);

// The outputs that are no copies, ascending: the rows of the calculator's matrix.
std::vector<std::size_t> ComputedOutputs(const Vertex& vertex);

PrimitiveChoice ChoosePrimitive(const Vertex& vertex);

// "ec-send", "xor-send", "send", "recv-ec-send", ..., "recv".
std::string ToString(const PrimitiveChoice& choice);

}  // namespace ring::ec_offload

#endif  // RING_EC_OFFLOAD_GRAPH_PRIMITIVE_H_
