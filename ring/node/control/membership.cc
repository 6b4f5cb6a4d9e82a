#include "ring/node/control/membership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ring/base/check.h"
#include "ring/base/clock.h"
#include "ring/base/log.h"
#include "ring/base/status.h"
#include "ring/base/wire.h"
#include "ring/node/control/directory_storage.h"

namespace ring::node {
namespace {

using consensus::Configuration;
using consensus::ServerId;

static_assert(Configuration::kServersMax >= cluster::kNodeCountMax);  // each node is a server

constexpr std::uint64_t kProbeTimeoutNs = 1000 * kMillisecondNs;
constexpr std::uint64_t kCampaignPeriodNs = 10 * kMillisecondNs;
constexpr std::uint64_t kCampaignForNs = 1000 * kMillisecondNs;
constexpr std::uint64_t kFailPeriodNs = 50 * kMillisecondNs;
// The number of a server that its cluster began with; others draw theirs.
constexpr std::uint64_t kFounderNumber = 1;

ServerId FounderOf(NodeId node) {
  return consensus::MakeServerId(static_cast<std::uint16_t>(node.value()), kFounderNumber);
}

ServerId FreshServer(NodeId node, Random& random) {
  const std::uint64_t number = random.Below(consensus::kServerNumberMax - kFounderNumber);
  return consensus::MakeServerId(static_cast<std::uint16_t>(node.value()),
                                 kFounderNumber + 1 + number);
}

Configuration FirstConfiguration(int voter_count) {
  Configuration configuration;
  for (int i = 0; i < voter_count; ++i) {
    configuration.AddVoter(FounderOf(NodeId(static_cast<std::uint32_t>(i))));
  }
  return configuration;
}

}  // namespace

Membership::Membership(Options options)
    : options_(std::move(options)),
      tick_ns_(options_.config->control.TickNs()),
      machine_(cluster::ClusterState::Unfounded(FirstView(*options_.config)),
               [this](const std::shared_ptr<const cluster::View>& view) { OnView(view); }),
      leases_(options_.clock, &machine_, options_.lease_ns),
      founding_(options_.node, options_.incarnation, options_.config->voter_count()),
      alive_(std::make_shared<Membership*>(this)) {
  if (options_.storage == nullptr) {
    own_disk_ = MakeVoterStorage(*options_.config, options_.node,
                                 options_.config->nodes[options_.node.value()].name);
    options_.storage = own_disk_.get();
  }
  HandleMessages();
}

Membership::~Membership() { *alive_ = nullptr; }

absl::Status Membership::NotLeader(NodeId leader) {
  if (leader == cluster::kNoNode) return absl::UnavailableError("no leader is known: try again");
  return absl::UnavailableError(
      absl::StrCat("is not the leader, node ", leader.value(), " is: try again"));
}

void Membership::HandleMessages() {
  ControlPort& control = *options_.control;
  control.Handle(ControlType::kConsensus,
                 [this](NodeId from, absl::string_view body, ControlReply) {
                   if (replica_ == nullptr) return;  // lost, as messages may be
                   replica_->Receive(static_cast<std::uint16_t>(from.value()), body);
                   work_ = true;
                 });
  control.Handle(
      ControlType::kProbe, [this](NodeId from, absl::string_view body, ControlReply reply) {
        ByteReader in(body);
        const Incarnation start(in.Get<std::uint64_t>());
        if (!in.finished()) return reply(absl::InvalidArgumentError("a probe names no start"));
        founding_.OnAsked(from, start);
        const std::uint64_t leader = replica_ == nullptr ? 0 : replica_->leader().value();
        reply(EncodeProbe(founding_.Answer(from, leader, machine_.view().founding)));
      });
  control.Handle(ControlType::kJoin,
                 [this](NodeId from, absl::string_view body, ControlReply reply) {
                   OnJoin(from, body, std::move(reply));
                 });
  control.Handle(ControlType::kPropose, [this](NodeId, absl::string_view body, ControlReply reply) {
    OnPropose(body, std::move(reply));
  });
  control.Handle(ControlType::kRenew,
                 [this](NodeId from, absl::string_view body, ControlReply reply) {
                   work_ = true;
                   leases_.OnRenew(from, body, std::move(reply));
                 });
}

absl::Status Membership::CheckStorage() const { return options_.storage->Check(); }

void Membership::Start(const cluster::NodeInfo& self) {
  self_ = self;
  self_.incarnation = options_.incarnation;
  started_ = true;
  if (!options_.storage->HasMemory()) return;
  founding_.Join();  // it comes back as who it was
  beginning_ = Beginning{consensus::kNoServer, false};
  Begin(now_ns_);
}

absl::Status Membership::StartReplica(ServerId fresh, bool found) {
  const ControlConfig& control = options_.config->control;
  const int voter_count = options_.config->voter_count();
  server_ = fresh == consensus::kNoServer ? FounderOf(options_.node) : fresh;
  RING_ASSIGN_OR_RETURN(storage_, options_.storage->Open(&server_, options_.wake));
  RING_ASSIGN_OR_RETURN(const consensus::InitialState initial, storage_->Load());
  if (found && consensus::IsEmpty(initial)) {
    RING_RETURN_IF_ERROR(consensus::Bootstrap(FirstConfiguration(voter_count), *storage_));
  }
  consensus::ReplicaOptions options;
  options.raft.id = server_;
  options.raft.nonce = options_.random->Next64();
  options.raft.heartbeat_ticks = control.HeartbeatTicks();
  options.raft.election_ticks = control.ElectionTicks();
  options.raft.message_size_max = kMessageSizeMax;
  if (options_.word != nullptr) word_ = std::make_unique<FenceWord>(server_, options_.word);
  RING_ASSIGN_OR_RETURN(
      replica_, consensus::Replica::Start(options, *storage_, machine_, *this, word_.get()));
  leases_.set_replica(replica_.get());
  keeper_ = std::make_unique<ServerKeeper>(replica_.get(), machine_.view().voter_count);
  detector_ = std::make_unique<FailureDetector>(options_.node, control.DetectTicks(),
                                                control.HeartbeatTicks(),
                                                ControlPort::kAttemptsApartMaxNs / tick_ns_);
  last_tick_ns_ = heard_ns_ = now_ns_;
  work_ = true;
  // The first voter of a new cluster need not wait for silence; the others may still be on the way.
  if (found && options_.node == NodeId(0)) campaign_until_ns_ = now_ns_ + kCampaignForNs;
  return absl::OkStatus();
}

void Membership::Send(ServerId to, std::string bytes) {
  const NodeId node(consensus::NodeOf(to));
  options_.control->Send(node, ControlType::kConsensus, std::move(bytes));
}

void Membership::OnLeadership(consensus::Role role, ServerId leader, consensus::Term term) {
  if (role == consensus::Role::kLeader) {
    RING_LOG(INFO) << "node=" << options_.node.value() << " leads the consensus term=" << term;
    detector_->Reset();
    suspected_.clear();
    options_.events->Add(EventKind::kLeads);
  }
  leases_.OnLeadership(role == consensus::Role::kLeader);
  if (leader == consensus::kNoServer) return;
  campaign_until_ns_ = 0;
  // Whoever was asked before may stand still: its answer is not waited for.
  if (std::exchange(leader_known_, leader) != leader) register_pending_ = false;
}

void Membership::OnConfiguration(const Configuration& configuration) {
  if (!replica_->is_leader()) return;
  RING_LOG(INFO) << "consensus voters=" << configuration.voters.size()
                 << " learners=" << configuration.learners.size();
}

NodeId Membership::leader() const {
  const ServerId known = replica_ == nullptr ? consensus::kNoServer : replica_->leader();
  if (known != consensus::kNoServer) return NodeId(consensus::NodeOf(known));
  return leader_hint_ == 0 ? cluster::kNoNode : NodeId(consensus::NodeOf(ServerId(leader_hint_)));
}

void Membership::Probe() {
  for (std::size_t i = 0; i < options_.control->node_count(); ++i) {
    const NodeId node(static_cast<std::uint32_t>(i));
    if (node == options_.node || !options_.control->connected(node)) continue;
    if (!probed_.insert(node).second) continue;  // it has not answered yet
    ByteWriter out;
    out.Put(options_.incarnation.value());
    options_.control->Call(node, ControlType::kProbe, out.Take(), kProbeTimeoutNs,
                           [alive = alive_, node](const absl::StatusOr<std::string>& body) {
                             if (*alive == nullptr) return;
                             (*alive)->probed_.erase(node);
                             if (!body.ok()) return;
                             const absl::StatusOr<ProbeAnswer> answer = DecodeProbe(*body);
                             if (!answer.ok()) return;
                             (*alive)->founding_.OnAnswer(node, *answer);
                             if (answer->leader != 0) (*alive)->leader_hint_ = answer->leader;
                           });
  }
}

void Membership::ProgressFounding(std::uint64_t now_ns) {
  bool all = true;
  for (std::size_t i = 0; i < options_.control->node_count(); ++i) {
    const NodeId node(static_cast<std::uint32_t>(i));
    if (!options_.control->connected(node)) founding_.OnGone(node);
    all &= node == options_.node || founding_.Answered(node);
  }
  if (began_ns_ == 0) began_ns_ = now_ns;
  const Founding::Decision decision = founding_.Decide();
  // One of those that are no voters may know of a cluster.
  const bool soon = decision == Founding::Decision::kFound && !all &&
                    now_ns - began_ns_ < options_.found_without_ns;
  if (decision == Founding::Decision::kWait || soon) {
    if (now_ns < probe_ns_) return;
    probe_ns_ = now_ns + kProbePeriodNs;
    return Probe();
  }
  const bool found = decision == Founding::Decision::kFound;
  const ServerId server =
      found ? FounderOf(options_.node) : FreshServer(options_.node, *options_.random);
  if (found) {
    founding_.Found();
  } else {
    founding_.Join();
  }
  beginning_ = Beginning{server, found};
}

// Without its file a voter has no part: it must not go on as somebody without a memory. Its disk
// may have been filled since it was checked.
void Membership::Begin(std::uint64_t now_ns) {
  if (now_ns < begin_ns_) return;
  begin_ns_ = now_ns + kJoinPeriodNs;
  const absl::Status status = StartReplica(beginning_->server, beginning_->found);
  TellOfStorage(status);
  if (status.ok()) {
    beginning_.reset();
  } else {
    storage_.reset();
  }
}

bool Membership::TickReplica(std::uint64_t now_ns) {
  const std::uint64_t due = (now_ns - last_tick_ns_) / tick_ns_;
  if (due == 0) return false;
  // What this node slept or stood still is not counted as the others' silence.
  const std::uint64_t limit = options_.config->control.HeartbeatTicks();
  last_tick_ns_ += due * tick_ns_;
  for (std::uint64_t i = 0; i < std::min(due, limit); ++i) {
    replica_->Tick(options_.random->Next64());
    if (replica_->is_leader()) detector_->Tick();
  }
  if (now_ns < campaign_until_ns_ && now_ns >= campaign_ns_ &&
      replica_->leader() == consensus::kNoServer) {
    campaign_ns_ = now_ns + kCampaignPeriodNs;
    replica_->Campaign().IgnoreError();  // refused: the next one is soon
  }
  return true;
}

void Membership::Propose(const cluster::ClusterCommand& command, ProposeDone done) {
  const NodeId to = leader();
  if (to == cluster::kNoNode) {
    done(NotLeader(to));
    return;
  }
  options_.control->Call(to, ControlType::kPropose, cluster::EncodeClusterCommand(command),
                         kCallTimeoutNs + options_.lease_ns,  // it may wait for one to be over
                         [done = std::move(done)](const absl::StatusOr<std::string>& body) mutable {
                           if (!body.ok()) return done(body.status());
                           done(DecodeResult(*body));
                         });
}

void Membership::OnPropose(absl::string_view body, ControlReply reply) {
  const absl::StatusOr<cluster::ClusterCommand> command = cluster::DecodeClusterCommand(body);
  if (!command.ok()) return reply(command.status());
  if (!leads()) return reply(NotLeader(leader()));
  work_ = true;
  leases_.Propose(*command, std::string(body.data(), body.size()), std::move(reply));
}

void Membership::OnView(const std::shared_ptr<const cluster::View>& view) {
  if (agreed_ != nullptr) {
    leases_.OnView(*agreed_, *view);
  } else if (const std::string differs = FileDiffersIn(); !differs.empty()) {
    RING_LOG(WARNING) << "node=" << options_.node.value() << ": its file differs from what the "
                      << "cluster was founded with, which counts: " << differs;
  }
  agreed_ = view;
  options_.control->SetFounding(view->founding);
  if (keeper_ != nullptr) keeper_->set_voter_count(view->voter_count);
  options_.on_view(view);
}

void Membership::Renew(LeaseFence::Granted done) {
  const NodeId to = leader();
  if (to == cluster::kNoNode) return done(NotLeader(to));
  const LeaseRenewal renewal{options_.incarnation, machine_.view().epoch};
  options_.control->Call(to, ControlType::kRenew, EncodeRenewal(renewal), options_.lease_ns,
                         [done = std::move(done)](const absl::StatusOr<std::string>& body) mutable {
                           done(body.status());
                         });
}

RoleMark Membership::RolesKnown() const {
  if (replica_ == nullptr) return {};
  const consensus::RaftLog& log = replica_->raft().log();
  // A leader's snapshot takes the log's place before it takes the state's.
  if (replica_->applied_index() < log.base_index()) return {};
  return {machine_.roles(), log.ConfigurationAt(replica_->applied_index()).voters,
          machine_.view().founding};
}

void Membership::Read(consensus::Replica::ReadDone done) {
  if (replica_ == nullptr) return done(NotLeader(cluster::kNoNode));
  work_ = true;
  replica_->Read(std::move(done));
}

// When no leader is known, its successor's entries tell.
void Membership::Refresh() {
  Read([](const absl::Status&) {});
}

void Membership::FailSilent(std::uint64_t now_ns) {
  if (!leads()) return;
  const cluster::View& view = machine_.view();
  const std::vector<NodeId> silent =
      detector_->Silent(view, replica_->Peers(), [this](NodeId node) {
        if (options_.control->connected(node)) return FailureDetector::Link::kUp;
        return options_.control->WasConnected(node) ? FailureDetector::Link::kLost
                                                    : FailureDetector::Link::kNever;
      });
  if (silent.empty() || now_ns < fail_ns_) return;
  fail_ns_ = now_ns + std::min(kFailPeriodNs, options_.config->control.detect_ms * kMillisecondNs);
  for (const NodeId node : silent) {
    if (leases_.Reassigning(node)) continue;
    if (suspected_.insert(node).second) {
      options_.events->Add(EventKind::kSuspected, node);
      RING_LOG(WARNING) << "node=" << node.value() << " is silent, the leader proposes its failure";
    }
    Propose(cluster::FailNode{node, view.nodes[node.value()].incarnation, "silent"},
            [alive = alive_, node](const absl::StatusOr<cluster::ClusterResult>& result) {
              if (*alive != nullptr && result.ok()) (*alive)->suspected_.erase(node);
            });
  }
}

bool Membership::Progress(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  if (!started_) return false;
  if (replica_ == nullptr) {
    if (!beginning_.has_value()) ProgressFounding(now_ns);
    if (beginning_.has_value()) Begin(now_ns);
    return false;
  }
  if (TickReplica(now_ns)) {
    work_ = true;
    FailSilent(now_ns);
  }
  ProgressJoin(now_ns);
  ProposeFirstView(now_ns);
  ProgressRegistration(now_ns);
  work_ |= keeper_->Progress(now_ns);
  work_ |= leases_.Progress(now_ns);
  work_ |= replica_->HasPersisted();
  if (!work_) return false;
  work_ = false;
  replica_->Turn();
  TellOfStorage(replica_->persist_status());
  if (leads() != led_) {
    led_ = !led_;
    options_.on_leadership(led_);
  }
  return true;
}

// A voter whose disk refuses, or hangs, neither votes nor acknowledges: the others have to be a
// majority.
void Membership::TellOfStorage(const absl::Status& status) {
  if (status.code() == storage_status_) return;
  storage_status_ = status.code();
  if (!status.ok()) {
    RING_LOG(WARNING) << "consensus storage refuses, node=" << options_.node.value()
                      << " decides nothing until it does not: " << status;
  } else {
    RING_LOG(INFO) << "consensus storage takes again, node=" << options_.node.value();
  }
}

bool Membership::ready() const { return Missing().empty(); }

std::string Membership::Missing() const {
  if (beginning_.has_value()) return "consensus: its storage";
  if (replica_ == nullptr) {
    std::string why = founding_.Differing();
    if (why.empty()) why = founding_.Stranded();
    return absl::StrCat("consensus: ", why.empty() ? "other voters" : why);
  }
  if (replica_->leader() == consensus::kNoServer) return "consensus: a leader";
  if (!Registered()) return "registration";
  const cluster::View& view = machine_.view();
  for (const cluster::NodeInfo& node : view.nodes) {
    if (node.incarnation.value() == 0 && view.HoldsRole(node.id)) {
      return absl::StrCat("node ", node.name, " to register");
    }
  }
  return "";
}

}  // namespace ring::node
