// Clients that are forgotten: their completion records go with an EXPIRE_RECORD entry (X4).
//
// A member has one table of clients for all logs of the shard, so one entry is enough for each
// member, in whichever log it shares. One that is gone for now, or has no log that takes entries,
// may not hear of it: then it keeps what nobody asks for, until it coordinates the shard itself.
// To wait for it would keep all clients until there is room for none.
#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "ring/base/mutant.h"
#include "ring/coordinator/large_write.h"
#include "ring/coordinator/shard.h"

namespace ring::coordinator {
namespace {
constexpr int kExpiriesPerTurn = 16;  // as many as requests of new clients in a turn
constexpr std::size_t kEntrySize = memgest::kEntryHeaderSize + memgest::ShardLog::kCollectRoom;
}  // namespace

memgest::CompletionTable::Client* ShardCoordinator::AdmitClient(const memgest::ClientId& id) {
  memgest::CompletionTable::Client* const client = completions_.Admit(id);
  if (client != nullptr) return client;
  // The one that was silent for longest makes place.
  Expired last = Expired::kLater;
  for (int i = 0; i < kExpiriesPerTurn && last == Expired::kLater; ++i)
    last = ExpireLongestSilent();
  return completions_.Admit(id);
}

void ShardCoordinator::ExpireClients(std::uint64_t now_ns) {
  completions_.PassTime(now_ns);
  Expired last = Expired::kOne;
  for (int i = 0; i < kExpiriesPerTurn && last >= Expired::kLater; ++i)
    last = ExpireLongestSilent();
  // Whoever must wait for the epoch waits for the next period.
  expiring_ = last != Expired::kNone;
}

ShardCoordinator::Expired ShardCoordinator::ExpireLongestSilent() {
  memgest::CompletionTable::Client* const client = completions_.LongestSilent();
  if (client == nullptr) return Expired::kNone;
  if (IsInUse(client) && !Mutant("X4-use")) {
    completions_.Heard(client);
    return Expired::kLater;
  }
  const memgest::ClientId id = memgest::CompletionTable::IdOf(client);
  const std::uint64_t next_seq = memgest::CompletionTable::NextSeq(client);
  const Expired expired = AppendExpiry(id, next_seq);
  if (expired == Expired::kOne) completions_.Expire(id, next_seq);
  return expired;
}

// Requests under way know their client by address.
bool ShardCoordinator::IsInUse(const memgest::CompletionTable::Client* client) const {
  if (memgest::CompletionTable::HasInFlight(client)) return true;
  const auto of_client = [client](const auto& waiting) { return waiting.client == client; };
  if (std::any_of(operations_.begin(), operations_.end(), of_client)) return true;
  for (const std::unique_ptr<LargeWrite>& write : large_writes_) {
    if (write->client() == client) return true;
  }
  // A free place still names the last one that had it, which can only make that one wait.
  return deferred_count_ > 0 &&
         std::any_of(deferred_.begin(), deferred_.end(), [client](const Deferred& deferred) {
           return deferred.request.client == client;
         });
}

// kNone: the epoch changes. kNoRoom: what some were told then is told to all again: forgetting a
// client twice is nothing, and its records are as old as that.
ShardCoordinator::Expired ShardCoordinator::AppendExpiry(const memgest::ClientId& id,
                                                         std::uint64_t next_seq) {
  struct Log {
    memgest::Memgest* memgest;
    RoleMask members;
  };
  if (log_.held()) return Expired::kNone;
  std::vector<Log> logs;
  RoleMask untold = 0;
  for (const std::unique_ptr<memgest::Memgest>& memgest : memgests_) {
    if (memgest == nullptr || log_.Stuck(*memgest)) continue;
    if (!memgest->writable() && !memgest->draining()) continue;
    RoleMask members = 0;
    for (const memgest::Member& member : memgest->members()) {
      if (member.writer != nullptr && !member.writer->broken() && !member.writer->abandoned())
        members |= RoleBit(member.role);
    }
    logs.push_back({memgest.get(), members});
    untold |= members;
  }
  memgest::EntryFields fields;
  fields.type = memgest::EntryType::kExpireRecord;
  fields.client = id;
  fields.seq = next_seq;
  while (untold != 0) {
    // G10: a log that is drained only tells whom no other tells.
    const auto rank = [untold](const Log& log) {
      const int count = std::popcount(log.members & untold);
      return std::pair(count > 0 && log.memgest->writable(), count);
    };
    const auto widest = std::max_element(
        logs.begin(), logs.end(), [rank](const Log& a, const Log& b) { return rank(a) < rank(b); });
    if (!log_.HasRoom(*widest->memgest, kEntrySize, false)) return Expired::kNoRoom;
    log_.Append(*widest->memgest, fields, absl::MakeConstSpan(&kNoPayload, 1));
    untold &= ~widest->members;
  }
  return Expired::kOne;
}

}  // namespace ring::coordinator
