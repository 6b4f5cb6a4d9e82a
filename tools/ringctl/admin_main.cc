// ringctl-admin: the commands of ringctl that need gRPC. People call it as ringctl.
#include "absl/time/time.h"
#include "api/admin/admin_client.h"
#include "tools/ringctl/options.h"

int main(int argc, char** argv) {
  using namespace ring::tools;
  Invocation invocation;
  invocation.options.timeout_s = 30;  // a drain takes up to ten seconds, and may be tried again
  CLI::App app{"Runs a Ring cluster.", "ringctl"};
  AddOptions(app,
             {absl::ToDoubleSeconds(ring::admin::kDeadlineMax),
              "Default 30 (memgest delete --force 60, scrub without end), at most 60"},
             &invocation.options);
  AddMemgest(app, &invocation);
  AddCluster(app, &invocation);
  AddHealth(app, &invocation);
  AddEvents(app, &invocation);
  AddNode(app, &invocation);
  AddFault(app, &invocation);
  AddStats(app, &invocation);
  AddScrub(app, &invocation);
  AddAcceptLoss(app, &invocation);
  return ParseAndRun(app, argc, argv, &invocation);
}
