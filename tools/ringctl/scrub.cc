// ringctl scrub: compares all replicas and parities with the data, with a progress bar.
#include <cstdio>
#include <string>

#include "tools/common/format.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"
#include "tools/ringctl/admin_connect.h"
#include "tools/ringctl/output.h"

namespace ring::tools {
namespace {

int Run(const Options& options) {
  const auto client = ConnectAdmin(options);
  if (!client.ok()) return FailToConnect(options, In("scrub", client.status()));
  Progress bar("scrub", 0);
  const auto report = (*client)->Scrub([&bar](const node::ScrubProgress& progress) {
    bar.set_total(progress.total);
    bar.Set(progress.checked);
    return true;
  });
  bar.Finish();
  if (!report.ok()) return Fail(options, In("scrub", report.status()));
  if (options.json) {
    nlohmann::json out = {{"values_checked", report->values_checked},
                          {"replicas_checked", report->replicas_checked},
                          {"rows_checked", report->rows_checked},
                          {"mismatches", report->mismatches}};
    SetBytes(&out, "details", report->details);
    PrintJson(out);
  } else {
    for (const std::string& detail : report->details) {
      PrintError("ringctl", ShowBytes(detail));
    }
    std::printf("scrubbed values=%llu replicas=%llu parity_rows=%llu mismatches=%llu\n",
                static_cast<unsigned long long>(report->values_checked),
                static_cast<unsigned long long>(report->replicas_checked),
                static_cast<unsigned long long>(report->rows_checked),
                static_cast<unsigned long long>(report->mismatches));
  }
  return report->mismatches == 0 ? kExitOk : kExitRefused;
}

}  // namespace

void AddScrub(CLI::App& app, Invocation* invocation) {
  CLI::App* sub = AddAdminCommand(app, kScrubCommand);
  sub->callback([=] { invocation->run = [=] { return Run(invocation->options); }; });
}

}  // namespace ring::tools
