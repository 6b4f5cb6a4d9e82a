// ring/node/fence/check_fence.h — the fence of a coordinator that looks, behind each capture, at
// what the voters know.
//
// What:      CheckFence READs the voters' words (fence_word.h): replies pass when a majority shows
//            exactly what this node has applied. WordReader is where it reads them.
// Shape:     one set of READs at a time; a set covers all captures from before its first READ was
//            posted; what is captured behind waits for the next. So a node that was stopped
//            anywhere says nothing that it captured while its role was another's. Words that differ
//            are no refusal: the node asks what was agreed upon (a ReadIndex) and looks again. A
//            set with a word that differs, or could not be read, does not wait for long for voters
//            that do not answer.
// Units:     nanoseconds of the node's clock, for the pace of looking again alone.
// Ownership: borrows clock and reader.
// Threads:   one, the node's.
// Errors:    none: without a majority replies are held.
// Cost:      a READ of 8 bytes of a majority, once a batch of replies; on links that finish at the
//            post the batch passes in the same call, else a round trip later.
// Source:    rules L1, L2, L3; docs/adr/0019-fence.md has the argument.
#ifndef RING_NODE_FENCE_CHECK_FENCE_H_
#define RING_NODE_FENCE_CHECK_FENCE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "ring/base/clock.h"
#include "ring/base/id.h"
#include "ring/coordinator/fence.h"
#include "ring/node/fence/role_mark.h"

namespace ring::node {

class WordReader {
 public:
  struct Word {
    std::uint64_t tag = 0;
    bool ok = false;  // false: it could not be read
    std::uint64_t value = 0;
  };
  virtual ~WordReader() = default;
  // Begins to read the node's word. False: it cannot be read now, and nothing comes of it.
  virtual bool Post(NodeId node, std::uint64_t tag) = 0;
  // The next outcome of what was posted, in any order. False: there is none now.
  virtual bool Poll(Word* word) = 0;
};

class CheckFence final : public coordinator::Fence {
 public:
  // What this node has applied; good for the call.
  using Known = absl::AnyInvocable<RoleMark()>;
  // Learns what was agreed upon by now.
  using Refresh = absl::AnyInvocable<void()>;

  CheckFence(const Clock* clock, WordReader* reader, Known known, Refresh refresh)
      : clock_(clock), reader_(reader), known_(std::move(known)), refresh_(std::move(refresh)) {}

  std::uint64_t Decide(std::uint64_t captured) override;
  absl::string_view name() const override { return "check"; }
  // Takes what came of READs, for who has nothing to decide now.
  void Collect();

 private:
  static constexpr int kIndexBits = 8;
  struct Expected {
    NodeId node;
    std::uint64_t word = 0;
  };
  struct Set {
    bool open = false;
    std::uint64_t number = 0;
    std::uint64_t captured = 0;
    std::uint64_t posted_ns = 0;
    std::size_t shown = 0;    // by voters that know what we know
    std::size_t refused = 0;  // not readable, or another word
    bool differs = false;
  };

  bool Expect();
  void Post(std::uint64_t captured);
  void Settle();
  void EndSet();

  const Clock* clock_;
  WordReader* reader_;
  Known known_;
  Refresh refresh_;
  consensus::LogIndex roles_ = 0;  // what expected_ is made of
  std::vector<consensus::ServerId> voters_;
  std::vector<Expected> expected_;
  Set set_;
  std::uint64_t passed_ = 0;
  std::uint64_t captured_ = 0;  // the last that is known of
  std::uint64_t retry_ns_ = 0;  // 0: at once
  std::uint64_t refresh_ns_ = 0;
};

}  // namespace ring::node

#endif  // RING_NODE_FENCE_CHECK_FENCE_H_
