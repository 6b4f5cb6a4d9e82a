#include "tests/sim/fault_plan.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace ring::sim {
namespace {

constexpr std::uint64_t kUs = FaultOptions::kUs;
constexpr std::uint64_t kMs = FaultOptions::kMs;
using rdma::sim::FaultClass;

// What a connection is for; nothing that is known: kClient.
protocol::HelloKind KindOf(absl::string_view private_data) {
  protocol::HelloPrefix prefix;
  if (private_data.size() < sizeof(prefix)) return protocol::HelloKind::kClient;
  std::memcpy(&prefix, private_data.data(), sizeof(prefix));
  return prefix.kind;
}

}  // namespace

FaultPlan::FaultPlan(SimCluster* cluster, Random* random, const FaultOptions& options,
                     const NodeFaults::Run& run)
    : options_(options),
      cluster_(cluster),
      random_(random),
      apart_(cluster->seed() ^ 0xa9a27),
      disks_(cluster->seed() ^ 0xd15c11),
      echoes_(cluster->seed() ^ 0xec40),
      clocks_jump_(options.node_faults == 0 || !run.zombies ||
                   (run.checks && options.f9_check_jumps != 0)),
      sturdy_(run.sturdy),
      scrubber_(&cluster->nodes(), 1) {
  SetFabric(random);
  const auto maybe = [&](Action action, std::uint64_t mean_ns) {
    if (!OneIn(*random, options.kind_off_one_in)) Add(action, mean_ns, random);
  };
  maybe(&FaultPlan::PauseNode, options.f5_mean_ns);
  maybe(&FaultPlan::CrashClient, options.f1_client_mean_ns);
  maybe(&FaultPlan::BreakConnection, options.f8_client_break_mean_ns);
  maybe(&FaultPlan::ChangeCatalogue, options.f12_catalogue_mean_ns);
  maybe(&FaultPlan::DriftClock, options.f9_mean_ns);
  maybe(&FaultPlan::ExhaustMemory, options.f11_memory_mean_ns);
  maybe(&FaultPlan::PartitionClient, options.f6_client_mean_ns);
  maybe(&FaultPlan::Scrub, options.scrub_mean_ns);
  if (OneIn(*random, options.f10_value_run_one_in))
    Add(&FaultPlan::DamageValue, options.f10_value_mean_ns, random);
  AddApart();
  if (!OneIn(disks_, options.kind_off_one_in) && !cluster->disks().empty())
    Add(&FaultPlan::RefuseVotes, options.f11_persist_mean_ns, &disks_);
  SeededRandom longer(cluster->seed() ^ 0x7075e);
  if (OneIn(longer, options.f5_longer_run_one_in)) options_.f5_doublings += 2;
  SeededRandom slow(cluster->seed() ^ 0x510d);
  if (OneIn(slow, options.f11_slow_persist_run_one_in)) {
    for (const std::unique_ptr<SimDisk>& disk : cluster->disks())
      disk->Slow(1 + slow.Below(options.f11_slow_persist_max_ns), options.f11_stall_one_in,
                 options.f11_stall_max_ns);
  }
  if (!OneIn(echoes_, options.kind_off_one_in) && !run.overrun)
    Add(&FaultPlan::AskAgain, options.f7_again_mean_ns, &echoes_);
  if (options.node_faults != 0)
    nodes_ = std::make_unique<NodeFaults>(cluster, random, options, run);
  if (run.accepts) loss_operator_ = std::make_unique<LossOperator>(cluster, options);
}

FaultPlan::~FaultPlan() {
  if (echo_ != nullptr) echo_->Close();
}

void FaultPlan::Add(Action action, std::uint64_t mean_ns, Random* random) {
  if (mean_ns == 0) return;
  due_.push_back(
      {action, mean_ns, cluster_->network().now_ns() + random->Below(2 * mean_ns), random});
}

void FaultPlan::AddApart() {
  const auto maybe = [&](Action action, std::uint64_t mean_ns) {
    if (!OneIn(apart_, options_.kind_off_one_in)) Add(action, mean_ns, &apart_);
  };
  maybe(&FaultPlan::BreakLog, options_.f8_log_break_mean_ns);
  maybe(&FaultPlan::BreakControl, options_.f8_control_break_mean_ns);
  maybe(&FaultPlan::ExhaustQueuePairs, options_.f11_queue_pair_mean_ns);
  if (OneIn(apart_, options_.f10_copy_run_one_in))
    Add(&FaultPlan::DamageCopy, options_.f10_copy_mean_ns, &apart_);
  if (OneIn(apart_, options_.f10_row_run_one_in))
    Add(&FaultPlan::DamageRow, options_.f10_row_mean_ns, &apart_);
  if (OneIn(apart_, options_.f12_force_run_one_in))
    Add(&FaultPlan::ForceDelete, options_.f12_force_mean_ns, &apart_);
  // With a coordinator that is lost, too, a damaged entry may cost what is behind it
  // (docs/RECOVERY.md, "Known weaknesses").
  if (options_.node_faults == 0 && options_.f10_flight_max_ppm != 0 &&
      OneIn(apart_, options_.f10_flight_run_one_in)) {
    cluster_->network().options().flip_ppm =
        static_cast<std::uint32_t>(1 + apart_.Below(options_.f10_flight_max_ppm));
  }
}

void FaultPlan::SetFabric(Random* random) {
  rdma::sim::SimOptions& fabric = cluster_->network().options();
  const auto chance = [&](std::uint64_t ppm) {
    return random->Below(2) == 0 || ppm == 0 ? 0 : static_cast<std::uint32_t>(random->Below(ppm));
  };
  fabric.delay_spread_ns = kUs << random->Below(options_.f7_spread_doublings);
  fabric.gap_ppm = chance(options_.f7_gap_max_ppm);
  fabric.parts_ppm = chance(options_.f8_parts_max_ppm);
  fabric.doorbells = !OneIn(*random, options_.f8_doorbells_off_one_in);
  fabric.late_ppm = chance(options_.f7_late_max_ppm);
  fabric.late_ns_max = kMs << random->Below(options_.f7_late_doublings);
  fabric.loss_ppm = chance(options_.f7_loss_max_ppm);
  fabric.late_completion_ppm = chance(options_.f8_late_completion_max_ppm);
  fabric.late_completion_ns_max = kMs << random->Below(options_.f8_late_completion_doublings);
  fabric.rnr_ppm = chance(options_.f8_rnr_max_ppm);
  fabric.silence_ns = options_.f6_silence_ns;
}

void FaultPlan::Act() {
  const std::uint64_t now_ns = cluster_->network().now_ns();
  if (memory_back_ns_ != 0 && now_ns >= memory_back_ns_) {
    cluster_->network().options().allocation_fail_ppm = 0;
    memory_back_ns_ = 0;
  }
  if (queue_pairs_back_ns_ != 0 && now_ns >= queue_pairs_back_ns_) {
    cluster_->network().options().queue_pair_fail_ppm = 0;
    queue_pairs_back_ns_ = 0;
  }
  PollScrub();
  cluster_->admin().AskAgain(now_ns);
  if (nodes_ != nullptr) nodes_->Act();
  AcceptLosses();
  for (Due& due : due_) {
    if (now_ns < due.next_ns) continue;
    due.next_ns = now_ns + 1 + due.random->Below(2 * due.mean_ns);
    (this->*due.action)();
  }
}

void FaultPlan::End() {
  due_.clear();
  cluster_->admin().StopAsking();
  cluster_->network().HealAll();
  cluster_->network().options() = rdma::sim::SimOptions();
  if (nodes_ != nullptr) nodes_->End();
  if (std::exchange(scrubbing_, false)) scrubber_.StopScrub();
  memory_back_ns_ = queue_pairs_back_ns_ = 0;
  for (const std::unique_ptr<SimDisk>& disk : cluster_->disks()) {
    disk->RefuseUntil(0);
    disk->Slow(0, 0, 0);
  }
  if (echo_ == nullptr) return;
  if (echo_->altered_taken() > 0)
    cluster_->Complain(
        {"reused", "X2: a number that was used for another request was answered OK"});
  echo_->Close();
}

SimNode* FaultPlan::AnyNode() { return AnyNode(*random_); }

SimNode* FaultPlan::AnyNode(Random& random) {
  SimNode* const node = cluster_->nodes()[random.Below(cluster_->nodes().size())].get();
  return node->up() ? node : nullptr;
}

SimClient* FaultPlan::AnyClient() {
  SimClient* const client = cluster_->clients()[random_->Below(cluster_->clients().size())].get();
  return client->up() ? client : nullptr;
}

void FaultPlan::PauseNode() {
  SimNode* const node = AnyNode();
  if (node == nullptr) return;
  const std::uint64_t pause_ns =
      random_->Below(options_.f5_pause_ns << random_->Below(options_.f5_doublings));
  if (node->paused()) return;  // one behind the other they are as long as a loss, and none
  if (pause_ns > 10 * kMs)
    cluster_->Note(
        absl::StrCat("node ", node->info().id.value(), " stands still for us=", pause_ns / kUs));
  node->Pause(cluster_->network().now_ns() + pause_ns);
}

void FaultPlan::CrashClient() {
  SimClient* const client = AnyClient();
  if (client == nullptr || client->done() || client_crashes_ >= options_.f1_client_max) return;
  ++client_crashes_;
  client->Crash();
  cluster_->AddClient(1 + random_->Below(4), random_->Below(60), random_->Below(2) == 0)
      .IgnoreError();
}

void FaultPlan::BreakConnection() {
  SimClient* const client = AnyClient();
  SimNode* const node = AnyNode();
  if (client == nullptr || node == nullptr) return;
  cluster_->network().Break(client->host(), node->host());
}

void FaultPlan::ChangeCatalogue() {
  if (changes_under_way_ >= options_.f12_catalogue_at_once) return;
  cluster_->network().faults().Count(FaultClass::kF12Change);
  ++changes_under_way_;
  const auto ended = [this](const absl::Status&) { --changes_under_way_; };
  const std::uint64_t draw = random_->Below(10);
  if (draw < 3 && !made_.empty()) {
    const std::size_t i = random_->Below(made_.size());
    cluster_->admin().Delete(made_[i], /*force=*/false,
                             [this, name = made_[i]](const absl::Status& deleted) {
                               --changes_under_way_;
                               if (deleted.ok()) std::erase(made_, name);
                             });
    return;
  }
  if (draw < 5) {
    const auto& memgests = cluster_->view().memgests;
    const protocol::MemgestDescriptor& memgest = memgests[random_->Below(memgests.size())];
    if (memgest.FailuresTolerated() == 0 && !cluster_->weak_default())
      return ended(absl::OkStatus());
    cluster_->admin().SetDefault(memgest.name, ended);
    return;
  }
  if (made_.size() >= options_.f12_memgests_made) return ended(absl::OkStatus());
  protocol::MemgestDescriptor memgest;
  memgest.name = absl::StrCat("X", created_++);
  memgest.block_size = cluster_->view().memgests[0].block_size;
  if (random_->Below(2) == 0) {
    memgest.r = static_cast<std::uint8_t>(1 + random_->Below(4));
    memgest.commit =
        random_->Below(2) == 0 ? protocol::CommitRule::kQuorum : protocol::CommitRule::kAll;
  } else {
    memgest.scheme = protocol::Scheme::kStretchedReedSolomon;
    memgest.r = 0;
    memgest.k = static_cast<std::uint8_t>(2 + random_->Below(2));
    memgest.m = static_cast<std::uint8_t>(
        1 + random_->Below(static_cast<std::uint64_t>(cluster_->view().d)));
    memgest.repair = static_cast<protocol::RepairScheme>(1 + random_->Below(4));
  }
  if (sturdy_ && memgest.FailuresTolerated() == 1) {  // two losses are to come
    memgest.r = memgest.r == 0 ? 0 : 5;
    memgest.m = memgest.m == 0 ? 0 : 2;
  }
  made_.push_back(memgest.name);
  cluster_->admin().Create(memgest, [this, name = memgest.name](const absl::Status& made) {
    --changes_under_way_;
    if (absl::IsAlreadyExists(made))
      cluster_->Complain(
          {"twice", absl::StrCat("X6: ", name, " was asked for once: ", made.message())});
  });
}

void FaultPlan::DriftClock() {
  SimNode* const node = AnyNode();
  if (node == nullptr) return;
  cluster_->network().faults().Count(FaultClass::kF9Clock);
  node->clock().set_drift_ppm(
      static_cast<std::int64_t>(random_->Below(2 * options_.f9_drift_ppm + 1)) -
      static_cast<std::int64_t>(options_.f9_drift_ppm));
  // Leases rest on clocks that do not jump (L1): where they matter, none does.
  if (clocks_jump_ && OneIn(*random_, options_.f9_jump_one_in))
    node->clock().Jump(random_->Below(options_.f9_jump_max_ns));
}

void FaultPlan::ExhaustMemory() {
  rdma::sim::SimOptions& fabric = cluster_->network().options();
  fabric.allocation_fail_ppm =
      static_cast<std::uint32_t>(random_->Below(options_.f11_memory_max_ppm));
  memory_back_ns_ = cluster_->network().now_ns() + random_->Below(options_.f11_memory_max_ns);
}

// A client alone, one way or both (F6).
void FaultPlan::PartitionClient() {
  SimClient* const client = AnyClient();
  SimNode* const node = AnyNode();
  rdma::sim::SimNetwork& network = cluster_->network();
  if (client == nullptr || node == nullptr || network.now_ns() < client_heals_ns_) return;
  const std::uint64_t draw = random_->Below(3);
  const bool is_long = OneIn(*random_, options_.f6_client_long_one_in);
  client_heals_ns_ = network.now_ns() + random_->Below(is_long ? options_.f6_client_long_max_ns
                                                               : options_.f6_client_max_ns);
  if (draw != 0) network.Block(client->host(), node->host(), client_heals_ns_);
  if (draw != 1) network.Block(node->host(), client->host(), client_heals_ns_);
}

// Under operations (S2). It may fail, when nodes do not answer in time, but never find anything.
void FaultPlan::Scrub() {
  if (scrubbing_) return;
  scrubber_.StartScrub(next_scrub_++);
  scrubbing_ = true;
}

void FaultPlan::PollScrub() {
  constexpr std::uint64_t kPollNs = 500 * kUs;
  if (!scrubbing_ || cluster_->network().now_ns() < next_poll_ns_) return;
  next_poll_ns_ = cluster_->network().now_ns() + kPollNs;
  scrubber_.PollScrub();
  if (!scrubber_.scrub_done() && scrubber_.scrub_status().ok()) return;
  for (const std::string& detail : scrubber_.scrub_report().details) {
    const bool refused =
        cluster_->EntriesCameDamaged() && absl::EndsWith(detail, ": cannot fold its log");
    if (!cluster_->overran() && !refused && !cluster_->damage().Explains(detail))
      cluster_->Complain({"scrub-under-load", detail});
  }
  scrubbing_ = false;
  scrubber_.StopScrub();
}

int FaultPlan::AnyKey(Random& random) {
  return static_cast<int>(
      random.Below(static_cast<std::uint64_t>(cluster_->workload().key_count())));
}

// What is damaged before it is sent is damaged at all members, and an epoch change behind it may
// cost more than a value (RECOVERY.md, known weaknesses): not where nodes are lost, like bits in
// flight.
void FaultPlan::DamageValue() {
  cluster_->DamageValue(AnyKey(*random_), /*unsent=*/options_.node_faults == 0);
}
void FaultPlan::DamageCopy() { cluster_->DamageCopy(AnyKey(apart_), apart_); }
void FaultPlan::DamageRow() { cluster_->DamageRow(apart_); }

// A disk that is full, or does not sync, at one voter.
void FaultPlan::RefuseVotes() {
  SimDisk& disk = *cluster_->disks()[disks_.Below(cluster_->disks().size())];
  disk.RefuseUntil(cluster_->network().now_ns() + disks_.Below(options_.f11_persist_max_ns));
}

// A copy of what a client sent comes late, to who owns the key by now, or to anybody (F7).
void FaultPlan::AskAgain() {
  if (echo_ == nullptr) {
    absl::StatusOr<std::shared_ptr<SimEcho>> echo = SimEcho::Open(&cluster_->network());
    if (!echo.ok()) return;  // F11: no memory at present
    echo_ = *std::move(echo);
  }
  const std::uint64_t late_ns =
      echoes_.Below(options_.f7_again_max_ns >> echoes_.Below(options_.f7_again_halvings));
  const SentRequest* const sent = cluster_->CopyToSend(late_ns);
  if (sent == nullptr) return;
  const NodeId owner = cluster_->OwnerOf(sent->key);
  const bool stray = owner == cluster::kNoNode || echoes_.Below(4) == 0;
  const NodeId to =
      stray ? NodeId(static_cast<std::uint32_t>(echoes_.Below(cluster_->nodes().size()))) : owner;
  const Operation& op = cluster_->Recorded(sent->at);
  const bool altered = op.kind == OpKind::kPut && op.result == OpResult::kOk &&
                       OneIn(echoes_, options_.f7_again_altered_one_in);
  const std::string& address = cluster_->AddressOf(to);
  if (altered ? echo_->SendAltered(*sent, address) : echo_->Send(*sent, address)) {
    cluster_->network().faults().Count(FaultClass::kF7Message,
                                       altered ? "requests again, altered" : "requests again");
  }
}

void FaultPlan::BreakLog() { BreakBetween(protocol::HelloKind::kLog, "log connections"); }
void FaultPlan::BreakControl() {
  BreakBetween(protocol::HelloKind::kControl, "control connections");
}

// One of two nodes, wherever there is one from a drawn pair on.
void FaultPlan::BreakBetween(protocol::HelloKind kind, const char* name) {
  const std::vector<std::shared_ptr<SimNode>>& nodes = cluster_->nodes();
  const std::size_t first = apart_.Below(nodes.size());
  const std::size_t step = 1 + apart_.Below(nodes.size() - 1);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const SimNode& one = *nodes[(first + i) % nodes.size()];
    const SimNode& other = *nodes[(first + i + step) % nodes.size()];
    const bool broken = cluster_->network().BreakOne(
        one.host(), other.host(),
        [kind](absl::string_view private_data) { return KindOf(private_data) == kind; });
    if (!broken) continue;
    cluster_->network().faults().Count(FaultClass::kF8OneSided, name);
    return;
  }
}

void FaultPlan::ExhaustQueuePairs() {
  cluster_->network().options().queue_pair_fail_ppm =
      static_cast<std::uint32_t>(apart_.Below(options_.f11_queue_pair_max_ppm));
  queue_pairs_back_ns_ =
      cluster_->network().now_ns() + 1 + apart_.Below(options_.f11_queue_pair_max_ns);
}

// What is in it is deleted with it.
void FaultPlan::ForceDelete() {
  if (made_.empty() || forced_ >= options_.f12_force_max ||
      changes_under_way_ >= options_.f12_catalogue_at_once)
    return;
  const std::string name = made_[apart_.Below(made_.size())];
  const protocol::MemgestDescriptor* const memgest = cluster_->view().FindMemgest(name);
  if (memgest == nullptr) return;
  ++forced_;
  ++changes_under_way_;
  cluster_->network().faults().Count(FaultClass::kF12Change, "forced deletes");
  cluster_->Note(absl::StrCat("memgest ", name, " is deleted by force"));
  cluster_->NoteForcedDelete(memgest->id);
  cluster_->admin().Delete(name, /*force=*/true, [this, name](const absl::Status& deleted) {
    --changes_under_way_;
    if (deleted.ok()) std::erase(made_, name);
  });
}

bool FaultPlan::quiet() {
  PollScrub();
  return changes_under_way_ == 0 && !scrubbing_;
}

std::string FaultPlan::Waiting() const {
  return absl::StrCat(" changes=", changes_under_way_, scrubbing_ ? " scrub" : "");
}

}  // namespace ring::sim
