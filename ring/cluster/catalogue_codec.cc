// The bytes of catalogue commands (they travel in control messages and in the consensus log) and of
// the catalogue's snapshot. Each begins with its version; nothing may follow.
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/status.h"
#include "ring/base/wire.h"
#include "ring/cluster/catalogue.h"

namespace ring::cluster {
namespace {

using protocol::MemgestState;

// An action that is added does not raise it: what a log on disk has is read as before.
constexpr std::uint8_t kCommandVersion = 3;
constexpr std::uint16_t kSnapshotVersion = 3;
// Of WeakPast.
constexpr std::uint8_t kWasDefault = 1;
constexpr std::uint8_t kWasAlone = 2;

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("catalogue: ", what));
}

bool IsState(std::uint8_t code) {
  return code >= static_cast<std::uint8_t>(MemgestState::kCreating) &&
         code <= static_cast<std::uint8_t>(MemgestState::kDeleted);
}

}  // namespace

std::string EncodeCommand(const CatalogueCommand& command) {
  ByteWriter out;
  out.Put(kCommandVersion);
  out.Put(static_cast<std::uint8_t>(command.action));
  out.PutString(command.request.client);
  out.Put(command.request.seq);
  switch (command.action) {
    case CatalogueAction::kCreate: {
      // What a creation does not look at is not part of its bytes.
      protocol::MemgestDescriptor descriptor = command.descriptor;
      descriptor.id = MemgestId();
      descriptor.state = MemgestState::kCreating;
      protocol::AppendMemgestDescriptor(descriptor, &out.bytes());
      break;
    }
    case CatalogueAction::kSetState:
      out.Put(command.memgest.value());
      out.Put(static_cast<std::uint8_t>(command.from));
      out.Put(static_cast<std::uint8_t>(command.to));
      out.Put(command.revision);
      break;
    case CatalogueAction::kSetDefault:
      out.Put(command.memgest.value());
      break;
    case CatalogueAction::kDelete:
      out.PutString(command.name);
      out.Put(std::uint8_t{command.force});
      break;
    case CatalogueAction::kRefuseDelete:
      out.Put(command.memgest.value());
      out.Put(command.revision);
      out.PutString(command.refusal);
      break;
  }
  return out.Take();
}

absl::StatusOr<CatalogueCommand> DecodeCommand(absl::string_view bytes) {
  ByteReader in(bytes);
  const auto version = in.Get<std::uint8_t>();
  const auto action = in.Get<std::uint8_t>();
  CatalogueCommand command;
  command.request.client = std::string(in.GetString());
  command.request.seq = in.Get<std::uint64_t>();
  if (!in.ok()) return Bad("command is cut short");
  if (version != kCommandVersion) {
    return Bad(absl::StrCat("command version=", version, " is not known"));
  }
  if (command.request.client.size() > kAdminClientSizeMax) {
    return Bad(absl::StrCat("admin client name has size=", command.request.client.size()));
  }
  command.action = static_cast<CatalogueAction>(action);
  switch (command.action) {
    case CatalogueAction::kCreate: {
      RING_ASSIGN_OR_RETURN(command.descriptor, protocol::ConsumeMemgestDescriptor(in.rest()));
      break;
    }
    case CatalogueAction::kSetState: {
      command.memgest = MemgestId(in.Get<std::uint16_t>());
      const auto from = in.Get<std::uint8_t>();
      const auto to = in.Get<std::uint8_t>();
      command.revision = in.Get<std::uint64_t>();
      if (in.ok() && (!IsState(from) || !IsState(to))) {
        return Bad(absl::StrCat("state from=", from, " to=", to, " is not known"));
      }
      command.from = static_cast<MemgestState>(from);
      command.to = static_cast<MemgestState>(to);
      break;
    }
    case CatalogueAction::kSetDefault:
      command.memgest = MemgestId(in.Get<std::uint16_t>());
      break;
    case CatalogueAction::kDelete: {
      command.name = std::string(in.GetString());
      const auto force = in.Get<std::uint8_t>();
      // The answer that is remembered has the name.
      if (command.name.size() > protocol::kMemgestNameSizeMax) {
        return Bad(absl::StrCat("memgest name has size=", command.name.size()));
      }
      if (force > 1) return Bad(absl::StrCat("force=", force));
      command.force = force != 0;
      break;
    }
    case CatalogueAction::kRefuseDelete:
      command.memgest = MemgestId(in.Get<std::uint16_t>());
      command.revision = in.Get<std::uint64_t>();
      command.refusal = std::string(in.GetString());
      if (command.refusal.size() > kRefusalSizeMax) {
        return Bad(absl::StrCat("refusal has size=", command.refusal.size()));
      }
      break;
    default:
      return Bad(absl::StrCat("action=", action, " is not known"));
  }
  if (!in.ok()) return Bad("command is cut short");
  if (!in.rest()->empty()) {
    return Bad(absl::StrCat("trailing_bytes=", in.rest()->size(), " behind a command"));
  }
  return command;
}

std::string EncodeCatalogue(const Catalogue& catalogue) {
  ByteWriter out;
  out.Put(kSnapshotVersion);
  out.Put(catalogue.revision_);
  out.Put(catalogue.default_memgest_.value());
  out.Put(static_cast<std::uint8_t>((catalogue.weak_past_.was_default ? kWasDefault : 0) |
                                    (catalogue.weak_past_.was_alone ? kWasAlone : 0)));
  out.Put(static_cast<std::uint32_t>(catalogue.memgests_.size()));
  for (const protocol::MemgestDescriptor& memgest : catalogue.memgests_) {
    protocol::AppendMemgestDescriptor(memgest, &out.bytes());
  }
  out.Put(static_cast<std::uint32_t>(catalogue.remembered_.size()));
  for (const Catalogue::Remembered& one : catalogue.remembered_) {
    out.PutString(one.request.client);
    out.Put(one.request.seq);
    out.Put(one.payload_crc);
    out.Put(static_cast<std::uint8_t>(one.code));
    out.PutString(one.message);
    out.Put(one.memgest.value());
  }
  return out.Take();
}

absl::StatusOr<Catalogue> DecodeCatalogue(int s, int d, absl::string_view bytes) {
  ByteReader in(bytes);
  const auto version = in.Get<std::uint16_t>();
  Catalogue catalogue(s, d);
  catalogue.revision_ = in.Get<std::uint64_t>();
  catalogue.default_memgest_ = MemgestId(in.Get<std::uint16_t>());
  const auto past = in.Get<std::uint8_t>();
  catalogue.weak_past_ = {(past & kWasDefault) != 0, (past & kWasAlone) != 0};
  const auto memgest_count = in.Get<std::uint32_t>();
  if (!in.ok()) return Bad("snapshot is cut short");
  if (version != kSnapshotVersion) {
    return Bad(absl::StrCat("snapshot version=", version, " is not known"));
  }
  if (past > (kWasDefault | kWasAlone)) return Bad(absl::StrCat("weak_past=", past));
  MemgestId last;
  for (std::uint32_t i = 0; i < memgest_count; ++i) {
    RING_ASSIGN_OR_RETURN(protocol::MemgestDescriptor memgest,
                          protocol::ConsumeMemgestDescriptor(in.rest()));
    RING_RETURN_IF_ERROR(memgest.Validate(s, d));
    if (memgest.id <= last)
      return Bad(absl::StrCat("memgest=", memgest.id.value(), " out of order"));
    last = memgest.id;
    catalogue.memgests_.push_back(std::move(memgest));
  }
  const auto request_count = in.Get<std::uint32_t>();
  if (request_count > kRequestMemory) return Bad(absl::StrCat("request_count=", request_count));
  for (std::uint32_t i = 0; i < request_count && in.ok(); ++i) {
    Catalogue::Remembered one;
    one.request.client = std::string(in.GetString());
    one.request.seq = in.Get<std::uint64_t>();
    one.payload_crc = in.Get<std::uint32_t>();
    one.code = static_cast<absl::StatusCode>(in.Get<std::uint8_t>());
    one.message = std::string(in.GetString());
    one.memgest = MemgestId(in.Get<std::uint16_t>());
    catalogue.remembered_.push_back(std::move(one));
  }
  if (!in.ok()) return Bad("snapshot is cut short");
  if (!in.rest()->empty()) {
    return Bad(absl::StrCat("trailing_bytes=", in.rest()->size(), " behind a snapshot"));
  }
  const protocol::MemgestDescriptor* chosen = catalogue.Find(catalogue.default_memgest_);
  if (chosen == nullptr || chosen->state != MemgestState::kActive) {
    return Bad(absl::StrCat("default memgest=", catalogue.default_memgest_.value(),
                            " is not an active one"));
  }
  return catalogue;
}

}  // namespace ring::cluster
