// api/client_memory.h — the client's registered memory.
//
// What:      ClientBuffers lends registered buffers by size class; a buffer that a lost connection
//            may still write into is retired: its key dies at once, its bytes are not used again
//            before the peer's end let go of the connection (Device::PeerHoldsOn), and whoever
//            still reads there let go, too.
// Shape:     classes are powers of two from 4 KiB to 64 MiB. What no class has a use for goes back
//            to the device when that has no more for another.
// Ownership: buffers are the borrower's between Acquire and Release or Retire; the pool and the
//            device outlive them.
// Threads:   thread-compatible.
// Errors:    kResourceExhausted (the device's: what is lent is as much as it has),
//            kInvalidArgument (size).
// Cost:      Acquire and Release of a buffer that was lent before allocate nothing.
// Source:    protocol rule L5: a writer stopped in mid-copy may resume after a revocation.
#ifndef RING_API_CLIENT_MEMORY_H_
#define RING_API_CLIENT_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "rdma/fabric.h"

namespace ring::api {

struct ClientBuffer {
  std::byte* address = nullptr;
  std::size_t size = 0;  // of its class; 0: no buffer
  bool zeroed = true;    // lent for the first time since it was given back to the system
  std::unique_ptr<rdma::MemoryRegion> region;
  explicit operator bool() const { return size != 0; }
};

class ClientBuffers {
 public:
  explicit ClientBuffers(rdma::Device* device) : device_(device) {}

  // Readable and writable by peers that know the key.
  absl::StatusOr<ClientBuffer> Acquire(std::size_t size);
  void Release(ClientBuffer buffer);
  // REQUIRES: the queue pair that the peer wrote by is gone.
  void Retire(ClientBuffer buffer, std::uint32_t qp_number);
  // The retired buffer that these bytes lie in keeps them until LetGo, as often as it is held.
  // False: they lie in none.
  bool Hold(const std::byte* bytes);
  void LetGo(const std::byte* bytes);

 private:
  static constexpr int kClassMin = 12;
  static constexpr int kClassMax = 26;
  struct Retired {
    std::byte* address;
    int size_class;
    std::uint32_t qp_number;
    std::uint32_t holders = 0;
  };
  absl::StatusOr<ClientBuffer> Make(int size_class);
  bool IsSafe(const Retired& retired) const;
  void GiveBackAll();
  Retired* FindRetired(const std::byte* bytes);

  rdma::Device* device_;
  std::array<std::vector<ClientBuffer>, kClassMax + 1> free_;
  std::deque<Retired> retired_;
};

}  // namespace ring::api

#endif  // RING_API_CLIENT_MEMORY_H_
