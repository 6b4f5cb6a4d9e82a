// What a peer over an RDMA card may send apart from requests: greeting, control message, rejection.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/types/span.h"
#include "rdma/verbs/wire.h"
#include "ring/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ring::rdma::verbs;
  const auto bytes = absl::MakeConstSpan(reinterpret_cast<const std::byte*>(data), size);
  Greeting greeting;
  if (ReadGreeting(bytes, &greeting).empty())
    RING_CHECK(std::memcmp(&greeting, data, sizeof(greeting)) == 0);
  ControlMessage message;
  if (ReadControlMessage(bytes, &message).empty()) {
    const std::string text(message.data());
    ControlMessage again = message;
    again.set_data(text);
    RING_CHECK(again.data() == text && std::memcmp(&again, data, size) == 0);
  }
  const std::string reason = DecodeRejection(bytes);
  RING_CHECK(reason.size() <= size);
  const std::string encoded = EncodeRejection(reason);
  const std::string decoded =
      DecodeRejection({reinterpret_cast<const std::byte*>(encoded.data()), encoded.size()});
  RING_CHECK(decoded == reason.substr(0, decoded.size()));
  return 0;
}
