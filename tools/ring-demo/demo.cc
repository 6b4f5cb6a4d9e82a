#include "tools/ring-demo/demo.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "api/admin/admin_client.h"
#include "api/client.h"
#include "ring/base/crc32c.h"
#include "ring/base/histogram.h"
#include "ring/base/limits.h"
#include "ring/base/status.h"
#include "ring/protocol/limits.h"
#include "tools/common/admin_token_option.h"
#include "tools/common/folder.h"
#include "tools/common/format.h"
#include "tools/common/progress.h"
#include "tools/common/ticks.h"

namespace ring::tools {
namespace {

// Key i ends in kMemgests[i % 3]; all begin in the first.
constexpr std::array<const char*, 3> kMemgests = {"REP3", "SRS32", "REP1"};

struct Place {
  Histogram puts, gets, moves;
};

class Demo {
 public:
  explicit Demo(const DemoOptions& options) : options_(options) {}
  absl::Status Run();

 private:
  absl::Status ListFiles();
  absl::Status Connect();
  absl::Status LoadAll();
  absl::Status MoveAll();
  absl::Status VerifyAll();
  absl::Status VerifyOne(std::size_t index);
  absl::Status Scrub();
  absl::StatusOr<node::ClusterStats> SettledStats();
  absl::Status PrintTable();
  Place& PlaceOf(std::size_t index) { return places_[index % places_.size()]; }

  const DemoOptions& options_;
  std::vector<FolderFile> files_;  // those that can be values
  std::uint64_t bytes_ = 0;
  std::vector<std::uint32_t> crcs_;  // of what was put, by file
  std::array<Place, kMemgests.size()> places_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<admin::AdminClient> admin_;
};

// Calls operation(), and records what it took.
template <class Operation>
auto Timed(Histogram* histogram, Operation operation) {
  const std::uint64_t start = Ticks();
  auto result = operation();
  histogram->Record(TicksToNs(Ticks() - start));
  return result;
}

absl::Status WithFile(const absl::Status& status, const FolderFile& file) {
  return absl::Status(status.code(), absl::StrCat("file=", file.path, ": ", status.message()));
}

absl::Status Demo::ListFiles() {
  RING_ASSIGN_OR_RETURN(Folder folder, ListFolder(options_.folder));
  for (FolderFile& file : folder.files) {
    std::string why;
    if (file.size > kValueSizeMax)
      why = absl::StrCat("larger than ", FormatBytes(static_cast<double>(kValueSizeMax)));
    if (file.key.size() > protocol::kKeySizeMax)
      why = absl::StrCat("path longer than ", protocol::kKeySizeMax);
    if (!why.empty()) {
      std::printf("skipped %s: %s\n", file.path.c_str(), why.c_str());
      continue;
    }
    bytes_ += file.size;
    files_.push_back(std::move(file));
  }
  return absl::OkStatus();
}

absl::Status Demo::Connect() {
  ClientOptions options;
  options.seeds = options_.seeds;
  options.deadline = absl::Seconds(60);
  RING_ASSIGN_OR_RETURN(client_, Client::Connect(options));
  admin::AdminClientOptions admin_options;
  admin_options.addresses = options_.admin;
  RING_ASSIGN_OR_RETURN(admin_options.token, TokenOf(options_.admin_token_file));
  RING_ASSIGN_OR_RETURN(admin_, admin::AdminClient::Create(admin_options));
  // Before anything is put: what needs it comes last.
  return admin_->GetClusterView().status();
}

absl::Status Demo::LoadAll() {
  Progress progress("put into REP3", bytes_, options_.progress);
  PutOptions put;
  put.memgest = kMemgests[0];
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const FolderFile& file = files_[i];
    RING_ASSIGN_OR_RETURN(const std::string bytes, ReadWhole(file.path, kValueSizeMax));
    crcs_.push_back(Crc32c(bytes.data(), bytes.size()));
    const absl::Status status =
        Timed(&places_[0].puts, [&] { return client_->Put(file.key, bytes, put); }).status();
    if (!status.ok()) return WithFile(status, file);
    progress.Advance(bytes.size());
  }
  return absl::OkStatus();
}

absl::Status Demo::MoveAll() {
  Progress progress("move to SRS32 and REP1", files_.size(), options_.progress);
  for (std::size_t i = 0; i < files_.size(); ++i) {
    progress.Advance();
    const char* memgest = kMemgests[i % kMemgests.size()];
    if (i % kMemgests.size() == 0) continue;
    const absl::Status status =
        Timed(&PlaceOf(i).moves, [&] { return client_->Move(files_[i].key, memgest); }).status();
    if (!status.ok()) return WithFile(status, files_[i]);
  }
  return absl::OkStatus();
}

absl::Status Demo::VerifyOne(std::size_t index) {
  const FolderFile& file = files_[index];
  GetOptions get;
  get.value_size_hint = file.size;
  const absl::StatusOr<GetResult> result =
      Timed(&PlaceOf(index).gets, [&] { return client_->Get(file.key, get); });
  if (!result.ok()) return WithFile(result.status(), file);
  const char* memgest = kMemgests[index % kMemgests.size()];
  if (client_->MemgestName(result->memgest) != memgest) {
    return WithFile(
        absl::DataLossError(absl::StrCat("it is in memgest=", client_->MemgestName(result->memgest),
                                         " and not in ", memgest)),
        file);
  }
  RING_ASSIGN_OR_RETURN(const std::string bytes, ReadWhole(file.path, kValueSizeMax));
  if (result->value == bytes) return absl::OkStatus();
  if (Crc32c(result->value.data(), result->value.size()) == crcs_[index]) {
    return WithFile(absl::FailedPreconditionError("the file changed while the demo ran"), file);
  }
  return WithFile(absl::DataLossError("the value differs from the file"), file);
}

absl::Status Demo::VerifyAll() {
  Progress progress("get and compare", bytes_, options_.progress);
  for (std::size_t i = 0; i < files_.size(); ++i) {
    RING_RETURN_IF_ERROR(VerifyOne(i));
    progress.Advance(files_[i].size);
  }
  return absl::OkStatus();
}

absl::Status Demo::Scrub() {
  Progress progress("scrub", 1, options_.progress);
  const auto show = [&progress](const node::ScrubProgress& state) {
    progress.set_total(state.total);
    progress.Set(state.checked);
    return true;
  };
  RING_ASSIGN_OR_RETURN(const node::ScrubReport report, admin_->Scrub(show));
  progress.Finish();
  std::printf("scrub: %s values, %s replicas, %s parity rows checked, %llu mismatches\n",
              FormatCount(static_cast<double>(report.values_checked)).c_str(),
              FormatCount(static_cast<double>(report.replicas_checked)).c_str(),
              FormatCount(static_cast<double>(report.rows_checked)).c_str(),
              static_cast<unsigned long long>(report.mismatches));
  // An empty value has no bytes to check.
  const auto count = static_cast<std::uint64_t>(
      std::count_if(files_.begin(), files_.end(), [](const FolderFile& f) { return f.size != 0; }));
  if (report.mismatches == 0 && report.values_checked < count) {
    return absl::DataLossError(
        absl::StrCat("scrub checked values=", report.values_checked, " of at least ", count));
  }
  if (report.mismatches == 0) return absl::OkStatus();
  for (const std::string& detail : report.details) std::printf("  %s\n", detail.c_str());
  return absl::DataLossError(absl::StrCat("scrub found mismatches=", report.mismatches));
}

std::string Latency(const Histogram& histogram) {
  if (histogram.count() == 0) return "-";
  return absl::StrCat(FormatNs(static_cast<double>(histogram.Percentile(50))), " / ",
                      FormatNs(static_cast<double>(histogram.Percentile(99))));
}

// Memory that the moves left behind is given back a moment later, when nothing else is to be done.
absl::StatusOr<node::ClusterStats> Demo::SettledStats() {
  constexpr int kSamplesMax = 30;
  constexpr int kSamplesMin = 8;  // two periods of ring/coordinator/release.cc
  std::uint64_t before = 0;
  for (int sample = 0;; ++sample) {
    RING_ASSIGN_OR_RETURN(node::ClusterStats stats, admin_->GetStats());
    std::uint64_t resident = 0;
    for (const node::MemgestStats& memgest : stats.memgests) resident += memgest.resident_bytes;
    if (sample >= kSamplesMax || (sample >= kSamplesMin && resident == before)) return stats;
    before = resident;
    absl::SleepFor(absl::Milliseconds(100));
  }
}

absl::Status Demo::PrintTable() {
  RING_ASSIGN_OR_RETURN(const node::ClusterStats stats, SettledStats());
  Table table({"memgest", "keys", "logical", "resident", "overhead", "ideal", "put p50 / p99",
               "get p50 / p99", "move into p50 / p99"});
  for (std::size_t i = 0; i < kMemgests.size(); ++i) {
    const Place& place = places_[i];
    RING_ASSIGN_OR_RETURN(const protocol::MemgestDescriptor descriptor,
                          admin_->GetMemgestDescriptor(kMemgests[i]));
    node::MemgestStats found;
    for (const node::MemgestStats& memgest : stats.memgests) {
      if (memgest.id == descriptor.id) found = memgest;
    }
    const double logical = static_cast<double>(std::max<std::uint64_t>(found.logical_bytes, 1));
    table.AddRow({absl::StrCat(kMemgests[i], " ", descriptor.SchemeName()),
                  absl::StrCat(found.keys), FormatBytes(static_cast<double>(found.logical_bytes)),
                  FormatBytes(static_cast<double>(found.resident_bytes)),
                  absl::StrFormat("%.2fx", static_cast<double>(found.resident_bytes) / logical),
                  absl::StrFormat("%.2fx", descriptor.StorageOverhead()), Latency(place.puts),
                  Latency(place.gets), Latency(place.moves)});
  }
  std::printf("\n%s", table.ToString().c_str());
  std::printf("overhead: resident / logical; ideal: what the scheme itself stores\n");
  return absl::OkStatus();
}

absl::Status Demo::Run() {
  RING_RETURN_IF_ERROR(ListFiles());
  if (files_.empty()) {
    return absl::NotFoundError(absl::StrCat("folder=", options_.folder, " holds no file to load"));
  }
  RING_RETURN_IF_ERROR(Connect());
  std::printf("loading %zu files, %s, from %s\n", files_.size(),
              FormatBytes(static_cast<double>(bytes_)).c_str(), options_.folder.c_str());
  RING_RETURN_IF_ERROR(LoadAll());
  RING_RETURN_IF_ERROR(MoveAll());
  RING_RETURN_IF_ERROR(VerifyAll());
  std::printf("verified: %zu values equal their files, byte by byte\n", files_.size());
  RING_RETURN_IF_ERROR(Scrub());
  return PrintTable();
}

}  // namespace

absl::Status RunDemo(const DemoOptions& options) { return Demo(options).Run(); }

}  // namespace ring::tools
