#include "ring/recovery/adoption.h"

#include <algorithm>
#include <bit>

#include "ring/base/check.h"
#include "ring/base/mutant.h"

namespace ring::recovery {
namespace {

const LogEnd* FindLog(const SealedRole& sealed, MemgestId memgest) {
  const auto found = std::find_if(sealed.logs.begin(), sealed.logs.end(),
                                  [memgest](const LogEnd& log) { return log.memgest == memgest; });
  return found == sealed.logs.end() ? nullptr : &*found;
}

AdoptedLog AdoptOne(const LogMembers& log, absl::Span<const SealedRole> sealed,
                    std::optional<Role> preferred) {
  AdoptedLog adopted;
  adopted.memgest = log.memgest->id;
  int answers = 0;
  for (const SealedRole& answer : sealed) {
    // Who is neither may hold entries that were never part of the log (step 7 of an epoch change).
    const bool counts = Has(log.active, answer.role) || Mutant("step2-learner");
    if (!counts && !Has(log.holders, answer.role)) continue;
    answers += counts ? 1 : 0;
    const LogEnd* const end = FindLog(answer, adopted.memgest);
    const std::uint64_t last = end == nullptr ? 0 : end->last;
    const bool longer = Mutant("step4") ? last < adopted.last : last > adopted.last;
    const bool better =
        !adopted.source.has_value() || longer || (last == adopted.last && preferred == answer.role);
    if (!better) continue;
    adopted.source = answer.role;
    adopted.last = last;
    adopted.applied = end == nullptr ? 0 : end->applied;
  }
  adopted.shortest = adopted.last;
  // A coordinator that lives on appended all that was ever acknowledged.
  adopted.lost = !preferred.has_value() && answers < AnswersNeeded(*log.memgest, log.active);
  return adopted;
}

}  // namespace

int AnswersNeeded(const protocol::MemgestDescriptor& memgest, RoleMask active) {
  // Rep(1) promises nothing: its log is the living coordinator's, else an empty one.
  if (memgest.FailuresTolerated() == 0) return 0;
  const bool quorum = memgest.scheme == protocol::Scheme::kReplicated &&
                      memgest.commit == protocol::CommitRule::kQuorum;
  if (!quorum || Mutant("step3")) return 1;
  // Each acknowledged entry is on q of them: it is on one of any set that leaves out q - 1.
  const int copies = memgest.AcksNeeded() + 1;
  return std::max(1, std::popcount(active) - copies + 1);
}

std::vector<AdoptedLog> Adopt(absl::Span<const LogMembers> memgests,
                              absl::Span<const SealedRole> sealed, std::optional<Role> preferred) {
  std::vector<AdoptedLog> adopted;
  adopted.reserve(memgests.size());
  for (const LogMembers& log : memgests) {
    RING_CHECK(log.memgest != nullptr);
    adopted.push_back(AdoptOne(log, sealed, preferred));
  }
  return adopted;
}

}  // namespace ring::recovery
