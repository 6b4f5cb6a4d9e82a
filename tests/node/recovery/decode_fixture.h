// tests/node/recovery/decode_fixture.h — a cluster in this process that loses coordinators of
// coded values.
//
// What:      DecodeFixture loads one group, loses nodes, looks at blocks and parities, and reads
//            everything back.
// Shape:     group 0: the coordinators of its shards are the nodes 0 .. s-1, its parities the next
//            ones, spares come behind them.
// Threads:   as epoch_cluster.h; what says so is called within Run.
// Errors:    a put or get that fails, and a wait that does not end, fail the test.
#ifndef RING_TESTS_NODE_RECOVERY_DECODE_FIXTURE_H_
#define RING_TESTS_NODE_RECOVERY_DECODE_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ring/base/pace.h"
#include "ring/cluster/routing.h"
#include "ring/coordinator/key_hash.h"
#include "tests/node/epoch_cluster.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::node::testing {

// Many blocks, and values of more than one.
inline void SmallBlocks(NodeConfig* config) {
  for (protocol::MemgestDescriptor& memgest : config->memgests) memgest.block_size = 16 * 1024;
}

inline std::string ValueOf(const std::string& key, std::size_t size) {
  std::string value;
  while (value.size() < size) absl::StrAppend(&value, key, "=", value.size(), ";");
  value.resize(size);
  return value;
}

// ... and the background has a long way: one block at once, then 64 a second.
inline void SmallBlocksSlowly(NodeConfig* config) {
  SmallBlocks(config);
  config->recovery_rate = kRecoveryRateLowest;
}

// These two alone; the first is the default one.
inline void KeepOnly(NodeConfig* config, const std::string& replicated, const std::string& coded) {
  std::erase_if(config->memgests, [&](const protocol::MemgestDescriptor& memgest) {
    return memgest.name != replicated && memgest.name != coded;
  });
  config->default_memgest = replicated;
}

class DecodeFixture : public ::testing::Test {
 protected:
  static constexpr GroupId kGroup{0};

  void Start(std::size_t spare_count, const std::function<void(NodeConfig*)>& change) {
    ASSERT_OK(cluster_.Start(spare_count, change));
    ASSERT_OK_AND_ASSIGN(client_, cluster_.Connect());
  }

  cluster::Place PlaceOf(const std::string& key) { return cluster_.PlaceOf(key); }
  // The i-th key of a shard of the group.
  std::string KeyOf(std::uint16_t shard, const std::string& tag, int i) {
    for (int salt = 0;; ++salt) {
      const std::string key = absl::StrCat(tag, "/", i, "/", salt);
      if (PlaceOf(key).group == kGroup && PlaceOf(key).shard == ShardId(shard)) return key;
    }
  }
  void Put(const std::string& key, const std::string& memgest, std::size_t size) {
    const std::string value = ValueOf(absl::StrCat(key, "#", ++puts_), size);
    const absl::StatusOr<WriteResult> put = client_->Put(key, value, {.memgest = memgest});
    ASSERT_TRUE(put.ok()) << key << ": " << put.status();
    values_[key] = value;
  }
  // In every shard of the group: small values, values of several blocks, some in PARTs.
  void Load(const std::string& memgest, int count) {
    const int shard_count = cluster_.PresentView()->s;
    for (int i = 0; i < count; ++i) {
      for (std::uint16_t shard = 0; shard < shard_count; ++shard) {
        const std::size_t size =
            i % 20 == 7 ? 150'000 : static_cast<std::size_t>(1 + i * 1997 % 40'000);
        ASSERT_NO_FATAL_FAILURE(Put(KeyOf(shard, memgest, i), memgest, size));
      }
    }
  }
  // The smaller ones that Load put into the shard, with other bytes of the same length: into the
  // same blocks. No more than a ring takes that is not folded.
  void PutAgain(std::uint16_t shard, const std::string& memgest, int count) {
    for (int i = 0; i < count; ++i) {
      const std::string key = KeyOf(shard, memgest, i);
      if (values_[key].size() > 9000) continue;
      ASSERT_NO_FATAL_FAILURE(Put(key, memgest, values_[key].size()));
    }
  }
  // As long as it is so, the background begins nothing, and what is Lost stays so until somebody
  // asks for it. Then it goes on as SmallBlocksSlowly says.
  void HoldBackground(bool hold) {
    cluster_.Run([&] { HoldBackgroundHere(hold); });
  }
  // Within Run.
  void HoldBackgroundHere(bool hold) {
    for (const cluster::NodeInfo& info : cluster_.view().nodes) {
      Node* const node = cluster_.node(info.id);
      if (node == nullptr) continue;
      node->pace() = Pace(kRecoveryRateLowest, kRecoveryRateLowest);
      if (hold) node->pace().Take(std::uint64_t{1} << 60);  // a debt for ever
    }
  }
  // With all that it held: nobody is told before all of them are gone.
  void Lose(const std::vector<std::uint32_t>& nodes) {
    for (const std::uint32_t node : nodes) cluster_.Kill(NodeId(node));
    for (const std::uint32_t node : nodes) ASSERT_OK(cluster_.Fail(NodeId(node)));
    WaitServing();
  }
  void LoseAndLeaveLost(const std::vector<std::uint32_t>& nodes) {
    HoldBackground(true);
    Lose(nodes);
  }
  // The group; others may have lost too much.
  void WaitServing() {
    ASSERT_OK(cluster_.WaitUntilNothing([this]() -> std::string {
      for (std::uint16_t i = 0; i < cluster_.view().s; ++i) {
        CoordinatedShard* const shard = Shard(i);
        if (shard == nullptr || !shard->serving() || !cluster_.view().IsNormal(kGroup, ShardId(i)))
          return absl::StrCat("shard ", i, " does not serve");
      }
      return "";
    }));
  }

  // Within Run; null: vacant, or not taken yet.
  CoordinatedShard* Shard(std::uint16_t shard) {
    Node* const node = cluster_.node(cluster_.view().Coordinator(kGroup, ShardId(shard)));
    return node == nullptr ? nullptr : node->FindShard(kGroup, ShardId(shard));
  }
  memgest::Memgest& MemgestAt(std::uint16_t shard, const std::string& name) {
    return *Shard(shard)->coordinator()->FindMemgest(cluster_.view().FindMemgest(name)->id);
  }
  memgest::ParityStore& Parity(int j, const std::string& name) {
    const cluster::View& view = cluster_.view();
    const NodeId node = view.groups[kGroup.value()].roles[static_cast<std::size_t>(view.s + j)];
    return *cluster_.node(node)->members().FindParity(kGroup, view.FindMemgest(name)->id);
  }
  // A record says that the member has all of the shard's part.
  bool IsComplete(std::uint16_t shard, const std::string& name, int role) {
    const cluster::View& view = cluster_.view();
    const cluster::MemgestNormal* const set =
        view.groups[kGroup.value()].shards[shard].normal.Find(view.FindMemgest(name)->id);
    return set != nullptr && (set->complete >> role & 1) != 0;
  }
  // All rows of a parity that has blocks of 16 KiB; how many.
  int Rot(int j, const std::string& name) {
    std::uint32_t extents = 0;  // no more than a coordinator has blocks
    for (std::uint16_t i = 0; i < cluster_.view().s; ++i)
      extents = std::max(extents, MemgestAt(i, name).allocator().block_count());
    memgest::ParityStore& parity = Parity(j, name);
    int rows = 0;
    for (std::uint32_t extent = 0; extent < extents; ++extent) {
      for (std::uint32_t row = 0; row < parity.layout().row_count(); ++row) {
        auto* const bytes = const_cast<std::byte*>(parity.ReadRow(extent, row).bytes);
        if (bytes == nullptr) continue;
        ++rows;
        for (int at = 0; at < 16 * 1024; at += 64) bytes[at] ^= std::byte{1};
      }
    }
    return rows;
  }
  // All bytes of the shard's blocks of the memgest, at its coordinator, turned; twice: as before.
  void Invert(std::uint16_t shard, const std::string& name) {
    cluster_.Run([&] {
      memgest::Memgest& memgest = MemgestAt(shard, name);
      const std::uint32_t size = memgest.allocator().block_size();
      for (std::uint32_t block = 0; block < memgest.allocator().block_count(); ++block) {
        const auto cell = block * static_cast<std::uint32_t>(size / kCacheLine);
        auto* const bytes = const_cast<std::byte*>(memgest.heap().At(cell));
        for (std::uint32_t i = 0; i < size; ++i) bytes[i] ^= std::byte{0xff};
      }
    });
  }
  // The blocks of the key's highest version.
  std::vector<std::uint32_t> BlocksOf(const std::string& key) {
    coordinator::ShardCoordinator& shard = *Shard(PlaceOf(key).shard.value())->coordinator();
    const std::uint32_t* const head =
        shard.keys().Find(coordinator::KeyHash(key, shard.options().hash_seed), key);
    const memgest::MetadataLine& line = shard.lines().line(*head);
    const std::uint32_t cells =
        shard.FindMemgest(MemgestId(line.memgest))->allocator().block_size() /
        static_cast<std::uint32_t>(kCacheLine);
    std::vector<std::uint32_t> blocks;
    if ((line.flags & memgest::kLarge) == 0) blocks.push_back(line.offset_cells / cells);
    for (const memgest::Range& range : shard.lines().Ranges(*head)) {
      for (std::uint32_t at = 0; at < range.length_cells; at += cells)
        blocks.push_back((range.offset_cells + at) / cells);
    }
    return blocks;
  }
  bool AnyLost(std::uint16_t shard, const std::string& memgest) {
    bool lost = false;
    cluster_.Run([&] { lost = MemgestAt(shard, memgest).allocator().lost_count() > 0; });
    return lost;
  }
  void WaitPresent(std::uint16_t shard, const std::string& memgest) {
    ASSERT_OK(cluster_.WaitUntilNothing([&]() -> std::string {
      const auto lost = MemgestAt(shard, memgest).allocator().lost_count();
      return lost == 0 ? "" : absl::StrCat(lost, " blocks are lost");
    }));
  }

  // The parity has folded all that was put: a put is answered before that.
  void WaitFolded(int parity, const std::string& memgest) {
    ASSERT_OK(cluster_.WaitUntilNothing([&]() -> std::string {
      const cluster::View& view = cluster_.view();
      const NodeId node =
          view.groups[kGroup.value()].roles[static_cast<std::size_t>(view.s + parity)];
      for (std::uint16_t i = 0; i < view.s; ++i) {
        const std::uint64_t applied = cluster_.node(node)
                                          ->members()
                                          .Find(kGroup, ShardId(i))
                                          ->store->applied(view.FindMemgest(memgest)->id);
        const std::uint64_t next = MemgestAt(i, memgest).next_index();
        if (applied + 1 < next) return absl::StrCat("shard ", i, ": ", applied, " before ", next);
      }
      return "";
    }));
  }
  // The parity's ring of the shard waits, as it does for want of memory, until the next view.
  void HoldFolds(int parity, std::uint16_t shard, bool hold) {
    cluster_.Run([&] {
      const cluster::View& view = cluster_.view();
      const NodeId node =
          view.groups[kGroup.value()].roles[static_cast<std::size_t>(view.s + parity)];
      cluster_.node(node)->members().Find(kGroup, ShardId(shard))->retry_ns =
          hold ? ~std::uint64_t{0} : 0;
    });
  }
  // Some block is, or nobody waits for one any more.
  void WaitDecoding(const std::atomic<bool>& over) {
    ASSERT_OK(cluster_.WaitUntilNothing([&]() -> std::string {
      if (over.load()) return "";
      for (std::uint16_t i = 0; i < cluster_.view().s; ++i) {
        const memgest::SlotAllocator& allocator = MemgestAt(i, "SRS32").allocator();
        for (std::uint32_t block = 0; block < allocator.block_count(); ++block) {
          if (allocator.state(block) == memgest::BlockState::kDecoding) return "";
        }
      }
      return "no block is decoded";
    }));
  }

  absl::StatusOr<GetResult> Get(const std::string& key) {
    absl::StatusOr<GetResult> got;
    const auto answered = [&] {
      got = client_->Get(key);
      return !absl::IsUnavailable(got.status()) && !absl::IsDeadlineExceeded(got.status());
    };
    EXPECT_TRUE(ring::testing::HoldsWithin(ring::testing::kPatience, answered))
        << key << ": " << got.status();
    return got;
  }
  void ExpectEverything() {
    for (const auto& [key, value] : values_) {
      const absl::StatusOr<GetResult> got = Get(key);
      ASSERT_TRUE(got.ok()) << key << ": " << got.status();
      ASSERT_TRUE(got->value == value) << key;
    }
  }

  EpochCluster cluster_;
  std::unique_ptr<Client> client_;
  std::map<std::string, std::string> values_;
  int puts_ = 0;
};

}  // namespace ring::node::testing

#endif  // RING_TESTS_NODE_RECOVERY_DECODE_FIXTURE_H_
