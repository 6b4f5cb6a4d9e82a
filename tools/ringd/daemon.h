// tools/ringd/daemon.h — from a command line to a serving process, and back to nothing.
//
// What:      RunDaemon: reads the configuration, starts the host and the admin service, prints the
//            ready line, waits for SIGINT or SIGTERM, stops. Gives the process's exit status.
// Threads:   call it on the main thread, before any other exists: it blocks the two signals, and
//            threads inherit that.
// Errors:    printed on stderr; status 2 for configuration, 1 for the rest.
#ifndef RING_TOOLS_RINGD_DAEMON_H_
#define RING_TOOLS_RINGD_DAEMON_H_

#include <string>

namespace ring::tools {

struct DaemonOptions {
  bool embedded = false;
  std::string config_path;
  std::string node_name;
  bool added = false;  // the configuration does not name it, the cluster does
  int data_port = 0;
  int admin_port = 0;
  std::string admin_token_file;  // embedded; else the configuration says it
  int reactor_count = 1;
  bool hints = false;
};

int RunDaemon(const DaemonOptions& options);

}  // namespace ring::tools

#endif  // RING_TOOLS_RINGD_DAEMON_H_
