// rdma/verbs/wire.h — what the two ends of a connection tell each other, apart from requests.
//
// What:      Greeting travels in the private data of the connection request and its answer;
//            ControlMessage is a message on the connection's own queue pair.
// Shape:     connector:  request(Greeting) ...             hello ...          ready
//            acceptor:           ... response(Greeting)          accept|reject
//            Either may send a message without bytes at any time after accept: wake up.
// Units:     bytes; both ends are little-endian.
// Threads:   any: pure functions.
// Errors:    a reason for the peer and the log; empty: it may be used.
#ifndef RING_RDMA_VERBS_WIRE_H_
#define RING_RDMA_VERBS_WIRE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rdma/fabric.h"

namespace ring::rdma::verbs {

inline constexpr std::uint32_t kVerbsMagic = 0x76474e52;  // "RNGv"
inline constexpr std::uint16_t kVerbsVersion = 1;

struct Greeting {
  std::uint32_t magic = kVerbsMagic;
  std::uint16_t version = kVerbsVersion;
  std::uint8_t atomics = 16;  // READs and atomics that the card takes at once, at most
  std::uint8_t unused = 0;
};

// Travels: never renumber.
enum class ControlType : std::uint8_t { kHello = 1, kAccept = 2, kReject = 3, kReady = 4 };

struct ControlMessage {
  std::uint32_t magic = kVerbsMagic;
  std::uint16_t version = kVerbsVersion;
  ControlType type = ControlType::kHello;
  std::uint8_t unused = 0;
  std::uint32_t data_qp_number = 0;
  std::uint32_t private_data_size = 0;
  std::uint64_t table_address = 0;  // of the key table (nic_memory.h)
  std::uint64_t word_address = 0;   // of the word that tells the sender's end that ours sleeps
  std::uint32_t table_rkey = 0;
  std::uint32_t word_rkey = 0;
  std::array<char, kPrivateDataSizeMax> private_data{};

  absl::string_view data() const { return {private_data.data(), private_data_size}; }
  void set_data(absl::string_view data);
};
static_assert(sizeof(Greeting) == 8 && std::is_trivially_copyable_v<Greeting>);
static_assert(sizeof(ControlMessage) == 296 && std::is_trivially_copyable_v<ControlMessage>);

// Copies first, then checks.
std::string ReadGreeting(absl::Span<const std::byte> bytes, Greeting* greeting);
std::string ReadControlMessage(absl::Span<const std::byte> bytes, ControlMessage* message);

// Whether a rejection is ours, rather than the system's, and with which reason.
std::string EncodeRejection(absl::string_view reason);
std::string DecodeRejection(absl::Span<const std::byte> bytes);

}  // namespace ring::rdma::verbs

#endif  // RING_RDMA_VERBS_WIRE_H_
