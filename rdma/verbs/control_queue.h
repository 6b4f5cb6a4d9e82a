// rdma/verbs/control_queue.h — the queue pair that a connection has for itself.
//
// What:      ControlQueue carries the handshake's messages, looks into the peer's key table, tells
//            the peer that we sleep, and wakes a peer that does. Requests cannot do this: they go
//            in the user's order, and each message there takes a receive that the user posted.
// Shape:     one page of registered memory: the word that the peer writes, the entry that was read,
//            message buffers. At most kSendDepth requests and kReceives messages at a time.
// Units:     bytes.
// Ownership: of page and queue pair.
// Threads:   the device's; the peer's card writes the page.
// Errors:    Make: kResourceExhausted. Posting gives false: the connection is of no use any more.
#ifndef RING_RDMA_VERBS_CONTROL_QUEUE_H_
#define RING_RDMA_VERBS_CONTROL_QUEUE_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rdma/verbs/card_queue.h"
#include "rdma/verbs/wire.h"

namespace ring::rdma::verbs {

// Somewhere in the peer's memory.
struct RemoteWord {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
};

class ControlQueue {
 public:
  static absl::StatusOr<std::unique_ptr<ControlQueue>> Make(Nic* nic, std::uint32_t serial);
  ~ControlQueue();

  CardQueue& card() { return *card_; }
  // Where the peer says that it sleeps.
  RemoteWord word() const;

  bool PostReceives();
  bool Send(const ControlMessage& message);
  bool SendWake();
  bool ReadEntry(const RemoteWord& entry);
  bool TellSleeping(const RemoteWord& word);
  void OnSent() { --outstanding_; }

  // Of a completed receive; its buffer is posted again by Repost.
  absl::Span<const std::byte> Received(std::uint32_t buffer, std::uint32_t size) const;
  bool Repost(std::uint32_t buffer);

  std::uint64_t entry() const;
  // Whether the peer sleeps, as far as it told since this was asked last.
  bool TakePeerSleeps();

 private:
  static constexpr std::uint32_t kSendDepth = 16;
  static constexpr std::uint32_t kReceives = 4;
  static constexpr std::uint32_t kMessages = 2;  // that one end sends
  struct Page {
    alignas(64) std::uint64_t peer_sleeps;
    alignas(64) std::uint64_t entry;
    std::uint64_t asleep = 1;  // what the peer is told
    ControlMessage sends[kMessages];
    ControlMessage receives[kReceives];
  };
  static_assert(sizeof(Page) <= 4096);

  ControlQueue(Nic* nic, std::uint32_t serial) : nic_(nic), serial_(serial) {}
  bool Post(ibv_send_wr* wr, WrKind kind);
  ibv_sge Piece(void* address, std::size_t size) const;

  Nic* nic_;
  std::uint32_t serial_;
  Page* page_ = nullptr;
  ibv_mr* mr_ = nullptr;
  std::unique_ptr<CardQueue> card_;
  std::uint32_t outstanding_ = 0;
  std::uint32_t sent_ = 0;
};

}  // namespace ring::rdma::verbs

#endif  // RING_RDMA_VERBS_CONTROL_QUEUE_H_
