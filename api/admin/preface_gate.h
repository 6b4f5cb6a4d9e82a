// api/admin/preface_gate.h — keeps silent connections away from gRPC.
//
// What:      A connection costs gRPC tens of kilobytes from the start, said or not. Here it waits,
//            for the price of a descriptor, until its peer has sent HTTP/2's client preface; then
//            Turn gives it on. Who sends something else, or too little in time, is refused: told
//            why in a GOAWAY, and closed. So is who waits longest when one more would be too many.
// Shape:     Add, then Turn whenever fd() is readable or TimeoutMs has passed.
// Units:     milliseconds of any clock that does not go back.
// Ownership: owns what waits; who is given a connection owns it.
// Threads:   thread-compatible.
// Errors:    none.
// Cost:      Add: one allocation of 40 bytes; two system calls for each connection and each piece.
#ifndef RING_API_ADMIN_PREFACE_GATE_H_
#define RING_API_ADMIN_PREFACE_GATE_H_

#include <cstddef>
#include <cstdint>
#include <list>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace ring::admin {

class PrefaceGate {
 public:
  static constexpr std::size_t kWaitingMax = 1024;
  static constexpr std::int64_t kWaitMs = 5000;

  PrefaceGate();
  ~PrefaceGate();
  PrefaceGate(const PrefaceGate&) = delete;
  PrefaceGate& operator=(const PrefaceGate&) = delete;

  // Readable when Turn has something to do.
  int fd() const { return epoll_fd_; }
  std::size_t waiting_count() const { return waiting_.size(); }
  // How long until Turn must be called though fd() is not readable; -1: for ever.
  int TimeoutMs(std::int64_t now_ms) const;

  // Takes a connected, nonblocking socket.
  void Add(int fd, std::int64_t now_ms);
  // Gives on those that have sent the preface, refuses those that will not.
  void Turn(std::int64_t now_ms, absl::FunctionRef<void(int)> give);

  // Tells the peer why in terms of HTTP/2, and closes the connection.
  static void Refuse(int fd, absl::string_view why);

 private:
  struct Waiting {
    int fd;
    std::int64_t until_ms;
    std::list<Waiting>::iterator self;
  };
  void RefuseOne(std::list<Waiting>::iterator one, absl::string_view why);
  int Remove(std::list<Waiting>::iterator one);

  int epoll_fd_;
  std::list<Waiting> waiting_;  // who came first will be overdue first
};

}  // namespace ring::admin

#endif  // RING_API_ADMIN_PREFACE_GATE_H_
