// tests/node/fence/check_world.h — a coordinator that looks at the voters of a LeaseWorld.
//
// What:      TestReader reads the words of a world's servers when it is told to; CheckingNode is a
//            CheckFence that knows what a server knew at some moment, as one that was stopped then.
// Ownership: borrows the world.
// Threads:   one.
// Errors:    none.
#ifndef RING_TESTS_NODE_FENCE_CHECK_WORLD_H_
#define RING_TESTS_NODE_FENCE_CHECK_WORLD_H_

#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include "ring/node/fence/check_fence.h"
#include "tests/node/fence/lease_world.h"

namespace ring::node::testing {

class TestReader final : public WordReader {
 public:
  explicit TestReader(LeaseWorld* world) : world_(world) {}
  // A word is read at the post, and told of when nothing holds it up.
  bool Post(NodeId node, std::uint64_t tag) override {
    if (down.contains(node.value())) return false;
    ++posted;
    if (hangs.contains(node.value())) return true;
    words_.push_back({tag, true, world_->word(static_cast<std::uint16_t>(node.value()))});
    return true;
  }
  bool Poll(Word* word) override {
    if (held_up || words_.empty()) return false;
    *word = words_.front();
    words_.pop_front();
    return true;
  }

  std::set<std::uint32_t> down;
  std::set<std::uint32_t> hangs;  // nothing comes of what is posted
  bool held_up = false;
  int posted = 0;

 private:
  LeaseWorld* world_;
  std::deque<Word> words_;
};

class CheckingNode {
 public:
  // Knows what server 0 has applied now.
  explicit CheckingNode(LeaseWorld* world)
      : reader(world),
        world_(world),
        fence(
            &world->clock, &reader,
            [this] {
              return RoleMark{roles_, voters_};
            },
            [this] { ++refreshes; }) {
    Learn();
  }
  void Learn() {
    const RoleMark known = world_->known(0);
    roles_ = known.roles;
    voters_.assign(known.voters.begin(), known.voters.end());
  }
  bool Passes() {
    ++captured_;
    return fence.Decide(captured_) == captured_;
  }

  TestReader reader;
  int refreshes = 0;

 private:
  LeaseWorld* world_;
  consensus::LogIndex roles_ = 0;
  std::vector<consensus::ServerId> voters_;
  std::uint64_t captured_ = 0;

 public:
  CheckFence fence;
};

}  // namespace ring::node::testing

#endif  // RING_TESTS_NODE_FENCE_CHECK_WORLD_H_
