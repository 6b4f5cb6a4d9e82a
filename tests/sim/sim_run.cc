#include "tests/sim/sim_run.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ring/base/log.h"
#include "ring/cluster/default_memgests.h"
#include "ring/cluster/routing.h"
#include "ring/node/stats.h"
#include "tests/sim/checkers/durability_checker.h"
#include "tests/sim/checkers/liveness_checker.h"
#include "tests/sim/checkers/memgest_checker.h"
#include "tests/sim/checkers/metadata_checker.h"
#include "tests/sim/checkers/resurrection_checker.h"
#include "tests/sim/checkers/scrub_checker.h"
#include "tests/sim/checkers/search_checker.h"
#include "tests/sim/checkers/value_checker.h"
#include "tests/sim/fault_plan.h"
#include "tests/sim/protection.h"
#include "tests/sim/sim_cluster.h"
#include "tests/sim/survival.h"

namespace ring::sim {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kWorkNs = 120'000 * kMs;  // a run that takes longer hangs
// What is out of reach is asked for in vain until its deadline, again and again.
constexpr std::uint64_t kWorkWithFailuresNs = 5'000 * kMs;
constexpr std::uint64_t kPatienceNs = 3'000 * kMs;
// After the faults have stopped. Deletes of memgests that are not empty wait 10 s each, in a row.
constexpr std::uint64_t kQuiesceNs = 60'000 * kMs;
constexpr std::uint64_t kLookNs = 5 * kMs;
constexpr std::size_t kMissingToldMax = 12;
constexpr std::uint64_t kNicSalt = 0xca1c;

// ERROR means that a human must look: there is none in a run, but for losses where some are due.
struct Errors {
  int count = 0;
  std::string first;
};
struct ErrorRecords {
  Errors losses;
  Errors refusals;  // of entries that came damaged
  Errors others;
};
ErrorRecords* g_errors = nullptr;
SimCluster* g_teller = nullptr;  // notes what is logged; null: nobody does
bool TellsOfARefusal(absl::string_view line) {
  return absl::StrContains(line, "cannot fold group=") ||
         absl::StrContains(line, "cannot go on group=");
}
bool TellsOfALoss(absl::string_view line) {
  return absl::StrContains(line, "value lost group=") ||
         absl::StrContains(line, "block lost group=") ||
         absl::StrContains(line, "decoded values do not fit their checksums") ||
         absl::StrContains(line, "a block does not fit its row");
}
void CountErrors(LogSeverity severity, absl::string_view line) {
  if (g_teller != nullptr) g_teller->Note(absl::StripTrailingAsciiWhitespace(line));
  if (severity != LogSeverity::kERROR) return;
  Errors& errors = TellsOfALoss(line)      ? g_errors->losses
                   : TellsOfARefusal(line) ? g_errors->refusals
                                           : g_errors->others;
  if (errors.count++ == 0) errors.first = std::string(line);
}

protocol::MemgestDescriptor Srs(const char* name, int k, int m) {
  protocol::MemgestDescriptor memgest;
  memgest.name = name;
  memgest.scheme = protocol::Scheme::kStretchedReedSolomon;
  memgest.r = 0;
  memgest.k = static_cast<std::uint8_t>(k);
  memgest.m = static_cast<std::uint8_t>(m);
  return memgest;
}

// All of them survive two losses, but the first.
std::vector<protocol::MemgestDescriptor> Sturdy() {
  const auto rep = [](const char* name, int r, protocol::CommitRule commit) {
    protocol::MemgestDescriptor memgest;
    memgest.name = name;
    memgest.r = static_cast<std::uint8_t>(r);
    memgest.commit = commit;
    return memgest;
  };
  return {rep("REP1", 1, protocol::CommitRule::kQuorum),
          rep("ALL3", 3, protocol::CommitRule::kAll),
          rep("ALL4", 4, protocol::CommitRule::kAll),
          Srs("SRS22", 2, 2),
          Srs("SRS32", 3, 2),
          rep("REP5", 5, protocol::CommitRule::kQuorum)};
}

// ... and one that survives one loss: a member that is only missed may have the last copy.
std::vector<protocol::MemgestDescriptor> SturdyButOne() {
  std::vector<protocol::MemgestDescriptor> memgests = Sturdy();
  memgests.emplace_back();
  memgests.back().name = "REP2";
  memgests.back().r = 2;
  return memgests;
}

// The last one is the default.
void Widen(ClusterOptions* cluster) {
  cluster->d = 3;
  std::vector<protocol::MemgestDescriptor>& memgests = cluster->memgests;
  if (memgests.empty()) {
    memgests = cluster::DefaultMemgests(cluster->s, cluster->d);
    std::rotate(memgests.begin(), memgests.begin() + 1, memgests.end());
  }
  memgests.insert(memgests.begin(), {Srs("SRS23", 2, 3), Srs("SRS33", 3, 3)});
}

class Run {
 public:
  explicit Run(const RunOptions& options) : options_(options) {
    // What takes its time without them, e.g. to empty a memgest, has its runs, too.
    if (Drawn(faults().node_faults_off_one_in, 0xfa11)) options_.faults.node_faults = 0;
    // What a degraded read needs of other blocks nobody brings back where bits turned.
    if (Degraded()) options_.faults.f10_value_run_one_in = options_.faults.f10_row_run_one_in = 0;
  }

  RunResult Execute() {
    result_.seed = options_.seed;
    // Swarm: what a seed makes of blocks and delays, the next may not.
    SeededRandom shape(options_.seed ^ 0x5eed);
    Open(Draw(shape));
    const std::uint64_t started_ns = cluster_->network().now_ns();
    if (const absl::Status opened = cluster_->Open(); !opened.ok()) {
      Complain("start", std::string(opened.message()));
    } else {
      Work(shape);
      Quiesce();
      Check();
    }
    result_.sim_ns = cluster_->network().now_ns() - started_ns;
    result_.trace_hash = cluster_->network().trace_hash();
    result_.faults = cluster_->network().faults();
    result_.events = cluster_->network().events().count();
    for (const auto& node : cluster_->nodes()) {
      result_.turns += node->turns();
      if (node->up()) result_.degraded_gets += node::CollectStats(node->node()).node.degraded_gets;
      if (!node->up() || node->node().calc() == nullptr) continue;
      result_.nic_deltas += node->node().calc()->queue().counters().calculated;
      result_.nic_redone += node->node().calc()->queue().counters().redone;
    }
    Count();
    result_.story = cluster_->story();
    result_.overran = cluster_->overran();
    result_.damaged = cluster_->damage().any();
    if (options_.history_file != nullptr) cluster_->history().WriteJson(options_.history_file);
    if (options_.losses_file != nullptr) cluster_->history().WriteLosses(options_.losses_file);
    g_teller = nullptr;
    cluster_.reset();
    return std::move(result_);
  }

 private:
  // Drawn apart: who wants none of it has the same runs as ever.
  bool Drawn(std::uint64_t one_in, std::uint64_t salt) const {
    SeededRandom random(options_.seed ^ salt);
    return OneIn(random, one_in);
  }
  const FaultOptions& faults() const { return options_.faults; }
  bool Zombies() const { return Drawn(faults().f5_zombie_run_one_in, 0x20b1e); }
  bool Alarm() const { return node_faults() && Drawn(faults().f5_alarm_run_one_in, 0xa1a42); }
  bool Aims() const { return node_faults() && Drawn(faults().f1_at_event_run_one_in, 0xa13); }
  bool Slow() const { return Drawn(faults().slow_recovery_one_in, 0x510); }
  bool Wide() const { return Drawn(faults().wide_run_one_in, 0x31de); }
  bool Strong() const { return Drawn(faults().weak_off_run_one_in, 0x5709) && !Weak(); }
  bool Long() const { return Drawn(faults().long_run_one_in, 0x1049); }
  bool Degraded() const { return Drawn(faults().degraded_run_one_in, 0xde94); }
  bool Weak() const { return Drawn(faults().weak_run_one_in, 0x3ea4); }
  bool node_faults() const { return faults().node_faults != 0; }
  void Complain(std::string kind, std::string detail) {
    result_.violations.push_back({std::move(kind), std::move(detail)});
  }

  ClusterOptions Draw(SeededRandom& shape) {
    ClusterOptions cluster;
    cluster.seed = options_.seed;
    if (Drawn(faults().check_one_in, 0xfe9ce)) cluster.fence = node::FenceKind::kCheck;
    if (Drawn(faults().f15_nic_run_one_in, kNicSalt)) cluster.encode = node::EncodePath::kNic;
    cluster.voters_keep = Drawn(faults().f1_votes_kept_run_one_in, 0xd15c);
    if (Degraded()) cluster.degraded_one_in = faults().degraded_one_in;
    cluster.copies_deletes = faults().f7_again_deletes != 0;
    cluster.readers_one_in = faults().readers_one_in;
    cluster.heartbeat_ms = static_cast<std::uint32_t>(faults().heartbeat_ms);
    cluster.detect_ms = static_cast<std::uint32_t>(faults().detect_ms);
    cluster.lease_ms = static_cast<std::uint32_t>(faults().lease_ms);
    if (Slow()) cluster.recovery_rate = node::kRecoveryRateLowest;
    SeededRandom repair(options_.seed ^ 0x4e9a14);
    constexpr std::uint32_t kBlocks[] = {16 * 1024, 64 * 1024, 256 * 1024};
    cluster.block_size = kBlocks[shape.Below(3)];
    // Clients that give up early leave much that is unknown (X5); others must have every answer.
    if (shape.Below(3) == 0) cluster.deadline_ns = kMs << shape.Below(6);
    // What cannot be read meanwhile is not waited for for ever.
    if (node_faults())
      cluster.deadline_ns = std::min(cluster.deadline_ns, 300 * kMs << shape.Below(4));
    impatient_ = cluster.deadline_ns != kDeadlineLongNs;
    if (Long()) cluster.s = 4 + static_cast<int>(options_.seed % 2);
    sturdy_ = (node_faults() && shape.Below(3) == 0) || Aims() ||
              (node_faults() && Drawn(faults().f2_sturdy_run_one_in, 0x57d1));
    if (sturdy_) cluster.memgests = Sturdy();
    if (Alarm()) cluster.memgests = SturdyButOne();
    if (Wide()) Widen(&cluster);
    cluster.weak_default = Weak();
    for (protocol::MemgestDescriptor& memgest : cluster.memgests) {
      if (memgest.scheme == protocol::Scheme::kStretchedReedSolomon)
        memgest.repair = static_cast<protocol::RepairScheme>(1 + repair.Below(4));
    }
    overrun_ = node_faults() && OneIn(shape, faults().f3_run_one_in);
    if (overrun_ && OneIn(shape, faults().f3_continue_one_in))
      cluster.overrun = cluster::OverrunPolicy::kContinue;
    goes_on_ = cluster.overrun == cluster::OverrunPolicy::kContinue;
    accepts_ = overrun_ && !goes_on_ && Drawn(faults().f3_accept_one_in, 0xacce9);
    return cluster;
  }

  void Open(const ClusterOptions& cluster) {
    cluster_ = std::make_unique<SimCluster>(cluster);
    cluster_->network().set_trace_file(options_.trace_file);
    if (options_.logs) g_teller = cluster_.get();
    cluster_->Note(absl::StrCat(
        "a run with", node_faults() ? " nodes" : "",
        cluster.fence == node::FenceKind::kCheck ? " check" : "", Zombies() ? " zombies" : "",
        Alarm() ? " alarm" : "", cluster.encode == node::EncodePath::kNic ? " nic" : "",
        cluster.voters_keep ? " votes" : "", Slow() ? " slow" : "", overrun_ ? " overrun" : "",
        accepts_ ? " accepts" : "", Wide() ? " wide" : "", Long() ? " long" : "",
        cluster.weak_default ? " weak" : "", Strong() ? " strong" : "", Aims() ? " aims" : "",
        sturdy_ ? " sturdy" : "", cluster.degraded_one_in != 0 ? " degraded" : ""));
    if (Strong()) cluster_->workload().set_strong();
  }

  // F15, in most of the runs that can have it. Some are late by more than is waited for.
  void SpoilCalc() {
    SeededRandom random(options_.seed ^ 0xf15);
    rdma::sim::SimOptions& fabric = cluster_->network().options();
    const auto chance = [&random](std::uint64_t one_in, std::uint64_t ppm) {
      return OneIn(random, one_in) ? static_cast<std::uint32_t>(random.Below(ppm)) : 0;
    };
    fabric.calc_fail_ppm = chance(faults().f15_fail_run_one_in, faults().f15_fail_max_ppm);
    fabric.calc_wrong_ppm = chance(faults().f15_wrong_run_one_in, faults().f15_wrong_max_ppm);
    fabric.calc_late_ppm = chance(faults().f15_late_run_one_in, faults().f15_late_max_ppm);
    fabric.calc_late_ns_max = kMs << random.Below(faults().f15_late_doublings);
  }

  void Work(SeededRandom& shape) {
    if (faults().think_max_ns != 0) cluster_->workload().set_think_max_ns(faults().think_max_ns);
    const std::size_t clients = 2 + shape.Below(4);
    for (std::size_t i = 0; i < clients; ++i) {
      const absl::Status added = cluster_->AddClient(
          1 + shape.Below(4), options_.operations / clients, shape.Below(2) == 0);
      if (!added.ok()) return Complain("start", std::string(added.message()));
    }
    plan_ = std::make_unique<FaultPlan>(
        cluster_.get(), &shape, faults(),
        NodeFaults::Run{
            .overrun = overrun_,
            .accepts = accepts_,
            .zombies = Zombies(),
            .alarm = Alarm() && !overrun_,
            .aims = Aims(),
            .sturdy = sturdy_ && !Alarm() && !Wide() && Drawn(faults().f2_sturdy_one_in, 0x57d),
            .checks = Drawn(faults().check_one_in, 0xfe9ce),
            .at_switch = Drawn(faults().f1_at_switch_run_one_in, 0x5317c4)});
    FaultPlan& plan = *plan_;
    if (Drawn(faults().f15_nic_run_one_in, kNicSalt)) SpoilCalc();
    const auto all_done = [&] {
      plan.Act();
      return std::all_of(cluster_->clients().begin(), cluster_->clients().end(),
                         [](const auto& client) { return client->done(); });
    };
    const std::uint64_t work_ns = node_faults() ? kWorkWithFailuresNs : kWorkNs;
    cluster_->RunUntil(cluster_->network().now_ns() + work_ns, all_done, 100'000);
    plan.End();
    for (const auto& client : cluster_->clients()) client->Stop();
    const bool quiet = cluster_->RunUntil(cluster_->network().now_ns() + kQuiesceNs, [&] {
      // A delete that has to wait 10 s for what is in its memgest is not waited for.
      return plan.settled() && (plan.quiet() || node_faults()) &&
             std::all_of(cluster_->clients().begin(), cluster_->clients().end(),
                         [](const auto& client) { return client->done(); });
    });
    if (!quiet) {
      std::string waiting = plan.Waiting();
      for (const auto& client : cluster_->clients())
        if (!client->done()) absl::StrAppend(&waiting, " client=", client->process());
      Complain("liveness", absl::StrCat("did not end after the faults stopped:", waiting));
    }
  }

  // Each role has a holder, each shard serves, and every member has everything again: what promises
  // to survive f more failures. Else somebody waits for ever for what nobody brings.
  void AwaitProtected() {
    std::vector<std::string> missing;
    const auto is_whole = [&] {
      plan_->AcceptLosses();
      missing = Unprotected(*cluster_, [this](const protocol::MemgestDescriptor& memgest) {
        return cluster_->damage().Concerns(memgest.id) || IsLost(memgest.id);
      });
      return missing.empty();
    };
    const auto await = [&](std::uint64_t wait_ns) {
      return cluster_->RunUntil(cluster_->network().now_ns() + wait_ns, is_whole, kLookNs);
    };
    // E8: without a quorum of its past a shard stops.
    const auto stops = [&] { return cluster_->overran() && !goes_on_ && !accepts_; };
    if (await(std::min(kPatienceNs, options_.protect_ns)) || stops()) return;
    if (cluster_->false_alarm() && StaysStopped(cluster_->view())) cluster_->Overrun();
    if (stops() || await(options_.protect_ns)) return;
    const std::size_t count = missing.size();
    if (count > kMissingToldMax) missing.resize(kMissingToldMax);
    Complain("liveness", absl::StrCat("not protected again, waits in vain, until count=", count,
                                      ": ", absl::StrJoin(missing, "; ")));
  }

  // E8: by the record of a shard that goes on without what was lost.
  bool IsLost(MemgestId memgest) {
    const auto lost = [memgest](const cluster::ShardView& shard) {
      const cluster::MemgestNormal* const set = shard.normal.Find(memgest);
      return set != nullptr && set->lost;
    };
    const std::vector<cluster::GroupView>& groups = cluster_->view().groups;
    return std::any_of(groups.begin(), groups.end(), [&](const cluster::GroupView& group) {
      return std::any_of(group.shards.begin(), group.shards.end(), lost);
    });
  }

  // Reads every key once more by every client that is left, then compares all copies.
  void Quiesce() {
    AwaitProtected();
    const std::size_t before = cluster_->history().operations().size();
    first_read_ = before;
    for (const auto& client : cluster_->clients()) {
      for (int key = 0; client->up() && key < cluster_->workload().key_count(); ++key) {
        Operation get;
        get.key = key;
        get.patience_ns = node_faults() ? kPatienceNs : kDeadlineLongNs;
        client->Ask(get);
      }
    }
    const auto ended = [&] {
      const auto& operations = cluster_->history().operations();
      return std::all_of(operations.begin() + static_cast<std::ptrdiff_t>(before), operations.end(),
                         [](const Operation& op) { return op.result != OpResult::kPending; }) &&
             std::all_of(cluster_->clients().begin(), cluster_->clients().end(),
                         [](const auto& client) { return client->idle(); });
    };
    cluster_->RunUntil(cluster_->network().now_ns() + kQuiesceNs, ended);
    const auto& operations = cluster_->history().operations();
    for (std::size_t i = before; i < operations.size(); ++i) {
      const bool answered =
          operations[i].result == OpResult::kOk || operations[i].result == OpResult::kNotFound;
      // Once its shard goes on, what is lost is told to be.
      const bool excused =
          accepts_ ? operations[i].data_lost : cluster_->MayLose(operations[i].key);
      if (!answered && !excused)
        Complain("liveness", absl::StrCat("when all is well: ", Describe(operations[i])));
    }
    std::uint64_t id = options_.seed;
    ScrubResult scrub;
    // Each member can hear so once: when the last operations are folded.
    for (int attempt = 0; attempt == 0 || (scrub.refused && attempt < 3); ++attempt) {
      if (attempt > 0) AwaitProtected();
      scrub = CheckScrub(cluster_.get(), ++id, [&] { return plan_->EndScrubs(); });
    }
    result_.scrubs = scrub.compared ? 1 : 0;
    result_.values_scrubbed = scrub.values;
    result_.rows_scrubbed = scrub.rows;
    result_.damage_left = scrub.damage_left;
    result_.damage_found = scrub.damage_found;
    for (Violation& found : scrub.violations) result_.violations.push_back(std::move(found));
    for (Violation& found : CheckValues(cluster_.get()))
      result_.violations.push_back(std::move(found));
    MetadataResult metadata = CheckMetadata(cluster_.get());
    result_.lines_compared = metadata.lines;
    result_.records_compared = metadata.records;
    for (Violation& found : metadata.violations) result_.violations.push_back(std::move(found));
  }

  void Check() {
    const auto add = [&](std::vector<Violation> found) {
      for (Violation& one : found) result_.violations.push_back(std::move(one));
    };
    cluster_->versions().Finish();
    add(cluster_->versions().violations());
    add(std::move(cluster_->violations()));
    add(cluster_->agreement().violations());
    add(CheckLiveness(cluster_->history(),
                      [&](int process) { return cluster_->Crashed(process); }));
    const auto may_have_lost = [this](int key) { return cluster_->versions().MayHaveLost(key); };
    add(CheckResurrection(cluster_->history()));
    // Under overrun = stop nothing vanishes: what is lost beyond f is not answered (E8).
    if (!cluster_->overran() || !goes_on_)
      add(CheckDurability(cluster_->history(), first_read_, may_have_lost));
    KeptVersions kept;
    add(CheckMemgests(cluster_->history(), may_have_lost, &kept));
    CheckKept(kept);
    for (const Operation& op : cluster_->history().operations()) {
      if (!impatient_ && op.return_ns - op.invoke_ns >= kDeadlineLongNs && op.return_ns != 0)
        Complain("liveness", absl::StrCat("was given up: ", Describe(op)));
    }
    SearchReport search = SearchLinearization(cluster_->history(), may_have_lost);
    result_.search_keys = search.keys_checked;
    result_.search_given_up = search.given_up.size();
    add(std::move(search.violations));
  }

  // G1: what must not be collected is in the coordinator's table.
  void CheckKept(const KeptVersions& kept) {
    const cluster::View& view = cluster_->view();
    const cluster::Routing routing(view.s, view.d);
    for (const auto& [key, versions] : kept) {
      const cluster::Place place = routing.OfKey(KeyName(key));
      const NodeId owner = view.Coordinator(place.group, place.shard);
      if (owner == cluster::kNoNode || !cluster_->nodes()[owner.value()]->up()) continue;
      SimNode& node = *cluster_->nodes()[owner.value()];
      node::CoordinatedShard* const shard = node.node().FindShard(place.group, place.shard);
      if (shard == nullptr || !shard->serving()) continue;
      memgest::LineTable& lines = shard->coordinator()->lines();
      for (const Version version : versions) {
        ++result_.versions_kept;
        bool found = false;
        const std::uint32_t count = lines.granule_count() * memgest::kLinesPerGranule;
        for (std::uint32_t line = 0; line < count && !found; ++line) {
          found = lines.Has(line) && lines.line(line).version == version.bits() &&
                  lines.KeyEquals(line, KeyName(key));
        }
        if (!found) {
          Complain("collection", absl::StrCat("G1: key=", KeyName(key),
                                              " version=", ToString(version), " is gone"));
        }
      }
    }
  }

  void Count() {
    for (const Operation& op : cluster_->history().operations()) {
      ++result_.operations;
      switch (op.result) {
        case OpResult::kOk:
        case OpResult::kNotFound:
          ++result_.answered;
          break;
        case OpResult::kFailed:
          ++result_.failed;
          break;
        default:
          ++result_.unknown;
          break;
      }
    }
  }

  RunOptions options_;
  RunResult result_;
  bool impatient_ = false;
  bool sturdy_ = false;  // memgests survive two losses
  bool overrun_ = false;
  bool accepts_ = false;
  bool goes_on_ = false;             // ... and shards go on without what was lost (E8)
  std::size_t first_read_ = 0;       // of the last reads
  std::unique_ptr<FaultPlan> plan_;  // operations that end with the cluster tell it
  std::unique_ptr<SimCluster> cluster_;
};

}  // namespace

RunResult RunSeed(const RunOptions& options) {
  ErrorRecords errors;
  g_errors = &errors;
  SetLogSink(&CountErrors);
  RunResult result = Run(options).Execute();
  SetLogSink(nullptr);
  const auto complain = [&result](const Errors& found) {
    if (found.count == 0) return;
    result.violations.push_back(
        {"error-record", absl::StrCat("count=", found.count, ", first: ", found.first)});
  };
  const bool refuses = result.faults.by_kind.contains("F10 in flight");
  if (!result.overran) complain(errors.others);
  if (!result.overran && !result.damaged) complain(errors.losses);
  if (!result.overran && !refuses) complain(errors.refusals);
  return result;
}

}  // namespace ring::sim
