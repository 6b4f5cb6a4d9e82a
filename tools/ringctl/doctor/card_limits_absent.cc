// In builds without libibverbs.
#include "tools/ringctl/doctor/card_limits.h"

namespace ring::tools {

void ReadLimits(std::vector<RdmaDevice>* devices) {
  for (RdmaDevice& device : *devices) device.limits_error = "this build has no libibverbs";
}

}  // namespace ring::tools
