// Stands in for the verbs endpoint where there is no libibverbs to build it with.
#include "rdma/verbs/verbs_endpoint.h"

namespace ring::rdma::verbs {

absl::StatusOr<std::unique_ptr<soft::NicEndpoint>> MakeVerbsEndpoint(soft::SoftDevice*) {
  return absl::UnimplementedError(
      "this program was built without libibverbs and librdmacm: install libibverbs-dev and "
      "librdmacm-dev and build again, or use tcp addresses");
}

}  // namespace ring::rdma::verbs
