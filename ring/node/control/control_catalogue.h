// ring/node/control/control_catalogue.h — catalogue changes: from any node to the leader, and
// from it to all.
//
// What:      CatalogueService answers the messages View, Catalogue and Drain. On the node that
//            leads the consensus it runs changes, one at a time: propose the command, show the new
//            view to every node that is up, and for a create or a delete the next state likewise.
//            What a change could not finish, because a node went away in the middle or another
//            leader came, the leader finishes or undoes by itself.
// Shape:     create: CREATING everywhere, then ACTIVE everywhere, then the answer (G11). Delete:
//            DRAINING everywhere, drain steps until every shard counts nothing, then DELETED
//            everywhere; not empty after 10 s: back to ACTIVE (G10), and refused, which the log of
//            commands remembers as it does all answers (X6).
// Ownership: borrows the node and its control port.
// Threads:   one, the node's.
// Errors:    kUnavailable names the node that could not be asked, or that started again and was not
//            missed yet; the change is not done, or is completed by a retry with the same id (X6),
//            or undone after a while. Else as
//            Catalogue::Apply; NOT_EMPTY is kFailedPrecondition.
// Source:    rules G10, G11, X6.
#ifndef RING_NODE_CONTROL_CONTROL_CATALOGUE_H_
#define RING_NODE_CONTROL_CONTROL_CATALOGUE_H_

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "ring/cluster/cluster_state.h"
#include "ring/node/admin_port.h"
#include "ring/node/control/control_change.h"
#include "ring/node/control/control_port.h"

namespace ring::node {

class Node;

class CatalogueService {
 public:
  explicit CatalogueService(Node* node);
  ~CatalogueService();

  // This node began or ended to lead.
  void OnLeadership(bool leads);
  void Progress(std::uint64_t now_ns);
  bool busy() const { return job_ != nullptr; }

 private:
  enum class Stage : std::uint8_t {
    kAsk = 0,
    kShow = 1,
    kDrain = 2,
    kDrainWait = 3,
    kActivateWait = 4
  };
  struct Job {
    CatalogueChange change;
    ControlReply reply;  // null: the leader's own, to finish what was left over
    Stage stage = Stage::kAsk;
    MemgestId memgest;
    std::uint64_t deadline_ns = 0;  // of a drain, or of a wait
    std::uint64_t next_ns = 0;
    std::uint64_t revision = 0;  // of the catalogue, before the shards were asked what they hold
    absl::Status give_up;        // why a drain is undone: the answer, once that is agreed upon
  };
  struct Answer {
    NodeId node;
    absl::StatusOr<std::string> body = absl::UnknownError("");
  };
  using Answers = std::vector<Answer>;  // of the nodes that are up

  void OnView(absl::string_view body, ControlReply reply);
  absl::Status TakeView(const cluster::View& shown);
  absl::Status CheckDeletedAreEmpty(const cluster::View& shown) const;
  void OnDrain(absl::string_view body, ControlReply reply);
  void OnChange(absl::string_view body, ControlReply reply);

  // On the leader.
  void StartNext();
  // Its present start is the one that the cluster knows.
  bool SpeaksForItsRoles(NodeId node) const;
  void AskAll(ControlType type, const std::string& body, void (CatalogueService::*then)(Answers));
  void OnAsked(Answers answers);
  void Propose(const cluster::CatalogueCommand& command);
  void OnProposed(const absl::StatusOr<cluster::ClusterResult>& result);
  void AwaitShards(const absl::Status& why);
  void ProposeRepair();
  void Show();
  void OnShown(Answers answers);
  void NextStep();
  void DrainStep();
  void GiveUpDrain(const absl::Status& why);
  void AskAgain(Stage stage);  // the job's, after a moment
  void OnDrained(Answers answers);
  void Finish(absl::Status status);
  static absl::Status FirstError(const Answers& answers);
  const cluster::Catalogue& catalogue() const;
  absl::StatusOr<MemgestId> MemgestOf(const CatalogueChange& change) const;
  const protocol::MemgestDescriptor* LeftBetween() const;

  Node* node_;
  ControlPort* control_;
  std::deque<std::unique_ptr<Job>> waiting_;
  std::unique_ptr<Job> job_;
  std::uint64_t job_number_ = 0;
  bool repair_ = false;  // a node missed a view, or a memgest was left between two states
  std::uint64_t repair_ns_ = 0;
};

}  // namespace ring::node

#endif  // RING_NODE_CONTROL_CONTROL_CATALOGUE_H_
