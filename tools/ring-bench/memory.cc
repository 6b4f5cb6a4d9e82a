// ring-bench memory: resident bytes for each memgest, beside the bytes that were stored.
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ring/base/status.h"
#include "tools/common/size_option.h"
#include "tools/ring-bench/context.h"
#include "tools/ring-bench/load.h"
#include "tools/ring-bench/target.h"

namespace ring::bench {
namespace {

struct MemoryOptions {
  std::vector<std::string> memgests = {"REP1", "REP2", "REP3", "SRS21", "SRS31", "SRS32"};
  std::size_t value_size = 1024;
  std::uint64_t key_count = 100'000;
  int idle_seconds = 5;
};

std::uint64_t ProcessResidentBytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

double ProcessorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

// A cluster that nobody asks for anything, in this process.
absl::StatusOr<Row> MeasureIdle(const MemoryOptions& options) {
  RING_ASSIGN_OR_RETURN(const std::unique_ptr<Target> target, Target::Start({}));
  std::this_thread::sleep_for(std::chrono::seconds(1));  // connections are made meanwhile
  const double before = ProcessorSeconds();
  const auto start = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::seconds(options.idle_seconds));
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  Row row;
  row["process"] = "embedded cluster, idle";
  row["resident_bytes"] = ProcessResidentBytes();
  row["core_percent"] = 100 * (ProcessorSeconds() - before) / passed.count();
  return row;
}

absl::StatusOr<node::MemgestStats> StatsOf(node::AdminPort& admin, MemgestId id) {
  RING_ASSIGN_OR_RETURN(const node::ClusterStats stats, admin.GetStats());
  for (const node::MemgestStats& memgest : stats.memgests) {
    if (memgest.id == id) return memgest;
  }
  return node::MemgestStats{.id = id};
}

// Its own cluster, so that nothing else grows meanwhile.
absl::StatusOr<Row> MeasureMemgest(const std::string& name, std::uint16_t space,
                                   const MemoryOptions& options, bool progress) {
  RING_ASSIGN_OR_RETURN(const std::unique_ptr<Target> target, Target::Start({}));
  RING_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, target->NewClient(64));
  RING_ASSIGN_OR_RETURN(const MemgestId id, client->ResolveMemgest(name));
  const protocol::MemgestDescriptor* descriptor = (*target->admin()->GetView())->FindMemgest(id);
  if (descriptor == nullptr) return absl::NotFoundError(absl::StrCat("memgest=", name));
  const double factor = descriptor->StorageOverhead();
  const std::uint64_t before = ProcessResidentBytes();
  RING_RETURN_IF_ERROR(Load(client.get(), absl::StrCat("loading ", name),
                            {.memgest = id,
                             .key_space = space,
                             .key_count = options.key_count,
                             .value_size = options.value_size,
                             .progress = progress}));
  RING_ASSIGN_OR_RETURN(const node::MemgestStats stats, StatsOf(*target->admin(), id));
  const std::uint64_t after = ProcessResidentBytes();
  const auto logical = static_cast<double>(options.key_count * options.value_size);
  Row row;
  row["memgest"] = name;
  row["keys"] = stats.keys;
  row["logical_bytes"] = stats.logical_bytes;
  row["slot_bytes"] = stats.slot_bytes;
  row["resident_bytes"] = stats.resident_bytes;
  row["scheme_ratio"] = factor;
  row["resident/logical_ratio"] = static_cast<double>(stats.resident_bytes) / logical;
  row["resident/ideal_ratio"] = static_cast<double>(stats.resident_bytes) / (logical * factor);
  row["process grew_bytes"] = after - std::min(before, after);
  row["process/ideal_ratio"] =
      static_cast<double>(after - std::min(before, after)) / (logical * factor);
  return row;
}

absl::Status RunMemory(const MemoryOptions& options, Context* context) {
  RING_ASSIGN_OR_RETURN(const Row idle, MeasureIdle(options));
  context->report.AddSection("idle", {idle});
  std::vector<Row> rows;
  std::uint16_t space = 0;
  for (const std::string& name : options.memgests) {
    RING_ASSIGN_OR_RETURN(const Row row, MeasureMemgest(name, ++space, options, context->progress));
    rows.push_back(row);
  }
  context->report.AddSection(
      absl::StrFormat("memory: %d keys of %d B each, ideal = logical bytes x scheme",
                      options.key_count, options.value_size),
      rows);
  return absl::OkStatus();
}

}  // namespace

void AddMemoryCommand(CLI::App& app, Context* context) {
  auto options = std::make_shared<MemoryOptions>();
  CLI::App* command = app.add_subcommand(
      "memory", "Resident bytes against logical bytes x scheme, by memgest, each in a new cluster");
  command->add_option("--memgest", options->memgests, "Memgests")
      ->delimiter(',')
      ->capture_default_str();
  tools::AddSizeOption(command, "--value-size", options->value_size, "Bytes")
      ->check(CLI::Range(1, 16 << 20))
      ->capture_default_str();
  command->add_option("--key-count", options->key_count, "Keys")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--idle-seconds", options->idle_seconds, "How long the idle cluster is watched")
      ->check(CLI::Range(1, 600))
      ->capture_default_str();
  command->footer(
      "resident counts the heaps of coordinators, replicas and parities, as the cluster reports\n"
      "them; process grew also counts metadata, tables and logs that were first touched.");
  command->callback([options, context] { context->status = RunMemory(*options, context); });
}

}  // namespace ring::bench
