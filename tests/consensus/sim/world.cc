#include "tests/consensus/sim/world.h"

#include <algorithm>
#include <utility>

namespace ring::consensus::sim {

World::World(const Profile& profile, const WorldBugs& bugs, std::FILE* trace)
    : profile_(profile), bugs_(bugs), trace_(trace), random_(profile.seed), checker_(*this) {
  result_.seed = profile.seed;
  nodes_.resize(profile_.nodes());
  clients_.resize(profile_.clients);
  cut_.assign(nodes_.size(), std::vector<char>(nodes_.size(), 0));
  Configuration configuration;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i].id = MakeServerId(static_cast<std::uint16_t>(i + 1), 1);
    nodes_[i].tick_units = kTickUnits - 1 + random_.Below(3);  // clocks run at different rates
    if (i < profile_.voters) {
      configuration.AddVoter(nodes_[i].id);
    } else if (i < profile_.voters + profile_.learners) {
      configuration.AddLearner(nodes_[i].id);
    }
  }
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (i < profile_.voters) Bootstrap(configuration, nodes_[i].disk).IgnoreError();
    Start(i);
    Push(1 + random_.Below(kTickUnits), EventType::kTick, i);
  }
  Push(kTickUnits, EventType::kFault, 0);
  for (std::uint32_t i = 0; i < clients_.size(); ++i) Push(1 + i, EventType::kClient, i);
  Push(kTickUnits, EventType::kRead, 0);
  if (profile_.change_every > 0 || profile_.Has(Fault::kDiskLoss)) {
    Push(kTickUnits, EventType::kChange, 0);
  }
}

bool World::HasEntry(ServerId id, LogIndex index, Term term) const {
  const auto has = [index, term](const MemoryStorage& disk) {
    const SnapshotRef& snapshot = disk.state().snapshot;
    return disk.TermAt(index) == term || (snapshot != nullptr && snapshot->index >= index);
  };
  if (const auto grave = graves_.find(id); grave != graves_.end()) return has(grave->second);
  const Node& node = nodes_[NodeOf(id) - 1u];
  return node.id == id && has(node.disk);
}

void World::Push(std::uint64_t delay, EventType type, std::uint32_t node, std::uint64_t argument) {
  queue_.push({now_ + delay, ++events_, type, node, argument});
}

void World::Trace(const char* what, std::uint64_t node, std::uint64_t a, std::uint64_t b) {
  result_.trace_hash = Mix(Mix(Mix(Mix(result_.trace_hash, now_), node), a), b);
  if (trace_ != nullptr) {
    std::fprintf(trace_, "%llu.%02llu %s node=%llu %llx %llx\n",
                 static_cast<unsigned long long>(now_ / kTickUnits),
                 static_cast<unsigned long long>(now_ % kTickUnits), what,
                 static_cast<unsigned long long>(node), static_cast<unsigned long long>(a),
                 static_cast<unsigned long long>(b));
  }
}

void World::RunUntil(std::uint64_t time) {
  while (!queue_.empty() && queue_.top().time <= time && !failed()) {
    const Event event = queue_.top();
    queue_.pop();
    now_ = event.time;
    Handle(event);
  }
  now_ = std::max(now_, time);
}

void World::Handle(const Event& event) {
  switch (event.type) {
    case EventType::kTick: {
      Node& node = nodes_[event.node];
      Push(node.tick_units, EventType::kTick, event.node);
      if (node.raft == nullptr || now_ < node.paused_until) return;
      node.raft->Tick(random_.Next64());
      Pump(event.node);
      CheckQuorum(event.node);
      return;
    }
    case EventType::kDeliver:
      return Deliver(event.argument);
    case EventType::kDiskDone:
      if (event.argument == nodes_[event.node].starts && nodes_[event.node].writing.has_value()) {
        DiskDone(event.node);
      }
      return;
    case EventType::kRestart:
      if (nodes_[event.node].raft == nullptr) Restart(event.node);
      return;
    case EventType::kFault:
      if (calm_) return;
      InjectFault();
      Push(1 + random_.Below(2 * profile_.fault_every * kTickUnits), EventType::kFault, 0);
      return;
    case EventType::kHeal:
      if (!calm_) Heal();
      return;
    case EventType::kFlap:
      if (calm_) return;
      cut_[event.node][event.argument] ^= 1;
      cut_[event.argument][event.node] = cut_[event.node][event.argument];
      Count(Fault::kFlapping);
      if (!Chance(200)) {
        Push(1 + random_.Below(4 * kTickUnits), EventType::kFlap, event.node, event.argument);
      }
      return;
    case EventType::kClient:
      ClientActs(event.node);
      Push(1 + random_.Below(2 * profile_.client_every * kTickUnits), EventType::kClient,
           event.node);
      return;
    case EventType::kRead:
      ReadSomewhere();
      Push(1 + random_.Below(2 * profile_.read_every * kTickUnits), EventType::kRead, 0);
      return;
    case EventType::kQueuedRead:
      return ReadAt(event.node);
    case EventType::kChange:
      ChangeSomething();
      Push(1 + random_.Below(2 * (profile_.change_every + 3) * kTickUnits), EventType::kChange, 0);
      return;
  }
}

void World::Start(std::uint32_t index) {
  Node& node = nodes_[index];
  ++node.starts;
  Options options = profile_.raft;
  options.id = node.id;
  options.nonce = random_.Next64();
  node.machine = Machine(clients_.size());
  node.applied = node.compacted = 0;
  node.witness = {};
  node.raft = std::make_unique<Raft>(options, *node.disk.Load());
  node.witness.commit = node.raft->commit_index();
  node.witness.base = node.raft->log().base_index();
  Trace("start", index, node.id.value(), node.raft->log().last_index());
  Pump(index);
}

// As kill -9: of what was being written a part may be on the disk.
void World::Stop(std::uint32_t index) {
  Node& node = nodes_[index];
  checker_.Forget(node.id);
  node.raft.reset();
  if (node.writing.has_value()) {
    node.disk.WritePart(*node.writing, random_.Below(node.writing->entries.size() + 3));
    node.writing.reset();
  }
  std::erase_if(reads_, [index](const auto& read) { return read.second.node == index; });
  Trace("stop", index, node.disk.last_index(), 0);
}

// What a server wants done, after every step of it, with the checks between.
void World::Pump(std::uint32_t index) {
  Node& node = nodes_[index];
  ++result_.steps;
  checker_.AfterStep(*node.raft, node.witness);
  bool more = true;
  while (more && !failed()) {
    Ready ready = node.raft->TakeReady();
    checker_.AfterStep(*node.raft, node.witness);
    Act(index, ready);
    more = ready.persist.has_value() && profile_.disk_delay_max == 0 && !node.writing.has_value();
  }
}

void World::Act(std::uint32_t index, Ready& ready) {
  Node& node = nodes_[index];
  for (Message& m : ready.messages) Send(index, std::move(m));
  if (ready.restore != nullptr) {
    node.machine.Restore(ready.restore->data);
    node.applied = node.compacted = ready.restore->index;
    checker_.OnRestore(node.id, node.applied, node.machine.hash());
  }
  for (const Entry& entry : ready.committed) Apply(index, entry);
  ReadsAnswered(index, ready);
  FinishReads(index);
  if (profile_.compact_entries > 0 && node.applied >= node.compacted + profile_.compact_entries) {
    Snapshot snapshot{node.applied, *node.raft->log().TermAt(node.applied),
                      node.raft->log().ConfigurationAt(node.applied), node.machine.Encode()};
    node.compacted = node.applied;
    node.raft->Compact(std::make_shared<const Snapshot>(std::move(snapshot)));
    Count(Fault::kSnapshot);
  }
  if (ready.persist.has_value()) Write(index, std::move(*ready.persist));
}

void World::Apply(std::uint32_t index, const Entry& entry) {
  Node& node = nodes_[index];
  if (entry.index != node.applied + 1) {
    checker_.Fail("applied out of order");
    return;
  }
  node.applied = entry.index;
  if (entry.kind == EntryKind::kCommand) {
    const Command command = Command::Decode(entry.data);
    if (node.machine.Apply(command, !bugs_.no_deduplication)) {
      checker_.OnEffect(entry.index, command.client, command.sequence);
    }
  }
  checker_.OnApply(node.id, entry, node.machine.hash());
  Acknowledge(index, entry);
}

void World::Write(std::uint32_t index, PersistRequest request) {
  Node& node = nodes_[index];
  node.writing = std::move(request);
  if (profile_.disk_delay_max == 0) {
    DiskDone(index);
    return;
  }
  if (!calm_) Count(Fault::kSlowDisk);
  std::uint64_t most = calm_ ? 2 : profile_.disk_delay_max;
  if (!calm_ && Chance(profile_.stall)) most = 30 * kTickUnits;
  Push(1 + random_.Below(most), EventType::kDiskDone, index, node.starts);
}

void World::DiskDone(std::uint32_t index) {
  Node& node = nodes_[index];
  const PersistRequest request = *std::exchange(node.writing, std::nullopt);
  const bool fails = !calm_ && Chance(profile_.failed_persist);
  if (fails) {
    Count(Fault::kFailedPersist);
    node.disk.WritePart(request, random_.Below(request.entries.size() + 3));
  } else {
    node.disk.Persist(request).IgnoreError();
  }
  Trace(fails ? "persist-failed" : "persisted", index, request.id, node.disk.last_index());
  node.raft->Persisted(request.id, !fails);
  checker_.AfterStep(*node.raft, node.witness);
  if (profile_.disk_delay_max > 0) Pump(index);
}

void World::Send(std::uint32_t index, Message m) {
  checker_.OnSend(m, nodes_[index].disk);
  ++result_.messages;
  const std::uint32_t to = NodeOf(m.to) - 1u;
  std::uint64_t delay = 1 + random_.Below(calm_ ? 4 : profile_.delay_max);
  if (cut_[index][to] != 0) return;
  if (!calm_) {
    if (profile_.delay_max > 4) Count(Fault::kDelay);
    if (Chance(profile_.loss)) {
      Count(Fault::kLoss);
      return;
    }
    if (Chance(profile_.late)) {
      Count(Fault::kLateMessage);
      delay += random_.Below(60 * kTickUnits);
    }
    if (Chance(profile_.duplicate)) {
      Count(Fault::kDuplicate);
      Post(m, delay + random_.Below(8 * kTickUnits));
    }
  }
  Post(std::move(m), delay);
}

void World::Post(Message m, std::uint64_t delay) {
  std::uint64_t place = messages_.size();
  if (free_messages_.empty()) {
    messages_.push_back(std::move(m));
  } else {
    place = free_messages_.back();
    free_messages_.pop_back();
    messages_[place] = std::move(m);
  }
  Push(delay, EventType::kDeliver, 0, place);
}

void World::Deliver(std::uint64_t place) {
  const std::uint32_t to = NodeOf(messages_[place].to) - 1u;
  Node& node = nodes_[to];
  if (node.raft != nullptr && now_ < node.paused_until) {
    Push(node.paused_until - now_, EventType::kDeliver, 0, place);
    return;
  }
  Message m = std::move(messages_[place]);
  free_messages_.push_back(place);
  if (node.raft == nullptr) return;
  Trace("deliver", to, (static_cast<std::uint64_t>(m.type) << 56) ^ m.term ^ (m.index << 16),
        m.from.value() ^ (m.commit << 8) ^ m.entries.size());
  if (place % 16 == 0) {  // the encoding has tests of its own
    const absl::StatusOr<Message> decoded = DecodeMessage(EncodeMessage(m));
    if (!decoded.ok() || *decoded != m) checker_.Fail("a message does not survive its encoding");
  }
  // What a broken server would end the process for is a violation here.
  if (m.type == MessageType::kAppend && m.to == node.id && m.term >= node.raft->term()) {
    for (const Entry& entry : m.entries) {
      const std::optional<Term> term = node.raft->log().TermAt(entry.index);
      if (m.index >= node.raft->commit_index() && entry.index <= node.raft->commit_index() &&
          term != entry.term && entry.index > node.raft->log().base_index()) {
        checker_.Fail("state machine safety: a committed entry is being replaced");
        return;
      }
    }
  }
  const bool owes = !node.raft->log().all_persisted();
  const Term before = node.raft->term();
  const bool timeout_now = m.type == MessageType::kTimeoutNow;
  node.raft->Receive(std::move(m));
  if (timeout_now && owes && node.raft->role() == Role::kCandidate && node.raft->term() > before) {
    checker_.Fail("10.7 campaigns at once while entries are not durable");
  }
  Pump(to);
}

}  // namespace ring::consensus::sim
