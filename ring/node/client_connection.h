// ring/node/client_connection.h — what the node knows of one connected client; private to
// client_port.
//
// What:      ClientPort::Connection: the request ring's reading place, the captured answers, the
//            pins of values under way.
// Shape:     bodies are values; the words are the headers, each in two WRITEs, the first 8 bytes
//            last: they publish it.
// Ownership: owns queue pair and buffers.
// Threads:   one, the node's.
// Errors:    none of its own.
#ifndef RING_NODE_CLIENT_CONNECTION_H_
#define RING_NODE_CLIENT_CONNECTION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "ring/node/client_port.h"

namespace ring::node {

// Places of the completion queue, which all clients share: each has some of its own, so that those
// who take nothing cannot take the others' turn; the rest is for whoever is quick.
inline constexpr std::uint32_t kOwnPlaces = 8;
inline constexpr std::uint32_t kSharedPlaces = 4096;
// wr_id of answers: how many requests the completion stands for, connection index, then a sequence;
// of READs: this bit and the handle.
inline constexpr std::uint64_t kReadBit = std::uint64_t{1} << 63;
inline constexpr int kCountShift = 56;
inline constexpr int kIndexShift = 40;
inline constexpr std::uint64_t kIndexMask = (std::uint64_t{1} << (kCountShift - kIndexShift)) - 1;
inline constexpr std::uint64_t kSequenceMask = (std::uint64_t{1} << kIndexShift) - 1;

struct ClientPort::Connection {
  static constexpr std::uint32_t kSendDepth = 512;
  static constexpr std::uint32_t kDoorbellCount = 8;
  static constexpr std::size_t kAnswersPerSlot = 4;  // given up by the client, and not gone yet
  static constexpr std::size_t kBodiesMax = 4096;    // a large value is many

  using Write = ConnectionWrite;

  // One that may be taken.
  bool HasRequest() const {
    if (closing) return false;
    const auto* const word =
        reinterpret_cast<const std::uint32_t*>(ring.address + cell * protocol::kCell);
    return __atomic_load_n(word, __ATOMIC_ACQUIRE) == stamp && !IsFull();
  }
  // A client has one request in a reply slot. Of one that sends more, no more is taken until what
  // it was answered is gone: values and their writes are memory of this node.
  bool IsFull() const {
    return pinned.size() >= kAnswersPerSlot * slot_count || bodies.size() >= kBodiesMax;
  }
  void NextStamp() {
    if (++stamp == 0) stamp = 1;
  }

  std::uint32_t index = 0;
  std::uint32_t generation = 0;
  std::unique_ptr<rdma::QueuePair> qp;
  memgest::ClientId id;
  rdma::RemoteBuffer replies;
  std::uint32_t slot_count = 0;
  BufferPool::Buffer ring;
  BufferPool::Buffer headers;  // one cell a reply slot
  std::size_t cell = 0;        // of the next request
  std::uint32_t stamp = 1;     // that it will bear
  bool closing = false;        // a malformed request, or an answer that is never said: end
  bool broken = false;         // could not post: nothing more is said
  // By shard of this node; good as long as the shard forgot no client since.
  struct Records {
    memgest::CompletionTable::Client* client = nullptr;
    std::uint64_t forgotten = 0;
  };
  std::vector<Records> records;

  std::vector<Write> bodies;  // captured and not posted; no word before all bodies
  std::vector<Write> words;
  Fifo<Pinned> pinned;            // values that answers refer to, until these are the client's
  std::uint64_t completed = 0;    // capture up to which all answers are the client's
  std::uint32_t rung_sleep = 0;   // of the client, that it was rung in last
  bool ringing = false;           // it may sleep on an answer, and is to be rung then
  std::uint32_t outstanding = 0;  // work requests whose completions are still to come
  std::uint64_t finished = 0;     // completions that came, and as of the last sweep
  std::uint64_t finished_at_sweep = 0;
  std::uint64_t heard_ns = 0;   // when a sweep saw that some had come
  std::uint64_t moving_ns = 0;  // when the device last had nothing to do for it, or got on
};

}  // namespace ring::node

#endif  // RING_NODE_CLIENT_CONNECTION_H_
