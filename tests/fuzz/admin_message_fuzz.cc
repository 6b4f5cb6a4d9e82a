// What the operators' service is asked, and what its client is answered: bytes that are a protobuf
// message, whose fields say anything.
#include <google/protobuf/stubs/logging.h>

#include <cstddef>
#include <cstdint>

#include "api/admin/convert.h"
#include "api/admin/convert_fault.h"
#include "ring/base/check.h"

namespace {

namespace v1 = ring::admin::v1;
using ring::admin::FromProto;
using ring::admin::ToProto;

template <class Message>
bool Parse(const std::uint8_t* data, std::size_t size, Message* message) {
  return message->ParseFromArray(data, static_cast<int>(size));
}

// What was understood says the same again.
template <class Message, class Again>
void RoundTrip(const std::uint8_t* data, std::size_t size, Again again) {
  Message message;
  if (!Parse(data, size, &message)) return;
  const auto read = FromProto(message);
  if (!read.ok()) {
    RING_CHECK(!read.status().message().empty());
    return;
  }
  const Message said = again(*read);
  const auto twice = FromProto(said);
  RING_CHECK(twice.ok()) << twice.status();
  RING_CHECK(again(*twice).SerializeAsString() == said.SerializeAsString());
}

// Of messages in which every value has a meaning.
template <class Message>
void Answer(const std::uint8_t* data, std::size_t size) {
  Message message;
  if (!Parse(data, size, &message)) return;
  const Message said = ToProto(FromProto(message));
  RING_CHECK(ToProto(FromProto(said)).SerializeAsString() == said.SerializeAsString());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  google::protobuf::SetLogHandler(nullptr);  // it has a word for each text that is no UTF-8
  const std::uint8_t kind = data[0];
  ++data;
  --size;
  const auto plain = [](const auto& value) { return ToProto(value); };
  switch (kind % 10) {
    case 0:
      RoundTrip<v1::MemgestSpec>(data, size, plain);
      break;
    case 1:
      RoundTrip<v1::Memgest>(data, size, [](const auto& m) { return ToProto(m, m.id); });
      break;
    case 2:
      RoundTrip<v1::GetClusterViewResponse>(data, size, plain);
      break;
    case 3:
      Answer<v1::GetStatsResponse>(data, size);
      break;
    case 4:
      Answer<v1::GetHealthResponse>(data, size);
      break;
    case 5:
      RoundTrip<v1::AcceptLossRequest>(data, size, plain);
      break;
    case 6:
      Answer<v1::NodeEvents>(data, size);
      break;
    case 7:
      Answer<v1::ScrubReport>(data, size);
      break;
    case 8:
      RoundTrip<v1::InjectRequest>(data, size,
                                   [](const auto& fault) { return ToProto("n", fault); });
      break;
    case 9:
      RoundTrip<v1::GetDeviceFaultsResponse>(data, size, plain);
      break;
  }
  return 0;
}
