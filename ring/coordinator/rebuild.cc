// New parities of coded memgests are sent what the shard holds, a piece a turn (S6), no faster than
// other recovery in the background, unless puts need the memory that is barred meanwhile.
#include "ring/coordinator/shard.h"

namespace ring::coordinator {

void ShardCoordinator::RebuildParities(std::uint64_t now_ns) {
  rebuilding_ = false;
  for (const std::unique_ptr<memgest::Memgest>& memgest : memgests_) {
    if (memgest == nullptr || !memgest->rebuild().active()) continue;
    rebuilding_ = true;
    // What finds no room now goes when something was acknowledged or folded. Of a memgest that is
    // drained nothing is rebuilt (G10).
    if (log_.held() || log_.Stuck(*memgest) || !memgest->writable()) continue;
    const bool paced = options_.pace != nullptr && !memgest->rebuild().hurries();
    if (paced && !options_.pace->Ready(now_ns)) continue;
    const std::uint64_t before = memgest->rebuild().pushed_bytes();
    memgest->rebuild().Step(log_, arena_);
    if (options_.pace != nullptr) options_.pace->Take(memgest->rebuild().pushed_bytes() - before);
  }
}

std::vector<ShardCoordinator::Rebuilt> ShardCoordinator::rebuilt() const {
  std::vector<Rebuilt> all;
  if (!rebuilding_) return all;
  for (const std::unique_ptr<memgest::Memgest>& memgest : memgests_) {
    if (memgest == nullptr) continue;
    for (const memgest::ParityRebuild::From& from : memgest->rebuild().parities()) {
      if (!memgest->rebuild().Complete(from.role, log_)) continue;
      all.push_back({memgest->descriptor().id, from.role});
    }
  }
  return all;
}

}  // namespace ring::coordinator
