// In the build of the mutants every test program runs with the bug switches that RING_MUTANT names:
// one, or two with a '+' between them.
#include <cstdlib>
#include <string>

#include "ring/base/mutant.h"

namespace ring {
namespace {

[[maybe_unused]] const bool is_set = [] {
  const char* const named = std::getenv("RING_MUTANT");
  if (named == nullptr) return false;
  static std::string first = named;
  static std::string second;
  const std::size_t plus = first.find('+');
  if (plus != std::string::npos) {
    second = first.substr(plus + 1);
    first.resize(plus);
  }
  SetMutant(first.c_str(), second.c_str());
  return true;
}();

}  // namespace
}  // namespace ring
