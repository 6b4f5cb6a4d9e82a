// The work that every peer is given: keys loaded first, then puts or gets in a pipeline.
#include <poll.h>

#include <algorithm>
#include <deque>

#include "ring/base/status.h"
#include "tools/common/ticks.h"
#include "tools/ring-bench/peer_connection.h"

namespace ring::bench {
namespace {

constexpr std::uint64_t kSpinNs = 50'000;

// Sleeps until one of the connections has an answer.
void WaitForAnswers(const std::vector<std::unique_ptr<PeerConnection>>& connections) {
  std::vector<pollfd> ready;
  for (const auto& connection : connections) ready.push_back({connection->fd(), POLLIN, 0});
  poll(ready.data(), ready.size(), 1);
}

absl::StatusOr<std::vector<std::unique_ptr<PeerConnection>>> ConnectAll(const PeerAddress& address,
                                                                        std::size_t count) {
  std::vector<std::unique_ptr<PeerConnection>> connections;
  for (std::size_t i = 0; i < count; ++i) {
    RING_ASSIGN_OR_RETURN(auto connection, PeerConnection::Connect(address));
    connections.push_back(std::move(connection));
  }
  return connections;
}

}  // namespace

absl::Status LoadPeer(const PeerAddress& address, const PeerWork& work) {
  RING_ASSIGN_OR_RETURN(const auto connections, ConnectAll(address, 1));
  PeerConnection& connection = *connections.front();
  std::string value(work.value_size, 'v');
  std::uint64_t next = 0, done = 0;
  while (done < work.key_count) {
    while (next < work.key_count && connection.outstanding() < 32) {
      FillValue(next, absl::MakeSpan(value));
      connection.Put(KeyName(1, next++), value);
    }
    RING_ASSIGN_OR_RETURN(const std::size_t ended, connection.Poll());
    done += ended;
    if (ended == 0) WaitForAnswers(connections);
  }
  return absl::OkStatus();
}

absl::StatusOr<PeerResult> RunPeer(const PeerAddress& address, const PeerWork& work) {
  RING_ASSIGN_OR_RETURN(const auto connections, ConnectAll(address, work.connections));
  std::vector<std::deque<std::uint64_t>> starts(connections.size());
  KeyChooser keys(Distribution::kUniform, work.key_count, work.seed);
  std::string value(work.value_size, 'v');
  PeerResult result;
  const std::uint64_t from = tools::Ticks() + tools::NsToTicks(work.warm_up_seconds * 1e9);
  const std::uint64_t end = from + tools::NsToTicks(work.seconds * 1e9);
  const std::uint64_t spin = tools::NsToTicks(kSpinNs);
  std::uint64_t news = tools::Ticks();
  std::size_t under_way = 0;
  while (true) {
    for (std::size_t i = 0; i < connections.size(); ++i) {
      PeerConnection& connection = *connections[i];
      while (tools::Ticks() < end && connection.outstanding() < work.pipeline) {
        const std::uint64_t index = keys.Next();
        starts[i].push_back(tools::Ticks());
        ++under_way;
        if (work.is_get) {
          connection.Get(KeyName(1, index));
        } else {
          FillValue(index, absl::MakeSpan(value));
          connection.Put(KeyName(1, index), value);
        }
      }
      if (starts[i].empty()) continue;
      RING_ASSIGN_OR_RETURN(const std::size_t ended, connection.Poll());
      const std::uint64_t now = tools::Ticks();
      if (ended != 0) news = now;
      for (std::size_t n = 0; n < ended; ++n) {
        if (now >= from && now <= end) {
          result.latency.Record(tools::TicksToNs(now - starts[i].front()));
        }
        starts[i].pop_front();
        --under_way;
      }
    }
    const std::uint64_t now = tools::Ticks();
    if (now >= end && under_way == 0) break;
    if (now - news > spin) WaitForAnswers(connections);
  }
  result.seconds = work.seconds;
  return result;
}

}  // namespace ring::bench
