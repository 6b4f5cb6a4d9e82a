// How a start of a node gets its part: it is added as a server, what the cluster begins with is
// agreed upon, and it registers.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "ring/base/log.h"
#include "ring/base/wire.h"
#include "ring/node/control/membership.h"

namespace ring::node {
namespace {

// An election ends within two, unless it is repeated.
constexpr std::uint64_t kUnheardDetections = 4;
constexpr std::uint64_t kRegisterPeriodNs = 50 * kMillisecondNs;

}  // namespace

// What the cluster begins with if this node leads it first. How a node is reached, it says when it
// registers. Who was added later is in the log.
cluster::View Membership::FirstView(const NodeConfig& config) {
  cluster::View view = config.InitialView();
  view.nodes.resize(view.nodes.size() - config.added_count);
  for (cluster::NodeInfo& node : view.nodes) {
    cluster::NodeInfo bare;
    bare.id = node.id;
    bare.name = node.name;
    node = std::move(bare);
  }
  return view;
}

// Whether the others take this server for one. What names it may be no more than an entry in its
// own log, of a leader that went before it was committed: the next one, who never had it, sends
// nothing here. Who is named everywhere asks in vain, and no harm is done.
bool Membership::HasPart(std::uint64_t now_ns) {
  if (over_) return true;  // it is another start's
  if (replica_->leader() != consensus::kNoServer) heard_ns_ = now_ns;
  const std::uint64_t patience_ns =
      kUnheardDetections * options_.config->control.detect_ms * kMillisecondNs;
  return replica_->configuration().Contains(server_) && now_ns - heard_ns_ < patience_ns;
}

void Membership::ProgressJoin(std::uint64_t now_ns) {
  if (HasPart(now_ns) || now_ns < join_ns_) return;
  join_ns_ = now_ns + (leader() == cluster::kNoNode ? kProbePeriodNs : kJoinPeriodNs);
  Probe();  // tells who leads
  ByteWriter out;
  out.Put(server_.value());
  const NodeId to = leader();
  if (to == cluster::kNoNode || to == options_.node) return;
  options_.control->Call(to, ControlType::kJoin, out.Take(), kCallTimeoutNs,
                         [](const absl::StatusOr<std::string>&) {});
}

void Membership::OnJoin(NodeId from, absl::string_view body, ControlReply reply) {
  ByteReader in(body);
  const consensus::ServerId server(in.Get<std::uint64_t>());
  if (!in.finished() || consensus::NodeOf(server) != from.value()) {
    return reply(absl::InvalidArgumentError("join names no server of the node"));
  }
  if (!leads()) return reply(NotLeader(leader()));
  keeper_->Want(from, server);
  reply(std::string());
}

// Whether this node is in the view: one that was added may not have applied that command yet.
bool Membership::Known() const { return options_.node.value() < machine_.view().nodes.size(); }

// What this node's file says, and others' may not, counts for all of them or for none.
void Membership::ProposeFirstView(std::uint64_t now_ns) {
  if (machine_.state().founded() || !leads() || now_ns < found_ns_) return;
  found_ns_ = now_ns + kRegisterPeriodNs;
  cluster::View view = machine_.view();
  // A client that meets two of them goes to the later one.
  view.founding = options_.wall_us << 12 | (options_.random->Next64() >> 52) | 1;
  Propose(cluster::Found{std::move(view)},
          [](const absl::StatusOr<cluster::ClusterResult>& result) {
            if (result.ok() || absl::IsUnavailable(result.status())) return;
            RING_LOG(WARNING) << "the cluster cannot be founded: " << result.status();
          });
}

// Of what the file says; for people.
std::string Membership::FileDiffersIn() const {
  const cluster::View own = FirstView(*options_.config);
  const cluster::View& agreed = machine_.view();
  std::vector<absl::string_view> names;
  if (own.overrun != agreed.overrun) names.push_back("overrun");
  if (own.fail_over != agreed.fail_over) names.push_back("fail_over");
  if (own.value_size_max != agreed.value_size_max) names.push_back("value_size_max");
  if (own.voter_count != agreed.voter_count) names.push_back("voters");
  if (own.nodes.size() > agreed.nodes.size()) names.push_back("nodes");
  return absl::StrJoin(names, ", ");
}

bool Membership::Registered() const {
  if (!Known()) return false;
  const cluster::NodeInfo& known = machine_.view().nodes[options_.node.value()];
  return known.incarnation == options_.incarnation && known.status != cluster::NodeStatus::kDown &&
         known.tcp_address == self_.tcp_address && known.shm_address == self_.shm_address &&
         known.rdma_address == self_.rdma_address && known.local_address == self_.local_address;
}

void Membership::ProgressRegistration(std::uint64_t now_ns) {
  if (over_ || register_pending_ || now_ns < register_ns_ || leader() == cluster::kNoNode) return;
  if (!machine_.state().founded() || !replica_->configuration().Contains(server_)) return;
  if (!Known() || Registered()) return;
  const cluster::NodeInfo& known = machine_.view().nodes[options_.node.value()];
  if (known.status == cluster::NodeStatus::kRemoved && known.incarnation == options_.incarnation) {
    if (!std::exchange(removal_told_, true)) {
      RING_LOG(WARNING) << "node=" << options_.node.value()
                        << " was removed by an operator: stop it, or start it again to come back";
    }
    return;
  }
  register_ns_ = now_ns + kRegisterPeriodNs;
  register_pending_ = true;
  Propose(cluster::RegisterNode{self_}, [alive = alive_, attempt = ++register_attempt_](
                                            const absl::StatusOr<cluster::ClusterResult>& result) {
    if (*alive == nullptr || (*alive)->register_attempt_ != attempt) return;
    Membership& self = **alive;
    self.register_pending_ = false;
    if (result.ok()) self.register_error_.clear();
    // It may be done yet, or was never asked for.
    if (result.ok() || absl::IsUnavailable(result.status()) || absl::IsUnknown(result.status()) ||
        absl::IsDeadlineExceeded(result.status())) {
      return;
    }
    // L8: who was replaced by a later start has no part any more.
    self.over_ = absl::IsAborted(result.status()) &&
                 self.machine_.view().nodes[self.options_.node.value()].incarnation !=
                     self.options_.incarnation;
    std::string why(result.status().message());
    if (self.register_error_ != why) {
      RING_LOG(WARNING) << "node=" << self.options_.node.value()
                        << " did not register: " << result.status();
      self.register_error_ = std::move(why);
    }
    if (!self.over_) self.FailFormerStart();
  });
}

// L8: whether this start may register or not (its file may give it an address that is another's by
// now), the one before is over, and its roles must not wait for somebody to mend the file.
void Membership::FailFormerStart() {
  const cluster::NodeInfo& known = machine_.view().nodes[options_.node.value()];
  const bool over = known.incarnation.value() == 0 || known.incarnation == options_.incarnation ||
                    known.status == cluster::NodeStatus::kDown ||
                    known.status == cluster::NodeStatus::kRemoved;
  if (over) return;
  Propose(cluster::FailNode{options_.node, known.incarnation, "another start of it is there"},
          [](const absl::StatusOr<cluster::ClusterResult>&) {});
}

}  // namespace ring::node
