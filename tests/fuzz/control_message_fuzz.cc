// What a peer may send on a control connection: chunks, their assembly, and the bodies of all
// messages.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "ring/base/check.h"
#include "ring/cluster/view.h"
#include "ring/node/control/control_change.h"
#include "ring/node/control/control_message.h"
#include "ring/node/control/drain_message.h"
#include "ring/node/scrub/scrub_message.h"
#include "ring/node/stats.h"
#include "ring/recovery/block_message.h"
#include "ring/recovery/partial_message.h"

namespace {

using ring::node::ControlAssembler;

// The input as a stream of chunks, each behind a byte that says its length in 16 bytes.
void Assemble(absl::string_view bytes) {
  ControlAssembler assembler;
  while (!bytes.empty()) {
    const std::size_t size = std::min<std::size_t>(
        static_cast<std::uint8_t>(bytes[0]) * std::size_t{16}, bytes.size() - 1);
    const auto chunk = ring::node::DecodeControlChunk(bytes.substr(1, size));
    bytes.remove_prefix(1 + size);
    if (!chunk.ok()) continue;
    const absl::StatusOr<bool> whole = assembler.Add(*chunk);
    if (!whole.ok()) return;
    if (*whole) RING_CHECK(assembler.body().size() == assembler.header().total);
  }
}

template <class T, class Encode>
void RoundTrip(absl::string_view bytes, const absl::StatusOr<T>& decoded, Encode encode) {
  if (decoded.ok()) RING_CHECK(encode(*decoded) == bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ring::node;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  Assemble(bytes);
  const auto encode = [](const auto& message) { return EncodeScrub(message); };
  RoundTrip(bytes, DecodeScrubVersions(bytes), encode);
  RoundTrip(bytes, DecodeScrubFindings(bytes), encode);
  const auto encode_block = [](const auto& message) { return ring::recovery::Encode(message); };
  RoundTrip(bytes, ring::recovery::DecodeFreezeRequest(bytes), encode_block);
  RoundTrip(bytes, ring::recovery::DecodeFreezeAnswer(bytes), encode_block);
  RoundTrip(bytes, ring::recovery::DecodeDecodeRequest(bytes), encode_block);
  RoundTrip(bytes, ring::recovery::DecodeDecodeAnswer(bytes), encode_block);
  RoundTrip(bytes, ring::recovery::DecodeRowRequest(bytes), encode_block);
  RoundTrip(bytes, ring::recovery::DecodePartialRequest(bytes), encode_block);
  (void)DecodeScrubState(bytes);  // long texts are cut when they are sent again
  RoundTrip(bytes, DecodeScrubNumber(bytes), EncodeScrubNumber);
  RoundTrip(bytes, DecodeReport(bytes), EncodeReport);
  RoundTrip(bytes, DecodeDrainRequest(bytes), EncodeDrainRequest);
  RoundTrip(bytes, DecodeDrainAnswer(bytes), EncodeDrainAnswer);
  (void)DecodeChange(bytes);  // as are names
  return 0;
}
