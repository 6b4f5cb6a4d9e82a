#include "ring/recovery/seal_message.h"

#include "absl/strings/str_cat.h"
#include "ring/base/wire.h"

namespace ring::recovery {
namespace {

absl::Status Whole(ByteReader& reader, absl::string_view what) {
  if (!reader.ok()) return absl::InvalidArgumentError(absl::StrCat(what, " is cut short"));
  if (reader.rest()->empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " has ", reader.rest()->size(), " bytes too many"));
}

}  // namespace

std::string EncodeSealRequest(const SealRequest& request) {
  ByteWriter writer;
  writer.Put(request.group.value());
  writer.Put(request.shard.value());
  writer.Put(request.epoch.value());
  writer.Put(request.last_normal.value());
  writer.Put(request.incarnation.value());
  return writer.Take();
}

absl::StatusOr<SealRequest> DecodeSealRequest(absl::string_view bytes) {
  ByteReader reader(bytes);
  SealRequest request;
  request.group = GroupId(reader.Get<std::uint16_t>());
  request.shard = ShardId(reader.Get<std::uint16_t>());
  request.epoch = Epoch(reader.Get<std::uint32_t>());
  request.last_normal = Epoch(reader.Get<std::uint32_t>());
  request.incarnation = Incarnation(reader.Get<std::uint64_t>());
  if (absl::Status status = Whole(reader, "seal request"); !status.ok()) return status;
  if (request.epoch <= request.last_normal) {
    return absl::InvalidArgumentError(
        absl::StrCat("seal for epoch=", request.epoch.value(),
                     " behind last_normal=", request.last_normal.value()));
  }
  return request;
}

std::string EncodeSealAnswer(const SealAnswer& answer) {
  ByteWriter writer;
  writer.Put(answer.incarnation.value());
  writer.Put(std::uint8_t{answer.leaves});
  writer.Put(static_cast<std::uint16_t>(answer.logs.size()));
  for (const LogEnd& log : answer.logs) {
    writer.Put(log.memgest.value());
    writer.Put(log.applied);
    writer.Put(log.last);
  }
  return writer.Take();
}

absl::StatusOr<SealAnswer> DecodeSealAnswer(absl::string_view bytes) {
  ByteReader reader(bytes);
  SealAnswer answer;
  answer.incarnation = Incarnation(reader.Get<std::uint64_t>());
  const auto leaves = reader.Get<std::uint8_t>();
  if (leaves > 1) return absl::InvalidArgumentError(absl::StrCat("leaves=", leaves));
  answer.leaves = leaves != 0;
  const std::size_t count = reader.Get<std::uint16_t>();
  for (std::size_t i = 0; i < count && reader.ok(); ++i) {
    LogEnd log;
    log.memgest = MemgestId(reader.Get<std::uint16_t>());
    log.applied = reader.Get<std::uint64_t>();
    log.last = reader.Get<std::uint64_t>();
    if (log.last < log.applied) {
      return absl::InvalidArgumentError(absl::StrCat("log of memgest=", log.memgest.value(),
                                                     " last=", log.last,
                                                     " is before applied=", log.applied));
    }
    answer.logs.push_back(log);
  }
  if (absl::Status status = Whole(reader, "seal answer"); !status.ok()) return status;
  return answer;
}

}  // namespace ring::recovery
