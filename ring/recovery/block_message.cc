#include "ring/recovery/block_message.h"

#include "absl/strings/str_cat.h"
#include "ring/base/wire.h"

namespace ring::recovery {
namespace {

absl::Status Check(ByteReader& in, bool valid, absl::string_view what) {
  if (in.finished() && valid) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("body of a ", what, " is malformed"));
}

void Put(const LogName& log, ByteWriter* out) {
  out->Put(log.group.value());
  out->Put(log.shard.value());
  out->Put(log.memgest.value());
}

LogName TakeLog(ByteReader* in) {
  LogName log;
  log.group = GroupId(in->Get<std::uint16_t>());
  log.shard = ShardId(in->Get<std::uint16_t>());
  log.memgest = MemgestId(in->Get<std::uint16_t>());
  return log;
}

}  // namespace

std::string Encode(const FreezeRequest& request) {
  ByteWriter out;
  Put(request.log, &out);
  out.Put(request.epoch.value());
  out.Put(request.block);
  out.Put(request.token);
  out.Put(static_cast<std::uint8_t>(request.held ? 1 : 0));
  out.Put(request.address);
  out.Put(request.rkey);
  return out.Take();
}

absl::StatusOr<FreezeRequest> DecodeFreezeRequest(absl::string_view bytes) {
  ByteReader in(bytes);
  FreezeRequest request;
  request.log = TakeLog(&in);
  request.epoch = Epoch(in.Get<std::uint32_t>());
  request.block = in.Get<std::uint32_t>();
  request.token = in.Get<std::uint64_t>();
  const auto held = in.Get<std::uint8_t>();
  request.address = in.Get<std::uint64_t>();
  request.rkey = in.Get<std::uint32_t>();
  const absl::Status status = Check(in, held <= 1, "freeze");
  if (!status.ok()) return status;
  request.held = held == 1;
  return request;
}

std::string Encode(const FreezeAnswer& answer) {
  ByteWriter out;
  out.Put(answer.last_touch);
  out.Put(answer.block_count);
  out.Put(static_cast<std::uint8_t>(answer.bytes));
  return out.Take();
}

absl::StatusOr<FreezeAnswer> DecodeFreezeAnswer(absl::string_view bytes) {
  ByteReader in(bytes);
  FreezeAnswer answer;
  answer.last_touch = in.Get<std::uint64_t>();
  answer.block_count = in.Get<std::uint32_t>();
  const auto where = in.Get<std::uint8_t>();
  const absl::Status status = Check(in, where <= 2, "freeze answer");
  if (!status.ok()) return status;
  answer.bytes = static_cast<FrozenBytes>(where);
  return answer;
}

std::string Encode(const DecodeRequest& request) {
  ByteWriter out;
  Put(request.log, &out);
  out.Put(request.epoch.value());
  out.Put(request.block);
  out.Put(request.index);
  out.Put(static_cast<std::uint8_t>(request.urgent ? 1 : 0));
  out.Put(request.left_out);
  return out.Take();
}

absl::StatusOr<DecodeRequest> DecodeDecodeRequest(absl::string_view bytes) {
  ByteReader in(bytes);
  DecodeRequest request;
  request.log = TakeLog(&in);
  request.epoch = Epoch(in.Get<std::uint32_t>());
  request.block = in.Get<std::uint32_t>();
  request.index = in.Get<std::uint64_t>();
  const auto urgent = in.Get<std::uint8_t>();
  request.left_out = in.Get<std::uint32_t>();
  const absl::Status status = Check(in, urgent <= 1, "decode");
  if (!status.ok()) return status;
  request.urgent = urgent == 1;
  return request;
}

std::string Encode(const DecodeAnswer& answer) {
  ByteWriter out;
  out.Put(answer.last_touch);
  out.PutBytes(answer.bytes);
  return out.Take();
}

absl::StatusOr<DecodeAnswer> DecodeDecodeAnswer(absl::string_view bytes) {
  ByteReader in(bytes);
  DecodeAnswer answer;
  answer.last_touch = in.Get<std::uint64_t>();
  if (!in.ok()) return absl::InvalidArgumentError("body of a decode answer is cut short");
  answer.bytes = *in.rest();
  return answer;
}

std::string Encode(const RowRequest& request) {
  ByteWriter out;
  out.Put(request.group.value());
  out.Put(request.memgest.value());
  out.Put(request.epoch.value());
  out.Put(request.extent);
  out.Put(request.row);
  for (const std::uint64_t index : request.last_touch) out.Put(index);
  return out.Take();
}

absl::StatusOr<RowRequest> DecodeRowRequest(absl::string_view bytes) {
  ByteReader in(bytes);
  RowRequest request;
  request.group = GroupId(in.Get<std::uint16_t>());
  request.memgest = MemgestId(in.Get<std::uint16_t>());
  request.epoch = Epoch(in.Get<std::uint32_t>());
  request.extent = in.Get<std::uint32_t>();
  request.row = in.Get<std::uint32_t>();
  while (in.ok() && !in.rest()->empty()) request.last_touch.push_back(in.Get<std::uint64_t>());
  const absl::Status status = Check(in, true, "row request");
  if (!status.ok()) return status;
  return request;
}

}  // namespace ring::recovery
