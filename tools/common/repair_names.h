// tools/common/repair_names.h — repair schemes as command lines name them.
//
// What:      RepairNames, for a CLI::CheckedTransformer.
// Threads:   pure.
// Errors:    none.
#ifndef RING_TOOLS_COMMON_REPAIR_NAMES_H_
#define RING_TOOLS_COMMON_REPAIR_NAMES_H_

#include <map>
#include <string>

#include "ring/protocol/memgest_descriptor.h"

namespace ring::tools {

inline std::map<std::string, protocol::RepairScheme> RepairNames() {
  std::map<std::string, protocol::RepairScheme> names;
  for (const protocol::RepairScheme one : protocol::kRepairSchemes)
    names[std::string(protocol::RepairName(one))] = one;
  return names;
}

}  // namespace ring::tools

#endif  // RING_TOOLS_COMMON_REPAIR_NAMES_H_
