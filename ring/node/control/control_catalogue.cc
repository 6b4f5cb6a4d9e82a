#include "ring/node/control/control_catalogue.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/log.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"
#include "ring/base/wire.h"
#include "ring/node/control/drain_message.h"
#include "ring/node/node.h"

namespace ring::node {
namespace {

using protocol::MemgestState;

constexpr std::uint64_t kAskTimeoutNs = 5'000'000'000;
constexpr std::uint64_t kPollNs = 10'000'000;
constexpr std::uint64_t kActivateNs = 10'000'000'000;
constexpr std::uint64_t kDrainNs = 10'000'000'000;        // G10
constexpr std::uint64_t kForcedDrainNs = 60'000'000'000;  // tombstones are written at some speed
constexpr std::uint64_t kRepairNs = 1'000'000'000;
constexpr std::size_t kWaitingMax = 64;

cluster::RequestId Internal() { return {}; }

std::string EncodeEpoch(std::uint32_t epoch) {
  ByteWriter out;
  out.Put(epoch);
  return out.Take();
}

cluster::RequestId RequestOf(const CatalogueChange& change) {
  return {change.id.client, change.id.seq};
}

// G10: what a shard holds only its coordinator can say, and only the start that got the role.
absl::Status CheckCoordinators(const cluster::View& view) {
  for (std::size_t g = 0; g < view.groups.size(); ++g) {
    const cluster::GroupView& group = view.groups[g];
    for (std::size_t i = 0; i < static_cast<std::size_t>(view.s); ++i) {
      const NodeId holder = group.roles[i];
      const cluster::NodeInfo* const node =
          holder == cluster::kNoNode ? nullptr : &view.nodes[holder.value()];
      if (node != nullptr && node->status != cluster::NodeStatus::kDown &&
          node->incarnation == group.incarnations[i])
        continue;
      return absl::UnavailableError(
          absl::StrCat("group=", g, " shard=", i,
                       " has no coordinator that lives: what it holds of a memgest "
                       "cannot be counted: try again when a node has the role, or add one"));
    }
  }
  return absl::OkStatus();
}

absl::Status Stopped(absl::string_view where, absl::string_view why) {
  return absl::UnavailableError(
      absl::StrCat(where, ": ", why, ": try again with the same request id"));
}

}  // namespace

// The first answer that is an error, with its node.
absl::Status CatalogueService::FirstError(const Answers& answers) {
  for (const Answer& one : answers) {
    if (!one.body.ok())
      return Stopped(absl::StrCat("node ", one.node.value()), one.body.status().message());
  }
  return absl::OkStatus();
}

CatalogueService::CatalogueService(Node* node) : node_(node), control_(&node->control()) {
  control_->Handle(ControlType::kPing, [this](NodeId, absl::string_view, ControlReply reply) {
    if (node_->view() == nullptr) return reply(absl::UnavailableError("has no view yet"));
    reply(EncodeEpoch(node_->view()->epoch));
  });
  control_->Handle(ControlType::kView, [this](NodeId, absl::string_view body, ControlReply reply) {
    OnView(body, std::move(reply));
  });
  control_->Handle(ControlType::kDrain, [this](NodeId, absl::string_view body, ControlReply reply) {
    OnDrain(body, std::move(reply));
  });
  control_->Handle(ControlType::kCatalogue,
                   [this](NodeId, absl::string_view body, ControlReply reply) {
                     OnChange(body, std::move(reply));
                   });
}

CatalogueService::~CatalogueService() = default;

const cluster::Catalogue& CatalogueService::catalogue() const {
  return node_->membership().state().catalogue();
}

// What this node began, another leader goes on with.
void CatalogueService::OnLeadership(bool leads) {
  repair_ = leads && LeftBetween() != nullptr;
  if (leads) return;
  const absl::Status moved = Stopped("leadership moved", "the change may be done or not");
  std::deque<std::unique_ptr<Job>> ended = std::exchange(waiting_, {});
  if (job_ != nullptr) ended.push_back(std::move(job_));
  ++job_number_;
  for (const std::unique_ptr<Job>& job : ended) {
    if (job->reply != nullptr) job->reply(moved);
  }
}

// The view was agreed upon; this node may hear of it here before it applies the command itself.
void CatalogueService::OnView(absl::string_view body, ControlReply reply) {
  const absl::StatusOr<cluster::View> shown = cluster::DecodeView(body);
  if (!shown.ok()) return reply(shown.status());
  const absl::Status taken = TakeView(*shown);
  if (!taken.ok()) return reply(taken);
  reply(EncodeEpoch(node_->view()->epoch));
}

absl::Status CatalogueService::TakeView(const cluster::View& shown) {
  if (node_->view() == nullptr) return absl::UnavailableError("has no view yet");
  const cluster::View& known = *node_->view();
  if (shown.cluster != known.cluster) return absl::InvalidArgumentError("view of another cluster");
  if (shown.epoch <= known.epoch) return absl::OkStatus();
  RING_RETURN_IF_ERROR(CheckCatalogueFollows(known, shown));
  RING_RETURN_IF_ERROR(CheckDeletedAreEmpty(shown));
  node_->TakeAgreed(std::make_shared<const cluster::View>(shown));
  return absl::OkStatus();
}

// The leader says DELETED when all said that nothing is left; a wrong one is refused here. By the
// log of commands it would end the node.
absl::Status CatalogueService::CheckDeletedAreEmpty(const cluster::View& shown) const {
  for (const protocol::MemgestDescriptor& descriptor : shown.memgests) {
    if (descriptor.state != MemgestState::kDeleted) continue;
    for (const std::unique_ptr<CoordinatedShard>& shard : node_->shards()) {
      memgest::Memgest* const memgest =
          shard->serving() ? shard->coordinator()->FindMemgest(descriptor.id) : nullptr;
      if (memgest == nullptr || memgest->allocator().used_bytes() + memgest->version_count == 0)
        continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "memgest=", descriptor.name, " is not empty: versions=", memgest->version_count,
          " bytes=", memgest->allocator().used_bytes()));
    }
  }
  return absl::OkStatus();
}

void CatalogueService::OnDrain(absl::string_view body, ControlReply reply) {
  const absl::StatusOr<DrainRequest> request = DecodeDrainRequest(body);
  if (!request.ok()) return reply(request.status());
  const cluster::View* const view = node_->view().get();
  const protocol::MemgestDescriptor* const memgest =
      view == nullptr ? nullptr : view->FindMemgest(request->memgest);
  if (memgest == nullptr || memgest->state != MemgestState::kDraining)
    return reply(absl::FailedPreconditionError("the memgest is not draining here"));
  // An internal client of this node and start, whose requests nobody else makes.
  memgest::ClientId dropper;
  dropper.high = 0x72696e672d64726f;
  dropper.low = node_->info().incarnation.value();
  DrainAnswer answer{node_->info().incarnation, {}};
  for (const std::unique_ptr<CoordinatedShard>& shard : node_->shards()) {
    if (!shard->serving()) return reply(absl::UnavailableError(shard->Missing()));
    answer.shards.push_back({shard->group(), shard->shard(),
                             shard->coordinator()->Drain(memgest->id, view->default_memgest,
                                                         request->drop ? &dropper : nullptr)});
    shard->active = true;
  }
  reply(EncodeDrainAnswer(answer));
}

void CatalogueService::OnChange(absl::string_view body, ControlReply reply) {
  absl::StatusOr<CatalogueChange> change = DecodeChange(body);
  if (!change.ok()) return reply(change.status());
  if (node_->view() == nullptr) return reply(absl::UnavailableError("has no view yet"));
  if (!node_->membership().leads())
    return reply(absl::UnavailableError("is not the leader: try again"));
  if (change->id.client.empty())
    return reply(absl::InvalidArgumentError("request id without a client"));
  if (waiting_.size() >= kWaitingMax)
    return reply(absl::ResourceExhaustedError("too many catalogue changes wait: try again"));
  auto job = std::make_unique<Job>();
  job->change = *std::move(change);
  job->reply = std::move(reply);
  waiting_.push_back(std::move(job));
  StartNext();
}

void CatalogueService::StartNext() {
  if (job_ != nullptr || waiting_.empty()) return;
  job_ = std::move(waiting_.front());
  waiting_.pop_front();
  ++job_number_;
  job_->stage = Stage::kAsk;
  AskAll(ControlType::kPing, "", &CatalogueService::OnAsked);
}

bool CatalogueService::SpeaksForItsRoles(NodeId node) const {
  if (node != node_->id()) return control_->IsRegisteredStart(node);
  const Incarnation registered = node_->view()->nodes[node.value()].incarnation;
  return registered == Incarnation() || registered == node_->info().incarnation;
}

// A node that failed hears of the catalogue when it comes back (G11). One that started again and
// was not missed yet says nothing for its former start: whose shards would count for what is made
// now, though nobody there can have any of it.
void CatalogueService::AskAll(ControlType type, const std::string& body,
                              void (CatalogueService::*then)(Answers)) {
  struct Round {
    Answers answers;
    std::size_t left = 0;
  };
  auto round = std::make_shared<Round>();
  for (const cluster::NodeInfo& node : node_->view()->nodes) {
    const bool gone =
        node.status == cluster::NodeStatus::kDown || node.status == cluster::NodeStatus::kRemoved;
    if (!gone) round->answers.push_back({node.id});
  }
  round->left = round->answers.size();
  for (std::size_t i = 0; i < round->answers.size(); ++i) {
    control_->Call(
        round->answers[i].node, type, body, kAskTimeoutNs,
        [this, round, i, then, number = job_number_](absl::StatusOr<std::string> answer) {
          if (!SpeaksForItsRoles(round->answers[i].node) && !Mutant("G11-start"))
            answer = absl::UnavailableError("started again, and nobody has its roles yet");
          round->answers[i].body = std::move(answer);
          if (--round->left > 0 || job_ == nullptr || number != job_number_) return;
          (this->*then)(std::move(round->answers));
        });
  }
}

// Every node is there.
void CatalogueService::OnAsked(Answers answers) {
  if (const absl::Status status = FirstError(answers); !status.ok()) return Finish(status);
  for (const Answer& one : answers) {
    ByteReader in(*one.body);
    repair_ |= in.Get<std::uint32_t>() < node_->view()->epoch;
  }
  const CatalogueChange& change = job_->change;
  // What was left over goes on from where all nodes know it (G11).
  if (job_->reply == nullptr) return Show();
  switch (change.kind) {
    case ChangeKind::kCreate:
      return Propose(cluster::CreateCommand(RequestOf(change), change.descriptor));
    case ChangeKind::kDelete: {
      const absl::Status countable = CheckCoordinators(*node_->view());
      if (!countable.ok()) return Finish(countable);
      return Propose(cluster::DeleteCommand(RequestOf(change), change.name, change.force));
    }
    case ChangeKind::kSetDefault: {
      const absl::StatusOr<MemgestId> memgest = MemgestOf(change);
      if (!memgest.ok()) return Finish(memgest.status());
      return Propose(cluster::SetDefaultCommand(RequestOf(change), *memgest));
    }
  }
}

// Of a new default. The name may be another memgest's by now: which one had it then is remembered,
// whoever leads (X6).
absl::StatusOr<MemgestId> CatalogueService::MemgestOf(const CatalogueChange& change) const {
  const std::optional<MemgestId> before = catalogue().RememberedMemgest(RequestOf(change));
  if (before.has_value()) {
    const protocol::MemgestDescriptor* const memgest = catalogue().Find(*before);
    if (memgest != nullptr && memgest->name == change.name) return *before;
    return cluster::RequestReused(RequestOf(change));
  }
  const protocol::MemgestDescriptor* const memgest = catalogue().Find(change.name);
  if (memgest == nullptr) return absl::NotFoundError(absl::StrCat("no memgest name=", change.name));
  return memgest->id;
}

void CatalogueService::Propose(const cluster::CatalogueCommand& command) {
  // Another one may lead by now, and take the command: with nobody to go on with it.
  if (!node_->membership().leads())
    return Finish(Stopped("leadership moved", "the change may be done or not"));
  node_->membership().Propose(
      command, [this, number = job_number_](const absl::StatusOr<cluster::ClusterResult>& result) {
        if (job_ != nullptr && number == job_number_) OnProposed(result);
      });
}

void CatalogueService::OnProposed(const absl::StatusOr<cluster::ClusterResult>& result) {
  if (absl::IsUnknown(result.status()))
    return Finish(Stopped("consensus", result.status().message()));
  const bool creates = job_->reply != nullptr && job_->change.kind == ChangeKind::kCreate;
  // Empty, but a fail-over began: counted again when it is over.
  if (job_->stage == Stage::kDrain && job_->give_up.ok() && absl::IsUnavailable(result.status())) {
    if (control_->now_ns() >= job_->deadline_ns) return GiveUpDrain(result.status());
    return AskAgain(Stage::kDrainWait);
  }
  const bool begun = job_->memgest != MemgestId();
  if (creates && begun && absl::IsUnavailable(result.status())) return AwaitShards(result.status());
  // A deletion that began ends by what is agreed upon alone: each leader has the same answer (X6).
  // One that was undone, and cannot begin again as its memgest is the default one by now, would be
  // tried for ever.
  const bool draining = job_->stage == Stage::kDrain;
  const bool deletes = begun && job_->change.kind == ChangeKind::kDelete;
  if (deletes && !result.ok() && (draining || !absl::IsFailedPrecondition(result.status())))
    return Finish(Stopped("the deletion began", result.status().message()));
  if (!result.ok()) return Finish(result.status());
  job_->memgest = result->memgest;
  if ((result->changed || repair_) && !Mutant("G11-ack")) return Show();
  NextStep();
}

// A memgest is of use when all shards serve: a fail-over is over soon.
void CatalogueService::AwaitShards(const absl::Status& why) {
  if (job_->deadline_ns == 0) job_->deadline_ns = control_->now_ns() + kActivateNs;
  if (control_->now_ns() >= job_->deadline_ns) return Finish(Stopped("created", why.message()));
  AskAgain(Stage::kActivateWait);
}

// Between changes: what one that was not finished left behind.
const protocol::MemgestDescriptor* CatalogueService::LeftBetween() const {
  for (const protocol::MemgestDescriptor& memgest : catalogue().memgests()) {
    if (memgest.state == MemgestState::kCreating || memgest.state == MemgestState::kDraining)
      return &memgest;
  }
  return nullptr;
}

// CREATING goes on to ACTIVE, DRAINING back to it.
void CatalogueService::ProposeRepair() {
  const protocol::MemgestDescriptor* const memgest = LeftBetween();
  if (memgest == nullptr) return Finish(absl::OkStatus());
  Propose(cluster::SetStateCommand(Internal(), memgest->id, memgest->state, MemgestState::kActive));
}

void CatalogueService::Show() {
  job_->stage = Stage::kShow;
  repair_ = true;  // until all have it
  AskAll(ControlType::kView, cluster::EncodeView(*node_->view()), &CatalogueService::OnShown);
}

void CatalogueService::OnShown(Answers answers) {
  const absl::Status status = FirstError(answers);
  // What was given up is so, whoever has not seen it yet.
  if (!status.ok() && job_->give_up.ok()) return Finish(status);
  if (status.ok()) repair_ = false;
  NextStep();
}

// Every node has the catalogue as it is: what comes next follows from the memgest's state.
void CatalogueService::NextStep() {
  const CatalogueChange& change = job_->change;
  if (job_->reply == nullptr) return ProposeRepair();
  if (!job_->give_up.ok()) return Finish(job_->give_up);
  const protocol::MemgestDescriptor& memgest = *catalogue().Find(job_->memgest);
  if (change.kind == ChangeKind::kCreate && memgest.state == MemgestState::kCreating) {
    return Propose(cluster::SetStateCommand(Internal(), memgest.id, MemgestState::kCreating,
                                            MemgestState::kActive));
  }
  if (change.kind != ChangeKind::kDelete || memgest.state == MemgestState::kDeleted)
    return Finish(absl::OkStatus());
  if (memgest.state == MemgestState::kDraining) return DrainStep();
  // A retry of a delete that was undone because a node was away.
  Propose(cluster::SetStateCommand(Internal(), memgest.id, MemgestState::kActive,
                                   MemgestState::kDraining));
}

void CatalogueService::DrainStep() {
  if (job_->deadline_ns == 0) {
    job_->deadline_ns = control_->now_ns() + (job_->change.force ? kForcedDrainNs : kDrainNs);
  }
  job_->stage = Stage::kDrain;
  job_->revision = catalogue().revision();
  AskAll(ControlType::kDrain, EncodeDrainRequest({job_->memgest, job_->change.force}),
         &CatalogueService::OnDrained);
}

void CatalogueService::OnDrained(Answers answers) {
  std::vector<std::pair<NodeId, DrainAnswer>> counted;
  absl::Status status = CheckCoordinators(*node_->view());
  const bool has_coordinators = status.ok();
  status.Update(FirstError(answers));
  for (const Answer& one : answers) {
    if (!status.ok()) break;
    absl::StatusOr<DrainAnswer> answer = DecodeDrainAnswer(*one.body);
    status.Update(answer.status());
    if (answer.ok()) counted.emplace_back(one.node, *std::move(answer));
  }
  coordinator::DrainCounts sum;
  if (status.ok()) {
    const absl::StatusOr<coordinator::DrainCounts> all = SumOfShards(*node_->view(), counted);
    status.Update(all.status());
    if (all.ok()) sum = *all;
  }
  const bool empty =
      sum.keys + sum.versions + sum.records + sum.pending == 0 || Mutant("G10-empty");
  const bool late = control_->now_ns() >= job_->deadline_ns;
  // A shard that is between two epochs is not for long, if somebody coordinates it.
  const bool uncounted = absl::IsUnavailable(status) && has_coordinators;
  if (((status.ok() && !empty) || uncounted) && !late) return AskAgain(Stage::kDrainWait);
  if (status.ok() && !empty) {
    const protocol::MemgestDescriptor& memgest = *catalogue().Find(job_->memgest);
    status = absl::FailedPreconditionError(
        absl::StrCat("NOT_EMPTY memgest=", memgest.name, " keys=", sum.keys,
                     " versions=", sum.versions, " records=", sum.records, " pending=", sum.pending,
                     ": move or delete its keys, or delete it with force"));
  }
  if (!status.ok()) return GiveUpDrain(status);
  Propose(cluster::DeletedCommand(job_->memgest, job_->revision));
}

// That it is not empty is the answer from now on, whoever leads (X6); what is else in the way is
// none, and the deletion's retry goes on.
void CatalogueService::GiveUpDrain(const absl::Status& why) {
  job_->give_up = why;
  Propose(absl::IsFailedPrecondition(why)
              ? cluster::RefuseDeleteCommand(RequestOf(job_->change), job_->memgest, job_->revision,
                                             why.message())
              : cluster::SetStateCommand(Internal(), job_->memgest, MemgestState::kDraining,
                                         MemgestState::kActive));
}

void CatalogueService::AskAgain(Stage stage) {
  job_->stage = stage;
  job_->next_ns = control_->now_ns() + kPollNs;
}

void CatalogueService::Finish(absl::Status status) {
  const std::unique_ptr<Job> job = std::move(job_);
  repair_ |= LeftBetween() != nullptr;
  if (job->reply == nullptr) {
    if (!status.ok()) RING_LOG(WARNING) << "catalogue repair: " << status.message();
    return StartNext();
  }
  if (!status.ok()) {
    job->reply(std::move(status));
  } else {
    std::string body;
    if (const protocol::MemgestDescriptor* memgest = catalogue().Find(job->memgest))
      AppendMemgestDescriptor(*memgest, &body);
    job->reply(std::move(body));
  }
  StartNext();
}

void CatalogueService::Progress(std::uint64_t now_ns) {
  if (job_ != nullptr) {
    if (job_->stage == Stage::kDrainWait && now_ns >= job_->next_ns) DrainStep();
    if (job_->stage == Stage::kActivateWait && now_ns >= job_->next_ns) NextStep();
    return;
  }
  if (!node_->membership().leads()) {
    repair_ns_ = 0;
    return;
  }
  if (repair_ns_ == 0) repair_ns_ = now_ns + kRepairNs;
  if (now_ns < repair_ns_) return;
  repair_ns_ = now_ns + kRepairNs;
  // A command of a former leader may have come behind this one's election.
  if (!repair_ && LeftBetween() == nullptr) return;
  waiting_.push_back(std::make_unique<Job>());
  StartNext();
}

}  // namespace ring::node
