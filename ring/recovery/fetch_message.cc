#include "ring/recovery/fetch_message.h"

#include "absl/strings/str_cat.h"
#include "ring/base/wire.h"

namespace ring::recovery {

std::string EncodeFetchRequest(const FetchRequest& request) {
  ByteWriter writer;
  writer.Put(static_cast<std::uint8_t>(request.kind));
  writer.Put(request.group.value());
  writer.Put(request.shard.value());
  writer.Put(request.epoch.value());
  writer.Put(request.id);
  writer.Put(request.piece);
  writer.Put(request.index);
  writer.Put(request.line);
  writer.Put(request.version.bits());
  writer.Put(static_cast<std::uint16_t>(request.memgests.size()));
  for (const MemgestId memgest : request.memgests) writer.Put(memgest.value());
  return writer.Take();
}

absl::StatusOr<FetchRequest> DecodeFetchRequest(absl::string_view bytes) {
  ByteReader reader(bytes);
  FetchRequest request;
  const auto kind = reader.Get<std::uint8_t>();
  if (kind < 1 || kind > 3) {
    return absl::InvalidArgumentError(absl::StrCat("fetch kind=", kind, " is not known"));
  }
  request.kind = static_cast<FetchKind>(kind);
  request.group = GroupId(reader.Get<std::uint16_t>());
  request.shard = ShardId(reader.Get<std::uint16_t>());
  request.epoch = Epoch(reader.Get<std::uint32_t>());
  request.id = reader.Get<std::uint64_t>();
  request.piece = reader.Get<std::uint32_t>();
  request.index = reader.Get<std::uint64_t>();
  request.line = reader.Get<std::uint32_t>();
  request.version = Version(reader.Get<std::uint64_t>());
  const std::size_t count = reader.Get<std::uint16_t>();
  for (std::size_t i = 0; i < count && reader.ok(); ++i)
    request.memgests.emplace_back(reader.Get<std::uint16_t>());
  if (!reader.finished()) {
    return absl::InvalidArgumentError(
        absl::StrCat("fetch request of ", bytes.size(), " bytes is cut short or too long"));
  }
  const bool one = request.kind != FetchKind::kSnapshot;
  if (request.memgests.empty() || (one && request.memgests.size() != 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("fetch kind=", kind, " names memgests=", request.memgests.size()));
  }
  return request;
}

std::string EncodeFetchAnswer(const FetchAnswer& answer) {
  std::string bytes;
  bytes.reserve(answer.piece.size() + kFetchTrailerSize);
  bytes.append(answer.piece.data(), answer.piece.size());
  EndFetchAnswer(answer.id, answer.piece_count, &bytes);
  return bytes;
}

void EndFetchAnswer(std::uint64_t id, std::uint32_t piece_count, std::string* piece) {
  ByteWriter trailer;
  trailer.Put(id);
  trailer.Put(piece_count);
  piece->append(trailer.bytes());
}

absl::StatusOr<FetchAnswer> DecodeFetchAnswer(absl::string_view bytes) {
  FetchAnswer answer;
  if (bytes.size() < kFetchTrailerSize)
    return absl::InvalidArgumentError("fetch answer is cut short");
  answer.piece = bytes.substr(0, bytes.size() - kFetchTrailerSize);
  ByteReader reader(bytes.substr(answer.piece.size()));
  answer.id = reader.Get<std::uint64_t>();
  answer.piece_count = reader.Get<std::uint32_t>();
  return answer;
}

absl::StatusOr<FetchAnswer> DecodeValueAnswer(absl::string_view bytes) {
  absl::StatusOr<FetchAnswer> answer = DecodeFetchAnswer(bytes);
  if (answer.ok() && answer->piece_count == 0)
    return absl::InvalidArgumentError("fetch answer of a value without pieces");
  return answer;
}

}  // namespace ring::recovery
