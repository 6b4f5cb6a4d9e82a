#include "ring/protocol/memgest_descriptor.h"

#include <algorithm>
#include <bit>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ring/base/wire.h"

namespace ring::protocol {
namespace {

constexpr int kStretchMax = 16;  // s of a stretched memgest
constexpr int kParityMax = 4;
// id, scheme, commit, state, r, k, m, repair, block size, name length; the name follows.
constexpr std::size_t kFixedSize = 2 + 7 + 4 + 1;

absl::Status OutOfBounds(absl::string_view field, int value, int low, int high) {
  return absl::InvalidArgumentError(
      absl::StrFormat("memgest %s=%d is not in %d..%d", field, value, low, high));
}

absl::Status CheckId(MemgestId id) {
  if (id <= kMemgestIdMax) return absl::OkStatus();
  return OutOfBounds("id", id.value(), 0, kMemgestIdMax.value());
}

absl::Status CheckName(absl::string_view name) {
  if (name.empty() || name.size() > kMemgestNameSizeMax) {
    return absl::InvalidArgumentError(absl::StrCat("memgest name has length=", name.size(),
                                                   ", allowed are 1..", kMemgestNameSizeMax));
  }
  for (const char c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_' && c != '.') {
      return absl::InvalidArgumentError(
          absl::StrFormat("memgest name holds byte=0x%02x, allowed are letters, digits, - _ .",
                          static_cast<unsigned char>(c)));
    }
  }
  return absl::OkStatus();
}

bool IsScheme(std::uint8_t value) { return value >= 1 && value <= 2; }
bool IsCommitRule(std::uint8_t value) { return value >= 1 && value <= 2; }
bool IsRepair(std::uint8_t value) { return value >= 1 && value <= 4; }
bool IsState(std::uint8_t value) { return value >= 1 && value <= 4; }

}  // namespace

absl::Status MemgestDescriptor::Validate(int s, int d) const {
  if (absl::Status status = CheckId(id); !status.ok()) return status;
  if (absl::Status status = CheckName(name); !status.ok()) return status;
  if (!IsCommitRule(static_cast<std::uint8_t>(commit))) {
    return OutOfBounds("commit", static_cast<int>(commit), 1, 2);
  }
  if (!IsRepair(static_cast<std::uint8_t>(repair))) {
    return OutOfBounds("repair", static_cast<int>(repair), 1, 4);
  }
  if (scheme == Scheme::kReplicated && repair != RepairScheme::kRs) {
    return absl::InvalidArgumentError(absl::StrCat("memgest repair=", RepairName(repair),
                                                   " is for coded ones: a lost value of ",
                                                   SchemeName(), " is copied"));
  }
  if (!IsState(static_cast<std::uint8_t>(state))) {
    return OutOfBounds("state", static_cast<int>(state), 1, 4);
  }
  if (!std::has_single_bit(block_size) || block_size < kBlockSizeMin ||
      block_size > kBlockSizeMax) {
    return absl::InvalidArgumentError(absl::StrCat("memgest block_size=", block_size,
                                                   " is not a power of two in ", kBlockSizeMin,
                                                   "..", kBlockSizeMax));
  }
  switch (scheme) {
    case Scheme::kReplicated:
      if (r < 1 || r > s + d) return OutOfBounds("r", r, 1, s + d);
      return absl::OkStatus();
    case Scheme::kStretchedReedSolomon:
      if (s > kStretchMax) {
        return absl::InvalidArgumentError(absl::StrCat("memgest cannot be stretched over s=", s,
                                                       " nodes, at most ", kStretchMax));
      }
      if (k < 2 || k > s) return OutOfBounds("k", k, 2, s);
      if (m < 1 || m > std::min(d, kParityMax))
        return OutOfBounds("m", m, 1, std::min(d, kParityMax));
      return absl::OkStatus();
  }
  return OutOfBounds("scheme", static_cast<int>(scheme), 1, 2);
}

int MemgestDescriptor::AcksNeeded() const {
  if (scheme == Scheme::kStretchedReedSolomon) return m;
  return commit == CommitRule::kAll ? r - 1 : r / 2;  // quorum: r/2 + 1 with the coordinator
}

// Whoever is not needed for the commit may lack the value, so what survives is the number of
// others that had to have it.
int MemgestDescriptor::FailuresTolerated() const { return AcksNeeded(); }

double MemgestDescriptor::StorageOverhead() const {
  if (scheme == Scheme::kReplicated) return r;
  return static_cast<double>(k + m) / k;
}

std::string MemgestDescriptor::SchemeName() const {
  if (scheme == Scheme::kReplicated) return absl::StrCat("Rep(", r, ")");
  return absl::StrCat("SRS(", k, ",", m, ")");
}

// L10: the redundant roles first, then the coordinators that follow the shard's own.
int MemgestDescriptor::MemberRole(int index, ShardId shard, int s, int d) const {
  const bool redundant = scheme == Scheme::kStretchedReedSolomon || index < d;
  return redundant ? s + index : (shard.value() + 1 + index - d) % s;
}

int MemgestDescriptor::MemberCount() const {
  return scheme == Scheme::kStretchedReedSolomon ? m : std::max(r - 1, 0);
}

std::vector<Role> MemgestDescriptor::MemberRoles(ShardId shard, int s, int d) const {
  std::vector<Role> roles;
  roles.reserve(static_cast<std::size_t>(MemberCount()));
  for (int i = 0; i < MemberCount(); ++i)
    roles.push_back(Role(static_cast<std::uint16_t>(MemberRole(i, shard, s, d))));
  return roles;
}

RoleMask MemgestDescriptor::MemberMask(ShardId shard, int s, int d) const {
  RoleMask mask = 0;
  for (int i = 0; i < MemberCount(); ++i) mask |= RoleMask{1} << MemberRole(i, shard, s, d);
  return mask;
}

absl::string_view StateName(MemgestState state) {
  switch (state) {
    case MemgestState::kCreating:
      return "creating";
    case MemgestState::kActive:
      return "active";
    case MemgestState::kDraining:
      return "draining";
    case MemgestState::kDeleted:
      return "deleted";
  }
  return "unknown";
}

absl::string_view RepairName(RepairScheme repair) {
  switch (repair) {
    case RepairScheme::kRs:
      return "rs";
    case RepairScheme::kPpr:
      return "ppr";
    case RepairScheme::kEcPipe:
      return "ecpipe";
    case RepairScheme::kTriEc:
      return "triec";
  }
  return "unknown";
}

void AppendMemgestDescriptor(const MemgestDescriptor& descriptor, std::string* out) {
  ByteWriter writer;
  writer.Put(descriptor.id.value());
  writer.Put(static_cast<std::uint8_t>(descriptor.scheme));
  writer.Put(static_cast<std::uint8_t>(descriptor.commit));
  writer.Put(static_cast<std::uint8_t>(descriptor.state));
  writer.Put(descriptor.r);
  writer.Put(descriptor.k);
  writer.Put(descriptor.m);
  writer.Put(static_cast<std::uint8_t>(descriptor.repair));
  writer.Put(descriptor.block_size);
  const absl::string_view name = absl::string_view(descriptor.name).substr(0, kMemgestNameSizeMax);
  writer.Put(static_cast<std::uint8_t>(name.size()));
  writer.PutBytes(name);
  out->append(writer.bytes());
}

absl::StatusOr<MemgestDescriptor> ConsumeMemgestDescriptor(absl::string_view* in) {
  ByteReader reader(*in);
  MemgestDescriptor descriptor;
  descriptor.id = MemgestId(reader.Get<std::uint16_t>());
  const auto scheme = reader.Get<std::uint8_t>();
  const auto commit = reader.Get<std::uint8_t>();
  const auto state = reader.Get<std::uint8_t>();
  descriptor.r = reader.Get<std::uint8_t>();
  descriptor.k = reader.Get<std::uint8_t>();
  descriptor.m = reader.Get<std::uint8_t>();
  const auto repair = reader.Get<std::uint8_t>();
  descriptor.block_size = reader.Get<std::uint32_t>();
  const auto name_length = reader.Get<std::uint8_t>();
  const absl::string_view name = reader.GetBytes(name_length);
  if (!reader.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "memgest descriptor is truncated: length=", in->size(), " of ", kFixedSize + name_length));
  }
  if (absl::Status status = CheckId(descriptor.id); !status.ok()) return status;
  if (!IsScheme(scheme)) return OutOfBounds("scheme", scheme, 1, 2);
  if (!IsCommitRule(commit)) return OutOfBounds("commit", commit, 1, 2);
  if (!IsRepair(repair)) return OutOfBounds("repair", repair, 1, 4);
  if (!IsState(state)) return OutOfBounds("state", state, 1, 4);
  if (absl::Status status = CheckName(name); !status.ok()) return status;
  descriptor.name = std::string(name);
  descriptor.scheme = static_cast<Scheme>(scheme);
  descriptor.commit = static_cast<CommitRule>(commit);
  descriptor.state = static_cast<MemgestState>(state);
  descriptor.repair = static_cast<RepairScheme>(repair);
  *in = *reader.rest();
  return descriptor;
}

}  // namespace ring::protocol
