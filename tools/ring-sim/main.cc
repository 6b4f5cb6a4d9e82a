// ring-sim: clusters in one thread, on virtual time, from seeds.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ring/base/check.h"
#include "ring/base/status.h"
#include "tools/ring-sim/cluster_mode.h"
#include "tools/ring-sim/consensus_mode.h"
#include "tools/ring-sim/directed_workloads.h"
#include "tools/ring-sim/mutant_mode.h"

namespace {

constexpr char kFooter[] =
    "EXIT STATUS\n"
    "  0  nothing is wrong; of switches, all went as their rows of the table say\n"
    "  1  something is: a line each\n"
    "  2  the command line is wrong, or a file cannot be written";

// "7" or "1..1000".
bool ParseSeeds(const std::string& text, std::uint64_t* first, std::uint64_t* last) {
  const std::size_t dots = text.find("..");
  return CLI::detail::lexical_cast(text.substr(0, dots), *first) &&
         CLI::detail::lexical_cast(dots == std::string::npos ? text : text.substr(dots + 2),
                                   *last) &&
         *first <= *last;
}

absl::Status SetFaults(const std::string& workload, const std::vector<std::string>& values,
                       ring::sim::FaultOptions* faults) {
  if (!workload.empty()) {
    const auto* const found = ring::tools::FindDirectedWorkload(workload);
    if (found == nullptr)
      return absl::NotFoundError(absl::StrCat("--workload=", workload, ": --help names all"));
    RING_RETURN_IF_ERROR(ring::tools::Apply(*found, faults));
  }
  for (const std::string& value : values) RING_RETURN_IF_ERROR(ring::sim::SetFaults(value, faults));
  return absl::OkStatus();
}

// The exit status is the worst.
int RunEachWorkload(const ring::tools::ClusterMode& mode, const std::vector<std::string>& values) {
  int worst = 0;
  for (const ring::tools::DirectedWorkload& workload : ring::tools::DirectedWorkloads()) {
    ring::tools::ClusterMode one = mode;
    one.run.faults = {};
    RING_CHECK(SetFaults(workload.name, values, &one.run.faults).ok()) << workload.name;
    std::printf("workload %s: %s\n", workload.name, workload.what);
    worst = std::max(worst, ring::tools::RunClusters(one));
  }
  return worst;
}

int ListFaults(const ring::sim::FaultOptions& faults) {
  for (const ring::sim::FaultField& field : ring::sim::FaultFields()) {
    std::printf("%.*s=%llu\n", static_cast<int>(field.name.size()), field.name.data(),
                static_cast<unsigned long long>(faults.*field.value));
  }
  return 0;
}

// all: every switch, one after the other.
void AddMutantOptions(CLI::App* app, ring::tools::MutantMode* mutants, bool* all) {
  app->add_flag("--mutants", *all, "runs with every bug switch on, one after the other");
  app->add_option("--mutant", mutants->only,
                  "with one of them (a build of the preset mutants): its row of the table; with "
                  "--seeds or --trace these clusters, with it on");
  app->add_option("--budget", mutants->budget, "seeds for each of them")->capture_default_str();
  app->add_option("--first-seed", mutants->first, "of the budget: goes on from there")
      ->capture_default_str();
  app->add_flag("!--no-clusters", mutants->clusters, "of the switches only the directed scenarios");
  app->add_flag("!--no-scenarios", mutants->scenarios, "of the switches only whole clusters");
  app->add_flag(
      "--survivors", mutants->survivors,
      "of all switches those, too, that whole clusters did not notice before, or were not "
      "tried with");
  app->add_option("--table", mutants->table, "a file for the table of the switches, as Markdown");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Simulates whole clusters with faults, and checks what clients were told");
  ring::tools::ClusterMode mode;
  std::string seeds = "1..10";
  app.add_option("--seeds", seeds, "A..B, or one");
  app.add_option("--operations", mode.run.operations, "of all clients of a seed")
      ->capture_default_str();
  app.add_option("--json", mode.json, "a file for the summary");
  app.add_option(
      "--history", mode.history,
      "a file for all operations of a seed, as JSON lines; of several seeds one each, "
      "with the seed before the suffix: F.jsonl gives F.17.jsonl; what may be forgotten of it "
      "is in F.jsonl.losses");
  ring::sim::FaultOptions& faults = mode.run.faults;
  std::vector<std::string> fault_values;
  app.add_option("--fault", fault_values, "NAME=NUMBER, as --list-faults says; more than once");
  std::string workload;
  app.add_option("--workload", workload,
                 "a directed workload, below --fault: " +
                     absl::StrJoin(ring::tools::DirectedWorkloads(), ", ",
                                   [](std::string* out, const auto& one) { *out += one.name; }));
  bool each_workload = false;
  app.add_flag("--each-workload", each_workload, "the seeds under each of these in turn")
      ->excludes("--workload", "--json", "--history");
  bool list_faults = false;
  app.add_flag("--list-faults", list_faults, "all faults by class, how often and how long, only");
  std::string traced;
  app.add_option("--trace", traced, "a seed to run alone, with a line for each event");
  ring::tools::MutantMode mutants;
  bool all_mutants = false;
  AddMutantOptions(&app, &mutants, &all_mutants);
  bool consensus = false;
  app.add_flag("--consensus", consensus, "the consensus alone: thousands of seeds a minute");
  CLI::Option* const verbose =
      app.add_flag("-v,--verbose", mode.verbose, "what befell the nodes, a line each");
  app.add_flag("--logs", mode.run.logs, "... and what the nodes logged")->needs(verbose);
  app.footer(kFooter);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (const absl::Status set = SetFaults(workload, fault_values, &faults); !set.ok()) {
    std::fprintf(stderr, "ring-sim: %s\n", std::string(set.message()).c_str());
    return 2;
  }
  if (list_faults) return ListFaults(faults);
  const bool asked_for_seeds = app.count("--seeds") + app.count("--trace") > 0;
  if (!all_mutants && !mutants.only.empty() && asked_for_seeds) {
    if (!ring::tools::TurnOn(mutants.only)) return 2;
  } else if (all_mutants || !mutants.only.empty()) {
    mutants.operations = mode.run.operations;
    mutants.faults = faults;
    mutants.own_workloads = workload.empty();
    mutants.json = mode.json;
    return ring::tools::RunMutants(mutants);
  }
  mode.trace = !traced.empty();
  if (mode.trace) seeds = traced;
  if (!ParseSeeds(seeds, &mode.first, &mode.last)) {
    std::fprintf(stderr, "ring-sim: --seeds=%s: give A..B or one number\n", seeds.c_str());
    return 2;
  }
  if (consensus) {
    const std::string trace = mode.trace ? "/dev/stdout" : "";
    return ring::tools::RunConsensus({mode.first, mode.last, mode.json, trace});
  }
  return each_workload ? RunEachWorkload(mode, fault_values) : ring::tools::RunClusters(mode);
}
