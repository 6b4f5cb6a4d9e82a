#include "tools/common/interrupt.h"

#include <csignal>

namespace ring::tools {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void OnSignal(int) { interrupted = 1; }

}  // namespace

void CatchInterrupts() {
  struct sigaction action {};
  action.sa_handler = OnSignal;                      // without SA_RESTART: it ends a pause
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // another one ends a call that takes too long
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool Interrupted() { return interrupted != 0; }

}  // namespace ring::tools
