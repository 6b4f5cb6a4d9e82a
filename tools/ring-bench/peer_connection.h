// tools/ring-bench/peer_connection.h — a small pipelined client of Redis and memcached.
//
// What:      PeerConnection: one socket with up to `pipeline` requests under way, in order.
//            RunPeer: a closed loop over several connections on this thread, the same work and
//            the same waiting (it polls, and sleeps after 50 us without news) as Ring's client.
// Units:     nanoseconds, bytes.
// Ownership: owns its socket.
// Threads:   thread-compatible.
// Errors:    kUnavailable (no connection, or it ended), kInternal (an answer that says error or is
//            none).
#ifndef RING_TOOLS_RING_BENCH_PEER_CONNECTION_H_
#define RING_TOOLS_RING_BENCH_PEER_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ring/base/histogram.h"
#include "tools/ring-bench/workload.h"

namespace ring::bench {

enum class PeerProtocol : std::uint8_t { kRedis, kMemcached };

struct PeerAddress {
  PeerProtocol protocol = PeerProtocol::kRedis;
  int port = 0;                   // of 127.0.0.1
  std::string unix_path;          // if not empty
  bool wait_for_replica = false;  // Redis: every put is a SET and a WAIT 1
};

struct PeerWork {
  bool is_get = false;
  std::uint64_t key_count = 1;
  std::size_t value_size = 1024;
  std::size_t connections = 1;
  std::size_t pipeline = 1;
  double seconds = 1;
  double warm_up_seconds = 0.1;
  std::uint64_t seed = 1;
};

class PeerConnection {
 public:
  static absl::StatusOr<std::unique_ptr<PeerConnection>> Connect(const PeerAddress& address);
  ~PeerConnection();

  void Get(const KeyName& key);
  void Put(const KeyName& key, absl::string_view value);
  // A command of its own, and its one line of answer: for preparing a server.
  absl::StatusOr<std::string> Command(absl::string_view line);
  std::size_t outstanding() const { return outstanding_; }
  // Sends what is queued, and takes answers without waiting. Gives how many requests ended.
  absl::StatusOr<std::size_t> Poll();
  int fd() const { return fd_; }

 private:
  PeerConnection(int fd, PeerAddress address) : fd_(fd), address_(std::move(address)) {}
  absl::Status Send();
  absl::StatusOr<std::size_t> TakeAnswers();
  // Bytes of the first answer in `text`; 0: not all there yet.
  absl::StatusOr<std::size_t> AnswerSize(absl::string_view text) const;

  int fd_;
  PeerAddress address_;
  std::string out_;
  std::size_t sent_ = 0;
  std::string in_;
  std::size_t taken_ = 0;
  std::size_t outstanding_ = 0;
  std::deque<std::uint8_t> answers_of_;  // answers that each request still waits for
};

struct PeerResult {
  Histogram latency;
  double seconds = 0;
};

absl::Status LoadPeer(const PeerAddress& address, const PeerWork& work);
absl::StatusOr<PeerResult> RunPeer(const PeerAddress& address, const PeerWork& work);

}  // namespace ring::bench

#endif  // RING_TOOLS_RING_BENCH_PEER_CONNECTION_H_
