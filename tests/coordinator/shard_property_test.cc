// Random operations with random delays of every member, against what a register per key may do.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ring/base/random.h"
#include "tests/coordinator/shard_harness.h"
#include "tests/support/random_seed.h"

namespace ring::coordinator {
namespace {

using protocol::Operation;
using protocol::Outcome;

// What the checker knows of one request.
struct Issued {
  int first = 0;              // number of the original: its own, unless it is a retry
  Version committed_before;   // the key's highest version that any answer told before this was sent
  Version highest_at_answer;  // the highest version that was appended when the answer came
  bool seen = false;
  bool is_first_answer = false;  // of all copies of the request
};

struct Change {
  bool tombstone = false;
  bool moved = false;
  std::string value;
};

class PropertyRun {
 public:
  PropertyRun(std::uint64_t seed, const HarnessOptions& options)
      : random_(seed), harness_(options) {
    for (std::uint64_t i = 0; i < 4; ++i) clients_.emplace_back(100 + i);
  }

  void Execute(int operations, std::uint32_t value_size_max) {
    value_size_max_ = value_size_max;
    for (int i = 0; i < operations; ++i) {
      Step();
      if (random_.Below(3) == 0) RandomTurn();
      Observe();
    }
    harness_.Settle();
    Observe();
    Check();
    harness_.Scrub();
  }

 private:
  std::string RandomKey() {
    const std::uint64_t i = random_.Below(12);
    return i == 0 ? std::string(600, 'k') : "key" + std::to_string(i);
  }
  std::string RandomValue() {
    static constexpr std::uint32_t kSizes[] = {0, 1, 63, 64, 65, 500, 1024, 4096, 8000};
    std::uint32_t size = kSizes[random_.Below(std::size(kSizes))];
    if (value_size_max_ > 8192 && random_.Below(8) == 0) {
      size = static_cast<std::uint32_t>(1 + random_.Below(value_size_max_));
    }
    return Bytes(size, ++tag_);
  }

  void Step() {
    const std::string key = RandomKey();
    const MemgestId memgest(static_cast<std::uint16_t>(random_.Below(kMemgestCount)));
    SendOptions options;
    options.client = &clients_[random_.Below(clients_.size())];
    if (random_.Below(5) == 0) {
      options.conditional = true;
      const Version known = told_[key];
      options.if_version = random_.Below(3) == 0 ? Version() : known;
    }
    int number = -1;
    const std::uint64_t choice = random_.Below(20);
    if (choice < 8) {
      std::string value = RandomValue();
      options.large = value.size() > 8192 || (!value.empty() && random_.Below(10) == 0);
      number = harness_.Put(memgest, key, value, options);
    } else if (choice < 11) {
      number = harness_.Delete(key, options);
    } else if (choice < 14) {
      number = harness_.Move(key, memgest, options);
    } else if (choice < 16 && !mutations_.empty()) {
      const int original = mutations_[mutations_.size() - 1 -
                                      random_.Below(std::min<std::size_t>(mutations_.size(), 30))];
      number = harness_.Resend(original);
      Note(number, original, harness_.sent(original).key);
      return;
    } else {
      number = harness_.Get(key);
    }
    if (harness_.sent(number).request.operation != Operation::kGet) mutations_.push_back(number);
    Note(number, number, key);
  }

  void Note(int number, int first, const std::string& key) {
    Issued& issued = issued_[number];
    issued.first = first;
    issued.committed_before = told_[key];
  }

  // Answers that came since the last look.
  void Observe() {
    for (; observed_ < harness_.order().size(); ++observed_) {
      const int number = harness_.order()[observed_];
      Issued& issued = issued_[number];
      ASSERT_FALSE(issued.seen) << "answered twice: " << number;
      issued.seen = true;
      issued.is_first_answer = answered_.insert(issued.first).second;
      const std::string& key = harness_.sent(number).key;
      for (const Version version : harness_.Chain(key)) {
        highest_[key] = std::max(highest_[key], version);
      }
      // A chain may be gone already, tombstone and all: then the delete was answered just before.
      highest_[key] = std::max(highest_[key], harness_.answer(number).version);
      issued.highest_at_answer = highest_[key];
      if (harness_.outcome(number) != Outcome::kOk) continue;
      told_[key] = std::max(told_[key], harness_.answer(number).version);
    }
  }

  void RandomTurn() {
    harness_.holds_sends = random_.Below(3) == 0;
    harness_.holds_reads = random_.Below(2) == 0;
    for (MemberTwin* member : harness_.members()) {
      member->lands = member->acks = member->folds = false;
      if (random_.Below(3) != 0) member->qp.Land(random_.Below(12));
      if (random_.Below(3) != 0) member->Ack(random_.Below(6));
      if (random_.Below(2) == 0) member->Fold(static_cast<int>(random_.Below(8)));
    }
    harness_.Turn(random_.Below(800'000));
    if (harness_.holds_reads && harness_.reads() > 0 && random_.Below(2) == 0) {
      harness_.FinishRead(true);
    }
  }

  // Per key, the versions that requests got, in their order: each must follow from the one before.
  void Check() {
    std::map<std::string, std::map<Version, Change>> history;
    std::map<int, Version> of_request;
    for (const auto& [number, issued] : issued_) {
      const Sent& sent = harness_.sent(number);
      const Answered& answer = harness_.answer(number);
      if (sent.request.operation == Operation::kGet || answer.count == 0) continue;
      if (answer.outcome != Outcome::kOk) continue;
      const auto [at, fresh] = of_request.emplace(issued.first, answer.version);
      EXPECT_EQ(at->second, answer.version) << "I3: request " << number << " executed twice";
      if (!fresh) continue;
      Change change;
      change.tombstone = sent.request.operation == Operation::kDelete;
      change.moved = sent.request.operation == Operation::kMove;
      change.value = sent.value;
      if (change.moved && history[sent.key].count(answer.version) != 0) continue;  // G9
      if (change.moved) {
        history[sent.key].emplace(answer.version, change);
      } else {
        // A move to where the version is already (G9) may have been seen first: it made no version.
        history[sent.key][answer.version] = change;
      }
    }
    for (auto& [key, versions] : history) {
      const Change* before = nullptr;
      for (auto& [version, change] : versions) {
        if (change.moved) {
          ASSERT_TRUE(before != nullptr && !before->tombstone) << "moved nothing: " << key;
          change.value = before->value;
        }
        if (change.tombstone) {
          EXPECT_TRUE(before != nullptr && !before->tombstone) << "deleted nothing: " << key;
        }
        before = &change;
      }
    }
    for (const auto& [number, issued] : issued_) CheckOne(number, issued, history);
  }

  void CheckOne(int number, const Issued& issued,
                std::map<std::string, std::map<Version, Change>>& history) {
    const Sent& sent = harness_.sent(number);
    const Answered& answer = harness_.answer(number);
    const std::map<Version, Change>& versions = history[sent.key];
    const Version low = issued_[issued.first].committed_before;
    SCOPED_TRACE("request " + std::to_string(number) + " of " + std::to_string(issued.first) +
                 " operation " + std::to_string(static_cast<int>(sent.request.operation)) +
                 " key " + sent.key.substr(0, 20) + Print(versions) + "; versions " +
                 std::to_string(low.counter()) + " to " +
                 std::to_string(issued.highest_at_answer.counter()) + ", asked for " +
                 std::to_string(sent.request.if_version.counter()));
    if (answer.may_be_silent && answer.count == 0) return;
    ASSERT_EQ(answer.count, 1);
    const bool retry = issued.first != number;
    if (answer.outcome == Outcome::kOk) {
      const auto found = versions.find(answer.version);
      ASSERT_NE(found, versions.end());
      if (!retry) {
        EXPECT_GE(answer.version, issued.committed_before) << "I1: goes back in time";
      }
      if (sent.request.operation == Operation::kGet) {
        EXPECT_FALSE(found->second.tombstone);
        EXPECT_TRUE(found->second.value == answer.value) << "wrong bytes";
      } else if ((sent.request.flags & protocol::kIfVersion) != 0 && !retry) {
        const auto before = found == versions.begin() ? versions.end() : std::prev(found);
        const bool absent = before == versions.end() || before->second.tombstone;
        const bool changed_nothing =
            sent.request.operation == Operation::kMove && sent.request.if_version == answer.version;
        if (!changed_nothing) {
          EXPECT_EQ(absent ? Version() : before->first, sent.request.if_version);
        }
      }
      return;
    }
    if (answer.outcome == Outcome::kNotFound) {
      EXPECT_TRUE(Exists(versions, low, issued.highest_at_answer, true, Version()));
    } else if (answer.outcome == Outcome::kVersionMismatch) {
      EXPECT_TRUE(Exists(versions, low, issued.highest_at_answer, false, sent.request.if_version));
    } else {
      // X3: only once another copy of the request had its answer.
      EXPECT_TRUE(!issued.is_first_answer && answer.outcome == Outcome::kStaleRequest)
          << "outcome " << static_cast<int>(answer.outcome);
    }
  }

  static std::string Print(const std::map<Version, Change>& versions) {
    std::string text;
    for (const auto& [version, change] : versions) {
      text += (change.tombstone ? " -" : " +") + std::to_string(version.counter());
    }
    return text;
  }

  // Whether at some moment between the two versions the key was absent, or (absent = false) another
  // than `not_this`.
  static bool Exists(const std::map<Version, Change>& versions, Version low, Version high,
                     bool absent, Version not_this) {
    const auto fits = [&](Version version, bool is_absent) {
      return absent ? is_absent : (is_absent ? Version() : version) != not_this;
    };
    auto at = versions.upper_bound(low);
    if (at == versions.begin()) {
      if (fits(Version(), true)) return true;
    } else if (fits(std::prev(at)->first, std::prev(at)->second.tombstone)) {
      return true;
    }
    for (; at != versions.end() && at->first <= high; ++at) {
      if (fits(at->first, at->second.tombstone)) return true;
    }
    return false;
  }

  SeededRandom random_;
  ShardHarness harness_;
  std::deque<TestClient> clients_;
  std::uint32_t value_size_max_ = 0;
  std::uint64_t tag_ = 0;
  std::vector<int> mutations_;
  std::map<int, Issued> issued_;
  std::map<std::string, Version> told_;
  std::map<std::string, Version> highest_;
  std::set<int> answered_;  // requests of which a copy had its answer
  std::size_t observed_ = 0;
};

class ShardProperty : public ::testing::TestWithParam<int> {
 protected:
  std::uint64_t Seed() const {
    return ring::testing::SeedFor("shard_property" + std::to_string(GetParam()));
  }
};

TEST_P(ShardProperty, I1I3SmallValuesUnderRandomDelays) {
  PropertyRun run(Seed(), {});
  run.Execute(3000, 8192);
}

TEST_P(ShardProperty, I1I3LargeValuesUnderRandomDelays) {
  HarnessOptions options;
  options.block_size = 64 * 1024;
  PropertyRun run(Seed() + 1, options);
  run.Execute(800, 300'000);
}

// Rings that wrap all the time, and blocks smaller than an inline value.
TEST_P(ShardProperty, I1I3TightRingsAndSmallBlocks) {
  HarnessOptions options;
  options.ring_size = memgest::kRingSizeMin;
  options.block_size = protocol::kBlockSizeMin;
  PropertyRun run(Seed() + 2, options);
  run.Execute(1500, 30'000);
}
INSTANTIATE_TEST_SUITE_P(Seeds, ShardProperty, ::testing::Range(0, 6));

}  // namespace
}  // namespace ring::coordinator
