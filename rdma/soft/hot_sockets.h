// rdma/soft/hot_sockets.h — which sockets are received from without asking which ones are ready.
//
// What:      asking (epoll) and then receiving is two system calls for a batch. So each socket
//            predicts itself: one that brought bytes again and again is hot, and a turn receives
//            from it at once; the others are found by a look. How many are hot does not matter.
// Shape:     a batch gives its socket one credit, a receive that finds nothing costs kMissCost:
//            receives in vain are at most one for kMissCost batches. A look is due after
//            kBatchesPerLook batches, when a turn has nothing to receive from, and behind a look
//            that found a socket which is not hot. Where nothing came, the few sockets whose peers
//            owe an answer are tried too, and looks go by turns.
// Units:     turns of the device; a batch is what came on one socket in one turn.
// Ownership: borrows sockets; Forget before one goes.
// Threads:   the device's.
// Errors:    none.
// Cost:      a turn in which bytes come: one call for each socket that brought some, and a quarter
//            of a call more at most. One in which none come: at most kOwedMax receives and a look
//            every kPeriodMax turns, or one look.
#ifndef RING_RDMA_SOFT_HOT_SOCKETS_H_
#define RING_RDMA_SOFT_HOT_SOCKETS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ring::rdma::soft {

class HotSocket {
 public:
  virtual ~HotSocket() = default;
  // Receives without having been told that there is something. Gives whether there was.
  virtual bool ReceiveNow() = 0;

 private:
  friend class HotSockets;
  std::uint32_t credit_ = 0;
  bool listed_ = false;  // among those that are tried each turn
};

class HotSockets {
 public:
  static constexpr std::uint32_t kMissCost = 8;
  // A socket that was busy for long stays hot through so many misses.
  static constexpr std::uint32_t kCreditMax = 4 * kMissCost;
  // What comes on a socket that is not hot waits for so many batches of others at most.
  static constexpr std::uint32_t kBatchesPerLook = 8;
  // With more sockets that owe an answer, one look for all of them is cheaper.
  static constexpr std::size_t kOwedMax = 2;
  // Turns without bytes from one look to the next, once kCleanLooks looks in a row found hot
  // sockets only.
  static constexpr std::uint32_t kPeriodMax = 8;
  static constexpr std::uint32_t kCleanLooks = 32;
  // How many are tried in one turn; the others come first in the next.
  static constexpr std::size_t kTriesMax = 64;

  // A batch came on it: once a turn.
  void Came(HotSocket* socket, std::uint32_t turn);
  // Bytes left, and the peer owes an answer.
  void Expect(HotSocket* socket, std::uint32_t turn);
  void Forget(HotSocket* socket);

  // The turn's direct receives. Gives whether bytes came.
  bool Receive(std::uint32_t turn);
  // Whether the descriptors are to be asked, after Receive.
  bool LookDue() const { return look_due_; }
  // A look begins; what it tells of this socket comes next.
  void Looked();
  void Found(const HotSocket* socket);
  bool IsHot(const HotSocket* socket);

 private:
  // How many turns a socket is tried for its answer, and behind it for a further one.
  static constexpr std::uint32_t kStayForAnswer = 1024;
  static constexpr std::uint32_t kStayAfterAnswer = 2;

  struct Owed {
    HotSocket* socket = nullptr;
    std::uint32_t until = 0;  // the last turn in which it is tried
  };
  bool ReceiveFromBusy();
  bool ReceiveFromOwed(std::uint32_t turn);
  void Unlist(HotSocket* socket);
  Owed* FindOwed(const HotSocket* socket);

  std::vector<HotSocket*> busy_;
  std::size_t next_ = 0;
  // One more than may be tried: tells that there are too many.
  std::array<Owed, kOwedMax + 1> owed_;
  std::size_t owed_count_ = 0;
  std::uint32_t batches_ = 0;      // since the last look
  std::uint32_t quiet_turns_ = 0;  // likewise
  std::uint32_t period_ = 1;
  std::uint32_t clean_looks_ = 0;
  bool tried_ = false;
  bool found_other_ = false;  // the last look: a socket that is not hot
  bool look_due_ = true;
};

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_HOT_SOCKETS_H_
