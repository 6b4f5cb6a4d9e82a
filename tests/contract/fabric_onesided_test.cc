// WRITE, READ and atomics: what every link of the fabric must do (L5 for revoked regions).
#include <cstring>
#include <vector>

#include "tests/contract/fabric_harness.h"

namespace ring::rdma {
namespace {

using FabricOneSided = FabricContract;

TEST_P(FabricOneSided, WriteGathersEightPiecesInOrder) {
  std::vector<Sge> sges;
  for (std::size_t i = 0; i < 8; ++i) {
    Put(a_->memory + i * 100, std::string(3, static_cast<char>('a' + i)));
    sges.push_back(a_->At(i * 100, 3));
  }
  WorkRequest wr = Write(sges[0], 1000);
  wr.sges = sges;
  EXPECT_EQ(PostOne(wr).status, WcStatus::kSuccess);
  EXPECT_TRUE(BytesAtB(1000, "aaabbbcccdddeeefffggghhh"));
}

TEST_P(FabricOneSided, InlineDataIsCopiedAtThePost) {
  Put(a_->memory, "inline");
  Sge sge = a_->At(0, 6);
  sge.lkey = 0;  // inline data needs no key
  WorkRequest wr = Write(sge, 0);
  wr.inline_data = true;
  wr.signaled = true;
  ASSERT_TRUE(a_->qp->PostSend(wr).ok());
  Put(a_->memory, "spoilt");
  EXPECT_EQ(OneCompletion(*a_, *a_->send_cq).status, WcStatus::kSuccess);
  EXPECT_TRUE(BytesAtB(0, "inline"));
}

TEST_P(FabricOneSided, UnacknowledgedWriteGivesItsBufferBackAtItsCompletion) {
  const Sge sge = a_->At(0, 5);
  std::vector<std::string> words = {"first", "again", "third"};
  for (std::size_t i = 0; i < words.size(); ++i) {
    Put(a_->memory, words[i]);
    WorkRequest wr = Write(sge, i * 100, i);
    wr.unacknowledged = wr.signaled = true;
    ASSERT_TRUE(a_->qp->PostSend(wr).ok());
    const WorkCompletion completion = OneCompletion(*a_, *a_->send_cq);
    EXPECT_EQ(completion.status, WcStatus::kSuccess);
    EXPECT_EQ(completion.wr_id, i);
  }
  Put(a_->memory, "spoil");
  for (std::size_t i = 0; i < words.size(); ++i) {
    EXPECT_TRUE(WaitFor([&] { return BytesAtB(i * 100, words[i]); })) << i;
  }
}

TEST_P(FabricOneSided, UnacknowledgedWritesKeepTheirPlaceAmongOthers) {
  constexpr std::size_t kCount = 48;
  for (std::size_t i = 0; i < kCount; ++i) {
    Put(a_->memory + i * 8, std::string(8, static_cast<char>('0' + i)));
    const Sge sge = a_->At(i * 8, 8);
    WorkRequest wr = Write(sge, 0, i);
    wr.unacknowledged = i % 3 != 0;
    wr.signaled = true;
    ASSERT_TRUE(a_->qp->PostSend(wr).ok());
  }
  const std::vector<WorkCompletion> completions = Completions(*a_, *a_->send_cq, kCount);
  ASSERT_EQ(completions.size(), kCount);
  for (std::size_t i = 0; i < kCount; ++i) EXPECT_EQ(completions[i].wr_id, i);
  EXPECT_TRUE(WaitFor([&] { return BytesAtB(0, std::string(8, '0' + char{kCount - 1})); }));
}

TEST_P(FabricOneSided, L5UnacknowledgedWriteToARevokedRegionEndsTheQueuePair) {
  b_->Run([&] { b_->region->Revoke(); });
  Put(a_->memory, "late");
  const Sge sge = a_->At(0, 4);
  WorkRequest wr = Write(sge, 0);
  wr.unacknowledged = true;
  ASSERT_TRUE(a_->qp->PostSend(wr).ok());
  EXPECT_TRUE(WaitFor([&] { return a_->qp->state() == QpState::kError; }));
  EXPECT_TRUE(BytesAtB(0, std::string(4, '\0')));
}

TEST_P(FabricOneSided, ReadScattersAndTellsItsLength) {
  b_->Run([&] { Put(b_->memory + 64, "remotebytes"); });
  const Sge sges[] = {a_->At(0, 6), a_->At(100, 5)};
  WorkRequest wr = Write(sges[0], 64, 9);
  wr.opcode = Opcode::kRead;
  wr.sges = sges;
  const WorkCompletion completion = PostOne(wr);
  EXPECT_EQ(completion.status, WcStatus::kSuccess);
  EXPECT_EQ(completion.opcode, Opcode::kRead);
  EXPECT_EQ(completion.byte_len, 11u);
  EXPECT_EQ(completion.wr_id, 9u);
  EXPECT_EQ(completion.qp, a_->qp.get());
  EXPECT_EQ(std::memcmp(a_->memory, "remote", 6), 0);
  EXPECT_EQ(std::memcmp(a_->memory + 100, "bytes", 5), 0);
}

TEST_P(FabricOneSided, AtomicsGiveTheOldValue) {
  const std::uint64_t initial = 40;
  b_->Run([&] { std::memcpy(b_->memory + 8, &initial, 8); });
  const Sge sge = a_->At(0, 8);
  const auto old = [&] {
    std::uint64_t value;
    std::memcpy(&value, a_->memory, 8);
    return value;
  };
  WorkRequest wr = Write(sge, 8);
  wr.opcode = Opcode::kFetchAndAdd;
  wr.compare_or_add = 2;
  EXPECT_EQ(PostOne(wr).status, WcStatus::kSuccess);
  EXPECT_EQ(old(), 40u);
  wr.opcode = Opcode::kCmpAndSwp;
  wr.compare_or_add = 41;  // does not match
  wr.swap = 7;
  EXPECT_EQ(PostOne(wr).status, WcStatus::kSuccess);
  EXPECT_EQ(old(), 42u);
  wr.compare_or_add = 42;
  EXPECT_EQ(PostOne(wr).status, WcStatus::kSuccess);
  wr.opcode = Opcode::kFetchAndAdd;
  wr.compare_or_add = 0;
  EXPECT_EQ(PostOne(wr).status, WcStatus::kSuccess);
  EXPECT_EQ(old(), 7u);
}

TEST_P(FabricOneSided, MisalignedAtomicFails) {
  const Sge sge = a_->At(0, 8);
  WorkRequest wr = Write(sge, 4);
  wr.opcode = Opcode::kFetchAndAdd;
  EXPECT_EQ(PostOne(wr).status, WcStatus::kRemoteInvalid);
  EXPECT_EQ(a_->qp->state(), QpState::kError);
}

TEST_P(FabricOneSided, SixteenMebibytesArrive) {
  constexpr std::size_t kSize = std::size_t{16} << 20;
  for (std::size_t i = 0; i < kSize; ++i) a_->memory[i] = static_cast<std::byte>(i * 7 + (i >> 12));
  const Sge sge = a_->At(0, kSize);
  EXPECT_EQ(PostOne(Write(sge, 64)).status, WcStatus::kSuccess);
  const Sge back = a_->At(kSize, kSize);
  WorkRequest wr = Write(back, 64);
  wr.opcode = Opcode::kRead;
  EXPECT_EQ(PostOne(wr).status, WcStatus::kSuccess);
  EXPECT_EQ(std::memcmp(a_->memory, a_->memory + kSize, kSize), 0);
}

TEST_P(FabricOneSided, OnlySignalledRequestsCompleteAndInOrder) {
  std::vector<WorkRequest> chain(32);
  std::vector<Sge> sges(32);
  for (std::size_t i = 0; i < chain.size(); ++i) {
    std::memcpy(a_->memory + i * 8, &i, 8);
    sges[i] = a_->At(i * 8, 8);
    chain[i] = Write(sges[i], 0, i);  // all to one place: the last one stays
    chain[i].signaled = i % 8 == 7;
    if (i > 0) chain[i - 1].next = &chain[i];
  }
  ASSERT_TRUE(a_->qp->PostSend(chain[0]).ok());
  const std::vector<WorkCompletion> completions = Completions(*a_, *a_->send_cq, 4);
  ASSERT_EQ(completions.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(completions[i].wr_id, i * 8 + 7);
    EXPECT_EQ(completions[i].status, WcStatus::kSuccess);
  }
  EXPECT_TRUE(IsQuiet(*a_, *a_->send_cq));
  std::uint64_t last = 0;
  b_->Run([&] { std::memcpy(&last, b_->memory, 8); });
  EXPECT_EQ(last, 31u);
}

TEST_P(FabricOneSided, EmptyWriteSucceeds) {
  const Sge sge = a_->At(0, 0);
  WorkRequest wr = Write(sge, 0);
  EXPECT_EQ(PostOne(wr).status, WcStatus::kSuccess);
  wr.sges = {};
  EXPECT_EQ(PostOne(wr).status, WcStatus::kSuccess);
}

// Every way to miss the peer's region, each with a fresh connection of its own.
TEST_P(FabricOneSided, RefusesWrongKeyBoundsAndRights) {
  std::unique_ptr<MemoryRegion> readable;
  std::unique_ptr<MemoryRegion> writable;
  b_->Run([&] {
    readable = *b_->device->Register(b_->memory, 4096, kRemoteRead);
    writable = *b_->device->Register(b_->memory, 4096, kRemoteWrite);
  });
  struct Case {
    const char* what;
    Opcode opcode;
    std::uint64_t address;
    std::uint32_t rkey;
  };
  const std::uint64_t base = b_->AddressAt(0);
  const Case cases[] = {
      {"unknown key", Opcode::kWrite, base, writable->rkey() + (1u << 12)},
      {"key zero", Opcode::kWrite, base, 0},
      {"before the start", Opcode::kWrite, base - 8, writable->rkey()},
      {"over the end", Opcode::kWrite, base + 4096 - 7, writable->rkey()},
      {"wraps around", Opcode::kWrite, ~std::uint64_t{0} - 3, writable->rkey()},
      {"write to readable", Opcode::kWrite, base, readable->rkey()},
      {"read of writable", Opcode::kRead, base, writable->rkey()},
      {"atomic on writable", Opcode::kFetchAndAdd, base, writable->rkey()},
  };
  const Sge sge = a_->At(0, 8);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    a_->qp.reset();
    b_->Run([&] { b_->qp.reset(); });
    Connect(&a_->qp, &b_->qp);
    WorkRequest wr = Write(sge, 0);
    wr.opcode = c.opcode;
    wr.remote_address = c.address;
    wr.rkey = c.rkey;
    EXPECT_EQ(PostOne(wr).status, WcStatus::kRemoteAccess);
    EXPECT_EQ(a_->qp->state(), QpState::kError);
  }
  b_->Run([&] {
    readable.reset();
    writable.reset();
  });
}

TEST_P(FabricOneSided, ChecksLocalKeys) {
  Sge sge = a_->At(0, 8);
  sge.lkey ^= 1u << 20;
  EXPECT_EQ(PostOne(Write(sge, 0)).status, WcStatus::kLocalProtection);
  EXPECT_EQ(a_->qp->state(), QpState::kError);
  a_->qp.reset();
  b_->Run([&] { b_->qp.reset(); });
  Connect(&a_->qp, &b_->qp);
  Sge outside = a_->At(Side::kMemorySize - 4, 8);
  EXPECT_EQ(PostOne(Write(outside, 0)).status, WcStatus::kLocalProtection);
}

TEST_P(FabricOneSided, FailureFlushesWhatIsBehindIt) {
  std::vector<WorkRequest> chain(4);
  const Sge sge = a_->At(0, 8);
  for (std::size_t i = 0; i < chain.size(); ++i) {
    chain[i] = Write(sge, i * 64, i);
    if (i > 0) chain[i - 1].next = &chain[i];
  }
  chain[0].signaled = true;
  chain[1].rkey = 0;  // not signalled: a failure completes all the same
  ASSERT_TRUE(a_->qp->PostSend(chain[0]).ok());
  const std::vector<WorkCompletion> completions = Completions(*a_, *a_->send_cq, 4);
  ASSERT_EQ(completions.size(), 4u);
  const WcStatus expected[] = {WcStatus::kSuccess, WcStatus::kRemoteAccess, WcStatus::kFlushed,
                               WcStatus::kFlushed};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(completions[i].wr_id, i);
    EXPECT_EQ(completions[i].status, expected[i]) << WcStatusName(completions[i].status);
  }
  EXPECT_EQ(PostOne(Write(sge, 0)).status, WcStatus::kFlushed);
}

// Though what is before the failed one may still be under way when it is found out.
TEST_P(FabricOneSided, NothingBehindAFailedRequestIsExecuted) {
  Put(a_->memory, "written!");
  const Sge large = a_->At(64, std::size_t{4} << 20);
  const Sge small = a_->At(0, 8);
  Sge wrong = small;
  wrong.lkey ^= 1u << 20;
  WorkRequest first = Write(large, 4096, 1);
  WorkRequest failing = Write(wrong, 0, 2);
  WorkRequest behind = Write(small, 8, 3);
  first.signaled = true;
  first.next = &failing;
  failing.next = &behind;
  ASSERT_TRUE(a_->qp->PostSend(first).ok());
  const std::vector<WorkCompletion> completions = Completions(*a_, *a_->send_cq, 3);
  ASSERT_EQ(completions.size(), 3u);
  EXPECT_EQ(completions[0].status, WcStatus::kSuccess);
  EXPECT_EQ(completions[1].status, WcStatus::kLocalProtection);
  EXPECT_EQ(completions[2].status, WcStatus::kFlushed);
  EXPECT_TRUE(IsQuiet(*a_, *a_->send_cq));
  EXPECT_TRUE(BytesAtB(0, std::string(16, '\0')));
}

TEST_P(FabricOneSided, LateWriteAfterRevokeFails) {  // L5
  const Sge sge = a_->At(0, 8);
  EXPECT_EQ(PostOne(Write(sge, 0)).status, WcStatus::kSuccess);
  const std::uint32_t revoked = b_->region->rkey();
  b_->Run([&] { b_->region->Revoke(); });
  EXPECT_EQ(PostOne(Write(sge, 0)).status, WcStatus::kRemoteAccess);
  // The owner may register the memory again; the old key stays dead.
  a_->qp.reset();
  b_->Run([&] {
    b_->qp.reset();
    b_->region = *b_->device->Register(b_->memory, Side::kMemorySize, kRemoteWrite);
  });
  Connect(&a_->qp, &b_->qp);
  EXPECT_NE(b_->region->rkey(), revoked);
  EXPECT_EQ(PostOne(Write(sge, 0)).status, WcStatus::kSuccess);
  WorkRequest late = Write(sge, 0);
  late.rkey = revoked;
  EXPECT_EQ(PostOne(late).status, WcStatus::kRemoteAccess);
}

TEST_P(FabricOneSided, DeregisteredRegionRefuses) {
  const Sge sge = a_->At(0, 8);
  const WorkRequest wr = Write(sge, 0);
  b_->Run([&] { b_->region.reset(); });
  EXPECT_EQ(PostOne(wr).status, WcStatus::kRemoteAccess);
}

TEST_P(FabricOneSided, MalformedRequestsAreNotPosted) {
  std::vector<Sge> many(a_->device->caps().sge_count_max + 1, a_->At(0, 1));
  WorkRequest wr = Write(many[0], 0);
  wr.sges = many;
  EXPECT_EQ(a_->qp->PostSend(wr).code(), absl::StatusCode::kInvalidArgument);
  const Sge large = a_->At(0, a_->device->caps().inline_size_max + 1);
  wr = Write(large, 0);
  wr.inline_data = true;
  EXPECT_EQ(a_->qp->PostSend(wr).code(), absl::StatusCode::kInvalidArgument);
  wr.inline_data = false;
  wr.opcode = Opcode::kRecv;
  EXPECT_EQ(a_->qp->PostSend(wr).code(), absl::StatusCode::kInvalidArgument);
  wr.opcode = Opcode::kWait;
  EXPECT_EQ(a_->qp->PostSend(wr).code(), absl::StatusCode::kInvalidArgument);
  WorkRequest first = Write(large, 0, 1);
  first.signaled = true;
  first.next = &wr;  // the second is malformed: the first must not run either
  EXPECT_EQ(a_->qp->PostSend(first).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(IsQuiet(*a_, *a_->send_cq));
  std::vector<WorkRequest> chain(Side::kDepth + 1, Write(many[0], 0));
  for (std::size_t i = 0; i + 1 < chain.size(); ++i) chain[i].next = &chain[i + 1];
  EXPECT_EQ(a_->qp->PostSend(chain[0]).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(a_->qp->state(), QpState::kReadyToSend);
}

TEST_P(FabricOneSided, DiscardedMemoryReadsAsZero) {
  b_->Run([&] {
    std::memset(b_->memory, 1, 3 << 20);
    b_->device->Discard(b_->memory + 100, 2 << 20);
    EXPECT_EQ(b_->memory[99], std::byte{1});
    EXPECT_EQ(b_->memory[100], std::byte{0});
    EXPECT_EQ(b_->memory[100 + (2 << 20) - 1], std::byte{0});
    EXPECT_EQ(b_->memory[100 + (2 << 20)], std::byte{1});
  });
}

INSTANTIATE_TEST_SUITE_P(Links, FabricOneSided, RING_FABRIC_LINKS,
                         [](const auto& link) { return LinkKindName(link.param); });

}  // namespace
}  // namespace ring::rdma
