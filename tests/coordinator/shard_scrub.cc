// ShardHarness::Scrub: what must hold whenever a shard is at rest.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "ring/base/crc32c.h"
#include "srs/codec.h"
#include "tests/coordinator/shard_harness.h"

namespace ring::coordinator {

using memgest::kNoLine;

void ShardHarness::Scrub() {
  ASSERT_FALSE(shard_->Busy());
  ASSERT_EQ(shard_->stalled(), 0u);
  for (std::size_t i = 0; i < answers_.size(); ++i) {
    if (answers_[i].may_be_silent && answers_[i].count == 0) continue;
    ASSERT_EQ(answers_[i].count, 1) << "request " << i << " key=" << sent_[i].key;
  }
  ScrubKeys();
  for (const std::unique_ptr<memgest::Memgest>& memgest : shard_->memgests()) {
    if (memgest == nullptr) continue;  // deleted
    const protocol::MemgestDescriptor& descriptor = memgest->descriptor();
    EXPECT_TRUE(memgest->to_collect().empty() && memgest->collecting().empty());
    for (const Role role : descriptor.MemberRoles(ShardId(0), 3, 2)) {
      SCOPED_TRACE(descriptor.name + " at role " + std::to_string(role.value()));
      MemberTwin& twin = member(role.value());
      if (twin.gone) continue;
      ASSERT_EQ(twin.shard().applied(descriptor.id) + 1, memgest->next_index()) << "E9, E5";
      ScrubLines(*memgest, twin);
      ScrubRecords(*memgest, twin);
      memgest->coded() ? ScrubParity(*memgest, twin) : ScrubReplica(*memgest, twin);
    }
  }
  ScrubArena();
}

// Chains hold what G1 lets live and nothing else; nothing is pinned; counts are right.
void ShardHarness::ScrubKeys() {
  memgest::LineTable& lines = shard_->lines();
  std::set<std::uint32_t> reached;
  std::map<std::uint16_t, std::uint64_t> key_count, bytes, versions;
  shard_->keys().ForEach([&](std::uint32_t head) {
    int strength = -1;
    bool all_lower_go = false;
    const std::string key(lines.Key(head));
    for (std::uint32_t line = head; line != kNoLine; line = lines.line(line).prev) {
      ASSERT_TRUE(reached.insert(line).second) << "line=" << line << " is in two chains";
      const memgest::MetadataLine& record = lines.line(line);
      ASSERT_EQ(lines.Key(line), key) << "line=" << line;
      ASSERT_TRUE((record.flags & memgest::kLive) != 0 &&
                  (record.flags & memgest::kCommitted) != 0);
      EXPECT_EQ(record.pins, 0) << "line=" << line;
      if (record.prev != kNoLine) {
        ASSERT_LT(lines.line(record.prev).version, record.version);
      }
      const int own = shard_->FindMemgest(MemgestId(record.memgest))->failures_tolerated();
      if (line != head) {
        EXPECT_FALSE(all_lower_go || strength >= 1 || strength >= own)
            << "G1: key=" << key << " version=" << record.version
            << " in memgest=" << record.memgest << " should have been collected";
      }
      const bool tombstone = (record.flags & memgest::kTombstone) != 0;
      EXPECT_FALSE(tombstone && record.prev == kNoLine) << "G5: a tombstone stayed, key=" << key;
      strength = std::max(strength, own);
      all_lower_go |= (record.flags & memgest::kExplicit) != 0;
      ++versions[record.memgest];
      if (line == head && !tombstone) {
        ++key_count[record.memgest];
        bytes[record.memgest] += record.value_length;
      }
      const std::string value = ValueOf(line);
      EXPECT_EQ(Crc32c(value.data(), value.size()), record.value_crc) << "I4 key=" << key;
    }
  });
  EXPECT_EQ(LiveLines(), reached.size()) << "versions that no key leads to";
  for (const std::unique_ptr<memgest::Memgest>& memgest : shard_->memgests()) {
    if (memgest == nullptr) continue;
    const std::uint16_t id = memgest->descriptor().id.value();
    EXPECT_EQ(memgest->key_count, key_count[id]) << memgest->descriptor().name;
    EXPECT_EQ(memgest->logical_bytes, bytes[id]) << memgest->descriptor().name;
    EXPECT_EQ(memgest->version_count, versions[id]) << memgest->descriptor().name;
  }
}

void ShardHarness::ScrubLines(memgest::Memgest& memgest, MemberTwin& twin) {
  memgest::LineTable& ours = shard_->lines();
  memgest::LineTable& theirs = twin.shard().lines();
  const std::uint16_t id = memgest.descriptor().id.value();
  const std::uint32_t granules = std::max(ours.granule_count(), theirs.granule_count());
  for (std::uint32_t line = 0; line < granules * memgest::kLinesPerGranule; ++line) {
    const bool here =
        ours.Has(line) && ours.line(line).version != 0 && ours.line(line).memgest == id;
    const bool there =
        theirs.Has(line) && theirs.line(line).version != 0 && theirs.line(line).memgest == id;
    ASSERT_EQ(here, there) << "line=" << line;
    if (!here) continue;
    const memgest::MetadataLine& a = ours.line(line);
    const memgest::MetadataLine& b = theirs.line(line);
    EXPECT_EQ(a.version, b.version);
    EXPECT_EQ(ours.Key(line), theirs.Key(line));
    EXPECT_EQ(a.value_crc, b.value_crc);
    EXPECT_EQ(a.value_length, b.value_length);
    EXPECT_EQ(a.offset_cells, b.offset_cells);
    EXPECT_EQ(a.size_class, b.size_class);
    constexpr int kShared = memgest::kTombstone | memgest::kLarge | memgest::kExplicit;
    EXPECT_EQ(a.flags & kShared, b.flags & kShared);
    ASSERT_EQ(ours.Ranges(line).size(), theirs.Ranges(line).size());
    for (std::size_t i = 0; i < ours.Ranges(line).size(); ++i) {
      EXPECT_EQ(ours.Ranges(line)[i].offset_cells, theirs.Ranges(line)[i].offset_cells);
      EXPECT_EQ(ours.Ranges(line)[i].length_cells, theirs.Ranges(line)[i].length_cells);
    }
  }
}

void ShardHarness::ScrubReplica(memgest::Memgest& memgest, MemberTwin& twin) {
  memgest::LineTable& lines = shard_->lines();
  const memgest::HeapSpace& copy = *twin.shard().replica_heap(memgest.descriptor().id);
  shard_->keys().ForEach([&](std::uint32_t head) {
    for (std::uint32_t line = head; line != kNoLine; line = lines.line(line).prev) {
      const memgest::MetadataLine& record = lines.line(line);
      if (record.memgest != memgest.descriptor().id.value() || record.value_length == 0) continue;
      memgest::Range whole{record.offset_cells, (record.value_length + 63) / 64};
      absl::Span<const memgest::Range> ranges = absl::MakeConstSpan(&whole, 1);
      if ((record.flags & memgest::kLarge) != 0) ranges = lines.Ranges(line);
      std::size_t left = record.value_length;
      for (const memgest::Range& range : ranges) {
        const std::size_t size = std::min<std::size_t>(left, std::size_t{range.length_cells} * 64);
        ASSERT_TRUE(copy.Has(range.offset_cells, static_cast<std::uint32_t>((size + 63) / 64)));
        EXPECT_EQ(
            std::memcmp(copy.At(range.offset_cells), memgest.heap().At(range.offset_cells), size),
            0)
            << "key=" << lines.Key(line);
        left -= size;
      }
    }
  });
}

// S3, S12: every parity byte is the coefficient times the heap's byte, used or not. Only this shard
// writes.
void ShardHarness::ScrubParity(memgest::Memgest& memgest, MemberTwin& twin) {
  const protocol::MemgestDescriptor& descriptor = memgest.descriptor();
  memgest::ParityStore& store = *twin.parity(descriptor.id);
  const absl::StatusOr<srs::Codec> codec =
      srs::Codec::Create({descriptor.k, descriptor.m, 3, descriptor.block_size});
  ASSERT_TRUE(codec.ok());
  std::vector<std::byte> expected(descriptor.block_size);
  const std::vector<std::byte> zeros(descriptor.block_size);
  const std::uint32_t block_cells = descriptor.block_size / 64;
  for (std::uint32_t block = 0; block < memgest.allocator().block_count(); ++block) {
    const std::uint32_t cells = block * block_cells;
    const srs::Position at = store.layout().Locate(0, std::uint64_t{cells} * 64);
    std::fill(expected.begin(), expected.end(), std::byte{0});
    if (memgest.heap().Has(cells, block_cells)) {
      codec->AddContribution(expected.data(), static_cast<std::uint32_t>(store.parity_index()),
                             memgest.heap().At(cells), at.column, expected.size());
    }
    const memgest::ParityStore::Row row =
        store.ReadRow(static_cast<std::uint32_t>(at.extent), at.row);
    const std::byte* const bytes = row.bytes != nullptr ? row.bytes : zeros.data();
    ASSERT_EQ(std::memcmp(bytes, expected.data(), expected.size()), 0) << "block=" << block;
    EXPECT_EQ(row.last_touch[at.column], memgest.allocator().LastTouch(block)) << "S2";
  }
}

// X2: what the coordinator knows of a request, every member of its memgest knows, too.
void ShardHarness::ScrubRecords(memgest::Memgest& memgest, MemberTwin& twin) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, memgest::CompletionRecord> theirs;
  twin.shard().completions().ForEach(
      [&](const memgest::ClientId& id, std::uint64_t, const memgest::CompletionRecord& record) {
        theirs[{id.high, record.seq}] = record;
      });
  shard_->completions().ForEach(
      [&](const memgest::ClientId& id, std::uint64_t, const memgest::CompletionRecord& record) {
        EXPECT_EQ(record.state, memgest::RecordState::kDone)
            << "a request stayed in flight: seq=" << record.seq;
        if (record.memgest != memgest.descriptor().id.value()) return;
        if (record.code != static_cast<std::uint8_t>(protocol::Outcome::kOk)) return;
        const auto found = theirs.find({id.high, record.seq});
        ASSERT_NE(found, theirs.end()) << "seq=" << record.seq;
        EXPECT_EQ(found->second.version, record.version);
        EXPECT_EQ(found->second.request_crc, record.request_crc);
        EXPECT_EQ(found->second.code, record.code);
      });
}

// Every segment of the arena is free: all of it can be taken at once.
void ShardHarness::ScrubArena() {
  std::vector<memgest::DeltaArena::Piece> pieces;
  for (std::size_t i = 0; i < memgest::DeltaArena::kSegmentCount; ++i) {
    pieces.push_back(arena_->Take(memgest::DeltaArena::kSegmentSize));
    EXPECT_NE(pieces.back().memory, nullptr) << "bytes of the arena were not given back";
  }
  for (const memgest::DeltaArena::Piece& piece : pieces) {
    if (piece.memory != nullptr) arena_->GiveBack(piece.segment);
  }
}

}  // namespace ring::coordinator
