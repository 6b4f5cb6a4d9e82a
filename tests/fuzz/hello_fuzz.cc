// Private data of a connection, and the descriptors of a view: what a stranger may send.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "ring/base/check.h"
#include "ring/protocol/hello.h"
#include "ring/protocol/memgest_descriptor.h"

namespace {

template <class T>
void RoundTrip(absl::string_view bytes) {
  const absl::StatusOr<T> hello = ring::protocol::DecodeHello<T>(bytes);
  if (hello.ok()) RING_CHECK(ring::protocol::EncodeHello(*hello) == bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace protocol = ring::protocol;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  RoundTrip<protocol::ClientHello>(bytes);
  RoundTrip<protocol::ClientAccept>(bytes);
  RoundTrip<protocol::LogHello>(bytes);
  RoundTrip<protocol::LogAccept>(bytes);
  RoundTrip<protocol::ControlHello>(bytes);
  RoundTrip<protocol::ControlAccept>(bytes);
  RoundTrip<protocol::WordHello>(bytes);
  RoundTrip<protocol::WordAccept>(bytes);
  absl::string_view in = bytes;
  const absl::StatusOr<protocol::MemgestDescriptor> descriptor =
      protocol::ConsumeMemgestDescriptor(&in);
  if (descriptor.ok()) {
    std::string again;
    protocol::AppendMemgestDescriptor(*descriptor, &again);
    RING_CHECK(again == bytes.substr(0, bytes.size() - in.size()));
    (void)descriptor->Validate(3, 2);
    (void)descriptor->SchemeName();
  }
  return 0;
}
