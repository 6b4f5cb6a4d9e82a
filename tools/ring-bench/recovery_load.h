// tools/ring-bench/recovery_load.h — what other clients do while a node is lost.
//
// What:      RecoveryLoad: a client on a thread of its own that puts keys of all shards and gets
//            given ones at a fixed rate, times the gets, and at the end reads back whatever was
//            acknowledged, from the beginning on.
// Shape:     open loop: a get's time counts from when it was due, so that a stall is not hidden by
//            what it held back. One put of a key is under way at a time. As if on a machine of its
//            own, the thread runs before others (SCHED_FIFO) where the system allows: else its gets
//            wait for the scheduler, 4 ms where that ticks 250 times a second.
// Units:     nanoseconds since 1970, as nodes' events.
// Ownership: owns its thread; one client for each Start.
// Threads:   one that starts and stops it.
// Errors:    Stop: kDataLoss, of a value that is none of those that may be there; whatever kept it
//            from being read.
#ifndef RING_TOOLS_RING_BENCH_RECOVERY_LOAD_H_
#define RING_TOOLS_RING_BENCH_RECOVERY_LOAD_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "api/client.h"

namespace ring::bench {

struct RecoveryLoadOptions {
  std::vector<MemgestId> memgests;
  std::uint16_t first_space = 0;  // of its own keys: one key space for each memgest
  std::uint64_t key_count = 64;   // of each
  std::size_t value_size = 1024;  // at least 16
  double rate = 1000;             // operations a second, half of them gets; 0: none
};

// A key that nobody writes, with a value that tells which key it is of.
struct StaticKey {
  std::uint16_t space = 0;
  std::uint64_t index = 0;
};

class RecoveryLoad {
 public:
  using Connect = std::function<absl::StatusOr<std::unique_ptr<Client>>()>;
  struct TimedGet {
    std::int64_t due_ns = 0;
    std::int64_t took_ns = 0;
  };

  RecoveryLoad(const RecoveryLoadOptions& options, Connect connect);
  ~RecoveryLoad();

  // gets: what is read and timed.
  void Start(std::vector<StaticKey> gets);
  // Waits for what is under way, and reads back.
  absl::Status Stop();
  // Whether it could run before others. REQUIRES: stopped, as what follows.
  bool runs_first() const { return runs_first_; }
  // Of the last Start.
  const std::vector<TimedGet>& gets() const { return timed_; }
  std::uint64_t failed_gets() const { return failed_gets_; }
  // Of all: acknowledged puts, puts of which nobody knows, values read back.
  std::uint64_t acknowledged() const { return acknowledged_; }
  std::uint64_t unknown() const { return unknown_; }
  std::uint64_t verified() const { return verified_; }

 private:
  struct Key {
    std::uint16_t space = 0;
    std::uint64_t index = 0;
    MemgestId memgest;
    std::uint64_t put = 0;               // number of the last one
    std::uint64_t acknowledged = 0;      // likewise; 0: none
    std::vector<std::uint64_t> unknown;  // X5: applied, not applied, or later
    bool under_way = false;
  };
  void Run();
  void RunUntilStopped(Client* client);
  void Get(Client* client, std::int64_t due_ns);
  void Put(Client* client);
  absl::Status Verify(Client* client);
  absl::Status VerifyKey(Client* client, const Key& key);

  RecoveryLoadOptions options_;
  Connect connect_;
  std::vector<Key> keys_;
  std::vector<StaticKey> gets_;
  std::size_t next_key_ = 0;
  std::size_t next_get_ = 0;
  std::size_t under_way_ = 0;
  std::vector<TimedGet> timed_;
  std::uint64_t failed_gets_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::uint64_t unknown_ = 0;
  std::uint64_t verified_ = 0;
  absl::Status status_;
  bool runs_first_ = false;
  std::atomic<bool> stop_{false};
  std::atomic<bool> abandoned_{false};  // nobody asks what became of it
  std::thread thread_;
};

}  // namespace ring::bench

#endif  // RING_TOOLS_RING_BENCH_RECOVERY_LOAD_H_
