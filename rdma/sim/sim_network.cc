#include "rdma/sim/sim_network.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "rdma/sim/sim_connection.h"
#include "rdma/sim/sim_endpoint.h"

namespace ring::rdma::sim {

SimNetwork::SimNetwork(std::uint64_t seed, const SimOptions& options)
    : options_(options), random_(seed) {}

SimNetwork::~SimNetwork() = default;

HostId SimNetwork::AddHost(SimHost* host) {
  hosts_.push_back({host, false, {}});
  return static_cast<HostId>(hosts_.size() - 1);
}

void SimNetwork::Crash(HostId host) {
  hosts_[host].crashed = true;
  hosts_[host].process = nullptr;
  faults_.Count(FaultClass::kF1Crash);
  // By position: a connection that ends may make another.
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    if (const std::shared_ptr<SimConnection> connection = connections_[i].lock())
      connection->OnCrash(host);
  }
}

void SimNetwork::Break(HostId one, HostId other) {
  faults_.Count(FaultClass::kF8OneSided);
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    const std::shared_ptr<SimConnection> connection = connections_[i].lock();
    if (connection != nullptr && connection->Joins(one, other)) connection->Break();
  }
}

bool SimNetwork::BreakOne(HostId one, HostId other,
                          const std::function<bool(absl::string_view private_data)>& chosen) {
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    const std::shared_ptr<SimConnection> connection = connections_[i].lock();
    if (connection == nullptr || !connection->open() || !connection->Joins(one, other) ||
        !chosen(connection->private_data()))
      continue;
    connection->Break();
    return true;
  }
  return false;
}

void SimNetwork::Block(HostId from, HostId to, std::uint64_t until_ns) {
  std::uint64_t& last_ns = blocked_until_ns_[{from, to}];
  last_ns = std::max(last_ns, until_ns);
  faults_.Count(FaultClass::kF6Partition);
}

bool SimNetwork::Reaches(HostId from, HostId to) const {
  const auto blocked = blocked_until_ns_.find({from, to});
  return blocked == blocked_until_ns_.end() || now_ns() >= blocked->second;
}

void SimNetwork::TakePlaceOf(HostId former, HostId now) {
  std::map<std::pair<HostId, HostId>, std::uint64_t> taken;
  for (const auto& [pair, until_ns] : blocked_until_ns_) {
    if (pair.first == former) taken[{now, pair.second}] = until_ns;
    if (pair.second == former) taken[{pair.first, now}] = until_ns;
  }
  blocked_until_ns_.merge(taken);
}

void SimNetwork::FilterHandshake(HostId one, HostId other, std::vector<std::byte>* bytes) const {
  const HostId host = hosts_[one].filter != nullptr ? one : other;
  if (hosts_[host].filter != nullptr) hosts_[host].filter(bytes);
}

std::uint64_t SimNetwork::Delay() {
  std::uint64_t delay = options_.delay_min_ns;
  if (options_.delay_spread_ns != 0) delay += random_.Below(options_.delay_spread_ns);
  if (Chance(options_.late_ppm)) {
    faults_.Count(FaultClass::kF7Message);
    delay += random_.Below(options_.late_ns_max);
  }
  return delay;
}

std::uint32_t SimNetwork::AddConnection(const std::shared_ptr<SimConnection>& connection) {
  constexpr std::uint32_t kSweep = 256;
  if (++connection_count_ % kSweep == 0) {
    std::erase_if(connections_, [](const auto& one) { return one.expired(); });
  }
  connections_.push_back(connection);
  return connection_count_;
}

void SimNetwork::DropDevice(const soft::SoftDevice* device) {
  for (const std::weak_ptr<SimConnection>& one : connections_) {
    if (const std::shared_ptr<SimConnection> connection = one.lock())
      connection->DropDevice(device);
  }
}

bool SimNetwork::AddListener(const std::string& name, SimEndpoint* endpoint) {
  if (name.empty() || !listeners_.emplace(name, endpoint).second) return false;
  listened_[name] = endpoint->host();
  return true;
}

// A later process may listen at the name of an earlier one.
void SimNetwork::RemoveListener(const std::string& name, const SimEndpoint* endpoint) {
  if (FindListener(name) == endpoint) listeners_.erase(name);
}

SimEndpoint* SimNetwork::FindListener(const std::string& name) const {
  const auto it = listeners_.find(name);
  return it == listeners_.end() ? nullptr : it->second;
}

HostId SimNetwork::HostAt(const std::string& name) const {
  const auto it = listened_.find(name);
  return it == listened_.end() ? kNoHost : it->second;
}

void SimNetwork::Trace(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  for (const std::uint64_t word : {now_ns(), a, b, c}) {
    trace_hash_ = std::rotl((trace_hash_ ^ word) * 0x2127599bf4325c37, 29);
  }
  if (trace_file_ != nullptr) {
    std::fprintf(trace_file_, "%llu %llx %llu %llu\n", static_cast<unsigned long long>(now_ns()),
                 static_cast<unsigned long long>(a), static_cast<unsigned long long>(b),
                 static_cast<unsigned long long>(c));
  }
}

}  // namespace ring::rdma::sim
