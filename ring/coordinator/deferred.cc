// Requests that must wait: for a version to be committed (V4, V9, G7), for a duplicate in flight
// (X2), for space. They are copied, because the client may reuse its ring, and run again as if they
// came anew.
#include <algorithm>
#include <utility>

#include "ring/base/check.h"
#include "ring/base/mutant.h"
#include "ring/coordinator/large_write.h"
#include "ring/coordinator/shard.h"

namespace ring::coordinator {
namespace {
constexpr std::size_t kFailuresPerTurn = 32;
constexpr std::size_t kCopiesMax = 16;       // of one request, each from another place
constexpr std::uint32_t kStringsKept = 256;  // beyond so many places a burst's memory is given back
}  // namespace

std::uint32_t ShardCoordinator::CopyDeferred(const Request& request) {
  if (free_deferred_ == 0) {
    deferred_.emplace_back();
    free_deferred_ = static_cast<std::uint32_t>(deferred_.size());
  }
  const std::uint32_t handle = free_deferred_;
  Deferred& deferred = deferred_[handle - 1];
  free_deferred_ = deferred.next;
  deferred.request = request;
  deferred.key.assign(request.key.data(), request.key.size());
  deferred.value.clear();
  if (request.operation == protocol::Operation::kPut &&
      (request.flags & protocol::kLargeValue) == 0) {
    deferred.value.assign(reinterpret_cast<const char*>(request.value), request.value_length);
  }
  deferred.next = 0;
  ++deferred_count_;
  return handle;
}

bool ShardCoordinator::Defer(const Request& request, std::uint32_t line) {
  memgest::Pending* const pending = log_.FindByLine(line);
  RING_CHECK(pending != nullptr && pending->operation != 0)
      << "an uncommitted version has no pending entry";
  // Nothing of it was done, and it may come again: a version may take long to be committed, and
  // who asks again and again, from new connections, is not answered by the old ones.
  if (deferred_count_ >= kDeferredMax) {
    Refuse(request, protocol::Outcome::kUnavailable);
    return true;
  }
  const std::uint32_t handle = CopyDeferred(request);
  std::uint32_t& first = operations_[pending->operation - 1].waiter;
  deferred_[handle - 1].next = first;
  first = handle;
  return true;
}

bool ShardCoordinator::DeferOn(const Request& request, std::uint32_t head) {
  Request waiting = request;
  if (waiting.min_version.bits() == 0) waiting.min_version = Version(lines_.line(head).version);
  return Defer(waiting, head);
}

bool ShardCoordinator::IsCopy(const Request& request, std::uint32_t handle) const {
  const Request& waiting = deferred_[handle - 1].request;
  return waiting.client == request.client && waiting.seq == request.seq;
}

bool ShardCoordinator::TakePlace(const Request& request, std::uint32_t handle) {
  if (!IsCopy(request, handle)) return false;
  Request& waiting = deferred_[handle - 1].request;
  const bool same_place =
      waiting.reply.SameConnection(request.reply) && waiting.reply.slot == request.reply.slot;
  if (!same_place && sink_->Reachable(waiting.reply)) return false;
  waiting.reply = request.reply;
  return true;
}

// Of the operation, or the large write that has not come to its last entry, that the request is a
// copy of. Null: neither.
std::uint32_t* ShardCoordinator::WaitersOf(const Request& request) {
  for (Waiting& operation : operations_) {
    if (operation.client == request.client && operation.seq == request.seq)
      return &operation.waiter;
  }
  for (const std::unique_ptr<LargeWrite>& write : large_writes_) {
    const bool is_copy = write->client() == request.client && write->seq() == request.seq;
    if (is_copy && write->MayAppend()) return write->waiter();
  }
  return nullptr;
}

// X2: a duplicate of what is under way waits for it, and then finds its record. It takes the place
// of one whose connection is gone: a client that comes again and again costs no more. Of a large
// put whose bytes come by a connection that its client left, nothing comes any more: the copy
// begins anew.
void ShardCoordinator::Attach(const Request& request) {
  for (const std::unique_ptr<LargeWrite>& write : large_writes_) {
    if (write->client() == request.client && write->seq() == request.seq)
      write->LeaveConnection(request.reply);
  }
  std::size_t copies = 0;
  if (std::uint32_t* const list = WaitersOf(request)) {
    for (std::uint32_t handle = *list; handle != 0; handle = deferred_[handle - 1].next) {
      if (TakePlace(request, handle)) return;
      copies += IsCopy(request, handle);
    }
    if (RefuseCopy(request, copies)) return;
    const std::uint32_t handle = CopyDeferred(request);
    deferred_[handle - 1].next = *list;
    *list = handle;
    return;
  }
  // Its first attempt waits among those that run next.
  for (const std::uint32_t handle : ready_) {
    if (TakePlace(request, handle)) return;
    copies += IsCopy(request, handle);
  }
  if (!RefuseCopy(request, copies)) DeferUntilNextTurn(request);
}

// X5: the first one is under way, so the answer must not say that nothing was done.
bool ShardCoordinator::RefuseCopy(const Request& request, std::size_t copies) {
  if (copies < kCopiesMax && deferred_count_ < kDeferredMax) return false;
  Refuse(request, protocol::Outcome::kUnknown);
  return true;
}

void ShardCoordinator::DeferUntilNextTurn(const Request& request) {
  ready_.push_back(CopyDeferred(request));
}

void ShardCoordinator::ReleaseWaiters(std::uint32_t* list) {
  // The list is newest first; requests run again in the order in which they came.
  const std::size_t begin = ready_.size();
  for (std::uint32_t handle = std::exchange(*list, 0); handle != 0;) {
    ready_.push_back(handle);
    handle = std::exchange(deferred_[handle - 1].next, 0);
  }
  std::reverse(ready_.begin() + static_cast<std::ptrdiff_t>(begin), ready_.end());
}

void ShardCoordinator::RunReady() {
  if (ready_.empty()) return;
  running_.clear();
  running_.swap(ready_);
  failed_.clear();
  for (const std::uint32_t handle : running_) {
    if (failed_.size() >= kFailuresPerTurn) {  // the rest comes first in the next turn
      ready_.push_back(handle);
      continue;
    }
    // Out of the table first: running it may defer other requests, and the table may move.
    Deferred deferred = std::move(deferred_[handle - 1]);
    deferred.request.key = deferred.key;
    if (Mutant("V5-again")) deferred.request.flags &= ~protocol::kIfVersion;
    if (!Mutant("V5-bytes"))
      deferred.request.value = reinterpret_cast<const std::byte*>(deferred.value.data());
    const bool done = Execute(deferred.request);
    Deferred& slot = deferred_[handle - 1];
    slot = std::move(deferred);  // keeps the strings' memory for the next one
    if (!done) {
      failed_.push_back(handle);
      continue;
    }
    if (handle > kStringsKept) {
      slot.key = std::string();
      slot.value = std::string();
    }
    slot.next = free_deferred_;
    free_deferred_ = handle;
    --deferred_count_;
  }
  ready_.insert(ready_.end(), failed_.begin(), failed_.end());
}

}  // namespace ring::coordinator
