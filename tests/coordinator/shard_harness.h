// tests/coordinator/shard_harness.h — a shard's coordinator with real members, step by step.
//
// What:      ShardHarness: one ShardCoordinator (group 0, shard 0, s = 3, d = 2) with the seven
//            memgests of the paper, three members behind stepped links, clients with sequence
//            numbers, and a sink that keeps every answer. Turn() is a node's turn. Settle() runs
//            until nothing is under way; Scrub() then compares coordinator, replicas, parities and
//            records line by line.
// Shape:     role 1 holds the third copy of Rep(4); roles 3 and 4 are the redundant ones.
// Ownership: owns everything.
// Threads:   one; no clock (now_ns is a number), no randomness of its own.
// Errors:    gtest failures; broken twins end the process.
#ifndef RING_TESTS_COORDINATOR_SHARD_HARNESS_H_
#define RING_TESTS_COORDINATOR_SHARD_HARNESS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "memgest/delta_arena.h"
#include "ring/coordinator/block_decoder.h"
#include "ring/coordinator/catalogue_reader.h"
#include "ring/coordinator/shard.h"
#include "ring/coordinator/takeover.h"
#include "tests/coordinator/twin_link.h"
#include "tests/memgest/twin_device.h"

namespace ring::coordinator {

// Ids of the memgests, in the order in which the harness makes them.
inline constexpr MemgestId kRep1{0};
inline constexpr MemgestId kRep2{1};
inline constexpr MemgestId kRep3{2};
inline constexpr MemgestId kRep4{3};
inline constexpr MemgestId kSrs21{4};
inline constexpr MemgestId kSrs31{5};
inline constexpr MemgestId kSrs32{6};
inline constexpr std::uint16_t kMemgestCount = 7;

struct HarnessOptions {
  std::size_t ring_size = std::size_t{1} << 20;
  std::uint32_t line_count_max = 1u << 16;
  std::uint32_t block_size = protocol::kBlockSizeDefault;
  std::map<std::uint16_t, std::uint32_t> block_sizes = {};  // by memgest: instead of that
  std::size_t memory_limit = ~std::size_t{0} / 2;           // of a coordinator's device
  std::set<std::uint16_t> missing = {};  // ids of memgests that the coordinator does not know yet
  std::set<std::uint16_t> commit_all = {};  // ids of memgests whose puts wait for every member
  CatalogueReader* catalogue = nullptr;
  Pace* pace = nullptr;  // of new parities
  BlockDecoder* decoder = nullptr;
};

// What came of one request.
struct Answered {
  int count = 0;  // answers to it: 1 when all is well
  // Sent again before it was answered: the answer may go to the later copy alone (X2).
  bool may_be_silent = false;
  protocol::Outcome outcome = protocol::Outcome::kOk;
  Version version;
  MemgestId memgest;
  std::uint32_t value_length = 0;
  std::string value;
};

class TestClient {
 public:
  explicit TestClient(std::uint64_t id) : id_{id, ~id} {}
  std::uint64_t Take() {
    outstanding_.insert(++last_);
    return last_;
  }
  void Finished(std::uint64_t seq) { outstanding_.erase(seq); }
  std::uint64_t first_incomplete() const {
    return outstanding_.empty() ? last_ + 1 : *outstanding_.begin();
  }
  const memgest::ClientId& id() const { return id_; }
  std::uint64_t last() const { return last_; }

 private:
  memgest::ClientId id_;
  std::uint64_t last_ = 0;
  std::set<std::uint64_t> outstanding_;
};

// A request with bytes of its own, so that it can be sent again.
struct Sent {
  Request request;
  std::string key;
  std::string value;
  TestClient* client = nullptr;
};

// What is not the same for every put, delete or move.
struct SendOptions {
  TestClient* client = nullptr;  // null: the harness's own
  bool conditional = false;
  Version if_version = {};
  bool large = false;  // the value is READ from the client's buffer
};

class ShardHarness final : public ReplySink, public ValueFetcher {
 public:
  bool can_bring = true;             // values of a shard that was taken over
  bool no_memory_for_tails = false;  // a takeover is refused, and that is all
  explicit ShardHarness(const HarnessOptions& options = {});
  ~ShardHarness() override;

  // The coordinator hears of the memgests that it did not know.
  void AddMissing();
  // DELETED: gone at all, and of no further coordinator's plan. REQUIRES: it was drained.
  void RemoveMemgest(MemgestId memgest);

  // Each gives the number of the request, by which answer() knows it.
  int Put(MemgestId memgest, absl::string_view key, absl::string_view value,
          const SendOptions& options = {});
  int Delete(absl::string_view key, const SendOptions& options = {});
  int Move(absl::string_view key, MemgestId memgest, const SendOptions& options = {});
  int Get(absl::string_view key, std::uint8_t flags = 0);
  // Again, as a client does that got no answer: same client, seq and payload, another place for the
  // answer. known: it says that it does so, and what it knew before its first attempt.
  int Resend(int number, std::optional<Version> known = std::nullopt);
  // Any request, filled in by the caller but for the reply, hash and checksums.
  int Send(Sent sent);

  const Answered& answer(int number) const { return answers_.at(static_cast<std::size_t>(number)); }
  bool answered(int number) const { return answer(number).count > 0; }
  protocol::Outcome outcome(int number) const { return answer(number).outcome; }
  const Sent& sent(int number) const { return sent_.at(static_cast<std::size_t>(number)); }
  // Numbers of requests in the order of their answers.
  const std::vector<int>& order() const { return order_; }

  // Flush, land, acknowledge, Commit, the end of sends, EndTurn, fold; what the members' flags
  // allow.
  void Turn(std::uint64_t pass_ns = 100'000);
  void Turns(int count) {
    for (int i = 0; i < count; ++i) Turn();
  }
  // Everything flows until nothing is under way any more.
  void Settle();
  // A request, answered: it must come within a few turns.
  const Answered& Run(int number);
  // Nothing is under way, nothing pinned, nothing leaked, and all copies are the same. REQUIRES:
  // Settle.
  void Scrub();

  // An epoch change: the members in `gone` died, all others are sealed, the coordinator begins the
  // epoch, and gives them fresh rings. Nothing has landed there yet.
  void BeginEpoch(const std::set<int>& gone = {});
  // The coordinator dies, and so do the members in `gone`. A node with empty memory folds of each
  // log the longest that a member has, takes over, and has other members' values fetched on demand.
  // Then as after BeginEpoch. takeover_harness.cc
  void TakeOver(const std::set<int>& gone = {});
  // Values that the coordinator wants: brought by FetchAll, from replicas and by decoding.
  struct Wanted {
    std::uint32_t line = 0;
    Version version;
  };
  const std::deque<Wanted>& wanted() const { return wanted_; }
  void FetchAll(bool ok = true);
  // All that is not here, wanted or not.
  void FetchRest();
  // Everyone who lives gets what he lacks; then the Normal that names them.
  void Normal();
  // What names everyone who lives.
  std::vector<NamedSet> LivingSets() const;
  Epoch epoch() const { return epoch_; }

  // Everybody's link at once.
  void SetFlow(bool lands, bool acks);
  MemberTwin& member(int role);
  std::vector<MemberTwin*> members();

  // V6: the device reads the bytes of answers until FinishSends.
  bool holds_sends = false;
  void FinishSends();
  // READs of clients' buffers: done at the end of a turn, unless held.
  bool holds_reads = false;
  bool refuses_reads = false;
  std::size_t reads() const { return reads_.size(); }
  void FinishRead(bool ok);

  ShardCoordinator& shard() { return *shard_; }
  memgest::TwinDevice& device() { return device_; }
  memgest::DeltaArena& arena() { return *arena_; }
  TestClient* client() { return &client_; }
  std::uint64_t now_ns = 1'000'000'000;

  // Versions in the key's chain, newest first; empty: the key is not in the table.
  std::vector<Version> Chain(absl::string_view key);
  std::uint32_t HeadLine(absl::string_view key);
  std::uint64_t LiveLines();
  std::string ValueOf(std::uint32_t line);

  // ReplySink.
  void Answer(const ReplyTo& to, const Reply& reply, ShardCoordinator& shard) override;
  bool ReadFromClient(const ReplyTo& from, std::uint64_t offset, const rdma::Sge& to,
                      ShardCoordinator& shard, std::uint64_t token) override;
  // ValueFetcher.
  bool CanBring(std::uint32_t, MemgestId) const override { return can_bring; }
  void Want(std::uint32_t line, Version version, ShardCoordinator&) override {
    wanted_.push_back({line, version});
  }

 private:
  std::vector<std::vector<memgest::SealedLog>> SealAll(const std::set<int>& gone);
  void RejoinAll(const std::vector<std::vector<memgest::SealedLog>>& sealed);
  // Bytes of one line, from those who have them; gives whether anybody has.
  bool BringValue(std::uint32_t line);
  void DecodeBlock(memgest::Memgest& memgest, std::uint32_t block);
  struct Send_ {
    std::uint32_t line = 0;
    std::string bytes;
  };
  struct Read {
    std::uint64_t address = 0;
    rdma::Sge to;
    std::uint64_t token = 0;
  };

  void ScrubKeys();
  void ScrubReplica(memgest::Memgest& memgest, MemberTwin& member);
  void ScrubParity(memgest::Memgest& memgest, MemberTwin& member);
  void ScrubLines(memgest::Memgest& memgest, MemberTwin& member);
  void ScrubRecords(memgest::Memgest& memgest, MemberTwin& member);
  void ScrubArena();

  HarnessOptions options_;
  Epoch epoch_{5};
  Epoch last_normal_{5};
  memgest::TwinDevice device_;
  memgest::TwinDevice member_device_;
  memgest::TwinDevice taker_device_;
  std::unique_ptr<memgest::DeltaArena> arena_;
  std::vector<std::unique_ptr<MemberTwin>> members_;  // roles 1, 3, 4
  std::unique_ptr<ShardCoordinator> shard_;
  TestClient client_{0x1111};
  std::deque<Sent> sent_;
  std::vector<Answered> answers_;
  std::vector<int> order_;
  std::deque<Send_> sends_;
  std::deque<Read> reads_;
  std::deque<Wanted> wanted_;
  std::uint64_t snapshots_ = 0;
  std::set<MemgestId> removed_;
};

// The seven memgests of the paper, with the ids above.
std::vector<protocol::MemgestDescriptor> PaperMemgests(std::uint32_t block_size);

// `size` bytes that depend on the tag.
std::string Bytes(std::size_t size, std::uint64_t tag);

}  // namespace ring::coordinator

#endif  // RING_TESTS_COORDINATOR_SHARD_HARNESS_H_
