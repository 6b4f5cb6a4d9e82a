// api/admin/admin_service.h — the gRPC service of operators over a process's AdminPort.
//
// What:      StartAdminServer: ring.admin.v1.Admin with server reflection (grpcurl works without a
//            .proto file) and the standard health service.
// Shape:     requests of at most kAdminMessageSizeMax bytes; one scrub at a time. With a token each
//            call of Admin and FaultInjection must carry it; health and reflection are open.
// Ownership: borrows the port until Shutdown or destruction has returned.
// Threads:   the port is called by gRPC's threads, at most kAdminThreadCountMax at a time. The
//            server itself: one thread at a time.
// Errors:    kUnauthenticated without the token, before anything else is looked at; fields are
//            checked here, kInvalidArgument naming the field, before the port is asked;
//            the port's statuses pass unchanged. A message that does not parse, or is too large,
//            never arrives.
// Source:    rules G10, G11, X6; bad inputs (docs/RULES.md).
#ifndef RING_API_ADMIN_ADMIN_SERVICE_H_
#define RING_API_ADMIN_ADMIN_SERVICE_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ring/node/admin_port.h"

namespace ring::admin {

inline constexpr std::size_t kAdminMessageSizeMax = 64 * 1024;  // of a request
inline constexpr int kAdminThreadCountMax = 16;

class AdminServer {
 public:
  virtual ~AdminServer() = default;
  // The port it listens at; that of the address unless it was 0.
  virtual int port() const = 0;
  // Refuses new calls, cancels those under way after a short grace, and waits until none is left.
  virtual void Shutdown() = 0;
};

// address: "HOST:PORT"; port 0 takes a free one. token: as ReadTokenFile gives it; empty: none is
// asked for.
// Errors: kInvalidArgument (address), kUnavailable (it cannot be listened at).
absl::StatusOr<std::unique_ptr<AdminServer>> StartAdminServer(absl::string_view address,
                                                              node::AdminPort* port,
                                                              std::string token = "");

}  // namespace ring::admin

#endif  // RING_API_ADMIN_ADMIN_SERVICE_H_
