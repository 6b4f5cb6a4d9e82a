#include "ring/protocol/hello.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "ring/base/status.h"
#include "ring/protocol/limits.h"

namespace ring::protocol {
namespace {

// docs/PROTOCOL.md, "Handshakes".
static_assert(std::endian::native == std::endian::little, "handshakes are little-endian structs");
static_assert(sizeof(HelloPrefix) == 8 && offsetof(HelloPrefix, magic) == 0 &&
              offsetof(HelloPrefix, version) == 4 && offsetof(HelloPrefix, kind) == 6);
static_assert(sizeof(BufferFields) == 24 && offsetof(BufferFields, address) == 0 &&
              offsetof(BufferFields, length) == 8 && offsetof(BufferFields, rkey) == 16);
static_assert(sizeof(ClientHello) == 56 && offsetof(ClientHello, client_high) == 8 &&
              offsetof(ClientHello, client_low) == 16 && offsetof(ClientHello, replies) == 24 &&
              offsetof(ClientHello, reply_slot_count) == 48);
static_assert(sizeof(ClientAccept) == 72 && offsetof(ClientAccept, requests) == 8 &&
              offsetof(ClientAccept, node) == 32 && offsetof(ClientAccept, view_epoch) == 36 &&
              offsetof(ClientAccept, incarnation) == 40 &&
              offsetof(ClientAccept, value_size_max) == 48 &&
              offsetof(ClientAccept, cluster) == 56 && offsetof(ClientAccept, founding) == 64);
static_assert(sizeof(LogHello) == 72 && offsetof(LogHello, cluster) == 8 &&
              offsetof(LogHello, node) == 16 && offsetof(LogHello, epoch) == 20 &&
              offsetof(LogHello, incarnation) == 24 && offsetof(LogHello, group) == 32 &&
              offsetof(LogHello, shard) == 34 && offsetof(LogHello, flags) == 36 &&
              offsetof(LogHello, credit) == 40 && offsetof(LogHello, attempt) == 64);
static_assert(sizeof(LogAccept) == 40 && offsetof(LogAccept, incarnation) == 8 &&
              offsetof(LogAccept, ring) == 16);
static_assert(sizeof(ControlHello) == 40 && offsetof(ControlHello, cluster) == 8 &&
              offsetof(ControlHello, incarnation) == 16 && offsetof(ControlHello, node) == 24 &&
              offsetof(ControlHello, fence) == 28 && offsetof(ControlHello, founding) == 32);
static_assert(sizeof(ControlAccept) == 32 && offsetof(ControlAccept, incarnation) == 8 &&
              offsetof(ControlAccept, node) == 16 && offsetof(ControlAccept, founding) == 24);
static_assert(sizeof(WordHello) == 32 && offsetof(WordHello, cluster) == 8 &&
              offsetof(WordHello, incarnation) == 16 && offsetof(WordHello, node) == 24);
static_assert(sizeof(WordAccept) == 40 && offsetof(WordAccept, incarnation) == 8 &&
              offsetof(WordAccept, word) == 16);

template <class T>
struct KindOf;
template <>
struct KindOf<ClientHello> : std::integral_constant<HelloKind, HelloKind::kClient> {};
template <>
struct KindOf<ClientAccept> : std::integral_constant<HelloKind, HelloKind::kClient> {};
template <>
struct KindOf<LogHello> : std::integral_constant<HelloKind, HelloKind::kLog> {};
template <>
struct KindOf<LogAccept> : std::integral_constant<HelloKind, HelloKind::kLog> {};
template <>
struct KindOf<ControlHello> : std::integral_constant<HelloKind, HelloKind::kControl> {};
template <>
struct KindOf<ControlAccept> : std::integral_constant<HelloKind, HelloKind::kControl> {};
template <>
struct KindOf<WordHello> : std::integral_constant<HelloKind, HelloKind::kWord> {};
template <>
struct KindOf<WordAccept> : std::integral_constant<HelloKind, HelloKind::kWord> {};

absl::Status CheckBuffer(absl::string_view name, const BufferFields& buffer,
                         std::uint64_t length_min) {
  if (buffer.length < length_min) {
    return absl::InvalidArgumentError(absl::StrCat("handshake: ", name, ".length=", buffer.length,
                                                   " is below length_min=", length_min));
  }
  if (buffer.address + buffer.length < buffer.address) {
    return absl::InvalidArgumentError(absl::StrCat("handshake: ", name, ".address=", buffer.address,
                                                   " + length=", buffer.length, " wraps around"));
  }
  return absl::OkStatus();
}

template <class T>
absl::Status CheckFields(const T&) {
  return absl::OkStatus();
}
absl::Status CheckFields(const ClientHello& hello) {
  if (hello.reply_slot_count == 0 || hello.reply_slot_count > kReplySlotCountMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("handshake: reply_slot_count=", hello.reply_slot_count, " is not in 1..",
                     kReplySlotCountMax));
  }
  return CheckBuffer("replies", hello.replies,
                     std::uint64_t{hello.reply_slot_count} * kReplySlotSize);
}
absl::Status CheckFields(const ClientAccept& accept) {
  return CheckBuffer("requests", accept.requests, kRequestRingSize);
}

}  // namespace

absl::StatusOr<HelloKind> PeekHello(absl::string_view bytes) {
  HelloPrefix prefix;
  if (bytes.size() < sizeof(prefix)) {
    return absl::InvalidArgumentError(
        absl::StrCat("handshake: length=", bytes.size(), " is below ", sizeof(prefix)));
  }
  std::memcpy(&prefix, bytes.data(), sizeof(prefix));
  if (prefix.magic != kHelloMagic) {
    return absl::InvalidArgumentError(absl::StrCat("handshake: magic=0x", absl::Hex(prefix.magic),
                                                   " is not Ring's: the peer is another program"));
  }
  if (prefix.version != kProtocolVersion) {
    return absl::InvalidArgumentError(absl::StrCat("handshake: version=", prefix.version,
                                                   ", this side speaks ", kProtocolVersion,
                                                   ": use the same release on both sides"));
  }
  switch (prefix.kind) {
    case HelloKind::kClient:
    case HelloKind::kLog:
    case HelloKind::kControl:
    case HelloKind::kWord:
      return prefix.kind;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("handshake: kind=", static_cast<int>(prefix.kind), " is unknown"));
}

template <class T>
absl::StatusOr<T> DecodeHello(absl::string_view bytes) {
  // Bytes go to the peer as they stand in memory: no padding may carry what it should not see.
  static_assert(std::has_unique_object_representations_v<T>);
  RING_ASSIGN_OR_RETURN(const HelloKind kind, PeekHello(bytes));
  if (kind != KindOf<T>::value) {
    return absl::InvalidArgumentError(absl::StrCat("handshake: kind=", static_cast<int>(kind),
                                                   ", expected ",
                                                   static_cast<int>(KindOf<T>::value)));
  }
  if (bytes.size() != sizeof(T)) {
    return absl::InvalidArgumentError(
        absl::StrCat("handshake: length=", bytes.size(), ", expected ", sizeof(T)));
  }
  T hello;
  std::memcpy(&hello, bytes.data(), sizeof(hello));
  RING_RETURN_IF_ERROR(CheckFields(hello));
  return hello;
}

template absl::StatusOr<ClientHello> DecodeHello<ClientHello>(absl::string_view);
template absl::StatusOr<ClientAccept> DecodeHello<ClientAccept>(absl::string_view);
template absl::StatusOr<LogHello> DecodeHello<LogHello>(absl::string_view);
template absl::StatusOr<LogAccept> DecodeHello<LogAccept>(absl::string_view);
template absl::StatusOr<ControlHello> DecodeHello<ControlHello>(absl::string_view);
template absl::StatusOr<ControlAccept> DecodeHello<ControlAccept>(absl::string_view);
template absl::StatusOr<WordHello> DecodeHello<WordHello>(absl::string_view);
template absl::StatusOr<WordAccept> DecodeHello<WordAccept>(absl::string_view);

}  // namespace ring::protocol
