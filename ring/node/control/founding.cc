#include "ring/node/control/founding.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "ring/base/mutant.h"
#include "ring/base/wire.h"

namespace ring::node {

std::string EncodeProbe(const ProbeAnswer& answer) {
  ByteWriter out;
  out.Put(static_cast<std::uint8_t>(answer.state));
  out.Put(answer.self.value());
  out.Put(answer.founded.value());
  out.Put(answer.leader);
  out.Put(answer.voters);
  out.Put(answer.founding);
  out.Put(static_cast<std::uint8_t>(answer.met_others));
  return out.Take();
}

absl::StatusOr<ProbeAnswer> DecodeProbe(absl::string_view bytes) {
  ByteReader in(bytes);
  ProbeAnswer answer;
  const auto state = in.Get<std::uint8_t>();
  answer.self = Incarnation(in.Get<std::uint64_t>());
  answer.founded = Incarnation(in.Get<std::uint64_t>());
  answer.leader = in.Get<std::uint64_t>();
  answer.voters = in.Get<std::uint8_t>();
  answer.founding = in.Get<std::uint64_t>();
  answer.met_others = in.Get<std::uint8_t>() != 0;
  if (!in.finished()) {
    return absl::InvalidArgumentError("answer to a probe has a wrong size");
  }
  if (state < static_cast<std::uint8_t>(ProbeState::kNew) ||
      state > static_cast<std::uint8_t>(ProbeState::kMember)) {
    return absl::InvalidArgumentError(absl::StrCat("answer to a probe: state=", state));
  }
  answer.state = static_cast<ProbeState>(state);
  return answer;
}

void Founding::OnAnswer(NodeId node, const ProbeAnswer& answer) { answers_[node] = answer; }

void Founding::OnAsked(NodeId node, Incarnation start) {
  if (state_ != ProbeState::kNew) return;
  const auto [first, is_new] = asked_by_.try_emplace(node, start);
  if (!is_new && first->second != start) met_others_.insert(node);
}

Founding::Decision Founding::Decide() const {
  if (state_ != ProbeState::kNew) return Decision::kWait;
  bool awaited = false;  // somebody founded with this very start
  bool joined = false;   // a voter joined, and knows of no cluster yet
  for (const auto& [node, answer] : answers_) {
    if (answer.state == ProbeState::kFounder) {
      if (answer.founded != incarnation_) return Decision::kJoin;
      // Whoever founds was answered by all. If a former start of this node may have been, it may
      // have voted, and those who know are the ones that lost their memory.
      awaited |= !answer.met_others || Mutant("L8-founder");
    }
    // What a spare joined may be what this very start is a founder of.
    if (answer.state != ProbeState::kMember || (IsVoter(self_) && !IsVoter(node))) continue;
    if (answer.founding != 0 || !IsVoter(self_)) return Decision::kJoin;
    joined = true;
  }
  if (!IsVoter(self_)) return Decision::kWait;
  int agreed = 0;
  int answered = 0;
  for (const auto& [node, answer] : answers_) {
    if (!IsVoter(node)) continue;
    // It lost its memory since others founded with it: they wait for this start all the same, and
    // without it they may be too few.
    const bool founds = answer.state != ProbeState::kMember || awaited;
    agreed += founds && answer.voters == voter_count_ ? 1 : 0;
    ++answered;
  }
  if (agreed == voter_count_ - 1 && !FindStranded().has_value()) return Decision::kFound;
  return joined && !awaited && answered == voter_count_ - 1 ? Decision::kJoin : Decision::kWait;
}

// What others joined is what this start is a founder of, if one of the voters founded it.
std::optional<NodeId> Founding::FindStranded() const {
  std::optional<NodeId> member;
  for (const auto& [node, answer] : answers_) {
    if (answer.state == ProbeState::kFounder) return std::nullopt;
    if (answer.state == ProbeState::kMember && answer.founding != 0) member = node;
  }
  return member;
}

std::string Founding::Stranded() const {
  const std::optional<NodeId> member = FindStranded();
  if (!member.has_value() || !IsVoter(self_)) return "";
  return absl::StrCat("node ", member->value(),
                      " has its part in a cluster that no voter remembers: stop all nodes, and "
                      "start them again");
}

std::string Founding::Differing() const {
  for (const auto& [node, answer] : answers_) {
    if (answer.voters == voter_count_) continue;
    return absl::StrCat("voters=", voter_count_, " in this file, and ", int{answer.voters},
                        " in that of node ", node.value());
  }
  return "";
}

void Founding::Found() {
  state_ = ProbeState::kFounder;
  founders_[self_] = incarnation_;
  for (const auto& [node, answer] : answers_) {
    if (IsVoter(node)) founders_[node] = answer.self;
  }
}

ProbeAnswer Founding::Answer(NodeId asker, std::uint64_t leader, std::uint64_t founding) const {
  ProbeAnswer answer;
  answer.state = state_;
  answer.self = incarnation_;
  const auto found = founders_.find(asker);
  if (found != founders_.end()) answer.founded = found->second;
  answer.met_others = met_others_.contains(asker);
  answer.leader = leader;
  answer.voters = static_cast<std::uint8_t>(voter_count_);
  answer.founding = founding;
  return answer;
}

}  // namespace ring::node
