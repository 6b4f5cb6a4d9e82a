#include "tools/ring-bench/kv_options.h"

#include "tools/common/admin_token_option.h"
#include "tools/common/size_option.h"

namespace ring::bench {
namespace {

// The floor's copies of values lie one behind another in a log of 256 KiB.
constexpr std::size_t kFloorValueSizeMax = 64 << 10;

void AddWorkOptions(CLI::App* command, KvOptions* options) {
  command->add_option("--memgest", options->memgests, "Memgests to compare in this run, A B A B")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--op", options->operations, "put, get, mixed")
      ->delimiter(',')
      ->check(CLI::IsMember({"put", "get", "mixed"}))
      ->capture_default_str();
  command->add_option("--read-ratio", options->read_ratio, "Share of gets in mixed")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  tools::AddSizeOption(command, "--value-size", options->value_size, "Bytes")
      ->check(CLI::Range(0, 16 << 20))
      ->capture_default_str();
  command->add_option("--key-count", options->key_count, "Keys of each memgest, loaded first")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--distribution", options->distribution, "uniform, or zipfian (0.99)")
      ->check(CLI::IsMember({"uniform", "zipfian"}))
      ->capture_default_str();
  command->add_option("--clients", options->clients, "Clients")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--threads", options->threads, "Threads that the clients share")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--pipeline", options->pipeline, "Operations under way of each client")
      ->check(CLI::Range(1, 1023))
      ->capture_default_str();
  command
      ->add_option("--rate", options->rate,
                   "Open loop: operations a second of all clients; latency counts from when an "
                   "operation was due (coordinated omission)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--seconds", options->seconds, "Of each measurement")
      ->check(CLI::Range(0.05, 3600.0))
      ->capture_default_str();
  command->add_option("--rounds", options->rounds, "Measurements of each memgest and operation")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--floor", options->floor,
                    "Also measure the memory work of each operation, and show p50 as a multiple of "
                    "it and the bare round trip");
}

}  // namespace

void AddKvOptions(CLI::App* command, KvOptions* options) {
  AddWorkOptions(command, options);
  AddTargetOptions(command, &options->target);
  command->add_flag(
      "--count-calls", options->count_calls,
      "Show the system calls of the cluster for each batch, and what its devices did for "
      "an operation; it runs in this process, or --seeds and --admin name another");
  command
      ->add_option("--admin", options->admin,
                   "Admin service of --seeds, HOST:PORT,...: for --count-calls")
      ->delimiter(',')
      ->needs("--seeds")
      ->needs("--count-calls");
  tools::AddAdminTokenFile(*command, &options->admin_token_file);
  command
      ->add_flag("--in-process", options->target.in_process,
                 "Run the cluster in this process, with --transport shm and tcp too")
      ->excludes("--seeds");
  command
      ->add_option(
          "--fence", options->fences,
          "lease, check: roles may move, and answers pass that fence; open: they stay "
          "where they are. Several are compared in this run, A B A B. Other than the default "
          "implies --in-process")
      ->delimiter(',')
      ->check(CLI::IsMember({"open", "lease", "check"}))
      ->capture_default_str()
      ->excludes("--seeds");
  command
      ->add_option("--encode", options->encodes,
                   "host, nic: who calculates the deltas of puts into coded memgests. Both are "
                   "compared in this run, A B A B. Other than the default implies --in-process")
      ->delimiter(',')
      ->check(CLI::IsMember({"host", "nic"}))
      ->capture_default_str()
      ->excludes("--seeds");
  command
      ->add_option("--encode-check", options->target.encode_check,
                   "Of so many deltas of the NIC one is calculated again and compared")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->footer(
      "sleeps/op counts voluntary context switches of this process (getrusage): a busy cluster "
      "and client have none.\nallocs/op counts operator new in this process.");
}

void CheckKvOptions(const KvOptions& options) {
  const bool fits = options.value_size > 0 && options.value_size <= kFloorValueSizeMax;
  if (options.floor && !fits)
    throw CLI::ValidationError("--floor", "is for a --value-size of 1 to 65536");
  if (options.count_calls && !options.target.seeds.empty() && options.admin.empty())
    throw CLI::ValidationError("--count-calls", "of --seeds needs their --admin, too");
}

}  // namespace ring::bench
