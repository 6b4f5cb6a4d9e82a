// ring/protocol/memgest_descriptor.h — what a memgest is: a value type.
//
// What:      MemgestDescriptor, its validation against the cluster's (s, d), f(M), storage
//            overhead, its roles, and its bytes on the wire.
// Shape:     Rep(r,s): 1 <= r <= s+d. SRS(k,m,s): 2 <= k <= s <= 16, 1 <= m <= d, m <= 4.
// Units:     block_size in bytes, a power of two, 4 KiB to 2 MiB.
// Ownership: value.
// Threads:   pure.
// Errors:    Validate, Consume: kInvalidArgument naming the field and its bounds.
// Source:    docs/GLOSSARY.md (commit rule, f); rules S9, L10; Ring section 3.
#ifndef RING_PROTOCOL_MEMGEST_DESCRIPTOR_H_
#define RING_PROTOCOL_MEMGEST_DESCRIPTOR_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ring/base/id.h"

namespace ring::protocol {

// Travel: never renumber.
enum class Scheme : std::uint8_t { kReplicated = 1, kStretchedReedSolomon = 2 };
enum class CommitRule : std::uint8_t { kQuorum = 1, kAll = 2 };
// How a lost block of a stretched memgest comes back (docs/RECOVERY.md, "Decoding"). Travels: never
// renumber.
enum class RepairScheme : std::uint8_t { kRs = 1, kPpr = 2, kEcPipe = 3, kTriEc = 4 };
inline constexpr std::array kRepairSchemes = {RepairScheme::kRs, RepairScheme::kPpr,
                                              RepairScheme::kEcPipe, RepairScheme::kTriEc};
// Travels: never renumber.
enum class MemgestState : std::uint8_t { kCreating = 1, kActive = 2, kDraining = 3, kDeleted = 4 };

inline constexpr std::uint32_t kBlockSizeDefault = 256 * 1024;
inline constexpr std::uint32_t kBlockSizeMin = 4 * 1024;
inline constexpr std::uint32_t kBlockSizeMax = 2 * 1024 * 1024;
inline constexpr std::size_t kMemgestNameSizeMax = 63;

// What was so once, as long as the cluster lives (X7): a record of a change that was made then may
// have been with one node alone, though it would be with several by the memgests of today.
struct WeakPast {
  bool was_default = false;  // a memgest of f = 0
  bool was_alone = false;    // memgests of f = 0, when the first other one was made
  friend bool operator==(const WeakPast&, const WeakPast&) = default;
};

struct MemgestDescriptor {
  MemgestId id;      // at most kMemgestIdMax
  std::string name;  // letters, digits, '-', '_', '.'; unique among those not DELETED
  Scheme scheme = Scheme::kReplicated;
  CommitRule commit = CommitRule::kQuorum;  // replicated only; SRS needs all parities
  MemgestState state = MemgestState::kActive;
  std::uint8_t r = 1;  // replicated
  std::uint8_t k = 0;  // stretched
  std::uint8_t m = 0;
  std::uint32_t block_size = kBlockSizeDefault;
  RepairScheme repair = RepairScheme::kRs;  // stretched only

  friend bool operator==(const MemgestDescriptor&, const MemgestDescriptor&) = default;

  // Whether it can exist in a cluster of (s, d).
  absl::Status Validate(int s, int d) const;
  // Memory losses that an acknowledged value survives (docs/GLOSSARY.md, f).
  int FailuresTolerated() const;
  // Bytes stored for one byte of value.
  double StorageOverhead() const;
  // Completions of other members that a commit needs.
  int AcksNeeded() const;
  // "Rep(3)", "SRS(3,2)".
  std::string SchemeName() const;
  // Roles of the members of shard i besides its coordinator, in order (L10): replica t or parity j.
  std::vector<Role> MemberRoles(ShardId shard, int s, int d) const;
  // The same as a set.
  RoleMask MemberMask(ShardId shard, int s, int d) const;

 private:
  int MemberCount() const;
  int MemberRole(int index, ShardId shard, int s, int d) const;
};

// "creating", "active", "draining", "deleted".
absl::string_view StateName(MemgestState state);
// "rs", "ppr", "ecpipe", "triec".
absl::string_view RepairName(RepairScheme repair);

void AppendMemgestDescriptor(const MemgestDescriptor& descriptor, std::string* out);
// Takes one descriptor off the front of *in.
absl::StatusOr<MemgestDescriptor> ConsumeMemgestDescriptor(absl::string_view* in);

}  // namespace ring::protocol

#endif  // RING_PROTOCOL_MEMGEST_DESCRIPTOR_H_
