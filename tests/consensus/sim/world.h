// tests/consensus/sim/world.h — servers, network, disks, clients and faults on virtual time.
//
// What:      World runs one seed: a time with faults, a calm in which everything must come to an
//            end, and a nuisance that must not disturb a leader. RunSeed is the whole of it.
// Shape:     events in a heap by (time, number); all randomness from one generator, so that a seed
//            gives the same events and the same trace hash every time.
// Units:     time in units, kTickUnits a tick.
// Ownership: owns servers and disks.
// Threads:   thread-compatible.
// Errors:    the first violation of the checker, or of liveness, as text.
// Source:    the packet simulator of TigerBeetle for one place that lists every fault.
#ifndef RING_TESTS_CONSENSUS_SIM_WORLD_H_
#define RING_TESTS_CONSENSUS_SIM_WORLD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "consensus/memory_storage.h"
#include "consensus/raft.h"
#include "ring/base/random.h"
#include "tests/consensus/sim/checker.h"
#include "tests/consensus/sim/machine.h"
#include "tests/consensus/sim/profile.h"

namespace ring::consensus::sim {

struct Result {
  std::uint64_t seed = 0;
  std::string violation;  // empty: none
  std::uint64_t trace_hash = 0;
  std::uint64_t ticks = 0;  // simulated
  std::uint64_t steps = 0;  // calls of servers, each followed by the checks
  std::uint64_t messages = 0;
  std::uint64_t committed = 0;
  std::uint64_t reads = 0;
  std::uint64_t elections = 0;
  std::array<std::uint64_t, kFaultCount> faults{};
};

class World final : private Checker::Disks {
 public:
  // `trace` gets a line for each event; nullptr for none.
  World(const Profile& profile, const WorldBugs& bugs, std::FILE* trace);
  Result Run();

 private:
  enum class EventType : std::uint8_t {
    kTick,
    kDeliver,
    kDiskDone,
    kRestart,
    kFault,
    kHeal,
    kFlap,
    kClient,
    kRead,
    kQueuedRead,
    kChange
  };
  struct Event {
    std::uint64_t time;
    std::uint64_t number;
    EventType type;
    std::uint32_t node;
    std::uint64_t argument;  // a message's place, a start's number
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };
  struct Node {
    ServerId id;
    std::uint64_t starts = 0;
    std::unique_ptr<Raft> raft;  // nullptr: down
    MemoryStorage disk;
    std::optional<PersistRequest> writing;
    Machine machine;
    LogIndex applied = 0;
    LogIndex compacted = 0;
    Witness witness;
    std::uint64_t paused_until = 0;
    std::uint64_t tick_units = kTickUnits;
    bool lost_disk = false;  // while down: comes back as another server
  };
  struct Read {
    std::uint32_t node;
    std::uint64_t start;
    LogIndex committed_before;
    std::optional<LogIndex> index;
  };
  struct Client {
    std::uint32_t sequence = 0;  // of the last command
    bool waiting = false;
    std::uint64_t asked_at = 0;
    std::uint32_t node = 0;
    std::uint64_t start = 0;
    Position position;
    std::uint32_t acknowledged = 0;
  };

  // world.cc
  bool HasEntry(ServerId id, LogIndex index, Term term) const override;
  void Push(std::uint64_t delay, EventType type, std::uint32_t node, std::uint64_t argument = 0);
  void RunUntil(std::uint64_t time);
  void Handle(const Event& event);
  void Start(std::uint32_t node);
  void Stop(std::uint32_t node);
  void Pump(std::uint32_t node);
  void Act(std::uint32_t node, Ready& ready);
  void Apply(std::uint32_t node, const Entry& entry);
  void Write(std::uint32_t node, PersistRequest request);
  void DiskDone(std::uint32_t node);
  void Send(std::uint32_t node, Message m);
  void Post(Message m, std::uint64_t delay);
  void Deliver(std::uint64_t place);
  void Trace(const char* what, std::uint64_t node, std::uint64_t a, std::uint64_t b);
  bool Chance(std::uint64_t per_mille) { return random_.Below(1000) < per_mille; }
  void Count(Fault fault) { ++result_.faults[static_cast<std::size_t>(fault)]; }
  bool failed() const { return !checker_.ok(); }

  // faults.cc
  void InjectFault();
  void CutLinks(Fault fault);
  void Heal();
  void CrashOne(bool lose_disk);
  void Restart(std::uint32_t node);
  bool MayLoseDisk(std::uint32_t node) const;
  std::uint32_t Victim();
  std::uint64_t Outage() { return 1 + random_.Below(profile_.outage_ticks_max * kTickUnits); }
  std::uint32_t AnyNode() { return static_cast<std::uint32_t>(random_.Below(nodes_.size())); }

  // workload.cc
  void ClientActs(std::size_t client);
  void Acknowledge(std::uint32_t node, const Entry& entry);
  void ReadSomewhere();
  void ReadAt(std::uint32_t node);
  void ReadsAnswered(std::uint32_t node, const Ready& ready);
  void FinishReads(std::uint32_t node);
  void ChangeSomething();
  void ReplaceLost(Raft& leader);
  std::optional<std::uint32_t> SomeLeader();
  std::optional<std::uint32_t> NewestLeader() const;

  // run.cc
  void CheckQuorum(std::uint32_t node);
  void Calm();
  std::string Unsettled() const;
  void Nuisance();

  const Profile profile_;
  const WorldBugs bugs_;
  std::FILE* const trace_;
  SeededRandom random_;
  Checker checker_;
  Result result_;
  std::uint64_t now_ = 0;
  std::uint64_t events_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
  std::vector<Message> messages_;
  std::vector<std::uint64_t> free_messages_;
  std::vector<Node> nodes_;
  std::map<ServerId, MemoryStorage> graves_;  // disks that were lost
  std::vector<std::vector<char>> cut_;        // [from][to]
  std::vector<Client> clients_;
  std::map<std::uint64_t, Read> reads_;
  std::uint64_t next_read_ = 0;
  std::uint64_t next_number_ = 100;
  bool calm_ = false;   // no new faults
  bool quiet_ = false;  // no new commands
};

// Runs one seed. The same arguments give the same result.
Result RunSeed(std::uint64_t seed, const WorldBugs& bugs = {}, std::FILE* trace = nullptr);

}  // namespace ring::consensus::sim

#endif  // RING_TESTS_CONSENSUS_SIM_WORLD_H_
