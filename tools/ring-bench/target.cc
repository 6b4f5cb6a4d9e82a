#include "tools/ring-bench/target.h"

#include <sched.h>

#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "ring/base/log.h"
#include "ring/base/status.h"
#include "ring/cluster/default_memgests.h"

namespace ring::bench {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(30);

absl::StatusOr<Transport> ParseTransport(const std::string& name) {
  if (name == "local") return Transport::kLocal;
  if (name == "shm") return Transport::kShm;
  if (name == "tcp") return Transport::kTcp;
  if (name == "auto") return Transport::kAuto;
  if (name == "rdma") return Transport::kRdma;
  return absl::InvalidArgumentError(
      absl::StrCat("transport=", name, " must be local, shm, tcp, rdma or auto"));
}

// The seeds of "ready: seeds=... admin=...".
absl::StatusOr<std::vector<std::string>> SeedsOf(absl::string_view line) {
  for (absl::string_view word : absl::StrSplit(line, ' ')) {
    if (absl::ConsumePrefix(&word, "seeds=")) return {absl::StrSplit(word, ',')};
  }
  return absl::UnavailableError(absl::StrCat("ringd said \"", line, "\", which has no seeds"));
}

// Lets this thread, and those it starts from now on, run on processors [first, last) only.
void RunOn(unsigned first, unsigned last) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (unsigned i = first; i < last; ++i) CPU_SET(i, &set);
  sched_setaffinity(0, sizeof(set), &set);  // a wish: a container may refuse it
}

// An embedded cluster of (s, d) and a spare.
void Reshape(int s, int d, node::NodeConfig* config) {
  const node::NodeEntry like = config->nodes.front();
  config->s = s;
  config->d = d;
  config->nodes.clear();
  for (int i = 0; i < s + d + 1; ++i) {
    node::NodeEntry& entry = config->nodes.emplace_back(like);
    entry.name = absl::StrCat("n", i);
    entry.shm = absl::StrCat(absl::StripSuffix(like.shm, ".sock"), "-", i, ".sock");
  }
  config->memgests = cluster::DefaultMemgests(s, d);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Target>> Target::Start(const TargetOptions& options) {
  const bool pin = options.pin && options.seeds.empty();
  if (pin) PinToFirst(options.reactor_count);
  absl::StatusOr<std::unique_ptr<Target>> target = StartUnpinned(options);
  if (pin) PinToOthers(options.reactor_count);
  return target;
}

void Target::PinToFirst(int reactor_count) {
  const auto reactors = static_cast<unsigned>(reactor_count);
  if (std::thread::hardware_concurrency() > reactors) RunOn(0, reactors);
}

void Target::PinToOthers(int reactor_count) {
  const auto reactors = static_cast<unsigned>(reactor_count);
  const unsigned processors = std::thread::hardware_concurrency();
  if (processors > reactors) RunOn(reactors, processors);
}

absl::StatusOr<std::unique_ptr<Target>> Target::StartUnpinned(const TargetOptions& options) {
  std::unique_ptr<Target> target(new Target(options));
  RING_RETURN_IF_ERROR(ParseTransport(options.transport).status());
  if (!options.seeds.empty()) return target;
  const bool local = options.transport == "local";
  if (local || options.in_process) {
    SetMinLogSeverity(LogSeverity::kWARNING);
    node::HostOptions host{
        .config = node::EmbeddedConfig(), .hosted = {}, .reactor_count = options.reactor_count};
    host.config.log_level = LogSeverity::kWARNING;
    host.config.control.fail_over = options.fence != "open";
    host.config.control.fence =
        options.fence == "check" ? node::FenceKind::kCheck : node::FenceKind::kLease;
    host.config.encode = options.encode == "nic" ? node::EncodePath::kNic : node::EncodePath::kHost;
    host.config.encode_check = options.encode_check;
    host.config.fault_injection = options.fault_injection;
    if (options.s > 0) Reshape(options.s, options.d, &host.config);
    RING_ASSIGN_OR_RETURN(target->host_, node::Host::Start(host));
    RING_RETURN_IF_ERROR(target->host_->WaitReady(kStartTimeout));
    target->options_.seeds =
        absl::StrSplit(local ? target->host_->local_seed() : target->host_->seeds(), ',');
    return target;
  }
  RING_ASSIGN_OR_RETURN(const std::string ringd, tools::FindProgram("ringd"));
  RING_ASSIGN_OR_RETURN(target->ringd_,
                        tools::ChildProcess::Start({ringd, "--embedded", "--reactors",
                                                    absl::StrCat(options.reactor_count)}));
  RING_ASSIGN_OR_RETURN(const std::string line, target->ringd_->ReadLine("ready:", kStartTimeout));
  RING_ASSIGN_OR_RETURN(target->options_.seeds, SeedsOf(line));
  return target;
}

void Target::Unpin() { RunOn(0, std::thread::hardware_concurrency()); }

void AddTargetOptions(CLI::App* command, TargetOptions* options) {
  CLI::Option* seeds =
      command
          ->add_option("--seeds", options->seeds,
                       "A running cluster: HOST:PORT,...; keys are written to it. RING_SEEDS is "
                       "not read: what is measured is said")
          ->delimiter(',');
  command
      ->add_option("--transport", options->transport,
                   "local (cluster in this process), shm, tcp; with --seeds also rdma, auto")
      ->check(CLI::IsMember({"local", "shm", "tcp", "rdma", "auto"}))
      ->capture_default_str();
  command->add_option("--reactors", options->reactor_count, "Reactor threads of its own cluster")
      ->check(CLI::Range(1, 64))
      ->capture_default_str()
      ->excludes(seeds);
  command->add_flag("--pin", options->pin,
                    "Keep the cluster's threads and the clients' on processors of their own");
}

Target::~Target() {
  // Nodes that stop one after the other miss each other: that is no news.
  if (host_ != nullptr) SetMinLogSeverity(LogSeverity::kERROR);
}

absl::StatusOr<std::unique_ptr<Client>> Target::NewClient(std::size_t window) const {
  ClientOptions options;
  options.seeds = options_.seeds;
  RING_ASSIGN_OR_RETURN(options.transport, ParseTransport(options_.transport));
  options.window = window;
  return Client::Connect(options);
}

std::string Target::TransportInUse(const Client& client) {
  std::set<std::string> names;
  for (const NodeConnection& connection : client.Connections()) {
    if (!connection.transport.empty()) names.insert(connection.transport);
  }
  return absl::StrJoin(names, "+");
}

}  // namespace ring::bench
