#include "tools/ringctl/watch.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>

#include "tools/common/interrupt.h"

namespace ring::tools {
namespace {

// Whether the whole time passed.
bool Pause(double seconds) {
  timespec left{
      static_cast<time_t>(seconds),
      static_cast<long>((seconds - static_cast<double>(static_cast<time_t>(seconds))) * 1e9)};
  while (!Interrupted() && nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
  return !Interrupted();
}

}  // namespace

void AddWatch(CLI::App* command, const char* flag, const char* help, WatchOptions* watch) {
  command->add_flag(flag, watch->on, help);
  command->add_option("--interval", watch->interval_s, "Seconds between two rounds (default 1)")
      ->check(CLI::Range(0.05, 3600.0))
      ->type_name("SECONDS")
      ->needs(flag);
  command->add_option("--count", watch->count, "End after so many rounds (default: Ctrl-C)")
      ->check(CLI::Range(1, 1'000'000'000))
      ->type_name("N")
      ->needs(flag);
}

int Watch(const WatchOptions& watch, bool clear, absl::FunctionRef<int()> show) {
  if (!watch.on) return show();
  CatchInterrupts();
  const bool screen = clear && isatty(STDOUT_FILENO) == 1;
  int status = kExitOk;
  for (int round = 1; !Interrupted(); ++round) {
    if (screen) std::printf("\033[H\033[2J");
    status = show();
    std::fflush(stdout);
    if (round == watch.count || !Pause(watch.interval_s)) break;
  }
  return status;
}

}  // namespace ring::tools
