// ring/recovery/value_batch.h — several small values that are asked for, and answered, at once.
//
// What:      A batch of FetchRequests of kind kValue, of values of at most kBatchedSizeMax bytes,
//            and the answers to it: of each the bytes of its own answer, or why there is none. What
//            a message costs is paid once for all of them.
// Shape:     bodies of control messages; integers little-endian, no padding:
//            requests  u16 n, n * (u16 length, the request)
//            answers   n * (u8 code, u32 length, the answer, or the message if code is not 0), in
//                      the order of the requests
// Ownership: values; answers that were decoded refer to nothing.
// Threads:   pure.
// Errors:    Decode*: kInvalidArgument naming the field.
// Cost:      one allocation for each answer that is decoded.
// Source:    Ring section 5.5; S5.
#ifndef RING_RECOVERY_VALUE_BATCH_H_
#define RING_RECOVERY_VALUE_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ring/recovery/fetch_message.h"

namespace ring::recovery {

inline constexpr std::size_t kBatchMax = 64;  // requests
inline constexpr std::uint32_t kBatchedSizeMax = 4096;

// REQUIRES: 1 to kBatchMax of them.
std::string EncodeValueBatch(absl::Span<const FetchRequest> requests);
absl::StatusOr<std::vector<FetchRequest>> DecodeValueBatch(absl::string_view bytes);
// Appends the next answer.
void AddBatchAnswer(const absl::StatusOr<std::string>& answer, std::string* bytes);
// So many answers.
absl::StatusOr<std::vector<absl::StatusOr<std::string>>> DecodeBatchAnswers(absl::string_view bytes,
                                                                            std::size_t count);

}  // namespace ring::recovery

#endif  // RING_RECOVERY_VALUE_BATCH_H_
