#include "consensus/replica.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "ring/base/check.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"

namespace ring::consensus {
namespace {

constexpr absl::string_view kMoved = "leadership moved; it may happen or not";

}  // namespace

absl::StatusOr<std::unique_ptr<Replica>> Replica::Start(const ReplicaOptions& options,
                                                        Storage& storage,
                                                        StateMachine& state_machine,
                                                        ReplicaListener& listener,
                                                        PersistObserver* observer) {
  RING_ASSIGN_OR_RETURN(InitialState initial, storage.Load());
  if (initial.snapshot != nullptr && initial.snapshot->index > 0) {
    RING_RETURN_IF_ERROR(state_machine.Restore(initial.snapshot->data));
  }
  if (observer != nullptr) {
    if (initial.snapshot != nullptr) observer->OnSnapshot(*initial.snapshot, true);
    if (!initial.entries.empty()) observer->OnAppend(initial.entries);
  }
  return std::unique_ptr<Replica>(
      new Replica(options, storage, state_machine, listener, observer, std::move(initial)));
}

Replica::Replica(const ReplicaOptions& options, Storage& storage, StateMachine& state_machine,
                 ReplicaListener& listener, PersistObserver* observer, InitialState initial)
    : options_(options),
      storage_(storage),
      state_machine_(state_machine),
      listener_(listener),
      observer_(observer),
      raft_(options.raft, std::move(initial)) {
  applied_ = snapshot_index_ = raft_.log().base_index();
  durable_last_ = raft_.log().last_index();
  announced_term_ = raft_.term();
  // The snapshot is restored already.
  raft_.TakeReady();
}

void Replica::Receive(std::uint16_t node, absl::string_view bytes) {
  absl::StatusOr<Message> message = DecodeMessage(bytes);
  if (!message.ok() || NodeOf(message->from) != node) {
    ++bad_messages_;
    return;
  }
  raft_.Receive(*std::move(message));
}

void Replica::Tick(std::uint64_t random) { raft_.Tick(random); }

void Replica::Turn() {
  RING_CHECK(!in_turn_) << "a callback called Turn";
  in_turn_ = true;
  do {
    while (Work()) {
    }
    std::vector<absl::AnyInvocable<void()>> due = std::exchange(due_, {});
    for (auto& callback : due) callback();
    // Callbacks may have proposed or asked anew.
  } while (Work() || !due_.empty());
  in_turn_ = false;
}

// One round of what the server wants done; true when that may have left more.
bool Replica::Work() {
  bool more = EndPersist();
  Ready ready = raft_.TakeReady();
  // What they claim is durable; entries travel while they are written here.
  for (const Message& m : ready.messages) listener_.Send(m.to, EncodeMessage(m));
  if (ready.persist.has_value()) {
    BeginPersist(*std::move(ready.persist));
    more |= EndPersist();
  }
  if (ready.restore != nullptr) Restore(*ready.restore);
  for (const Entry& entry : ready.committed) Apply(entry);
  AnnounceLeadership();
  AnnounceConfiguration();
  AnswerReads(ready);
  MaybeSnapshot();
  return more;
}

void Replica::BeginPersist(PersistRequest request) {
  ++persist_calls_;
  persisting_ = std::make_shared<const PersistRequest>(std::move(request));
  storage_.Begin(persisting_);
}

// False: nothing was under way, or it still is.
bool Replica::EndPersist() {
  if (persisting_ == nullptr) return false;
  std::optional<absl::Status> outcome = storage_.TakeOutcome();
  if (!outcome.has_value()) return false;
  const std::shared_ptr<const PersistRequest> request = std::exchange(persisting_, nullptr);
  persist_status_ = *std::move(outcome);
  const bool observe = persist_status_.ok() && observer_ != nullptr;
  const bool late = Mutant("L1-leader");
  if (observe && !late) Observe(*request);
  raft_.Persisted(request->id, persist_status_.ok());
  if (observe && late) Observe(*request);
  return true;
}

absl::Status Replica::persist_status() const {
  if (!raft_.persist_late()) return persist_status_;
  return absl::DeadlineExceededError("a write has not ended for as long as several elections take");
}

void Replica::Observe(const PersistRequest& request) {
  if (request.snapshot != nullptr) {
    observer_->OnSnapshot(*request.snapshot, request.snapshot_replaces_log);
    if (request.snapshot_replaces_log) durable_last_ = request.snapshot->index;
  }
  if (request.entries.empty()) return;
  if (request.entries.front().index <= durable_last_) {
    observer_->OnTruncate(request.entries.front().index);
  }
  observer_->OnAppend(request.entries);
  durable_last_ = request.entries.back().index;
}

void Replica::Restore(const Snapshot& snapshot) {
  const absl::Status status = state_machine_.Restore(snapshot.data);
  RING_CHECK(status.ok()) << "snapshot index=" << snapshot.index << ": " << status;
  applied_ = snapshot_index_ = snapshot.index;
  bytes_since_snapshot_ = 0;
  while (!proposals_.empty() && proposals_.begin()->first <= snapshot.index) {
    const auto first = proposals_.begin();
    Finish(first->first, first->second.term, absl::UnknownError(kMoved));
  }
}

void Replica::Apply(const Entry& entry) {
  RING_CHECK(entry.index == applied_ + 1) << "index=" << entry.index << " applied=" << applied_;
  absl::StatusOr<std::string> result = std::string();
  if (entry.kind == EntryKind::kCommand) result = state_machine_.Apply(entry.index, entry.data);
  applied_ = entry.index;
  bytes_since_snapshot_ += entry.data.size();
  Finish(entry.index, entry.term, std::move(result));
}

// The entry at index is applied; who proposed another one there hears that it never will be.
void Replica::Finish(LogIndex index, Term term, absl::StatusOr<std::string> result) {
  const auto found = proposals_.find(index);
  if (found == proposals_.end()) return;
  if (found->second.term != term) {
    result = absl::AbortedError(
        absl::StrFormat("index=%d: another leader's entry took the place", index));
  }
  due_.push_back([done = std::move(found->second.done), result = std::move(result)]() mutable {
    done(std::move(result));
  });
  proposals_.erase(found);
}

void Replica::AnswerReads(const Ready& ready) {
  for (const ReadState& read : ready.reads) {
    const auto found = reads_.find(read.context);
    RING_CHECK(found != reads_.end()) << "read=" << read.context;
    waiting_reads_.push_back({read.index, std::move(found->second)});
    reads_.erase(found);
  }
  for (const std::uint64_t context : ready.failed_reads) {
    const auto found = reads_.find(context);
    RING_CHECK(found != reads_.end()) << "read=" << context;
    due_.push_back([done = std::move(found->second)]() mutable {
      done(absl::UnavailableError("leadership moved; read again"));
    });
    reads_.erase(found);
  }
  std::vector<WaitingRead> later;
  for (WaitingRead& read : waiting_reads_) {
    if (read.index > applied_) {
      later.push_back(std::move(read));
    } else {
      due_.push_back([done = std::move(read.done)]() mutable { done(absl::OkStatus()); });
    }
  }
  waiting_reads_ = std::move(later);
}

void Replica::AnnounceLeadership() {
  const Role role = raft_.role();
  const Term term = raft_.term();
  if (role == announced_role_ && raft_.leader() == announced_leader_ && term == announced_term_) {
    return;
  }
  // Whoever leads next decides what becomes of the proposals of this tenure.
  if (announced_role_ == Role::kLeader && (role != Role::kLeader || term != announced_term_)) {
    while (!proposals_.empty() && proposals_.begin()->second.term <= announced_term_) {
      const auto first = proposals_.begin();
      Finish(first->first, first->second.term, absl::UnknownError(kMoved));
    }
  }
  announced_role_ = role;
  announced_leader_ = raft_.leader();
  announced_term_ = term;
  listener_.OnLeadership(role, announced_leader_, term);
}

void Replica::AnnounceConfiguration() {
  const LogIndex index = raft_.log().configuration_index();
  if (!raft_.configuration_committed() || raft_.configuration().empty() ||
      (configuration_announced_ && index == announced_configuration_)) {
    return;
  }
  configuration_announced_ = true;
  announced_configuration_ = index;
  listener_.OnConfiguration(raft_.configuration());
}

void Replica::MaybeSnapshot() {
  if (applied_ - snapshot_index_ < options_.snapshot_entries &&
      bytes_since_snapshot_ < options_.snapshot_bytes) {
    return;
  }
  const std::optional<Term> term = raft_.log().TermAt(applied_);
  if (!term.has_value()) return;  // a leader's snapshot is on its way in
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->index = applied_;
  snapshot->term = *term;
  snapshot->configuration = raft_.log().ConfigurationAt(applied_);
  snapshot->data = state_machine_.Snapshot();
  snapshot_index_ = applied_;
  bytes_since_snapshot_ = 0;
  // One that cannot be persisted is not tried again before the next is due.
  raft_.Compact(std::move(snapshot));
}

void Replica::Propose(std::string data, ProposeDone done) {
  const absl::StatusOr<Position> position = raft_.Propose(std::move(data));
  if (!position.ok()) {
    due_.push_back([done = std::move(done), status = position.status()]() mutable {
      done(std::move(status));
    });
    return;
  }
  proposals_[position->index] = {position->term, std::move(done)};
}

void Replica::Read(ReadDone done) {
  if (absl::Status status = raft_.Read(next_read_); !status.ok()) {
    due_.push_back([done = std::move(done), status = std::move(status)]() mutable {
      done(std::move(status));
    });
    return;
  }
  reads_[next_read_++] = std::move(done);
}

void Replica::ChangeConfiguration(const Configuration& next, ChangeDone done) {
  const absl::StatusOr<Position> position = raft_.ProposeConfiguration(next);
  if (!position.ok()) {
    Refuse(std::move(done), position.status());
    return;
  }
  proposals_[position->index] = {
      position->term, [done = std::move(done)](absl::StatusOr<std::string> result) mutable {
        done(result.status());
      }};
}

void Replica::Refuse(ChangeDone done, absl::Status status) {
  due_.push_back(
      [done = std::move(done), status = std::move(status)]() mutable { done(std::move(status)); });
}

}  // namespace ring::consensus
