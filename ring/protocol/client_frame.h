// ring/protocol/client_frame.h — what a client WRITEs into a node's request ring, and what the
// node WRITEs back.
//
// What:      A request is a header cell, the cells of a long key, an extension cell (large values),
//            and the inline value; a reply is a header cell and the inline value. Both are
//            published by their first 8 bytes: all else is WRITTEN first, the 8-byte word with the
//            stamp after it, in one chain.
// Shape:     The ring is kRequestRingSize bytes, cells of 64. A request never wraps; a PAD word
//            sends the reader back to cell 0, and the last cell of the ring is never a request's.
//            Before a request is published, the 8 bytes of the header that follows it are zero, so
//            that old payload never looks like a stamp; before a PAD, those of cell 0. Reply slots:
//            the client names one in its request and owns it again once the reply is there.
// Units:     bytes; stamps count the requests (and PADs) of this ring from 1, skipping 0 when they
//            wrap.
// Ownership: views borrow; a node copies the header before it looks at it, since the client can
//            change it.
// Threads:   pure.
// Errors:    DecodeRequest gives kBadRequest, kTooLarge: nothing outside the ring is read.
// Source:    docs/ARCHITECTURE.md "The path of a put"; rules X1, X3, X4.
#ifndef RING_PROTOCOL_CLIENT_FRAME_H_
#define RING_PROTOCOL_CLIENT_FRAME_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ring/protocol/limits.h"
#include "ring/protocol/outcome.h"

namespace ring::protocol {

// Travels: never renumber.
enum class Operation : std::uint8_t {
  kPad = 1,  // go to cell 0
  kGet = 2,
  kPut = 3,
  kDelete = 4,
  kMove = 5,
  kGetView = 6,  // the reply's value is an encoded View
  kWhere = 7,    // like a get without the value: version, memgest, length, and who owns the key
  kWhoOwns = 8,  // no key, but an OwnerQuestion: OK only from who serves that slot now (X3)
};

// Whether its requests change something, and so have a sequence number (X1).
constexpr bool Mutates(Operation operation) {
  return operation == Operation::kPut || operation == Operation::kDelete ||
         operation == Operation::kMove;
}

enum RequestFlags : std::uint8_t {
  // put, delete, move: if_version must hold; 0: only if the key does not exist
  kIfVersion = 1,
  // put: READ the value from the extension's buffer; get, get view: WRITE it there if it does not
  // fit the reply slot
  kLargeValue = 2,
  kDefaultMemgest = 4,  // put, move: the cluster's default memgest
  // put, delete, move: an earlier attempt was lost, and may have been executed. Without kIfVersion,
  // if_version is then the highest version of the shard that the client had been told of before its
  // first attempt (X7).
  kRetried = 8,
  // get: the value is decoded from the blocks of other nodes; kBadRequest unless the node takes
  // faults
  kDegraded = 16,
};

// The first 8 bytes of a request: stored last, in one WRITE.
struct RequestWord {
  std::uint32_t stamp = 0;
  Operation operation = Operation::kPad;
  std::uint8_t flags = 0;
  std::uint16_t key_length = 0;
};
static_assert(sizeof(RequestWord) == 8);

struct RequestHeader {
  RequestWord word;
  std::uint32_t value_length = 0;
  std::uint32_t value_crc = 0;  // CRC-32C of the value
  std::uint64_t seq = 0;        // from 1; 0 for operations that change nothing
  // seq - first incomplete seq of this client in this shard (X3, X4)
  std::uint32_t incomplete_delta = 0;
  std::uint16_t memgest = 0;  // put, move
  std::uint16_t reply_slot = 0;
  std::uint64_t if_version = 0;
  char key[kInlineKeySizeMax] = {};  // keys of up to 24 bytes
};
static_assert(sizeof(RequestHeader) == kCell);

// kWhoOwns: stands in the place of if_version.
struct OwnerQuestion {
  std::uint32_t view_epoch = 0;  // the asker's: who knows only older views cannot say
  std::uint16_t slot = 0;        // of the keys: 0 to kSlotCount - 1
  std::uint16_t reserved = 0;
};
static_assert(sizeof(OwnerQuestion) == sizeof(std::uint64_t));

// Follows the long key's cells when kLargeValue is set.
struct RequestExtension {
  std::uint64_t buffer_address = 0;  // in the client's registered memory
  std::uint32_t buffer_rkey = 0;
  std::uint32_t buffer_length = 0;
  std::uint8_t reserved[48] = {};
};
static_assert(sizeof(RequestExtension) == kCell);

// The first 8 bytes of a reply: stored last. stamp is the request's.
struct ReplyWord {
  std::uint32_t stamp = 0;
  Outcome outcome = Outcome::kOk;
  std::uint8_t flags = 0;
  std::uint16_t memgest = 0;
};
static_assert(sizeof(ReplyWord) == 8);

enum ReplyFlags : std::uint8_t {
  kValueInBuffer = 1,  // the value was WRITTEN to the large buffer, not behind the header
};

struct ReplyHeader {
  ReplyWord word;
  std::uint32_t value_length = 0;
  std::uint32_t value_crc = 0;
  std::uint64_t version = 0;
  std::uint64_t expiry_ns = 0;
  std::uint32_t view_epoch = 0;  // so that a client learns of a newer view
  std::uint32_t owner = 0;       // node that owns the key: WRONG_OWNER, kWhere
  std::uint8_t reserved[24] = {};
};
static_assert(sizeof(ReplyHeader) == kCell);

// A checked request: `header` is a copy, the views point into the ring.
struct RequestView {
  RequestHeader header;
  absl::string_view key;       // into the ring for long keys, else into header.key of *this* object
  RequestExtension extension;  // a copy
  // Inline value in the ring, null if there is none: may change under the reader, read it once.
  const std::byte* value = nullptr;
  std::size_t size_cells = 0;
};

// Cells of a request with these lengths. value_length counts only an inline value.
constexpr std::size_t RequestCells(std::size_t key_length, bool large,
                                   std::size_t inline_value_length) {
  return 1 + (key_length > kInlineKeySizeMax ? (key_length + kCell - 1) / kCell : 0) +
         (large ? 1 : 0) + (inline_value_length + kCell - 1) / kCell;
}

// Decodes the request (or PAD) whose header cell is `cell` of a ring of kRequestRingSize bytes,
// 8-byte aligned. REQUIRES: the caller saw the stamp (acquire); cell is inside the ring.
// kOk:         all of *view is set; for a PAD, size_cells leads to the end of the ring. The bytes
//              of a long key and of the value stay the client's to change: copy them once, then
//              look.
// kTooLarge:   key or value over its limit; header and size_cells are set, the next request
//              follows.
// kBadRequest: only the header is set; the extent cannot be trusted, the connection must end.
Outcome DecodeRequest(const std::byte* ring, std::size_t cell, std::size_t value_size_max,
                      RequestView* view);

}  // namespace ring::protocol

#endif  // RING_PROTOCOL_CLIENT_FRAME_H_
