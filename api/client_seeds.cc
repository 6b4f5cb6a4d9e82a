#include "api/client_seeds.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "ring/base/host_port.h"
#include "ring/base/status.h"

namespace ring::api {
namespace {

absl::StatusOr<std::string> ParseSeed(absl::string_view seed) {
  absl::string_view rest = seed;
  if (absl::ConsumePrefix(&rest, "local:") || absl::ConsumePrefix(&rest, "shm:")) {
    if (rest.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("seed=", seed, " names nothing"));
    }
    return std::string(seed);
  }
  const bool rdma = absl::ConsumePrefix(&rest, "rdma:");
  if (!rdma) absl::ConsumePrefix(&rest, "tcp:");
  if (!IsHostPort(rest)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "seed=", seed,
        " is no address: give HOST:PORT, tcp:HOST:PORT, rdma:HOST:PORT, shm:PATH or local:NAME"));
  }
  return absl::StrCat(rdma ? "rdma:" : "tcp:", rest);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseSeeds(absl::Span<const std::string> seeds) {
  std::vector<std::string> addresses;
  for (const std::string& list : seeds) {
    for (absl::string_view part : absl::StrSplit(list, ',')) {
      part = absl::StripAsciiWhitespace(part);
      if (part.empty()) continue;
      RING_ASSIGN_OR_RETURN(std::string address, ParseSeed(part));
      if (std::find(addresses.begin(), addresses.end(), address) == addresses.end()) {
        addresses.push_back(std::move(address));
      }
    }
  }
  if (addresses.empty()) {
    return absl::InvalidArgumentError(
        "no seeds: give the address of at least one node, for example 127.0.0.1:7800");
  }
  return addresses;
}

absl::Status ResolveSeed(std::string* seed) {
  for (const absl::string_view scheme : {"tcp:", "rdma:"}) {
    absl::string_view rest = *seed;
    if (!absl::ConsumePrefix(&rest, scheme)) continue;
    RING_ASSIGN_OR_RETURN(const std::string address, ResolveHostPort(rest));
    *seed = absl::StrCat(scheme, address);
    break;
  }
  return absl::OkStatus();
}

Transport TransportOf(absl::string_view address) {
  if (absl::StartsWith(address, "local:")) return Transport::kLocal;
  if (absl::StartsWith(address, "shm:")) return Transport::kShm;
  if (absl::StartsWith(address, "rdma:")) return Transport::kRdma;
  return Transport::kTcp;
}

bool HasSeed(absl::Span<const std::string> seeds, Transport transport) {
  return std::any_of(seeds.begin(), seeds.end(), [transport](const std::string& seed) {
    return TransportOf(seed) == transport;
  });
}

std::vector<std::string> NodeAddresses(const cluster::NodeInfo& node, Transport transport,
                                       absl::string_view host, bool rdma) {
  std::vector<std::string> addresses;
  const auto add = [&](Transport of, const std::string& address, bool reachable) {
    if (address.empty() || (transport != Transport::kAuto && transport != of)) return;
    if (transport == Transport::kAuto && !reachable) return;
    addresses.push_back(address);
  };
  // A local name of another process is refused at once, so trying costs little.
  const bool same_host = !host.empty() && node.host == host;
  add(Transport::kLocal, node.local_address, same_host || node.host.empty());
  add(Transport::kShm, node.shm_address, same_host);
  add(Transport::kRdma, node.rdma_address, rdma);
  add(Transport::kTcp, node.tcp_address, true);
  return addresses;
}

}  // namespace ring::api

namespace ring {

absl::StatusOr<std::vector<std::string>> ClientOptions::SeedsFromEnvironment() {
  const char* text = std::getenv("RING_SEEDS");
  if (text == nullptr || *text == '\0') {
    return absl::NotFoundError("RING_SEEDS is not set: give the address of at least one node");
  }
  return api::ParseSeeds({std::string(text)});
}

}  // namespace ring
