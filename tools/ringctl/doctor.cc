// ringctl doctor: whether this machine is fit for Ring, or for one node of a configuration.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tools/common/format.h"
#include "tools/ringctl/doctor/checks.h"
#include "tools/ringctl/options.h"
#include "tools/ringctl/output.h"

namespace ring::tools {
namespace {

struct DoctorOptions {
  std::string config;
  std::string node;
  std::string root;
  int reactors = 1;
  bool added = false;
};

// A file that is refused is a finding: the machine is looked at all the same.
Report Look(const DoctorOptions& options) {
  Needs needs;
  needs.reactors = options.reactors;
  std::optional<Finding> refused;
  if (!options.config.empty()) {
    const auto config = node::LoadNodeConfig(
        options.config, options.node, options.added ? node::SelfIs::kAdded : node::SelfIs::kNamed);
    if (config.ok()) {
      needs = options.added ? NeedsOfAdded(*config, options.reactors)
                            : NeedsOf(*config, options.reactors);
    } else {
      refused = {"configuration", Level::kFail, std::string(config.status().message()),
                 absl::IsNotFound(config.status()) ? "give the path of a configuration"
                                                   : absl::StrCat("edit ", options.config)};
    }
  }
  Report report;
  if (refused.has_value()) {
    report.Add(refused->level, refused->check, refused->found, refused->remedy);
  } else if (!options.config.empty()) {
    report.Ok("configuration", options.config);
  }
  const Report machine = Examine(ReadSystem(options.root), needs);
  for (const Finding& one : machine.findings()) {
    report.Add(one.level, one.check, one.found, one.remedy);
  }
  return report;
}

void PrintTable(const Report& report) {
  Table table({"CHECK", "LEVEL", "FOUND"});
  table.AlignLeft(1);
  table.AlignLeft(2);
  for (const Finding& one : report.findings()) {
    bool first = true;
    for (absl::string_view line : absl::StrSplit(one.found, '\n')) {
      table.AddRow({first ? one.check : "", first ? std::string(LevelName(one.level)) : "",
                    ShowBytes(line)});
      first = false;
    }
  }
  std::printf("%s", table.ToString().c_str());
  if (report.worst() == Level::kOk) return;
  std::printf("\nWhat mends it:\n");
  for (const Finding& one : report.findings()) {
    if (one.remedy.empty()) continue;
    std::printf("  %s %s: %s\n", std::string(LevelName(one.level)).c_str(), one.check.c_str(),
                ShowBytes(one.remedy).c_str());
  }
}

void PrintReport(const Report& report) {
  nlohmann::json findings = nlohmann::json::array();
  for (const Finding& one : report.findings()) {
    nlohmann::json out = {{"check", one.check}, {"level", std::string(LevelName(one.level))}};
    SetBytes(&out, "remedy", one.remedy);
    SetBytes(&out, "found", one.found);
    findings.push_back(out);
  }
  PrintJson({{"level", std::string(LevelName(report.worst()))}, {"findings", findings}});
}

int Run(const Options& options, const DoctorOptions& doctor) {
  const Report report = Look(doctor);
  if (options.json) {
    PrintReport(report);
  } else {
    PrintTable(report);
  }
  return report.worst() == Level::kFail ? kExitRefused : kExitOk;
}

}  // namespace

void AddDoctor(CLI::App& app, Invocation* invocation) {
  const auto doctor = std::make_shared<DoctorOptions>();
  CLI::App* sub = app.add_subcommand(
      "doctor", "Say whether this machine is fit for Ring. Exit status: 0 yes, 1 something FAILs");
  CLI::Option* config =
      sub->add_option("--config", doctor->config, "Judge by what this configuration asks for")
          ->type_name("FILE");
  CLI::Option* node = sub->add_option("--node", doctor->node, "Which of FILE's [[nodes]] this is")
                          ->type_name("NAME")
                          ->needs(config);
  sub->add_flag("--added", doctor->added,
                "NAME is not in FILE: ringctl node add told the cluster of it")
      ->needs(config)
      ->needs(node);
  sub->add_option("--reactors", doctor->reactors, "As of ringd (default 1)")
      ->type_name("N")
      ->check(CLI::Range(1, 256));
  sub->add_option("--root", doctor->root, "Where /proc, /sys and /dev are (default: /)")
      ->type_name("DIR");
  sub->callback([=] { invocation->run = [=] { return Run(invocation->options, *doctor); }; });
}

}  // namespace ring::tools
