// What a shard's epoch change asks of its node: calls, connections, proposals.
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/status.h"
#include "ring/node/coordinated_shard.h"
#include "ring/recovery/seal_message.h"

namespace ring::node {
namespace {
constexpr std::uint64_t kSealTimeoutNs = 100'000'000;
}  // namespace

void CoordinatedShard::Seal(Role role, const cluster::Holder& holder) {
  const recovery::EpochPlan& plan = change_->plan();
  recovery::SealRequest request{group_, shard_, plan.epoch, plan.last->epoch, holder.incarnation};
  const auto on_answer = [this, role, holder, alive = std::weak_ptr<bool>(epoch_alive_)](
                             const absl::StatusOr<std::string>& bytes) {
    if (alive.expired()) return;
    absl::StatusOr<recovery::SealAnswer> answer =
        bytes.ok() ? recovery::DecodeSealAnswer(*bytes) : bytes.status();
    if (answer.ok() && answer->incarnation == holder.incarnation) {
      change_->OnSealed(role, std::move(answer->logs), answer->leaves);
    } else {
      change_->OnSealFailed(role, answer.ok() || absl::IsAborted(answer.status()));
    }
  };
  context_->control->Call(holder.node, ControlType::kSeal, EncodeSealRequest(request),
                          kSealTimeoutNs, on_answer);
}

void CoordinatedShard::Fetch(const std::vector<recovery::AdoptedLog>& logs) {
  takeover_ = std::make_unique<Takeover>(context_->device, context_->control, change_->plan(), logs,
                                         [this](const absl::Status& status) {
                                           if (status.ok()) return BeginTakeOver();
                                           last_error_ = std::string(status.message());
                                           change_->OnFetched(status);
                                         });
  takeover_->Start();
}

// What was fetched becomes a coordinator, a step in each turn: others' requests wait meanwhile.
void CoordinatedShard::BeginTakeOver() {
  const std::unique_ptr<memgest::MemberShard> store = takeover_->Release();
  std::vector<coordinator::FoldedMemgest> memgests;
  for (const protocol::MemgestDescriptor& descriptor : change_->plan().memgests) {
    if (!store->Knows(descriptor.id)) continue;  // made since the fetch began: Begin adds it
    coordinator::FoldedMemgest memgest;
    memgest.descriptor = descriptor;
    memgest.next_index = store->applied(descriptor.id) + 1;
    memgest.end_cells = store->end_cells(descriptor.id);
    if (descriptor.scheme == protocol::Scheme::kReplicated)
      memgest.heap.emplace(store->TakeHeap(descriptor.id));
    memgests.push_back(std::move(memgest));
  }
  building_ = std::make_unique<Building>();
  building_->values =
      std::make_unique<AbsentValues>(context_->control, context_->pace, group_, shard_,
                                     [this] { active = true; });  // who waits goes on
  building_->builder = std::make_unique<coordinator::ShardBuilder>(
      MakeOptions(), context_->device, context_->arena, context_->sink, building_->values.get(),
      coordinator::FoldedShard{std::move(store->lines()), std::move(store->completions()),
                               std::move(memgests)});
}

void CoordinatedShard::GoOnTakingOver() {
  absl::StatusOr<bool> done = building_->builder->Step(context_->lines_per_step);
  if (done.ok() && !*done) return;
  const std::unique_ptr<Building> built = std::move(building_);
  absl::Status status = done.status();
  if (status.ok()) {
    values_ = std::move(built->values);
    coordinator_ = built->builder->Release();
    coordinator_->log().set_calc_queue(context_->calc_queue);
    values_->Attach(coordinator_.get());
    status = takeover_->tail().AdoptInto(coordinator_.get(), context_->arena);
  }
  if (!status.ok()) {  // all of it is fetched again
    last_error_ = std::string(status.message());
    values_.reset();
    coordinator_.reset();
  }
  change_->OnFetched(status);
}

coordinator::ShardOptions CoordinatedShard::MakeOptions() const {
  coordinator::ShardOptions options;
  options.group = group_;
  options.shard = shard_;
  options.epoch = change_->plan().epoch;
  options.s = view_->s;
  options.d = view_->d;
  options.value_size_max = view_->value_size_max;
  options.hash_seed = context_->hash_seed;
  options.catalogue = context_->catalogue;
  options.pace = context_->pace;
  options.decoder = context_->decoder;
  if (change_->plan().last.has_value()) options.took_over_in = options.epoch;
  return options;
}

void CoordinatedShard::Connect(Role role, const cluster::Holder& holder, bool joins) {
  const absl::Status status = links_.Connect(role, holder, addresses_[holder.node.value()], joins);
  if (status.ok()) return;
  last_error_ = std::string(status.message());
  change_->OnConnectFailed(role);
}

void CoordinatedShard::Begin(const std::vector<recovery::AdoptedLog>&) {
  if (coordinator_ == nullptr) {
    coordinator_ = std::make_unique<coordinator::ShardCoordinator>(MakeOptions(), context_->device,
                                                                   context_->arena, context_->sink);
    coordinator_->log().set_calc_queue(context_->calc_queue);
  }
  coordinator_->log().set_has_successors(view_->fail_over);
  ApplyCatalogue();
}

// REQUIRES: no writer of the epoch before is left.
void CoordinatedShard::BeginLinks() {
  protocol::LogHello hello;
  hello.cluster = view_->cluster;
  hello.node = context_->node.value();
  hello.epoch = group_view().epoch.value();
  hello.incarnation = context_->incarnation.value();
  hello.group = group_.value();
  hello.shard = shard_.value();
  links_.Begin(hello);
}

absl::Status CoordinatedShard::Reappend(Role role, const std::vector<recovery::LogEnd>& logs) {
  RING_ASSIGN_OR_RETURN(std::unique_ptr<memgest::LogWriter> writer,
                        links_.MakeWriter(role, change_->plan().epoch));
  RING_ASSIGN_OR_RETURN(memgest::LogWriter* const added,
                        coordinator_->log().AddWriter(role, std::move(writer), logs));
  links_.set_writer(role, added);
  active = true;  // what it lacks is to be sent
  return absl::OkStatus();
}

absl::StatusOr<bool> CoordinatedShard::Reappended(Role role) {
  if (links_.writer(role)->broken()) {
    return absl::UnavailableError(
        absl::StrCat("the log connection to role ", role.value(), " is lost"));
  }
  return coordinator_->log().CaughtUp(role);
}

void CoordinatedShard::Renew(Role role) {
  urged_by_ |= RoleBit(role);
  if (!urge_reason_.empty()) return;
  urge_reason_ = absl::StrCat("shard ", shard_.value(), " needs role ", role.value(),
                              " and cannot go on with it: ", last_error_);
}

void CoordinatedShard::GiveBack(Role role) { to_return_ = role; }

void CoordinatedShard::Propose(const std::vector<cluster::MemgestNormal>& sets) {
  if (serving()) {
    ProposeFurther(sets);
    return;
  }
  if (!context_->propose) {  // static membership
    applied_.memgests = sets;
    change_->OnNormal(sets);
    return;
  }
  context_->propose(cluster::SetNormal{group_, shard_, change_->plan().epoch, sets});
}

void CoordinatedShard::Serve(const std::vector<cluster::MemgestNormal>& sets) {
  served_ = true;
  bool lost = !change_->lost().empty();
  for (const MemgestId memgest : change_->lost()) coordinator_->NoteLost(memgest);
  // X7: of who accepted the loss nothing is known here, and its clients may still ask again.
  const std::optional<cluster::NormalRecord>& last = change_->plan().last;
  for (std::size_t i = 0; last.has_value() && i < last->memgests.size(); ++i) {
    const bool counts = last->memgests[i].records_lost && !change_->plan().records_settled;
    lost |= counts && coordinator_->NoteLost(last->memgests[i].id);
  }
  if (lost) records_lost_ns_ = now_ns_;
  coordinator_->ApplyNormal(NamedBy(sets));
  further_.clear();
  incomplete_ = true;  // until it was looked at
  TellNamed(sets);
  if (values_ != nullptr) values_->SetSources(change_->plan().epoch, applied_);
  active = true;
}

}  // namespace ring::node
