#include "api/client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "api/client_core.h"
#include "api/client_requests.h"
#include "ring/base/status.h"

namespace ring {

using api::ClientCore;
using api::Operation;
using api::OpState;
using api::Request;

namespace {

// Its completion is for PollCompletions.
absl::Status SubmitToPipeline(ClientCore* core, std::uint64_t token, Request* request) {
  request->token = token;
  request->sink = api::Sink::kPipeline;
  return core->Submit(*request).status();
}

}  // namespace

Client::Client(std::unique_ptr<ClientCore> core) : core_(std::move(core)) {}

Client::~Client() { core_->Shutdown(); }

std::unique_ptr<Client> api::ClientOf(std::unique_ptr<ClientCore> core) {
  return std::unique_ptr<Client>(new Client(std::move(core)));
}

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const ClientOptions& options) {
  RING_ASSIGN_OR_RETURN(std::unique_ptr<ClientCore> core, ClientCore::Open(options));
  return api::ClientOf(std::move(core));
}

absl::StatusOr<GetResult> Client::Get(absl::string_view key, const GetOptions& options) {
  RING_ASSIGN_OR_RETURN(Operation * op, api::Call(core_.get(), api::GetRequest(key, options)));
  absl::StatusOr<GetResult> result = api::TakeGet(*core_, *op);
  core_->Free(op);
  return result;
}

absl::StatusOr<ReadResult> Client::GetInto(absl::string_view key, absl::Span<char> buffer,
                                           const GetOptions& options) {
  Request request = api::GetRequest(key, options);
  api::SetDestination(buffer, &request);
  RING_ASSIGN_OR_RETURN(Operation * op, api::Call(core_.get(), request));
  absl::StatusOr<ReadResult> result =
      ReadResult{op->result.value_size, op->result.version, op->result.memgest};
  if (absl::Status status = api::ResultStatus(*core_, *op); !status.ok()) result = status;
  core_->Free(op);
  return result;
}

absl::StatusOr<WriteResult> Client::Put(absl::string_view key, absl::string_view value,
                                        const PutOptions& options) {
  RING_ASSIGN_OR_RETURN(const Request request, api::PutRequest(core_.get(), key, value, options));
  return api::CallWrite(core_.get(), request);
}

absl::StatusOr<WriteResult> Client::Delete(absl::string_view key, const DeleteOptions& options) {
  return api::CallWrite(core_.get(), api::DeleteRequest(*core_, key, options));
}

absl::StatusOr<WriteResult> Client::Move(absl::string_view key, absl::string_view memgest,
                                         const PutOptions& options) {
  RING_ASSIGN_OR_RETURN(const Request request,
                        api::MoveRequest(core_.get(), key, memgest, options));
  return api::CallWrite(core_.get(), request);
}

absl::StatusOr<WhereResult> Client::Where(absl::string_view key, const GetOptions& options) {
  Request request = api::GetRequest(key, options);
  request.operation = protocol::Operation::kWhere;
  request.value_size_hint = 0;
  request.degraded = false;
  RING_ASSIGN_OR_RETURN(Operation * op, api::Call(core_.get(), request));
  const cluster::View& view = core_->view();
  const cluster::Place place = cluster::Routing(view.s, view.d).OfKey(key);
  absl::StatusOr<WhereResult> result =
      WhereResult{op->result.owner,   place.group,        place.shard,
                  op->result.version, op->result.memgest, op->result.value_size};
  if (absl::Status status = api::ResultStatus(*core_, *op); !status.ok()) result = status;
  core_->Free(op);
  return result;
}

bool Client::Poll() {
  const bool stepped = core_->Step();
  return core_->RunCallbacks() || stepped;
}

void Client::WaitForProgress(absl::Duration timeout) {
  if (core_->RunCallbacks()) return;
  core_->WaitStep(core_->DeadlineNs(std::max(timeout, absl::Nanoseconds(1))));
  core_->RunCallbacks();
}

absl::Status Client::Wait(absl::Duration timeout) {
  const std::uint64_t until_ns = core_->DeadlineNs(std::max(timeout, absl::Nanoseconds(1)));
  core_->RunCallbacks();
  while (core_->unfinished() != 0) {
    core_->WaitStep(until_ns);
    core_->RunCallbacks();
    if (core_->unfinished() != 0 && core_->ClockNs() >= until_ns) {
      return absl::DeadlineExceededError(
          absl::StrCat("operations under way: count=", core_->unfinished()));
    }
  }
  return absl::OkStatus();
}

absl::Status Client::SubmitGet(std::uint64_t token, absl::string_view key,
                               const GetOptions& options) {
  Request request = api::GetRequest(key, options);
  return SubmitToPipeline(core_.get(), token, &request);
}

absl::Status Client::SubmitGetInto(std::uint64_t token, absl::string_view key,
                                   absl::Span<char> buffer, const GetOptions& options) {
  Request request = api::GetRequest(key, options);
  api::SetDestination(buffer, &request);
  return SubmitToPipeline(core_.get(), token, &request);
}

absl::Status Client::SubmitPut(std::uint64_t token, absl::string_view key, absl::string_view value,
                               const PutOptions& options) {
  RING_ASSIGN_OR_RETURN(Request request, api::PutRequest(core_.get(), key, value, options));
  return SubmitToPipeline(core_.get(), token, &request);
}

absl::Status Client::SubmitDelete(std::uint64_t token, absl::string_view key,
                                  const DeleteOptions& options) {
  Request request = api::DeleteRequest(*core_, key, options);
  return SubmitToPipeline(core_.get(), token, &request);
}

absl::Status Client::SubmitMove(std::uint64_t token, absl::string_view key, MemgestId memgest,
                                const PutOptions& options) {
  Request request;
  request.operation = protocol::Operation::kMove;
  request.key = key;
  request.memgest = memgest;
  request.if_version = options.if_version;
  request.deadline = options.deadline;
  return SubmitToPipeline(core_.get(), token, &request);
}

void Client::Flush() { core_->Flush(); }

std::size_t Client::PollCompletions(absl::Span<Completion> completions) {
  core_->FreeTaken();
  core_->Step();
  core_->RunCallbacks();  // they may poll, too: what is lent is taken behind them
  std::size_t count = 0;
  while (count < completions.size()) {
    const Operation* op = core_->TakeFinished();
    if (op == nullptr) break;
    Completion& completion = completions[count++];
    completion.token = op->token;
    completion.outcome = op->result.outcome;
    completion.memgest = op->result.memgest;
    completion.version = op->result.version;
    completion.value_size = op->result.value_size;
    completion.value = api::ResultValue(*op);
  }
  return count;
}

absl::StatusOr<MemgestId> Client::ResolveMemgest(absl::string_view name) {
  return api::ResolveMemgest(core_.get(), name, core_->DeadlineNs(absl::ZeroDuration()));
}

std::string Client::MemgestName(MemgestId id) const {
  const protocol::MemgestDescriptor* descriptor = core_->view().FindMemgest(id);
  return descriptor == nullptr ? std::string() : descriptor->name;
}

std::uint32_t Client::view_epoch() const { return core_->view().epoch; }

std::size_t Client::outstanding() const { return core_->in_use(); }

std::vector<NodeConnection> Client::Connections() const { return core_->Connections(); }

}  // namespace ring
