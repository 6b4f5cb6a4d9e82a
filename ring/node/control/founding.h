// ring/node/control/founding.h — whether this start of a node founds a cluster or joins one.
//
// What:      Founding collects what the others say of themselves and decides. A cluster is new when
//            every voter says so, of the present start; then each begins as the server that the
//            first configuration names, also beside one that started again meanwhile. In all other
//            cases a start without a memory of its own is another server, which the leader adds
//            (10.6): a voter must never vote twice under one id because it forgot the first time.
//            Nor is it new while somebody has a part in it.
// Shape:     the answers a founder gives name the start of the asker that it founded with, so that
//            a slow founder is told from a restarted one. To join is always safe.
// Ownership: values.
// Threads:   thread-compatible; no clock, no I/O.
// Errors:    DecodeProbe: kInvalidArgument.
// Source:    rule 10.6.
#ifndef RING_NODE_CONTROL_FOUNDING_H_
#define RING_NODE_CONTROL_FOUNDING_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ring/base/id.h"

namespace ring::node {

// Travels: never renumber.
enum class ProbeState : std::uint8_t {
  kNew = 1,      // knows of no cluster yet
  kFounder = 2,  // founded it, with certain starts of the voters
  kMember = 3,   // joined, or came back with what it knew
};

struct ProbeAnswer {
  ProbeState state = ProbeState::kNew;
  Incarnation self;         // of who answers
  Incarnation founded;      // a founder: the asker's start that it founded with; 0: none
  std::uint64_t leader;     // server id; 0: not known
  std::uint8_t voters = 0;  // how many its file has
  // cluster::View's, of what it has a part in. 0: of nothing that it knows was founded.
  std::uint64_t founding = 0;
  bool met_others = false;  // before it founded, other starts of the asker's node asked it, too
};
std::string EncodeProbe(const ProbeAnswer& answer);
absl::StatusOr<ProbeAnswer> DecodeProbe(absl::string_view bytes);

class Founding {
 public:
  enum class Decision : std::uint8_t { kWait, kFound, kJoin };

  // Nodes 0 .. voter_count-1 are the voters.
  Founding(NodeId self, Incarnation incarnation, int voter_count)
      : self_(self), incarnation_(incarnation), voter_count_(voter_count) {}

  void OnAnswer(NodeId node, const ProbeAnswer& answer);
  // A start of the node asks: with the answer it may found, and vote.
  void OnAsked(NodeId node, Incarnation start);
  // It is not connected: who comes next may be another start. A cluster that is founded with one
  // that is gone has a voter less from its first moment on, and two of those have no majority.
  void OnGone(NodeId node) { answers_.erase(node); }
  bool Answered(NodeId node) const { return answers_.contains(node); }
  Decision Decide() const;
  // Who has a part in a cluster that no voter remembers: nothing is founded while it is there, or
  // the two would be taken for one. For people; empty: nobody.
  std::string Stranded() const;
  // Whose file has another number of voters than this one, which founds nothing with it: two
  // clusters with a majority each would come of it. For people; empty: nobody.
  std::string Differing() const;

  // After the decision; a node that restarts with its memory calls Join at once.
  void Found();
  void Join() { state_ = ProbeState::kMember; }
  ProbeState state() const { return state_; }
  ProbeAnswer Answer(NodeId asker, std::uint64_t leader, std::uint64_t founding) const;

 private:
  bool IsVoter(NodeId node) const {
    return node.value() < static_cast<std::uint32_t>(voter_count_);
  }

  std::optional<NodeId> FindStranded() const;

  NodeId self_;
  Incarnation incarnation_;
  int voter_count_;
  ProbeState state_ = ProbeState::kNew;
  std::map<NodeId, ProbeAnswer> answers_;
  std::map<NodeId, Incarnation> founders_;
  std::map<NodeId, Incarnation> asked_by_;  // the first start that did
  std::set<NodeId> met_others_;             // by whose other starts, too
};

}  // namespace ring::node

#endif  // RING_NODE_CONTROL_FOUNDING_H_
