// The end of a coordinator whose role went to another node, while its device may still read and
// write its memory (V6).

#include "ring/coordinator/large_write.h"
#include "ring/coordinator/shard.h"

namespace ring::coordinator {

using protocol::Outcome;

void ShardCoordinator::Retire() {
  if (is_retired_) return;
  EndDegradedReads();
  AnswerAllWaiting();
  operations_.clear();
  deferred_.clear();
  ready_.clear();
  undecided_.clear();
  free_operation_ = free_deferred_ = deferred_count_ = 0;
  for (auto& [line, value] : absent_) value.waiter = 0;
  lingering_.clear();
  log_.Retire();
  is_retired_ = true;
  snapshots_.AbandonAll();
  GiveMemoryBack();
}

void ShardCoordinator::AnswerAllWaiting() {
  for (const Waiting& operation : operations_) {
    if (operation.client == nullptr) continue;
    Reply reply;
    reply.outcome = Outcome::kUnknown;
    sink_->Answer(operation.reply, reply, *this);
  }
  for (const std::unique_ptr<LargeWrite>& write : large_writes_) write->Abort();
  // A copy of a request under way may wait among them: of no write is it certain that it was not
  // applied.
  std::vector<bool> unused(deferred_.size());
  for (std::uint32_t handle = free_deferred_; handle != 0; handle = deferred_[handle - 1].next) {
    unused[handle - 1] = true;
  }
  for (std::size_t i = 0; i < deferred_.size(); ++i) {
    if (unused[i]) continue;
    const Request& request = deferred_[i].request;
    const bool reads = request.operation == protocol::Operation::kGet ||
                       request.operation == protocol::Operation::kWhere;
    Refuse(request, reads ? Outcome::kUnavailable : Outcome::kUnknown);
  }
}

void ShardCoordinator::GiveMemoryBack() {
  std::erase_if(large_writes_,
                [](const std::unique_ptr<LargeWrite>& write) { return write->finished(); });
  if (!gone()) return;
  memgests_.clear();
  retired_.clear();
  absent_.clear();
  keys_.DropAll();
  lines_.DropAll();
  completions_.DropAll();
}

}  // namespace ring::coordinator
