// memgest/completion_table.h — exactly once: what became of each client's recent requests, in one shard.
//
// What:      (client, seq) -> {request crc, outcome, version}; part of the replicated metadata, on the coordinator and
//            on every member. Filled by entries at commit (coordinator) or fold (member); collected by the client's
//            first incomplete seq (X4). In-flight requests are known too, so that a duplicate attaches (X2).
// Shape:     a ring of records per client, at seq mod its power-of-two size, grown up to 1,024.
// Ownership: owns everything.
// Threads:   one, the node's.
// Errors:    Begin tells kResourceExhausted when a client has more than 1,024 outstanding.
// Cost:      one array access once the client's handle is known; Find of a client is one hash look-up.
// Source:    RIFL (SOSP'15); protocol rules X1, X2, X4, X7.
#ifndef RING_MEMGEST_COMPLETION_TABLE_H_
#define RING_MEMGEST_COMPLETION_TABLE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "memgest/log_entry.h"

namespace ring::memgest {

struct CompletionRecord {
  std::uint64_t seq = 0;
  std::uint64_t version = 0;
  std::uint32_t request_crc = 0;
  std::uint16_t memgest = 0;  // whose log holds it (G10, X7)
  std::uint8_t code = 0;      // protocol::Outcome
  std::uint8_t state = 0;     // 0 empty, 1 in flight, 2 done
  std::uint64_t reserved = 0;
};
static_assert(sizeof(CompletionRecord) == 32);

class CompletionTable {
 public:
  // One client's records in this shard; stable for the life of the table.
  class Client;

  // Finds or makes.
  Client* FindOrAdd(const ClientId& id);
  Client* Find(const ClientId& id);

  enum class Check : std::uint8_t {
    kNew = 0,       // not seen: execute it
    kInFlight = 1,  // appended and not yet committed: attach
    kDone = 2,      // *record has the answer
    kReused = 3,    // same seq, another payload
    kStale = 4,     // below the client's first incomplete seq (X3)
    kTooMany = 5,   // more than 1,024 outstanding (X4)
  };
  // Looks a request up; also moves the client's first incomplete seq up (which collects records).
  static Check Lookup(Client* client, std::uint64_t seq, std::uint64_t first_incomplete,
                      std::uint32_t request_crc, CompletionRecord* record);
  // The request was appended.
  static void Begin(Client* client, std::uint64_t seq, std::uint32_t request_crc, MemgestId memgest,
                    Version version);
  // Committed (coordinator) or folded (member; no Begin before it).
  static void Finish(Client* client, std::uint64_t seq, std::uint64_t first_incomplete,
                     std::uint32_t request_crc, MemgestId memgest, std::uint8_t code,
                     Version version);
  // Appended, then given up for certain (only before anything left the node).
  static void Forget(Client* client, std::uint64_t seq);

  void Expire(const ClientId& id);  // EXPIRE_RECORD
  std::size_t client_count() const;
  std::uint64_t resident_bytes() const;

  CompletionTable();
  ~CompletionTable();

 private:
  absl::flat_hash_map<ClientId, std::unique_ptr<Client>> clients_;
};

}  // namespace ring::memgest

#endif  // RING_MEMGEST_COMPLETION_TABLE_H_
