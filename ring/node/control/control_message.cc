#include "ring/node/control/control_message.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace ring::node {
namespace {

constexpr std::uint8_t kCodeMax = static_cast<std::uint8_t>(absl::StatusCode::kUnauthenticated);

absl::Status Bad(absl::string_view field, std::uint64_t value) {
  return absl::InvalidArgumentError(absl::StrCat("control message ", field, "=", value));
}

}  // namespace

absl::StatusOr<ControlChunk> DecodeControlChunk(absl::string_view bytes) {
  ControlChunk chunk;
  if (bytes.size() < sizeof(ControlHeader)) return Bad("size", bytes.size());
  ControlHeader& header = chunk.header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  chunk.body = bytes.substr(sizeof(header));
  if (header.magic != kControlMagic) return Bad("magic", header.magic);
  const auto type = static_cast<std::uint16_t>(header.type);
  if (type >= kControlTypeCount) return Bad("type", type);
  if (header.flags > kControlAnswer) return Bad("flags", header.flags);
  const bool answer = (header.flags & kControlAnswer) != 0;
  if (header.code > kCodeMax || (!answer && header.code != 0)) return Bad("code", header.code);
  if (header.reserved != 0) return Bad("reserved", header.reserved);
  if (header.total > kControlBodyMax) return Bad("total", header.total);
  if (chunk.body.size() > kControlChunkSize) return Bad("chunk", chunk.body.size());
  if (header.offset > header.total || chunk.body.size() > header.total - header.offset)
    return Bad("offset", header.offset);
  // Every chunk but that of an empty message brings something: a message has finitely many.
  if (chunk.body.empty() && header.total != 0) return Bad("chunk", 0);
  if (header.type == ControlType::kCredit && (header.total != 0 || answer || header.request != 0))
    return Bad("total", header.total);
  return chunk;
}

absl::StatusOr<bool> ControlAssembler::Add(const ControlChunk& chunk) {
  const ControlHeader& header = chunk.header;
  if (!partial_) {
    if (header.offset != 0) return Bad("offset", header.offset);
    header_ = header;
    body_.reserve(header.total);
    body_.assign(chunk.body.data(), chunk.body.size());
  } else {
    const bool same = header.type == header_.type && header.flags == header_.flags &&
                      header.code == header_.code && header.request == header_.request &&
                      header.total == header_.total;
    if (!same) return Bad("request", header.request);
    if (header.offset != body_.size()) return Bad("offset", header.offset);
    body_.append(chunk.body.data(), chunk.body.size());
  }
  partial_ = body_.size() < header_.total;
  return !partial_;
}

}  // namespace ring::node
