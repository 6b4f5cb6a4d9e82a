// Words that one device shows and another reads, over every link.
#include "ring/node/fence/word_links.h"

#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "rdma/soft/soft_device.h"
#include "ring/base/boot_clock.h"
#include "ring/node/fence/fence_word.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

constexpr int kTurnsMax = 2'000'000;
constexpr std::uint64_t kStepNs = 20'000'000;  // past every backoff but the longest

class Side {
 public:
  Side(std::uint32_t node, std::uint64_t incarnation, const std::string& listen) {
    rdma::SoftDeviceOptions options;
    options.name = absl::StrCat("words", node, "-", incarnation);
    options.shareable = true;
    options.clock = &clock_;
    device_ = *rdma::OpenSoftDevice(options);
    address = *device_->Listen(listen);
    links = *WordLinks::Create({.device = device_.get(),
                                .node = NodeId(node),
                                .incarnation = Incarnation(incarnation),
                                .cluster = 42});
  }
  void Turn(std::uint64_t now_ns, absl::Span<const consensus::ServerId> voters) {
    device_->Progress();
    rdma::ConnectionEvent event;
    while (device_->PollEvent(&event)) {
      if (event.kind == rdma::ConnectionEvent::Kind::kConnectRequest) {
        links->OnConnectRequest(event.request, event.private_data);
      } else {
        links->OnEvent(event);
      }
    }
    links->Progress(now_ns, voters);
  }
  void Show(std::uint64_t value) {
    __atomic_store_n(reinterpret_cast<std::uint64_t*>(links->word()), value, __ATOMIC_RELEASE);
  }

  std::string address;

 private:
  BootClock clock_;
  std::unique_ptr<rdma::Device> device_;

 public:
  std::unique_ptr<WordLinks> links;  // before its device
};

class WordLinksTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::string Listen(int number) const {
    const std::string kind = GetParam();
    if (kind == "tcp") return "tcp:127.0.0.1:0";
    const std::string name = absl::StrCat("ring-words-", getpid(), "-", number);
    return kind == "shm" ? absl::StrCat("shm:/tmp/", name) : absl::StrCat("local:", name);
  }
  void SetPeers(std::uint64_t incarnation) {
    std::vector<WordLinks::Peer> peers(2);
    peers[0] = {reader_->address, Incarnation(1)};
    peers[1] = {voter_->address, Incarnation(incarnation)};
    reader_->links->SetPeers(peers);
    voter_->links->SetPeers(peers);
  }
  void Turn() {
    now_ns_ += kStepNs;
    reader_->Turn(now_ns_, voters_);
    if (voter_ != nullptr) voter_->Turn(now_ns_, {});
  }
  // Turns without end, while no time passes, until node 1's word can be read or can not.
  bool BecomesReadable(bool readable) {
    for (int i = 0; i < kTurnsMax; ++i) {
      if (reader_->links->Post(NodeId(1), 0) == readable) return true;
      WordReader::Word word;
      while (reader_->links->Poll(&word)) {
      }
      reader_->Turn(now_ns_, voters_);
      if (voter_ != nullptr) voter_->Turn(now_ns_, {});
    }
    return false;
  }
  // Until attempts are as far apart as they may be.
  void LeaveVoterAway() {
    voter_.reset();
    for (int i = 0; i < 200; ++i) Turn();
  }
  // What becomes of a READ of node 1's word; the tag says so.
  bool Read(std::uint64_t tag, WordReader::Word* word) {
    bool posted = false;
    for (int i = 0; i < kTurnsMax; ++i) {
      if (!posted) posted = reader_->links->Post(NodeId(1), tag);
      if (reader_->links->Poll(word)) return word->tag == tag;
      Turn();
    }
    return false;
  }

  std::uint64_t now_ns_ = 1;
  const std::vector<consensus::ServerId> voters_ = {consensus::MakeServerId(0, 1),
                                                    consensus::MakeServerId(1, 1)};
  std::unique_ptr<Side> reader_ = std::make_unique<Side>(0, 1, Listen(0));
  std::unique_ptr<Side> voter_ = std::make_unique<Side>(1, 1, Listen(1));
};

TEST_P(WordLinksTest, AWordIsReadAsItStands) {
  SetPeers(1);
  for (std::uint64_t i = 1; i <= 100; ++i) {
    voter_->Show(i * 0x0101010101010101);
    WordReader::Word word;
    ASSERT_TRUE(Read(i, &word)) << i;
    EXPECT_TRUE(word.ok);
    EXPECT_EQ(word.value, i * 0x0101010101010101);
  }
}

TEST_P(WordLinksTest, ANodesOwnWordIsReadAtOnce) {
  reader_->Show(77);
  EXPECT_TRUE(reader_->links->Post(NodeId(0), 5));
  WordReader::Word word;
  ASSERT_TRUE(reader_->links->Poll(&word));
  EXPECT_EQ(word.tag, 5u);
  EXPECT_TRUE(word.ok);
  EXPECT_EQ(word.value, 77u);
}

TEST_P(WordLinksTest, L8ALaterStartOfAVoterIsReadWhenTheViewNamesIt) {
  SetPeers(1);
  voter_->Show(1);
  WordReader::Word word;
  ASSERT_TRUE(Read(1, &word));
  // The former start goes on showing what it knew.
  const std::unique_ptr<Side> former = std::move(voter_);
  voter_ = std::make_unique<Side>(1, 2, Listen(2));
  voter_->Show(2);
  SetPeers(2);
  ASSERT_TRUE(Read(2, &word));
  EXPECT_TRUE(word.ok);
  EXPECT_EQ(word.value, 2u);
}

TEST_P(WordLinksTest, AStartThatTheViewNamesIsTriedAtOnceHoweverLongTheVoterWasAway) {
  SetPeers(1);
  LeaveVoterAway();
  voter_ = std::make_unique<Side>(1, 2, Listen(2));
  SetPeers(2);
  now_ns_ += kStepNs;
  EXPECT_TRUE(BecomesReadable(true));
}

TEST_P(WordLinksTest, AConnectionThatIsLostIsMadeAnewAtOnceHoweverLateItCameUp) {
  SetPeers(1);
  LeaveVoterAway();
  voter_ = std::make_unique<Side>(1, 1, Listen(1));
  SetPeers(1);
  WordReader::Word word;
  ASSERT_TRUE(Read(1, &word));
  voter_ = nullptr;
  ASSERT_TRUE(BecomesReadable(false));
  voter_ = std::make_unique<Side>(1, 1, Listen(1));
  SetPeers(1);
  now_ns_ += kStepNs;
  EXPECT_TRUE(BecomesReadable(true));
}

TEST_P(WordLinksTest, AConnectionOnItsWayEndsWhenAnotherTransportReachesTheVoter) {
  // Takes the request, and never answers it.
  const bool tcp = std::string(GetParam()) == "tcp";
  const Side mute(1, 9, tcp ? absl::StrCat("local:ring-mute-", getpid()) : "tcp:127.0.0.1:0");
  reader_->links->SetPeers({{reader_->address, Incarnation(1)}, {mute.address, Incarnation(1)}});
  for (int i = 0; i < 100; ++i) Turn();
  EXPECT_FALSE(reader_->links->Post(NodeId(1), 1));
  SetPeers(1);
  voter_->Show(3);
  WordReader::Word word;
  ASSERT_TRUE(Read(2, &word));
  EXPECT_TRUE(word.ok);
  EXPECT_EQ(word.value, 3u);
}

// What was posted to a voter that is gone has an outcome: a set of READs may not wait for ever.
TEST_P(WordLinksTest, WhatAVoterThatIsGoneOwesFails) {
  SetPeers(1);
  WordReader::Word word;
  ASSERT_TRUE(Read(1, &word));
  // More than a silent peer may owe is not posted.
  std::size_t posted = 0;
  while (posted < 2 * WordLinks::kReadsMax && reader_->links->Post(NodeId(1), 100 + posted))
    ++posted;
  voter_.reset();
  std::size_t outcomes = 0;
  for (int i = 0; i < kTurnsMax && outcomes < posted; ++i) {
    while (reader_->links->Poll(&word)) ++outcomes;
    Turn();
  }
  EXPECT_EQ(outcomes, posted);
  EXPECT_FALSE(reader_->links->Post(NodeId(7), 1)) << "no such node";
}

INSTANTIATE_TEST_SUITE_P(Links, WordLinksTest, ::testing::Values("local", "shm", "tcp"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace ring::node
