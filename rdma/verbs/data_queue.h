// rdma/verbs/data_queue.h — the queue pair that carries a queue pair's requests.
//
// What:      DataQueue turns requests into the card's, rings its doorbell once for a batch, and
//            finds out by which completion which requests are done. It posts the user's receives.
// Shape:     a batch is what was issued since the last Commit, at most kBatch of the card's
//            requests; only its last is signalled. At most send_depth are with the card. What is
//            longer than the card's messages goes in several: WRITEs and READs, but no SEND.
// Units:     bytes; sequences are the soft queue pair's numbers of requests.
// Ownership: buffers are the caller's; small ones that the card does not take inline are copied.
// Threads:   the device's.
// Errors:    a request fails with a WcStatus; a card that takes no more requests is broken().
// Cost:      no allocation, lock or system call.
//
// The peer executes in order, but data that a READ brings may be overtaken by what is posted behind
// it: that gets a fence, for which the card waits with it until the READ is answered.
#ifndef RING_RDMA_VERBS_DATA_QUEUE_H_
#define RING_RDMA_VERBS_DATA_QUEUE_H_

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "rdma/soft/link.h"
#include "rdma/soft/receive_queue.h"
#include "rdma/verbs/card_queue.h"

namespace ring::rdma::verbs {

class DataQueue {
 public:
  static absl::StatusOr<std::unique_ptr<DataQueue>> Make(Nic* nic, std::uint32_t serial,
                                                         std::uint32_t send_depth,
                                                         std::uint32_t recv_depth);
  ~DataQueue();

  CardQueue& card() { return *card_; }
  bool broken() const { return broken_; }

  // Whether it has to wait for completions. What never has room is for Issue to refuse.
  bool Full(const WorkRequest& wr) const {
    const std::uint64_t parts = PartsOf(wr);
    return parts <= send_depth_ && issued_ - done_ + parts > send_depth_;
  }
  // REQUIRES: !Full(wr). rkey: the peer's card's.
  soft::IssueResult Issue(const WorkRequest& wr, std::uint64_t sequence, std::uint32_t rkey);
  soft::CommitResult Commit();
  // The sequence of a completion. Of a success: all up to it are done, but for one of kPart.
  std::uint64_t Complete(const WrId& id, bool success);

  // Posts what is posted there and not yet with the card.
  void PostReceives(const soft::ReceiveQueue& receives);
  void NoteReceived() { --receives_posted_; }

 private:
  static constexpr std::size_t kBatch = 16;
  static constexpr std::size_t kSgesMax = 16;
  // Where the next part of a request begins.
  struct Cursor {
    std::size_t sge = 0;
    std::uint32_t offset = 0;  // in it
    std::uint64_t done = 0;    // bytes of all
  };

  DataQueue(Nic* nic, std::uint32_t serial, std::uint32_t send_depth)
      : nic_(nic), serial_(serial), send_depth_(send_depth), signals_(send_depth) {}
  absl::Status MakeBounce();
  std::uint64_t PartsOf(const WorkRequest& wr) const;
  bool Reaches(const WorkRequest& wr) const;
  bool FillSges(const WorkRequest& wr, Cursor* cursor, ibv_send_wr* out);
  void FillInline(const WorkRequest& wr, ibv_send_wr* out);
  WcStatus IssuePart(const WorkRequest& wr, std::uint64_t sequence, std::uint32_t rkey,
                     bool last_part, Cursor* cursor);
  bool PostReceive(const soft::PostedReceive& receive);

  Nic* nic_;
  std::uint32_t serial_;
  std::uint32_t send_depth_;
  std::unique_ptr<CardQueue> card_;
  bool broken_ = false;

  std::array<ibv_send_wr, kBatch> batch_;
  std::array<std::array<ibv_sge, kSgesMax>, kBatch> sges_;
  std::array<std::uint64_t, kBatch> sequences_;
  bool ends_request_ = true;  // the last one of the batch
  std::size_t batch_size_ = 0;
  bool wrote_ = false;  // something of the batch, of which nothing behind it tells the peer

  std::uint64_t issued_ = 0;
  std::uint64_t done_ = 0;
  std::vector<std::uint64_t> signals_;  // a ring: what is done with the next ones signalled
  std::uint64_t signals_begin_ = 0;
  std::uint64_t signals_end_ = 0;
  std::uint64_t completed_ = 0;  // one more than the last sequence that is done
  std::uint64_t last_read_ = 0;  // one more than the sequence of the last READ or atomic

  // Where the card takes too little inline: one place a request.
  std::vector<std::byte> bounce_;
  ibv_mr* bounce_mr_ = nullptr;
  std::uint64_t atomic_result_ = 0;  // of atomics whose old value nobody wants
  ibv_mr* atomic_mr_ = nullptr;

  std::uint64_t receives_posted_ = 0;
};

}  // namespace ring::rdma::verbs

#endif  // RING_RDMA_VERBS_DATA_QUEUE_H_
