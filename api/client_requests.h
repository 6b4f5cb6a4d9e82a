// api/client_requests.h — from the public calls to the core's requests, and back.
//
// What:      *Request build what ClientCore::Submit takes; Call waits for one; Take* read results.
// Ownership: requests borrow keys and values; operations are the caller's to Free.
// Threads:   the client's.
// Errors:    Call: kInvalidArgument, kResourceExhausted (no room in the window, or no memory for a
//            large value, until the deadline): nothing was sent. PutRequest, MoveRequest:
//            kFailedPrecondition (memgest unknown), kDeadlineExceeded (nobody told of any).
#ifndef RING_API_CLIENT_REQUESTS_H_
#define RING_API_CLIENT_REQUESTS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "api/client.h"
#include "api/client_core.h"

namespace ring::api {

Request GetRequest(absl::string_view key, const GetOptions& options);
absl::StatusOr<Request> PutRequest(ClientCore* core, absl::string_view key, absl::string_view value,
                                   const PutOptions& options);
Request DeleteRequest(const ClientCore& core, absl::string_view key, const DeleteOptions& options);
absl::StatusOr<Request> MoveRequest(ClientCore* core, absl::string_view key,
                                    absl::string_view memgest, const PutOptions& options);
void SetDestination(absl::Span<char> buffer, Request* request);

// Waits for the view once when the name is unknown. Errors: as PutRequest.
absl::StatusOr<MemgestId> ResolveMemgest(ClientCore* core, absl::string_view name,
                                         std::uint64_t until_ns);

// Waits for room in the window.
absl::StatusOr<Operation*> Admit(ClientCore* core, const Request& request);
// Waits for the end of the operation.
void Await(ClientCore* core, const Operation* op);
absl::StatusOr<Operation*> Call(ClientCore* core, const Request& request);
absl::StatusOr<WriteResult> CallWrite(ClientCore* core, const Request& request);

absl::Status ResultStatus(const ClientCore& core, const Operation& op);
absl::string_view ResultValue(const Operation& op);
absl::StatusOr<GetResult> TakeGet(const ClientCore& core, const Operation& op);
absl::StatusOr<WriteResult> TakeWrite(const ClientCore& core, const Operation& op);

}  // namespace ring::api

#endif  // RING_API_CLIENT_REQUESTS_H_
