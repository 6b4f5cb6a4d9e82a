#include "ring/cluster/catalogue.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/base/crc32c.h"
#include "ring/base/mutant.h"

namespace ring::cluster {
namespace {

using protocol::MemgestDescriptor;
using protocol::MemgestState;
using protocol::StateName;

bool IsStep(MemgestState from, MemgestState to) {
  switch (from) {
    case MemgestState::kCreating:
      return to == MemgestState::kActive;
    case MemgestState::kActive:
      return to == MemgestState::kDraining;
    case MemgestState::kDraining:
      return to == MemgestState::kActive || to == MemgestState::kDeleted;
    case MemgestState::kDeleted:
      return false;
  }
  return false;
}

CommandResult Refused(absl::Status status, MemgestId memgest = MemgestId()) {
  return {std::move(status), memgest, false, false};
}

CommandResult Unknown(MemgestId memgest) {
  return Refused(absl::NotFoundError(absl::StrCat("memgest=", memgest.value(), " is not known")),
                 memgest);
}

// G10: what was counted is true of its drain alone. That one may have been undone meanwhile by
// another leader, the memgest written to, and another drain begun, before the command arrived.
CommandResult OtherDrain(const MemgestDescriptor& memgest, std::uint64_t counted,
                         std::uint64_t present) {
  return Refused(
      absl::FailedPreconditionError(absl::StrCat(
          "memgest=", memgest.name, " was counted in catalogue revision=", counted, ", and is ",
          StateName(memgest.state), " in revision=", present, " now: ask again")),
      memgest.id);
}

// Of what is asked, without who asks.
std::uint32_t PayloadCrc(const CatalogueCommand& command) {
  CatalogueCommand payload = command;
  payload.request = {};
  const std::string bytes = EncodeCommand(payload);
  return Crc32c(bytes.data(), bytes.size());
}

std::size_t SizeOf(const std::vector<MemgestDescriptor>& memgests) {
  std::string bytes;
  for (const MemgestDescriptor& one : memgests) protocol::AppendMemgestDescriptor(one, &bytes);
  return bytes.size();
}

}  // namespace

absl::Status RequestReused(const RequestId& request) {
  return absl::InvalidArgumentError(
      absl::StrCat("admin request client=", request.client, " seq=", request.seq,
                   " was used for another command: give each command its own seq"));
}

CatalogueCommand CreateCommand(RequestId request, MemgestDescriptor descriptor) {
  CatalogueCommand command;
  command.request = std::move(request);
  command.action = CatalogueAction::kCreate;
  command.descriptor = std::move(descriptor);
  return command;
}

CatalogueCommand SetStateCommand(RequestId request, MemgestId memgest, MemgestState from,
                                 MemgestState to) {
  CatalogueCommand command;
  command.request = std::move(request);
  command.action = CatalogueAction::kSetState;
  command.memgest = memgest;
  command.from = from;
  command.to = to;
  return command;
}

CatalogueCommand DeletedCommand(MemgestId memgest, std::uint64_t revision) {
  CatalogueCommand command =
      SetStateCommand({}, memgest, MemgestState::kDraining, MemgestState::kDeleted);
  command.revision = revision;
  return command;
}

CatalogueCommand SetDefaultCommand(RequestId request, MemgestId memgest) {
  CatalogueCommand command;
  command.request = std::move(request);
  command.action = CatalogueAction::kSetDefault;
  command.memgest = memgest;
  return command;
}

CatalogueCommand DeleteCommand(RequestId request, absl::string_view name, bool force) {
  CatalogueCommand command;
  command.request = std::move(request);
  command.action = CatalogueAction::kDelete;
  command.name = std::string(name);
  command.force = force;
  return command;
}

CatalogueCommand RefuseDeleteCommand(RequestId request, MemgestId memgest, std::uint64_t revision,
                                     absl::string_view refusal) {
  CatalogueCommand command;
  command.request = std::move(request);
  command.action = CatalogueAction::kRefuseDelete;
  command.memgest = memgest;
  command.revision = revision;
  command.refusal = std::string(refusal);
  return command;
}

Catalogue::Catalogue(const View& view)
    : s_(view.s),
      d_(view.d),
      default_memgest_(view.default_memgest),
      weak_past_(view.weak_past),
      memgests_(view.memgests) {
  const absl::Status status = view.Validate();
  RING_CHECK(status.ok()) << status;
}

const MemgestDescriptor* Catalogue::Find(MemgestId id) const {
  for (const MemgestDescriptor& memgest : memgests_) {
    if (memgest.id == id) return &memgest;
  }
  return nullptr;
}

const MemgestDescriptor* Catalogue::Find(absl::string_view name) const {
  for (const MemgestDescriptor& memgest : memgests_) {
    if (memgest.state != MemgestState::kDeleted && memgest.name == name) return &memgest;
  }
  return nullptr;
}

std::optional<MemgestId> Catalogue::RememberedMemgest(const RequestId& request) const {
  for (const Remembered& one : remembered_) {
    if (one.request == request && one.memgest.value() != 0) return one.memgest;
  }
  return std::nullopt;
}

MemgestDescriptor* Catalogue::FindMutable(MemgestId id) {
  return const_cast<MemgestDescriptor*>(std::as_const(*this).Find(id));
}

CommandResult Catalogue::Apply(const CatalogueCommand& command) {
  if (command.request.client.size() > kAdminClientSizeMax) {
    return Refused(absl::InvalidArgumentError(
        absl::StrCat("admin client name has size=", command.request.client.size(), ", at most ",
                     kAdminClientSizeMax)));
  }
  // A refusal is no request of its own: it changes what is remembered of one.
  const bool refuses = command.action == CatalogueAction::kRefuseDelete;
  if (command.request.client.empty() || refuses) return Execute(command);
  CommandResult result;
  if (!Mutant("X6") && Recall(command, &result)) return result;
  result = Execute(command);
  Remember(command, result);
  return result;
}

bool Catalogue::Recall(const CatalogueCommand& command, CommandResult* result) const {
  std::uint64_t highest = 0;
  for (const Remembered& one : remembered_) {
    if (one.request.client != command.request.client) continue;
    highest = std::max(highest, one.request.seq);
    if (one.request.seq != command.request.seq) continue;
    if (one.payload_crc != PayloadCrc(command)) {
      *result = Refused(RequestReused(command.request));
    } else {
      *result = {absl::Status(one.code, one.message), one.memgest, false, true};
    }
    return true;
  }
  if (highest >= kRequestWindow && command.request.seq <= highest - kRequestWindow) {
    *result = Refused(absl::AbortedError(
        absl::StrCat("admin request client=", command.request.client, " seq=", command.request.seq,
                     " is too old, highest_seq=", highest)));
    return true;
  }
  return false;
}

void Catalogue::Remember(const CatalogueCommand& command, const CommandResult& result) {
  const RequestId& request = command.request;
  // What fell below the client's window is refused from now on without being remembered.
  std::uint64_t highest = request.seq;
  for (const Remembered& one : remembered_) {
    if (one.request.client == request.client) highest = std::max(highest, one.request.seq);
  }
  std::erase_if(remembered_, [&](const Remembered& one) {
    return one.request.client == request.client && highest >= kRequestWindow &&
           one.request.seq <= highest - kRequestWindow;
  });
  if (remembered_.size() >= kRequestMemory) remembered_.pop_front();
  remembered_.push_back({request, PayloadCrc(command), result.status.code(),
                         std::string(result.status.message()), result.memgest});
}

CommandResult Catalogue::Execute(const CatalogueCommand& command) {
  CommandResult result;
  switch (command.action) {
    case CatalogueAction::kCreate:
      result = Create(command);
      break;
    case CatalogueAction::kSetState:
      result = SetState(command);
      break;
    case CatalogueAction::kSetDefault:
      result = SetDefault(command);
      break;
    case CatalogueAction::kDelete:
      result = Delete(command);
      break;
    case CatalogueAction::kRefuseDelete:
      result = RefuseDelete(command);
      break;
  }
  if (result.changed) ++revision_;
  return result;
}

CommandResult Catalogue::Create(const CatalogueCommand& command) {
  MemgestDescriptor memgest = command.descriptor;
  memgest.id = MemgestId();
  memgest.state = MemgestState::kCreating;
  if (absl::Status status = memgest.Validate(s_, d_); !status.ok()) {
    return Refused(std::move(status));
  }
  if (const MemgestDescriptor* same = Find(memgest.name); same != nullptr) {
    return Refused(absl::AlreadyExistsError(absl::StrCat("memgest name=", memgest.name,
                                                         " is taken by id=", same->id.value(), " ",
                                                         same->SchemeName())),
                   same->id);
  }
  const auto live = std::count_if(
      memgests_.begin(), memgests_.end(),
      [](const MemgestDescriptor& one) { return one.state != MemgestState::kDeleted; });
  if (static_cast<std::size_t>(live) >= kLiveMemgestCountMax) {
    return Refused(absl::ResourceExhaustedError(
        absl::StrCat("memgest_count=", live,
                     " is the most there may be: delete one before name=", memgest.name)));
  }
  if (Mutant("V2-id")) {
    std::erase_if(memgests_,
                  [](const MemgestDescriptor& one) { return one.state == MemgestState::kDeleted; });
  }
  const MemgestId last = memgests_.empty() ? MemgestId() : memgests_.back().id;
  if (last >= kMemgestIdMax) {
    return Refused(absl::ResourceExhaustedError(absl::StrCat(
        "all memgest ids are used up, last_id=", last.value(), ": ids are never used again")));
  }
  if (SizeOf(memgests_) > kCatalogueSizeMax) {
    return Refused(absl::ResourceExhaustedError(
        absl::StrCat("the catalogue has no room for another memgest, there were ", memgests_.size(),
                     ": descriptors of deleted ones are kept")));
  }
  memgest.id = MemgestId(static_cast<std::uint16_t>(last.value() + 1));
  // X7: deletes were logged in memgests of f = 0 so far.
  const bool first_strong =
      memgest.FailuresTolerated() > 0 &&
      std::none_of(memgests_.begin(), memgests_.end(), [](const MemgestDescriptor& one) {
        return one.state != MemgestState::kDeleted && one.FailuresTolerated() > 0;
      });
  weak_past_.was_alone |= first_strong;
  memgests_.push_back(memgest);
  return {absl::OkStatus(), memgest.id, true, false};
}

CommandResult Catalogue::SetState(const CatalogueCommand& command) {
  MemgestDescriptor* memgest = FindMutable(command.memgest);
  if (memgest == nullptr) return Unknown(command.memgest);
  if (!IsStep(command.from, command.to)) {
    return Refused(absl::InvalidArgumentError(
                       absl::StrCat("memgest=", memgest->name, " cannot go from ",
                                    StateName(command.from), " to ", StateName(command.to))),
                   memgest->id);
  }
  if (memgest->state == command.to) return {absl::OkStatus(), memgest->id, false, false};
  if (memgest->state != command.from) {
    return Refused(absl::FailedPreconditionError(absl::StrCat(
                       "memgest=", memgest->name, " is ", StateName(memgest->state), ", not ",
                       StateName(command.from), ": look at its state and ask again")),
                   memgest->id);
  }
  if (command.to == MemgestState::kDeleted && command.revision != revision_ &&
      !Mutant("G10-revision")) {
    return OtherDrain(*memgest, command.revision, revision_);
  }
  if (command.to == MemgestState::kDraining && memgest->id == default_memgest_ &&
      !Mutant("G10-default")) {
    return Refused(absl::FailedPreconditionError(
                       absl::StrCat("memgest=", memgest->name,
                                    " is the default one and cannot be deleted: make another one "
                                    "the default first")),
                   memgest->id);
  }
  memgest->state = command.to;
  return {absl::OkStatus(), memgest->id, true, false};
}

CommandResult Catalogue::SetDefault(const CatalogueCommand& command) {
  const MemgestDescriptor* memgest = Find(command.memgest);
  if (memgest == nullptr) return Unknown(command.memgest);
  if (memgest->state != MemgestState::kActive) {
    return Refused(absl::FailedPreconditionError(
                       absl::StrCat("memgest=", memgest->name, " is ", StateName(memgest->state),
                                    ": only an active one can be the default")),
                   memgest->id);
  }
  const bool changed = default_memgest_ != memgest->id;
  weak_past_.was_default |= changed && Find(default_memgest_)->FailuresTolerated() == 0;
  default_memgest_ = memgest->id;
  return {absl::OkStatus(), memgest->id, changed, false};
}

// Which memgest that is, a retry hears from memory: the name may be another one's by then.
CommandResult Catalogue::Delete(const CatalogueCommand& command) {
  const MemgestDescriptor* memgest = Find(command.name);
  if (memgest == nullptr) {
    return Refused(absl::NotFoundError(absl::StrCat("no memgest name=", command.name)));
  }
  return SetState(SetStateCommand({}, memgest->id, MemgestState::kActive, MemgestState::kDraining));
}

CommandResult Catalogue::RefuseDelete(const CatalogueCommand& command) {
  MemgestDescriptor* memgest = FindMutable(command.memgest);
  if (memgest == nullptr) return Unknown(command.memgest);
  if (memgest->state != MemgestState::kDraining || command.revision != revision_)
    return OtherDrain(*memgest, command.revision, revision_);
  for (Remembered& one : remembered_) {
    if (one.request != command.request || one.memgest != memgest->id) continue;
    one.code = absl::StatusCode::kFailedPrecondition;
    one.message = command.refusal;
  }
  memgest->state = MemgestState::kActive;
  return {absl::OkStatus(), memgest->id, true, false};
}

bool operator==(const Catalogue& a, const Catalogue& b) {
  return a.s_ == b.s_ && a.d_ == b.d_ && a.revision_ == b.revision_ &&
         a.default_memgest_ == b.default_memgest_ && a.weak_past_ == b.weak_past_ &&
         a.memgests_ == b.memgests_ && a.remembered_ == b.remembered_;
}

}  // namespace ring::cluster
