// ring/node/fence/lease_fence.h — the fence of a coordinator that holds a lease.
//
// What:      LeaseFence renews the lease of this start of the node, which covers all its roles, and
//            lets replies pass while it lasts: until t_send(renewal) + D of a renewal that was
//            granted.
// Shape:     renewals go out every D/4, whatever became of those before; each counts from when it
//            was sent, so that a late answer gives what is left of it.
// Units:     nanoseconds of the node's clock, which goes on while the machine is suspended
//            (CLOCK_BOOTTIME). The machine itself must not be paused as a whole from outside: then
//            use `check`.
// Ownership: borrows the clock.
// Threads:   one, the node's.
// Errors:    none: without a grant replies are held.
// Cost:      one look at the clock a batch of replies, behind their capture (L2): a look from
//            before the capture would let a value pass that was read after the lease had ended.
// Source:    rules L1, L2; Gray and Cheriton, "Leases" (SOSP 1989).
#ifndef RING_NODE_FENCE_LEASE_FENCE_H_
#define RING_NODE_FENCE_LEASE_FENCE_H_

#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "ring/base/clock.h"
#include "ring/coordinator/fence.h"

namespace ring::node {

class LeaseFence final : public coordinator::Fence {
 public:
  using Granted = absl::AnyInvocable<void(const absl::Status&)>;
  // Asks the leader; may answer at any time, or never.
  using Renew = absl::AnyInvocable<void(Granted)>;

  LeaseFence(const Clock* clock, std::uint64_t lease_ns, Renew renew)
      : clock_(clock), lease_ns_(lease_ns), renew_(std::move(renew)) {}
  ~LeaseFence() override { *alive_ = false; }

  // Renews when it is time. now_ns: as of this turn, or before.
  void Progress(std::uint64_t now_ns);

  std::uint64_t Decide(std::uint64_t captured) override;
  absl::string_view name() const override { return "lease"; }
  // When the lease ends; 0: there was none.
  std::uint64_t until_ns() const { return until_ns_; }

 private:
  const Clock* clock_;
  std::uint64_t lease_ns_;
  Renew renew_;
  std::uint64_t until_ns_ = 0;
  std::uint64_t next_ns_ = 0;
  std::uint64_t turn_ns_ = 0;
  std::uint64_t passed_ = 0;
  // Answers that come when this is gone find nobody.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ring::node

#endif  // RING_NODE_FENCE_LEASE_FENCE_H_
