// memgest/piece_size.h — how long a piece of what goes from node to node in many messages may be.
//
// What:      kPieceSizeMax, of snapshots and of log tails alike.
// Units:     bytes. With what is said about it, three chunks of a control message and not a byte
//            more.
// Threads:   a constant.
// Errors:    none.
#ifndef RING_MEMGEST_PIECE_SIZE_H_
#define RING_MEMGEST_PIECE_SIZE_H_

#include <cstddef>

namespace ring::memgest {

inline constexpr std::size_t kPieceSizeMax = 48 * 1024 - 192;

}  // namespace ring::memgest

#endif  // RING_MEMGEST_PIECE_SIZE_H_
