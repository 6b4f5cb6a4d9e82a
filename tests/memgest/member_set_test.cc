#include "memgest/member_set.h"

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/memgest/log_link.h"
#include "tests/support/status_matchers.h"

namespace ring::memgest {
namespace {

using protocol::CommitRule;
using protocol::MemgestDescriptor;
using protocol::Scheme;

MemgestDescriptor Rep(std::uint8_t r, CommitRule commit = CommitRule::kQuorum) {
  MemgestDescriptor descriptor;
  descriptor.r = r;
  descriptor.commit = commit;
  return descriptor;
}
MemgestDescriptor Srs(std::uint8_t m) {
  MemgestDescriptor descriptor;
  descriptor.scheme = Scheme::kStretchedReedSolomon;
  descriptor.k = 2;
  descriptor.m = m;
  return descriptor;
}

// Members of roles 3, 4, ... with real writers; a test says what each has acknowledged.
class Members {
 public:
  explicit Members(const MemgestDescriptor& descriptor)
      : set(descriptor, descriptor.MemberRoles(ShardId(0), 3, 4)) {
    for (const Member& member : set) {
      links_.push_back(std::make_unique<LogLink>());
      set.Find(member.role)->writer = links_.back()->writer.get();
    }
    set.SetActive(kAllRoles);
  }
  void Ack(std::size_t i, std::uint64_t order) {
    LogLink& link = *links_[i];
    EntryFields fields;
    fields.index = order;
    fields.version = Version(Epoch(5), order);
    fields.key = "k";
    fields.line = 1;
    link.order = order - 1;
    link.Append(fields, "v");
    ASSERT_OK(link.writer->Flush());
    link.Poll();
    ASSERT_EQ(link.writer->acked_order(), order);
  }
  void Break(std::size_t i) {
    links_[i]->to_member.failed = true;
    rdma::WorkCompletion completion;
    completion.wr_id = std::uint64_t{links_[i]->writer_options.writer_id} << 48;
    completion.status = rdma::WcStatus::kFlushed;
    links_[i]->writer->OnCompletion(completion);
    ASSERT_TRUE(links_[i]->writer->broken());
  }

  MemberSet set;

 private:
  std::vector<std::unique_ptr<LogLink>> links_;
};

constexpr RoleMask Roles(std::initializer_list<int> roles) {
  RoleMask mask = 0;
  for (const int role : roles) mask |= RoleMask{1} << role;
  return mask;
}

// The commit rule: how many of the others must have acknowledged, for each rule and set.
TEST(MemberSet, TheRuleHoldsForThoseWhoAreNamed) {
  const struct {
    MemgestDescriptor descriptor;
    RoleMask active;
    int needed;  // -1: never
  } kCases[] = {
      {Rep(1), 0, 0},
      {Rep(2), Roles({3}), 1},
      {Rep(2), 0, -1},
      {Rep(3), Roles({3, 4}), 1},
      {Rep(3), Roles({4}), 1},  // a quorum is a quorum of r
      {Rep(3), 0, -1},
      {Rep(5), Roles({3, 4, 5, 6}), 2},
      {Rep(5), Roles({3, 6}), 2},
      {Rep(5), Roles({6}), -1},
      {Rep(2, CommitRule::kAll), Roles({3}), 1},
      {Rep(2, CommitRule::kAll), 0, -1},
      {Rep(3, CommitRule::kAll), Roles({3, 4}), 2},
      {Rep(3, CommitRule::kAll), Roles({3}), 1},  // S13: max(2, r-1) copies
      {Rep(3, CommitRule::kAll), 0, -1},
      {Rep(4, CommitRule::kAll), Roles({3, 4}), 2},
      {Rep(4, CommitRule::kAll), Roles({5}), -1},
      {Srs(1), Roles({3}), 1},
      {Srs(1), 0, -1},
      {Srs(2), Roles({3, 4}), 2},
      {Srs(2), Roles({4}), 1},  // S13: max(1, m-1) parities
      {Srs(3), Roles({4}), -1},
      {Srs(4), Roles({3, 4, 6}), 3},
  };
  for (const auto& one : kCases) {
    SCOPED_TRACE(one.descriptor.SchemeName() + " mask=" + std::to_string(one.active));
    Members members(one.descriptor);
    members.set.SetActive(one.active);
    EXPECT_EQ(members.set.Enough(), one.needed >= 0);
    EXPECT_EQ(members.set.Available(), one.needed >= 0);
    // Those who are not named acknowledge first, and count for nothing (L7).
    for (std::size_t i = 0; i < members.set.size(); ++i) {
      if (!members.set[i].active) members.Ack(i, 1);
    }
    int acks = 0;
    for (std::size_t i = 0; i < members.set.size(); ++i) {
      EXPECT_EQ(members.set.Satisfied(1), one.needed >= 0 && acks >= one.needed);
      if (!members.set[i].active) continue;
      members.Ack(i, 1);
      ++acks;
    }
    EXPECT_EQ(members.set.Satisfied(1), one.needed >= 0 && acks >= one.needed);
  }
}

TEST(MemberSet, L7WhileANormalIsProposedBothSetsMustAgree) {
  Members members(Srs(2));
  members.set.SetActive(Roles({3}));
  members.set.Propose(Roles({3, 4}));
  members.Ack(0, 1);
  EXPECT_FALSE(members.set.Satisfied(1)) << "the proposed set lacks it";
  members.set.EndProposal();
  EXPECT_TRUE(members.set.Satisfied(1)) << "the proposal was refused";
  members.set.Propose(Roles({3, 4}));
  members.Ack(1, 2);
  EXPECT_TRUE(members.set.Satisfied(1));
  EXPECT_FALSE(members.set.Satisfied(2)) << "the present set lacks it";
  members.set.SetActive(Roles({3, 4}));
  EXPECT_TRUE(members.set.Satisfied(1));
  EXPECT_FALSE(members.set.Satisfied(2));
  members.Ack(0, 2);
  EXPECT_TRUE(members.set.Satisfied(2));
}

TEST(MemberSet, S13AProposalOfTooFewAcceptsNothingNew) {
  Members members(Srs(3));
  EXPECT_TRUE(members.set.Enough());
  members.set.Propose(Roles({5}));
  EXPECT_FALSE(members.set.Enough());
  for (std::size_t i = 0; i < 3; ++i) members.Ack(i, 1);
  EXPECT_FALSE(members.set.Satisfied(1));
  members.set.EndProposal();
  EXPECT_TRUE(members.set.Satisfied(1));
}

TEST(MemberSet, AQuorumDoesWithoutWhoIsGoneAndTheOthersDoNot) {
  Members quorum(Rep(3));
  quorum.Break(0);
  EXPECT_TRUE(quorum.set.Available());
  quorum.Break(1);
  EXPECT_FALSE(quorum.set.Available());
  Members all(Rep(3, CommitRule::kAll));
  all.Break(0);
  EXPECT_TRUE(all.set.Enough());
  EXPECT_FALSE(all.set.Available()) << "until an epoch names fewer";
  all.set.SetActive(Roles({4}));
  EXPECT_TRUE(all.set.Available());
}

// Who has no writer lacks nothing that is kept: it comes back by a snapshot. Who broke does.
TEST(MemberSet, WhatABrokenMemberLacksIsNotAckedByAllUntilItIsAbandoned) {
  Members members(Rep(3));
  members.Ack(1, 1);
  members.Break(0);
  EXPECT_FALSE(members.set.AckedByAll(1));
  EXPECT_FALSE(members.set.BeingSent(1)) << "its queue pair reads no memory any more";
  const_cast<LogWriter*>(members.set[0].writer)->Abandon();
  EXPECT_TRUE(members.set.AckedByAll(1));
  EXPECT_TRUE(members.set.BeingSent(2));
  members.set.Find(members.set[1].role)->writer = nullptr;
  EXPECT_TRUE(members.set.AckedByAll(2));
  EXPECT_FALSE(members.set.Satisfied(1)) << "nobody is there to have it";
}

}  // namespace
}  // namespace ring::memgest
