#include "ring/node/control/refusal_log.h"

#include "absl/strings/str_cat.h"
#include "ring/base/log.h"
#include "ring/cluster/view.h"

namespace ring::node {
namespace {

std::string NameOf(NodeId peer) {
  return peer == cluster::kNoNode ? "unknown" : absl::StrCat(peer.value());
}

}  // namespace

bool RefusalLog::Due(NodeId peer, absl::string_view reason, std::uint64_t now_ns,
                     std::uint64_t lasts_ns) {
  Told& told = told_[peer];
  if (told.reason != reason) {
    told.reason = std::string(reason);
    told.since_ns = now_ns;
    told.told = false;
  }
  if (told.told || now_ns < told.quiet_ns || now_ns - told.since_ns < lasts_ns) return false;
  told.told = true;
  told.quiet_ns = now_ns + kQuietNs;
  return true;
}

void RefusalLog::Refuses(NodeId peer, absl::string_view reason, std::uint64_t now_ns) {
  if (!Due(peer, reason, now_ns, 0)) return;
  RING_LOG(WARNING) << "connection refused node=" << node_.value() << " peer=" << NameOf(peer)
                    << ": " << reason;
}

void RefusalLog::IsRefused(NodeId peer, absl::string_view reason, std::uint64_t now_ns) {
  if (!Due(peer, reason, now_ns, kLastsNs)) return;
  RING_LOG(WARNING) << "connection refused by its peer node=" << node_.value()
                    << " peer=" << NameOf(peer) << ": " << reason;
}

}  // namespace ring::node
