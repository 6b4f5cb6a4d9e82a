// ring/coordinator/fence.h — whether this node still holds its roles: asked between a reply's
// capture and its publication.
//
// What:      Fence: the port that `lease` and `check` stand behind (ring/node). OpenFence: roles
//            that nobody can take away.
// Shape:     replies are captured first: their values copied or pinned. Captures are numbered; the
//            fence says up to which number they may be published. The rest is held: neither
//            answered nor dropped, until a later decision covers it, or the role is lost and it is
//            dropped without a word (V7). A value is never read behind the decision (L2).
// Units:     captures count from 1.
// Ownership: none.
// Threads:   one, the node's.
// Errors:    none: what cannot be decided yet is held.
// Cost:      once a batch of replies.
// Source:    rules V7, L1, L2, L3.
#ifndef RING_COORDINATOR_FENCE_H_
#define RING_COORDINATOR_FENCE_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace ring::coordinator {

class Fence {
 public:
  virtual ~Fence() = default;
  // Replies up to number `captured` are captured. Gives the number up to which they may be
  // published: `captured`, or less. Never less than it gave before.
  virtual std::uint64_t Decide(std::uint64_t captured) = 0;
  // "open", "lease", "check".
  virtual absl::string_view name() const = 0;
};

class OpenFence final : public Fence {
 public:
  std::uint64_t Decide(std::uint64_t captured) override { return captured; }
  absl::string_view name() const override { return "open"; }
};

}  // namespace ring::coordinator

#endif  // RING_COORDINATOR_FENCE_H_
