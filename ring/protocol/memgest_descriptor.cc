#include "ring/protocol/memgest_descriptor.h"

#include <algorithm>
#include <bit>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ring::protocol {
namespace {

constexpr int kStretchMax = 16;  // s of a stretched memgest
constexpr int kParityMax = 4;
// id, scheme, commit, state, r, k, m, block size, name length; the name follows.
constexpr std::size_t kFixedSize = 2 + 6 + 4 + 1;

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
bool IsState(std::uint8_t value) { return value >= 1 && value <= 4; }

void AppendLittleEndian(std::uint32_t value, int size, std::string* out) {
  for (int i = 0; i < size; ++i) out->push_back(static_cast<char>((value >> (8 * i)) & 0xff));
}

std::uint32_t LoadLittleEndian(absl::string_view bytes, std::size_t at, std::size_t size) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < size; ++i) {
    value |= std::uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return value;
}

}  // namespace

absl::Status MemgestDescriptor::Validate(int s, int d) const {
  if (absl::Status status = CheckId(id); !status.ok()) return status;
  if (absl::Status status = CheckName(name); !status.ok()) return status;
  if (!IsCommitRule(static_cast<std::uint8_t>(commit))) {
    return OutOfBounds("commit", static_cast<int>(commit), 1, 2);
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

std::vector<Role> MemgestDescriptor::MemberRoles(ShardId shard, int s, int d) const {
  std::vector<Role> roles;
  const auto add = [&roles](int role) { roles.push_back(Role(static_cast<std::uint16_t>(role))); };
  if (scheme == Scheme::kStretchedReedSolomon) {
    for (int j = 0; j < m; ++j) add(s + j);
    return roles;
  }
  for (int t = 0; t < r - 1; ++t) {
    // L10: the redundant roles first, then the coordinators that follow the shard's own.
    add(t < d ? s + t : (shard.value() + 1 + t - d) % s);
  }
  return roles;
}

void AppendMemgestDescriptor(const MemgestDescriptor& descriptor, std::string* out) {
  AppendLittleEndian(descriptor.id.value(), 2, out);
  AppendLittleEndian(static_cast<std::uint8_t>(descriptor.scheme), 1, out);
  AppendLittleEndian(static_cast<std::uint8_t>(descriptor.commit), 1, out);
  AppendLittleEndian(static_cast<std::uint8_t>(descriptor.state), 1, out);
  AppendLittleEndian(descriptor.r, 1, out);
  AppendLittleEndian(descriptor.k, 1, out);
  AppendLittleEndian(descriptor.m, 1, out);
  AppendLittleEndian(descriptor.block_size, 4, out);
  const absl::string_view name = absl::string_view(descriptor.name).substr(0, kMemgestNameSizeMax);
  AppendLittleEndian(static_cast<std::uint32_t>(name.size()), 1, out);
  out->append(name.data(), name.size());
}

absl::StatusOr<MemgestDescriptor> ConsumeMemgestDescriptor(absl::string_view* in) {
  const absl::string_view bytes = *in;
  const std::size_t name_length =
      bytes.size() < kFixedSize ? 0 : LoadLittleEndian(bytes, kFixedSize - 1, 1);
  if (bytes.size() < kFixedSize + name_length) {
    return absl::InvalidArgumentError(absl::StrCat("memgest descriptor is truncated: length=",
                                                   bytes.size(), " of ", kFixedSize + name_length));
  }
  const MemgestId id(static_cast<std::uint16_t>(LoadLittleEndian(bytes, 0, 2)));
  if (absl::Status status = CheckId(id); !status.ok()) return status;
  const auto byte_at = [&](std::size_t at) { return static_cast<std::uint8_t>(bytes[at]); };
  if (!IsScheme(byte_at(2))) return OutOfBounds("scheme", byte_at(2), 1, 2);
  if (!IsCommitRule(byte_at(3))) return OutOfBounds("commit", byte_at(3), 1, 2);
  if (!IsState(byte_at(4))) return OutOfBounds("state", byte_at(4), 1, 4);
  const absl::string_view name = bytes.substr(kFixedSize, name_length);
  if (absl::Status status = CheckName(name); !status.ok()) return status;
  MemgestDescriptor descriptor;
  descriptor.id = id;
  descriptor.name = std::string(name);
  descriptor.scheme = static_cast<Scheme>(byte_at(2));
  descriptor.commit = static_cast<CommitRule>(byte_at(3));
  descriptor.state = static_cast<MemgestState>(byte_at(4));
  descriptor.r = byte_at(5);
  descriptor.k = byte_at(6);
  descriptor.m = byte_at(7);
  descriptor.block_size = LoadLittleEndian(bytes, 8, 4);
  in->remove_prefix(kFixedSize + name_length);
  return descriptor;
}

}  // namespace ring::protocol
