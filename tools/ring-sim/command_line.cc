#include "tools/ring-sim/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ring/base/status.h"
#include "tools/ring-sim/directed_workloads.h"

namespace ring::tools {
namespace {

using Mode = CommandLine::Mode;

constexpr char kFooter[] =
    "EXIT STATUS\n"
    "  0  nothing is wrong; of switches, all went as their rows of the table say\n"
    "  1  something is: a line each\n"
    "  2  the command line is wrong, or a file cannot be written";

struct Given {
  std::string seeds = "1..10";
  std::string traced;
  std::string workload;
  bool each_workload = false;
  bool list_faults = false;
  bool consensus = false;
  bool all_mutants = false;
};

// "7" or "1..1000".
bool ParseSeeds(const std::string& text, std::uint64_t* first, std::uint64_t* last) {
  const std::size_t dots = text.find("..");
  return CLI::detail::lexical_cast(text.substr(0, dots), *first) &&
         CLI::detail::lexical_cast(dots == std::string::npos ? text : text.substr(dots + 2),
                                   *last) &&
         *first <= *last;
}

absl::Status SetFaults(const std::string& workload, const std::vector<std::string>& values,
                       sim::FaultOptions* faults) {
  if (!workload.empty()) {
    const DirectedWorkload* const found = FindDirectedWorkload(workload);
    if (found == nullptr)
      return absl::NotFoundError(absl::StrCat("--workload=", workload, ": --help names all"));
    RING_RETURN_IF_ERROR(Apply(*found, faults));
  }
  for (const std::string& value : values) RING_RETURN_IF_ERROR(sim::SetFaults(value, faults));
  return absl::OkStatus();
}

void AddClusterOptions(CLI::App* app, Given* given, CommandLine* out) {
  ClusterMode& clusters = out->clusters;
  CLI::Option* const seeds = app->add_option("--seeds", given->seeds, "A..B, or one");
  app->add_option("--operations", clusters.run.operations, "of all clients of a seed")
      ->capture_default_str();
  app->add_option("--json", clusters.json, "a file for the summary");
  app->add_option(
      "--history", clusters.history,
      "a file for all operations of a seed, as JSON lines; of several seeds one each, "
      "with the seed before the suffix: F.jsonl gives F.17.jsonl; what may be forgotten of it "
      "is in F.jsonl.losses");
  app->add_option("--fault", out->faults, "NAME=NUMBER, as --list-faults says; more than once");
  app->add_option("--workload", given->workload,
                  "a directed workload, below --fault: " +
                      absl::StrJoin(DirectedWorkloads(), ", ",
                                    [](std::string* text, const auto& one) { *text += one.name; }));
  app->add_flag("--each-workload", given->each_workload, "the seeds under each of these in turn")
      ->excludes("--workload", "--json", "--history");
  app->add_flag("--list-faults", given->list_faults,
                "all faults by class, how often and how long, only");
  app->add_option("--trace", given->traced, "a seed to run alone, with a line for each event")
      ->excludes(seeds);
  CLI::Option* const verbose =
      app->add_flag("-v,--verbose", clusters.verbose, "what befell the nodes, a line each");
  app->add_flag("--logs", clusters.run.logs, "... and what the nodes logged")->needs(verbose);
}

// all: every switch, one after the other.
void AddMutantOptions(CLI::App* app, MutantMode* mutants, bool* all) {
  app->add_flag("--mutants", *all, "runs with every bug switch on, one after the other");
  app->add_option("--mutant", mutants->only,
                  "with one of them (a build of the preset mutants): its row of the table; with "
                  "--seeds or --trace these clusters, with it on");
  app->add_option("--budget", mutants->budget, "seeds for each of them")->capture_default_str();
  app->add_option("--first-seed", mutants->first, "of the budget: goes on from there")
      ->capture_default_str();
  app->add_flag("!--no-clusters", mutants->clusters, "of the switches only the directed scenarios")
      ->excludes("--budget", "--first-seed");
  app->add_flag("!--no-scenarios", mutants->scenarios, "of the switches only whole clusters")
      ->excludes("--no-clusters");
  app->add_flag(
         "--survivors", mutants->survivors,
         "of all switches those, too, that whole clusters did not notice before, or were not "
         "tried with")
      ->excludes("--no-clusters");
  app->add_option("--table", mutants->table, "a file for the table of the switches, as Markdown");
}

// A way to run, and the options that it looks at.
struct ModeRule {
  Mode mode;
  const char* name;
  std::vector<std::string> takes;
};

ModeRule RuleFor(const CLI::App& app, const Given& given) {
  if (given.list_faults)
    return {Mode::kListFaults, "--list-faults", {"--list-faults", "--fault", "--workload"}};
  if (given.consensus)
    return {Mode::kConsensus, "--consensus", {"--consensus", "--seeds", "--trace", "--json"}};
  const bool one = app.count("--mutant") > 0;
  const bool asked_for_seeds = app.count("--seeds") + app.count("--trace") > 0;
  if (given.all_mutants || (one && !asked_for_seeds)) {
    ModeRule rule{Mode::kMutants,
                  given.all_mutants ? "--mutants" : "--mutant without --seeds",
                  {"--operations", "--fault", "--workload", "--json", "--budget", "--first-seed",
                   "--no-clusters", "--no-scenarios", "--table"}};
    rule.takes.emplace_back(given.all_mutants ? "--mutants" : "--mutant");
    if (given.all_mutants) rule.takes.emplace_back("--survivors");
    return rule;
  }
  ModeRule rule{given.each_workload ? Mode::kEachWorkload : Mode::kClusters,
                one ? "--mutant with seeds" : "clusters from seeds",
                {"--seeds", "--trace", "--operations", "--json", "--history", "--fault",
                 "--workload", "--each-workload", "--verbose", "--logs"}};
  if (one) rule.takes.emplace_back("--mutant");
  return rule;
}

absl::Status CheckOptions(const CLI::App& app, const ModeRule& rule) {
  for (const CLI::Option* const option : app.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 ||
        std::find(rule.takes.begin(), rule.takes.end(), name) != rule.takes.end())
      continue;
    return absl::InvalidArgumentError(absl::StrCat(name, " does nothing for ", rule.name,
                                                   ", which looks at ",
                                                   absl::StrJoin(rule.takes, ", ")));
  }
  return absl::OkStatus();
}

absl::Status Fill(const CLI::App& app, const Given& given, CommandLine* out) {
  const ModeRule rule = RuleFor(app, given);
  RING_RETURN_IF_ERROR(CheckOptions(app, rule));
  out->mode = rule.mode;
  ClusterMode& clusters = out->clusters;
  RING_RETURN_IF_ERROR(SetFaults(given.workload, out->faults, &clusters.run.faults));
  clusters.trace = !given.traced.empty();
  const std::string& seeds = clusters.trace ? given.traced : given.seeds;
  if (!ParseSeeds(seeds, &clusters.first, &clusters.last)) {
    return absl::InvalidArgumentError(
        absl::StrCat(clusters.trace ? "--trace=" : "--seeds=", seeds, ": give A..B or one number"));
  }
  out->consensus = {clusters.first, clusters.last, clusters.json,
                    clusters.trace ? "/dev/stdout" : ""};
  out->mutants.operations = clusters.run.operations;
  out->mutants.faults = clusters.run.faults;
  out->mutants.own_workloads = given.workload.empty();
  out->mutants.json = clusters.json;
  out->mutant = out->mutants.only;
  return absl::OkStatus();
}

}  // namespace

std::optional<int> ParseCommandLine(int argc, char** argv, CommandLine* out) {
  CLI::App app("Simulates whole clusters with faults, and checks what clients were told");
  Given given;
  AddClusterOptions(&app, &given, out);
  AddMutantOptions(&app, &out->mutants, &given.all_mutants);
  app.add_flag("--consensus", given.consensus, "the consensus alone: thousands of seeds a minute");
  app.footer(kFooter);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const absl::Status filled = Fill(app, given, out);
  if (filled.ok()) return std::nullopt;
  std::fprintf(stderr, "ring-sim: %s\n", std::string(filled.message()).c_str());
  return 2;
}

}  // namespace ring::tools
