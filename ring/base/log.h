// ring/base/log.h — records for people.
//
// What:      RING_LOG(INFO|WARNING|ERROR) << "what key=value"; one line on stderr. ERROR means that a human
//            must look; WARNING is degraded but handled; INFO is a change of role or view. Nothing on the
//            put/get path logs.
// Threads:   any; a record is written with one system call.
// Errors:    none.
#ifndef RING_BASE_LOG_H_
#define RING_BASE_LOG_H_

#include <sstream>

#include "ring/base/check.h"

namespace ring {

enum class LogSeverity { kINFO = 0, kWARNING = 1, kERROR = 2 };

// Records below the severity are dropped. Default kINFO.
void SetMinLogSeverity(LogSeverity severity);
LogSeverity MinLogSeverity();

namespace internal {

class LogRecord {
 public:
  LogRecord(LogSeverity severity, const char* file, int line);
  ~LogRecord();
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

}  // namespace internal
}  // namespace ring

#define RING_LOG(severity)                                                        \
  (::ring::LogSeverity::k##severity < ::ring::MinLogSeverity())                   \
      ? (void)0                                                                   \
      : ::ring::internal::Voidify() &                                             \
            ::ring::internal::LogRecord(::ring::LogSeverity::k##severity, __FILE__, __LINE__).stream()

#endif  // RING_BASE_LOG_H_
