// ring/coordinator/request.h — a request as the operations see it, and the port through which they
// answer.
//
// What:      Request (decoded, routed, hashed), Reply (what to tell, with the place of a value),
//            and ReplySink, which the node implements on the client's queue pair.
// Ownership: a Request borrows key and value until Execute returns; what must wait is copied
//            (deferred.cc).
// Threads:   one, the node's.
// Errors:    none of its own.
// Source:    rules V6 (pins), V7 (capture, fence, reply), X1.
#ifndef RING_COORDINATOR_REQUEST_H_
#define RING_COORDINATOR_REQUEST_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "memgest/completion_table.h"
#include "memgest/log_entry.h"
#include "rdma/fabric.h"
#include "ring/base/id.h"
#include "ring/protocol/client_frame.h"
#include "ring/protocol/outcome.h"

namespace ring::coordinator {

// Changes nothing, whatever it is answered.
constexpr bool IsRead(protocol::Operation operation) {
  return operation == protocol::Operation::kGet || operation == protocol::Operation::kWhere;
}

// Where an answer goes. A connection that ended meanwhile has another generation: the answer is
// dropped.
struct ReplyTo {
  std::uint32_t connection = 0;
  std::uint32_t generation = 0;
  std::uint32_t stamp = 0;
  std::uint16_t slot = 0;
  bool has_buffer = false;  // a buffer for a large value
  std::uint32_t buffer_rkey = 0;
  std::uint32_t buffer_length = 0;
  std::uint64_t buffer_address = 0;

  bool SameConnection(const ReplyTo& other) const {
    return connection == other.connection && generation == other.generation;
  }
};

struct Request {
  protocol::Operation operation = protocol::Operation::kGet;
  std::uint8_t flags = 0;  // protocol::RequestFlags
  MemgestId memgest;
  absl::string_view key;
  std::uint64_t hash = 0;
  const std::byte* value = nullptr;  // inline value; may change under us: read it once
  std::uint32_t value_length = 0;
  std::uint32_t value_crc = 0;
  Version if_version;
  // kRetried: the highest version of the shard that the client knew before its first attempt
  Version known_version;
  memgest::ClientId client_id;
  memgest::CompletionTable::Client* client = nullptr;
  std::uint64_t seq = 0;
  std::uint32_t incomplete_delta = 0;
  std::uint32_t request_crc = 0;
  // What waited for an uncommitted version goes by none that is lower than it (V4, V9).
  Version min_version;
  // The memgest that it names is not known here, or not as usable: the read of the agreed catalogue
  // that was asked for because of that (G11). 0: none was.
  std::uint64_t catalogue_read = 0;
  ReplyTo reply;
};

// CRC of what makes a request the same request (X1): operation, flags, memgest, lengths, key, value
// CRC, if_version.
std::uint32_t RequestCrc(const Request& request);

// A value to be sent: bytes in a slot, which stays pinned until the device is done with them (V6).
struct ValueSource {
  std::uint32_t line = memgest::kNoLine;  // kNoLine: no value
  MemgestId memgest;
};

struct Reply {
  protocol::Outcome outcome = protocol::Outcome::kOk;
  MemgestId memgest;
  Version version;
  std::uint32_t value_length = 0;
  std::uint32_t value_crc = 0;
  std::uint64_t expiry_ns = 0;  // reserved: 0, as nothing sets one (V10)
  ValueSource value;
  absl::string_view bytes = {};  // a value that lies in no slot: it is copied
};

class ShardCoordinator;

// Where answers go and large values come from. Replies are captured now and sent behind the batch's
// fence (V7).
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  // shard: whose slot the value lies in; pins and unpins it.
  virtual void Answer(const ReplyTo& to, const Reply& reply, ShardCoordinator& shard) = 0;
  // Whether an answer to there can still arrive.
  virtual bool Reachable(const ReplyTo&) const { return true; }
  // Starts a READ of length bytes at `offset` of the client's large buffer into `to`; then
  // shard.OnRead(token, ok) follows. False: the connection is gone, or its queue is full.
  virtual bool ReadFromClient(const ReplyTo& from, std::uint64_t offset, const rdma::Sge& to,
                              ShardCoordinator& shard, std::uint64_t token) = 0;
};

}  // namespace ring::coordinator

#endif  // RING_COORDINATOR_REQUEST_H_
