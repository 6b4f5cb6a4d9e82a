#include "tools/ring-sim/mutant_mode.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "ring/base/mutant.h"
#include "tests/sim/sim_run.h"

namespace ring::tools {

#ifndef RING_MUTANTS

int RunMutants(const MutantMode&) {
  std::fprintf(stderr, "ring-sim: no bug switches in this build: cmake --preset mutants\n");
  return 2;
}

#else

namespace {

enum class Expected { kKilled, kSurvives };

struct MutantCase {
  const char* id;
  const char* what;  // the switch does
  Expected expected = Expected::kKilled;
};

constexpr MutantCase kCases[] = {
    {"none", "nothing", Expected::kSurvives},
    {"weak-hash", "keys have four hash values, and are compared", Expected::kSurvives},
    {"V1", "versions are counted for each key"},
    {"V3", "a lower version that commits later puts the higher one away"},
    {"V4", "who waits for a version is forgotten when another came above it"},
    {"V5", "the condition of a large put is not looked at in its last step"},
    {"V6", "a slot is freed while an answer is sent from it"},
    {"V8", "equal hashes are taken for equal keys"},
    {"G1", "every lower version is collected"},
    {"G2", "a slot is used again before all members have what it held"},
    {"G4", "a tombstone goes into the weakest memgest"},
    {"G5", "a tombstone goes while lower versions are there"},
    {"G7", "a large move does not see that a newer version came"},
    {"G9", "a move to where the key is makes a version"},
    {"E5", "a ring is overrun"},
    {"E5-share", "members do not hear of the commit position"},
    {"S2", "blocks are compared with a parity of another moment"},
    {"S3", "a freed slot is zeroed without a delta"},
    {"S8", "every block of a row has the coefficient of the first"},
    {"S10", "the last part of a large value is not sent"},
    {"S11", "the new bytes are in the slot before the delta is made"},
    {"S14", "an older version is overwritten in place"},
    {"X1", "a retry is executed again"},
    {"X2", "a retry of what is under way is executed again"},
    {"X3", "what was asked on a lost connection is asked again as another client"},
    {"X4", "records are dropped before their client had its answer"},
    {"X5", "a write that was sent is reported as failed when its time is over"},
    // The collection stands behind the version in the same log, and commits after it.
    {"G3", "uncommitted versions are collected", Expected::kSurvives},
    // A new coordinator waits for all who are there.
    {"E9", "members fold what is not known committed", Expected::kSurvives},
    {"step3", "one answer is enough to know where a log ends", Expected::kSurvives},
    {"V9", "a mismatch is answered from an uncommitted version"},
    {"G8", "the source of a move is collected before its copy is committed"},
    {"X2-takeover", "a coordinator that takes over knows no completion records"},
    {"step2-learner", "logs of members that were not ACTIVE are adopted, too"},
    {"step4", "the shortest log is adopted"},
    {"step5", "members are named before they have the adopted tail"},
};

struct Verdict {
  bool killed = false;
  std::uint64_t seed = 0;  // that killed it, or the last one
  std::string how;
};

// Runs seeds until one notices, and tells of each before it begins.
[[noreturn]] void RunChild(const MutantCase& mutant, const MutantMode& mode, int out) {
  constexpr unsigned kSecondsMax = 60;  // of one seed: more is a turn without an end
  SetMutant(mutant.id);
  std::FILE* const pipe = fdopen(out, "w");
  std::freopen("/dev/null", "w", stderr);
  for (std::uint64_t seed = 1; seed <= mode.budget; ++seed) {
    std::fprintf(pipe, "%llu\n", static_cast<unsigned long long>(seed));
    std::fflush(pipe);
    alarm(kSecondsMax);
    sim::RunOptions options;
    options.seed = seed;
    options.operations = mode.operations;
    options.zombies = mutant.zombies;
    const sim::RunResult run = sim::RunSeed(options);
    if (run.violations.empty()) continue;
    std::fprintf(pipe, "%s\n", run.violations[0].kind.c_str());
    std::fflush(pipe);
    _exit(1);
  }
  _exit(0);
}

Verdict RunCase(const MutantCase& mutant, const MutantMode& mode) {
  int ends[2];
  Verdict verdict;
  if (pipe(ends) != 0) return verdict;
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    RunChild(mutant, mode, ends[1]);
  }
  close(ends[1]);
  std::FILE* const in = fdopen(ends[0], "r");
  char line[128];
  while (std::fgets(line, sizeof(line), in) != nullptr) {
    line[std::strcspn(line, "\n")] = '\0';
    unsigned long long seed = 0;
    if (std::sscanf(line, "%llu", &seed) == 1) {
      verdict.seed = seed;
    } else {
      verdict.how = line;
    }
  }
  std::fclose(in);
  int status = 0;
  waitpid(child, &status, 0);
  verdict.killed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  if (verdict.killed && verdict.how.empty())
    verdict.how = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "hang" : "invariant";
  return verdict;
}

}  // namespace

int RunMutants(const MutantMode& mode) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  int wrong = 0;
  int killed = 0;
  int count = 0;
  for (const MutantCase& mutant : kCases) {
    if (!mode.only.empty() && mode.only != mutant.id) continue;
    const Verdict verdict = RunCase(mutant, mode);
    const bool as_expected = verdict.killed == (mutant.expected == Expected::kKilled);
    wrong += as_expected ? 0 : 1;
    killed += verdict.killed ? 1 : 0;
    ++count;
    char seed[64] = "survived";
    if (verdict.killed) {
      std::snprintf(seed, sizeof(seed), "killed by seed %llu, %s",
                    static_cast<unsigned long long>(verdict.seed), verdict.how.c_str());
    }
    std::printf("%-9s %s: %s%s\n", mutant.id, mutant.what, seed, as_expected ? "" : "  <-- WRONG");
    std::fflush(stdout);
    json.push_back({{"rule", mutant.id},
                    {"switch", mutant.what},
                    {"killed", verdict.killed},
                    {"seeds", verdict.seed},
                    {"by", verdict.how}});
  }
  std::printf("switches=%d killed=%d not as expected=%d budget=%llu seeds\n", count, killed, wrong,
              static_cast<unsigned long long>(mode.budget));
  if (!mode.json.empty()) {
    if (std::FILE* const file = std::fopen(mode.json.c_str(), "w"); file != nullptr) {
      std::fprintf(file, "%s\n", json.dump(2).c_str());
      std::fclose(file);
    }
  }
  return wrong == 0 ? 0 : 1;
}

#endif

}  // namespace ring::tools
