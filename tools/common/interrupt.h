// tools/common/interrupt.h — Ctrl-C as a question, for work that has to clean up behind itself.
//
// What:      CatchInterrupts: SIGINT and SIGTERM end the process no more. Interrupted: whether one
//            came.
// Threads:   any. System calls that wait are interrupted.
// Errors:    none.
#ifndef RING_TOOLS_COMMON_INTERRUPT_H_
#define RING_TOOLS_COMMON_INTERRUPT_H_

namespace ring::tools {

void CatchInterrupts();
bool Interrupted();

}  // namespace ring::tools

#endif  // RING_TOOLS_COMMON_INTERRUPT_H_
