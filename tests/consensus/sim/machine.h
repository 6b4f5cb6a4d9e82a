// tests/consensus/sim/machine.h — the state machine of the simulation.
//
// What:      Machine: commands are (client, sequence number); one that came before has no effect
//            (10.8). Its hash tells two histories apart.
// Threads:   thread-compatible.
// Errors:    none: commands and snapshots are the simulation's own.
#ifndef RING_TESTS_CONSENSUS_SIM_MACHINE_H_
#define RING_TESTS_CONSENSUS_SIM_MACHINE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "ring/base/check.h"
#include "ring/base/wire.h"

namespace ring::consensus::sim {

inline std::uint64_t Mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 29);
}

inline std::uint64_t HashOf(absl::string_view bytes) {
  std::uint64_t hash = bytes.size();
  for (const char c : bytes) hash = Mix(hash, static_cast<unsigned char>(c));
  return hash;
}

struct Command {
  std::uint32_t client = 0;
  std::uint32_t sequence = 0;

  std::string Encode(std::size_t filler) const {
    ByteWriter out;
    out.Put(client);
    out.Put(sequence);
    out.PutBytes(std::string(filler, 'f'));
    return out.Take();
  }
  static Command Decode(absl::string_view bytes) {
    ByteReader in(bytes);
    Command command{in.Get<std::uint32_t>(), in.Get<std::uint32_t>()};
    RING_CHECK(in.ok());
    return command;
  }
};

class Machine {
 public:
  explicit Machine(std::size_t clients = 0) : last_(clients, 0) {}

  // Whether the command had an effect.
  bool Apply(const Command& command, bool deduplicate) {
    if (deduplicate && command.sequence <= last_[command.client]) return false;
    last_[command.client] = command.sequence;
    hash_ = Mix(hash_, (std::uint64_t{command.client} << 32) | command.sequence);
    return true;
  }
  std::uint64_t hash() const { return hash_; }
  std::uint32_t last(std::size_t client) const { return last_[client]; }

  std::string Encode() const {
    ByteWriter out;
    out.Put(hash_);
    for (const std::uint32_t last : last_) out.Put(last);
    return out.Take();
  }
  void Restore(absl::string_view bytes) {
    ByteReader in(bytes);
    hash_ = in.Get<std::uint64_t>();
    for (std::uint32_t& last : last_) last = in.Get<std::uint32_t>();
    RING_CHECK(in.finished());
  }

 private:
  std::uint64_t hash_ = 1;
  std::vector<std::uint32_t> last_;
};

}  // namespace ring::consensus::sim

#endif  // RING_TESTS_CONSENSUS_SIM_MACHINE_H_
