#include "ring/coordinator/large_write.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "memgest/srs_memgest.h"
#include "ring/base/align.h"
#include "ring/base/crc32c.h"
#include "ring/base/mutant.h"

namespace ring::coordinator {

using memgest::kNoLine;
using memgest::kPayloadSizeMax;
using protocol::Outcome;

LargeWrite::LargeWrite(ShardCoordinator& shard, const Request& request, memgest::Memgest& memgest)
    : shard_(shard),
      request_(request),
      key_(request.key.data(), request.key.size()),
      memgest_(memgest),
      token_(++shard.large_write_tokens_) {
  request_.key = key_;
  request_.value = nullptr;
}

LargeWrite::~LargeWrite() {
  if (landing_.memory != nullptr) shard_.landing_places_.GiveBack(landing_);
}

bool LargeWrite::StartPut(ShardCoordinator& shard, const Request& request,
                          memgest::Memgest& memgest) {
  if (!request.reply.has_buffer || request.reply.buffer_length < request.value_length ||
      request.value_length == 0) {
    shard.Refuse(request, Outcome::kBadRequest);
    return true;
  }
  return Start(shard, request, memgest, kNoLine, request.value_length);
}

bool LargeWrite::StartInline(ShardCoordinator& shard, const Request& request,
                             memgest::Memgest& memgest) {
  // The client can change its bytes at any time: they are read once, here.
  return Start(shard, request, memgest, kNoLine, request.value_length,
               {reinterpret_cast<const char*>(request.value), request.value_length});
}

bool LargeWrite::StartMove(ShardCoordinator& shard, const Request& request,
                           memgest::Memgest& target, std::uint32_t source) {
  return Start(shard, request, target, source, shard.lines_.line(source).value_length);
}

bool LargeWrite::Start(ShardCoordinator& shard, const Request& request, memgest::Memgest& memgest,
                       std::uint32_t source, std::uint64_t length, absl::string_view inline_value) {
  if (shard.large_places_taken_ >= kConcurrentMax || shard.large_writes_.size() >= kUnderWayMax)
    return false;
  // A client that lets its READs wait must leave places to the others.
  const auto own = std::count_if(shard.large_writes_.begin(), shard.large_writes_.end(),
                                 [&request](const std::unique_ptr<LargeWrite>& other) {
                                   return other->request_.client == request.client;
                                 });
  if (static_cast<std::size_t>(own) >= kOfOneClientMax) return false;
  std::unique_ptr<LargeWrite> write(new LargeWrite(shard, request, memgest));
  write->length_ = length;
  write->inline_value_.assign(inline_value.data(), inline_value.size());
  if (memgest.coded() && source == kNoLine && inline_value.empty()) {
    const absl::StatusOr<LandingPlace> landing = shard.landing_places_.Take();
    if (!landing.ok()) {
      shard.Refuse(request, Outcome::kResourceExhausted);
      return true;
    }
    write->landing_ = *landing;
  }
  absl::StatusOr<memgest::Slot> slot =
      length > memgest.descriptor().block_size
          ? memgest.allocator().AllocateLarge(length, &write->ranges_)
          : memgest.allocator().Allocate(static_cast<std::uint32_t>(length));
  if (!slot.ok()) return shard.AwaitSpace(request, memgest);
  write->slot_ = *slot;
  if (source != kNoLine) {
    write->source_ = source;
    shard.Pin(source);
  }
  // From here on a retry finds the request in flight (X2).
  memgest::CompletionTable::Begin(request.client, request.seq, request.request_crc,
                                  memgest.descriptor().id, Version());
  shard.large_writes_.push_back(std::move(write));
  ++shard.large_places_taken_;
  return true;
}

LargeWrite::Place LargeWrite::PlaceOf(std::uint32_t base_cells,
                                      absl::Span<const memgest::Range> ranges,
                                      std::uint32_t block_size, std::uint64_t at) {
  std::uint64_t offset = std::uint64_t{base_cells} * kCacheLine + at;
  for (const memgest::Range& range : ranges) {
    const std::uint64_t size = std::uint64_t{range.length_cells} * kCacheLine;
    if (at < size) {
      offset = std::uint64_t{range.offset_cells} * kCacheLine + at;
      break;
    }
    at -= size;
  }
  const std::uint64_t in_block = block_size - (offset & (block_size - 1));
  return {static_cast<std::uint32_t>(offset / kCacheLine),
          static_cast<std::uint32_t>(std::min<std::uint64_t>(in_block, kPayloadSizeMax))};
}

void LargeWrite::Step(std::uint64_t now_ns) {
  if (begun_ns_ == 0) begun_ns_ = now_ns;
  switch (state_) {
    case State::kFetch:
      Fetch();
      break;
    case State::kAppend:
      Append();
      break;
    case State::kFinish:
      Finish();
      break;
    case State::kDraining:
      if (last_order_ != 0 && !shard_.log_.MayReuse(memgest_, last_order_)) break;
      memgest_.allocator().Abandon(slot_, ranges_);
      state_ = State::kFinished;
      break;
    case State::kReading:
      // F11: the blocks that it touches are neither decoded nor scrubbed before it ends.
      if (now_ns - begun_ns_ > kPatienceNs + (length_ >> 20) * 1'000'000'000 && !Mutant("F11-slow"))
        GiveUp(Outcome::kUnavailable);
      break;
    case State::kFinished:
    case State::kAborted:
    case State::kGivenUp:
      break;
  }
}

void LargeWrite::Yield(std::uint64_t now_ns) {
  if (state_ == State::kReading && !HoldsPlace(now_ns)) GiveUp(Outcome::kUnavailable);
}

void LargeWrite::LeaveConnection(const ReplyTo& now) {
  if (state_ == State::kReading && !request_.reply.SameConnection(now))
    GiveUp(Outcome::kUnavailable);
}

bool LargeWrite::HoldsPlace(std::uint64_t now_ns) {
  if (state_ != State::kReading) {
    reading_since_ns_ = 0;
    return MayAppend();
  }
  if (reading_since_ns_ == 0) reading_since_ns_ = now_ns;
  return now_ns - reading_since_ns_ < kReadSlowNs;
}

std::byte* LargeWrite::fetched() const {
  return landing_.memory != nullptr ? landing_.memory : memgest_.heap().At(piece_.offset_cells);
}

void LargeWrite::Fetch() {
  const std::uint32_t block_size = memgest_.descriptor().block_size;
  piece_ = PlaceOf(slot_.offset_cells, ranges_, block_size, done_);
  piece_.length =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(piece_.length, length_ - done_));
  source_bytes_ = landing_.memory;
  if (!inline_value_.empty()) {
    source_bytes_ = reinterpret_cast<const std::byte*>(inline_value_.data()) + done_;
  } else if (source_ != kNoLine) {
    memgest::Memgest& from = shard_.MemgestOf(source_);
    const memgest::MetadataLine& line = shard_.lines_.line(source_);
    const absl::Span<const memgest::Range> ranges = (line.flags & memgest::kLarge) != 0
                                                        ? shard_.lines_.Ranges(source_)
                                                        : absl::Span<const memgest::Range>();
    const Place place = PlaceOf(line.offset_cells, ranges, from.descriptor().block_size, done_);
    // Later pieces start on a cell: all but the last are whole blocks, or 64 KiB.
    piece_.length = std::min(piece_.length, place.length);
    source_bytes_ = from.heap().At(place.offset_cells);
  } else {
    Read();
    return;
  }
  crc_ = memgest_.coded() ? Crc32c(source_bytes_, piece_.length, crc_)
                          : Crc32cCopy(memgest_.heap().At(piece_.offset_cells), source_bytes_,
                                       piece_.length, crc_);
  state_ = State::kAppend;
  Append();
}

void LargeWrite::Read() {
  const std::uint32_t lkey =
      landing_.memory != nullptr ? landing_.lkey : memgest_.heap().lkey(piece_.offset_cells);
  state_ = State::kReading;
  const rdma::Sge to = {fetched(), piece_.length, lkey};
  if (shard_.sink_->ReadFromClient(request_.reply, done_, to, shard_, token_)) return;
  state_ = State::kFetch;
  GiveUp(Outcome::kUnavailable);
}

void LargeWrite::Abort() {
  if (state_ == State::kDraining || state_ == State::kFinished) {
    state_ = State::kFinished;
    return;
  }
  if (state_ == State::kGivenUp) {
    state_ = State::kAborted;
    return;
  }
  if (source_ != kNoLine) shard_.Unpin(source_);
  shard_.Refuse(request_, Outcome::kUnknown);
  state_ = state_ == State::kReading ? State::kAborted : State::kFinished;
}

void LargeWrite::OnRead(bool ok) {
  if (state_ == State::kAborted) state_ = State::kFinished;
  if (state_ == State::kGivenUp) state_ = State::kDraining;
  if (state_ != State::kReading) return;
  state_ = State::kAppend;
  if (!ok) {
    GiveUp(Outcome::kBadRequest);
    return;
  }
  crc_ = Crc32c(fetched(), piece_.length, crc_);
}

// S6: a parity that came since the slot was taken counts for what stands in blocks that it covers,
// and it covers these behind their BASE only. That may be long in coming, and does not come to a
// block that is lost: the next attempt gets a slot where all parities count.
bool LargeWrite::AwaitsBase() const {
  const memgest::SlotAllocator& allocator = memgest_.allocator();
  const auto block_cells = static_cast<std::uint32_t>(allocator.block_size() / kCacheLine);
  const std::uint32_t barred = allocator.bar_end() - allocator.bar_first();
  return barred > 0 && Touches(allocator.bar_first() * block_cells, barred * block_cells) &&
         !Mutant("S6-large");
}

bool LargeWrite::Touches(std::uint32_t first_cell, std::uint32_t cell_count) const {
  const std::uint64_t end = std::uint64_t{first_cell} + cell_count;
  if (ranges_.empty()) return slot_.offset_cells >= first_cell && slot_.offset_cells < end;
  return std::any_of(ranges_.begin(), ranges_.end(), [=](const memgest::Range& range) {
    return range.offset_cells < end &&
           std::uint64_t{range.offset_cells} + range.length_cells > first_cell;
  });
}

void LargeWrite::Append() {
  if (one_entry()) {
    Finish();
    return;
  }
  if (AwaitsBase())
    return GiveUp(memgest_.writable() ? Outcome::kUnavailable : Outcome::kMemgestNotWritable);
  if (!shard_.ReserveWrite(memgest_, 0, piece_.length, 0, false)) return AwaitRoom();
  const std::optional<memgest::DeltaArena::Piece> scratch = TakeScratch();
  if (!scratch.has_value()) return AwaitRoom();
  if (Mutant("S10") && done_ + piece_.length == length_) {
    done_ = length_;
    state_ = State::kFinish;
    return;
  }
  memgest::EntryFields fields;
  fields.type = memgest::EntryType::kPart;
  fields.line = slot_.line;
  fields.size_class = slot_.size_class;
  fields.offset_cells = piece_.offset_cells;
  fields.value_length = static_cast<std::uint32_t>(length_);
  fields.payload_length = piece_.length;
  last_order_ = shard_.log_.next_order();
  shard_.AppendPayload(memgest_, fields, source_bytes_, *scratch, 0, 0);
  done_ += piece_.length;
  state_ = done_ == length_ ? State::kFinish : State::kFetch;
}

void LargeWrite::Finish() {
  // X3: the client may have given the request up meanwhile; no record could be kept of it any more.
  memgest::CompletionRecord record;
  if (memgest::CompletionTable::Lookup(
          request_.client, request_.seq, request_.seq - request_.incomplete_delta,
          request_.request_crc, &record) != memgest::CompletionTable::Check::kInFlight) {
    GiveUp(Outcome::kStaleRequest);
    return;
  }
  const bool move = source_ != kNoLine;
  const std::uint32_t value_crc = move ? shard_.lines_.line(source_).value_crc : request_.value_crc;
  if (crc_ != value_crc) {
    GiveUp(move ? Outcome::kDataLost : Outcome::kBadChecksum);
    return;
  }
  if (!memgest_.writable() && !Mutant("G10-barrier")) {
    GiveUp(Outcome::kMemgestNotWritable);
    return;
  }
  if (AwaitsBase()) return GiveUp(Outcome::kUnavailable);
  if (!shard_.ReserveWrite(memgest_, key_.size(), one_entry() ? piece_.length : 0, ranges_.size(),
                           false)) {
    return AwaitRoom();
  }
  const bool have_key_room = shard_.keys_.Reserve().ok();
  std::uint32_t* const head = shard_.keys_.Find(request_.hash, request_.key);
  if (head == nullptr && !have_key_room) {
    GiveUp(Outcome::kResourceExhausted);
    return;
  }
  // G7: a newer version came: look again
  if (move && (head == nullptr || *head != source_) && !Mutant("G7")) {
    const Request again = request_;
    GiveUp(Outcome::kOk);
    shard_.DeferUntilNextTurn(again);
    return;
  }
  using Condition = ShardCoordinator::Condition;
  const auto [condition, version] = shard_.CheckCondition(request_, head);
  switch (Mutant("V5") ? Condition::kHolds : condition) {
    case Condition::kWait:
      if (request_.min_version.bits() == 0) request_.min_version = version;
      return AwaitRoom();
    case Condition::kMismatch:
      return GiveUp(Outcome::kVersionMismatch, version);
    case Condition::kHolds:
      break;
  }
  ShardCoordinator::Write write;
  if (one_entry()) {
    const std::optional<memgest::DeltaArena::Piece> scratch = TakeScratch();
    if (!scratch.has_value()) return AwaitRoom();
    write.piece = *scratch;
    write.coded_value = source_bytes_;
  }
  write.memgest = &memgest_;
  write.type = one_entry() ? memgest::EntryType::kPut : memgest::EntryType::kFinal;
  write.slot = slot_;
  write.ranges = ranges_;
  write.value_length = static_cast<std::uint32_t>(length_);
  write.value_crc = value_crc;
  write.explicit_move = move;
  if (move) {
    write.expiry_ns = Mutant("V10") ? 0 : shard_.lines_.line(source_).expiry_ns;
    shard_.Unpin(source_);
  }
  shard_.CommitToWrite(request_, write, head);
  state_ = State::kFinished;
  shard_.ReleaseWaiters(&waiter_);  // they find it under way, or its record
}

std::optional<memgest::DeltaArena::Piece> LargeWrite::TakeScratch() {
  if (!memgest_.coded()) return memgest::DeltaArena::Piece();
  const memgest::DeltaArena::Piece scratch =
      shard_.arena_->Take(memgest::DeltaSize(memgest_, piece_.length));
  if (scratch.memory == nullptr) return std::nullopt;
  return scratch;
}

void LargeWrite::AwaitRoom() {
  if (shard_.log_.Stuck(memgest_)) GiveUp(Outcome::kUnavailable);
}

void LargeWrite::GiveUp(Outcome outcome, Version version) {
  if (source_ != kNoLine) shard_.Unpin(source_);
  memgest::CompletionTable::Forget(request_.client, request_.seq);
  if (outcome == Outcome::kVersionMismatch || outcome == Outcome::kDataLost) {
    shard_.Decide(request_, outcome, version);
  } else if (outcome != Outcome::kOk) {
    shard_.Refuse(request_, outcome);
  }
  shard_.ReleaseWaiters(&waiter_);
  // PARTs may still be read by the device from the slot: it is given back when every member has
  // them. A READ may still be written there.
  state_ = state_ == State::kReading ? State::kGivenUp : State::kDraining;
}

}  // namespace ring::coordinator
