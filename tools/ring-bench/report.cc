#include "tools/ring-bench/report.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ring/base/check.h"
#include "tools/common/format.h"

namespace ring::bench {
namespace {

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (const std::size_t colon = line.find(": ");
        absl::StartsWith(line, "model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown";
}

// The heading without the unit that the cells already show.
std::string Heading(absl::string_view key) {
  for (const char* suffix : {"_ns", "_bytes", "_ratio", "_percent"})
    absl::ConsumeSuffix(&key, suffix);
  std::string out(key);
  if (absl::ConsumeSuffix(&key, "_per_second")) out = absl::StrCat(key, "/s");
  std::replace(out.begin(), out.end(), '_', ' ');
  return out;
}

std::string Cell(const std::string& key, const Row& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  const double number = value.get<double>();
  if (absl::EndsWith(key, "_ns")) return tools::FormatNs(number);
  if (absl::EndsWith(key, "_bytes")) return tools::FormatBytes(number);
  if (absl::EndsWith(key, "_bytes_per_second")) return tools::FormatBytes(number) + "/s";
  if (absl::EndsWith(key, "_ratio")) return absl::StrFormat("%.2fx", number);
  if (absl::EndsWith(key, "_percent")) return absl::StrFormat("%.1f %%", number);
  return tools::FormatCount(number);
}

// "all calls/batch" -> "all_calls_per_batch": what any language can name.
std::string JsonKey(absl::string_view key) {
  absl::ConsumePrefix(&key, ".");
  std::string out = absl::AsciiStrToLower(absl::StrReplaceAll(key, {{"/", "_per_"}}));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return !absl::ascii_isalnum(c); }, '_');
  RING_CHECK(!out.empty() && absl::ascii_isalpha(out[0])) << "no language can name " << out;
  return out;
}

Row ToJson(const Row& row) {
  Row out = Row::object();
  for (const auto& [key, value] : row.items()) {
    Row& place = out[JsonKey(key)];
    RING_CHECK(place.is_null()) << "two columns are called " << JsonKey(key);
    place = value;
  }
  return out;
}

}  // namespace

Report::Report(int argc, char** argv) {
  utsname system{};
  uname(&system);
  Row command = Row::array();
  for (int i = 0; i < argc; ++i) command.push_back(argv[i]);
  json_["command"] = command;
  json_["time"] = absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone());
  json_["cpu"] = CpuModel();
  json_["cores"] = std::thread::hardware_concurrency();
  json_["kernel"] = system.release;
#ifdef NDEBUG
  json_["build"] = "release";
#else
  json_["build"] = "debug";
#endif
  json_["sections"] = Row::array();
  json_["notes"] = Row::array();
}

void Report::AddSection(absl::string_view title, const std::vector<Row>& rows) {
  Row section;
  section["title"] = std::string(title);
  section["rows"] = Row::array();
  for (const Row& row : rows) section["rows"].push_back(ToJson(row));
  json_["sections"].push_back(section);
  if (rows.empty()) return;
  std::vector<std::string> keys, headings;
  for (const auto& [key, value] : rows.front().items()) {
    if (key.front() == '.') continue;
    keys.push_back(key);
    headings.push_back(Heading(key));
  }
  tools::Table table(headings);
  for (const Row& row : rows) {
    std::vector<std::string> cells;
    for (const std::string& key : keys) {
      cells.push_back(row.contains(key) ? Cell(key, row.at(key)) : "-");
    }
    table.AddRow(std::move(cells));
  }
  std::printf("\n%s\n%s", std::string(title).c_str(), table.ToString().c_str());
  std::fflush(stdout);
}

void Report::AddNote(absl::string_view note) {
  json_["notes"].push_back(std::string(note));
  std::printf("%s\n", std::string(note).c_str());
  std::fflush(stdout);
}

absl::Status Report::WriteJson(const std::string& path) const {
  std::ofstream file(path);
  // The command line may have bytes that are no text.
  file << json_.dump(2, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace)
       << '\n';
  file.close();
  if (!file) return absl::UnavailableError(absl::StrCat("file=", path, ": cannot write it"));
  return absl::OkStatus();
}

void AddLatency(const Histogram& histogram, Row* row) {
  (*row)["mean_ns"] = histogram.Mean();
  (*row)["p50_ns"] = histogram.Percentile(50);
  (*row)["p90_ns"] = histogram.Percentile(90);
  (*row)["p99_ns"] = histogram.Percentile(99);
  (*row)["p99.9_ns"] = histogram.Percentile(99.9);
  (*row)["max_ns"] = histogram.max();
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 != 0) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

}  // namespace ring::bench
