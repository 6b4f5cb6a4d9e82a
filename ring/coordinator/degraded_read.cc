// Degraded reads: a get whose value is decoded from the blocks of other nodes, as if its own was
// lost. It is here, and changes no state: the version is pinned, so its bytes stay what they are
// (V6, S14), whatever else comes into the block, and the parity combines what it has folded, this
// version's entry at least.
#include <algorithm>
#include <string>
#include <utility>

#include "ring/base/crc32c.h"
#include "ring/base/log.h"
#include "ring/coordinator/block_decoder.h"
#include "ring/coordinator/shard.h"

namespace ring::coordinator {

using protocol::Outcome;

// What no code stands for, or lies in several blocks, is read; what the answer has no room for is
// refused as ever.
bool ShardCoordinator::DecodesInstead(const Request& request, std::uint32_t number) {
  if ((request.flags & protocol::kDegraded) == 0) return false;
  const memgest::MetadataLine& line = lines_.line(number);
  const bool has_room =
      line.value_length <= protocol::kInlineValueSizeMax ||
      (request.reply.has_buffer && line.value_length <= request.reply.buffer_length);
  return has_room && MemgestOf(number).coded() && line.value_length > 0 &&
         (line.flags & memgest::kLarge) == 0;
}

std::uint32_t ShardCoordinator::BlockCells(std::uint32_t line) {
  return static_cast<std::uint32_t>(MemgestOf(line).allocator().block_size() / kCacheLine);
}

bool ShardCoordinator::ReadDegraded(const Request& request, std::uint32_t line) {
  if (log_.held() || degraded_reads_.size() >= kDegradedReadsMax) {
    Refuse(request, Outcome::kUnavailable);
    return true;
  }
  const std::uint32_t block = lines_.line(line).offset_cells / BlockCells(line);
  const std::uint64_t token = ++degraded_tokens_;
  Pin(line);
  degraded_reads_[token] = {request.reply, line};
  options_.decoder->Decode(*this, MemgestId(lines_.line(line).memgest), block,
                           MemgestOf(line).allocator().LastTouch(block), token);
  return true;
}

void ShardCoordinator::OnDecoded(std::uint64_t token,
                                 const absl::StatusOr<absl::string_view>& block) {
  const auto found = degraded_reads_.find(token);
  if (found == degraded_reads_.end()) return;
  const DegradedRead read = found->second;
  degraded_reads_.erase(found);
  const memgest::MetadataLine& line = lines_.line(read.line);
  const std::size_t first = std::size_t{line.offset_cells % BlockCells(read.line)} * kCacheLine;
  std::string zeros;
  absl::string_view value;
  if (block.ok() && block->empty()) {  // the block is zero
    zeros.resize(line.value_length);
    value = zeros;
  } else if (block.ok() && block->size() >= first + line.value_length) {
    value = block->substr(first, line.value_length);
  }
  Reply reply;
  // S12: they are the version's bytes, or nothing.
  const bool fits = !value.empty() && Crc32c(value.data(), value.size()) == line.value_crc;
  if (fits) {
    ++counters_.gets;
    ++counters_.degraded_gets;
    reply.version = Version(line.version);
    reply.memgest = MemgestId(line.memgest);
    reply.value_length = line.value_length;
    reply.value_crc = line.value_crc;
    reply.expiry_ns = line.expiry_ns;
    reply.bytes = value;
  } else {
    if (block.ok()) {
      RING_LOG(ERROR) << "decoded values do not fit their checksums, of a degraded read group="
                      << options_.group.value() << " shard=" << options_.shard.value()
                      << " memgest=" << line.memgest << " version=" << line.version;
    }
    ++counters_.refusals;
    reply.outcome = Outcome::kUnavailable;
  }
  sink_->Answer(read.reply, reply, *this);
  Unpin(read.line);
}

// Answers of the epoch are nobody's any more.
void ShardCoordinator::EndDegradedReads(bool tell) {
  for (const auto& [token, read] : std::exchange(degraded_reads_, {})) {
    if (tell) {
      Request request;
      request.reply = read.reply;
      Refuse(request, Outcome::kUnavailable);
    }
    Unpin(read.line);
  }
}

}  // namespace ring::coordinator
