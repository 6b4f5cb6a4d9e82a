#include "ring/cluster/default_memgests.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace ring::cluster {

std::vector<protocol::MemgestDescriptor> DefaultMemgests(int s, int d) {
  std::vector<protocol::MemgestDescriptor> all;
  for (const int r : {3, 2, 4, 1}) {  // an unreliable default would surprise
    protocol::MemgestDescriptor memgest;
    memgest.name = absl::StrCat("REP", r);
    memgest.r = static_cast<std::uint8_t>(r);
    all.push_back(std::move(memgest));
  }
  for (const auto& [k, m] : {std::pair{2, 1}, {3, 1}, {3, 2}}) {
    protocol::MemgestDescriptor memgest;
    memgest.name = absl::StrCat("SRS", k, m);
    memgest.scheme = protocol::Scheme::kStretchedReedSolomon;
    memgest.r = 0;
    memgest.k = static_cast<std::uint8_t>(k);
    memgest.m = static_cast<std::uint8_t>(m);
    all.push_back(std::move(memgest));
  }
  std::erase_if(all, [&](const auto& memgest) { return !memgest.Validate(s, d).ok(); });
  return all;
}

}  // namespace ring::cluster
