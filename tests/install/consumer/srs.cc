#include <cstdio>
#include <cstdlib>

#include "srs/layout.h"

int main() {
  const auto layout = ring::srs::Layout::Create({.k = 2, .m = 1, .s = 3});
  const bool good = layout.ok() && layout->stripe_block_count() == 6 && layout->row_count() == 3;
  std::puts(good ? "srs: good" : "srs: wrong");
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
