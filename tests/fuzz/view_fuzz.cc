// Any bytes as a view, a catalogue command and a catalogue: an error, or something valid that
// encodes to the same bytes.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "ring/base/check.h"
#include "ring/cluster/catalogue.h"
#include "ring/cluster/view.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ring::cluster;
  if (size == 0) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::string copy(bytes.data(), bytes.size());
  switch (data[0] % 3) {
    case 0:
      if (const auto view = DecodeView(bytes); view.ok()) {
        RING_CHECK(view->Validate().ok());
        RING_CHECK(EncodeView(*view) == copy);
        RING_CHECK(EncodeCatalogue(Catalogue(*view)).size() < copy.size());
      }
      break;
    case 1:
      ring::testing::RoundTrip(bytes, DecodeCommand, EncodeCommand);
      break;
    default:
      if (const auto catalogue = DecodeCatalogue(3, 2, bytes); catalogue.ok()) {
        RING_CHECK(EncodeCatalogue(*catalogue) == copy);
      }
      break;
  }
  return 0;
}
