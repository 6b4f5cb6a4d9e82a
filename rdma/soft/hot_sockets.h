// rdma/soft/hot_sockets.h — which sockets are received from without asking which ones are ready.
//
// What:      asking (epoll) and then receiving is two system calls for a batch. Sockets on which
//            bytes came of late, or an answer is due, are hot: while they are few, a turn receives
//            from them at once, and asks only every so many turns. Where other sockets have data
//            too, every turn asks.
// Units:     turns of the device.
// Ownership: borrows handlers; Forget before one goes.
// Threads:   the device's.
// Errors:    none.
// Cost:      a turn with one hot socket is one system call, whether bytes came or not, and one more
//            every kPeriodMax turns.
#ifndef RING_RDMA_SOFT_HOT_SOCKETS_H_
#define RING_RDMA_SOFT_HOT_SOCKETS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "rdma/soft/endpoint.h"

namespace ring::rdma::soft {

class HotSockets {
 public:
  // With more hot sockets, asking for all of them at once is cheaper.
  static constexpr std::size_t kHotMax = 2;
  // What comes on another socket waits for so many turns at most, and that only when nothing came
  // on any for kCleanLooks looks.
  static constexpr std::uint32_t kPeriodMax = 8;
  static constexpr std::uint32_t kCleanLooks = 32;

  // Bytes came on it, or left while the peer owes an answer.
  void Came(FdHandler* handler, std::uint32_t turn) { Touch(handler, turn, kStayAfterBytes); }
  void Expect(FdHandler* handler, std::uint32_t turn) { Touch(handler, turn, kStayForAnswer); }
  void Forget(FdHandler* handler);

  // The turn's direct receives. Gives whether bytes came.
  bool Receive(std::uint32_t turn);
  // Whether the descriptors are to be asked, after Receive.
  bool LookDue() const { return look_due_; }
  // After a look: whether it told of a socket that is not hot.
  void Looked(bool found_other);
  bool IsHot(const FdHandler* handler) const;

 private:
  // How long a socket stays hot without bytes.
  static constexpr std::uint32_t kStayAfterBytes = 2;
  static constexpr std::uint32_t kStayForAnswer = 1024;

  struct Entry {
    FdHandler* handler = nullptr;
    std::uint32_t until = 0;  // the last turn in which it is hot
  };
  void Touch(FdHandler* handler, std::uint32_t turn, std::uint32_t stay);

  // One more than may be received from: tells that there are too many.
  std::array<Entry, kHotMax + 1> entries_;
  std::size_t count_ = 0;
  std::uint32_t period_ = 1;  // turns from one look to the next
  std::uint32_t since_look_ = 0;
  std::uint32_t clean_looks_ = 0;
  bool look_due_ = true;
};

}  // namespace ring::rdma::soft

#endif  // RING_RDMA_SOFT_HOT_SOCKETS_H_
