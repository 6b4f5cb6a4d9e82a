// ring/base/crc32c.h — CRC-32C (Castagnoli), the check sum of headers, payloads and values.
//
// What:      Crc32c of a buffer; Crc32cHeader, inline, for headers of about 100 bytes; Crc32cCopy, which
//            copies and sums in one pass.
// Units:     lengths in bytes. Values are the usual finalised ones (iSCSI, RFC 3720): "123456789" gives e3069283.
// Threads:   pure.
// Errors:    none.
// Cost:      see hot-path budget in docs/BENCHMARKS.md.
// Source:    RFC 3720 appendix B.4; ISA-L crc32_iscsi.
#ifndef RING_BASE_CRC32C_H_
#define RING_BASE_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace ring {

// The CRC of data; `seed` is the CRC of what stands before it, 0 at the start.
std::uint32_t Crc32c(const void* data, std::size_t size, std::uint32_t seed = 0);

// Copies size bytes and gives their CRC. The bytes summed are the bytes written, whatever happens to
// source meanwhile: source is read exactly once.
std::uint32_t Crc32cCopy(void* destination, const void* source, std::size_t size, std::uint32_t seed = 0);

// For short buffers: no call, the crc32 instruction. REQUIRES: size is a multiple of 4.
std::uint32_t Crc32cHeader(const void* data, std::size_t size);

}  // namespace ring

#endif  // RING_BASE_CRC32C_H_
