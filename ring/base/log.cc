#include "ring/base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <ctime>
#include <string>

namespace ring {
namespace {
std::atomic<LogSeverity> min_severity{LogSeverity::kINFO};
std::atomic<LogSink> log_sink{nullptr};
}  // namespace

void SetMinLogSeverity(LogSeverity severity) { min_severity.store(severity); }
LogSeverity MinLogSeverity() { return min_severity.load(std::memory_order_relaxed); }
void SetLogSink(LogSink sink) { log_sink.store(sink); }

namespace internal {

LogRecord::LogRecord(LogSeverity severity, const char* file, int line) : severity_(severity) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  std::tm utc{};
  gmtime_r(&now.tv_sec, &utc);
  char stamp[32];
  const std::size_t length = std::strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &utc);
  const int millis = static_cast<int>(now.tv_nsec / 1000000);
  const char* base = std::strrchr(file, '/');
  stream_ << "IWE"[static_cast<int>(severity)] << ' ';
  stream_.write(stamp, static_cast<std::streamsize>(length));
  stream_ << '.' << millis / 100 << millis / 10 % 10 << millis % 10 << "Z "
          << (base ? base + 1 : file) << ':' << line << ' ';
}

LogRecord::~LogRecord() {
  stream_ << '\n';
  const std::string text = stream_.str();
  if (const LogSink sink = log_sink.load(); sink != nullptr) {
    sink(severity_, text);
    return;
  }
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace internal
}  // namespace ring
