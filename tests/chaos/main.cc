// ring-chaos: a cluster of processes under load, some of which are killed, stopped or cut off; what
// clients were told is checked afterwards.
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/chaos/faults.h"
#include "tests/chaos/load.h"
#include "tests/chaos/verdict.h"
#include "tests/chaos/view_watch.h"
#include "tools/common/interrupt.h"
#include "tools/common/node_processes.h"

namespace ring::chaos {
namespace {

// Where clients of that transport reach a node.
std::string SeedOf(const node::NodeEntry& entry, const std::string& transport) {
  if (transport == "tcp") return absl::StrCat("tcp:", entry.data);
  if (transport == "rdma") return absl::StrCat("rdma:", entry.rdma);
  return absl::StrCat("shm:", entry.shm);
}

void Report(const std::string& kind, const std::string& detail) {
  std::printf("%s: %s\n", kind.c_str(), detail.c_str());
}

// Copies and parities against the data. Empty: they agree.
std::string Scrub(const std::vector<std::string>& admins) {
  admin::AdminClientOptions options;
  options.addresses = admins;
  const auto client = admin::AdminClient::Create(options);
  if (!client.ok()) return std::string(client.status().message());
  const absl::StatusOr<node::ScrubReport> report =
      (*client)->Scrub([](const node::ScrubProgress&) { return true; });
  if (!report.ok()) return std::string(report.status().message());
  std::printf("scrub: values=%llu replicas=%llu rows=%llu mismatches=%llu\n",
              static_cast<unsigned long long>(report->values_checked),
              static_cast<unsigned long long>(report->replicas_checked),
              static_cast<unsigned long long>(report->rows_checked),
              static_cast<unsigned long long>(report->mismatches));
  std::string wrong;
  for (const std::string& detail : report->details) absl::StrAppend(&wrong, detail, "\n");
  if (wrong.empty() && report->mismatches > 0) wrong = "mismatches";
  return wrong;
}

int Print(Verdict verdict, const FaultInjector& faults, std::size_t owners_lost, int wrong) {
  for (sim::Violation& one : CheckRun(verdict, faults.counts()))
    verdict.violations.push_back(std::move(one));
  std::string injected;
  for (const auto& [fault, count] : faults.counts())
    absl::StrAppend(&injected, " ", fault, "=", count,
                    fault == "partition" ? absl::StrCat("(", faults.partitions_over(), ")") : "");
  for (const sim::Violation& one : verdict.violations) Report(one.kind, one.detail);
  std::printf(
      "operations=%llu answered=%llu failed=%llu unknown=%llu faults:%s\n"
      "searched_keys=%llu given_up=%llu coordinators_lost=%zu keys_with_rep1_losses=%llu "
      "violations=%zu\n",
      static_cast<unsigned long long>(verdict.operations),
      static_cast<unsigned long long>(verdict.answered),
      static_cast<unsigned long long>(verdict.failed),
      static_cast<unsigned long long>(verdict.unknown),
      injected.empty() ? " none" : injected.c_str(),
      static_cast<unsigned long long>(verdict.search_keys),
      static_cast<unsigned long long>(verdict.search_given_up), owners_lost,
      static_cast<unsigned long long>(verdict.keys_with_losses),
      verdict.violations.size() + static_cast<std::size_t>(wrong));
  return verdict.violations.empty() && wrong == 0 ? 0 : 1;
}

int Run(const ChaosOptions& options) {
  // What was done until then is judged.
  tools::CatchInterrupts();
  const absl::StatusOr<node::NodeConfig> config = node::LoadNodeConfig(options.config, "n0");
  if (!config.ok()) {
    std::fprintf(stderr, "ring-chaos: %s\n", std::string(config.status().message()).c_str());
    return 2;
  }
  tools::NodeProcesses nodes({.ringd = options.ringd,
                              .config = options.config,
                              .folder = options.folder,
                              .namespaces = options.namespaces},
                             *config);
  if (const absl::Status started = nodes.StartAll(kReadyMax * options.time_factor); !started.ok()) {
    std::fprintf(stderr, "ring-chaos: %s\n", std::string(started.message()).c_str());
    return 1;
  }
  std::vector<std::string> admins;
  std::vector<std::string> seeds;
  for (const node::NodeEntry& entry : config->nodes) {
    admins.push_back(entry.admin);
    seeds.push_back(SeedOf(entry, options.transport));
  }
  ViewWatch watch(admins, options.time_factor);
  int wrong = 0;
  const auto complain = [&wrong](const std::string& kind, absl::string_view detail) {
    ++wrong;
    Report(kind, std::string(detail));
  };
  if (const absl::Status ready = watch.WaitProtected(kReadyMax * options.time_factor);
      !ready.ok()) {
    complain("start", ready.message());
    return 1;
  }
  Load load(options, seeds, &watch);
  load.Start();
  FaultInjector faults(options, &nodes, &watch);
  if (const absl::Status ran = faults.Run(absl::Now() + options.duration); !ran.ok())
    complain("fault", ran.message());
  if (const absl::Status healed = faults.Heal(); !healed.ok()) complain("heal", healed.message());
  if (!options.unprotected) {
    const absl::Status whole = watch.WaitProtected(kProtectedMax * options.time_factor);
    if (!whole.ok()) complain("unprotected", whole.message());
  }
  load.Stop();
  load.ReadAll();
  // Who has not got everything yet differs from who has.
  const std::string scrubbed = options.unprotected ? "" : Scrub(admins);
  if (!scrubbed.empty()) complain("scrub", scrubbed);
  if (const std::string dead = nodes.FindDead(); !dead.empty()) complain("ended", dead);
  for (const sim::Violation& one : load.TakeViolations()) complain(one.kind, one.detail);
  const sim::History history = load.TakeHistory();
  if (!options.history.empty()) {
    std::FILE* const file = std::fopen(options.history.c_str(), "w");
    if (file == nullptr) {
      complain("history", absl::StrCat("cannot write ", options.history));
    } else {
      history.WriteJson(file);
      const bool failed = std::ferror(file) != 0;
      if (std::fclose(file) != 0 || failed)
        complain("history", absl::StrCat("cannot write all of ", options.history));
    }
  }
  const Verdict verdict =
      CheckHistory(history, watch.losses(), cluster::Routing(config->s, config->d));
  return Print(verdict, faults, watch.losses().size(), wrong);
}

}  // namespace
}  // namespace ring::chaos

int main(int argc, char** argv) {
  CLI::App app("A cluster of processes under load and faults, and what its clients were told");
  ring::chaos::ChaosOptions options;
  double minutes = 1;
  app.add_option("--config", options.config, "ring.toml of all nodes")->required();
  app.add_option("--folder", options.folder, "where logs and voters' files are")->required();
  app.add_option("--ringd", options.ringd, "the program of a node")->required();
  app.add_option("--namespaces", options.namespaces, "of the network, one for each node")
      ->delimiter(',');
  app.add_option("--transport", options.transport, "of the clients")
      ->check(CLI::IsMember({"shm", "tcp", "rdma"}));
  app.add_option("--minutes", minutes, "how long faults are injected")->check(CLI::PositiveNumber);
  app.add_option("--faults", options.faults, "classes of faults")
      ->delimiter(',')
      ->check(CLI::Validator(
          [](std::string& name) {
            return ring::chaos::FaultInjector::Knows(name) ? "" : "no such class: " + name;
          },
          "CLASS"));
  app.add_option("--fault-max", options.fault_max, "inject no more than these");
  app.add_option("--seed", options.seed, "of what is drawn");
  app.add_option("--clients", options.processes, "threads with a client each")
      ->check(CLI::Range(1, 64));
  app.add_option("--window", options.window, "operations that each has under way")
      ->check(CLI::Range(1, 64));
  app.add_option("--rate", options.rate, "operations a second of all")->check(CLI::PositiveNumber);
  app.add_option("--history", options.history, "write what was asked and told, as JSON lines");
  app.add_flag("--may-end-unprotected", options.unprotected,
               "lost copies need not be made again; then nothing is scrubbed");
  app.add_option("--time-factor", options.time_factor,
                 "all deadlines are so many times longer: for emulated machines")
      ->check(CLI::Range(1, 60));
  app.footer(
      "EXIT STATUS\n"
      "  0  nothing that clients were told is wrong\n"
      "  1  something is, or the cluster did not start: a line each\n"
      "  2  the command line or the configuration is wrong");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  options.duration = absl::Minutes(minutes);
  if (!options.namespaces.empty() && options.transport != "tcp") {
    std::fprintf(stderr, "ring-chaos: --namespaces needs --transport tcp\n");
    return 2;
  }
  return ring::chaos::Run(options);
}
