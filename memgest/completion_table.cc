#include "memgest/completion_table.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ring/base/check.h"
#include "ring/base/mutant.h"

namespace ring::memgest {
namespace {

constexpr std::size_t kRingSizeMin = 16;

}  // namespace

class CompletionTable::Client {
 public:
  Client(const ClientId& name, std::uint64_t now) : id(name), period(now) {}

  std::uint64_t first() const { return first_; }
  void MoveFirst(std::uint64_t first_incomplete) {
    if (first_incomplete <= first_) return;
    first_ = first_incomplete;
    if (!crowd_.empty()) DropDead();
  }
  // Whether seq may have a record.
  bool Covers(std::uint64_t seq) const { return seq >= first_ && seq - first_ < kOutstandingMax; }

  // The record of a seq of the window; null: there is none.
  CompletionRecord* Find(std::uint64_t seq) {
    if (!Covers(seq) || ring_.empty()) return nullptr;
    CompletionRecord& record = Home(seq);
    if (record.seq == seq && record.state != RecordState::kEmpty) return &record;
    for (CompletionRecord& one : crowd_) {
      if (one.seq == seq && one.state != RecordState::kEmpty) return &one;
    }
    return nullptr;
  }

  // The place of a seq of the window.
  CompletionRecord& Place(std::uint64_t seq) {
    RING_CHECK(Covers(seq)) << "seq=" << seq << " first_incomplete=" << first_;
    if (CompletionRecord* const known = Find(seq)) return *known;
    if (ring_.empty()) ring_.resize(kRingSizeMin);
    while (IsLive(Home(seq))) {
      if (MayGrow()) {
        Grow();
        continue;
      }
      DropDead();
      return crowd_.emplace_back();
    }
    return Home(seq);
  }

  template <class Visit>
  void ForEach(Visit visit) const {
    for (const CompletionRecord& record : ring_) {
      if (IsLive(record)) visit(record);
    }
    for (const CompletionRecord& record : crowd_) {
      if (IsLive(record)) visit(record);
    }
  }
  std::uint64_t resident_bytes() const {
    return sizeof(*this) + (ring_.capacity() + crowd_.capacity()) * sizeof(CompletionRecord);
  }

  const ClientId id;
  // The table's: when it was last heard of, and its place in the order of that.
  std::uint64_t period;
  Client* before = nullptr;
  Client* behind = nullptr;

 private:
  // Of the ring's places, records that are held have so many at least before it grows.
  static constexpr std::size_t kRingShare = 4;

  CompletionRecord& Home(std::uint64_t seq) { return ring_[seq & (ring_.size() - 1)]; }
  bool IsLive(const CompletionRecord& record) const {
    return record.state != RecordState::kEmpty && record.seq >= first_;
  }
  void DropDead() {
    std::erase_if(crowd_, [this](const CompletionRecord& record) { return !IsLive(record); });
  }
  bool MayGrow() const {
    if (Mutant("X4-wide")) return true;
    std::size_t held = 0;
    ForEach([&held](const CompletionRecord&) { ++held; });
    return held >= ring_.size() / kRingShare;
  }
  void Grow() {
    std::vector<CompletionRecord> held;
    ForEach([&held](const CompletionRecord& record) { held.push_back(record); });
    crowd_.clear();
    ring_.assign(ring_.size() * 2, CompletionRecord());
    for (const CompletionRecord& record : held) {
      CompletionRecord& home = Home(record.seq);
      (home.state == RecordState::kEmpty ? home : crowd_.emplace_back()) = record;
    }
  }

  std::uint64_t first_ = 0;
  std::vector<CompletionRecord> ring_;   // at seq mod its size
  std::vector<CompletionRecord> crowd_;  // whose places there are others'
};

CompletionTable::CompletionTable() = default;
CompletionTable::~CompletionTable() = default;
CompletionTable::CompletionTable(CompletionTable&& other) noexcept
    : clients_(std::move(other.clients_)),
      first_(std::exchange(other.first_, nullptr)),
      last_(std::exchange(other.last_, nullptr)),
      period_(other.period_),
      period_begin_ns_(other.period_begin_ns_),
      forgotten_(other.forgotten_++) {
  other.clients_.clear();
}

CompletionTable::Client* CompletionTable::FindOrAdd(const ClientId& id) {
  std::unique_ptr<Client>& client = clients_[id];
  if (client == nullptr) {
    client = std::make_unique<Client>(id, period_);
    Link(client.get());
  }
  return client.get();
}

CompletionTable::Client* CompletionTable::Admit(const ClientId& id) {
  Client* const known = Find(id);
  if (known != nullptr || clients_.size() >= kRecordClientsMax) return known;
  return FindOrAdd(id);
}

CompletionTable::Client* CompletionTable::Find(const ClientId& id) {
  const auto found = clients_.find(id);
  return found == clients_.end() ? nullptr : found->second.get();
}

void CompletionTable::Link(Client* client) {
  client->before = last_;
  client->behind = nullptr;
  (last_ != nullptr ? last_->behind : first_) = client;
  last_ = client;
}

void CompletionTable::Unlink(Client* client) {
  (client->before != nullptr ? client->before->behind : first_) = client->behind;
  (client->behind != nullptr ? client->behind->before : last_) = client->before;
}

void CompletionTable::Heard(Client* client) {
  if (client->period == period_) return;
  client->period = period_;
  Unlink(client);
  Link(client);
}

void CompletionTable::PassTime(std::uint64_t now_ns) {
  if (!period_over(now_ns)) return;
  period_begin_ns_ = now_ns;
  ++period_;
}

CompletionTable::Client* CompletionTable::LongestSilent() {
  // The period in which it was heard of last may have ended just then.
  const std::uint64_t periods = Mutant("X4-early") ? 0 : kSilencePeriods;
  return first_ != nullptr && period_ - first_->period > periods ? first_ : nullptr;
}

const ClientId& CompletionTable::IdOf(const Client* client) { return client->id; }

bool CompletionTable::HasInFlight(const Client* client) {
  bool any = false;
  client->ForEach(
      [&any](const CompletionRecord& record) { any |= record.state == RecordState::kInFlight; });
  return any;
}

std::uint64_t CompletionTable::NextSeq(const Client* client) {
  std::uint64_t next = client->first();
  client->ForEach(
      [&next](const CompletionRecord& record) { next = std::max(next, record.seq + 1); });
  return next;
}

CompletionTable::Check CompletionTable::Lookup(Client* client, std::uint64_t seq,
                                               std::uint64_t first_incomplete,
                                               std::uint32_t request_crc,
                                               CompletionRecord* record) {
  client->MoveFirst(first_incomplete);
  if (seq < client->first()) return Mutant("X3-stale") ? Check::kNew : Check::kStale;
  // Wider than any window (X4): such a record could be kept nowhere.
  if (seq - first_incomplete >= kOutstandingMax && !Mutant("X4-window")) return Check::kTooMany;
  const CompletionRecord* found = client->Find(seq);
  if (found == nullptr) return Check::kNew;
  if (Mutant(found->state == RecordState::kDone ? "X1" : "X2")) return Check::kNew;
  *record = *found;
  if (found->request_crc != request_crc && !Mutant("X2-payload")) return Check::kReused;
  return found->state == RecordState::kInFlight ? Check::kInFlight : Check::kDone;
}

void CompletionTable::Begin(Client* client, std::uint64_t seq, std::uint32_t request_crc,
                            MemgestId memgest, Version version) {
  CompletionRecord record;
  record.seq = seq;
  record.version = version.bits();
  record.request_crc = request_crc;
  record.memgest = memgest.value();
  record.state = RecordState::kInFlight;
  client->Place(seq) = record;
}

void CompletionTable::Finish(Client* client, std::uint64_t first_incomplete,
                             CompletionRecord record) {
  RING_CHECK(record.seq - first_incomplete < kOutstandingMax)
      << "seq=" << record.seq << " first_incomplete=" << first_incomplete;
  client->MoveFirst(first_incomplete);
  if (record.seq < client->first()) return;
  record.state = RecordState::kDone;
  client->Place(record.seq) = record;
  if (Mutant("X4")) client->MoveFirst(record.seq + 1);
}

void CompletionTable::Forget(Client* client, std::uint64_t seq) {
  CompletionRecord* record = client->Find(seq);
  if (record != nullptr) record->state = RecordState::kEmpty;
}

void CompletionTable::ForEach(
    absl::FunctionRef<void(const ClientId&, std::uint64_t, const CompletionRecord&)> visit) const {
  for (const auto& [id, client] : clients_) {
    const std::uint64_t first = client->first();
    client->ForEach(
        [&id = id, first, visit](const CompletionRecord& record) { visit(id, first, record); });
  }
}

void CompletionTable::ForEachClient(
    absl::FunctionRef<void(const ClientId&, std::uint64_t, const Client*)> visit) const {
  for (const auto& [id, client] : clients_) visit(id, client->first(), client.get());
}

void CompletionTable::ForEachDone(const Client* client,
                                  absl::FunctionRef<void(const CompletionRecord&)> visit) {
  client->ForEach([visit](const CompletionRecord& record) {
    if (record.state == RecordState::kDone) visit(record);
  });
}

void CompletionTable::MoveFirst(Client* client, std::uint64_t first_incomplete) {
  client->MoveFirst(first_incomplete);
}

void CompletionTable::Expire(const ClientId& id, std::uint64_t before_seq) {
  const auto found = clients_.find(id);
  if (found == clients_.end() || NextSeq(found->second.get()) > before_seq) return;
  Unlink(found->second.get());
  clients_.erase(found);
  ++forgotten_;
}

void CompletionTable::DropAll() {
  ++forgotten_;
  first_ = last_ = nullptr;
  clients_ = absl::flat_hash_map<ClientId, std::unique_ptr<Client>>();
}

std::uint64_t CompletionTable::resident_bytes() const {
  std::uint64_t bytes = clients_.capacity() * (sizeof(ClientId) + sizeof(void*) + 1);
  for (const auto& [id, client] : clients_) bytes += client->resident_bytes();
  return bytes;
}

}  // namespace ring::memgest
