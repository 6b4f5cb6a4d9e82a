// Degraded reads: a get whose value is decoded from the blocks of other nodes, as if its own was
// lost. It is here, and changes no state: the version is pinned, so its bytes stay what they are
// (V6, S14), whatever else comes into the block, and the parity combines what it has folded, this
// version's entry at least.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
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
  const std::uint64_t token = ++degraded_tokens_;
  Pin(line);
  degraded_reads_[token] = {request.reply, line};
  Decode(token);
  return true;
}

// The first two attempts leave nothing out: parities take turns, and a WRITE may have been damaged.
// Then each source of the row is left out once.
void ShardCoordinator::Decode(std::uint64_t token) {
  const DegradedRead read = degraded_reads_[token];
  const memgest::MetadataLine& line = lines_.line(read.line);
  const memgest::Memgest& memgest = MemgestOf(read.line);
  const std::uint32_t block = line.offset_cells / BlockCells(read.line);
  options_.decoder->Decode(
      *this, MemgestId(line.memgest), block, memgest.allocator().LastTouch(block),
      read.attempts < 2 ? 0 : memgest.SourceMask(block, read.attempts - 2), token);
}

// False: all was tried.
bool ShardCoordinator::DecodeAgain(std::uint64_t token) {
  DegradedRead& read = degraded_reads_[token];
  const memgest::Memgest& memgest = MemgestOf(read.line);
  const std::uint32_t block = lines_.line(read.line).offset_cells / BlockCells(read.line);
  while (++read.attempts < 2 + memgest.source_count()) {
    if (read.attempts >= 2 && memgest.SourceMask(block, read.attempts - 2) == 0) continue;
    Decode(token);
    return true;
  }
  return false;
}

// Empty: its bytes are not there (S12).
absl::string_view ShardCoordinator::ValueIn(absl::string_view block, std::uint32_t number) {
  const memgest::MetadataLine& line = lines_.line(number);
  const std::size_t first = std::size_t{line.offset_cells % BlockCells(number)} * kCacheLine;
  if (block.size() < first + line.value_length) return {};
  const absl::string_view value = block.substr(first, line.value_length);
  return Crc32c(value.data(), value.size()) == line.value_crc ? value : absl::string_view();
}

void ShardCoordinator::OnDecoded(std::uint64_t token,
                                 const absl::StatusOr<absl::string_view>& block) {
  const auto found = degraded_reads_.find(token);
  if (found == degraded_reads_.end()) return;
  const DegradedRead read = found->second;
  std::string zeros;
  if (block.ok() && block->empty()) zeros.resize(std::size_t{BlockCells(read.line)} * kCacheLine);
  const absl::string_view value =
      block.ok() ? ValueIn(block->empty() ? zeros : *block, read.line) : absl::string_view();
  // It cannot be decoded without that source: the next one.
  const bool needed = absl::IsDataLoss(block.status()) && read.attempts >= 2;
  const bool wrong = (block.ok() && value.empty()) || needed;
  if (wrong && DecodeAgain(token)) return;
  degraded_reads_.erase(token);
  const memgest::MetadataLine& line = lines_.line(read.line);
  if (wrong || (!value.empty() && read.attempts >= 2)) {
    const std::uint32_t number = line.offset_cells / BlockCells(read.line);
    RING_LOG(ERROR) << (wrong ? "decoded values do not fit their checksums, whatever is left out"
                              : absl::StrCat(
                                    "a block does not fit its row, decoded without it ",
                                    MemgestOf(read.line).SourceName(number, read.attempts - 2)))
                    << ", of a degraded read group=" << options_.group.value()
                    << " shard=" << options_.shard.value() << " memgest=" << line.memgest
                    << " block=" << number << " version=" << line.version;
  }
  if (!value.empty()) {
    AnswerDecoded(read, value);
  } else {
    Request request;
    request.reply = read.reply;
    Refuse(request, wrong ? Outcome::kDataLost : Outcome::kUnavailable);
  }
  Unpin(read.line);
}

void ShardCoordinator::AnswerDecoded(const DegradedRead& read, absl::string_view value) {
  const memgest::MetadataLine& line = lines_.line(read.line);
  ++counters_.gets;
  ++counters_.degraded_gets;
  Reply reply;
  reply.version = Version(line.version);
  reply.memgest = MemgestId(line.memgest);
  reply.value_length = line.value_length;
  reply.value_crc = line.value_crc;
  reply.expiry_ns = line.expiry_ns;
  reply.bytes = value;
  sink_->Answer(read.reply, reply, *this);
}

// Answers of the epoch are nobody's any more.
void ShardCoordinator::EndDegradedReads() {
  for (const auto& [token, read] : std::exchange(degraded_reads_, {})) {
    Request request;
    request.reply = read.reply;
    Refuse(request, Outcome::kUnavailable);
    Unpin(read.line);
  }
}

}  // namespace ring::coordinator
