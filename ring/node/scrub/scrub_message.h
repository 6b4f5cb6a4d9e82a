// ring/node/scrub/scrub_message.h — bodies of the control messages of a scrub.
//
// What:      Versions (a coordinator to a member), Poll. Blocks at a cut:
//            ring/recovery/block_message.h.
// Shape:     the fields in order, little-endian.
// Ownership: values.
// Threads:   pure.
// Errors:    Decode: kInvalidArgument.
#ifndef RING_NODE_SCRUB_SCRUB_MESSAGE_H_
#define RING_NODE_SCRUB_SCRUB_MESSAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ring/base/id.h"
#include "ring/node/admin_port.h"
#include "ring/recovery/block_message.h"

namespace ring::node {

inline constexpr std::size_t kScrubItemsMax = 64;
inline constexpr std::size_t kScrubDetailsMax = 100;
inline constexpr std::size_t kScrubDetailSizeMax = 256;

struct ScrubItem {
  std::uint32_t line = 0;
  std::uint64_t version = 0;
  std::uint32_t value_crc = 0;
  std::uint32_t value_length = 0;
};
struct ScrubVersions {
  recovery::LogName place;
  std::uint64_t index = 0;  // of the log: compare once this is folded (E3)
  std::vector<ScrubItem> items;
};
// Travels: never renumber.
enum class ScrubFinding : std::uint8_t { kMissing = 1, kOtherMetadata = 2, kOtherBytes = 3 };
struct ScrubFindings {
  struct One {
    std::uint16_t item = 0;
    ScrubFinding finding = ScrubFinding::kMissing;
  };
  std::vector<One> findings;
};

struct ScrubState {
  bool done = false;
  absl::Status status;
  ScrubProgress progress;
  ScrubReport report;
};

std::string EncodeScrub(const ScrubVersions& versions);
std::string EncodeScrub(const ScrubFindings& findings);
std::string EncodeScrub(const ScrubState& state);
std::string EncodeScrubNumber(std::uint64_t number);
absl::StatusOr<ScrubVersions> DecodeScrubVersions(absl::string_view bytes);
absl::StatusOr<ScrubFindings> DecodeScrubFindings(absl::string_view bytes);
absl::StatusOr<ScrubState> DecodeScrubState(absl::string_view bytes);
absl::StatusOr<std::uint64_t> DecodeScrubNumber(absl::string_view bytes);

}  // namespace ring::node

#endif  // RING_NODE_SCRUB_SCRUB_MESSAGE_H_
