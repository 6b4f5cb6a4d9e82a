// ring/base/status.h — propagation of absl::Status.
//
// What:      RING_RETURN_IF_ERROR(expr) and RING_ASSIGN_OR_RETURN(lhs, expr).
// Threads:   any.
// Errors:    passes on what expr gives, unchanged.
#ifndef RING_BASE_STATUS_H_
#define RING_BASE_STATUS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define RING_CONCAT_INNER_(a, b) a##b
#define RING_CONCAT_(a, b) RING_CONCAT_INNER_(a, b)
#define RING_RETURN_IF_ERROR(expr)                                                   \
  do {                                                                               \
    if (absl::Status ring_status_ = (expr); !ring_status_.ok()) return ring_status_; \
  } while (false)
#define RING_ASSIGN_OR_RETURN(lhs, expr) \
  RING_ASSIGN_OR_RETURN_IMPL_(RING_CONCAT_(ring_statusor_, __COUNTER__), lhs, expr)
#define RING_ASSIGN_OR_RETURN_IMPL_(statusor, lhs, expr)   \
  auto statusor = (expr);                                  \
  if (!statusor.ok()) return std::move(statusor).status(); \
  lhs = std::move(statusor).value()

#endif  // RING_BASE_STATUS_H_
