// api/client_owner_search.h — the shards whose owner a client has lost, and whom it asks next.
//
// What:      OwnerSearch keeps which shards are sought, gives them turns, a round of questions
//            each, and says when so many rounds were silent that the view itself must be doubted.
// Shape:     a flag and a count per shard; one round at a time.
// Units:     nanoseconds; shards by their number, group * s + shard.
// Threads:   thread-compatible; pure accounting, sends nothing.
// Errors:    none.
// Cost:      nothing while no shard is sought.
// Source:    protocol rule X3.
#ifndef RING_API_CLIENT_OWNER_SEARCH_H_
#define RING_API_CLIENT_OWNER_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ring::api {

class OwnerSearch {
 public:
  static constexpr std::uint64_t kRoundNs = 20'000'000;
  static constexpr int kSilentRoundsMax = 2;  // then the view is fetched from any seed

  struct Round {
    std::size_t shard = 0;
    int slot = 0;  // of a key that waits for it
  };

  void Resize(std::size_t shard_count) { shards_.resize(shard_count); }
  // The owner of the slot's shard does not answer, or says that it is not.
  void Seek(std::size_t shard, int slot) {
    Entry& entry = shards_[shard];
    if (entry.sought) return;
    entry = {true, slot, 0};
    ++sought_count_;
  }
  // Somebody said that he is, or nobody waits for that shard any more.
  void Found(std::size_t shard) {
    if (!shards_[shard].sought) return;
    shards_[shard] = {};
    --sought_count_;
    if (asking_ && round_.shard == shard) asking_ = false;
  }
  bool active() const { return sought_count_ != 0; }
  bool asking() const { return asking_; }
  const Round& round() const { return round_; }

  // Whether a round may begin: none is under way, and the last began long enough ago.
  bool Due(std::uint64_t now_ns) const { return active() && !asking_ && now_ns >= next_ns_; }
  // Begins the round of the next shard in turn. REQUIRES: Due.
  const Round& Begin(std::uint64_t now_ns) {
    do {
      turn_ = (turn_ + 1) % shards_.size();
    } while (!shards_[turn_].sought);
    asking_ = true;
    next_ns_ = now_ns + kRoundNs;
    round_ = {turn_, shards_[turn_].slot};
    return round_;
  }
  // Whether the round has lasted long enough.
  bool Over(std::uint64_t now_ns) const { return asking_ && now_ns >= next_ns_; }
  // Nobody owned it. True: for the second time, and every second time from then on.
  bool EndSilent() {
    asking_ = false;
    return ++shards_[round_.shard].silent_rounds % kSilentRoundsMax == 0;
  }

 private:
  struct Entry {
    bool sought = false;
    int slot = 0;
    int silent_rounds = 0;
  };
  std::vector<Entry> shards_;
  std::size_t sought_count_ = 0;
  std::size_t turn_ = 0;
  bool asking_ = false;
  Round round_;
  std::uint64_t next_ns_ = 0;
};

}  // namespace ring::api

#endif  // RING_API_CLIENT_OWNER_SEARCH_H_
