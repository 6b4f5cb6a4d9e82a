// Any bytes as a consensus message, a configuration and a snapshot: an error, or something valid
// that encodes to the same bytes.
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "consensus/message.h"
#include "ring/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ring::consensus;
  if (size == 0) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 3) {
    case 0:
      if (const auto message = DecodeMessage(bytes); message.ok()) {
        RING_CHECK(EncodeMessage(*message) == bytes);
      }
      break;
    case 1:
      if (const auto configuration = DecodeConfiguration(bytes); configuration.ok()) {
        RING_CHECK(configuration->Validate().ok());
        RING_CHECK(EncodeConfiguration(*configuration) == bytes);
      }
      break;
    default:
      if (const auto snapshot = DecodeSnapshot(bytes); snapshot.ok()) {
        RING_CHECK(EncodeSnapshot(*snapshot) == bytes);
      }
      break;
  }
  return 0;
}
