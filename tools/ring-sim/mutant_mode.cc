#include "tools/ring-sim/mutant_mode.h"

#include <cstdio>

#include "tools/common/program.h"

#ifndef RING_MUTANTS

namespace ring::tools {

bool TurnOn(const std::string&, bool) {
  PrintError("ring-sim", "no bug switches in this build: cmake --preset mutants");
  return false;
}

int RunMutants(const MutantMode& mode) { return TurnOn(mode.only) ? 0 : 2; }

}  // namespace ring::tools

#else

#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "ring/base/check.h"
#include "ring/base/mutant.h"
#include "tests/sim/sim_run.h"
#include "tools/ring-sim/directed_workloads.h"
#include "tools/ring-sim/mutant_cases.h"
#include "tools/ring-sim/output.h"

namespace ring::tools {
namespace {

using Kind = InClusters::Kind;

constexpr int kSeedSecondsMax = 40;            // of the processor: more is a turn without an end
constexpr unsigned kScenarioSecondsMax = 300;  // by the clock, on a busy machine

// What a child process said, line by line, and how it ended.
struct Ended {
  std::vector<std::string> lines;
  bool ok = false;    // exit status 0
  bool late = false;  // its time was over
};

Ended RunProcess(const std::function<void(int out)>& child) {
  Ended ended;
  int ends[2];
  if (pipe(ends) != 0) return ended;
  std::fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    child(ends[1]);
    _exit(127);
  }
  close(ends[1]);
  std::FILE* const in = fdopen(ends[0], "r");
  char line[256];
  while (std::fgets(line, sizeof(line), in) != nullptr) {
    line[std::strcspn(line, "\n")] = '\0';
    ended.lines.emplace_back(line);
  }
  std::fclose(in);
  int status = 0;
  waitpid(pid, &status, 0);
  ended.ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  ended.late = WIFSIGNALED(status) && (WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGPROF);
  return ended;
}

struct Verdict {
  bool killed = false;
  std::uint64_t seed = 0;  // that killed it, or the last one
  std::string how;
  bool clean_without = true;  // ... the switch, if that killed it
};

sim::RunOptions OptionsOf(const MutantCase& mutant, const MutantMode& mode, std::uint64_t seed) {
  sim::RunOptions options;
  options.seed = seed;
  options.operations = mode.operations;
  options.faults = mode.faults;
  if (mode.own_workloads && *mutant.clusters.workload != '\0') {
    const DirectedWorkload* const workload = FindDirectedWorkload(mutant.clusters.workload);
    RING_CHECK(workload != nullptr && Apply(*workload, &options.faults).ok())
        << "switch=" << mutant.id;
  }
  return options;
}

void LimitProcessor() {
  itimerval limit = {};
  limit.it_value.tv_sec = kSeedSecondsMax;
  setitimer(ITIMER_PROF, &limit, nullptr);
}

// Runs seeds until one notices, and tells of each before it begins.
void RunSeeds(const MutantCase& mutant, const MutantMode& mode, int out) {
  if (!TurnOn(mutant.id)) _exit(2);
  std::FILE* const pipe = fdopen(out, "w");
  if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(2);
  // One that was noticed late is given as long again.
  const InClusters& known = mutant.clusters;
  const std::uint64_t late = known.kind == Kind::kKilled ? known.seeds : 0;
  for (std::uint64_t seed = mode.first; seed <= std::max(mode.budget, late); ++seed) {
    std::fprintf(pipe, "%llu\n", static_cast<unsigned long long>(seed));
    std::fflush(pipe);
    LimitProcessor();
    const sim::RunResult run = sim::RunSeed(OptionsOf(mutant, mode, seed));
    if (run.violations.empty()) continue;
    std::fprintf(pipe, "%s\n", run.violations[0].kind.c_str());
    std::fflush(pipe);
    _exit(1);
  }
  _exit(0);
}

// What notices a switch has to find nothing without it, also where it is the switch that faults
// come at.
bool IsCleanWithout(const MutantCase& mutant, const MutantMode& mode, std::uint64_t seed) {
  return RunProcess([&](int) {
           if (!TurnOn(mutant.id, /*probes=*/true)) _exit(2);
           LimitProcessor();
           _exit(sim::RunSeed(OptionsOf(mutant, mode, seed)).violations.empty() ? 0 : 1);
         })
      .ok;
}

Verdict RunInClusters(const MutantCase& mutant, const MutantMode& mode) {
  const Ended ended = RunProcess([&](int out) { RunSeeds(mutant, mode, out); });
  Verdict verdict;
  verdict.killed = !ended.ok;
  for (const std::string& line : ended.lines) {
    unsigned long long seed = 0;
    if (std::sscanf(line.c_str(), "%llu", &seed) == 1) {
      verdict.seed = seed;
    } else {
      verdict.how = line;
    }
  }
  if (verdict.killed && verdict.how.empty()) verdict.how = ended.late ? "hang" : "invariant";
  verdict.clean_without = !verdict.killed || IsCleanWithout(mutant, mode, verdict.seed);
  return verdict;
}

// Whether the test passes. It has to run: a filter that finds nothing passes, too.
bool Passes(const std::string& scenario, const std::string& mutant) {
  const std::size_t colon = scenario.find(':');
  const std::string program = absl::StrCat(RING_TEST_DIR, "/", scenario.substr(0, colon));
  const std::string filter = absl::StrCat("--gtest_filter=", scenario.substr(colon + 1));
  const Ended ended = RunProcess([&](int out) {
    dup2(out, STDOUT_FILENO);
    if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(2);
    setenv("RING_MUTANT", mutant.c_str(), 1);
    alarm(kScenarioSecondsMax);
    execl(program.c_str(), program.c_str(), filter.c_str(), nullptr);
  });
  bool ran = false;
  for (const std::string& line : ended.lines) ran |= line.starts_with("[ RUN");
  if (!ran) {
    PrintError("ring-sim",
               absl::StrCat(program, " ", filter, " ran nothing: build it, or name it right"));
    std::exit(2);
  }
  return ended.ok;
}

class Table {
 public:
  explicit Table(const MutantMode& mode) : mode_(mode) {}

  void Add(const MutantCase& mutant) {
    const bool has_scenario = *mutant.scenario != '\0';
    const bool runs = mode_.clusters && RunsInClusters(mutant);
    if (!runs && !(mode_.scenarios && has_scenario)) return;
    std::string text;
    bool right = true;
    Row row{&mutant, Known(mutant), ""};
    if (runs) {
      const Verdict verdict = RunInClusters(mutant, mode_);
      right &= verdict.killed == (mutant.clusters.kind == Kind::kKilled) ||
               mutant.clusters.kind == Kind::kNotRun;
      right &= verdict.clean_without;
      row.clusters = absl::StrCat(verdict.killed ? "killed by " : "survives ", verdict.seed);
      if (verdict.killed) absl::StrAppend(&row.clusters, ": ", verdict.how);
      AppendWorkload(mutant, &row.clusters);
      absl::StrAppend(&text, row.clusters,
                      verdict.clean_without ? "" : ", which fails without it, too");
    }
    if (mode_.scenarios && has_scenario) {
      const bool kills = PassesWithout(mutant.scenario) && !Passes(mutant.scenario, mutant.id);
      right &= kills;
      row.scenario = kills ? mutant.scenario : "NOT BY ITS SCENARIO";
      absl::StrAppend(&text, text.empty() ? "" : "; ", kills ? "killed by " : "not killed by ",
                      mutant.scenario);
    }
    wrong_ += right ? 0 : 1;
    std::printf("%-14s %s: %s%s\n", mutant.id, mutant.what, text.c_str(),
                right ? "" : "  <-- WRONG");
    std::fflush(stdout);
    rows_.push_back(std::move(row));
  }

  int Finish() {
    const std::string forgotten = mode_.only.empty() ? RulesForgotten() : "";
    std::printf("switches=%zu not as expected=%d budget=%llu seeds%s%s\n", rows_.size(), wrong_,
                static_cast<unsigned long long>(mode_.budget),
                forgotten.empty() ? "" : " rules without switch or reason: ", forgotten.c_str());
    const bool json_written = WriteJson();
    if (!WriteMarkdown() || !json_written) return 2;
    return wrong_ == 0 && forgotten.empty() ? 0 : 1;
  }

 private:
  struct Row {
    const MutantCase* mutant;
    std::string clusters;
    std::string scenario;
  };

  bool RunsInClusters(const MutantCase& mutant) const {
    if (!mode_.only.empty()) return true;  // asked for by name, whatever is known of it
    const bool untried = mutant.clusters.kind == Kind::kNotRun && *mutant.why == '\0';
    if (untried || mutant.clusters.kind == Kind::kSurvives) return mode_.survivors;
    return mutant.clusters.kind != Kind::kNotRun;
  }

  static void AppendWorkload(const MutantCase& mutant, std::string* text) {
    const char* const workload = mutant.clusters.workload;
    if (*workload != '\0') absl::StrAppend(text, " of workload ", workload);
  }

  // When it is not run now.
  static std::string Known(const MutantCase& mutant) {
    const InClusters& clusters = mutant.clusters;
    std::string text;
    switch (clusters.kind) {
      case Kind::kKilled:
        text = absl::StrCat("killed by ", clusters.seeds);
        AppendWorkload(mutant, &text);
        return text;
      case Kind::kControl:
        return "must survive";
      case Kind::kSurvives:
        return absl::StrCat("survives ", clusters.seeds);
      case Kind::kNotRun:
        return "not run";
    }
    return "";
  }

  bool PassesWithout(const std::string& scenario) {
    const auto [known, is_new] = passes_.try_emplace(scenario, false);
    if (is_new) known->second = Passes(scenario, "");
    return known->second;
  }

  bool WriteJson() const {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const Row& row : rows_) {
      json.push_back({{"rule", RuleOf(*row.mutant)},
                      {"switch", row.mutant->id},
                      {"what", row.mutant->what},
                      {"clusters", row.clusters},
                      {"scenario", row.scenario},
                      {"why", row.mutant->why}});
    }
    return WriteText(mode_.json, absl::StrCat(json.dump(2), "\n"));
  }

  bool WriteMarkdown() const {
    std::string text =
        "# Bug switches\n\n"
        "Each breaks one rule; the scenario passes, and fails with the switch on. In whole "
        "clusters:\n"
        "the seed that noticed it or how many did not, when that was last tried ([TESTING.md]("
        "TESTING.md),\n\"Bug switches\"). Made by `ring-sim --mutants --no-clusters --table "
        "docs/MUTANTS.md`.\n\n"
        "| rule | switch | with it | in whole clusters | directed scenario |\n"
        "|---|---|---|---|---|\n";
    for (const Row& row : rows_) {
      const MutantCase& mutant = *row.mutant;
      absl::StrAppend(&text, "| ", RuleOf(mutant), " | ", mutant.id, " | ", mutant.what, " | ",
                      row.clusters, *mutant.why != '\0' ? ": " : "", mutant.why, " | ",
                      row.scenario.empty() ? "" : absl::StrCat("`", row.scenario, "`"), " |\n");
    }
    absl::StrAppend(&text, "\n| rule | why no switch can break it |\n|---|---|\n");
    for (const RuleWithout& rule : RulesWithout())
      absl::StrAppend(&text, "| ", rule.rule, " | ", rule.why, " |\n");
    return WriteText(mode_.table, text);
  }

  const MutantMode& mode_;
  std::vector<Row> rows_;
  std::map<std::string, bool> passes_;  // scenarios, without a switch
  int wrong_ = 0;
};

// One, or two with '+' between them; said where there is none of a name.
bool IsKnown(const std::string& id) {
  for (const absl::string_view one : absl::StrSplit(id, absl::MaxSplits('+', 1))) {
    const bool known = std::any_of(MutantCases().begin(), MutantCases().end(),
                                   [one](const MutantCase& row) { return one == row.id; });
    if (known) continue;
    PrintError("ring-sim", absl::StrCat("--mutant=", id, ": no bug switch of this name: ",
                                        "tools/ring-sim/mutant_cases*.cc list them"));
    return false;
  }
  return true;
}

}  // namespace

bool TurnOn(const std::string& id, bool probes) {
  if (!IsKnown(id)) return false;
  static std::string ids[2];
  ids[0] = id.substr(0, id.find('+'));
  ids[1] = ids[0].size() < id.size() ? id.substr(ids[0].size() + 1) : "";
  SetMutant(ids[0].c_str(), ids[1].c_str(), probes);
  return true;
}

int RunMutants(const MutantMode& mode) {
  Table table(mode);
  bool found = mode.only.empty();
  for (const MutantCase& mutant : MutantCases()) {
    if (!mode.only.empty() && mode.only != mutant.id) continue;
    found = true;
    table.Add(mutant);
  }
  if (!found) {
    if (!IsKnown(mode.only)) return 2;
    // Any two may be on together, as an experiment.
    table.Add({mode.only.c_str(), "an experiment", {}});
  }
  return table.Finish();
}

}  // namespace ring::tools

#endif
