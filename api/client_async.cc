// Callbacks, futures and batches, all on the calls of client_requests.h.
#include <utility>

#include "api/client.h"
#include "api/client_core.h"
#include "api/client_requests.h"

namespace ring {
namespace {

using api::ClientCore;
using api::Operation;
using api::Request;

// Sends the request; `done` gets what `take` reads from the finished operation.
template <class T>
void Start(ClientCore* core, absl::StatusOr<Request> request,
           absl::StatusOr<T> (*take)(const ClientCore&, const Operation&),
           Client::Callback<T> done) {
  if (!request.ok()) return done(request.status());
  request->sink = api::Sink::kCallback;
  absl::StatusOr<Operation*> op = api::Admit(core, *request);
  if (!op.ok()) return done(op.status());
  // Nobody is called before, though it may have ended.
  (*op)->callback = [core, take, done = std::move(done)](Operation* ended) mutable {
    absl::StatusOr<T> result = take(*core, *ended);
    core->Free(ended);  // who is called may submit: a full window has room for one then
    done(std::move(result));
  };
}

}  // namespace

void Client::GetAsync(absl::string_view key, const GetOptions& options, Callback<GetResult> done) {
  Start<GetResult>(core_.get(), api::GetRequest(key, options), &api::TakeGet, std::move(done));
}

void Client::PutAsync(absl::string_view key, absl::string_view value, const PutOptions& options,
                      Callback<WriteResult> done) {
  Start<WriteResult>(core_.get(), api::PutRequest(core_.get(), key, value, options),
                     &api::TakeWrite, std::move(done));
}

void Client::DeleteAsync(absl::string_view key, const DeleteOptions& options,
                         Callback<WriteResult> done) {
  Start<WriteResult>(core_.get(), api::DeleteRequest(*core_, key, options), &api::TakeWrite,
                     std::move(done));
}

void Client::MoveAsync(absl::string_view key, absl::string_view memgest, const PutOptions& options,
                       Callback<WriteResult> done) {
  Start<WriteResult>(core_.get(), api::MoveRequest(core_.get(), key, memgest, options),
                     &api::TakeWrite, std::move(done));
}

Future<GetResult> Client::GetAsync(absl::string_view key, const GetOptions& options) {
  Future<GetResult> future(this);
  GetAsync(key, options, [state = future.state_](absl::StatusOr<GetResult> result) {
    *state = std::move(result);
  });
  return future;
}

Future<WriteResult> Client::PutAsync(absl::string_view key, absl::string_view value,
                                     const PutOptions& options) {
  Future<WriteResult> future(this);
  PutAsync(key, value, options, [state = future.state_](absl::StatusOr<WriteResult> result) {
    *state = std::move(result);
  });
  return future;
}

Future<WriteResult> Client::DeleteAsync(absl::string_view key, const DeleteOptions& options) {
  Future<WriteResult> future(this);
  DeleteAsync(key, options, [state = future.state_](absl::StatusOr<WriteResult> result) {
    *state = std::move(result);
  });
  return future;
}

Future<WriteResult> Client::MoveAsync(absl::string_view key, absl::string_view memgest,
                                      const PutOptions& options) {
  Future<WriteResult> future(this);
  MoveAsync(key, memgest, options, [state = future.state_](absl::StatusOr<WriteResult> result) {
    *state = std::move(result);
  });
  return future;
}

void Batch::Add(Kind kind, absl::string_view key, absl::string_view value,
                const PutOptions& options) {
  requests_.push_back({kind, std::string(key), std::string(value), std::string(options.memgest),
                       options.memgest_id, options.if_version, options.deadline});
}

absl::StatusOr<std::vector<absl::StatusOr<Batch::Result>>> Client::Execute(const Batch& batch) {
  ClientCore* core = core_.get();
  std::vector<absl::StatusOr<Batch::Result>> results(batch.requests_.size());
  std::vector<Operation*> operations(batch.requests_.size(), nullptr);
  std::size_t taken = 0;
  const auto take = [&](std::size_t i) {
    Operation* op = std::exchange(operations[i], nullptr);
    if (op == nullptr) return;  // refused when it was submitted
    api::Await(core, op);
    if (absl::Status status = api::ResultStatus(*core, *op); !status.ok()) {
      results[i] = status;
    } else {
      results[i] =
          Batch::Result{std::string(api::ResultValue(*op)), op->result.version, op->result.memgest};
    }
    core->Free(op);
  };
  for (std::size_t i = 0; i < batch.requests_.size(); ++i) {
    const Batch::Request& from = batch.requests_[i];
    const PutOptions options{from.memgest, from.memgest_id, from.if_version, from.deadline};
    absl::StatusOr<Request> request;
    switch (from.kind) {
      case Batch::Kind::kGet:
        request = api::GetRequest(from.key, {from.deadline, from.value_size_hint, from.degraded});
        break;
      case Batch::Kind::kPut:
        request = api::PutRequest(core, from.key, from.value, options);
        break;
      case Batch::Kind::kDelete:
        request = api::DeleteRequest(*core, from.key, {from.if_version, from.deadline});
        break;
      case Batch::Kind::kMove:
        request = api::MoveRequest(core, from.key, from.memgest, options);
        break;
    }
    absl::StatusOr<Operation*> op = request.ok() ? core->Submit(*request) : request.status();
    // The batch's own results hold the window: the oldest are taken to make room.
    while (!op.ok() && request.ok() && absl::IsResourceExhausted(op.status()) && taken < i) {
      take(taken++);
      op = core->Submit(*request);
    }
    if (!op.ok() && request.ok() && absl::IsResourceExhausted(op.status())) {
      op = api::Admit(core, *request);
    }
    if (op.ok()) {
      operations[i] = *op;
    } else {
      results[i] = op.status();
    }
  }
  while (taken < results.size()) take(taken++);
  return results;
}

}  // namespace ring
