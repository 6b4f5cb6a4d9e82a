// ring/base/log.h — records for people.
//
// What:      RING_LOG(INFO|WARNING|ERROR) << "what key=value": one line on stderr, or to the sink.
//            ERROR means that a human must look; WARNING is degraded but handled; INFO is a change
//            of role or view. Nothing on the put/get path logs.
// Threads:   any; a record is written with one system call. A sink is called by the thread that
//            logs, possibly by several at once.
// Errors:    none: a record that cannot be written is lost.
// Cost:      a dropped record costs one relaxed load; its text is not evaluated.
#ifndef RING_BASE_LOG_H_
#define RING_BASE_LOG_H_

#include <sstream>

#include "absl/strings/string_view.h"
#include "ring/base/check.h"

namespace ring {

enum class LogSeverity { kINFO = 0, kWARNING = 1, kERROR = 2 };

// Records below the severity are dropped. Default kINFO.
void SetMinLogSeverity(LogSeverity severity);
LogSeverity MinLogSeverity();

// Takes over the records: `line` is the whole line with its line feed. nullptr gives them back to
// stderr. A simulation fails a run on the first ERROR this way.
using LogSink = void (*)(LogSeverity severity, absl::string_view line);
void SetLogSink(LogSink sink);

namespace internal {

class LogRecord {
 public:
  LogRecord(LogSeverity severity, const char* file, int line);
  ~LogRecord();
  LogRecord(const LogRecord&) = delete;
  LogRecord& operator=(const LogRecord&) = delete;
  std::ostream& stream() { return stream_; }

 private:
  const LogSeverity severity_;
  std::ostringstream stream_;
};

}  // namespace internal
}  // namespace ring

#define RING_LOG(severity)                                                                    \
  (::ring::LogSeverity::k##severity < ::ring::MinLogSeverity())                               \
      ? (void)0                                                                               \
      : ::ring::internal::Voidify() &                                                         \
            ::ring::internal::LogRecord(::ring::LogSeverity::k##severity, __FILE__, __LINE__) \
                .stream()

#endif  // RING_BASE_LOG_H_
