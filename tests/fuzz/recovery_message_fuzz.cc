// What a peer may send while a role is taken over or joined: the bodies of its control messages.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "ring/base/check.h"
#include "ring/recovery/fetch_message.h"
#include "ring/recovery/join_message.h"
#include "ring/recovery/seal_message.h"
#include "ring/recovery/value_batch.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

void CheckInside(absl::string_view part, absl::string_view bytes) {
  RING_CHECK(part.empty() ||
             (part.data() >= bytes.data() && part.end() <= bytes.data() + bytes.size()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ring::recovery;
  using ring::testing::RoundTrip;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  RoundTrip(bytes, DecodeSealRequest, EncodeSealRequest);
  RoundTrip(bytes, DecodeSealAnswer, EncodeSealAnswer);
  RoundTrip(bytes, DecodeFetchRequest, EncodeFetchRequest);
  RoundTrip(bytes, DecodeFetchAnswer, EncodeFetchAnswer);
  RoundTrip(bytes, DecodeInstallRequest, EncodeInstallRequest);
  RoundTrip(bytes, DecodeProgressRequest, EncodeProgressRequest);
  RoundTrip(bytes, DecodeProgressAnswer, EncodeProgressAnswer);
  RoundTrip(bytes, DecodeValueBatch,
            [](const std::vector<FetchRequest>& batch) { return EncodeValueBatch(batch); });
  for (const std::size_t count : {1, 2, 64}) {
    if (const auto answers = DecodeBatchAnswers(bytes, count); answers.ok())
      RING_CHECK(answers->size() == count);
  }
  if (const auto answer = DecodeFetchAnswer(bytes); answer.ok()) CheckInside(answer->piece, bytes);
  if (const auto install = DecodeInstallRequest(bytes); install.ok())
    CheckInside(install->piece, bytes);
  return 0;
}
