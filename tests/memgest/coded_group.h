// tests/memgest/coded_group.h — the shards of a coded memgest with their logs, and its parities.
//
// What:      CodedGroup runs real coordinators' logs (Memgest, ShardLog, LogWriter) against real
//            members (LogReader, MemberShard, ParityStore): puts, collections, epoch changes,
//            parities that are lost and replaced. Compare checks every row against an encode.
// Shape:     s shards; parity j is role s + j. Each shard has its own epochs.
// Ownership: owns everything.
// Threads:   one.
// Errors:    as failures of the test.
#ifndef RING_TESTS_MEMGEST_CODED_GROUP_H_
#define RING_TESTS_MEMGEST_CODED_GROUP_H_

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "memgest/coordinator_snapshot.h"
#include "memgest/member_shard.h"
#include "memgest/srs_memgest.h"
#include "ring/base/crc32c.h"
#include "ring/base/random.h"
#include "srs/codec.h"
#include "tests/memgest/log_link.h"
#include "tests/memgest/snapshot_pieces.h"
#include "tests/memgest/twin_device.h"
#include "tests/support/status_matchers.h"

namespace ring::memgest {

class CodedGroup {
 public:
  static constexpr std::uint32_t kBlock = 16 * 1024;
  static constexpr std::uint32_t kLines = 1u << 16;
  static constexpr MemgestId kSrs{6};

  struct Held {
    Slot slot;
    std::uint64_t version = 0;
  };
  // A coordinator.
  struct Shard {
    std::unique_ptr<DeltaArena> arena;
    std::unique_ptr<LineTable> lines;
    std::unique_ptr<Memgest> memgest;
    std::unique_ptr<ShardLog> log;
    CompletionTable completions;
    std::vector<std::unique_ptr<LogLink>> links;  // by parity; null: none
    std::vector<std::unique_ptr<LogLink>> old_links;
    std::vector<Held> live;
    RoleMask active = 0;
    std::uint64_t versions = 0;
    Epoch epoch{5};
    Epoch last_normal{5};
  };
  struct ParityNode {
    std::unique_ptr<ParityStore> store;
    std::vector<std::unique_ptr<MemberShard>> members;  // by shard; null: not one
  };

  CodedGroup(std::uint64_t seed, int k, int m, int s) : random_(seed), s_(s), m_(m) {
    descriptor_.id = kSrs;
    descriptor_.scheme = protocol::Scheme::kStretchedReedSolomon;
    descriptor_.k = static_cast<std::uint8_t>(k);
    descriptor_.m = static_cast<std::uint8_t>(m);
    descriptor_.block_size = kBlock;
    auto codec = srs::Codec::Create({static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(m),
                                     static_cast<std::uint32_t>(s), kBlock});
    RING_CHECK(codec.ok());
    codec_ = std::make_unique<const srs::Codec>(*std::move(codec));
    parities_.resize(static_cast<std::size_t>(m));
    for (int j = 0; j < m; ++j) ResetParity(j);
    shards_.resize(static_cast<std::size_t>(s));
    for (int i = 0; i < s; ++i) {
      Shard& one = shard(i);
      one.arena = *DeltaArena::Create(&device_);
      one.lines = std::make_unique<LineTable>(&device_, kLines);
      one.memgest = std::make_unique<Memgest>(&device_, descriptor_, Id(i), s, m, one.lines.get());
      one.log = std::make_unique<ShardLog>(one.epoch, one.arena.get());
      one.log->Attach(one.memgest.get(), kAllRoles);
      one.links.resize(static_cast<std::size_t>(m));
      for (int j = 0; j < m; ++j) {
        Open(i, j);
        one.log->AddWriter(RoleOf(j), std::move(link(i, j).writer));
        parity(j).members[static_cast<std::size_t>(i)] = MakeMember(i, j);
        member(i, j).Attach(std::move(link(i, j).reader));
        one.active |= RoleBit(RoleOf(j));
      }
      one.memgest->members().SetActive(one.active);
    }
  }

  Role RoleOf(int j) const { return Role(static_cast<std::uint16_t>(s_ + j)); }
  Shard& shard(int i) { return shards_[static_cast<std::size_t>(i)]; }
  ParityNode& parity(int j) { return parities_[static_cast<std::size_t>(j)]; }
  LogLink& link(int i, int j) { return *shard(i).links[static_cast<std::size_t>(j)]; }
  MemberShard& member(int i, int j) { return *parity(j).members[static_cast<std::size_t>(i)]; }
  SeededRandom& random() { return random_; }
  const srs::Codec& codec() const { return *codec_; }
  int shard_count() const { return s_; }

  // A put of random bytes; false: no room just now.
  bool Put(int i, std::uint32_t length) {
    Shard& one = shard(i);
    const std::size_t size = kEntryHeaderSize + ShardLog::kCollectRoom + length + 128;
    if (!one.log->HasRoom(*one.memgest, size, false)) return false;
    const absl::StatusOr<Slot> slot = one.memgest->allocator().Allocate(length);
    EXPECT_OK(slot.status());
    EntryFields fields = Fields(i, EntryType::kPut);
    fields.key = "key";
    fields.line = slot->line;
    fields.size_class = slot->size_class;
    fields.offset_cells = slot->offset_cells;
    fields.value_length = length;
    MetadataLine& line = one.lines->line(slot->line);
    line.version = fields.version.bits();
    line.value_length = length;
    line.offset_cells = slot->offset_cells;
    line.memgest = kSrs.value();
    line.size_class = slot->size_class;
    line.flags = kLive;
    one.lines->SetKey(slot->line, fields.key);
    one.live.push_back({*slot, line.version});
    Append(i, fields, length);
    return true;
  }
  // Bytes into a place that was given out before, as a large value's PART brings them.
  void Part(int i, std::uint32_t offset_cells, std::uint32_t length) {
    EntryFields fields = Fields(i, EntryType::kPart);
    fields.offset_cells = offset_cells;
    Append(i, fields, length);
  }
  // A random version goes with the next entry.
  void Collect(int i) {
    Shard& one = shard(i);
    if (one.live.empty()) return;
    std::swap(one.live[random_.Below(one.live.size())], one.live.back());
    const Held gone = one.live.back();
    if ((one.lines->line(gone.slot.line).flags & kCommitted) == 0) return;
    one.live.pop_back();
    one.lines->line(gone.slot.line).flags |= kCollecting;
    one.memgest->to_collect().push_back({{gone.version, gone.slot.line}, kNoLine});
  }
  ParityRebuild::Pushed Rebuild(int i) {
    return shard(i).memgest->rebuild().Step(*shard(i).log, shard(i).arena.get());
  }
  // Sends, takes acknowledgements, commits, tells.
  void Turn(int i) {
    Shard& one = shard(i);
    one.log->Flush().IgnoreError();
    for (int j = 0; j < m_; ++j) {
      if (one.links[static_cast<std::size_t>(j)] == nullptr) continue;
      for (const ShardLog::Link& to : one.log->links()) {
        if (to.role != RoleOf(j)) continue;
        for (const auto& completion : link(i, j).to_member.completions) {
          to.writer->OnCompletion(completion);
        }
      }
      link(i, j).to_member.completions.clear();
    }
    one.log->AdvanceCommit([&one](Pending& pending) {
      if (pending.type == EntryType::kPut) one.lines->line(pending.line).flags |= kCommitted;
    });
    one.log->DrainCollected(*one.memgest, [&one](const Collection& collection) {
      const MetadataLine line = one.lines->line(collection.item.line);
      one.lines->Clear(collection.item.line);
      one.memgest->allocator().Free(collection.item.line, line.size_class, line.offset_cells, {});
    });
    one.log->EndTurn();
  }
  void Fold(int i, int j, int budget = 1 << 20) {
    if (parity(j).members[static_cast<std::size_t>(i)] == nullptr) return;
    ASSERT_OK(member(i, j).Fold(budget).status()) << "shard=" << i << " parity=" << j;
    if (member(i, j).reader() != nullptr) {
      EXPECT_OK(member(i, j).reader()->ShareCredit(true));
    }
  }
  // Until nothing is under way; rebuilding goes on if asked for.
  void Settle(bool rebuild = false) {
    for (int i = 0; i < s_; ++i) {
      for (int idle = 0; idle < 3;) {
        const ParityRebuild::Pushed pushed =
            rebuild && !shard(i).log->held() ? Rebuild(i) : ParityRebuild::Pushed::kNothing;
        Turn(i);
        for (int j = 0; j < m_; ++j) Fold(i, j);
        if (::testing::Test::HasFatalFailure()) return;
        idle = pushed == ParityRebuild::Pushed::kNothing && shard(i).log->quiet() ? idle + 1 : 0;
      }
    }
  }

  // The node of parity j is gone, with its memory. What it is sent from here on fails.
  void Lose(int j) {
    for (int i = 0; i < s_; ++i) {
      link(i, j).to_member.failed = true;
      parity(j).members[static_cast<std::size_t>(i)] = nullptr;
    }
    ResetParity(j);
  }
  // The shard's next epoch; those of the parities go on that are listed, with what they have.
  void BeginEpoch(int i, const std::vector<int>& parities) {
    Shard& one = shard(i);
    const Epoch next(one.epoch.value() + 1);
    one.log->BeginEpoch(next);
    one.epoch = next;
    for (int j = 0; j < m_; ++j) {
      std::unique_ptr<LogLink>& old = one.links[static_cast<std::size_t>(j)];
      if (old != nullptr) one.old_links.push_back(std::move(old));
    }
    RoleMask active = 0;
    for (const int j : parities) {
      absl::StatusOr<std::vector<SealedLog>> held = member(i, j).Seal(next, one.last_normal);
      ASSERT_OK(held.status());
      Open(i, j);
      ASSERT_OK(one.log->AddWriter(RoleOf(j), std::move(link(i, j).writer), *held).status());
      member(i, j).Attach(std::move(link(i, j).reader));
      active |= RoleBit(RoleOf(j)) & one.active;
    }
    one.active = active;
  }
  // Everybody has everything: who is incomplete stays so.
  void Normal(int i) {
    Shard& one = shard(i);
    for (int n = 0; n < 10; ++n) Turn(i);
    const bool first = one.log->held();
    std::vector<ParityRebuild::From> incomplete;
    for (const ParityRebuild::From& from : one.memgest->rebuild().parities()) {
      const bool named = (one.active & RoleBit(from.role)) != 0;
      if (named && !one.memgest->rebuild().Complete(from.role, *one.log))
        incomplete.push_back(from);
    }
    one.memgest->members().SetActive(one.active);
    if (first) one.log->Normal();
    one.log->ForgetNews();
    one.memgest->rebuild().OnNormal(one.active, incomplete, first);
    one.last_normal = one.epoch;
    for (int j = 0; j < m_; ++j) {
      if ((one.active & RoleBit(RoleOf(j))) == 0) continue;
      ASSERT_OK(member(i, j).Adopt(one.epoch));
    }
  }
  // The ring of a new parity's node opens: snapshot, E0, and everything since.
  void Join(int i, int j) {
    Shard& one = shard(i);
    std::unique_ptr<MemberShard>& joiner = parity(j).members[static_cast<std::size_t>(i)];
    joiner = MakeMember(i, j);
    joiner->Reset(one.epoch);
    joiner->AddParity(descriptor_, parity(j).store.get());
    Memgest* const logs[] = {one.memgest.get()};
    one.memgest->rebuild().Begin(RoleOf(j));
    const std::vector<std::string> snapshot =
        AllPieces(*TakeCoordinatorSnapshot(++snapshots_, *one.lines, one.completions, *one.log,
                                           logs, /*lingering=*/{}, kPieceSizeMax));
    const std::uint64_t applied =
        one.memgest->next_index() - 1 - one.log->UncommittedCount(*one.memgest);
    Open(i, j);
    ASSERT_OK(
        one.log->AddWriter(RoleOf(j), std::move(link(i, j).writer), {{kSrs, applied, applied}})
            .status());
    joiner->Attach(std::move(link(i, j).reader));
    for (const std::string& piece : snapshot) ASSERT_OK(joiner->Install(piece));
  }
  // ... and it is named.
  void Name(int i, int j) {
    shard(i).active |= RoleBit(RoleOf(j));
    Normal(i);
  }

  // Of the rows that the parity covers: whether each is the encode of the shards' bytes, as of the
  // last index that touched each of its blocks. REQUIRES: Settle.
  struct Compared {
    int rows = 0;
    int wrong = 0;
    std::string first_wrong;
  };
  Compared Compare(int j) {
    const srs::Layout& layout = codec_->layout();
    const ParityStore& store = *parity(j).store;
    Compared result;
    std::uint32_t extents = store.extent_count();
    for (const Shard& one : shards_) {
      extents =
          std::max(extents, one.memgest->allocator().block_count() / layout.blocks_per_shard());
    }
    for (std::uint32_t extent = 0; extent < extents; ++extent) {
      for (std::uint32_t row = 0; row < layout.row_count(); ++row) {
        if (!store.CoversRow(extent, row)) continue;
        ++result.rows;
        if (RowIsRight(j, extent, row) || ++result.wrong > 1) continue;
        result.first_wrong = "parity=" + std::to_string(j) + " extent=" + std::to_string(extent) +
                             " row=" + std::to_string(row);
      }
    }
    return result;
  }

 private:
  static ShardId Id(int i) { return ShardId(static_cast<std::uint16_t>(i)); }
  bool RowIsRight(int j, std::uint32_t extent, std::uint32_t row) const {
    const srs::Layout& layout = codec_->layout();
    const ParityStore& store = *parities_[static_cast<std::size_t>(j)].store;
    const ParityStore::Row got = store.ReadRow(extent, row);
    std::vector<std::byte> expected(kBlock);
    bool right = true;
    for (std::uint32_t column = 0; column < layout.parameters().k; ++column) {
      const srs::DataBlock at = layout.BlockOf(extent, row, column);
      Memgest& memgest = *shards_[at.shard].memgest;
      right &= got.last_touch[column] ==
               memgest.allocator().LastTouch(static_cast<std::uint32_t>(at.offset / kBlock));
      const auto cell = static_cast<std::uint32_t>(at.offset / 64);
      if (!memgest.heap().Has(cell, kBlock / 64)) continue;
      codec_->AddContribution(expected.data(), static_cast<std::uint32_t>(j),
                              memgest.heap().At(cell), column, kBlock);
    }
    const std::vector<std::byte> zero(kBlock);
    const std::byte* const bytes = got.bytes == nullptr ? zero.data() : got.bytes;
    return right && std::memcmp(bytes, expected.data(), kBlock) == 0;
  }
  void ResetParity(int j) {
    parity(j).store = std::make_unique<ParityStore>(&device_, descriptor_, s_, j);
    parity(j).members.resize(static_cast<std::size_t>(s_));
  }
  std::unique_ptr<MemberShard> MakeMember(int i, int j) {
    auto made = std::make_unique<MemberShard>(&device_, GroupId(0), Id(i), kLines);
    made->AddParity(descriptor_, parity(j).store.get());
    return made;
  }
  void Open(int i, int j) {
    Shard& one = shard(i);
    std::unique_ptr<LogLink>& place = one.links[static_cast<std::size_t>(j)];
    if (place != nullptr) one.old_links.push_back(std::move(place));
    place = std::make_unique<LogLink>();
    place->writer_options.epoch = place->reader_options.epoch = one.epoch;
    place->writer = std::make_unique<LogWriter>(place->writer_options);
    place->reader = std::make_unique<LogReader>(place->reader_options);
  }
  EntryFields Fields(int i, EntryType type) {
    EntryFields fields;
    fields.type = type;
    fields.version = Version(shard(i).epoch, ++shard(i).versions);
    return fields;
  }
  void Append(int i, EntryFields fields, std::uint32_t length) {
    Shard& one = shard(i);
    const std::size_t value_size = AlignUp(length, kCacheLine);
    const DeltaArena::Piece piece = one.arena->Take(value_size + DeltaSize(*one.memgest, length));
    ASSERT_NE(piece.memory, nullptr);
    for (std::uint32_t n = 0; n < length; ++n) {
      piece.memory[n] = static_cast<std::byte>(random_.Next64());
    }
    fields.value_crc = Crc32c(piece.memory, length);
    fields.payload_length = length;
    AppendCoded(*one.log, *one.memgest, fields, piece.memory, piece, value_size);
  }

  SeededRandom random_;
  int s_;
  int m_;
  protocol::MemgestDescriptor descriptor_;
  TwinDevice device_;
  std::unique_ptr<const srs::Codec> codec_;
  std::vector<ParityNode> parities_;
  std::vector<Shard> shards_;
  std::uint64_t snapshots_ = 0;
};

}  // namespace ring::memgest

#endif  // RING_TESTS_MEMGEST_CODED_GROUP_H_
