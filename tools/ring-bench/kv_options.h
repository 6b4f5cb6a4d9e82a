// tools/ring-bench/kv_options.h — what `ring-bench kv` is asked for.
//
// What:      KvOptions, as the command line gives them.
// Units:     bytes, seconds, operations a second.
// Ownership: values; AddKvOptions: the options outlive the command.
// Threads:   value type.
// Errors:    CLI::ValidationError, for what does not fit together.
#ifndef RING_TOOLS_RING_BENCH_KV_OPTIONS_H_
#define RING_TOOLS_RING_BENCH_KV_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/ring-bench/target.h"

namespace ring::bench {

struct KvOptions {
  std::vector<std::string> memgests = {"REP1", "REP3", "SRS32"};
  std::vector<std::string> operations = {"put", "get"};
  double read_ratio = 0.95;
  std::size_t value_size = 1024;
  std::uint64_t key_count = 100'000;
  std::size_t clients = 1;
  std::size_t threads = 1;
  std::size_t pipeline = 1;
  double seconds = 1;
  int rounds = 3;
  std::string distribution = "uniform";
  double rate = 0;
  bool floor = false;
  bool count_calls = false;
  std::vector<std::string> admin;  // of a running cluster, whose calls are counted
  std::string admin_token_file;
  std::vector<std::string> fences = {"lease"};
  std::vector<std::string> encodes = {"host"};
  TargetOptions target;
};

void AddKvOptions(CLI::App* command, KvOptions* options);
// Once all of them are known.
void CheckKvOptions(const KvOptions& options);

}  // namespace ring::bench

#endif  // RING_TOOLS_RING_BENCH_KV_OPTIONS_H_
