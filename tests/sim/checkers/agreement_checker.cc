#include "tests/sim/checkers/agreement_checker.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"

namespace ring::sim {

void AgreementChecker::Complain(const std::string& what) {
  constexpr std::size_t kEnough = 20;
  if (violations_.size() < kEnough) violations_.push_back({"agreement", what});
}

void AgreementChecker::LookAtLog(const consensus::Raft& raft, Server* server) {
  const consensus::RaftLog& log = raft.log();
  const consensus::LogIndex end = std::min(raft.commit_index(), log.last_index());
  // What a snapshot stands for is in the views.
  for (consensus::LogIndex i = std::max(server->looked, log.base_index()) + 1; i <= end; ++i) {
    const consensus::Entry& entry = log.At(i);
    const Seen seen{entry.term, std::hash<std::string>()(entry.data)};
    const auto [known, fresh] = by_index_.emplace(i, seen);
    if (!fresh && known->second != seen) {
      Complain(absl::StrCat("index=", i, " is committed with two entries: terms ",
                            known->second.term, " and ", entry.term));
    }
  }
  server->looked = std::max(server->looked, end);
}

void AgreementChecker::Look(const consensus::Raft& raft, const cluster::View& view) {
  Server& server = servers_[raft.id()];
  if (raft.role() == consensus::Role::kLeader) {
    const auto [leader, fresh] = leaders_.emplace(raft.term(), raft.id());
    if (!fresh && leader->second != raft.id()) {
      Complain(absl::StrCat("term=", raft.term(), " has two leaders: servers ",
                            leader->second.value(), " and ", raft.id().value()));
    }
  }
  if (raft.commit_index() < server.commit) {
    Complain(absl::StrCat("server ", raft.id().value(), ": its commit index fell from ",
                          server.commit, " to ", raft.commit_index()));
  }
  server.commit = raft.commit_index();
  if (server.looked < server.commit) LookAtLog(raft, &server);
  if (server.view_epoch == view.epoch) return;
  server.view_epoch = view.epoch;
  const std::size_t hash = std::hash<std::string>()(cluster::EncodeView(view));
  const auto [known, fresh] = views_.emplace(view.epoch, hash);
  if (!fresh && known->second != hash)
    Complain(absl::StrCat("view=", view.epoch, " is not the same on all nodes"));
}

}  // namespace ring::sim
