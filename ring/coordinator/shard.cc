#include "ring/coordinator/shard.h"

#include <algorithm>
#include <utility>

#include "ring/base/check.h"
#include "ring/coordinator/large_write.h"

namespace ring::coordinator {

using protocol::Operation;

ShardCoordinator::ShardCoordinator(const ShardOptions& options, rdma::Device* device,
                                   memgest::DeltaArena* arena, ReplySink* sink)
    : options_(options),
      device_(device),
      arena_(arena),
      sink_(sink),
      lines_(device, options.line_count_max),
      keys_(device, &lines_),
      log_(options.epoch, arena),
      landing_places_(device) {}

// The device may read slots until then.
ShardCoordinator::~ShardCoordinator() { log_.EndCalculations(); }

void ShardCoordinator::AddMemgest(const protocol::MemgestDescriptor& descriptor, RoleMask active) {
  const std::size_t index = descriptor.id.value();
  if (memgests_.size() <= index) memgests_.resize(index + 1);
  RING_CHECK(memgests_[index] == nullptr) << "memgest ids are never reused (V2): id=" << index;
  memgests_[index] = std::make_unique<memgest::Memgest>(device_, descriptor, options_.shard,
                                                        options_.s, options_.d, &lines_);
  log_.Attach(memgests_[index].get(), active);
}

void ShardCoordinator::SetMemgestState(MemgestId id, protocol::MemgestState state) {
  memgest::Memgest* const memgest = FindMemgest(id);
  RING_CHECK(memgest != nullptr) << "id=" << id.value();
  memgest->set_state(state);
}

void ShardCoordinator::Submit(const Request& request) {
  if (is_retired_) return;  // V7
  if (Execute(request)) return;
  // A bounded queue: beyond it the client is told to come again with the same request.
  if (ready_.size() >= kStalledMax) {
    Refuse(request, protocol::Outcome::kUnavailable);
  } else {
    DeferUntilNextTurn(request);
  }
}

bool ShardCoordinator::Execute(const Request& request) {
  if (is_retired_) return true;
  if (log_.held() && !MayRead(request.operation)) return false;  // the epoch's Normal comes first
  switch (request.operation) {
    case Operation::kGet:
    case Operation::kWhere:
      return Get(request);
    case Operation::kPut:
      return Put(request);
    case Operation::kDelete:
      return Remove(request);
    case Operation::kMove:
      return Move(request);
    case Operation::kPad:
    case Operation::kGetView:
    case Operation::kWhoOwns:
      break;
  }
  Refuse(request, protocol::Outcome::kBadRequest);
  return true;
}

void ShardCoordinator::PrefetchLines(const Request& request) {
  const std::uint32_t number = keys_.PeekLine(request.hash);
  if (number != memgest::kNoLine) {
    __builtin_prefetch(&lines_.line(number));
    if (request.operation == Operation::kGet) {
      const memgest::Granule& granule = lines_.granule(number);
      if (granule.size_class != 0) {
        const memgest::HeapSpace& heap = memgests_[granule.memgest]->heap();
        const std::byte* const value =
            heap.At(granule.base_cells +
                    number % memgest::kLinesPerGranule * memgest::CellsOf(granule.size_class));
        for (std::size_t i = 0; i < kPrefetchLines; ++i) __builtin_prefetch(value + i * 64);
      }
    }
  }
  if (request.operation != Operation::kPut) return;
  memgest::Memgest* const memgest = FindMemgest(request.memgest);
  if (memgest != nullptr) PrefetchSlot(*memgest, request.value_length);
}

void ShardCoordinator::PrefetchSlot(memgest::Memgest& memgest, std::uint32_t length) {
  const memgest::Slot slot = memgest.allocator().Peek(length);
  if (slot.line == memgest::kNoLine) return;
  __builtin_prefetch(&lines_.line(slot.line), 1);
  if (slot.size_class == 0) return;
  const std::byte* const to = memgest.heap().At(slot.offset_cells);
  const std::size_t line_count = std::min<std::size_t>((length + 63) / 64, kPrefetchLines);
  for (std::size_t i = 0; i < line_count; ++i) __builtin_prefetch(to + i * 64, 1);
}

void ShardCoordinator::EndTurn(std::uint64_t now_ns, bool busy) {
  if (is_retired_) return;
  // The answers are out: time to fetch what the next put like the last one will write.
  if (last_put_ != nullptr) PrefetchSlot(*std::exchange(last_put_, nullptr), last_put_length_);
  large_places_taken_ = 0;
  for (std::size_t i = 0; i < large_writes_.size();) {
    large_writes_[i]->Step(now_ns);
    if (large_writes_[i]->finished()) {
      large_writes_.erase(large_writes_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      large_places_taken_ += large_writes_[i++]->HoldsPlace(now_ns) ? 1 : 0;
    }
  }
  DrainCollections(now_ns);
  if (release_due_ && !busy) ReleaseMemory(now_ns);
  if (rebuilding_) RebuildParities(now_ns);
  if (expiring_ || TimePassed(now_ns)) ExpireClients(now_ns);
  log_.EndTurn(busy);
  if (!retired_.empty()) FreeRetired();
}

bool ShardCoordinator::HasWork() const {
  if (is_retired_) return false;
  if (log_.held()) return log_.dirty();  // all else waits for the epoch's Normal
  if (!ready_.empty() || log_.dirty() || releasing_) return true;
  return std::any_of(large_writes_.begin(), large_writes_.end(),
                     [](const std::unique_ptr<LargeWrite>& write) { return write->runnable(); });
}

bool ShardCoordinator::HasLargeWrite(MemgestId id, std::uint32_t first_cell,
                                     std::uint32_t cell_count) const {
  return std::any_of(large_writes_.begin(), large_writes_.end(),
                     [=](const std::unique_ptr<LargeWrite>& write) {
                       return write->memgest_id() == id && write->MayAppend() &&
                              write->Touches(first_cell, cell_count);
                     });
}

void ShardCoordinator::EndSlowWrites(MemgestId id, std::uint32_t first_cell,
                                     std::uint32_t cell_count, std::uint64_t now_ns) {
  for (const std::unique_ptr<LargeWrite>& write : large_writes_) {
    if (write->memgest_id() == id && write->Touches(first_cell, cell_count)) write->Yield(now_ns);
  }
}

bool ShardCoordinator::Busy() const {
  if (is_retired_) return !gone();
  return !log_.quiet() || collection_count_ > 0 || !ready_.empty() || !undecided_.empty() ||
         !large_writes_.empty() || !lingering_.empty() || !retired_.empty() || release_due_ ||
         rebuilding_ || expiring_;
}

void ShardCoordinator::OnRead(std::uint64_t token, bool ok) {
  for (const std::unique_ptr<LargeWrite>& write : large_writes_) {
    if (write->token() == token) write->OnRead(ok);
  }
  if (is_retired_) GiveMemoryBack();
}

}  // namespace ring::coordinator
