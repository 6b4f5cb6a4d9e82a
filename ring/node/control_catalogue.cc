#include "ring/node/control_catalogue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/base/log.h"
#include "ring/base/status.h"
#include "ring/cluster/wire.h"
#include "ring/node/node.h"

namespace ring::node {
namespace {

using protocol::MemgestState;

constexpr std::uint64_t kAskTimeoutNs = 5'000'000'000;
constexpr std::uint64_t kDrainPollNs = 10'000'000;
constexpr std::uint64_t kDrainNs = 10'000'000'000;        // G10
constexpr std::uint64_t kForcedDrainNs = 60'000'000'000;  // tombstones are written at some speed
constexpr std::uint64_t kRepairNs = 1'000'000'000;
constexpr std::size_t kWaitingMax = 64;
constexpr std::size_t kNamedMax = 4096;

cluster::RequestId Internal() { return {}; }

std::string EncodeEpoch(std::uint32_t epoch) {
  cluster::ByteWriter out;
  out.Put(epoch);
  return out.Take();
}

bool Unknown(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable ||
         status.code() == absl::StatusCode::kDeadlineExceeded;
}

// Of what is asked, without who asks.
std::string PayloadOf(CatalogueChange change) {
  change.id = {};
  return EncodeChange(change);
}

absl::Status StoppedAt(std::size_t node, const absl::Status& why) {
  return absl::UnavailableError(
      absl::StrCat("node ", node, ": ", why.message(), ": try again with the same request id"));
}

// The first answer that is an error, with its node.
absl::Status FirstError(const std::vector<absl::StatusOr<std::string>>& answers) {
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].ok()) return StoppedAt(i, answers[i].status());
  }
  return absl::OkStatus();
}

}  // namespace

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

NodeId CatalogueService::Leader() const { return StaticCatalogueLog::LeaderOf(*node_->view()); }

// Nodes of several processes know each other by different addresses: of a shown view only the
// catalogue is taken.
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
  auto view = std::make_shared<cluster::View>(known);
  view->epoch = shown.epoch;
  view->memgests = shown.memgests;
  view->default_memgest = shown.default_memgest;
  node_->ApplyView(std::move(view));
  return absl::OkStatus();
}

// The leader says DELETED when all said that nothing is left; a wrong one is refused, not obeyed.
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
  coordinator::DrainCounts sum;
  for (const std::unique_ptr<CoordinatedShard>& shard : node_->shards()) {
    if (!shard->serving()) return reply(absl::UnavailableError(shard->Missing()));
    const coordinator::DrainCounts counts = shard->coordinator()->Drain(
        memgest->id, view->default_memgest, request->drop ? &dropper : nullptr);
    shard->active = true;
    sum.keys += counts.keys;
    sum.versions += counts.versions;
    sum.records += counts.records;
    sum.pending += counts.pending;
  }
  reply(EncodeDrainCounts(sum));
}

void CatalogueService::OnChange(absl::string_view body, ControlReply reply) {
  absl::StatusOr<CatalogueChange> change = DecodeChange(body);
  if (!change.ok()) return reply(change.status());
  if (node_->view() == nullptr) return reply(absl::UnavailableError("has no view yet"));
  if (Leader() != node_->id())
    return reply(
        absl::UnavailableError(absl::StrCat("is not the leader, node ", Leader().value(), " is")));
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
  if (log_ == nullptr) log_ = std::make_unique<StaticCatalogueLog>(*node_->view());
  job_ = std::move(waiting_.front());
  waiting_.pop_front();
  ++job_number_;
  job_->stage = Stage::kAsk;
  AskAll(ControlType::kPing, "", &CatalogueService::OnAsked);
}

void CatalogueService::AskAll(ControlType type, const std::string& body,
                              void (CatalogueService::*then)(Answers)) {
  struct Round {
    Answers answers;
    std::size_t left = 0;
  };
  auto round = std::make_shared<Round>();
  round->left = control_->node_count();
  round->answers.assign(round->left, absl::UnknownError(""));
  for (std::size_t i = 0; i < control_->node_count(); ++i) {
    control_->Call(
        NodeId(static_cast<std::uint32_t>(i)), type, body, kAskTimeoutNs,
        [this, round, i, then, number = job_number_](absl::StatusOr<std::string> answer) {
          round->answers[i] = std::move(answer);
          if (--round->left > 0 || job_ == nullptr || number != job_number_) return;
          (this->*then)(std::move(round->answers));
        });
  }
}

// Every node is there, and none knows more than this one.
void CatalogueService::OnAsked(Answers answers) {
  if (const absl::Status status = FirstError(answers); !status.ok()) return Finish(status);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    cluster::ByteReader in(*answers[i]);
    const auto epoch = in.Get<std::uint32_t>();
    if (!in.ok() || epoch > node_->view()->epoch) {
      return Finish(absl::FailedPreconditionError(
          absl::StrCat("node ", i, " has view_epoch=", epoch, ", the leader ", node_->view()->epoch,
                       ": the leader lost its memory")));
    }
    repair_ |= epoch < node_->view()->epoch;
  }
  const CatalogueChange& change = job_->change;
  // What was left over goes on from where all nodes know it (G11).
  if (job_->reply == nullptr) return Show();
  if (change.kind == ChangeKind::kCreate)
    return Propose(cluster::CreateCommand({change.id.client, change.id.seq}, change.descriptor));
  ProposeNamed();
}

CatalogueService::Named* CatalogueService::FindNamed(const AdminRequestId& id) {
  const auto found =
      std::find_if(named_.begin(), named_.end(), [&id](const Named& one) { return one.id == id; });
  return found == named_.end() ? nullptr : &*found;
}

// A delete or a new default.
void CatalogueService::ProposeNamed() {
  const CatalogueChange& change = job_->change;
  const Named* known = FindNamed(change.id);
  if (known == nullptr) {
    const protocol::MemgestDescriptor* const memgest = log_->catalogue().Find(change.name);
    if (memgest == nullptr)
      return Finish(absl::NotFoundError(absl::StrCat("no memgest name=", change.name)));
    if (named_.size() >= kNamedMax) named_.pop_front();
    named_.push_back({change.id, PayloadOf(change), memgest->id, std::nullopt});
    known = &named_.back();
  } else if (known->payload != PayloadOf(change)) {
    return Finish(cluster::RequestReused({change.id.client, change.id.seq}));
  }
  if (known->answer.has_value()) return Finish(*known->answer);
  const cluster::RequestId request = {change.id.client, change.id.seq};
  Propose(change.kind == ChangeKind::kSetDefault
              ? cluster::SetDefaultCommand(request, known->memgest)
              : cluster::SetStateCommand(request, known->memgest, MemgestState::kActive,
                                         MemgestState::kDraining));
}

void CatalogueService::Propose(const cluster::CatalogueCommand& command) {
  log_->Propose(command, [this, number = job_number_](const cluster::CommandResult& result) {
    if (job_ != nullptr && number == job_number_) OnProposed(result);
  });
}

void CatalogueService::OnProposed(const cluster::CommandResult& result) {
  if (!result.status.ok()) return Finish(result.status);
  job_->memgest = result.memgest;
  if (result.changed || repair_) return Show();
  NextStep();
}

// Between changes: what one that was not finished left behind.
const protocol::MemgestDescriptor* CatalogueService::LeftBetween() const {
  for (const protocol::MemgestDescriptor& memgest : log_->catalogue().memgests()) {
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
  const cluster::View next = log_->catalogue().NextView(*node_->view());
  // This node first. A view that it refused and others took would have the epoch of its next one,
  // and that they would not look at.
  if (const absl::Status taken = TakeView(next); !taken.ok())
    return Finish(StoppedAt(node_->id().value(), taken));
  AskAll(ControlType::kView, cluster::EncodeView(next), &CatalogueService::OnShown);
}

void CatalogueService::OnShown(Answers answers) {
  if (const absl::Status status = FirstError(answers); !status.ok()) return Finish(status);
  repair_ = false;
  NextStep();
}

// Every node has the catalogue as it is: what comes next follows from the memgest's state.
void CatalogueService::NextStep() {
  const CatalogueChange& change = job_->change;
  if (job_->reply == nullptr) return ProposeRepair();
  const protocol::MemgestDescriptor& memgest = *log_->catalogue().Find(job_->memgest);
  if (change.kind == ChangeKind::kCreate && memgest.state == MemgestState::kCreating) {
    return Propose(cluster::SetStateCommand(Internal(), memgest.id, MemgestState::kCreating,
                                            MemgestState::kActive));
  }
  if (change.kind != ChangeKind::kDelete || memgest.state == MemgestState::kDeleted)
    return Finish(absl::OkStatus());
  if (memgest.state == MemgestState::kDraining) return DrainStep();
  if (!job_->give_up.ok()) return Finish(job_->give_up);
  // A retry of a delete that was undone because a node was away.
  Propose(cluster::SetStateCommand(Internal(), memgest.id, MemgestState::kActive,
                                   MemgestState::kDraining));
}

void CatalogueService::DrainStep() {
  if (job_->deadline_ns == 0) {
    job_->deadline_ns = control_->now_ns() + (job_->change.force ? kForcedDrainNs : kDrainNs);
  }
  job_->stage = Stage::kDrain;
  AskAll(ControlType::kDrain, EncodeDrainRequest({job_->memgest, job_->change.force}),
         &CatalogueService::OnDrained);
}

void CatalogueService::OnDrained(Answers answers) {
  coordinator::DrainCounts sum;
  absl::Status status = FirstError(answers);
  for (std::size_t i = 0; i < answers.size() && status.ok(); ++i) {
    const absl::StatusOr<coordinator::DrainCounts> counts = DecodeDrainCounts(*answers[i]);
    if (!counts.ok()) {
      status = counts.status();
      break;
    }
    sum.keys += counts->keys;
    sum.versions += counts->versions;
    sum.records += counts->records;
    sum.pending += counts->pending;
  }
  const bool empty = sum.keys + sum.versions + sum.records + sum.pending == 0;
  const bool late = control_->now_ns() >= job_->deadline_ns;
  if (status.ok() && !empty && !late) {
    job_->stage = Stage::kDrainWait;
    job_->next_ns = control_->now_ns() + kDrainPollNs;
    return;
  }
  if (status.ok() && !empty) {
    const protocol::MemgestDescriptor& memgest = *log_->catalogue().Find(job_->memgest);
    status = absl::FailedPreconditionError(
        absl::StrCat("NOT_EMPTY memgest=", memgest.name, " keys=", sum.keys,
                     " versions=", sum.versions, " records=", sum.records, " pending=", sum.pending,
                     ": move or delete its keys, or delete it with force"));
  }
  job_->give_up = status;
  Propose(cluster::SetStateCommand(Internal(), job_->memgest, MemgestState::kDraining,
                                   status.ok() ? MemgestState::kDeleted : MemgestState::kActive));
}

void CatalogueService::Finish(absl::Status status) {
  const std::unique_ptr<Job> job = std::move(job_);
  repair_ |= LeftBetween() != nullptr;
  if (job->reply == nullptr) {
    if (!status.ok()) RING_LOG(WARNING) << "catalogue repair: " << status.message();
    return StartNext();
  }
  if (!job->give_up.ok()) status = job->give_up;
  Named* const named = FindNamed(job->change.id);
  if (named != nullptr && named->payload == PayloadOf(job->change) && !Unknown(status))
    named->answer = status;
  if (!status.ok()) {
    job->reply(std::move(status));
  } else {
    std::string body;
    if (const protocol::MemgestDescriptor* memgest = log_->catalogue().Find(job->memgest))
      AppendMemgestDescriptor(*memgest, &body);
    job->reply(std::move(body));
  }
  StartNext();
}

void CatalogueService::Progress(std::uint64_t now_ns) {
  if (job_ != nullptr) {
    if (job_->stage == Stage::kDrainWait && now_ns >= job_->next_ns) DrainStep();
    return;
  }
  if (!repair_) {
    repair_ns_ = 0;
    return;
  }
  if (repair_ns_ == 0) repair_ns_ = now_ns + kRepairNs;
  if (now_ns < repair_ns_) return;
  repair_ns_ = now_ns + kRepairNs;
  waiting_.push_back(std::make_unique<Job>());
  StartNext();
}

}  // namespace ring::node
