// Blocks that coordinators were asked to write, and memory that they may yet write to: L5.
#include "ring/node/recovery/row_cut.h"

#include <memory>

#include "tests/node/recovery/decode_fixture.h"
#include "tests/support/await.h"

namespace ring::node {
namespace {

class RowCutTest : public testing::DecodeFixture {
 protected:
  // A cut that is given up before its coordinators, one of which hears nothing, have answered.
  void GiveUpACut() {
    ASSERT_NO_FATAL_FAILURE(Start(0, testing::SmallBlocks));
    ASSERT_NO_FATAL_FAILURE(Put(KeyOf(0, "k", 0), "SRS32", 1000));
    cluster_.Run([&] {
      Node* const reader = cluster_.node(kReader);
      reader->control().DropUntil(kSilent, ~std::uint64_t{0});
      const MemgestId memgest = cluster_.view().FindMemgest("SRS32")->id;
      RowCut cut(reader);
      const srs::Layout& layout = Parity(0, "SRS32").layout();
      EXPECT_OK(cut.Begin({kGroup, memgest, 0, 0}, layout, 7, reader->control().now_ns()));
    });
  }
  std::size_t Held() {
    std::size_t count = 0;
    cluster_.Run([&] { count = cluster_.node(kReader)->held_memory().count(); });
    return count;
  }
  static constexpr NodeId kSilent{0};  // coordinator of shard 0
  static constexpr NodeId kReader{3};  // parity 0
};

// It may be stopped in the middle of the copy: the memory is nobody else's until it was heard of.
TEST_F(RowCutTest, L5WhatWasNotAnsweredIsHeldUntilItsWriterIsHeardOf) {
  ASSERT_NO_FATAL_FAILURE(GiveUpACut());
  for (int i = 0; i < 200; ++i) ASSERT_EQ(Held(), 1u);
  cluster_.Run([&] { cluster_.node(kReader)->control().DropUntil(kSilent, 0); });
  ring::testing::Await("the silent node's answer", [&] { return Held() == 0; });
}

TEST_F(RowCutTest, L5WhatADeadNodeWasToWriteIsFree) {
  ASSERT_NO_FATAL_FAILURE(GiveUpACut());
  EXPECT_EQ(Held(), 1u);
  cluster_.Kill(kSilent);
  ASSERT_OK(cluster_.Restart(kSilent));
  ring::testing::Await("the news of another start", [&] { return Held() == 0; });
}

// It was sent nothing, and is tried again and again: each time would cost the memory of a cut.
TEST_F(RowCutTest, L5WhoCouldNotBeAskedKeepsNoMemory) {
  ASSERT_NO_FATAL_FAILURE(Start(0, testing::SmallBlocks));
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(0, "k", 0), "SRS32", 1000));
  cluster_.Run([&] {
    Node* const reader = cluster_.node(kReader);
    reader->control().Break(kSilent);
    ASSERT_FALSE(reader->control().connected(kSilent));
    const srs::Layout& layout = Parity(0, "SRS32").layout();
    const MemgestId memgest = cluster_.view().FindMemgest("SRS32")->id;
    RowCut cut(reader);
    EXPECT_OK(
        cut.Begin({kGroup, memgest, 0, 0}, layout, /*columns=*/1, reader->control().now_ns()));
  });
  EXPECT_EQ(Held(), 0u);
}

// Its WRITE may be on the way for longer than anybody waits for its answer.
TEST_F(RowCutTest, TheKeyOfACutStaysWhileSomebodyMayBeWriting) {
  ASSERT_NO_FATAL_FAILURE(Start(0, testing::SmallBlocks));
  ASSERT_NO_FATAL_FAILURE(Put(KeyOf(0, "k", 0), "SRS32", 1000));
  std::unique_ptr<RowCut> cut;
  for (const bool silent : {true, false}) {
    cluster_.Run([&] {
      Node* const reader = cluster_.node(kReader);
      cut = std::make_unique<RowCut>(reader);
      const srs::Layout& layout = Parity(0, "SRS32").layout();
      const MemgestId memgest = cluster_.view().FindMemgest("SRS32")->id;
      EXPECT_OK(cut->Begin({kGroup, memgest, 0, 0}, layout, 7, reader->control().now_ns()));
      if (silent) reader->control().Break(kSilent);
    });
    const auto at_reader = [&](auto what) {
      bool result = false;
      cluster_.Run([&] { result = what(); });
      return result;
    };
    ring::testing::Await("all answers", [&] { return at_reader([&] { return !cut->waiting(); }); });
    Node* const reader = cluster_.node(kReader);
    // In one turn: the next may hear of the writer, and then holds nothing any more.
    cluster_.Run([&] {
      EXPECT_EQ(cut->Close(), !silent);
      cut.reset();
      EXPECT_EQ(reader->held_memory().count(), silent ? 1u : 0u);
    });
    ring::testing::Await("the writer again", [&] {
      return at_reader([&] { return reader->control().connected(kSilent); }) && Held() == 0;
    });
  }
}

}  // namespace
}  // namespace ring::node
