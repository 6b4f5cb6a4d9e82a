#include "ring/recovery/join_message.h"

#include "absl/strings/str_cat.h"
#include "ring/base/wire.h"

namespace ring::recovery {

std::string EncodeInstallRequest(const InstallRequest& request) {
  ByteWriter writer;
  writer.Put(request.group.value());
  writer.Put(request.shard.value());
  writer.Put(request.epoch.value());
  writer.Put(request.attempt);
  writer.PutBytes(request.piece);
  return writer.Take();
}

absl::StatusOr<InstallRequest> DecodeInstallRequest(absl::string_view bytes) {
  ByteReader reader(bytes);
  InstallRequest request;
  request.group = GroupId(reader.Get<std::uint16_t>());
  request.shard = ShardId(reader.Get<std::uint16_t>());
  request.epoch = Epoch(reader.Get<std::uint32_t>());
  request.attempt = reader.Get<std::uint32_t>();
  if (!reader.ok()) return absl::InvalidArgumentError("install request is cut short");
  request.piece = *reader.rest();
  if (request.piece.empty()) return absl::InvalidArgumentError("install request without a piece");
  return request;
}

std::string EncodeProgressRequest(const ProgressRequest& request) {
  ByteWriter writer;
  writer.Put(request.group.value());
  writer.Put(request.shard.value());
  writer.Put(request.epoch.value());
  return writer.Take();
}

absl::StatusOr<ProgressRequest> DecodeProgressRequest(absl::string_view bytes) {
  ByteReader reader(bytes);
  ProgressRequest request;
  request.group = GroupId(reader.Get<std::uint16_t>());
  request.shard = ShardId(reader.Get<std::uint16_t>());
  request.epoch = Epoch(reader.Get<std::uint32_t>());
  if (reader.finished()) return request;
  return absl::InvalidArgumentError(
      absl::StrCat("progress request of ", bytes.size(), " bytes is cut short or too long"));
}

std::string EncodeProgressAnswer(const std::vector<ValuesToCome>& memgests) {
  ByteWriter writer;
  writer.Put(static_cast<std::uint16_t>(memgests.size()));
  for (const ValuesToCome& memgest : memgests) {
    writer.Put(memgest.memgest.value());
    writer.Put(memgest.applied);
    writer.Put(memgest.absent);
    writer.Put(memgest.total);
  }
  return writer.Take();
}

absl::StatusOr<std::vector<ValuesToCome>> DecodeProgressAnswer(absl::string_view bytes) {
  ByteReader reader(bytes);
  std::vector<ValuesToCome> memgests;
  const std::size_t count = reader.Get<std::uint16_t>();
  for (std::size_t i = 0; i < count && reader.ok(); ++i) {
    ValuesToCome memgest;
    memgest.memgest = MemgestId(reader.Get<std::uint16_t>());
    memgest.applied = reader.Get<std::uint64_t>();
    memgest.absent = reader.Get<std::uint64_t>();
    memgest.total = reader.Get<std::uint64_t>();
    memgests.push_back(memgest);
  }
  if (reader.finished()) return memgests;
  return absl::InvalidArgumentError(
      absl::StrCat("progress answer of ", bytes.size(), " bytes is cut short or too long"));
}

}  // namespace ring::recovery
