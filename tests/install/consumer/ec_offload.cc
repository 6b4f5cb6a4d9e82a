#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "ec_offload/kernels.h"
#include "ec_offload/matrix.h"

int main() {
  const ring::ec_offload::Matrix code({{1, 1}, {1, 2}});
  const auto inverse = ring::ec_offload::Invert(code);
  std::byte parity[3] = {};
  const std::byte data[3] = {std::byte{1}, std::byte{2}, std::byte{3}};
  ring::ec_offload::MultiplyAdd(parity, data, 2, sizeof(data));
  const bool good =
      inverse.has_value() &&
      ring::ec_offload::Product(code, *inverse) == ring::ec_offload::Matrix::Identity(2) &&
      parity[2] == std::byte{6};
  std::puts(good ? "ec_offload: good" : "ec_offload: wrong");
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
