// Malformed and lying requests: a typed answer in the caller's own slot or the end of the
// connection, and nothing else.
#include <bit>
#include <cstring>
#include <map>

#include "absl/strings/match.h"
#include "ring/base/crc32c.h"
#include "ring/base/random.h"
#include "tests/node/hostile/hostile_fixture.h"
#include "tests/support/random_seed.h"

namespace ring::node {
namespace {

using protocol::Operation;
using protocol::Outcome;

enum class HostileLink { kLocal, kShm, kTcp };

class HostileRequest : public HostileTest, public ::testing::WithParamInterface<HostileLink> {
 protected:
  std::string Address() const {
    switch (GetParam()) {
      case HostileLink::kShm:
        return node().shm_address;
      case HostileLink::kTcp:
        return node().tcp_address;
      case HostileLink::kLocal:
        break;
    }
    return node().local_address;
  }
};

INSTANTIATE_TEST_SUITE_P(Links, HostileRequest,
                         ::testing::Values(HostileLink::kLocal, HostileLink::kShm,
                                           HostileLink::kTcp),
                         [](const auto& test) {
                           return std::string(test.param == HostileLink::kLocal ? "Local"
                                              : test.param == HostileLink::kShm ? "Shm"
                                                                                : "Tcp");
                         });

HostileFrame Pad(std::uint16_t key_length) {
  HostileFrame frame;
  frame.header.word.operation = Operation::kPad;
  frame.header.word.key_length = key_length;
  return frame;
}

struct Spoiled {
  std::string name;
  HostileFrame frame;
};

// Every frame whose extent or meaning cannot be trusted.
std::vector<Spoiled> SpoiledFrames(const HostileClient& client, const std::string& key,
                                   MemgestId memgest) {
  std::vector<Spoiled> frames;
  const auto add = [&frames](std::string name, HostileFrame frame, auto spoil) {
    spoil(frame);
    frames.push_back({std::move(name), std::move(frame)});
  };
  const HostileFrame get = MakeGet(key);
  const HostileFrame put = MakePut(key, "value", memgest, 1);
  HostileFrame large = MakePut(key, "", memgest, 1);
  large.header.word.flags = protocol::kLargeValue;
  large.header.value_length = 10000;
  large.extension = client.LargeBuffer(0, 10000);
  for (const int code : {0, 9, 127, 255}) {
    add(absl::StrCat("operation ", code), get,
        [code](HostileFrame& f) { f.header.word.operation = static_cast<Operation>(code); });
  }
  for (const int flags : {1, 4, 8, 32, 64, 128, 255}) {
    add(absl::StrCat("get with flags ", flags), get,
        [flags](HostileFrame& f) { f.header.word.flags = static_cast<std::uint8_t>(flags); });
  }
  add("get of an empty key", get, [](HostileFrame& f) { f.header.word.key_length = 0; });
  add("put of an empty key", put, [](HostileFrame& f) { f.header.word.key_length = 0; });
  add("key past the ring's end", get, [](HostileFrame& f) { f.header.word.key_length = 65535; });
  add("view with a key", get,
      [](HostileFrame& f) { f.header.word.operation = Operation::kGetView; });
  add("owner of a slot that is none", HostileFrame(), [](HostileFrame& f) {
    f.header.word.operation = Operation::kWhoOwns;
    f.header.if_version = std::uint64_t{protocol::kSlotCount} << 32;
  });
  add("get with a value", get, [](HostileFrame& f) { f.header.value_length = 1; });
  for (const std::uint32_t length :
       {std::uint32_t{protocol::kInlineValueSizeMax + 1}, 1u << 31, ~std::uint32_t{0}}) {
    add(absl::StrCat("inline value of ", length), put,
        [length](HostileFrame& f) { f.header.value_length = length; });
  }
  for (const int slot : {64, 1023, 1024, 65535}) {
    add(absl::StrCat("reply slot ", slot), get,
        [slot](HostileFrame& f) { f.header.reply_slot = static_cast<std::uint16_t>(slot); });
  }
  add("put without a seq", put, [](HostileFrame& f) { f.header.seq = 0; });
  add("get with a seq", get, [](HostileFrame& f) { f.header.seq = 1; });
  add("get with an incomplete seq", get, [](HostileFrame& f) { f.header.incomplete_delta = 1; });
  add("first incomplete seq 0", put, [](HostileFrame& f) { f.header.incomplete_delta = 1; });
  add("first incomplete seq below 0", put,
      [](HostileFrame& f) { f.header.incomplete_delta = ~std::uint32_t{0}; });
  add("pad with a key", Pad(1), [](HostileFrame&) {});
  add("pad in cell 0", Pad(0), [](HostileFrame&) {});
  add("extension with reserved bytes", large,
      [](HostileFrame& f) { f.extension->reserved[47] = 1; });
  add("buffer over the end of addresses", large,
      [](HostileFrame& f) { f.extension->buffer_address = ~std::uint64_t{0} - 100; });
  add("buffer shorter than the value", large,
      [](HostileFrame& f) { f.extension->buffer_length = 9999; });
  return frames;
}

TEST_P(HostileRequest, SpoiledFramesAreAnsweredAndEndTheConnection) {
  HostileClient client("spoiler");
  const std::string key = KeyOf(NodeId(0));
  const std::vector<Spoiled> frames = SpoiledFrames(client, key, Memgest("REP3"));
  for (const Spoiled& spoiled : frames) {
    SCOPED_TRACE(spoiled.name);
    client.PoisonReplies();
    ASSERT_TRUE(client.Connect(Address())) << client.reason();
    const std::uint16_t slot = spoiled.frame.header.reply_slot < HostileClient::kSlotCount
                                   ? spoiled.frame.header.reply_slot
                                   : std::uint16_t{0};
    const std::uint32_t stamp = client.Send(spoiled.frame);
    ASSERT_TRUE(client.AwaitDisconnect());
    ASSERT_EQ(client.Reply(slot).word.stamp, stamp);
    EXPECT_EQ(client.Reply(slot).word.outcome, Outcome::kBadRequest);
    EXPECT_EQ(client.StrayBytes({protocol::kCell}), 0u);
  }
  ASSERT_TRUE(client.Connect(Address()));
  EXPECT_EQ(client.Ask(MakeGet(key)), Outcome::kNotFound);  // none of them changed anything
  client.Vanish();
}

TEST_P(HostileRequest, RefusalsThatKeepTheConnectionNameTheCause) {
  HostileClient client("refused");
  ASSERT_TRUE(client.Connect(Address())) << client.reason();
  const MemgestId memgest = Memgest("REP3");
  const std::string key = KeyOf(NodeId(0));
  std::uint64_t seq = 0;

  EXPECT_EQ(client.Ask(MakeGet(KeyOf(NodeId(0), 1, 1025))), Outcome::kTooLarge);
  EXPECT_EQ(client.Ask(MakePut(KeyOf(NodeId(0), 1, 1025), "v", memgest, ++seq)),
            Outcome::kTooLarge);
  for (const std::uint32_t length : {(16u << 20) + 1, 1u << 31, ~std::uint32_t{0}}) {
    HostileFrame frame = MakePut(key, "", memgest, ++seq);
    frame.header.word.flags = protocol::kLargeValue;
    frame.header.value_length = length;
    frame.extension = client.LargeBuffer(0, length);
    if (length == ~std::uint32_t{0}) frame.extension->buffer_address = 4096;
    EXPECT_EQ(client.Ask(frame), Outcome::kTooLarge) << length;
  }
  HostileFrame empty = MakePut(key, "", memgest, ++seq);
  empty.header.word.flags = protocol::kLargeValue;
  empty.extension = client.LargeBuffer(0, 0);
  EXPECT_EQ(client.Ask(empty), Outcome::kBadRequest);
  HostileFrame degraded = MakeGet(key);  // this node takes no faults
  degraded.header.word.flags = protocol::kDegraded;
  EXPECT_EQ(client.Ask(degraded), Outcome::kBadRequest);
  HostileFrame wrong_crc = MakePut(key, "value", memgest, ++seq);
  wrong_crc.header.value_crc ^= 1;
  EXPECT_EQ(client.Ask(wrong_crc), Outcome::kBadChecksum);
  for (const std::uint16_t id : std::vector<std::uint16_t>{0, 100, 32767, 65535}) {
    EXPECT_EQ(client.Ask(MakePut(key, "value", MemgestId(id), ++seq)), Outcome::kNoSuchMemgest)
        << id;
    HostileFrame move = MakeDelete(key, ++seq);
    move.header.word.operation = Operation::kMove;
    move.header.memgest = id;
    const Outcome outcome = client.Ask(move);
    EXPECT_TRUE(outcome == Outcome::kNoSuchMemgest || outcome == Outcome::kNotFound) << id;
  }
  EXPECT_EQ(client.Ask(MakeDelete(key, ++seq)), Outcome::kNotFound);
  EXPECT_EQ(client.Ask(MakeGet(KeyOf(NodeId(1)))), Outcome::kWrongOwner);
  EXPECT_EQ(client.Ask(MakeGet(key)), Outcome::kNotFound);
  EXPECT_EQ(client.StrayBytes({protocol::kCell}), 0u);
  EXPECT_FALSE(client.disconnected());
}

TEST_P(HostileRequest, X3OnlyWhoServesASlotSaysSo) {
  HostileClient client("seeker");
  ASSERT_TRUE(client.Connect(Address())) << client.reason();
  const cluster::Routing routing(view_->s, view_->d);
  int owned = 0;
  for (int slot = 0; slot < 4 * view_->s * view_->group_count(); ++slot) {
    const cluster::Place place = routing.OfSlot(slot);
    const NodeId owner = view_->Coordinator(place.group, place.shard);
    const auto ask = [&](std::uint32_t view_epoch) {
      protocol::OwnerQuestion question;
      question.view_epoch = view_epoch;
      question.slot = static_cast<std::uint16_t>(slot);
      HostileFrame frame;
      frame.header.word.operation = Operation::kWhoOwns;
      frame.header.if_version = std::bit_cast<std::uint64_t>(question);
      return client.Ask(frame);
    };
    const bool owns = owner == NodeId(0);
    owned += owns ? 1 : 0;
    EXPECT_EQ(ask(0), owns ? Outcome::kOk : Outcome::kWrongOwner) << slot;
    EXPECT_EQ(client.Reply(0).owner, owner.value()) << slot;
    // L9: of a view that is newer than its own a node knows nothing.
    EXPECT_EQ(ask(~0u), owns ? Outcome::kUnavailable : Outcome::kWrongOwner) << slot;
  }
  EXPECT_GT(owned, 0);
}

TEST_P(HostileRequest, BinaryAndLongestKeysAreKeysLikeOthers) {
  HostileClient client("binary");
  ASSERT_TRUE(client.Connect(Address())) << client.reason();
  std::uint64_t seq = 0;
  for (const std::size_t size : {1u, 2u, 24u, 25u, 63u, 64u, 65u, 1023u, 1024u}) {
    std::string key;
    for (unsigned n = 0;; ++n) {  // NULs and high bytes; owned by node 0
      key.assign(size, '\0');
      key[0] = static_cast<char>(n & 0xff);
      if (size > 1) key[size - 1] = static_cast<char>(n >> 8 | 0x80);
      const cluster::Place at = cluster::Routing(view_->s, view_->d).OfKey(key);
      if (view_->Coordinator(at.group, at.shard) == NodeId(0)) break;
    }
    const std::string value = absl::StrCat("of ", size);
    ASSERT_EQ(client.Ask(MakePut(key, value, Memgest("SRS32"), ++seq)), Outcome::kOk) << size;
    ASSERT_EQ(client.Ask(MakeGet(key)), Outcome::kOk) << size;
    EXPECT_EQ(client.InlineValue(0), value);
    ASSERT_OK_AND_ASSIGN(const GetResult got, healthy_->Get(key));
    EXPECT_EQ(got.value, value);
  }
}

TEST_P(HostileRequest, RepliesTouchNothingButTheirOwnBytes) {
  HostileClient client("poisoned");
  ASSERT_TRUE(client.Connect(Address())) << client.reason();
  const std::string key = KeyOf(NodeId(0));
  std::vector<std::size_t> sizes(HostileClient::kSlotCount, 0);
  std::uint64_t seq = 0;
  std::uint16_t slot = 0;
  for (const std::size_t size : {0u, 1u, 7u, 63u, 64u, 65u, 4095u, 8191u, 8192u}) {
    for (const char* memgest : {"REP1", "REP3", "SRS32"}) {
      HostileFrame put = MakePut(key, std::string(size, 'v'), Memgest(memgest), ++seq);
      put.header.reply_slot = slot;
      ASSERT_EQ(client.Ask(put), Outcome::kOk);
      sizes[slot++] = protocol::kCell;
      HostileFrame get = MakeGet(key);
      get.header.reply_slot = slot;
      ASSERT_EQ(client.Ask(get), Outcome::kOk);
      EXPECT_EQ(client.InlineValue(slot), std::string(size, 'v'));
      const protocol::ReplyHeader header = client.Reply(slot);
      for (const std::uint8_t byte : header.reserved) EXPECT_EQ(byte, 0);
      sizes[slot++] = protocol::kCell + size;
    }
    if (slot + 6u > HostileClient::kSlotCount) {
      EXPECT_EQ(client.StrayBytes(sizes), 0u);
      client.PoisonReplies();
      sizes.assign(HostileClient::kSlotCount, 0);
      slot = 0;
    }
  }
  EXPECT_EQ(client.StrayBytes(sizes), 0u);
}

TEST_P(HostileRequest, LiesAboutTheLargeBufferHurtOnlyTheLiar) {
  const std::string key = KeyOf(NodeId(0));
  const std::string value(100000, 'L');
  HostileClient client("liar");
  ASSERT_TRUE(client.Connect(Address()));
  std::memcpy(client.large(), value.data(), value.size());
  HostileFrame honest = MakePut(key, "", Memgest("SRS32"), 1);
  honest.header.word.flags = protocol::kLargeValue;
  honest.header.value_length = static_cast<std::uint32_t>(value.size());
  honest.header.value_crc = Crc32c(value.data(), value.size());
  honest.extension = client.LargeBuffer(0, 100000);
  ASSERT_EQ(client.Ask(honest), Outcome::kOk);

  const auto lies = [&client](std::uint32_t length) {
    std::vector<protocol::RequestExtension> all(4, client.LargeBuffer(0, length));
    all[0].buffer_rkey ^= 0x5a5a;
    all[1].buffer_address = 0x1000;
    all[2].buffer_address += HostileClient::kLargeSize - 10;
    all[3] = {client.accept().requests.address, client.accept().requests.rkey, length, {}};
    return all;
  };
  for (const protocol::RequestExtension& lie : lies(100000)) {
    ASSERT_TRUE(client.Connect(Address()));
    HostileFrame get = MakeGet(key);
    get.header.word.flags = protocol::kLargeValue;
    get.extension = lie;
    client.Send(get);
    EXPECT_TRUE(client.AwaitDisconnect());
    ASSERT_TRUE(client.Connect(Address()));
    HostileFrame put = honest;
    put.header.seq = 2;
    put.header.value_crc ^= 1;  // another payload
    put.extension = lie;
    client.Send(put);
    EXPECT_TRUE(client.AwaitDisconnect());
  }
  // A buffer that is too short is an answer, not a failure.
  ASSERT_TRUE(client.Connect(Address()));
  std::memset(client.large(), 0x5a, HostileClient::kLargeSize);
  HostileFrame get = MakeGet(key);
  EXPECT_EQ(client.Ask(get), Outcome::kReplyTooLarge);
  EXPECT_EQ(client.Reply(0).value_length, 100000u);
  get.header.word.flags = protocol::kLargeValue;
  get.extension = client.LargeBuffer(64, 99999);
  EXPECT_EQ(client.Ask(get), Outcome::kReplyTooLarge);
  get.extension = client.LargeBuffer(64, 100000);
  EXPECT_EQ(client.Ask(get), Outcome::kOk);
  EXPECT_EQ(std::memcmp(client.large() + 64, value.data(), value.size()), 0);
  EXPECT_EQ(client.large()[63], std::byte{0x5a});
  EXPECT_EQ(client.large()[64 + 100000], std::byte{0x5a});
  ASSERT_OK_AND_ASSIGN(const GetResult got, healthy_->Get(key));
  EXPECT_EQ(got.value, value);
}

// Nothing of ours sends immediate data to a node: it wakes it, and means nothing.
TEST_P(HostileRequest, ImmediateDataMeansNothing) {
  HostileClient client("immediate");
  ASSERT_TRUE(client.Connect(Address())) << client.reason();
  const std::string key = KeyOf(NodeId(0));
  ASSERT_EQ(client.Ask(MakePut(key, "v", Memgest("REP3"), 1)), Outcome::kOk);
  for (std::uint32_t i = 0; i < 200 && !client.disconnected(); ++i) {
    rdma::WorkRequest request;
    request.opcode = i % 2 == 0 ? rdma::Opcode::kWriteWithImm : rdma::Opcode::kSend;
    request.has_imm = true;
    request.imm = i * 0x01000193;
    request.remote_address = client.accept().requests.address;
    request.rkey = client.accept().requests.rkey;
    client.qp()->PostSend(request).IgnoreError();
    client.Progress();
    if (i % 20 != 0) continue;
    ASSERT_EQ(client.Ask(MakeGet(key)), Outcome::kOk) << i;
    EXPECT_EQ(client.InlineValue(0), "v");
  }
  // More bells than the node has places for may end the connection, and nothing else.
  if (client.disconnected()) {
    ASSERT_TRUE(client.Connect(Address()));
  }
  EXPECT_EQ(client.Ask(MakeGet(key)), Outcome::kOk);
}

TEST_P(HostileRequest, RandomBytesInTheRingChangeNothing) {
  SeededRandom random(ring::testing::TestSeed());
  HostileClient client("noise");
  for (int round = 0; round < 60; ++round) {
    ASSERT_TRUE(client.Connect(Address())) << client.reason();
    std::string noise(protocol::kRequestRingSize, '\0');
    for (char& c : noise) c = static_cast<char>(random.Next64());
    // The stamp in front makes the node look; later cells may have theirs, too.
    for (std::uint32_t i = 0, cell = 0; cell < 1024 && (round & 1) != 0; ++i, ++cell) {
      const std::uint32_t stamp = i + 1;
      std::memcpy(noise.data() + cell * protocol::kCell, &stamp, sizeof(stamp));
      noise[cell * protocol::kCell + 4] = static_cast<char>(1 + random.Below(7));
      noise[cell * protocol::kCell + 5] = 0;
    }
    client.WriteRing(sizeof(std::uint32_t), noise.substr(sizeof(std::uint32_t)));
    const std::uint32_t first = 1;
    client.WriteRing(0, std::string(reinterpret_cast<const char*>(&first), sizeof(first)));
    client.RingDoorbell();
    ASSERT_TRUE(client.AwaitDisconnect());
  }
}

}  // namespace
}  // namespace ring::node
