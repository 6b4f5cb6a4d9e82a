#include "api/client_requests.h"

#include <algorithm>
#include <limits>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "api/client_status.h"
#include "ring/base/status.h"

namespace ring::api {
namespace {

// What a call that waited already has left for the rest: more than nothing, which is the default.
absl::Duration TimeLeft(ClientCore* core, std::uint64_t until_ns) {
  const std::uint64_t now_ns = core->ClockNs();
  const std::uint64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 1;
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
  return absl::Nanoseconds(static_cast<std::int64_t>(std::min(left_ns, kMax)));
}

}  // namespace

Request GetRequest(absl::string_view key, const GetOptions& options) {
  Request request;
  request.operation = protocol::Operation::kGet;
  request.key = key;
  request.deadline = options.deadline;
  request.value_size_hint = options.value_size_hint;
  request.degraded = options.degraded;
  return request;
}

absl::StatusOr<Request> PutRequest(ClientCore* core, absl::string_view key, absl::string_view value,
                                   const PutOptions& options) {
  Request request;
  request.operation = protocol::Operation::kPut;
  request.key = key;
  request.value = value;
  request.if_version = options.if_version;
  request.founding = core->view().founding;
  request.deadline = options.deadline;
  request.memgest = options.memgest_id;
  if (request.memgest.has_value() || options.memgest.empty()) return request;
  if (const auto* const known = core->view().FindMemgest(options.memgest); known != nullptr) {
    request.memgest = known->id;
    return request;
  }
  const std::uint64_t until_ns = core->DeadlineNs(options.deadline);
  RING_ASSIGN_OR_RETURN(request.memgest, ResolveMemgest(core, options.memgest, until_ns));
  // The wait may have brought another cluster: the memgest is of that one, but no version is.
  if (request.if_version.value_or(Version()) == Version()) request.founding = core->view().founding;
  request.deadline = TimeLeft(core, until_ns);
  return request;
}

Request DeleteRequest(const ClientCore& core, absl::string_view key, const DeleteOptions& options) {
  Request request;
  request.operation = protocol::Operation::kDelete;
  request.key = key;
  request.if_version = options.if_version;
  request.founding = core.view().founding;
  request.deadline = options.deadline;
  return request;
}

absl::StatusOr<Request> MoveRequest(ClientCore* core, absl::string_view key,
                                    absl::string_view memgest, const PutOptions& options) {
  PutOptions to = options;
  to.memgest = memgest;
  if (!memgest.empty()) to.memgest_id.reset();
  RING_ASSIGN_OR_RETURN(Request request, PutRequest(core, key, {}, to));
  request.operation = protocol::Operation::kMove;
  return request;
}

void SetDestination(absl::Span<char> buffer, Request* request) {
  // An empty buffer is one, too: every value but the empty one is too large for it.
  static char nothing;
  request->destination = buffer.data() != nullptr ? buffer.data() : &nothing;
  request->destination_size = buffer.size();
}

absl::StatusOr<MemgestId> ResolveMemgest(ClientCore* core, absl::string_view name,
                                         std::uint64_t until_ns) {
  const protocol::MemgestDescriptor* descriptor = core->view().FindMemgest(name);
  const auto unknown = [name](OpOutcome outcome) {
    return StatusOf(outcome, absl::StrCat("memgest=", absl::CHexEscape(name)));
  };
  if (descriptor == nullptr) {
    // It may be new, and nobody was there to tell.
    if (!core->RefreshView(until_ns)) return unknown(OpOutcome::kDeadlineExceeded);
    descriptor = core->view().FindMemgest(name);
  }
  if (descriptor == nullptr) return unknown(OpOutcome::kNoSuchMemgest);
  return descriptor->id;
}

absl::StatusOr<Operation*> Admit(ClientCore* core, const Request& request) {
  absl::StatusOr<Operation*> op = core->Submit(request);
  if (op.ok() || !absl::IsResourceExhausted(op.status())) return op;
  const std::uint64_t until_ns = core->DeadlineNs(request.deadline);
  while (core->may_make_room() && core->ClockNs() < until_ns) {
    if (!core->RunCallbacks()) core->WaitStep(until_ns);
    core->RunCallbacks();
    Request rest = request;
    rest.deadline = TimeLeft(core, until_ns);
    op = core->Submit(rest);
    if (op.ok() || !absl::IsResourceExhausted(op.status())) return op;
  }
  return op;
}

void Await(ClientCore* core, const Operation* op) {
  while (op->state != OpState::kDone) {
    core->WaitStep(std::numeric_limits<std::uint64_t>::max());
    core->RunCallbacks();
  }
}

absl::StatusOr<Operation*> Call(ClientCore* core, const Request& request) {
  absl::StatusOr<Operation*> op = Admit(core, request);
  if (op.ok()) Await(core, *op);
  return op;
}

absl::StatusOr<WriteResult> CallWrite(ClientCore* core, const Request& request) {
  RING_ASSIGN_OR_RETURN(Operation * op, Call(core, request));
  absl::StatusOr<WriteResult> result = TakeWrite(*core, *op);
  core->Free(op);
  return result;
}

namespace {

// None is what a put of an absent key asks for.
std::string VersionText(Version version) {
  return version == Version() ? "none" : ToString(version);
}

}  // namespace

absl::Status ResultStatus(const ClientCore& core, const Operation& op) {
  if (op.result.outcome == OpOutcome::kOk) return absl::OkStatus();
  std::string detail = KeyText(op.key());
  const protocol::RequestHeader& header = *op.header();
  // To the view that is known now, a former cluster's id means nothing.
  const bool former = op.result.of_former_cluster;
  if (op.names_memgest()) {
    const protocol::MemgestDescriptor* memgest =
        former ? nullptr : core.view().FindMemgest(MemgestId(header.memgest));
    absl::StrAppend(&detail, " memgest=", memgest != nullptr ? memgest->name : "",
                    memgest == nullptr ? absl::StrCat(header.memgest) : "");
  }
  if (op.result.outcome == OpOutcome::kVersionMismatch) {
    if (!former) absl::StrAppend(&detail, " version=", VersionText(op.result.version));
    absl::StrAppend(&detail, " if_version=", VersionText(Version(header.if_version)));
  }
  if (op.result.outcome == OpOutcome::kReplyTooLarge) {
    absl::StrAppend(&detail, " value_size=", op.result.value_size);
  }
  const std::optional<cluster::Place> vacant = core.VacantPlace(op);
  if (op.result.outcome == OpOutcome::kUnavailable && vacant.has_value()) {
    absl::StrAppend(&detail, " group=", vacant->group.value(), " shard=", vacant->shard.value(),
                    " has no coordinator in view_epoch=", core.view().epoch,
                    ": a node must join or come back");
  }
  if (former) absl::StrAppend(&detail, ": another cluster was founded in the place of that one");
  return StatusOf(op.result.outcome, detail);
}

absl::string_view ResultValue(const Operation& op) {
  if (op.result.outcome != OpOutcome::kOk || op.result.value == nullptr) return {};
  return absl::string_view(reinterpret_cast<const char*>(op.result.value), op.result.value_size);
}

absl::StatusOr<GetResult> TakeGet(const ClientCore& core, const Operation& op) {
  if (absl::Status status = ResultStatus(core, op); !status.ok()) return status;
  return GetResult{std::string(ResultValue(op)), op.result.version, op.result.memgest};
}

absl::StatusOr<WriteResult> TakeWrite(const ClientCore& core, const Operation& op) {
  if (absl::Status status = ResultStatus(core, op); !status.ok()) return status;
  return WriteResult{op.result.version, op.result.memgest};
}

}  // namespace ring::api
