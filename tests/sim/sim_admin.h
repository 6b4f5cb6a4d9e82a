// tests/sim/sim_admin.h — the operator of a simulated cluster.
//
// What:      SimAdmin changes the catalogue and scrubs over the control port of one node, as
//            ring/node/cluster_admin does from another thread. When that node is gone it goes on
//            with the next one, and asks for a change that may be done or not once more, under the
//            same number (X6), as long as AskAgain is called.
// Ownership: borrows the nodes.
// Threads:   one.
// Errors:    as ring/node/admin_port.h.
#ifndef RING_TESTS_SIM_SIM_ADMIN_H_
#define RING_TESTS_SIM_SIM_ADMIN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "ring/node/control/control_change.h"
#include "ring/node/scrub/scrub_message.h"
#include "tests/sim/sim_node.h"

namespace ring::sim {

class SimAdmin {
 public:
  using Nodes = std::vector<std::shared_ptr<SimNode>>;
  // first: the place of the node that is asked, if it is up.
  SimAdmin(const Nodes* nodes, std::size_t first) : nodes_(nodes), first_(first) {}

  // done is called on a node's turn, or with kDeadlineExceeded, or, when the node that was asked is
  // lost, with kUnavailable.
  void Create(const protocol::MemgestDescriptor& descriptor,
              absl::AnyInvocable<void(absl::Status)> done);
  void Delete(const std::string& name, bool force, absl::AnyInvocable<void(absl::Status)> done);
  void SetDefault(const std::string& name, absl::AnyInvocable<void(absl::Status)> done);
  // From the first call on changes that were not answered for certain wait for the next, instead of
  // being told so.
  void AskAgain(std::uint64_t now_ns);
  // Tells who waits for that.
  void StopAsking();

  // One scrub: Start, then Poll until done() or failed.
  void StartScrub(std::uint64_t id);
  // Asks every node how far it is; nothing while an answer is awaited.
  void PollScrub();
  void StopScrub();
  // Tells those again who may not have heard of a stop. True: everyone has.
  bool StopsHeard();
  bool scrub_done() const { return scrub_ != nullptr && scrub_->done; }
  const absl::Status& scrub_status() const { return scrub_->status; }
  const node::ScrubReport& scrub_report() const { return scrub_->sum; }

 private:
  struct Scrub {
    std::string id;
    bool started = false;  // every node answered, so that none begins it later
    std::size_t awaited = 0;
    bool all_done = true;
    bool done = false;
    absl::Status status;
    node::ScrubReport sum;    // of the poll that found all done
    node::ScrubReport round;  // of the poll under way
  };
  struct Unsure {
    node::CatalogueChange change;
    absl::AnyInvocable<void(absl::Status)> done;
    absl::Status status;
  };
  void Change(node::CatalogueChange change, absl::AnyInvocable<void(absl::Status)> done);
  void Ask(node::CatalogueChange change, absl::AnyInvocable<void(absl::Status)> done);
  void AskAll(node::ControlType type, const std::shared_ptr<Scrub>& scrub);

  SimNode* NodeToAsk() const;

  const Nodes* nodes_;
  std::size_t first_;
  std::uint64_t next_seq_ = 1;
  bool asks_again_ = false;
  std::uint64_t again_ns_ = 0;
  std::vector<Unsure> unsure_;
  std::shared_ptr<Scrub> scrub_;
  std::vector<std::shared_ptr<Scrub>> stops_;  // under way, or not heard by all
};

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_SIM_ADMIN_H_
