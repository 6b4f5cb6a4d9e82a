#include "rdma/verbs/gid.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace ring::rdma::verbs {
namespace {

bool IsV4(const ibv_gid& gid) {
  static constexpr unsigned char kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, kPrefix, sizeof(kPrefix)) == 0;
}

bool IsLinkLocal(const ibv_gid& gid) { return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80; }

// 0: never.
int Rank(const ibv_gid_entry& entry) {
  if (IsLinkLocal(entry.gid)) return 0;
  return 1 + (IsV4(entry.gid) ? 1 : 0) + (entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? 2 : 0);
}

std::string List(absl::Span<const ibv_gid_entry> entries) {
  std::string list;
  for (const ibv_gid_entry& entry : entries) {
    absl::StrAppend(&list, list.empty() ? "" : ", ", entry.gid_index, "=", GidAddress(entry.gid));
  }
  return list.empty() ? "none" : list;
}

}  // namespace

std::string GidAddress(const ibv_gid& gid) {
  char text[INET6_ADDRSTRLEN] = {};
  if (IsV4(gid)) {
    inet_ntop(AF_INET, gid.raw + 12, text, sizeof(text));
  } else {
    inet_ntop(AF_INET6, gid.raw, text, sizeof(text));
  }
  return text;
}

absl::StatusOr<ibv_gid_entry> ChooseGid(absl::Span<const ibv_gid_entry> entries, int wanted_index,
                                        absl::string_view device) {
  if (wanted_index >= 0) {
    for (const ibv_gid_entry& entry : entries) {
      if (entry.gid_index == static_cast<std::uint32_t>(wanted_index)) return entry;
    }
    return absl::NotFoundError(absl::StrCat("verbs device=", device, " has no gid_index=",
                                            wanted_index, ": there are ", List(entries)));
  }
  const auto best = std::max_element(
      entries.begin(), entries.end(),
      [](const ibv_gid_entry& a, const ibv_gid_entry& b) { return Rank(a) < Rank(b); });
  if (best == entries.end() || Rank(*best) == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("verbs device=", device, " has no IP address: give one to its network ",
                     "interface; GIDs are ", List(entries)));
  }
  return *best;
}

}  // namespace ring::rdma::verbs
