#include "ring/node/control/control_change.h"

#include "absl/strings/str_cat.h"
#include "ring/base/wire.h"

namespace ring::node {
namespace {
constexpr std::size_t kTextMax = 1024;

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(std::string("control message body is malformed: ") +
                                    std::string(what.data(), what.size()));
}

std::string TakeString(ByteReader* in) {
  const absl::string_view text = in->GetString();
  return std::string(text.data(), text.size());
}
}  // namespace

std::string EncodeChange(const CatalogueChange& change) {
  ByteWriter out;
  out.Put(static_cast<std::uint8_t>(change.kind));
  out.Put(static_cast<std::uint8_t>(change.force ? 1 : 0));
  out.Put(change.id.seq);
  out.PutString(absl::string_view(change.id.client).substr(0, kTextMax));
  out.PutString(absl::string_view(change.name).substr(0, kTextMax));
  std::string bytes = out.Take();
  if (change.kind == ChangeKind::kCreate) AppendMemgestDescriptor(change.descriptor, &bytes);
  return bytes;
}

absl::StatusOr<CatalogueChange> DecodeChange(absl::string_view bytes) {
  ByteReader in(bytes);
  CatalogueChange change;
  const auto kind = in.Get<std::uint8_t>();
  const auto force = in.Get<std::uint8_t>();
  change.id.seq = in.Get<std::uint64_t>();
  change.id.client = TakeString(&in);
  change.name = TakeString(&in);
  if (!in.ok() || kind < 1 || kind > 3 || force > 1) return Malformed("change");
  change.kind = static_cast<ChangeKind>(kind);
  change.force = force == 1;
  if (change.kind == ChangeKind::kCreate) {
    absl::StatusOr<protocol::MemgestDescriptor> descriptor =
        protocol::ConsumeMemgestDescriptor(in.rest());
    if (!descriptor.ok()) return descriptor.status();
    change.descriptor = *std::move(descriptor);
  }
  if (!in.rest()->empty()) return Malformed("change");
  return change;
}

absl::Status CheckCatalogueFollows(const cluster::View& known, const cluster::View& shown) {
  using protocol::MemgestState;
  if (shown.s != known.s || shown.d != known.d) {
    return absl::InvalidArgumentError(absl::StrCat(
        "view of another shape s=", shown.s, " d=", shown.d, ", here s=", known.s, " d=", known.d));
  }
  for (const protocol::MemgestDescriptor& before : known.memgests) {
    const protocol::MemgestDescriptor* const after = shown.FindMemgest(before.id);
    protocol::MemgestDescriptor same = before;
    if (after != nullptr) same.state = after->state;
    if (after == nullptr || !(*after == same)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "view_epoch=", shown.epoch, " has lost or changed memgest=", before.id.value()));
    }
    const bool was = before.state == MemgestState::kDeleted;
    const bool is = after->state == MemgestState::kDeleted;
    if (was == is || before.state == MemgestState::kDraining) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "view_epoch=", shown.epoch, was ? " brings back" : " deletes, without draining it,",
        " memgest=", before.id.value()));
  }
  return absl::OkStatus();
}

}  // namespace ring::node
