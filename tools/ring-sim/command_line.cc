#include "tools/ring-sim/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ring/base/status.h"
#include "tools/common/program.h"
#include "tools/ring-sim/directed_workloads.h"

namespace ring::tools {
namespace {

using Mode = CommandLine::Mode;

constexpr char kDescription[] =
    "Runs whole clusters, or the consensus alone, in one thread on virtual time, with faults, and\n"
    "checks what clients were told. A seed is a run: the same seed of the same build is the same\n"
    "run, to the last event. docs/TESTING.md says what is simulated and what is checked.";

constexpr char kFooter[] =
    "EXIT STATUS\n"
    "  0  nothing is wrong; of bug switches, all went as their rows of the table say\n"
    "  1  something is wrong: a line each\n"
    "  2  the command line is wrong, or a file cannot be written\n\n"
    "EXAMPLES\n"
    "  ring-sim --seeds 1..1000                        a thousand clusters\n"
    "  ring-sim --trace 4711                           one again, a line for each event\n"
    "  ring-sim --seeds 447 -v                         one, and what befell its nodes\n"
    "  ring-sim --seeds 1..20 --history F.jsonl        what clients asked and were told\n"
    "  ring-sim --fault f5_zombie_run_one_in=1         nodes stand still in every seed\n"
    "  ring-sim --workload aside --seeds 1..200        a situation that is rare otherwise\n"
    "  ring-sim --consensus --seeds 1..10000           the consensus alone\n"
    "  ring-sim --mutants --no-clusters                every bug switch, by its scenario\n"
    "  ring-sim --mutant G7 --seeds 1..20              clusters with one bug switch on";

constexpr char kClusters[] = "Clusters";
constexpr char kFaults[] = "Faults";
constexpr char kSwitches[] = "Bug switches (in builds of the preset mutants)";
constexpr char kConsensus[] = "Consensus";

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
  CLI::Option* const seeds =
      app->add_option("--seeds", given->seeds, "Run these seeds: A..B, or one number")
          ->type_name("A..B")
          ->capture_default_str()
          ->group(kClusters);
  app->add_option("--trace", given->traced, "Run this seed alone, and print a line for each event")
      ->type_name("SEED")
      ->excludes(seeds)
      ->group(kClusters);
  app->add_option("--operations", clusters.run.operations,
                  "Have all clients of a seed together ask so much")
      ->type_name("COUNT")
      ->capture_default_str()
      ->group(kClusters);
  app->add_option("--json", clusters.json, "Write the summary into FILE")
      ->type_name("FILE")
      ->group(kClusters);
  app->add_option(
         "--history", clusters.history,
         "Write all operations of a seed into FILE, as JSON lines. Of several seeds each gets a "
         "file with the seed before the suffix: F.jsonl gives F.17.jsonl. What may be forgotten "
         "of it is in F.jsonl.losses")
      ->type_name("FILE")
      ->group(kClusters);
  CLI::Option* const verbose =
      app->add_flag("-v,--verbose", clusters.verbose, "Print what befell the nodes, a line each")
          ->group(kClusters);
  app->add_flag("--logs", clusters.run.logs, "Print what the nodes logged, too")
      ->needs(verbose)
      ->group(kClusters);
}

void AddFaultOptions(CLI::App* app, Given* given, CommandLine* out) {
  app->add_option("--fault", out->faults,
                  "Set how often, or for how long, a fault comes, as --list-faults names it. May "
                  "be given more than once")
      ->type_name("NAME=NUMBER")
      ->group(kFaults);
  app->add_option("--workload", given->workload,
                  "Set the faults of a directed workload, which --fault may change again: " +
                      absl::StrJoin(DirectedWorkloads(), ", ",
                                    [](std::string* text, const auto& one) { *text += one.name; }))
      ->type_name("NAME")
      ->group(kFaults);
  app->add_flag("--each-workload", given->each_workload,
                "Run the seeds under each of these workloads in turn")
      ->excludes("--workload", "--json", "--history")
      ->group(kFaults);
  app->add_flag("--list-faults", given->list_faults,
                "Print all faults by class, how often and for how long they come, and run nothing")
      ->group(kFaults);
}

// all: every switch, one after the other.
void AddMutantOptions(CLI::App* app, MutantMode* mutants, std::string* probed, bool* all) {
  app->add_flag("--mutants", *all, "Run with every bug switch on, one after the other")
      ->group(kSwitches);
  app->add_option("--mutant", mutants->only,
                  "Run with this one on: what its row of the table says or, with --seeds or "
                  "--trace, these clusters")
      ->type_name("ID")
      ->group(kSwitches);
  app->add_option(
         "--probe", *probed,
         "Run clusters in which this one is off, and faults come where it would act; unless "
         "--workload says else, under at-switch")
      ->type_name("ID")
      ->excludes("--mutants", "--mutant")
      ->group(kSwitches);
  app->add_option("--budget", mutants->budget, "Try a switch with so many seeds of whole clusters")
      ->type_name("COUNT")
      ->capture_default_str()
      ->group(kSwitches);
  app->add_option("--first-seed", mutants->first, "Begin the budget with this seed")
      ->type_name("SEED")
      ->capture_default_str()
      ->group(kSwitches);
  app->add_flag_callback(
         "--no-clusters", [mutants] { mutants->clusters = false; },
         "Run only the directed scenarios of switches")
      ->excludes("--budget", "--first-seed")
      ->group(kSwitches);
  app->add_flag_callback(
         "--no-scenarios", [mutants] { mutants->scenarios = false; },
         "Run only whole clusters with switches on")
      ->excludes("--no-clusters")
      ->group(kSwitches);
  app->add_flag("--survivors", mutants->survivors,
                "With --mutants: run whole clusters also with the switches that they did not "
                "notice before, or were not tried with")
      ->excludes("--no-clusters")
      ->group(kSwitches);
  app->add_option("--table", mutants->table, "Write the table of the switches into FILE (Markdown)")
      ->type_name("FILE")
      ->group(kSwitches);
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
                 "--workload", "--each-workload", "--verbose", "--logs", "--probe"}};
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
  const bool probes = !out->probed.empty() && given.workload.empty() && !given.each_workload;
  RING_RETURN_IF_ERROR(
      SetFaults(probes ? "at-switch" : given.workload, out->faults, &clusters.run.faults));
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
  CLI::App app(kDescription, "ring-sim");
  SetUpProgram(app);
  Given given;
  AddClusterOptions(&app, &given, out);
  AddFaultOptions(&app, &given, out);
  AddMutantOptions(&app, &out->mutants, &out->probed, &given.all_mutants);
  app.add_flag("--consensus", given.consensus,
               "Run the consensus alone, thousands of seeds a minute; --seeds, --trace and --json "
               "are for it, too")
      ->group(kConsensus);
  app.footer(kFooter);
  if (const std::optional<int> status = ParseArguments(app, argc, argv); status.has_value())
    return status;
  const absl::Status filled = Fill(app, given, out);
  if (filled.ok()) return std::nullopt;
  return PrintWrongUsage("ring-sim", filled.message());
}

}  // namespace ring::tools
