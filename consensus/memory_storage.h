// consensus/memory_storage.h — a storage in memory: of servers without a directory, and of tests.
//
// What:      MemoryStorage, which can fail, keep a part of what failed, and crash in mid-write.
// Ownership: owns its content, which outlives the server that used it as a disk would.
// Threads:   thread-compatible.
// Errors:    those that were injected.
#ifndef RING_CONSENSUS_MEMORY_STORAGE_H_
#define RING_CONSENSUS_MEMORY_STORAGE_H_

#include <cstddef>
#include <limits>

#include "consensus/storage.h"

namespace ring::consensus {

class MemoryStorage final : public Storage {
 public:
  static constexpr std::size_t kAllSteps = std::numeric_limits<std::size_t>::max();

  absl::StatusOr<InitialState> Load() override { return state_; }
  absl::Status Persist(const PersistRequest& request) override;

  // The next `count` calls of Persist fail; each leaves the first `steps` steps of its request.
  void FailNext(std::size_t count, std::size_t steps = 0) {
    failures_ = count;
    steps_kept_ = steps;
  }
  // What a crash in the middle of a Persist leaves: the first `steps` of {hard state, snapshot,
  // each entry} that the request has.
  void WritePart(const PersistRequest& request, std::size_t steps);

  const InitialState& state() const { return state_; }
  LogIndex last_index() const;
  // The term of what is durable at index; 0 when nothing is.
  Term TermAt(LogIndex index) const;

 private:
  InitialState state_;
  std::size_t failures_ = 0;
  std::size_t steps_kept_ = 0;
};

}  // namespace ring::consensus

#endif  // RING_CONSENSUS_MEMORY_STORAGE_H_
