// ring/recovery/join_progress.h — when a member that joined has all values.
//
// What:      JoinProgress: where the logs ended when the last large write was finished of those
//            that had begun before the member's snapshot, and whether what the member says is of
//            logs that are folded up to there. A FINAL that it has not folded is absent, and not
//            counted yet.
// Shape:     the ends are taken once and stay: what is appended behind them comes whole, and under
//            load no member has folded all that is appended.
// Ownership: value; one a role and epoch, the coordinator's.
// Threads:   one, the node's.
// Errors:    none.
// Source:    docs/GLOSSARY.md (data-complete); rules E6, S10.
#ifndef RING_RECOVERY_JOIN_PROGRESS_H_
#define RING_RECOVERY_JOIN_PROGRESS_H_

#include <map>
#include <utility>

#include "ring/recovery/join_message.h"

namespace ring::recovery {

class JoinProgress {
 public:
  using Ends = std::map<MemgestId, std::uint64_t>;  // last index of each log

  bool has_ends() const { return has_ends_; }
  void SetEnds(Ends ends) {
    ends_ = std::move(ends);
    has_ends_ = true;
  }
  // A memgest that is younger than the ends has no value from before the snapshot.
  bool IsComplete(const ValuesToCome& values) const {
    const auto end = ends_.find(values.memgest);
    const bool folded = end == ends_.end() || values.applied >= end->second;
    return has_ends_ && folded && values.absent == 0;
  }

 private:
  Ends ends_;
  bool has_ends_ = false;
};

}  // namespace ring::recovery

#endif  // RING_RECOVERY_JOIN_PROGRESS_H_
