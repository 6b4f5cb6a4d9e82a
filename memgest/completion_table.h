// memgest/completion_table.h — exactly once: what became of each client's recent requests, in one
// shard.
//
// What:      (client, seq) -> {request crc, outcome, version}; part of the replicated metadata, on
//            the coordinator and on every member. Filled by entries at commit (coordinator) or fold
//            (member); collected by the client's first incomplete seq (X4), or as a whole by
//            EXPIRE_RECORD. In-flight requests are known too, so that a duplicate attaches (X2).
//            The coordinator's also knows which client was silent for how long.
// Shape:     a ring of records per client, at seq mod its power-of-two size: 16, doubled up to
//            1,024 when places collide and a quarter of them is taken. Before that, the few that
//            find their place taken stand beside it: a wide window costs no more than its records.
//            A client has a window [first incomplete, + 1,024) of seqs; the window moves
//            up only. Silence is counted in periods of a minute that the owner's clock saw begin.
// Ownership: owns everything. A Client* is good until Expire of that client, or DropAll;
//            forgotten() tells that there was one.
// Threads:   one, the node's.
// Errors:    Lookup's verdicts; Admit refuses past kRecordClientsMax. A seq outside of the window
//            in Begin is a broken invariant.
// Cost:      one array access once the client's handle is known; Find of a client is one hash
//            look-up. No allocation but for a new client and the growth of its ring.
//            Heard: a compare, and once a minute a client moves in a list.
// Source:    RIFL (SOSP'15); rules X1, X2, X3, X4, X7.
#ifndef RING_MEMGEST_COMPLETION_TABLE_H_
#define RING_MEMGEST_COMPLETION_TABLE_H_

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "memgest/log_entry.h"
#include "ring/base/id.h"
#include "ring/protocol/limits.h"

namespace ring::memgest {

enum class RecordState : std::uint8_t { kEmpty = 0, kInFlight = 1, kDone = 2 };

struct CompletionRecord {
  std::uint64_t seq = 0;
  std::uint64_t version = 0;
  std::uint32_t request_crc = 0;
  std::uint16_t memgest = 0;  // whose log holds it (G10, X7)
  std::uint8_t code = 0;      // protocol::Outcome
  RecordState state = RecordState::kEmpty;
  std::uint64_t reserved = 0;
};
static_assert(sizeof(CompletionRecord) == 32);

inline constexpr std::uint64_t kOutstandingMax = 1024;  // per client and shard (X4)
// Of a shard: who makes up client ids gets no more memory than theirs.
inline constexpr std::size_t kRecordClientsMax = 65536;
// X4: from so many whole periods on a client's records may go.
using protocol::kSilencePeriodNs;
inline constexpr std::uint64_t kSilencePeriods = 10;

class CompletionTable {
 public:
  // One client's records in this shard.
  class Client;

  // Finds or makes: for members, which follow their coordinator, and for the node's own requests.
  Client* FindOrAdd(const ClientId& id);
  // The coordinator's, for clients from outside. Null: not known, and there are kRecordClientsMax.
  Client* Admit(const ClientId& id);
  // The client sent a request, or is not done with one.
  void Heard(Client* client);
  // Begins a period if the last one is over: one a call, however long nobody called, because
  // meanwhile nobody listened.
  void PassTime(std::uint64_t now_ns);
  bool period_over(std::uint64_t now_ns) const {
    return now_ns - period_begin_ns_ >= kSilencePeriodNs;
  }
  // The client that was silent for longest, if that was kSilencePeriods whole periods; else null.
  Client* LongestSilent();
  static const ClientId& IdOf(const Client* client);
  static bool HasInFlight(const Client* client);
  // Above every seq that it has a record of, or is past.
  static std::uint64_t NextSeq(const Client* client);
  // Null: not known.
  Client* Find(const ClientId& id);

  enum class Check : std::uint8_t {
    kNew = 0,       // not seen: execute it
    kInFlight = 1,  // appended and not yet committed: attach
    kDone = 2,      // *record has the answer
    kReused = 3,    // same seq, another payload
    kStale = 4,     // below the client's first incomplete seq: drop it, done or not (X3)
    kTooMany = 5,   // more than 1,024 outstanding (X4)
  };
  // Looks a request up; also moves the client's first incomplete seq up (which collects records).
  // *record is set with kInFlight, kDone and kReused.
  static Check Lookup(Client* client, std::uint64_t seq, std::uint64_t first_incomplete,
                      std::uint32_t request_crc, CompletionRecord* record);
  // The request was appended. REQUIRES: Lookup said kNew, or the entry is re-appended.
  static void Begin(Client* client, std::uint64_t seq, std::uint32_t request_crc, MemgestId memgest,
                    Version version);
  // Committed (coordinator) or folded (member; no Begin before it): the record is kept, as done. A
  // seq below the window leaves none: the client has its answer. REQUIRES: record.seq -
  // first_incomplete < 1,024.
  static void Finish(Client* client, std::uint64_t first_incomplete, CompletionRecord record);
  // Appended, then given up for certain (only before anything left the node).
  static void Forget(Client* client, std::uint64_t seq);

  // Visits the records of the window (G10: those of a memgest that is dropped; transfer to a
  // joiner).
  void ForEach(absl::FunctionRef<void(const ClientId&, std::uint64_t first_incomplete,
                                      const CompletionRecord&)>
                   visit) const;

  // The same in two steps: every client, also one without records; and what is done of one.
  void ForEachClient(
      absl::FunctionRef<void(const ClientId&, std::uint64_t first_incomplete, const Client*)> visit)
      const;
  static void ForEachDone(const Client* client,
                          absl::FunctionRef<void(const CompletionRecord&)> visit);
  // The client said so, in whatever log: requests below it are stale.
  static void MoveFirst(Client* client, std::uint64_t first_incomplete);

  // EXPIRE_RECORD: forgets the client, unless it has a record of this seq or a higher one: that is
  // younger than the decision.
  void Expire(const ClientId& id, std::uint64_t before_seq);
  void DropAll();
  // Changes whenever a Client* may have become bad.
  std::uint64_t forgotten() const { return forgotten_; }
  std::size_t client_count() const { return clients_.size(); }
  std::uint64_t resident_bytes() const;

  CompletionTable();
  ~CompletionTable();
  // Client* stay good.
  CompletionTable(CompletionTable&&) noexcept;

 private:
  void Link(Client* client);
  void Unlink(Client* client);

  absl::flat_hash_map<ClientId, std::unique_ptr<Client>> clients_;
  // All of them, the longest silent first.
  Client* first_ = nullptr;
  Client* last_ = nullptr;
  std::uint64_t period_ = 0;
  std::uint64_t period_begin_ns_ = 0;
  std::uint64_t forgotten_ = 0;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_COMPLETION_TABLE_H_
