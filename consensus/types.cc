#include "consensus/types.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace ring::consensus {
namespace {

bool Has(const std::vector<ServerId>& sorted, ServerId id) {
  return std::binary_search(sorted.begin(), sorted.end(), id);
}

void Insert(std::vector<ServerId>& sorted, ServerId id) {
  const auto at = std::lower_bound(sorted.begin(), sorted.end(), id);
  if (at == sorted.end() || *at != id) sorted.insert(at, id);
}

void Erase(std::vector<ServerId>& sorted, ServerId id) {
  const auto at = std::lower_bound(sorted.begin(), sorted.end(), id);
  if (at != sorted.end() && *at == id) sorted.erase(at);
}

// Sorted, without duplicates and without "none".
absl::Status CheckList(const std::vector<ServerId>& servers) {
  ServerId before = kNoServer;
  for (const ServerId id : servers) {
    if (id <= before) {
      return absl::InvalidArgumentError(
          absl::StrFormat("server=%x: servers must be sorted, distinct and not 0", id.value()));
    }
    before = id;
  }
  return absl::OkStatus();
}

}  // namespace

bool Configuration::IsVoter(ServerId id) const { return Has(voters, id); }
bool Configuration::IsLearner(ServerId id) const { return Has(learners, id); }

void Configuration::AddVoter(ServerId id) {
  Erase(learners, id);
  Insert(voters, id);
}

void Configuration::AddLearner(ServerId id) {
  Erase(voters, id);
  Insert(learners, id);
}

void Configuration::Remove(ServerId id) {
  Erase(voters, id);
  Erase(learners, id);
}

absl::Status Configuration::Validate() const {
  if (voters.empty()) return absl::InvalidArgumentError("a configuration without voters");
  if (voters.size() > kVotersMax) {
    return absl::InvalidArgumentError(
        absl::StrFormat("voters=%d: at most %d", voters.size(), kVotersMax));
  }
  if (voters.size() + learners.size() > kServersMax) {
    return absl::InvalidArgumentError(
        absl::StrFormat("servers=%d: at most %d", voters.size() + learners.size(), kServersMax));
  }
  if (absl::Status status = CheckList(voters); !status.ok()) return status;
  if (absl::Status status = CheckList(learners); !status.ok()) return status;
  for (const ServerId id : learners) {
    if (IsVoter(id)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("server=%x: voter and learner at once", id.value()));
    }
  }
  return absl::OkStatus();
}

}  // namespace ring::consensus
