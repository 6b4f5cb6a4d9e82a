#include "ring/node/scrub/scrub_message.h"

#include <utility>

#include "ring/base/wire.h"

namespace ring::node {
namespace {

// What was decoded, if all of it was there and means something.
template <class T>
absl::StatusOr<T> Checked(const ByteReader& in, bool valid, T decoded) {
  if (in.finished() && valid) return decoded;
  return absl::InvalidArgumentError("scrub message body is malformed");
}

void Put(const recovery::LogName& place, ByteWriter* out) {
  out->Put(place.group.value());
  out->Put(place.shard.value());
  out->Put(place.memgest.value());
}

recovery::LogName TakePlace(ByteReader* in) {
  recovery::LogName place;
  place.group = GroupId(in->Get<std::uint16_t>());
  place.shard = ShardId(in->Get<std::uint16_t>());
  place.memgest = MemgestId(in->Get<std::uint16_t>());
  return place;
}

}  // namespace

std::string EncodeScrub(const ScrubVersions& versions) {
  ByteWriter out;
  Put(versions.place, &out);
  out.Put(versions.index);
  out.Put(static_cast<std::uint16_t>(versions.items.size()));
  for (const ScrubItem& item : versions.items) {
    out.Put(item.line);
    out.Put(item.version);
    out.Put(item.value_crc);
    out.Put(item.value_length);
  }
  return out.Take();
}

absl::StatusOr<ScrubVersions> DecodeScrubVersions(absl::string_view bytes) {
  ByteReader in(bytes);
  ScrubVersions versions;
  versions.place = TakePlace(&in);
  versions.index = in.Get<std::uint64_t>();
  const auto count = in.Get<std::uint16_t>();
  for (std::size_t i = 0; i < count && in.ok(); ++i) {
    ScrubItem item;
    item.line = in.Get<std::uint32_t>();
    item.version = in.Get<std::uint64_t>();
    item.value_crc = in.Get<std::uint32_t>();
    item.value_length = in.Get<std::uint32_t>();
    versions.items.push_back(item);
  }
  return Checked(in, count <= kScrubItemsMax, std::move(versions));
}

std::string EncodeScrub(const ScrubFindings& findings) {
  ByteWriter out;
  out.Put(static_cast<std::uint16_t>(findings.findings.size()));
  for (const ScrubFindings::One& one : findings.findings) {
    out.Put(one.item);
    out.Put(static_cast<std::uint8_t>(one.finding));
  }
  return out.Take();
}

absl::StatusOr<ScrubFindings> DecodeScrubFindings(absl::string_view bytes) {
  ByteReader in(bytes);
  ScrubFindings findings;
  bool valid = true;
  const auto count = in.Get<std::uint16_t>();
  for (std::size_t i = 0; i < count && in.ok(); ++i) {
    ScrubFindings::One one;
    one.item = in.Get<std::uint16_t>();
    const auto finding = in.Get<std::uint8_t>();
    valid &= finding >= 1 && finding <= 3;
    one.finding = static_cast<ScrubFinding>(finding);
    findings.findings.push_back(one);
  }
  return Checked(in, valid && count <= kScrubItemsMax, std::move(findings));
}

std::string EncodeScrub(const ScrubState& state) {
  ByteWriter out;
  out.Put(static_cast<std::uint8_t>(state.done ? 1 : 0));
  out.Put(static_cast<std::uint8_t>(state.status.code()));
  out.PutString(state.status.message().substr(0, kScrubDetailSizeMax));
  for (const std::uint64_t value :
       {state.progress.checked, state.progress.total, state.report.values_checked,
        state.report.replicas_checked, state.report.rows_checked, state.report.mismatches})
    out.Put(value);
  out.Put(static_cast<std::uint16_t>(state.report.details.size()));
  for (const std::string& detail : state.report.details)
    out.PutString(absl::string_view(detail).substr(0, kScrubDetailSizeMax));
  return out.Take();
}

absl::StatusOr<ScrubState> DecodeScrubState(absl::string_view bytes) {
  ByteReader in(bytes);
  ScrubState state;
  const auto done = in.Get<std::uint8_t>();
  const auto code = in.Get<std::uint8_t>();
  const std::string message(in.GetString());
  state.done = done == 1;
  bool valid = done <= 1 && code <= static_cast<std::uint8_t>(absl::StatusCode::kUnauthenticated);
  if (valid) state.status = absl::Status(static_cast<absl::StatusCode>(code), message);
  for (std::uint64_t* const value :
       {&state.progress.checked, &state.progress.total, &state.report.values_checked,
        &state.report.replicas_checked, &state.report.rows_checked, &state.report.mismatches})
    *value = in.Get<std::uint64_t>();
  const auto count = in.Get<std::uint16_t>();
  for (std::size_t i = 0; i < count && i < kScrubDetailsMax && in.ok(); ++i)
    state.report.details.emplace_back(in.GetString());
  valid &= count <= kScrubDetailsMax;
  return Checked(in, valid, std::move(state));
}

std::string EncodeScrubNumber(std::uint64_t number) {
  ByteWriter out;
  out.Put(number);
  return out.Take();
}

absl::StatusOr<std::uint64_t> DecodeScrubNumber(absl::string_view bytes) {
  ByteReader in(bytes);
  const auto number = in.Get<std::uint64_t>();
  return Checked(in, true, number);
}

}  // namespace ring::node
