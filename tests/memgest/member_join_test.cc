// Members that go on, lag, or begin anew, over random logs: all end up with the same bytes.
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "memgest/log_tail.h"
#include "memgest/member_shard.h"
#include "tests/memgest/model_log.h"
#include "tests/memgest/snapshot_pieces.h"
#include "tests/memgest/twin_device.h"
#include "tests/support/random_seed.h"
#include "tests/support/status_matchers.h"

namespace ring::memgest {
namespace {

const std::vector<MemgestId>& Logs() {
  static const std::vector<MemgestId> logs = {kModelRep, kModelSrs};
  return logs;
}

// One node: its member shard, parity, and the ring of each epoch.
struct TestNode {
  explicit TestNode(bool parity_here = true)
      : parity(&device, ModelDescriptor(kModelSrs), 3, 1),
        member(&device, GroupId(0), ShardId(1), 1u << 16),
        with_parity(parity_here) {
    AddMemgests();
  }
  void AddMemgests() {
    member.AddReplica(ModelDescriptor(kModelRep));
    if (with_parity) {
      member.AddParity(ModelDescriptor(kModelSrs), &parity);
    } else {
      member.AddMetadata(ModelDescriptor(kModelSrs));
    }
  }
  void Open(Epoch epoch) {
    rings.push_back(std::make_unique<EntryRing>(std::size_t{24} << 20, epoch));
    member.Attach(rings.back()->MakeReader());
  }
  EntryRing& ring() { return *rings.back(); }
  void FoldAll() {
    while (true) {
      const absl::StatusOr<int> folded = member.Fold(7);
      ASSERT_OK(folded.status());
      if (*folded == 0) break;
    }
  }
  std::string ParityBytes(std::uint64_t cell_count) const {
    std::string bytes;
    for (std::uint32_t cell = 0; cell < cell_count; cell += 64) {
      bytes += parity.heap().Has(cell, 64)
                   ? std::string(reinterpret_cast<const char*>(parity.heap().At(cell)), 4096)
                   : std::string(4096, '\0');
    }
    return bytes;
  }

  TwinDevice device;
  ParityStore parity;
  MemberShard member;
  std::vector<std::unique_ptr<EntryRing>> rings;
  bool with_parity;
};

// The raw entries of both logs of `from` that `to` lacks, as pieces, to `visit`.
void Ship(const TestNode& from, const std::vector<SealedLog>& after,
          absl::FunctionRef<absl::Status(const EntryView&)> visit) {
  for (const SealedLog& log : after) {
    TailEncoder encoder;
    ASSERT_OK(from.member.sealed()->ReadTail(log.memgest, log.last,
                                             [&](const EntryView& e) { encoder.Add(e); }));
    TailDecoder decoder;
    for (const std::string& piece : encoder.Take()) {
      ASSERT_LE(piece.size(), kPieceSizeMax);
      ASSERT_OK(decoder.Add(piece, visit));
      ASSERT_OK(decoder.Add(piece, visit)) << "once more";
    }
    ASSERT_TRUE(decoder.done());
  }
}
// Appends a raw entry of an older ring to this one, as it was.
absl::Status Reappend(EntryRing& ring, const EntryView& entry) {
  EntryFields fields;
  const EntryHeader& header = entry.header;
  fields.type = header.type;
  fields.memgest = MemgestId(header.memgest);
  fields.index = header.index;
  fields.version = Version(header.version);
  fields.key = entry.key;
  fields.line = header.line;
  fields.size_class = header.size_class;
  fields.offset_cells = header.offset_cells;
  fields.value_length = header.value_length;
  fields.value_crc = header.value_crc;
  fields.expiry_ns = entry.expiry_ns;
  fields.flags = header.flags & kExplicitMove;
  fields.ranges = entry.ranges;
  fields.collect = entry.collect;
  fields.client = header.client;
  fields.seq = header.seq;
  fields.incomplete_delta = header.incomplete_delta;
  fields.request_crc = header.request_crc;
  fields.result_code = header.result_code;
  ring.Append(fields, entry.payload, header.payload_length);
  return absl::OkStatus();
}

void FetchAbsent(TestNode& from, TestNode& to) {
  const auto values = ValuesOf(from.member);
  for (std::uint32_t number = 0; number < 1024; ++number) {
    if (!to.member.lines().Has(number)) continue;
    const MetadataLine& line = to.member.lines().line(number);
    if (line.version == 0 || (line.flags & kAbsent) == 0) continue;
    const std::string& value = values.at(number);
    const auto* bytes = reinterpret_cast<const std::byte*>(value.data());
    ASSERT_OK(to.member.InstallValue(number, Version(line.version), {bytes, value.size()}));
  }
}

// A goes on, B lags and goes on, C joins by a snapshot of A and A's tail; all are compared with R,
// which folded the whole log from one ring.
class Scene {
 public:
  explicit Scene(std::uint64_t seed)
      : random_(seed), model_(&random_), c_(/*parity_here=*/random_.Below(2) == 0) {}

  // Epoch 1: both append, commit and fold at random; B lacks the end.
  void Write() {
    a_.Open(Epoch(1));
    b_.Open(Epoch(1));
    const std::uint64_t steps = 20 + random_.Below(400);
    const std::uint64_t lag = random_.Below(2) == 0 ? 0 : random_.Below(60);
    for (std::uint64_t i = 0; i < steps; ++i) {
      model_.Step(Epoch(1), &entries_);
      for (; sent_ < entries_.size(); ++sent_) {
        entries_[sent_].AppendTo(a_.ring());
        if (i + lag < steps) entries_[sent_].AppendTo(b_.ring());
        if (i + lag + 10 >= steps) continue;
        if (random_.Below(4) == 0) a_.ring().Commit();
        if (random_.Below(8) == 0) b_.ring().Commit();
      }
      ASSERT_OK(a_.member.Fold(static_cast<int>(random_.Below(3))).status());
      ASSERT_OK(b_.member.Fold(static_cast<int>(random_.Below(2))).status());
    }
  }

  // Both are sealed, now and then for an epoch that is abandoned: what it wrote counts for nothing.
  void SealBoth() {
    ASSERT_OK_AND_ASSIGN(of_a_, a_.member.Seal(epoch_, Epoch(1)));
    ASSERT_OK_AND_ASSIGN(of_b_, b_.member.Seal(epoch_, Epoch(1)));
    if (random_.Below(2) == 0) {
      b_.Open(epoch_);
      for (std::size_t i = entries_.size() / 2; i < entries_.size(); ++i) {
        if (!entries_[i].payload.empty()) entries_[i].AppendTo(b_.ring());
      }
      b_.ring().Commit();
      epoch_ = Epoch(3);
      EXPECT_THAT(a_.member.Seal(epoch_, Epoch(1)), ring::testing::IsOkAndHolds(of_a_));
      EXPECT_THAT(b_.member.Seal(epoch_, Epoch(1)), ring::testing::IsOkAndHolds(of_b_));
    }
    a_.Open(epoch_);
    b_.Open(epoch_);
  }

  // Adopted are A's logs, which are the longest: B gets what it lacks in its new ring.
  void CatchUp() {
    Ship(a_, of_b_, [&](const EntryView& entry) { return Reappend(b_.ring(), entry); });
  }

  void Join() {
    c_.member.Reset(epoch_);
    c_.AddMemgests();
    for (const std::string& piece : AllPieces(*a_.member.TakeSnapshot(77, Logs()))) {
      ASSERT_LE(piece.size(), kPieceSizeMax);
      ASSERT_OK(c_.member.Install(piece));
      ASSERT_OK(c_.member.Install(piece)) << "once more";
    }
    MemberState to = StateOf(c_.member);
    for (auto& [number, line] : to.lines) std::get<6>(line) &= ~kAbsent;
    EXPECT_EQ(StateOf(a_.member), to);
    // Its tail, from a little further back.
    std::vector<SealedLog> behind = of_a_;
    for (SealedLog& log : behind) log.last = log.applied - std::min<std::uint64_t>(log.applied, 3);
    Ship(a_, behind, [&](const EntryView& entry) { return c_.member.FoldShipped(entry); });
    c_.Open(epoch_);
  }

  // Normal, and the new epoch's own entries.
  void GoOn() {
    for (TestNode* node : {&a_, &b_, &c_}) ASSERT_OK(node->member.Adopt(epoch_));
    for (int i = 0; i < 60; ++i) model_.Step(epoch_, &entries_);
    for (; sent_ < entries_.size(); ++sent_) {
      for (TestNode* node : {&a_, &b_, &c_}) entries_[sent_].AppendTo(node->ring());
    }
    reference_.Open(Epoch(1));
    for (const ModelEntry& entry : entries_) entry.AppendTo(reference_.ring());
    for (TestNode* node : {&a_, &b_, &c_, &reference_}) {
      node->ring().Commit();
      node->FoldAll();
      EXPECT_EQ(node->member.sealed(), nullptr);
    }
    FetchAbsent(a_, c_);
    EXPECT_EQ(c_.member.absent_count(kModelRep), 0U);
  }

  void Compare() {
    const MemberState expected = StateOf(reference_.member);
    const auto values = ValuesOf(reference_.member);
    for (TestNode* node : {&a_, &b_, &c_}) {
      EXPECT_EQ(StateOf(node->member), expected) << "of c: " << (node == &c_);
      EXPECT_EQ(ValuesOf(node->member), values) << "of c: " << (node == &c_);
    }
    const std::uint64_t cells = 2 * expected.logs[3] + 4096;
    const std::string parity = reference_.ParityBytes(cells);
    EXPECT_TRUE(a_.ParityBytes(cells) == parity);
    EXPECT_TRUE(b_.ParityBytes(cells) == parity) << "XOR is not idempotent";
  }

 private:
  SeededRandom random_;
  ModelLog model_;
  TestNode reference_, a_, b_, c_;
  std::vector<ModelEntry> entries_;
  std::size_t sent_ = 0;  // of them, to A
  Epoch epoch_{2};
  std::vector<SealedLog> of_a_, of_b_;
};

TEST(MemberJoin, AllMembersOfAnEpochEndWithTheSameStateByteForByte) {
  const std::uint64_t seed = ring::testing::SeedFor("member join");
  for (std::uint64_t run = 0; run < 60; ++run) {
    SCOPED_TRACE(run);
    Scene scene(seed + run);
    for (const auto step : {&Scene::Write, &Scene::SealBoth, &Scene::CatchUp, &Scene::Join,
                            &Scene::GoOn, &Scene::Compare}) {
      (scene.*step)();
      if (::testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace ring::memgest
