// ring-bench recovery: a coordinator is killed under load; how long each phase takes until all
// serve.
#include <algorithm>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ring/base/log.h"
#include "ring/base/status.h"
#include "ring/cluster/view.h"
#include "ring/node/config/control_config.h"
#include "ring/node/events/fail_over.h"
#include "tools/common/format.h"
#include "tools/common/interrupt.h"
#include "tools/common/progress.h"
#include "tools/common/repair_names.h"
#include "tools/common/size_option.h"
#include "tools/ring-bench/context.h"
#include "tools/ring-bench/load.h"
#include "tools/ring-bench/recovery_load.h"
#include "tools/ring-bench/recovery_report.h"
#include "tools/ring-bench/recovery_target.h"
#include "tools/ring-bench/recovery_wait.h"
#include "tools/ring-bench/target.h"
#include "tools/ring-bench/workload.h"

namespace ring::bench {
namespace {

using node::FailOver;

constexpr absl::Duration kAttempt = absl::Seconds(1);
// What is not served by then counts as never.
constexpr absl::Duration kPatience = absl::Seconds(10);
constexpr std::uint16_t kLoadSpace = 1000;
constexpr std::size_t kQuietKeys = 128;  // of each memgest, that are read meanwhile
// What a member keeps of a version of a key of this tool: a line, and the key.
constexpr std::uint64_t kMetadataSize = 64 + kKeySize;

struct RecoveryOptions {
  RecoveryTargetOptions target;
  std::vector<std::string> memgests = {"REP3", "REP4", "SRS21", "SRS32"};
  std::uint64_t key_count = 1000;
  double metadata_mib = 0;  // of the lost shards; 0: as key_count makes it
  std::size_t value_size = 1024;
  int runs = 20;
  double rate = 1000;          // of what others do meanwhile
  double quiet_seconds = 0.5;  // before each kill
  bool leader = false;         // kill who leads the consensus
  bool pin = false;            // local: the nodes and the clients on processors of their own
};

// What a client tries again and again from the kill on, until it works.
struct Probe {
  std::string what;
  bool put = false;
  std::uint16_t space = 0;
  std::uint64_t index = 0;
  MemgestId memgest;
  bool under_way = false, done = false;
};

struct LoadedMemgest {
  protocol::MemgestDescriptor descriptor;
  std::uint16_t space = 0;
};

class RecoveryBench {
 public:
  RecoveryBench(const RecoveryOptions& options, Context* context);
  absl::Status Run();

 private:
  absl::Status StartCluster();
  absl::Status LoadAll();
  absl::Status ChooseVictim(int run);
  absl::Status FindKeys();
  absl::Status FindKeysOf(const LoadedMemgest& memgest);
  absl::Status CountLost();
  void Submit(Probe* probe);
  absl::Status RunProbes();
  absl::StatusOr<FailOver> WaitFailOver();
  absl::Status CheckAll();
  absl::Status RunOnce(int run);
  void StopCluster();
  void Report();
  LoadOptions LoadOf(const LoadedMemgest& memgest) const;

  RecoveryOptions options_;
  Context* context_;
  std::unique_ptr<RecoveryTarget> target_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<RecoveryLoad> load_;
  std::vector<LoadedMemgest> memgests_;
  std::deque<Probe> probes_;
  std::vector<StaticKey> quiet_keys_;  // of shards that the victim does not coordinate
  NodeId victim_;
  bool away_ = false;  // it was killed and did not come back yet
  std::set<ShardName> lost_;
  std::uint64_t lost_keys_ = 0;  // of theirs, that survive
  std::int64_t killed_ns_ = 0;
  RecoveryReport report_;
  std::uint64_t checked_ = 0;
  std::uint64_t unread_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::uint64_t unknown_ = 0;
  std::uint64_t verified_ = 0;
  std::uint64_t failed_gets_ = 0;
  bool first_ = false;  // the load's thread runs before others
  int leaders_ = 0;     // victims that led
  int runs_ = 0;
};

// One node coordinates s of the s * (s + d) shards.
std::uint64_t LostKeys(std::uint64_t keys) { return keys / 5; }

RecoveryBench::RecoveryBench(const RecoveryOptions& options, Context* context)
    : options_(options), context_(context) {
  if (options_.metadata_mib <= 0) return;
  const double lost = options_.metadata_mib * (1 << 20) / kMetadataSize;
  options_.key_count =
      static_cast<std::uint64_t>(lost * 5 / static_cast<double>(options_.memgests.size()));
}

LoadOptions RecoveryBench::LoadOf(const LoadedMemgest& memgest) const {
  return {.memgest = memgest.descriptor.id,
          .key_space = memgest.space,
          .key_count = options_.key_count,
          .value_size = options_.value_size,
          .progress = false};
}

absl::Status RecoveryBench::StartCluster() {
  const bool pin = options_.pin && options_.target.transport == "local";
  if (pin) Target::PinToFirst(options_.target.reactor_count);
  RING_ASSIGN_OR_RETURN(target_, RecoveryTarget::Start(options_.target));
  if (pin) Target::PinToOthers(options_.target.reactor_count);
  RING_RETURN_IF_ERROR(WaitProtected(target_.get(), context_->progress));
  RING_ASSIGN_OR_RETURN(client_, target_->Connect());
  return LoadAll();
}

absl::Status RecoveryBench::LoadAll() {
  RING_ASSIGN_OR_RETURN(const cluster::View view, target_->View());
  memgests_.clear();
  RecoveryLoadOptions load{.memgests = {},
                           .first_space = kLoadSpace,
                           .value_size = options_.value_size,
                           .rate = options_.rate};
  for (const std::string& name : options_.memgests) {
    RING_ASSIGN_OR_RETURN(const MemgestId id, client_->ResolveMemgest(name));
    const auto space = static_cast<std::uint16_t>(memgests_.size() + 1);
    memgests_.push_back({*view.FindMemgest(id), space});
    RING_RETURN_IF_ERROR(
        Load(client_.get(), absl::StrCat("loading ", name), LoadOf(memgests_.back())));
    // What one copy keeps is lost with it: nothing to verify.
    if (memgests_.back().descriptor.FailuresTolerated() > 0) load.memgests.push_back(id);
  }
  load_ = std::make_unique<RecoveryLoad>(load, [this] { return target_->Connect(); });
  return absl::OkStatus();
}

// In turn those who coordinate; not who leads, or just it, since a lost leader is missed by all.
absl::Status RecoveryBench::ChooseVictim(int run) {
  RING_ASSIGN_OR_RETURN(const cluster::View view, target_->View());
  RING_ASSIGN_OR_RETURN(const cluster::Health health, target_->Health());
  std::vector<NodeId> coordinators;
  for (std::size_t i = 0; i < static_cast<std::size_t>(view.s + view.d); ++i)
    coordinators.push_back(view.groups[i].roles[0]);
  std::sort(coordinators.begin(), coordinators.end());
  std::vector<NodeId> candidates;
  for (const NodeId node : coordinators) {
    if ((node == health.leader) == options_.leader) candidates.push_back(node);
  }
  if (candidates.empty()) candidates = coordinators;  // the spare leads
  victim_ = candidates[static_cast<std::size_t>(run) % candidates.size()];
  leaders_ += victim_ == health.leader ? 1 : 0;
  lost_.clear();
  for (std::size_t g = 0; g < view.groups.size(); ++g) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(view.s); ++i) {
      if (view.groups[g].roles[i] == victim_)
        lost_.insert(
            {GroupId(static_cast<std::uint16_t>(g)), ShardId(static_cast<std::uint16_t>(i))});
    }
  }
  return absl::OkStatus();
}

absl::Status RecoveryBench::FindKeys() {
  probes_.clear();
  quiet_keys_.clear();
  for (const LoadedMemgest& memgest : memgests_) RING_RETURN_IF_ERROR(FindKeysOf(memgest));
  return CountLost();
}

// Of many keys only some are asked for, each with a round trip: a hash puts them where they are.
absl::Status RecoveryBench::CountLost() {
  const std::uint64_t asked = std::min<std::uint64_t>(options_.key_count, 20'000);
  lost_keys_ = 0;
  for (const LoadedMemgest& memgest : memgests_) {
    if (memgest.descriptor.FailuresTolerated() == 0) continue;
    std::uint64_t lost = 0;
    for (std::uint64_t i = 0; i < asked; ++i) {
      RING_ASSIGN_OR_RETURN(const auto where, client_->Where(KeyName(memgest.space, i).view()));
      lost += lost_.contains({where.group, where.shard}) ? 1 : 0;
    }
    lost_keys_ += lost * options_.key_count / asked;
  }
  return absl::OkStatus();
}

// A key to read and one to write of which the victim is the coordinator, and some to read that
// others coordinate.
absl::Status RecoveryBench::FindKeysOf(const LoadedMemgest& memgest) {
  const std::string& name = memgest.descriptor.name;
  const bool survives = memgest.descriptor.FailuresTolerated() > 0;
  bool has_get = !survives, has_put = false;
  std::size_t quiet = 0;
  for (std::uint64_t i = 0; i < options_.key_count; ++i) {
    if (has_get && has_put && quiet == kQuietKeys) break;
    RING_ASSIGN_OR_RETURN(const auto where, client_->Where(KeyName(memgest.space, i).view()));
    if (!lost_.contains({where.group, where.shard})) {
      if (quiet == kQuietKeys) continue;
      quiet_keys_.push_back({memgest.space, i});
      ++quiet;
    } else if (!has_get) {
      probes_.push_back({absl::StrCat("killed -> first get, ", name), false, memgest.space, i,
                         memgest.descriptor.id});
      has_get = true;
    } else if (!has_put) {
      probes_.push_back({absl::StrCat("killed -> first put, ", name), true, memgest.space, i,
                         memgest.descriptor.id});
      has_put = true;
    }
  }
  if (has_get && has_put) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "key-count=", options_.key_count, " gives the victim too few keys: have more of them"));
}

void RecoveryBench::Submit(Probe* probe) {
  const KeyName key(probe->space, probe->index);
  probe->under_way = true;
  const auto ended = [this, probe](const absl::Status& status) {
    probe->under_way = false;
    if (!status.ok() || probe->done) return;
    probe->done = true;
    report_.Record(probe->what, killed_ns_, absl::GetCurrentTimeNanos());
  };
  if (probe->put) {
    std::string value(options_.value_size, 'v');
    FillValue(probe->index, absl::MakeSpan(value.data(), value.size()));
    PutOptions put;
    put.memgest_id = probe->memgest;
    put.deadline = kAttempt;
    client_->PutAsync(key.view(), value, put, [ended](const absl::StatusOr<WriteResult>& result) {
      ended(result.status());
    });
  } else {
    GetOptions get;
    get.deadline = kAttempt;
    client_->GetAsync(key.view(), get,
                      [ended](const absl::StatusOr<GetResult>& result) { ended(result.status()); });
  }
}

absl::Status RecoveryBench::RunProbes() {
  const absl::Time end = absl::Now() + kPatience;
  for (;;) {
    bool all = true;
    for (Probe& probe : probes_) {
      all &= probe.done;
      if (!probe.done && !probe.under_way) Submit(&probe);
    }
    if (all) return client_->Wait(kAttempt);
    if (tools::Interrupted()) return absl::CancelledError("interrupted");
    if (absl::Now() > end) break;
    client_->WaitForProgress(absl::Milliseconds(1));
  }
  for (Probe& probe : probes_) {
    if (!probe.done) report_.RecordNever(probe.what);
    probe.done = true;  // whatever comes of the last attempt
  }
  return client_->Wait(2 * kAttempt);
}

// The victim's, when all is whole again or nothing changes any more. The nodes are asked what they
// did when it is done; the events tell when it was.
absl::StatusOr<FailOver> RecoveryBench::WaitFailOver() {
  std::vector<FailOver> found;
  const absl::Status whole =
      WaitRecovered(target_.get(), context_->progress, [this, &found]() -> absl::StatusOr<bool> {
        RING_ASSIGN_OR_RETURN(const std::vector<node::NodeEvents> events, target_->Events());
        found = node::FindFailOvers(node::MergeEvents(events));
        std::erase_if(found, [this](const FailOver& one) {
          return one.subject != victim_ || one.agreed_ns < killed_ns_ || one.shards.empty();
        });
        return !found.empty() && ValuesAreBack(found.front(), lost_) && IsProtected(found.front());
      });
  if (!whole.ok() && !absl::IsDeadlineExceeded(whole)) return whole;
  if (found.empty()) return absl::DeadlineExceededError("no node told of the fail-over");
  return found.front();
}

absl::Status RecoveryBench::CheckAll() {
  for (const LoadedMemgest& memgest : memgests_) {
    RING_ASSIGN_OR_RETURN(const ReadBackResult read,
                          ReadBack(client_.get(), LoadOf(memgest), kPatience));
    checked_ += read.right;
    if (memgest.descriptor.FailuresTolerated() > 0) unread_ += read.unread;
  }
  return absl::OkStatus();
}

absl::Status RecoveryBench::RunOnce(int run) {
  if (target_ == nullptr) RING_RETURN_IF_ERROR(StartCluster());
  if (std::exchange(away_, false)) {
    RING_RETURN_IF_ERROR(target_->Restart(victim_));
    RING_RETURN_IF_ERROR(WaitProtected(target_.get(), context_->progress));
  }
  RING_RETURN_IF_ERROR(ChooseVictim(run));
  RING_RETURN_IF_ERROR(FindKeys());
  load_->Start(quiet_keys_);
  // The first gets connect to all nodes.
  const absl::Duration quiet = absl::Seconds(options_.quiet_seconds);
  const std::int64_t quiet_ns = absl::ToUnixNanos(absl::Now() + quiet / 5);
  absl::SleepFor(quiet);
  killed_ns_ = absl::GetCurrentTimeNanos();
  RING_RETURN_IF_ERROR(target_->Kill(victim_));
  const std::int64_t gone_ns = absl::GetCurrentTimeNanos();
  away_ = true;
  RING_RETURN_IF_ERROR(RunProbes());
  RING_ASSIGN_OR_RETURN(const FailOver fail_over, WaitFailOver());
  RING_RETURN_IF_ERROR(load_->Stop());
  RING_RETURN_IF_ERROR(CheckAll());
  report_.RecordEvents(killed_ns_, lost_, fail_over, lost_keys_ * options_.value_size);
  report_.RecordGets(quiet_ns, killed_ns_, gone_ns, fail_over, load_->gets());
  failed_gets_ += load_->failed_gets();
  first_ = load_->runs_first();
  if (!target_->restarts() || run + 1 == options_.runs) StopCluster();
  ++runs_;
  return absl::OkStatus();
}

void RecoveryBench::StopCluster() {
  acknowledged_ += load_ == nullptr ? 0 : load_->acknowledged();  // null: it failed before
  unknown_ += load_ == nullptr ? 0 : load_->unknown();
  verified_ += load_ == nullptr ? 0 : load_->verified();
  load_.reset();
  client_.reset();
  target_.reset();
  away_ = false;
}

void RecoveryBench::Report() {
  const std::uint64_t lost = LostKeys(options_.key_count) * options_.memgests.size();
  const bool local = options_.target.transport == "local";
  context_->report.AddSection(
      absl::StrCat("recovery of a lost coordinator, ",
                   local ? "embedded cluster"
                         : absl::StrCat("ringd processes over ", options_.target.transport),
                   ", runs=", runs_, " fence=", options_.target.fence,
                   " detect_ms=", options_.target.detect_ms,
                   " votes=", local || !options_.target.durable ? "in memory" : "on disk",
                   " metadata of the lost shards=",
                   tools::FormatBytes(static_cast<double>(lost * kMetadataSize)), " value_size=",
                   options_.value_size, " repair=", protocol::RepairName(options_.target.repair),
                   "; it led the consensus in ", leaders_),
      report_.PhaseRows());
  context_->report.AddSection(
      "values of the lost shards, from when all of these serve until all of them are back",
      report_.RateRows(std::uint64_t{options_.target.recovery_rate_mib} << 20));
  context_->report.AddSection(
      absl::StrCat("gets at shards that it did not coordinate, ", options_.rate / 2, " a second, ",
                   first_ ? "by a thread that runs before others" : "by a thread among others"),
      report_.GetRows());
  context_->report.AddNote(
      "the paper, section 6.4: a new coordinator serves after a median of 300 us at 1 MiB of "
      "metadata (figure 12; 500 repetitions, by killed processes; InfiniBand, what is replicated "
      "by consensus is not on disk). Figure 13, one block's recovery by its size, is a plot "
      "without numbers in the text; \"first get, SRS..\" is such a block with all before it");
  context_->report.AddNote(absl::StrCat(
      "values read back and compared after each run: ", checked_, " that were there before and ",
      verified_, " that were put meanwhile (", acknowledged_, " acknowledged puts, ", unknown_,
      " unknown), all right; not readable in time: ", unread_, ", failed gets: ", failed_gets_));
}

absl::Status RecoveryBench::Run() {
  // A node that dies is no news here, nor are those that miss it.
  SetMinLogSeverity(LogSeverity::kERROR);
  tools::CatchInterrupts();
  absl::Status status;
  {
    tools::Progress bar("recovery", static_cast<std::uint64_t>(options_.runs), context_->progress);
    for (int run = 0; run < options_.runs && status.ok(); ++run) {
      status = tools::Interrupted() ? absl::CancelledError("interrupted") : RunOnce(run);
      bar.Advance();
    }
  }
  if (target_ != nullptr) StopCluster();
  if (runs_ > 0) Report();
  if (!status.ok() || unread_ == 0) return status;
  return absl::DataLossError(absl::StrCat(unread_, " values could not be read in time"));
}

void AddWork(CLI::App* command, RecoveryOptions* options) {
  command->add_option("--memgest", options->memgests, "Memgests that hold values")
      ->delimiter(',')
      ->capture_default_str();
  CLI::Option* metadata =
      command
          ->add_option("--metadata-mib", options->metadata_mib,
                       "MiB of metadata of the lost shards, which say how many keys there are")
          ->check(CLI::Range(0.01, 1024.0));
  command->add_option("--key-count", options->key_count, "Keys of each memgest")
      ->check(CLI::Range(100, 10'000'000))
      ->capture_default_str()
      ->excludes(metadata);
  tools::AddSizeOption(command, "--value-size", options->value_size, "Bytes")
      ->check(CLI::Range(16, 16 << 20))
      ->capture_default_str();
  command->add_option("--runs", options->runs, "How often a node is killed")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command
      ->add_option("--rate", options->rate,
                   "Operations a second of another client meanwhile, half of them puts")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->add_option("--quiet-seconds", options->quiet_seconds, "Of the same before each kill")
      ->check(CLI::Range(0.05, 60.0))
      ->capture_default_str();
}

}  // namespace

void AddRecoveryCommand(CLI::App& app, Context* context) {
  auto options = std::make_shared<RecoveryOptions>();
  CLI::App* command = app.add_subcommand(
      "recovery", "Kills a coordinator of a cluster under load, and measures until all is back");
  AddWork(command, options.get());
  command
      ->add_option(
          "--transport", options->target.transport,
          "local: nodes of this process, a new cluster for each run; shm, tcp: a ringd for "
          "each node, and kill -9")
      ->check(CLI::IsMember({"local", "shm", "tcp"}))
      ->capture_default_str();
  command
      ->add_option(
          "--detect-ms", options->target.detect_ms,
          "Silence after which a node is failed; heartbeats are a sixth of it, leases last two "
          "thirds")
      ->check(CLI::Range(node::kDetectMsMin, node::kDetectMsMax))
      ->capture_default_str();
  command->add_option("--fence", options->target.fence, "How coordinators are fenced")
      ->check(CLI::IsMember({"lease", "check"}))
      ->capture_default_str();
  command->add_flag("--pin", options->pin,
                    "local: keep the nodes' threads and the clients' on processors of their own");
  command
      ->add_option("--repair", options->target.repair,
                   "How lost blocks of coded memgests come back")
      ->transform(CLI::CheckedTransformer(tools::RepairNames()))
      ->capture_default_str();
  command->add_option("--reactors", options->target.reactor_count, "local: threads of the nodes")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command
      ->add_option("--recovery-rate", options->target.recovery_rate_mib,
                   "MiB a second, at most, of what comes back in the background")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command
      ->add_option("--recovery-rate-min", options->target.recovery_rate_min_mib,
                   "MiB a second, at least, while others want the processor")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_flag("--leader", options->leader, "Kill who leads the consensus, if it coordinates");
  command->add_flag_callback(
      "--volatile", [options] { options->target.durable = false; },
      "Nodes keep their votes in memory, not on disk");
  command->callback(
      [options, context] { context->status = RecoveryBench(*options, context).Run(); });
}

}  // namespace ring::bench
