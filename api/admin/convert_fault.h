// api/admin/convert_fault.h — between the fault service's messages and a node's faults.
//
// What:      ToProto and FromProto for injected faults and for what became of a device's.
// Ownership: values.
// Threads:   pure.
// Errors:    FromProto: kInvalidArgument naming the field.
#ifndef RING_API_ADMIN_CONVERT_FAULT_H_
#define RING_API_ADMIN_CONVERT_FAULT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "api/admin.pb.h"
#include "ring/node/events/fault.h"

namespace ring::admin {

v1::InjectRequest ToProto(absl::string_view node, const node::Fault& fault);
absl::StatusOr<node::Fault> FromProto(const v1::InjectRequest& request);
v1::GetDeviceFaultsResponse ToProto(const node::DeviceFaults& faults);
absl::StatusOr<node::DeviceFaults> FromProto(const v1::GetDeviceFaultsResponse& response);

}  // namespace ring::admin

#endif  // RING_API_ADMIN_CONVERT_FAULT_H_
