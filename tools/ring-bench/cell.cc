#include "tools/ring-bench/cell.h"

#include "absl/strings/str_cat.h"

namespace ring::bench {

void Cell::AddRound(absl::Span<const LoopResult> results, double seconds) {
  std::uint64_t completed = 0;
  for (const LoopResult& result : results) {
    completed += result.completed();
    gets.Merge(result.gets);
    puts.Merge(result.puts);
    failed += result.failed;
    wrong_values += result.wrong_values;
    if (first_error.empty()) first_error = result.first_error;
  }
  operations += completed;
  rates.push_back(static_cast<double>(completed) / seconds);
}

absl::Status Cell::Verdict(absl::string_view where) const {
  if (wrong_values != 0)
    return absl::DataLossError(absl::StrCat(where, ": ", wrong_values, " gets gave a wrong value"));
  if (failed != 0) {
    return absl::AbortedError(
        absl::StrCat(where, ": ", failed, " operations failed, first: ", first_error));
  }
  return absl::OkStatus();
}

}  // namespace ring::bench
