// tests/memgest/model_log.h — a random log of one shard, as a coordinator would write it.
//
// What:      ModelLog makes entries of two memgests, one replicated, one coded: puts, moves,
//            tombstones, large values in PARTs with a FINAL, collections, completion records.
//            Each entry can be appended to any ring, in any epoch. StateOf says what a member has
//            folded.
// Shape:     lines 0..1023 are the replicated memgest's, 1024..2047 the coded one's; granules of
//            class 2, but for the last of each, which are lines without slots.
// Ownership: entries own their bytes.
// Threads:   one.
// Errors:    none.
#ifndef RING_TESTS_MEMGEST_MODEL_LOG_H_
#define RING_TESTS_MEMGEST_MODEL_LOG_H_

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "memgest/member_shard.h"
#include "ring/base/random.h"
#include "tests/memgest/entry_ring.h"

namespace ring::memgest {

inline constexpr MemgestId kModelRep{2};
inline constexpr MemgestId kModelSrs{3};
inline constexpr std::uint32_t kModelBlockSize = 65536;

inline protocol::MemgestDescriptor ModelDescriptor(MemgestId id) {
  protocol::MemgestDescriptor descriptor;
  descriptor.id = id;
  descriptor.r = 3;
  descriptor.block_size = kModelBlockSize;
  if (id == kModelSrs) {
    descriptor.scheme = protocol::Scheme::kStretchedReedSolomon;
    descriptor.k = 2;
    descriptor.m = 2;
  }
  return descriptor;
}

struct ModelEntry {
  EntryFields fields;  // without what is owned here
  std::string key;
  std::string payload;
  std::vector<Range> ranges;
  std::vector<CollectItem> collect;

  void AppendTo(EntryRing& ring) const {
    EntryFields full = fields;
    full.key = key;
    full.ranges = ranges;
    full.collect = collect;
    ring.Append(full, payload.data(), payload.size());
  }
};

class ModelLog {
 public:
  explicit ModelLog(Random* random) : random_(random) {
    for (Log& log : logs_) {
      for (std::uint32_t i = 0; i < kLines; ++i) {
        (i < kLines - kLinesPerGranule ? log.free : log.free_plain).push_back(i);
      }
    }
  }

  // The entries of one more operation.
  void Step(Epoch epoch, std::vector<ModelEntry>* to) {
    const bool coded = random_->Below(3) == 0;
    Log& log = logs_[coded ? 1 : 0];
    switch (random_->Below(10)) {
      case 0:
        return PutLarge(epoch, coded, to);
      case 1: {
        ModelEntry entry = Make(epoch, coded, EntryType::kRecord);
        AddRecord(&entry);
        // Order between logs is not defined: a client that expires is one of this log alone.
        if (!coded && random_->Below(4) == 0) {
          entry.fields.type = EntryType::kExpireRecord;
          entry.fields.client = {kExpiring, 99};
        }
        to->push_back(std::move(entry));
        return;
      }
      case 2:
        if (log.free_plain.empty()) break;
        to->push_back(Make(epoch, coded, EntryType::kTombstone));
        return TakeLine(&log, &log.free_plain, coded, 0, &to->back());
      case 3: {
        to->push_back(Make(epoch, coded, EntryType::kCollect));
        return;
      }
      default:
        break;
    }
    if (log.free.empty()) return;
    to->push_back(Make(epoch, coded, EntryType::kPut));
    ModelEntry& entry = to->back();
    if (random_->Below(4) == 0) entry.fields.flags = kExplicitMove;
    entry.payload = RandomBytes(random_->Below(129));
    entry.fields.value_length = static_cast<std::uint32_t>(entry.payload.size());
    entry.fields.value_crc = Crc32c(entry.payload.data(), entry.payload.size());
    if (random_->Below(4) == 0) entry.fields.expiry_ns = random_->Next64() | 1;
    TakeLine(&log, &log.free, coded, 2, &entry);
  }

 private:
  static constexpr std::uint32_t kLines = 1024;
  static constexpr std::uint64_t kExpiring = 42;  // a client's id
  struct Held {
    std::uint64_t version = 0;
    std::uint32_t line = 0;
    std::uint8_t size_class = 0;
    std::uint32_t large_block = 0;  // 0: none
  };
  struct Log {
    std::uint64_t index = 0;
    std::vector<std::uint32_t> free, free_plain;
    std::vector<Held> held;
    std::vector<std::uint32_t> free_blocks;
    std::uint32_t next_block = 8;  // blocks before it are for slots
  };

  std::string RandomBytes(std::size_t size) {
    std::string bytes(size, '\0');
    for (char& c : bytes) c = static_cast<char>(random_->Next64());
    return bytes;
  }

  // An entry with collections, and perhaps a completion record.
  ModelEntry Make(Epoch epoch, bool coded, EntryType type) {
    Log& log = logs_[coded ? 1 : 0];
    ModelEntry entry;
    entry.fields.type = type;
    entry.fields.memgest = coded ? kModelSrs : kModelRep;
    entry.fields.index = ++log.index;
    entry.fields.version = Version(epoch, ++counter_);
    for (std::uint64_t n = random_->Below(3); n > 0 && !log.held.empty(); --n) {
      const std::size_t at = random_->Below(log.held.size());
      const Held held = log.held[at];
      log.held[at] = log.held.back();
      log.held.pop_back();
      entry.collect.push_back({held.version, LineNumber(held.line, coded), 0});
      // Free again behind this entry: never for this entry itself (G2).
      freed_.push_back({held, coded});
    }
    if (type != EntryType::kRecord && random_->Below(2) == 0) AddRecord(&entry);
    return entry;
  }
  void AddRecord(ModelEntry* entry) {
    std::uint64_t client = 1 + random_->Below(5);
    if (entry->fields.memgest == kModelRep && random_->Below(4) == 0) client = kExpiring;
    std::uint64_t& seq = seqs_[client];
    ++seq;
    entry->fields.client = {client, 99};
    entry->fields.seq = seq;
    entry->fields.incomplete_delta =
        static_cast<std::uint16_t>(random_->Below(std::min<std::uint64_t>(seq, 40)));
    entry->fields.request_crc = static_cast<std::uint32_t>(random_->Next64());
    entry->fields.result_code = static_cast<std::uint8_t>(random_->Below(3));
  }
  static std::uint32_t LineNumber(std::uint32_t line, bool coded) {
    return line + (coded ? kLines : 0);
  }
  void TakeLine(Log* log, std::vector<std::uint32_t>* free, bool coded, std::uint8_t size_class,
                ModelEntry* entry) {
    const std::size_t at = random_->Below(free->size());
    const std::uint32_t line = (*free)[at];
    (*free)[at] = free->back();
    free->pop_back();
    entry->fields.line = LineNumber(line, coded);
    entry->fields.size_class = size_class;
    entry->fields.offset_cells = size_class == 0 ? 0 : line * 2;
    entry->key = RandomBytes(1 + random_->Below(random_->Below(4) == 0 ? 300 : 30));
    log->held.push_back({entry->fields.version.bits(), line, size_class, large_block_});
    large_block_ = 0;
    for (const auto& [held, of_coded] : freed_) {
      Log& home = logs_[of_coded ? 1 : 0];
      (held.size_class == 0 ? home.free_plain : home.free).push_back(held.line);
      if (held.large_block != 0) home.free_blocks.push_back(held.large_block);
    }
    freed_.clear();
  }
  // Two PARTs into two blocks, with another operation between at times, then a FINAL.
  void PutLarge(Epoch epoch, bool coded, std::vector<ModelEntry>* to) {
    Log& log = logs_[coded ? 1 : 0];
    if (log.free_plain.empty()) return;
    std::uint32_t block = log.next_block;
    if (log.free_blocks.empty()) {
      log.next_block += 2;
    } else {
      block = log.free_blocks.back();
      log.free_blocks.pop_back();
    }
    const std::string value = RandomBytes(kModelBlockSize + 1 + random_->Below(20'000));
    constexpr std::uint32_t kBlockCells = kModelBlockSize / 64;
    for (std::uint32_t part = 0; part < 2; ++part) {
      to->push_back(Make(epoch, coded, EntryType::kPart));
      to->back().fields.client = ClientId();
      to->back().fields.seq = 0;
      to->back().fields.incomplete_delta = 0;
      to->back().fields.offset_cells = (block + part) * kBlockCells;
      to->back().payload = value.substr(part * kModelBlockSize, kModelBlockSize);
    }
    to->push_back(Make(epoch, coded, EntryType::kFinal));
    ModelEntry& final = to->back();
    final.ranges = {{block * kBlockCells, 2 * kBlockCells}};
    final.fields.value_length = static_cast<std::uint32_t>(value.size());
    final.fields.value_crc = Crc32c(value.data(), value.size());
    large_block_ = block;
    TakeLine(&log, &log.free_plain, coded, 0, &final);
  }

  Random* random_;
  Log logs_[2];
  std::uint64_t counter_ = 0;
  std::map<std::uint64_t, std::uint64_t> seqs_;
  std::vector<std::pair<Held, bool>> freed_;  // since the last line was taken
  std::uint32_t large_block_ = 0;
};

// All that a member has folded, but for values, in an order that can be compared.
struct MemberState {
  using LineState =
      std::tuple<std::uint64_t, std::uint32_t, std::uint32_t, std::uint64_t, std::uint32_t, int,
                 int, int, std::string, std::vector<std::uint32_t>>;
  std::map<std::uint32_t, LineState> lines;
  std::map<std::uint32_t, std::tuple<int, int, std::uint32_t, std::uint64_t>> granules;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::string> done;  // by client, seq
  std::map<std::uint64_t, std::uint64_t> first_incomplete;              // by client
  std::vector<std::uint64_t> logs;  // applied, end_cells of both
  friend bool operator==(const MemberState&, const MemberState&) = default;
};

inline MemberState StateOf(MemberShard& member) {
  MemberState state;
  LineTable& lines = member.lines();
  for (std::uint32_t first = 0; first < lines.granule_count() * kLinesPerGranule;
       first += kLinesPerGranule) {
    const Granule& granule = lines.granule(first);
    if (!granule.used || granule.taken == 0) continue;
    state.granules[first] = {granule.memgest, granule.size_class, granule.base_cells,
                             granule.taken};
    for (std::uint32_t number = first; number < first + kLinesPerGranule; ++number) {
      const MetadataLine& line = lines.line(number);
      if (line.version == 0) continue;
      std::vector<std::uint32_t> ranges;
      for (const Range& range : lines.Ranges(number)) {
        ranges.push_back(range.offset_cells);
        ranges.push_back(range.length_cells);
      }
      const std::string key(lines.Key(number).data(), lines.Key(number).size());
      state.lines[number] = {line.version,     line.value_crc,    line.value_length,
                             line.expiry_ns,   line.offset_cells, line.memgest,
                             line.flags,       line.size_class,   key,
                             std::move(ranges)};
    }
  }
  member.completions().ForEachClient(
      [&](const ClientId& id, std::uint64_t first, const CompletionTable::Client* client) {
        state.first_incomplete[id.high] = first;
        CompletionTable::ForEachDone(client, [&](const CompletionRecord& record) {
          if (record.seq < first) return;
          state.done[{id.high, record.seq}] =
              std::string(reinterpret_cast<const char*>(&record), sizeof(record));
        });
      });
  for (const MemgestId memgest : {kModelRep, kModelSrs}) {
    state.logs.push_back(member.applied(memgest));
    state.logs.push_back(member.end_cells(memgest));
  }
  return state;
}

// The bytes of every value of the replicated memgest that is here.
inline std::map<std::uint32_t, std::string> ValuesOf(MemberShard& member) {
  std::map<std::uint32_t, std::string> values;
  const HeapSpace& heap = *member.replica_heap(kModelRep);
  for (std::uint32_t number = 0; number < 1024; ++number) {
    if (!member.lines().Has(number) || member.lines().line(number).version == 0) continue;
    const MetadataLine& line = member.lines().line(number);
    if ((line.flags & kAbsent) != 0) continue;
    const absl::Span<const Range> ranges = member.lines().Ranges(number);
    const std::uint32_t offset = ranges.empty() ? line.offset_cells : ranges[0].offset_cells;
    if (line.value_length == 0) continue;
    values[number] = std::string(reinterpret_cast<const char*>(heap.At(offset)), line.value_length);
  }
  return values;
}

}  // namespace ring::memgest

#endif  // RING_TESTS_MEMGEST_MODEL_LOG_H_
