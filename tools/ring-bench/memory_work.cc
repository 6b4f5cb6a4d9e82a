#include "tools/ring-bench/memory_work.h"

#include <isa-l/erasure_code.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "ring/base/check.h"
#include "ring/base/crc32c.h"
#include "ring/base/random.h"
#include "tools/common/ticks.h"
#include "tools/ring-bench/report.h"

namespace ring::bench {
namespace {

constexpr std::size_t kWindow = 1000;
constexpr std::size_t kWindowCount = 200;
constexpr std::size_t kRingSize = 256 * 1024;
constexpr std::size_t kHeaderSize = 128;
constexpr std::size_t kTrailerSize = 64;

// Zeroed memory in huge pages where the system has them.
class Region {
 public:
  explicit Region(std::size_t size) : size_((size + (2 << 20) - 1) & ~std::size_t{(2 << 20) - 1}) {
    void* memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    RING_CHECK(memory != MAP_FAILED) << "mmap size=" << size_;
    data_ = static_cast<std::uint8_t*>(memory);
    madvise(memory, size_, MADV_HUGEPAGE);
    std::memset(memory, 0, size_);
  }
  ~Region() { munmap(data_, size_); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  std::uint8_t* at(std::size_t offset) { return data_ + offset; }

 private:
  std::size_t size_;
  std::uint8_t* data_;
};

struct alignas(64) Line {
  std::uint64_t version;
  std::uint64_t key[3];
  std::uint32_t crc, size, slot, spare[5];
};
static_assert(sizeof(Line) == 64);

struct alignas(64) Bucket {
  std::uint32_t tag[8];
  std::uint32_t entry[8];
};

// One member's copy: values, metadata, and the log that feeds them.
struct Member {
  explicit Member(const MemoryWorkOptions& options)
      : heap((options.key_count + kWindow) * options.value_size),
        lines((options.key_count + kWindow) * sizeof(Line)),
        log(kRingSize) {}
  Region heap;
  Region lines;
  Region log;
};

class Probe {
 public:
  Probe(MemoryWork work, const MemoryWorkOptions& options);
  void Operate(MemoryWork work, std::uint64_t index);
  std::uint64_t RandomIndex() { return random_.Below(options_.key_count); }

 private:
  std::uint8_t* Slot(Member& member, std::uint32_t slot) {
    return member.heap.at(std::size_t{slot} * options_.value_size);
  }
  Line* LineOf(Member& member, std::uint32_t slot) {
    return reinterpret_cast<Line*>(member.lines.at(std::size_t{slot} * sizeof(Line)));
  }
  std::uint32_t* Find(std::uint64_t index);
  std::uint32_t WriteValue(bool coded, std::uint32_t slot);
  void Append(Member& member, const std::uint8_t* payload, const Line& line, std::uint32_t crc);
  void Fold(Member& member, bool coded, std::uint32_t slot);

  MemoryWorkOptions options_;
  SeededRandom random_;
  std::vector<std::unique_ptr<Member>> members_;  // the coordinator first
  std::size_t bucket_count_;
  Region buckets_;
  std::vector<std::uint32_t> free_;  // FIFO
  std::size_t free_head_ = 0;
  std::size_t log_offset_ = 0;
  std::vector<std::uint8_t> value_, reply_, delta_, deltas_[2];
  std::array<std::uint8_t, 32 * 2> tables_{};
  std::uint64_t version_ = 0;
};

// The regions never overlap, which a compiler cannot know of bytes.
void Xor(std::uint8_t* __restrict to, const std::uint8_t* __restrict a,
         const std::uint8_t* __restrict b, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) to[i] = a[i] ^ b[i];
}
void XorInto(std::uint8_t* __restrict to, const std::uint8_t* __restrict from, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) to[i] ^= from[i];
}

std::uint64_t Hash(std::uint64_t index) {
  const std::uint64_t x = (index ^ 0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd;
  return x ^ (x >> 29);
}

Probe::Probe(MemoryWork work, const MemoryWorkOptions& options)
    : options_(options),
      random_(7),
      bucket_count_(std::bit_ceil(options.key_count / 4 + 1)),
      buckets_(bucket_count_ * sizeof(Bucket)),
      value_(options.value_size, 'v'),
      reply_(options.value_size),
      delta_(options.value_size) {
  for (auto& delta : deltas_) delta.resize(options.value_size);
  const bool replicated = work == MemoryWork::kRep3Put || work == MemoryWork::kSrs32Put;
  for (int i = 0; i < (replicated ? 3 : 1); ++i)
    members_.push_back(std::make_unique<Member>(options));
  std::array<std::uint8_t, 2> coefficients = {1, 2};
  ec_init_tables(1, 2, coefficients.data(), tables_.data());
  // Slots in random order: neighbours in the table are none in the heap.
  std::vector<std::uint32_t> slots(options.key_count + kWindow);
  for (std::uint32_t i = 0; i < slots.size(); ++i) slots[i] = i;
  for (std::size_t i = slots.size(); i > 1; --i) std::swap(slots[i - 1], slots[random_.Below(i)]);
  for (std::uint64_t index = 0; index < options.key_count; ++index) {
    *Find(index) = slots[index];
    LineOf(*members_[0], slots[index])->key[0] = index;
  }
  free_.assign(slots.begin() + static_cast<std::ptrdiff_t>(options.key_count), slots.end());
}

// The entry of a key, linear by bucket; a new one if there is none.
std::uint32_t* Probe::Find(std::uint64_t index) {
  const std::uint64_t hash = Hash(index);
  const auto tag = static_cast<std::uint32_t>(hash) | 1;
  for (std::size_t at = hash >> 32;; ++at) {
    auto* bucket = reinterpret_cast<Bucket*>(buckets_.at((at & (bucket_count_ - 1)) * 64));
    for (int i = 0; i < 8; ++i) {
      if (bucket->tag[i] == 0) bucket->tag[i] = tag;
      if (bucket->tag[i] == tag) return &bucket->entry[i];
    }
  }
}

// Gives the CRC. Coded: also the deltas of both parities, from the bytes that are there.
std::uint32_t Probe::WriteValue(bool coded, std::uint32_t slot) {
  std::uint8_t* to = Slot(*members_[0], slot);
  if (!coded) return Crc32cCopyStream(to, value_.data(), options_.value_size);
  Xor(delta_.data(), to, value_.data(), options_.value_size);
  std::uint8_t* source = delta_.data();
  std::array<std::uint8_t*, 2> out = {deltas_[0].data(), deltas_[1].data()};
  ec_encode_data(static_cast<int>(options_.value_size), 1, 2, tables_.data(), &source, out.data());
  return Crc32cCopy(to, value_.data(), options_.value_size);
}

void Probe::Append(Member& member, const std::uint8_t* payload, const Line& line,
                   std::uint32_t crc) {
  std::uint8_t* to = member.log.at(log_offset_);
  std::memcpy(to, &line, sizeof(line));
  const std::uint32_t header_crc = Crc32cHeader(to, 96);
  std::memcpy(to + 96, &header_crc, sizeof(header_crc));
  std::memcpy(to + kHeaderSize, payload, options_.value_size);
  std::memcpy(to + kHeaderSize + options_.value_size, &crc, sizeof(crc));
}

void Probe::Fold(Member& member, bool coded, std::uint32_t slot) {
  const std::uint8_t* entry = member.log.at(log_offset_);
  const std::uint8_t* payload = entry + kHeaderSize;
  std::uint8_t* to = Slot(member, slot);
  RING_CHECK(Crc32cHeader(entry, 96) != 0);
  if (coded) {
    XorInto(to, payload, options_.value_size);
  } else {
    Crc32cCopyStream(to, payload, options_.value_size);
  }
  std::memcpy(LineOf(member, slot), entry, sizeof(Line));
}

void Probe::Operate(MemoryWork work, std::uint64_t index) {
  std::uint32_t* entry = Find(index);
  Line* line = LineOf(*members_[0], *entry);
  if (line->key[0] != index) return;  // two keys share a tag: rare, and no part of the figure
  if (work == MemoryWork::kGet) {
    std::memcpy(reply_.data(), Slot(*members_[0], *entry), options_.value_size);
    asm volatile("" : : "r"(reply_.data()) : "memory");
    return;
  }
  const bool coded = work == MemoryWork::kSrs32Put;
  const std::uint32_t slot = free_[free_head_];
  free_[free_head_] = *entry;
  free_head_ = (free_head_ + 1) % free_.size();
  const std::uint32_t crc = WriteValue(coded, slot);
  Line* fresh = LineOf(*members_[0], slot);
  *fresh = Line{.version = ++version_,
                .key = {index, 0, 0},
                .crc = crc,
                .size = 0,
                .slot = slot,
                .spare = {}};
  *entry = slot;
  for (std::size_t i = 1; i < members_.size(); ++i) {
    Append(*members_[i], coded ? deltas_[i - 1].data() : value_.data(), *fresh, crc);
    Fold(*members_[i], coded, slot);
  }
  log_offset_ += kHeaderSize + (options_.value_size + 63) / 64 * 64 + kTrailerSize;
  if (log_offset_ + kHeaderSize + options_.value_size + 2 * kTrailerSize > kRingSize)
    log_offset_ = 0;
}

}  // namespace

std::optional<MemoryWork> MemoryWorkOf(absl::string_view memgest) {
  if (memgest == "REP1") return MemoryWork::kRep1Put;
  if (memgest == "REP3") return MemoryWork::kRep3Put;
  if (memgest == "SRS32") return MemoryWork::kSrs32Put;
  return std::nullopt;
}

double MeasureMemoryWork(MemoryWork work, const MemoryWorkOptions& options) {
  Probe probe(work, options);
  std::vector<std::uint64_t> indexes(kWindow);
  std::vector<double> windows;
  for (std::size_t i = 0; i < kWindowCount; ++i) {
    for (std::uint64_t& index : indexes) index = probe.RandomIndex();
    const std::uint64_t start = tools::Ticks();
    for (const std::uint64_t index : indexes) probe.Operate(work, index);
    windows.push_back(static_cast<double>(tools::Ticks() - start) / tools::TicksPerNs() / kWindow);
  }
  return Median(std::move(windows));
}

}  // namespace ring::bench
