// ring/node/recovery/demotion_check.h — whether the others of a group have every value, before a
// member that lags loses its part in it.
//
// What:      The Normal records say who came by all values once. A replica that folded an entry
//            without its damaged bytes (F10) lacks one again, and the record does not know: the
//            member that lags may have the only copy beside the coordinator's. So all replicas of
//            the group are asked how many values they lack (recovery::ProgressRequest).
// Shape:     one per shard and epoch that looks for members that lag. Look asks when nothing is
//            known that is fresh, and is called again. What a member has not folded yet it does not
//            know of, either.
// Units:     nanoseconds of the caller's clock.
// Ownership: what it asks by is the caller's, and may answer after this is gone.
// Threads:   one, the node's.
// Errors:    who does not answer, or with an error, counts as one who lacks something.
// Source:    rules E5, F10; docs/GLOSSARY.md (data-complete).
#ifndef RING_NODE_RECOVERY_DEMOTION_CHECK_H_
#define RING_NODE_RECOVERY_DEMOTION_CHECK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "ring/cluster/view.h"
#include "ring/recovery/join_message.h"

namespace ring::node {

class DemotionCheck {
 public:
  using Answer = absl::StatusOr<std::vector<recovery::ValuesToCome>>;
  // Asks the node, which answers once, later.
  using Ask = std::function<void(NodeId, const recovery::ProgressRequest&,
                                 absl::AnyInvocable<void(const Answer&)>)>;
  static constexpr std::uint64_t kFreshNs = 250'000'000;  // longer than an answer may take
  static constexpr std::uint64_t kRetryNs = 20'000'000;   // if somebody lacks something

  explicit DemotionCheck(Ask ask) : ask_(std::move(ask)) {}

  // Whether nobody else lacks a value, of any shard of the group. False: somebody does, or the
  // answers are still to come. roles: to be demoted, a mask.
  bool Look(const cluster::View& view, GroupId group, std::uint32_t roles, std::uint64_t now_ns);
  // Rounds after which somebody lacked something, or did not say.
  std::uint64_t refused() const { return refused_; }

 private:
  struct Round {
    Epoch epoch;
    std::uint32_t roles = 0;
    std::uint64_t begun_ns = 0;
    std::size_t open = 0;  // answers still to come
    bool whole = true;
    bool counted = false;
  };
  void Begin(const cluster::View& view, GroupId group);

  Ask ask_;
  std::shared_ptr<Round> round_;  // null: none yet
  std::uint64_t refused_ = 0;
};

}  // namespace ring::node

#endif  // RING_NODE_RECOVERY_DEMOTION_CHECK_H_
