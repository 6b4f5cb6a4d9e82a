// ring/node/fence/fence_word.h — the word by which a voter shows what it has persisted of roles.
//
// What:      FenceWord keeps 8 bytes, that coordinators READ, equal to RoleWord of this server's
//            persisted log.
// Shape:     is told of every persist when it is durable and before anybody else is: before the
//            acknowledgement leaves, at a leader before it counts itself. So once a command is
//            committed, a majority shows it, and goes on to: only truncation lowers the word, and
//            what is committed is not truncated. A start restores it from what was durable; until
//            then the word is 0, which nobody expects.
// Ownership: borrows the word's memory.
// Threads:   one, the node's; peers read meanwhile.
// Errors:    none: a snapshot that cannot be read ends the process, as where it is restored.
// Cost:      of a persist with commands: their decoding.
// Source:    rule L1, check.
#ifndef RING_NODE_FENCE_FENCE_WORD_H_
#define RING_NODE_FENCE_FENCE_WORD_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "consensus/replica.h"
#include "ring/node/fence/role_mark.h"

namespace ring::node {

inline constexpr std::size_t kFenceWordSize = sizeof(std::uint64_t);

std::uint64_t LoadFenceWord(const std::byte* word);

class FenceWord final : public consensus::PersistObserver {
 public:
  // word: kFenceWordSize bytes, aligned to them.
  FenceWord(consensus::ServerId self, std::byte* word) : self_(self), word_(word) {}

  void OnSnapshot(const consensus::Snapshot& snapshot, bool replaces_log) override;
  void OnTruncate(consensus::LogIndex from) override;
  void OnAppend(absl::Span<const consensus::Entry> entries) override;

 private:
  void Store();

  consensus::ServerId self_;
  std::byte* word_;
  // What the persisted log says, from the last that its snapshot stands for on; ascending, not
  // empty once anything is known.
  std::vector<consensus::LogIndex> roles_;
  std::vector<std::pair<consensus::LogIndex, std::vector<consensus::ServerId>>> voters_;
  // The first one counts, and all others are refused. It is valid, of this cluster, and not 0: else
  // it would be refused, too.
  std::vector<std::pair<consensus::LogIndex, std::uint64_t>> foundings_;
  std::uint64_t late_ = 0;  // the bug switch's
};

}  // namespace ring::node

#endif  // RING_NODE_FENCE_FENCE_WORD_H_
