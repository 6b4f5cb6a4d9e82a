#include "tests/sim/checkers/version_checker.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace ring::sim {

void VersionChecker::Complain(absl::string_view kind, const Operation& op, absl::string_view why) {
  constexpr std::size_t kEnough = 20;
  if (violations_.size() < kEnough)
    violations_.push_back({std::string(kind), absl::StrCat(why, ": ", Describe(op))});
}

void VersionChecker::OnInvoke(std::size_t op) {
  KeyState& key = keys_[history_->operations()[op].key];
  const Operation& begins = history_->operations()[op];
  key.unreliable |= begins.mutates() && begins.kind != OpKind::kDelete && begins.tolerates == 0;
  if (begun_.size() <= op) begun_.resize(op + 1);
  begun_[op] = {key.floor, key.losses, key.accepted};
}

// A NOT_FOUND above a value needs a delete that is known to be newer, or may be.
bool VersionChecker::DeleteMayStandAbove(const Operation& op, Version floor) const {
  return std::any_of(history_->operations().begin(), history_->operations().end(),
                     [&](const Operation& other) {
                       return other.kind == OpKind::kDelete && other.key == op.key &&
                              other.MayApply() && other.invoke_ns <= op.return_ns &&
                              (other.result != OpResult::kOk || other.version > floor);
                     });
}

void VersionChecker::OnReturn(std::size_t index, bool reliable) {
  const Operation& op = history_->operations()[index];
  KeyState& key = keys_[op.key];
  Begun begun = begun_[index];
  if (begun.losses != key.losses) {  // G6: only what was reliable then is still owed
    begun.floor.any = begun.floor.reliable;
    begun.floor.any_deleted = begun.floor.reliable_deleted;
    const bool accepted = everything_ || begun.accepted != key.accepted;
    if (accepted || MovedAwayFrom(op.key, begun.floor.reliable)) begun.floor = {};
  }
  if (op.result == OpResult::kNotFound) {
    if (begun.floor.any.bits() != 0 && !begun.floor.any_deleted &&
        !DeleteMayStandAbove(op, begun.floor.any)) {
      Complain("linearizability", op,
               absl::StrCat("not found although version ", ToString(begun.floor.any),
                            " had been told of"));
    }
    return;
  }
  const bool witness = op.result == OpResult::kOk || op.mismatch;
  if (!witness || op.version.bits() == 0) return;
  if (op.mismatch && op.if_version == op.version)
    Complain("linearizability", op, "a mismatch with the version that is there");
  // A move to where the key is gives the version that is there (G9).
  const bool writes = op.kind == OpKind::kPut || op.kind == OpKind::kDelete;
  const bool stale =
      writes && !op.mismatch ? op.version <= begun.floor.any : op.version < begun.floor.any;
  if (stale) {
    Complain("linearizability", op,
             absl::StrCat("older than version ", ToString(begun.floor.any),
                          ", which had been told of before"));
  }
  // A mismatch tells of no value: a tombstone, maybe; nor of a memgest.
  const bool deleted = op.kind == OpKind::kDelete || op.mismatch;
  if (op.mismatch && key.unreliable) return;
  reliable |= op.mismatch;
  if (op.version.epoch() < (reliable ? key.accepted_before : key.lost_before)) return;
  if (op.version > key.floor.any) {
    key.floor.any = op.version;
    key.floor.any_deleted = deleted;
  }
  if (reliable && op.version > key.floor.reliable) {
    key.floor.reliable = op.version;
    key.floor.reliable_deleted = deleted;
  }
}

// A move to a weaker memgest is its user's decision, and lets go of all below it.
bool VersionChecker::MovedAwayFrom(int key, Version reliable) const {
  return std::any_of(
      history_->operations().begin(), history_->operations().end(), [&](const Operation& op) {
        return op.key == key && op.kind == OpKind::kMove && op.MayApply() && op.tolerates == 0 &&
               (op.version.bits() == 0 || op.version > reliable);
      });
}

void VersionChecker::LoseUnreliable(const std::function<bool(int key)>& concerned, Epoch epoch) {
  for (auto& [name, key] : keys_) {
    if (!concerned(name)) continue;
    ++key.losses;
    key.lost_before = epoch;
    if (everything_) key.accepted_before = epoch;
    if (MovedAwayFrom(name, key.floor.reliable)) {
      key.floor.reliable = Version();
      key.floor.reliable_deleted = false;
    }
    key.floor.any = key.floor.reliable;
    key.floor.any_deleted = key.floor.reliable_deleted;
  }
}

void VersionChecker::LoseEverything(const std::function<Epoch(int key)>& epoch_of) {
  everything_ = true;
  for (auto& [name, key] : keys_) {
    LoseReliable(epoch_of(name), &key);
  }
}

void VersionChecker::LoseAccepted(const std::function<bool(int key)>& concerned, Epoch epoch) {
  for (auto& [name, key] : keys_) {
    if (concerned(name)) LoseReliable(epoch, &key);
  }
}

void VersionChecker::LoseReliable(Epoch before, KeyState* key) {
  ++key->losses;
  ++key->accepted;
  key->lost_before = key->accepted_before = before;
  key->floor = {};
}

bool VersionChecker::MayHaveLostReliable(int key) const {
  const auto found = keys_.find(key);
  return everything_ || (found != keys_.end() && found->second.accepted > 0);
}

bool VersionChecker::MayHaveLost(int key) const {
  if (MayHaveLostReliable(key)) return true;
  const auto found = keys_.find(key);
  return found != keys_.end() && found->second.losses > 0 && found->second.unreliable;
}

LossModel VersionChecker::Losses() const {
  return {[this](int key) { return MayHaveLostReliable(key); },
          [this](int key) {
            const auto found = keys_.find(key);
            return found == keys_.end() ? Epoch() : found->second.accepted_before;
          }};
}

std::map<int, VersionChecker::Story> VersionChecker::Collect() {
  std::map<int, Story> stories;
  for (std::size_t i = 0; i < history_->operations().size(); ++i) {
    const Operation& op = history_->operations()[i];
    Story& story = stories[op.key];
    const bool answered = op.result == OpResult::kOk && op.version.bits() != 0;
    if (op.kind == OpKind::kGet) {
      if (!answered) continue;
      const auto [it, fresh] = story.read.emplace(op.version.bits(), op.value);
      if (!fresh && it->second != op.value) Complain("one-version-two-values", op, "V1");
    } else if (op.kind == OpKind::kMove) {
      if (answered) {
        story.moves.emplace(op.version.bits(), i);
      } else if (op.MayApply()) {
        ++story.open_moves;
      }
    } else if (answered) {
      if (!story.writes.emplace(op.version.bits(), i).second)
        Complain("one-version-two-values", op, "V1: assigned twice");
    } else if (op.kind == OpKind::kDelete && op.MayApply()) {
      ++story.open_deletes;
    }
  }
  for (auto& [key, story] : stories) {
    // G9: no version of its own.
    std::erase_if(story.moves,
                  [&story = story](const auto& move) { return story.writes.contains(move.first); });
  }
  return stories;
}

void VersionChecker::CheckReads(const Story& story) {
  for (const auto& [version, value] : story.read) {
    const auto write = story.writes.find(version);
    if (write == story.writes.end()) continue;
    const Operation& op = history_->operations()[write->second];
    if (op.kind == OpKind::kDelete || op.value != value)
      Complain("wrong-value", op, absl::StrCat("its version was read with value ", value));
  }
}

// G7: a move takes what is the newest below its version.
void VersionChecker::CheckMoves(const Story& story) {
  for (const auto& [version, index] : story.moves) {
    const auto read = story.read.find(version);
    const auto above = story.writes.lower_bound(version);
    if (read == story.read.end() || above == story.writes.begin()) continue;
    const Operation& below = history_->operations()[std::prev(above)->second];
    if (below.kind == OpKind::kPut && below.value == read->second) continue;
    // The put of what it took may be one whose version nobody was told.
    const bool untold = std::any_of(
        history_->operations().begin(), history_->operations().end(), [&](const Operation& op) {
          return op.kind == OpKind::kPut && op.value == read->second && op.version.bits() == 0;
        });
    if (!untold) {
      Complain("lost-update", history_->operations()[index],
               absl::StrCat("G7: took value ", read->second, "; below it was ", Describe(below)));
    }
  }
}

// The newest version below this one that anybody was told of.
std::optional<VersionChecker::Known> VersionChecker::NewestBelow(const Story& story,
                                                                 std::uint64_t version) const {
  std::optional<Known> newest;
  const auto take = [&newest](std::uint64_t below, bool exists) {
    if (!newest.has_value() || below > newest->version.bits())
      newest = Known{Version(below), exists};
  };
  for (const auto* made : {&story.writes, &story.moves}) {
    const auto above = made->lower_bound(version);
    if (above == made->begin()) continue;
    const auto& [below, index] = *std::prev(above);
    take(below, history_->operations()[index].kind != OpKind::kDelete);
  }
  const auto above = story.read.lower_bound(version);
  if (above != story.read.begin()) take(std::prev(above)->first, true);
  return newest;
}

void VersionChecker::CheckConditions(const Story& story) {
  for (const auto* made : {&story.writes, &story.moves}) {
    for (const auto& [version, index] : *made) {
      const Operation& op = history_->operations()[index];
      const std::optional<Known> below = NewestBelow(story, version);
      if (!op.if_version.has_value() || !below.has_value()) continue;
      const bool broken = op.if_version->bits() == 0 ? below->exists && story.open_deletes == 0
                                                     : below->version > *op.if_version;
      if (broken)
        Complain("condition", op,
                 absl::StrCat("V9: did not hold, below it is ", ToString(below->version)));
    }
  }
}

void VersionChecker::Finish() {
  const std::map<int, Story> stories = Collect();
  for (Violation& found : CheckExactlyOnce(*history_, Losses()))
    violations_.push_back(std::move(found));
  for (const auto& [key, story] : stories) {
    CheckReads(story);
    if (MayHaveLost(key)) continue;  // what stood between may have vanished
    CheckMoves(story);
    CheckConditions(story);
  }
}

}  // namespace ring::sim
