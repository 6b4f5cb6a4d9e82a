#include "tools/common/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/common/format.h"
#include "tools/common/ticks.h"

namespace ring::tools {
namespace {

constexpr std::uint64_t kDrawIntervalNs = 100'000'000;
constexpr int kBarWidth = 28;

}  // namespace

Progress::Progress(absl::string_view label, std::uint64_t total, bool enabled)
    : label_(label),
      total_(total),
      start_ns_(MonotonicNs()),
      enabled_(enabled && isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() { Finish(); }

void Progress::Set(std::uint64_t done) {
  done_ = done;
  if (!enabled_) return;
  const std::uint64_t now = MonotonicNs();
  if (now - drawn_ns_ < kDrawIntervalNs) return;
  drawn_ns_ = now;
  Draw(now);
}

void Progress::Draw(std::uint64_t now_ns) {
  const double share =
      total_ == 0 ? 0.0 : std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
  const int filled = static_cast<int>(share * kBarWidth);
  const double seconds = static_cast<double>(now_ns - start_ns_) * 1e-9;
  std::string line = absl::StrFormat(
      "\r%-24s [%s%s] %3.0f %%", label_, std::string(static_cast<std::size_t>(filled), '='),
      std::string(static_cast<std::size_t>(kBarWidth - filled), ' '), share * 100);
  if (seconds > 0.2 && done_ > 0) {
    const double rate = static_cast<double>(done_) / seconds;
    absl::StrAppend(&line, "  ", FormatCount(rate), "/s");
    if (total_ > done_) {
      absl::StrAppend(&line,
                      absl::StrFormat("  %.0f s left", static_cast<double>(total_ - done_) / rate));
    }
  }
  std::fprintf(stderr, "%s\033[K", line.c_str());
  std::fflush(stderr);
  visible_ = true;
}

void Progress::Finish() {
  if (!visible_) return;
  std::fprintf(stderr, "\r\033[K");
  std::fflush(stderr);
  visible_ = false;
}

}  // namespace ring::tools
