#include "rdma/host_identity.h"

#include <fstream>

namespace ring::rdma {

std::string HostIdentity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace ring::rdma
