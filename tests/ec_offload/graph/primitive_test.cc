#include "ec_offload/graph/primitive.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace ring::ec_offload {
namespace {

// A vertex with as many chunks, incoming edges, and outputs; the first `sent` of these go out.
Vertex MakeVertex(std::size_t chunks, std::size_t incoming, std::size_t sent,
                  const Matrix& matrix) {
  Vertex vertex;
  vertex.chunks.resize(chunks);
  vertex.incoming.resize(incoming);
  vertex.matrix = matrix;
  vertex.outputs.resize(matrix.rows());
  for (std::size_t o = 0; o < matrix.rows(); ++o) {
    if (o < sent) {
      vertex.outputs[o].edges = {o};
    } else {
      vertex.outputs[o].kept_as = static_cast<ChunkId>(o);
    }
  }
  return vertex;
}

TEST(Primitive, IsChosenByDegreesAndCoefficients) {
  const struct {
    std::size_t chunks, incoming, sent;
    Matrix matrix;
    std::string choice;
  } kTable[] = {
      {1, 0, 1, Matrix{{1}}, "send"},
      {1, 0, 1, Matrix{{3}}, "ec-send"},
      {1, 0, 2, Matrix{{3}, {5}}, "ec-send"},
      {2, 0, 2, Matrix{{1, 0}, {0, 1}}, "send"},
      {2, 0, 3, Matrix{{1, 0}, {0, 1}, {1, 1}}, "xor-send"},
      {2, 0, 4, Matrix{{1, 0}, {0, 1}, {1, 1}, {1, 2}}, "ec-send"},
      // A sum of some inputs is none that an XOR calculator makes.
      {3, 0, 1, Matrix{{1, 1, 0}}, "ec-send"},
      {0, 1, 0, Matrix{{1}}, "recv"},
      {0, 1, 0, Matrix{{7}}, "recv-ec"},
      {0, 3, 0, Matrix{{1, 1, 1}}, "recv-xor"},
      {0, 3, 0, Matrix{{1, 1, 1}, {1, 2, 3}}, "recv-ec"},
      {1, 2, 0, Matrix{{1, 1, 1}}, "recv-xor"},
      {0, 1, 1, Matrix{{1}}, "recv-send"},
      {0, 3, 1, Matrix{{1, 1, 1}}, "recv-xor-send"},
      {1, 1, 1, Matrix{{9, 1}}, "recv-ec-send"},
      {0, 1, 2, Matrix{{4}, {6}, {1}}, "recv-ec-send"},
  };
  for (const auto& row : kTable) {
    const Vertex vertex = MakeVertex(row.chunks, row.incoming, row.sent, row.matrix);
    EXPECT_EQ(ToString(ChoosePrimitive(vertex)), row.choice) << row.matrix.ToString();
  }
}

TEST(Primitive, OutputsThatAreCopiesAreNotComputed) {
  const Matrix matrix{{0, 1, 0}, {1, 1, 0}, {0, 0, 2}, {0, 0, 0}, {1, 0, 0}};
  EXPECT_EQ(CopiedInput(matrix, 0), 1U);
  EXPECT_EQ(CopiedInput(matrix, 1), std::nullopt);
  EXPECT_EQ(CopiedInput(matrix, 2), std::nullopt);
  EXPECT_EQ(CopiedInput(matrix, 3), std::nullopt);
  EXPECT_EQ(CopiedInput(matrix, 4), 0U);
  EXPECT_EQ(ComputedOutputs(MakeVertex(3, 0, 5, matrix)), (std::vector<std::size_t>{1, 2, 3}));
}

}  // namespace
}  // namespace ring::ec_offload
