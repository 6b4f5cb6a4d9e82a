// memgest/srs_codec.h — the code of a coded memgest.
//
// What:      MakeCodec: its layout and generator, from the descriptor. Its coordinators and its
//            parities each make one, and everything that moves its bytes borrows theirs.
// Ownership: value.
// Threads:   pure.
// Errors:    none: a descriptor that Validate refuses is a broken invariant.
// Cost:      as srs::MakeGenerator, which checks every minor.
// Source:    rule S9.
#ifndef RING_MEMGEST_SRS_CODEC_H_
#define RING_MEMGEST_SRS_CODEC_H_

#include "ring/protocol/memgest_descriptor.h"
#include "srs/codec.h"

namespace ring::memgest {

// REQUIRES: descriptor.Validate for a cluster of s shards; it is coded.
srs::Codec MakeCodec(const protocol::MemgestDescriptor& descriptor, int s);

}  // namespace ring::memgest

#endif  // RING_MEMGEST_SRS_CODEC_H_
