#include "rdma/fabric.h"

namespace ring::rdma {

absl::string_view WcStatusName(WcStatus status) {
  switch (status) {
    case WcStatus::kSuccess:
      return "success";
    case WcStatus::kLocalLength:
      return "local length";
    case WcStatus::kLocalProtection:
      return "local protection";
    case WcStatus::kFlushed:
      return "flushed";
    case WcStatus::kRemoteAccess:
      return "remote access";
    case WcStatus::kRemoteInvalid:
      return "remote invalid";
    case WcStatus::kRnrRetryExceeded:
      return "rnr retry exceeded";
    case WcStatus::kRetryExceeded:
      return "retry exceeded";
    case WcStatus::kCalcFailed:
      return "calc failed";
  }
  return "unknown";
}

}  // namespace ring::rdma
