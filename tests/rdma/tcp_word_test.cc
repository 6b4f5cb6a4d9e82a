// However a peer's bytes are cut into segments, the owner never sees half a word between two turns
// of its device: commit words, credits, requests and replies are polled in memory.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/rdma/raw_peer.h"

namespace ring::rdma {
namespace {

using soft::kTcpHeaderSize;
using soft::TcpFrame;
using soft::TcpFrameType;

class TcpWord : public RawPeerTest {
 protected:
  static constexpr std::size_t kWord = 8;

  void SetUp() override {
    RawPeerTest::SetUp();
    peer_ = std::make_unique<RawPeer>(address_);
    peer_->Say(Hello());
    Accept();
  }

  struct WriteAt {
    std::size_t offset;
    std::size_t length;
  };
  // The WRITE as it travels; after_ becomes the memory as it is when the WRITE is done.
  std::string NextWrite(const WriteAt& write) {
    before_ = after_;
    const std::string payload(write.length, ++fill_);
    after_.replace(write.offset, write.length, payload);
    TcpFrame frame;
    frame.type = TcpFrameType::kWrite;
    frame.payload_length = static_cast<std::uint32_t>(write.length);
    frame.remote_address = side_->AddressAt(write.offset);
    frame.rkey = side_->region->rkey();
    frame.sequence = sequence_++;
    return Bytes(frame, payload);
  }
  void StartFrom(std::size_t size) { before_ = after_ = std::string(size, '\0'); }
  bool Done() const { return std::memcmp(side_->memory, after_.data(), after_.size()) == 0; }
  // Every word is as before the WRITE or as after it.
  void ExpectWholeWords() {
    for (std::size_t at = 0; at < after_.size(); at += kWord) {
      const std::byte* word = side_->memory + at;
      ASSERT_TRUE(std::memcmp(word, before_.data() + at, kWord) == 0 ||
                  std::memcmp(word, after_.data() + at, kWord) == 0)
          << "half a word at=" << at << " word=" << std::string(Chars(word), kWord);
    }
  }
  static const char* Chars(const std::byte* bytes) { return reinterpret_cast<const char*>(bytes); }
  void Turns() {
    for (int i = 0; i < 4; ++i) side_->CollectEvents();
  }
  void SayAll(absl::string_view bytes) {
    ASSERT_TRUE(Until([&] {
      bytes.remove_prefix(peer_->Say(bytes));
      return bytes.empty();
    }));
  }

  std::unique_ptr<RawPeer> peer_;
  std::string before_;
  std::string after_;
  std::uint64_t sequence_ = 0;
  char fill_ = 'A';
};

TEST_P(TcpWord, StreamByteByByteShowsNoHalfWord) {
  StartFrom(1024);
  const WriteAt writes[] = {{0, 8},   {64, 24},  {0, 8},     {128, 64}, {8, 8}, {4, 4},
                            {300, 7}, {256, 65}, {403, 200}, {701, 99}, {0, 8}};
  for (const WriteAt& write : writes) {
    const std::string bytes = NextWrite(write);
    for (const char byte : bytes) {
      SayAll(absl::string_view(&byte, 1));
      Turns();
      ExpectWholeWords();
      if (HasFatalFailure()) return;
    }
    ASSERT_TRUE(Until([&] { return Done(); }));
  }
}

TEST_P(TcpWord, StreamCutAnywhereShowsWritesWholeAndInOrder) {
  StartFrom(64);
  const WriteAt payload{8, 40};
  const WriteAt word{0, 8};
  const std::size_t whole = 2 * kTcpHeaderSize + payload.length + word.length;
  for (std::size_t cut = 0; cut <= whole; ++cut) {
    fill_ = static_cast<char>('A' + 2 * (cut % 20));
    const std::string old = after_;
    const std::string first = NextWrite(payload);
    const std::string middle = after_;
    const std::string bytes = first + NextWrite(word);
    SayAll(absl::string_view(bytes).substr(0, cut));
    Turns();
    const std::string seen(Chars(side_->memory), after_.size());
    EXPECT_TRUE(seen == old || seen == middle || seen == after_) << "cut=" << cut;
    SayAll(absl::string_view(bytes).substr(cut));
    ASSERT_TRUE(Until([&] { return Done(); })) << "cut=" << cut;
  }
}

TEST_P(TcpWord, LongPayloadLandsByWholeWords) {
  StartFrom(std::size_t{300} << 10);
  for (const std::size_t piece : {1009u, 7001u, 40009u, 99991u}) {
    const std::string bytes = NextWrite({11, (std::size_t{256} << 10) + 3});
    absl::string_view rest = bytes;
    while (!rest.empty()) {
      SayAll(rest.substr(0, piece));
      Turns();
      ExpectWholeWords();
      if (HasFatalFailure()) return;
      rest.remove_prefix(std::min(piece, rest.size()));
    }
    ASSERT_TRUE(Until([&] { return Done(); }));
  }
}

TEST_P(TcpWord, ReadResponseByteByByteShowsNoHalfWord) {
  StartFrom(16);
  const Sge sge = side_->At(8, kWord);
  WorkRequest read;
  read.opcode = Opcode::kRead;
  read.sges = absl::MakeConstSpan(&sge, 1);
  read.signaled = true;
  ASSERT_TRUE(side_->qp->PostSend(read).ok());
  const std::size_t asked = 2 * kTcpHeaderSize;  // the accept and the READ
  ASSERT_TRUE(Until([&] { return !peer_->Closed() && peer_->heard().size() >= asked; }));
  const auto request = soft::DecodeTcpFrame(
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(peer_->heard().data()), asked)
          .subspan(kTcpHeaderSize));
  ASSERT_EQ(request.frame.type, TcpFrameType::kRead);
  TcpFrame answer;
  answer.type = TcpFrameType::kReadResponse;
  answer.payload_length = kWord;
  answer.sequence = request.frame.sequence;
  after_.replace(8, kWord, "response");
  for (const char byte : Bytes(answer, "response")) {
    SayAll(absl::string_view(&byte, 1));
    Turns();
    ExpectWholeWords();
    if (HasFatalFailure()) return;
  }
  WorkCompletion completion;
  ASSERT_TRUE(Until([&] { return side_->send_cq->Poll(absl::MakeSpan(&completion, 1)) == 1; }));
  EXPECT_EQ(completion.status, WcStatus::kSuccess);
  EXPECT_TRUE(Done());
}

TEST_P(TcpWord, RevokeBetweenTheHalvesOfAWordLandsNothing) {  // L5
  StartFrom(16);
  const std::string bytes = NextWrite({0, kWord});
  SayAll(absl::string_view(bytes).substr(0, kTcpHeaderSize + 4));
  Turns();
  side_->region->Revoke();
  SayAll(absl::string_view(bytes).substr(kTcpHeaderSize + 4));
  EXPECT_TRUE(Until([&] { return peer_->Closed(); }));
  EXPECT_EQ(std::memcmp(side_->memory, before_.data(), before_.size()), 0);
}

TEST_P(TcpWord, PeerGoneBetweenTheHalvesOfAWordLandsNothing) {
  StartFrom(16);
  const std::string bytes = NextWrite({0, kWord});
  SayAll(absl::string_view(bytes).substr(0, kTcpHeaderSize + 7));
  Turns();
  peer_.reset();
  EXPECT_TRUE(Until([&] { return side_->qp->state() == QpState::kError; }));
  EXPECT_EQ(std::memcmp(side_->memory, before_.data(), before_.size()), 0);
}

INSTANTIATE_TEST_SUITE_P(Receivers, TcpWord, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Uring" : "OneByOne"; });

}  // namespace
}  // namespace ring::rdma
