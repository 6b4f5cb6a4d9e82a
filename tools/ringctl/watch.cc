#include "tools/ringctl/watch.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>

namespace ring::tools {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void OnSignal(int) { interrupted = 1; }

// Whether the whole time passed.
bool Pause(double seconds) {
  timespec left{
      static_cast<time_t>(seconds),
      static_cast<long>((seconds - static_cast<double>(static_cast<time_t>(seconds))) * 1e9)};
  while (interrupted == 0 && nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
  return interrupted == 0;
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
  struct sigaction action {};
  action.sa_handler = OnSignal;  // without SA_RESTART: it ends the pause
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  const bool screen = clear && isatty(STDOUT_FILENO) == 1;
  int status = kExitOk;
  for (int round = 1; interrupted == 0; ++round) {
    if (screen) std::printf("\033[H\033[2J");
    status = show();
    std::fflush(stdout);
    if (round == watch.count || !Pause(watch.interval_s)) break;
  }
  return status;
}

}  // namespace ring::tools
