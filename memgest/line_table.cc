#include "memgest/line_table.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "memgest/size_class.h"
#include "ring/base/check.h"
#include "ring/base/status.h"

namespace ring::memgest {
namespace {

// Bytes of a long key that stand in the line, behind the handle: most keys differ there.
constexpr std::size_t kKeyPrefixSize = kInlineKeySizeMax - sizeof(std::uint64_t);

// A granule's lines are a page. A line is read before it is written, as it may hold something; of a
// fresh page that would be the system's page of zeroes, and the write behind it a second fault,
// which all processors hear of. So it is written first.
static_assert(sizeof(MetadataLine) * kLinesPerGranule == 4096);
void TouchGranule(MetadataLine& first) { first.prev = kNoLine; }

}  // namespace

LineTable::LineTable(rdma::Device* device, std::uint32_t line_count_max)
    : device_(device), granule_count_max_(line_count_max / kLinesPerGranule) {
  RING_CHECK(line_count_max % kLinesPerGranule == 0) << "line_count_max=" << line_count_max;
}

LineTable::~LineTable() { DropAll(); }

void LineTable::DropAll() {
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    if (chunks_[i] == nullptr) continue;
    device_->Free(reinterpret_cast<std::byte*>(chunks_[i]), sizeof(MetadataLine) * kChunkLines,
                  KindOf(i));
  }
  chunks_ = std::vector<MetadataLine*>();
  granules_ = std::vector<Granule>();
  keys_ = KeyHeap();
  ranges_ = absl::flat_hash_map<std::uint32_t, std::vector<Range>>();
  used_count_ = next_unused_ = chunk_count_ = 0;
}

absl::Status LineTable::EnsureMemory(std::uint32_t line) {
  const std::size_t index = line >> kChunkShift;
  if (index < chunks_.size() && chunks_[index] != nullptr) return absl::OkStatus();
  if (line / kLinesPerGranule >= granule_count_max_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "line=", line, ": the table has line_count_max=", granule_count_max_ * kLinesPerGranule));
  }
  absl::StatusOr<std::byte*> memory =
      device_->Allocate(sizeof(MetadataLine) * kChunkLines, KindOf(index));
  if (!memory.ok()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("metadata chunk=", index, ": ", memory.status().message(),
                     "; raise the node's memory limit or delete keys"));
  }
  if (chunks_.size() <= index) chunks_.resize(index + 1);
  // The arena's zeroes are a free line's bytes but for prev, which every writer of a line sets.
  chunks_[index] = reinterpret_cast<MetadataLine*>(*memory);
  ++chunk_count_;
  return absl::OkStatus();
}

void LineTable::CountGranule() {
  if (++used_count_ != kYoungGranules || chunks_[0] == nullptr) return;
  device_->PreferHuge(reinterpret_cast<std::byte*>(chunks_[0]), sizeof(MetadataLine) * kChunkLines);
}

absl::StatusOr<std::uint32_t> LineTable::AddGranule(MemgestId memgest, std::uint8_t size_class,
                                                    std::uint32_t base_cells, std::uint32_t keep) {
  if (granules_left() <= keep) {
    return absl::ResourceExhaustedError(
        absl::StrCat("metadata lines: line_count_max=", granule_count_max_ * kLinesPerGranule,
                     " is spent but for a reserve of ", keep * kLinesPerGranule,
                     "; delete keys or raise the limit"));
  }
  while (next_unused_ < granules_.size() && granules_[next_unused_].used) ++next_unused_;
  const std::uint32_t number = next_unused_;
  const std::uint32_t last = std::min(number + keep, granule_count_max_ - 1);
  for (std::uint32_t chunk = number * kLinesPerGranule >> kChunkShift;
       chunk <= last * kLinesPerGranule >> kChunkShift; ++chunk) {
    RING_RETURN_IF_ERROR(EnsureMemory(chunk << kChunkShift));
  }
  if (granules_.size() <= number) granules_.resize(number + 1);
  Granule& granule = granules_[number];
  granule.memgest = memgest.value();
  granule.size_class = size_class;
  granule.base_cells = base_cells;
  granule.used = true;
  TouchGranule(line(number * kLinesPerGranule));
  CountGranule();
  return number;
}

void LineTable::FreeGranules(MemgestId memgest) {
  const std::uint32_t count = granule_count();
  for (std::uint32_t first = 0; first < count; first += kChunkGranules) {
    std::uint32_t freed = 0;
    bool others = false;
    for (std::uint32_t number = first; number < std::min(first + kChunkGranules, count); ++number) {
      Granule& granule = granules_[number];
      const bool own = granule.used && granule.memgest == memgest.value();
      others |= granule.used && !own;
      if (!own) continue;
      RING_CHECK(granule.taken == 0) << "granule=" << number << " taken=" << granule.taken;
      granule = Granule{};
      if (freed++ == 0) next_unused_ = std::min(next_unused_, number);
    }
    used_count_ -= freed;
    // Parts of a huge page would make small ones of it.
    if (freed > 0 && !others) {
      device_->Discard(reinterpret_cast<std::byte*>(chunks_[first / kChunkGranules]),
                       sizeof(MetadataLine) * kChunkLines);
    }
  }
}

void LineTable::ReassignGranule(std::uint32_t number, std::uint8_t size_class,
                                std::uint32_t base_cells) {
  Granule& granule = granules_[number];
  RING_CHECK(granule.used && granule.taken == 0)
      << "granule=" << number << " taken=" << granule.taken;
  granule.size_class = size_class;
  granule.base_cells = base_cells;
}

absl::Status LineTable::EnsureLine(std::uint32_t line, MemgestId memgest, std::uint8_t size_class,
                                   std::uint32_t offset_cells) {
  const std::uint32_t number = line / kLinesPerGranule;
  if (number >= granule_count_max_ || !IsSizeClass(size_class)) {
    return absl::InvalidArgumentError(
        absl::StrCat("line=", line, " size_class=", size_class,
                     ": the table has line_count_max=", granule_count_max_ * kLinesPerGranule));
  }
  const std::uint32_t skip = line % kLinesPerGranule * CellsOf(size_class);
  if (size_class != 0 && offset_cells < skip) {
    return absl::InvalidArgumentError(absl::StrCat("line=", line, " size_class=", size_class,
                                                   " offset_cells=", offset_cells,
                                                   ": its granule would start below 0"));
  }
  const std::uint32_t base = size_class == 0 ? 0 : offset_cells - skip;
  if (number < granules_.size() && granules_[number].used) {
    Granule& granule = granules_[number];
    const bool same = granule.memgest == memgest.value() && granule.size_class == size_class &&
                      granule.base_cells == base;
    if (!same && granule.taken > 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "line=", line, " memgest=", memgest.value(), " size_class=", size_class, " base=", base,
          ": its granule has memgest=", granule.memgest, " size_class=", granule.size_class,
          " base=", granule.base_cells, " taken=", granule.taken));
    }
    granule.memgest = memgest.value();
    granule.size_class = size_class;
    granule.base_cells = base;
    return absl::OkStatus();
  }
  RING_RETURN_IF_ERROR(EnsureMemory(line));
  if (granules_.size() <= number) granules_.resize(number + 1);
  granules_[number].memgest = memgest.value();
  granules_[number].size_class = size_class;
  granules_[number].base_cells = base;
  granules_[number].used = true;
  TouchGranule(this->line(number * kLinesPerGranule));
  CountGranule();
  return absl::OkStatus();
}

void LineTable::TakeLine(std::uint32_t line) {
  Granule& granule = granules_[line / kLinesPerGranule];
  const std::uint64_t bit = std::uint64_t{1} << (line % kLinesPerGranule);
  RING_CHECK(granule.used && (granule.taken & bit) == 0) << "line=" << line;
  granule.taken |= bit;
}

void LineTable::TakeLines(std::uint32_t first, std::uint64_t mask) {
  Granule& granule = granules_[first / kLinesPerGranule];
  RING_CHECK(granule.used && (granule.taken & mask) == 0) << "first=" << first;
  granule.taken |= mask;
}

bool LineTable::DropLine(std::uint32_t line) {
  Granule& granule = granules_[line / kLinesPerGranule];
  const std::uint64_t bit = std::uint64_t{1} << (line % kLinesPerGranule);
  RING_CHECK((granule.taken & bit) != 0) << "line=" << line;
  granule.taken &= ~bit;
  return granule.taken != 0;
}

std::uint64_t LineTable::KeyHandle(const MetadataLine& line) const {
  std::uint64_t handle;
  std::memcpy(&handle, line.key, sizeof(handle));
  return handle;
}

void LineTable::SetKey(std::uint32_t number, absl::string_view key) {
  MetadataLine& to = line(number);
  if (to.key_length > kInlineKeySizeMax) keys_.Remove(KeyHandle(to), to.key_length);
  to.key_length = static_cast<std::uint16_t>(key.size());
  if (key.size() <= kInlineKeySizeMax) {
    std::memset(to.key, 0, sizeof(to.key));
    if (!key.empty()) std::memcpy(to.key, key.data(), key.size());
    return;
  }
  const std::uint64_t handle = keys_.Add(key);
  std::memcpy(to.key, &handle, sizeof(handle));
  std::memcpy(to.key + sizeof(handle), key.data(), kKeyPrefixSize);
}

absl::string_view LineTable::Key(std::uint32_t number) const {
  const MetadataLine& from = line(number);
  if (from.key_length <= kInlineKeySizeMax) return {from.key, from.key_length};
  return keys_.Get(KeyHandle(from), from.key_length);
}

bool LineTable::KeyEquals(std::uint32_t number, absl::string_view key) const {
  const MetadataLine& from = line(number);
  if (from.key_length != key.size()) return false;
  if (key.size() > kInlineKeySizeMax &&
      std::memcmp(from.key + sizeof(std::uint64_t), key.data(), kKeyPrefixSize) != 0) {
    return false;
  }
  return Key(number) == key;
}

void LineTable::SetRanges(std::uint32_t number, absl::Span<const Range> ranges) {
  line(number).flags |= kLarge;
  ranges_[number].assign(ranges.begin(), ranges.end());
}

absl::Span<const Range> LineTable::Ranges(std::uint32_t number) const {
  const auto found = ranges_.find(number);
  if (found == ranges_.end()) return {};
  return found->second;
}

void LineTable::Clear(std::uint32_t number) {
  MetadataLine& to = line(number);
  if (to.key_length > kInlineKeySizeMax) keys_.Remove(KeyHandle(to), to.key_length);
  if ((to.flags & kLarge) != 0) ranges_.erase(number);
  to = MetadataLine{};
}

std::uint64_t LineTable::resident_bytes() const {
  std::uint64_t bytes = std::uint64_t{used_count_} * kLinesPerGranule * sizeof(MetadataLine);
  bytes += granules_.capacity() * sizeof(Granule) + keys_.reserved_bytes();
  for (const auto& [line, ranges] : ranges_)
    bytes += sizeof(line) + ranges.capacity() * sizeof(Range);
  return bytes;
}

}  // namespace ring::memgest
