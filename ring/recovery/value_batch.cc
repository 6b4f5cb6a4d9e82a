#include "ring/recovery/value_batch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/base/status.h"
#include "ring/base/wire.h"

namespace ring::recovery {

std::string EncodeValueBatch(absl::Span<const FetchRequest> requests) {
  RING_CHECK(!requests.empty() && requests.size() <= kBatchMax) << "requests=" << requests.size();
  ByteWriter writer;
  writer.Put(static_cast<std::uint16_t>(requests.size()));
  for (const FetchRequest& request : requests) writer.PutString(EncodeFetchRequest(request));
  return writer.Take();
}

absl::StatusOr<std::vector<FetchRequest>> DecodeValueBatch(absl::string_view bytes) {
  ByteReader reader(bytes);
  const std::size_t count = reader.Get<std::uint16_t>();
  if (count == 0 || count > kBatchMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("value batch of requests=", count, ", at most ", kBatchMax));
  }
  std::vector<FetchRequest> requests;
  for (std::size_t i = 0; i < count; ++i) {
    RING_ASSIGN_OR_RETURN(FetchRequest request, DecodeFetchRequest(reader.GetString()));
    if (request.kind != FetchKind::kValue || request.piece != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("value batch: request ", i, " is for another thing than a small value"));
    }
    requests.push_back(std::move(request));
  }
  if (!reader.finished()) {
    return absl::InvalidArgumentError(
        absl::StrCat("value batch of ", bytes.size(), " bytes is cut short or too long"));
  }
  return requests;
}

void AddBatchAnswer(const absl::StatusOr<std::string>& answer, std::string* bytes) {
  ByteWriter writer;
  writer.bytes() = std::move(*bytes);
  const absl::string_view body = answer.ok() ? *answer : answer.status().message();
  writer.Put(static_cast<std::uint8_t>(answer.status().code()));
  writer.Put(static_cast<std::uint32_t>(body.size()));
  writer.PutBytes(body);
  *bytes = writer.Take();
}

absl::StatusOr<std::vector<absl::StatusOr<std::string>>> DecodeBatchAnswers(absl::string_view bytes,
                                                                            std::size_t count) {
  ByteReader reader(bytes);
  std::vector<absl::StatusOr<std::string>> answers;
  for (std::size_t i = 0; i < count; ++i) {
    const auto code = static_cast<absl::StatusCode>(reader.Get<std::uint8_t>());
    std::string body(reader.GetBytes(reader.Get<std::uint32_t>()));
    if (code == absl::StatusCode::kOk) {
      answers.emplace_back(std::move(body));
    } else {
      answers.emplace_back(absl::Status(code, body));
    }
  }
  if (!reader.finished()) {
    return absl::InvalidArgumentError(absl::StrCat("answers to ", count, " requests of ",
                                                   bytes.size(), " bytes: cut short or too long"));
  }
  return answers;
}

}  // namespace ring::recovery
