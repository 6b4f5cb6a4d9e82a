// A frozen block whose WRITE waits for a reader that stands still, and what ends its freeze
// meanwhile (rule S2): the device reads the block's memory until the WRITE is done.
#include "ring/node/recovery/block_freezer.h"

#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/base/wire.h"
#include "ring/cluster/routing.h"
#include "tests/node/reactor_fixture.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

// With membership that is static, time may leap: nobody is taken for lost.
class BlockFreezerTest : public ReactorFixture {
 protected:
  static constexpr std::uint64_t kTurnNs = 50'000;

  BlockFreezerTest() { fail_over_ = false; }
  void TearDown() override {
    if (region_ != nullptr) {
      region_.reset();
      reader().device().Free(to_, size_, rdma::MemoryKind::kShared);
    }
    ReactorFixture::TearDown();
  }

  // The spare, which nobody waits for.
  Node& reader() { return *reactor_->nodes().back(); }
  CoordinatedShard& shard() { return *owner_->FindShard(request_.log.group, request_.log.shard); }
  memgest::Memgest& block_memgest() {
    return *shard().coordinator()->FindMemgest(request_.log.memgest);
  }
  bool Frozen() { return block_memgest().allocator().frozen(request_.block); }
  bool Written() { return std::memcmp(to_, block_memgest().heap().At(0), size_) == 0; }

  // One in which the reader takes nothing: it has spent its turn before it looks who speaks.
  void BusyTurn(std::uint64_t pass_ns) {
    reader().control().Call(reader().id(), ControlType::kPing,
                            std::string(ControlPort::kTurnBytes, 'x'), 1'000'000'000,
                            [](const absl::StatusOr<std::string>&) {});
    Turn(pass_ns);
  }
  // A block is frozen, and its WRITE stands behind more than its reader takes.
  void Freeze() {
    Await(Submit("key", std::string(1000, 'v'), "SRS32"));
    Settle();
    const cluster::View& view = *reader().view();
    const cluster::Place place = cluster::Routing(view.s, view.d).OfKey("key");
    owner_ = reactor_->nodes()[view.Coordinator(place.group, place.shard).value()].get();
    request_.log = {place.group, place.shard, view.FindMemgest("SRS32")->id};
    request_.epoch = view.groups[place.group.value()].epoch;
    request_.token = 77;
    size_ = block_memgest().allocator().block_size();
    ASSERT_OK_AND_ASSIGN(to_, reader().device().Allocate(size_, rdma::MemoryKind::kShared));
    ASSERT_OK_AND_ASSIGN(region_, reader().device().Register(to_, size_, rdma::kRemoteWrite));
    std::memset(to_, 0, size_);
    request_.address = region_->remote().address;
    request_.rkey = region_->rkey();
    owner_->control().Send(reader().id(), ControlType::kPing, std::string(1'000'000, 'x'));
    reader().control().Call(
        owner_->id(), ControlType::kFreeze, recovery::Encode(request_), 60'000'000'000,
        [this](const absl::StatusOr<std::string>& answer) { answer_ = answer.status(); });
    for (int i = 0; i < 10'000 && !Frozen(); ++i) BusyTurn(kTurnNs);
    ExpectFrozen();
  }
  // For longer than a message takes.
  void ExpectFrozen() {
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(Frozen()) << i;
      BusyTurn(kTurnNs);
    }
    ASSERT_FALSE(Written());
  }
  // The reader goes on. It was told why it was given up, behind the bytes.
  void ExpectThawedOnceWritten(const std::string& why) {
    for (int i = 0; i < 10'000 && !answer_.has_value(); ++i) {
      Turn(kTurnNs);
      ASSERT_TRUE(Frozen() || Written()) << i;
    }
    ASSERT_TRUE(answer_.has_value());
    EXPECT_THAT(*answer_, StatusIs(absl::StatusCode::kAborted, HasSubstr(why)));
    EXPECT_TRUE(Written());
    for (int i = 0; i < 1000 && Frozen(); ++i) Turn(kTurnNs);
    EXPECT_FALSE(Frozen());
  }

  Node* owner_ = nullptr;
  recovery::FreezeRequest request_;
  std::byte* to_ = nullptr;
  std::size_t size_ = 0;
  std::unique_ptr<rdma::MemoryRegion> region_;
  std::optional<absl::Status> answer_;
};

TEST_F(BlockFreezerTest, S2ABlockThatIsBeingWrittenStaysFrozenWhenItsTimeIsOver) {
  ASSERT_NO_FATAL_FAILURE(Freeze());
  BusyTurn(BlockFreezer::kFreezeNs);
  ASSERT_NO_FATAL_FAILURE(ExpectFrozen());
  ExpectThawedOnceWritten("expired");
}

TEST_F(BlockFreezerTest, S2ABlockThatIsBeingWrittenStaysFrozenWhenItsReaderThawsIt) {
  ASSERT_NO_FATAL_FAILURE(Freeze());
  ByteWriter body;
  body.Put(request_.token);
  reader().control().Call(owner_->id(), ControlType::kThaw, body.Take(), 60'000'000'000,
                          [](const absl::StatusOr<std::string>&) {});
  ASSERT_NO_FATAL_FAILURE(ExpectFrozen());
  ExpectThawedOnceWritten("thawed");
}

TEST_F(BlockFreezerTest, S2ABlockIsThawedWhenTheConnectionThatHasItsWriteEnds) {
  ASSERT_NO_FATAL_FAILURE(Freeze());
  BusyTurn(BlockFreezer::kFreezeNs);
  ASSERT_NO_FATAL_FAILURE(ExpectFrozen());
  owner_->control().Break(reader().id());
  for (int i = 0; i < 1000 && Frozen(); ++i) BusyTurn(kTurnNs);
  EXPECT_FALSE(Frozen());
  EXPECT_FALSE(Written());
}

class BlockFreezerEpochTest : public BlockFreezerTest {
 protected:
  BlockFreezerEpochTest() { fail_over_ = true; }
};

TEST_F(BlockFreezerEpochTest, S2ABlockThatIsBeingWrittenIsFrozenInTheNextEpochToo) {
  ASSERT_NO_FATAL_FAILURE(Freeze());
  owner_->membership().Propose(
      cluster::NewEpoch{request_.log.group, request_.epoch, 0, "test"},
      [](const absl::StatusOr<cluster::ClusterResult>& result) { EXPECT_OK(result.status()); });
  const auto serves_anew = [&] {
    return shard().serving() && shard().coordinator()->options().epoch > request_.epoch;
  };
  for (int i = 0; i < 15'000 && !serves_anew(); ++i) BusyTurn(kTurnNs);
  ASSERT_TRUE(serves_anew());
  ASSERT_NO_FATAL_FAILURE(ExpectFrozen());
  ExpectThawedOnceWritten("epoch");
}

}  // namespace
}  // namespace ring::node
