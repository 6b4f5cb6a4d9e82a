// tools/common/progress.h — a progress bar for long work, on terminals only.
//
// What:      Progress: label, bar, count, rate and time left on one line of stderr; nothing at all
//            when stderr is no terminal or the bar is switched off, so that logs stay readable.
// Threads:   thread-compatible.
// Errors:    none.
// Cost:      Set reads the clock; it draws at most ten times a second.
#ifndef RING_TOOLS_COMMON_PROGRESS_H_
#define RING_TOOLS_COMMON_PROGRESS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace ring::tools {

class Progress {
 public:
  Progress(absl::string_view label, std::uint64_t total, bool enabled = true);
  ~Progress();  // as Finish
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Set(std::uint64_t done);
  void Advance(std::uint64_t count = 1) { Set(done_ + count); }
  // For work whose size becomes known on the way.
  void set_total(std::uint64_t total) { total_ = total; }
  // Takes the line away.
  void Finish();

 private:
  void Draw(std::uint64_t now_ns);

  std::string label_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  std::uint64_t start_ns_;
  std::uint64_t drawn_ns_ = 0;
  bool enabled_;
  bool visible_ = false;
};

}  // namespace ring::tools

#endif  // RING_TOOLS_COMMON_PROGRESS_H_
