// ring/protocol/hello.h — the private data of connections: who connects, to what end, and which
// memory is offered.
//
// What:      ClientHello/ClientAccept, LogHello/LogAccept, ControlHello/ControlAccept,
//            WordHello/WordAccept. Fixed little-endian structs behind one prefix {magic, version,
//            kind}.
// Shape:     at most rdma::kPrivateDataSizeMax bytes each.
// Ownership: values.
// Threads:   pure.
// Errors:    Decode*: kInvalidArgument naming the field (wrong magic, version, kind, length).
// Source:    rule L8 (incarnation in every handshake).
#ifndef RING_PROTOCOL_HELLO_H_
#define RING_PROTOCOL_HELLO_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ring::protocol {

inline constexpr std::uint32_t kHelloMagic = 0x474e4952;  // "RING"
// Raised when anything changes that nodes, or clients and nodes, say to each other
// (tests/node/wire_format_test.cc).
inline constexpr std::uint16_t kProtocolVersion = 21;

// Travels: never renumber.
enum class HelloKind : std::uint16_t { kClient = 1, kLog = 2, kControl = 3, kWord = 4 };

struct HelloPrefix {
  std::uint32_t magic = kHelloMagic;
  std::uint16_t version = kProtocolVersion;
  HelloKind kind = HelloKind::kClient;
};

struct BufferFields {  // an rdma::RemoteBuffer on the wire
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint32_t rkey = 0;
  std::uint32_t reserved = 0;
};

struct ClientHello {
  HelloPrefix prefix{kHelloMagic, kProtocolVersion, HelloKind::kClient};
  std::uint64_t client_high = 0;
  std::uint64_t client_low = 0;
  BufferFields replies;  // reply slots, kReplySlotSize each
  std::uint32_t reply_slot_count = 0;
  std::uint32_t reserved = 0;
};

struct ClientAccept {
  HelloPrefix prefix{kHelloMagic, kProtocolVersion, HelloKind::kClient};
  BufferFields requests;  // the request ring
  std::uint32_t node = 0;
  std::uint32_t view_epoch = 0;
  std::uint64_t incarnation = 0;
  std::uint64_t value_size_max = 0;
  std::uint64_t cluster = 0;
  std::uint64_t founding = 0;  // of the node's view; 0: it has none yet
};

// Travels: never renumber.
enum LogHelloFlags : std::uint16_t {
  // The member is not of the last Normal: it drops what it has of the shard (step 7 of an epoch
  // change).
  kLogJoins = 1,
};

// Coordinator of (group, shard) to a member: open a ring for this epoch.
struct LogHello {
  HelloPrefix prefix{kHelloMagic, kProtocolVersion, HelloKind::kLog};
  std::uint64_t cluster = 0;  // hash of the cluster's name and shape: strangers are refused
  std::uint32_t node = 0;
  std::uint32_t epoch = 0;  // of the group
  std::uint64_t incarnation = 0;
  std::uint16_t group = 0;
  std::uint16_t shard = 0;
  std::uint16_t flags = 0;  // LogHelloFlags
  std::uint16_t reserved = 0;
  BufferFields credit;  // 8 bytes: the member's folded position
  // Rises with each connection of the epoch to this member: an older one that comes late is
  // refused.
  std::uint32_t attempt = 0;
  std::uint32_t reserved2 = 0;
};

struct LogAccept {
  HelloPrefix prefix{kHelloMagic, kProtocolVersion, HelloKind::kLog};
  std::uint64_t incarnation = 0;
  BufferFields ring;  // control line and ring
};

struct ControlHello {
  HelloPrefix prefix{kHelloMagic, kProtocolVersion, HelloKind::kControl};
  std::uint64_t cluster = 0;
  std::uint64_t incarnation = 0;
  std::uint32_t node = 0;
  std::uint32_t fence = 0;     // L1: ms of leases, or what stands for none; the same at both ends
  std::uint64_t founding = 0;  // that it has a part in; 0: in none yet
};

struct ControlAccept {
  HelloPrefix prefix{kHelloMagic, kProtocolVersion, HelloKind::kControl};
  std::uint64_t incarnation = 0;
  std::uint32_t node = 0;
  std::uint32_t reserved = 0;
  std::uint64_t founding = 0;
};

// Who READs the word of a voter (L1, check).
struct WordHello {
  HelloPrefix prefix{kHelloMagic, kProtocolVersion, HelloKind::kWord};
  std::uint64_t cluster = 0;
  std::uint64_t incarnation = 0;
  std::uint32_t node = 0;
  std::uint32_t reserved = 0;
};

struct WordAccept {
  HelloPrefix prefix{kHelloMagic, kProtocolVersion, HelloKind::kWord};
  std::uint64_t incarnation = 0;
  BufferFields word;  // 8 bytes
};

// Any of the above, as bytes.
template <class T>
std::string EncodeHello(const T& hello) {
  return std::string(reinterpret_cast<const char*>(&hello), sizeof(hello));
}
// The kind of a well-formed prefix.
absl::StatusOr<HelloKind> PeekHello(absl::string_view bytes);
template <class T>
absl::StatusOr<T> DecodeHello(absl::string_view bytes);

extern template absl::StatusOr<ClientHello> DecodeHello<ClientHello>(absl::string_view);
extern template absl::StatusOr<ClientAccept> DecodeHello<ClientAccept>(absl::string_view);
extern template absl::StatusOr<LogHello> DecodeHello<LogHello>(absl::string_view);
extern template absl::StatusOr<LogAccept> DecodeHello<LogAccept>(absl::string_view);
extern template absl::StatusOr<ControlHello> DecodeHello<ControlHello>(absl::string_view);
extern template absl::StatusOr<ControlAccept> DecodeHello<ControlAccept>(absl::string_view);
extern template absl::StatusOr<WordHello> DecodeHello<WordHello>(absl::string_view);
extern template absl::StatusOr<WordAccept> DecodeHello<WordAccept>(absl::string_view);

}  // namespace ring::protocol

#endif  // RING_PROTOCOL_HELLO_H_
