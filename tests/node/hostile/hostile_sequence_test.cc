// Sequence numbers, duplicates and keys as no honest client sends them: exactly once holds for what
// is left, and the node stands.
#include <cstring>

#include "ring/base/crc32c.h"
#include "tests/node/hostile/hostile_fixture.h"

namespace ring::node {
namespace {

using protocol::Outcome;

class HostileSequence : public HostileTest {
 protected:
  HostileFrame Large(const std::string& key, std::uint32_t length, std::uint64_t seq) {
    HostileFrame put = MakePut(key, "", Memgest("REP3"), seq);
    put.header.word.flags = protocol::kLargeValue;
    put.header.value_length = length;
    std::memset(client_.large(), 'L', length);
    put.header.value_crc = Crc32c(client_.large(), length);
    put.extension = client_.LargeBuffer(0, length);
    return put;
  }
  HostileClient client_{"sequence"};
};

TEST_F(HostileSequence, RepeatedRequestIsAnsweredOnceExecuted) {  // X1, X2
  ASSERT_TRUE(client_.Connect(address()));
  const std::string key = KeyOf(NodeId(0));
  const HostileFrame put = MakePut(key, "first", Memgest("REP3"), 1);
  ASSERT_EQ(client_.Ask(put), Outcome::kOk);
  const std::uint64_t version = client_.Reply(0).version;
  ASSERT_EQ(client_.Ask(put), Outcome::kOk);
  EXPECT_EQ(client_.Reply(0).version, version);
  ASSERT_TRUE(
      client_.Connect(address()));  // the record belongs to the client, not to the connection
  ASSERT_EQ(client_.Ask(put), Outcome::kOk);
  EXPECT_EQ(client_.Reply(0).version, version);
}

TEST_F(HostileSequence, SameSeqWithAnotherPayloadIsRefused) {  // X1, X2
  ASSERT_TRUE(client_.Connect(address()));
  const cluster::Place shard = ShardOfNode0();
  const std::string key = KeyOf(NodeId(0), 0, 0, &shard);
  const std::string other = KeyOf(NodeId(0), 1, 0, &shard);
  const MemgestId rep3 = Memgest("REP3");
  ASSERT_EQ(client_.Ask(MakePut(key, "first", rep3, 1)), Outcome::kOk);
  EXPECT_EQ(client_.Ask(MakePut(key, "other", rep3, 1)), Outcome::kRequestReused);
  EXPECT_EQ(client_.Ask(MakePut(key, "first!", rep3, 1)), Outcome::kRequestReused);
  EXPECT_EQ(client_.Ask(MakePut(key, "first", Memgest("SRS32"), 1)), Outcome::kRequestReused);
  EXPECT_EQ(client_.Ask(MakePut(other, "first", rep3, 1)), Outcome::kRequestReused);
  EXPECT_EQ(client_.Ask(MakeDelete(key, 1)), Outcome::kRequestReused);
  HostileFrame conditional = MakePut(key, "first", rep3, 1);
  conditional.header.word.flags = protocol::kIfVersion;
  EXPECT_EQ(client_.Ask(conditional), Outcome::kRequestReused);
  EXPECT_EQ(client_.Ask(MakeGet(other)), Outcome::kNotFound);
  ASSERT_EQ(client_.Ask(MakeGet(key)), Outcome::kOk);
  EXPECT_EQ(client_.InlineValue(0), "first");
}

TEST_F(HostileSequence, SeqBelowTheFirstIncompleteIsStale) {  // X3
  ASSERT_TRUE(client_.Connect(address()));
  const std::string key = KeyOf(NodeId(0));
  const MemgestId rep3 = Memgest("REP3");
  ASSERT_EQ(client_.Ask(MakePut(key, "high", rep3, 5000)), Outcome::kOk);
  EXPECT_EQ(client_.Ask(MakePut(key, "low", rep3, 4999)), Outcome::kStaleRequest);
  EXPECT_EQ(client_.Ask(MakePut(key, "low", rep3, 1)), Outcome::kStaleRequest);
  ASSERT_EQ(client_.Ask(MakeGet(key)), Outcome::kOk);
  EXPECT_EQ(client_.InlineValue(0), "high");
}

TEST_F(HostileSequence, WindowWiderThanTheTableIsRefused) {  // X4
  ASSERT_TRUE(client_.Connect(address()));
  const std::string key = KeyOf(NodeId(0));
  const MemgestId rep3 = Memgest("REP3");
  ASSERT_EQ(client_.Ask(MakePut(key, "v", rep3, 100000)), Outcome::kOk);
  std::uint64_t seq = 100000;
  for (const std::uint32_t delta : {1023u, 1024u, 5000u, 65535u, 65536u, 65537u, 100000u}) {
    HostileFrame put = MakePut(key, absl::StrCat("delta ", delta), rep3, ++seq);
    put.header.incomplete_delta = delta;
    const Outcome outcome = client_.Ask(put);
    EXPECT_EQ(outcome, delta < 1024 ? Outcome::kOk : Outcome::kResourceExhausted) << delta;
  }
  HostileFrame far = MakePut(key, "far", rep3, ~std::uint64_t{0});
  far.header.incomplete_delta = ~std::uint32_t{0};
  EXPECT_EQ(client_.Ask(far), Outcome::kResourceExhausted);
  EXPECT_EQ(client_.Ask(MakePut(key, "last", rep3, ~std::uint64_t{0})), Outcome::kOk);
}

// The default memgest changes between a request and its copy.
TEST_F(HostileSequence, X1ARetryAfterTheDefaultMemgestChangedIsTheSameRequest) {
  ASSERT_TRUE(client_.Connect(address()));
  const std::string key = KeyOf(NodeId(0));
  HostileFrame put = MakePut(key, "first", MemgestId(0), 1);
  put.header.word.flags = protocol::kDefaultMemgest;
  ASSERT_EQ(client_.Ask(put), Outcome::kOk);
  const protocol::ReplyHeader first = client_.Reply(0);
  EXPECT_EQ(first.word.memgest, Memgest("REP3").value());
  ASSERT_OK(host_->admin().SetDefaultMemgest({"test", 1}, "SRS32"));
  ASSERT_EQ(client_.Ask(put), Outcome::kOk);
  EXPECT_EQ(client_.Reply(0).version, first.version);
  EXPECT_EQ(client_.Reply(0).word.memgest, first.word.memgest);
  put.header.seq = 2;
  ASSERT_EQ(client_.Ask(put), Outcome::kOk);  // the change did arrive
  EXPECT_EQ(client_.Reply(0).word.memgest, Memgest("SRS32").value());
}

// The window moves on while a large value of the same client is still being read.
TEST_F(HostileSequence, LargePutWhoseSeqBecomesStaleEndsTheNodeNot) {  // X3
  ASSERT_TRUE(client_.Connect(address()));
  const cluster::Place shard = ShardOfNode0();
  const std::string key = KeyOf(NodeId(0), 0, 0, &shard);
  const std::string other = KeyOf(NodeId(0), 1, 0, &shard);
  for (std::uint64_t round = 1; round <= 3; ++round) {
    const std::uint32_t first = client_.Send(Large(key, 8u << 20, round * 10000));
    HostileFrame jump = MakePut(other, "jump", Memgest("REP3"), round * 10000 + 5000);
    jump.header.reply_slot = 1;
    const std::uint32_t second = client_.Send(jump);
    ASSERT_TRUE(client_.AwaitReply(1, second));
    EXPECT_EQ(client_.Reply(1).word.outcome, Outcome::kOk);
    ASSERT_TRUE(client_.AwaitReply(0, first));  // either: it was under way before the jump
    EXPECT_TRUE(client_.Reply(0).word.outcome == Outcome::kOk ||
                client_.Reply(0).word.outcome == Outcome::kStaleRequest);
  }
}

TEST_F(HostileSequence, ConnectionsOfOneClientIdShareItsWindow) {
  HostileClient twin("twin");
  ASSERT_TRUE(client_.Connect(address()));
  ASSERT_TRUE(twin.Connect(address(), [&] {
    protocol::ClientHello hello = twin.Hello();
    hello.client_high = client_.Hello().client_high;
    hello.client_low = client_.Hello().client_low;
    return protocol::EncodeHello(hello);
  }()));
  const std::string key = KeyOf(NodeId(0));
  ASSERT_EQ(client_.Ask(MakePut(key, "one", Memgest("REP3"), 1)), Outcome::kOk);
  EXPECT_EQ(twin.Ask(MakePut(key, "two", Memgest("REP3"), 1)), Outcome::kRequestReused);
  EXPECT_EQ(twin.Ask(MakePut(key, "two", Memgest("REP3"), 9)), Outcome::kOk);
  EXPECT_EQ(client_.Ask(MakePut(key, "three", Memgest("REP3"), 2)), Outcome::kStaleRequest);
}

// Anybody can make keys of one slot, by their tag: thousands of them are as much work as others,
// and the rest of the shard serves.
TEST_F(HostileSequence, AFloodOfKeysOfOneSlotCostsWhatOtherKeysCost) {
  constexpr int kKeys = 3000;
  ASSERT_TRUE(client_.Connect(address()));
  const cluster::Place shard = ShardOfNode0();
  const cluster::Routing routing(view_->s, view_->d);
  int tag = 100'000;
  while (routing.OfKey(absl::StrCat("{", tag, "}")) != shard) ++tag;
  struct Cost {
    std::uint64_t entries = 0;
    std::uint64_t log_bytes = 0;
    std::uint64_t resident = 0;
  };
  const auto now = [this] {
    const absl::StatusOr<ClusterStats> stats = host_->admin().GetStats();
    EXPECT_OK(stats.status());
    const NodeStats& node = stats->nodes[0];
    return Cost{node.log_entries_appended, node.log_bytes, node.resident_bytes};
  };
  std::uint64_t seq = 0;
  const auto put = [&](absl::FunctionRef<std::string(int)> key, Cost* cost) {
    const Cost before = now();
    for (int i = 0; i < kKeys; ++i)
      ASSERT_EQ(client_.Ask(MakePut(key(i), "v", Memgest("REP3"), ++seq)), Outcome::kOk) << i;
    const Cost after = now();
    *cost = {after.entries - before.entries, after.log_bytes - before.log_bytes,
             after.resident - before.resident};
  };
  const auto flooding = [tag](int i) { return absl::StrCat("{", tag, "}", 1000 + i); };
  const auto other = [&](int i) { return KeyOf(NodeId(0), 1000 + i, 12, &shard); };
  Cost flood;
  Cost rest;
  ASSERT_NO_FATAL_FAILURE(put(flooding, &flood));
  ASSERT_NO_FATAL_FAILURE(put(other, &rest));
  EXPECT_EQ(flood.entries, rest.entries);
  EXPECT_LE(flood.log_bytes, rest.log_bytes + std::uint64_t{64} * kKeys / 10);
  EXPECT_LE(flood.resident, rest.resident + (std::uint64_t{4} << 20));  // what was there is shared
  for (int i = 0; i < kKeys; i += 7) {
    ASSERT_EQ(client_.Ask(MakeGet(flooding(i))), Outcome::kOk) << i;
    ASSERT_EQ(client_.Ask(MakeGet(other(i))), Outcome::kOk) << i;
  }
  EXPECT_EQ(client_.Ask(MakeGet(flooding(kKeys))), Outcome::kNotFound);
}

// The header says that a long key stays the client's to change: whichever the node took, it is one
// key from routing to the table, or the table could not find it again.
TEST_F(HostileSequence, KeyThatChangesWhileItIsReadIsOneKey) {
  ASSERT_TRUE(client_.Connect(address()));
  const cluster::Place shard = ShardOfNode0();
  const std::string a = KeyOf(NodeId(0), 0, 1024, &shard);
  const std::string b = KeyOf(NodeId(0), 1, 1024, &shard);
  const MemgestId rep2 = Memgest("REP2");
  for (std::uint64_t seq = 1; seq <= 1500; ++seq) {
    const std::size_t cells = protocol::RequestCells(1024, false, 1);
    const std::size_t at = client_.cell() + cells > 1023 ? 0 : client_.cell();
    const HostileFrame frame = seq % 5 == 0 ? MakeDelete(a, seq) : MakePut(a, "v", rep2, seq);
    const std::uint32_t stamp = client_.Send(frame);
    bool flip = false;
    ASSERT_TRUE(client_.WaitFor([&] {
      const RaceOnPurpose race;
      client_.WriteRing((at + 1) * protocol::kCell, (flip = !flip) ? b : a);
      return client_.Reply(0).word.stamp == stamp;
    })) << "seq="
        << seq;
  }
  // Both keys are still found, replaced and collected.
  for (const std::string& key : {a, b}) {
    for (int i = 0; i < 3; ++i) {
      ASSERT_OK(healthy_->Put(key, "settled", {.memgest = "SRS21"}).status());
    }
    ASSERT_OK_AND_ASSIGN(const GetResult got, healthy_->Get(key));
    EXPECT_EQ(got.value, "settled");
    ASSERT_OK(healthy_->Delete(key).status());
    EXPECT_FALSE(healthy_->Get(key).ok());
  }
}

TEST_F(HostileSequence, ValueThatChangesWhileItIsReadIsStoredAsItWasSummedOrNot) {  // S11
  ASSERT_TRUE(client_.Connect(address()));
  const std::string key = KeyOf(NodeId(0));
  const std::string ones(8192, '1');
  const std::string twos(8192, '2');
  for (std::uint64_t seq = 1; seq <= 200; ++seq) {
    const std::size_t at = client_.cell() + protocol::RequestCells(key.size(), false, 8192) > 1023
                               ? 0
                               : client_.cell();
    const std::uint32_t stamp = client_.Send(MakePut(key, ones, Memgest("SRS32"), seq));
    {
      const RaceOnPurpose race;
      client_.WriteRing((at + 1) * protocol::kCell, twos);
    }
    ASSERT_TRUE(client_.AwaitReply(0, stamp));
    const Outcome outcome = client_.Reply(0).word.outcome;
    EXPECT_TRUE(outcome == Outcome::kOk || outcome == Outcome::kBadChecksum);
    const absl::StatusOr<GetResult> got = healthy_->Get(key);
    if (got.ok()) {
      ASSERT_EQ(got->value, ones) << "seq=" << seq;
    }
  }
}

}  // namespace
}  // namespace ring::node
