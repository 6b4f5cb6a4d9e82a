// tools/ring-bench/report.h — what a run found, for people and as JSON.
//
// What:      Report: sections of rows. A column's key says the unit, and so how people see it:
//            ..._ns, ..._bytes, ..._per_second, ..._ratio, ..._percent. JSON has the bare numbers,
//            the machine, the build and the command line; its keys are the columns', in lower case
//            and with '_' for all that is no letter or digit.
// Threads:   thread-compatible.
// Errors:    WriteJson: kUnavailable naming the file.
#ifndef RING_TOOLS_RING_BENCH_REPORT_H_
#define RING_TOOLS_RING_BENCH_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "ring/base/histogram.h"

namespace ring::bench {

using Row = nlohmann::ordered_json;

class Report {
 public:
  Report(int argc, char** argv);
  // Prints the section as a table. The columns are the keys of the first row, in order; a row may
  // lack some. Keys that begin with '.' go to JSON only (without the point).
  void AddSection(absl::string_view title, const std::vector<Row>& rows);
  // Prints a line; JSON: "notes".
  void AddNote(absl::string_view note);
  // What ended the measurement before its end; JSON: "error".
  void SetError(const absl::Status& status) { json_["error"] = status.ToString(); }
  absl::Status WriteJson(const std::string& path) const;

 private:
  Row json_;
};

// Adds "mean_ns", "p50_ns" ... "max_ns" of a histogram of nanoseconds.
void AddLatency(const Histogram& histogram, Row* row);

// The middle one; 0 when there is none.
double Median(std::vector<double> values);

}  // namespace ring::bench

#endif  // RING_TOOLS_RING_BENCH_REPORT_H_
