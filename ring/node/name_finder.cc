#include "ring/node/name_finder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ring/base/log.h"
#include "ring/base/status.h"
#include "ring/node/config/link_policy.h"

namespace ring::node {

absl::StatusOr<std::vector<HostName>> ResolveNames(absl::Span<const NodeId> hosted,
                                                   const Resolve& resolve, NodeConfig* config) {
  std::vector<HostName> unknown;
  for (std::size_t i = 0; i < config->nodes.size(); ++i) {
    const NodeId id(static_cast<std::uint32_t>(i));
    const bool own = std::find(hosted.begin(), hosted.end(), id) != hosted.end();
    for (const bool rdma : {false, true}) {
      NodeEntry& entry = config->nodes[i];
      std::string& text = rdma ? entry.rdma : entry.data;
      if (!Offers(*config, id, rdma ? Transport::kRdma : Transport::kTcp)) continue;
      absl::StatusOr<std::string> address = resolve(text);
      if (address.ok()) {
        text = *std::move(address);
        continue;
      }
      const std::string what = absl::StrCat("node ", entry.name, ": ",
                                            rdma ? "rdma=" : "data=", address.status().message());
      if (own && rdma && !Requires(*config, id, Transport::kRdma)) continue;  // as without a device
      if (own) return absl::Status(address.status().code(), what);
      RING_LOG(WARNING) << what << ": it is tried again; until then the node is not reached";
      unknown.push_back({id, rdma, text});
    }
  }
  return unknown;
}

NameFinder::NameFinder(std::vector<HostName> names, Resolve resolve, absl::Duration period,
                       Found found)
    : names_(std::move(names)),
      resolve_(std::move(resolve)),
      period_(period),
      found_(std::move(found)) {
  if (!names_.empty()) thread_ = std::thread([this] { Run(); });
}

NameFinder::~NameFinder() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

bool NameFinder::Stopped(absl::Duration wait) {
  const absl::Time end = absl::Now() + wait;
  MutexLock lock(mutex_);
  while (!stop_ && absl::Now() < end)
    changed_.WaitFor(mutex_, absl::ToChronoNanoseconds(end - absl::Now()));
  return stop_;
}

void NameFinder::Run() {
  while (!names_.empty()) {
    if (Stopped(period_)) return;
    std::vector<HostName> unknown;
    for (const HostName& name : names_) {
      if (Stopped(absl::ZeroDuration())) return;
      const absl::StatusOr<std::string> address = resolve_(name.text);
      if (!address.ok()) {
        unknown.push_back(name);
        continue;
      }
      RING_LOG(INFO) << "node=" << name.node.value() << " is found: " << name.text << " is "
                     << *address;
      found_(name, *address);
    }
    names_ = std::move(unknown);
  }
}

}  // namespace ring::node
