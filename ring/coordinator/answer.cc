// Answers and refusals, and the checks that come before any change: exactly once (X1), conditions
// (V9).
#include <algorithm>

#include "ring/base/crc32c.h"
#include "ring/base/mutant.h"
#include "ring/coordinator/shard.h"

namespace ring::coordinator {

using protocol::Outcome;

static_assert(memgest::kOutstandingMax == protocol::kReplySlotCountMax);

namespace {
// A record tells whose log holds it; that is another memgest's once its own was emptied (G10). What
// a put or a move made is where it was asked for.
MemgestId MemgestOfRecord(const Request& request, const memgest::CompletionRecord& record) {
  const bool names_it = (request.operation == protocol::Operation::kPut ||
                         request.operation == protocol::Operation::kMove) &&
                        (request.flags & protocol::kDefaultMemgest) == 0;
  const bool asked_for = names_it || MemgestId(record.memgest) == kNoMemgest;
  return asked_for ? request.memgest : MemgestId(record.memgest);
}
}  // namespace

std::uint32_t RequestCrc(const Request& request) {
  struct {
    std::uint64_t if_version;
    std::uint32_t value_length;
    std::uint32_t value_crc;
    std::uint16_t memgest;
    std::uint8_t operation;
    std::uint8_t flags;
    std::uint32_t key_length;
  } fields;
  static_assert(sizeof(fields) == 24);
  fields.if_version = request.if_version.bits();
  fields.value_length = request.value_length;
  fields.value_crc = request.value_crc;
  // The cluster's default may change between two attempts; what was asked for did not.
  const bool by_default = (request.flags & protocol::kDefaultMemgest) != 0;
  fields.memgest = by_default ? std::uint16_t{0} : request.memgest.value();
  fields.operation = static_cast<std::uint8_t>(request.operation);
  // A retry says that it is one, and may offer its value in another way: that makes it no other
  // request.
  constexpr auto kOfAttempt = static_cast<std::uint8_t>(protocol::kLargeValue | protocol::kRetried);
  fields.flags = request.flags & static_cast<std::uint8_t>(~kOfAttempt);
  fields.key_length = static_cast<std::uint32_t>(request.key.size());
  return Crc32c(request.key.data(), request.key.size(), Crc32cHeader(&fields, sizeof(fields)));
}

void ShardCoordinator::Refuse(const Request& request, Outcome outcome, Version version,
                              MemgestId memgest) {
  ++counters_.refusals;
  Reply reply;
  reply.memgest = memgest;
  reply.outcome = outcome;
  reply.version = version;
  sink_->Answer(request.reply, reply, *this);
}

void ShardCoordinator::Remember(const Request& request, Outcome outcome, Version version) {
  // The record stands in no memgest's log.
  memgest::CompletionTable::Finish(request.client, request.seq - request.incomplete_delta,
                                   {.seq = request.seq,
                                    .version = version.bits(),
                                    .request_crc = request.request_crc,
                                    .memgest = kNoMemgest.value(),
                                    .code = static_cast<std::uint8_t>(outcome)});
}

void ShardCoordinator::Decide(const Request& request, Outcome outcome, Version version) {
  if (!Mutant("X5-decided")) Remember(request, outcome, version);
  Refuse(request, outcome, version);
}

void ShardCoordinator::AnswerLine(const Request& request, std::uint32_t number, bool with_value) {
  const memgest::MetadataLine& line = lines_.line(number);
  Reply reply;
  reply.version = Version(line.version);
  reply.memgest = MemgestId(line.memgest);
  if ((line.flags & memgest::kTombstone) != 0) {
    reply.outcome = Outcome::kNotFound;
  } else {
    reply.value_length = line.value_length;
    reply.value_crc = line.value_crc;
    reply.expiry_ns = line.expiry_ns;
    if (with_value && line.value_length > 0) reply.value = {number, reply.memgest};
  }
  sink_->Answer(request.reply, reply, *this);
}

ShardCoordinator::Once ShardCoordinator::CheckOnce(const Request& request) {
  if (request.client == nullptr || request.seq == 0) {
    Refuse(request, Outcome::kBadRequest);
    return Once::kHandled;
  }
  completions_.Heard(request.client);
  using Check = memgest::CompletionTable::Check;
  memgest::CompletionRecord record;
  switch (memgest::CompletionTable::Lookup(request.client, request.seq,
                                           request.seq - request.incomplete_delta,
                                           request.request_crc, &record)) {
    case Check::kNew:
      if (tenure_counter_ >= Version::kCounterMax && !Mutant("V1-full")) {
        Refuse(request, Outcome::kUnavailable);
      } else if (MayHaveRunBefore(request)) {
        Refuse(request, Outcome::kUnknown);
      } else {
        return Once::kNew;
      }
      return Once::kHandled;
    case Check::kInFlight:
      Attach(request);
      return Once::kHandled;
    case Check::kDone: {
      Reply reply;
      reply.outcome = static_cast<Outcome>(record.code);
      reply.version = Version(record.version);
      reply.memgest = MemgestOfRecord(request, record);
      sink_->Answer(request.reply, reply, *this);
      return Once::kHandled;
    }
    case Check::kReused:
      Refuse(request, Outcome::kRequestReused);
      return Once::kHandled;
    case Check::kStale:
      Refuse(request, Outcome::kStaleRequest);
      return Once::kHandled;
    case Check::kTooMany:
      Refuse(request, Outcome::kResourceExhausted);
      return Once::kHandled;
  }
  return Once::kHandled;
}

// X7: what a coordinator before this one did in Rep(1) is gone with its record, but others may have
// read it, moved it on, or written above it: an attempt that may have been among that is not
// decided anew. Who knew a version of this tenure before its first attempt made it in this tenure.
bool ShardCoordinator::MayHaveRunBefore(const Request& request) const {
  if ((request.flags & protocol::kRetried) == 0 || Mutant("X7-retry")) return false;
  if (std::max(request.known_version, request.if_version) >= Version(options_.took_over_in, 0))
    return false;
  const auto keeps_records = [this](const memgest::Memgest& memgest) {
    return memgest.failures_tolerated() > 0 && !LostRecordsOf(memgest.descriptor().id);
  };
  if (request.operation != protocol::Operation::kDelete) {
    // An earlier attempt may have gone to what was the default one then.
    if ((request.flags & protocol::kDefaultMemgest) != 0 && !Mutant("X7-default") &&
        (weak_past_.was_default || !records_lost_.empty()))
      return true;
    const memgest::Memgest* const memgest = FindMemgest(request.memgest);
    return memgest != nullptr && !keeps_records(*memgest);
  }
  // Tombstones are in what keeps records wherever there is such a memgest (TombstoneHome).
  return !records_lost_.empty() || (weak_past_.was_alone && !Mutant("X7-alone")) ||
         std::none_of(memgests_.begin(), memgests_.end(), [&](const auto& memgest) {
           return memgest != nullptr && keeps_records(*memgest);
         });
}

Version ShardCoordinator::VersionThere(const std::uint32_t* head) const {
  return head == nullptr || tombstone(*head) ? Version() : Version(lines_.line(*head).version);
}

std::pair<ShardCoordinator::Condition, Version> ShardCoordinator::CheckCondition(
    const Request& request, const std::uint32_t* head) const {
  if ((request.flags & protocol::kIfVersion) == 0) return {Condition::kHolds, Version()};
  const Version found = VersionThere(head);
  // Equality with the highest known version may append at once: whatever comes of that version, a
  // put conditional on it stands behind it in the order of versions.
  const bool holds = found == request.if_version;
  if (head == nullptr || committed(*head) || Mutant("V9"))
    return {holds ? Condition::kHolds : Condition::kMismatch, found};
  if (holds && found.bits() != 0) return {Condition::kHolds, found};
  // As a read does (V4): once some version from the one that it saw on is committed, the highest
  // committed one decides, whatever was appended meanwhile. Without it a busy key has no end.
  if (const std::optional<std::uint32_t> seen = CommittedSince(request, *head)) {
    const Version there = VersionThere(&*seen);
    if (there != request.if_version) return {Condition::kMismatch, there};
  }
  return {Condition::kWait, Version(lines_.line(*head).version)};
}

bool ShardCoordinator::ConditionHolds(const Request& request, const std::uint32_t* head) {
  const auto [condition, version] = CheckCondition(request, head);
  switch (condition) {
    case Condition::kHolds:
      return true;
    case Condition::kMismatch:
      Decide(request, Outcome::kVersionMismatch, version);
      return false;
    case Condition::kWait:
      DeferOn(request, *head);
      return false;
  }
  return false;
}

}  // namespace ring::coordinator
