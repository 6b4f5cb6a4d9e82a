// tools/ringctl/watch.h — a command that shows its table again and again.
//
// What:      AddWatch gives a command --watch, --interval and --count; Watch runs it once, or until
//            Ctrl-C. On a terminal each table takes the place of the one before; with --json each
//            is a line.
// Threads:   one.
// Errors:    none of its own: a round that fails is shown, and the next one is tried.
#ifndef RING_TOOLS_RINGCTL_WATCH_H_
#define RING_TOOLS_RINGCTL_WATCH_H_

#include "absl/functional/function_ref.h"
#include "tools/ringctl/options.h"

namespace ring::tools {

struct WatchOptions {
  bool on = false;
  double interval_s = 1;
  int count = 0;  // rounds; 0: until Ctrl-C
};

// `flag`: "--watch" or "--follow", with its help. The options live as long as the command.
void AddWatch(CLI::App* command, const char* flag, const char* help, WatchOptions* watch);

// Gives the exit status of the last round. clear: on a terminal, the screen before each round.
int Watch(const WatchOptions& watch, bool clear, absl::FunctionRef<int()> show);

}  // namespace ring::tools

#endif  // RING_TOOLS_RINGCTL_WATCH_H_
