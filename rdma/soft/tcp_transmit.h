// rdma/soft/tcp_transmit.h — frames that wait to be sent on one socket.
//
// What:      a queue of headers and of the places of their payloads; Flush sends as much as the
//            socket takes with one sendmsg.
// Ownership: payloads of requests are not copied: they stay where they are until their frame is
//            sent (sent_sequence tells). Payloads of answers up to kShortMax bytes are: a word that
//            a peer reads is not sent in two halves of different age. Longer ones are not.
// Threads:   one.
// Errors:    Flush gives false when the connection is broken.
// Cost:      no allocation once the queue has grown to its working size; one system call a flush.
#ifndef RING_RDMA_SOFT_TCP_TRANSMIT_H_
#define RING_RDMA_SOFT_TCP_TRANSMIT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "rdma/fabric.h"
#include "rdma/soft/tcp_frame.h"

namespace ring::rdma::soft {

class TcpTransmit {
 public:
  // The payload is the concatenation of pieces, which stay valid until it is sent.
  void Add(const TcpFrame& frame, absl::Span<const Sge> pieces);
  static constexpr std::size_t kShortMax = 64;
  // An answer, with a payload of one piece.
  void AddOne(const TcpFrame& frame, const std::byte* payload);

  bool empty() const { return count_ == 0; }
  std::size_t count() const { return count_; }
  std::uint64_t bytes() const { return bytes_; }
  // Whether the frame at the head is partly sent and takes its payload from a request of the user.
  bool MidRequest() const { return count_ != 0 && sent_of_head_ != 0 && !At(0).pieces.empty(); }
  // The highest sequence of a request that was sent whole.
  std::uint64_t sent_sequence() const { return sent_sequence_; }
  bool anything_sent() const { return anything_sent_; }
  // Forgets requests that are not begun; answers stay.
  void DropRequests();
  void Clear();

  enum class Result { kSentAll, kSocketFull, kBroken };
  Result Flush(int fd);

 private:
  struct Item {
    std::array<std::byte, kTcpHeaderSize + kShortMax> header;  // and a short answer's payload
    std::size_t header_size = kTcpHeaderSize;
    absl::Span<const Sge> pieces;  // of a request; else `own`
    Sge own;
    std::uint64_t size = 0;  // header and payload
    std::uint64_t sequence = 0;
    bool request = false;
  };
  static constexpr int kVectorMax = 256;

  Item& Push();
  const Item& At(std::size_t i) const { return ring_[(head_ + i) & (ring_.size() - 1)]; }
  void Consume(std::uint64_t sent);

  std::vector<Item> ring_;  // size 0 or a power of two
  std::size_t head_ = 0;
  std::size_t count_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t sent_of_head_ = 0;
  std::uint64_t sent_sequence_ = 0;
  bool anything_sent_ = false;
};

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_TCP_TRANSMIT_H_
