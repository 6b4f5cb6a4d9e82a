#include "tests/chaos/verdict.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/checkers/durability_checker.h"
#include "tests/sim/checkers/liveness_checker.h"
#include "tests/sim/checkers/memgest_checker.h"
#include "tests/sim/checkers/resurrection_checker.h"
#include "tests/sim/checkers/search_checker.h"
#include "tests/sim/checkers/version_checker.h"

namespace ring::chaos {
namespace {

// In the order in which they are looked at when their times are equal.
enum class EventKind { kInvoke, kReturn, kLoss };

struct Event {
  std::uint64_t at_ns = 0;
  EventKind kind = EventKind::kInvoke;
  std::size_t index = 0;  // of the operation; of the loss
};

// A loss is told at the end of its interval, and before that behind every answer about its keys, as
// each of them may be the last one before it.
std::vector<Event> EventsOf(const sim::History& history, const std::vector<OwnerLoss>& losses,
                            const cluster::Routing& routing) {
  std::vector<Event> events;
  const auto& operations = history.operations();
  for (std::size_t i = 0; i < operations.size(); ++i) {
    events.push_back({operations[i].invoke_ns, EventKind::kInvoke, i});
    if (operations[i].return_ns != 0)
      events.push_back({operations[i].return_ns, EventKind::kReturn, i});
  }
  for (std::size_t i = 0; i < losses.size(); ++i) {
    events.push_back({losses[i].until_ns, EventKind::kLoss, i});
    for (const sim::Operation& op : operations) {
      const bool within = op.return_ns >= losses[i].from_ns && op.return_ns < losses[i].until_ns;
      if (within && routing.OfKey(sim::KeyName(op.key)) == losses[i].place)
        events.push_back({op.return_ns, EventKind::kLoss, i});
    }
  }
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::pair(a.at_ns, a.kind) < std::pair(b.at_ns, b.kind);
  });
  return events;
}

void Replay(const sim::History& history, const std::vector<OwnerLoss>& losses,
            const cluster::Routing& routing, sim::VersionChecker* checker) {
  for (const Event& event : EventsOf(history, losses, routing)) {
    switch (event.kind) {
      case EventKind::kInvoke:
        checker->OnInvoke(event.index);
        break;
      case EventKind::kReturn:
        checker->OnReturn(event.index, history.operations()[event.index].tolerates >= 1);
        break;
      case EventKind::kLoss:
        checker->LoseUnreliable(
            [&](int key) { return routing.OfKey(sim::KeyName(key)) == losses[event.index].place; },
            losses[event.index].epoch);
        break;
    }
  }
  checker->Finish();
}

// The history with what Rep(1) may have lost, each as early as it can have been.
sim::History WithLosses(const sim::History& history, const std::vector<OwnerLoss>& losses,
                        const cluster::Routing& routing) {
  std::set<int> keys;
  for (const sim::Operation& op : history.operations()) keys.insert(op.key);
  sim::History all = history;
  for (const OwnerLoss& loss : losses) {
    sim::Loss one{loss.from_ns, loss.epoch, {}, false};
    for (const int key : keys) {
      if (routing.OfKey(sim::KeyName(key)) == loss.place) one.keys.push_back(key);
    }
    all.AddLoss(std::move(one));
  }
  return all;
}

// What follows the last write: only reads.
std::size_t FirstLastRead(const sim::History& history) {
  std::size_t first = history.operations().size();
  while (first > 0 && !history.operations()[first - 1].mutates()) --first;
  return first;
}

}  // namespace

Verdict CheckHistory(const sim::History& history, const std::vector<OwnerLoss>& losses,
                     const cluster::Routing& routing, std::uint64_t search_step_max) {
  Verdict verdict;
  const auto add = [&verdict](std::vector<sim::Violation> found) {
    for (sim::Violation& one : found) verdict.violations.push_back(std::move(one));
  };
  sim::VersionChecker versions(&history);
  Replay(history, losses, routing, &versions);
  add(versions.violations());
  add(sim::CheckLiveness(history, [](int) { return false; }));
  const auto may_have_lost = [&versions](int key) { return versions.MayHaveLost(key); };
  add(sim::CheckDurability(history, FirstLastRead(history), may_have_lost));
  add(sim::CheckResurrection(WithLosses(history, losses, routing)));
  sim::KeptVersions kept;
  add(sim::CheckMemgests(history, may_have_lost, &kept));
  std::set<int> lossy;
  for (const sim::Operation& op : history.operations()) {
    ++verdict.operations;
    const bool answered = op.result == sim::OpResult::kOk || op.result == sim::OpResult::kNotFound;
    verdict.answered += answered ? 1 : 0;
    verdict.failed += op.result == sim::OpResult::kFailed ? 1 : 0;
    verdict.unknown += op.result == sim::OpResult::kUnknown ? 1 : 0;
    if (may_have_lost(op.key)) lossy.insert(op.key);
  }
  verdict.keys_with_losses = lossy.size();
  sim::SearchReport search = sim::SearchLinearization(history, may_have_lost, search_step_max);
  verdict.search_keys = search.keys_checked;
  verdict.search_given_up = search.given_up.size();
  for (const int key : search.given_up) {
    verdict.violations.push_back(
        {"given-up", absl::StrCat("key=", sim::KeyName(key), ": the search for an order ended at ",
                                  search_step_max, " steps; the version checker alone judged it")});
  }
  add(std::move(search.violations));
  return verdict;
}

std::vector<sim::Violation> CheckRun(const Verdict& verdict,
                                     const std::map<std::string, int>& injected) {
  std::vector<sim::Violation> found;
  if (verdict.answered == 0) found.push_back({"empty", "no operation was answered"});
  int faults = 0;
  for (const auto& [fault, count] : injected) faults += count;
  if (faults == 0) found.push_back({"empty", "no fault was injected"});
  return found;
}

}  // namespace ring::chaos
