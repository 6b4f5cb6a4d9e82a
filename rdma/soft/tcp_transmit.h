// rdma/soft/tcp_transmit.h — frames that wait to be sent on one socket.
//
// What:      a queue of frames; Flush sends as much as the socket takes with one sendmsg.
// Ownership: what is added with AddCopy is copied, header and payload, to one run of bytes: many
//            small frames leave as one piece. Payloads of other requests stay where they are until
//            their frame is sent (sent_sequence tells), and so do long answers.
// Threads:   one.
// Errors:    Flush gives kBroken when the connection is, or has to be.
// Cost:      no allocation once the queue has grown to its working size; one system call a flush.
#ifndef RING_RDMA_SOFT_TCP_TRANSMIT_H_
#define RING_RDMA_SOFT_TCP_TRANSMIT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "rdma/fabric.h"
#include "rdma/soft/mapping.h"
#include "rdma/soft/tcp_frame.h"

namespace ring::rdma::soft {

class TcpTransmit {
 public:
  // A request. The payload is the concatenation of pieces, which stay valid until it is sent.
  void Add(const TcpFrame& frame, absl::Span<const Sge> pieces);
  // A request whose pieces are the caller's again at once.
  void AddCopy(const TcpFrame& frame, absl::Span<const Sge> pieces);
  // Answers up to this length are copied: a word that a peer reads is not sent in two halves of
  // different age.
  static constexpr std::size_t kShortMax = 64;
  // An answer, with a payload of one piece. rkey: of the region that a long payload stays in; 0: it
  // is in none.
  void AddOne(const TcpFrame& frame, const std::byte* payload, std::uint32_t rkey = 0);

  bool empty() const { return count_ == 0; }
  // Bytes of copied frames, and headers of the others.
  std::size_t copied() const { return copies_end_ - copies_begin_; }
  std::uint64_t bytes() const { return bytes_; }
  // Whether the frame at the head is partly sent and takes its payload from a request of the user.
  bool MidRequest() const { return count_ != 0 && sent_of_head_ != 0 && !At(0).pieces.empty(); }
  // The highest sequence of a request that was sent whole.
  std::uint64_t sent_sequence() const { return sent_sequence_; }
  bool anything_sent() const { return anything_sent_; }
  // Forgets requests whose payload is the user's and that are not begun; what was copied stays, and
  // so do answers.
  void DropRequests();
  void Clear();

  enum class Result { kSentAll, kSocketFull, kBroken };
  // Adds its system calls to *calls. own: where the payloads of long answers lie. Of a region that
  // was revoked meanwhile no byte is sent any more, which is kBroken (L5).
  Result Flush(int fd, const Mapping& own, std::uint64_t* calls);

 private:
  struct Item {
    std::size_t copied = 0;        // header and payload bytes that are in copies_
    absl::Span<const Sge> pieces;  // of a request whose payload is the user's; else `own`
    Sge own;                       // of an answer; lkey: its region's, or 0
    std::uint64_t size = 0;        // of it all
    std::uint64_t sequence = 0;
    bool request = false;
    bool is_copy = false;  // frames that are copied whole: the next such frame may join them
  };
  static constexpr int kVectorMax = 1024;
  static constexpr std::uint64_t kRunMax = 32 << 10;

  Item& Push();
  const Item& At(std::size_t i) const { return ring_[(head_ + i) & (ring_.size() - 1)]; }
  Item& At(std::size_t i) { return ring_[(head_ + i) & (ring_.size() - 1)]; }
  // Room for so many bytes at the end of copies_.
  std::byte* Grow(std::size_t size);
  Item& CopyFrame(const TcpFrame& frame, std::size_t payload_size, std::byte** payload);
  static bool MayBeSent(const Item& item, const Mapping& own);
  void Consume(std::uint64_t sent);

  std::vector<Item> ring_;  // size 0 or a power of two
  std::size_t head_ = 0;
  std::size_t count_ = 0;
  std::vector<std::byte> copies_;  // of the items in order: [copies_begin_, copies_end_)
  std::size_t copies_begin_ = 0;
  std::size_t copies_end_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t sent_of_head_ = 0;
  std::uint64_t sent_sequence_ = 0;
  bool anything_sent_ = false;
};

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_TCP_TRANSMIT_H_
