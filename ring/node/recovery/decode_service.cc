#include "ring/node/recovery/decode_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/mutant.h"
#include "ring/node/node.h"

namespace ring::node {

DecodeService::DecodeService(Node* node) : node_(node) {
  node->control().Handle(ControlType::kDecode,
                         [this](NodeId, absl::string_view body, ControlReply reply) {
                           OnDecode(body, std::move(reply));
                         });
  node->control().Handle(ControlType::kRow,
                         [this](NodeId, absl::string_view body, ControlReply reply) {
                           OnRow(body, std::move(reply));
                         });
}

void DecodeService::OnDecode(absl::string_view body, ControlReply reply) {
  const absl::StatusOr<recovery::DecodeRequest> request = recovery::DecodeDecodeRequest(body);
  if (!request.ok()) return reply(request.status());
  if (node_->view() == nullptr) return reply(absl::UnavailableError("has no view yet"));
  if (urgent_.size() + background_.size() >= kQueuedMax)
    return reply(absl::ResourceExhaustedError("too many blocks are to be decoded here: retry"));
  (request->urgent ? urgent_ : background_).push_back({*request, std::move(reply)});
  StartJobs(node_->control().now_ns());
}

// One place is kept for what operations wait for.
void DecodeService::StartJobs(std::uint64_t now_ns) {
  for (;;) {
    const bool room = jobs_.size() < (urgent_.empty() ? kJobsMax - 1 : kJobsMax);
    std::deque<Queued>& queue = urgent_.empty() ? background_ : urgent_;
    if (!room || queue.empty()) return;
    Queued next = std::move(queue.front());
    queue.pop_front();
    ControlReply reply = [this,
                          to = std::move(next.reply)](absl::StatusOr<std::string> answer) mutable {
      blocks_decoded_ += answer.ok() ? 1 : 0;
      to(std::move(answer));
    };
    jobs_.push_back(std::make_unique<DecodeJob>(node_, next.request, std::move(reply), now_ns));
  }
}

void DecodeService::Progress(std::uint64_t now_ns) {
  // One of each, and more while the turn has bytes left.
  for (std::size_t left = jobs_.size(); left > 0; --left) {
    next_job_ %= jobs_.size();
    if (jobs_[next_job_]->Step(now_ns)) {
      ++next_job_;
    } else {
      jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(next_job_));
    }
    if (node_->control().turn_spent()) break;
  }
  StartJobs(now_ns);
  for (std::size_t left = rows_.size(); left > 0; --left) {
    next_row_ %= rows_.size();
    if (StepRow(rows_[next_row_], now_ns, /*first=*/false)) {
      ++next_row_;
    } else {
      rows_.erase(rows_.begin() + static_cast<std::ptrdiff_t>(next_row_));
    }
    if (node_->control().turn_spent()) break;
  }
}

bool DecodeService::HasWork() const {
  return std::any_of(jobs_.begin(), jobs_.end(),
                     [](const std::unique_ptr<DecodeJob>& job) { return job->runnable(); });
}

void DecodeService::OnRow(absl::string_view body, ControlReply reply) {
  absl::StatusOr<recovery::RowRequest> request = recovery::DecodeRowRequest(body);
  if (!request.ok()) return reply(request.status());
  if (node_->view() == nullptr) return reply(absl::UnavailableError("has no view yet"));
  if (rows_.size() >= kRowsMax)
    return reply(absl::ResourceExhaustedError("too many rows are waited for here: retry"));
  const std::uint64_t now_ns = node_->control().now_ns();
  WaitingRow row = {*std::move(request), now_ns + kRowPatienceNs, std::move(reply)};
  if (StepRow(row, now_ns, /*first=*/true)) rows_.push_back(std::move(row));
}

// False: it is over, and answered.
bool DecodeService::StepRow(WaitingRow& row, std::uint64_t now_ns, bool first) {
  absl::StatusOr<std::string> bytes = Row(row.request, first);
  if (absl::IsOutOfRange(bytes.status())) {
    if (now_ns < row.deadline_ns) return true;
    bytes = absl::UnavailableError(bytes.status().message());
  }
  if (bytes.ok()) node_->control().Spend(bytes->size());
  row.reply(std::move(bytes));
  return false;
}

// S7: nobody tells this parity how far the log of a shard without coordinator is committed. What
// the one that asks folded of it is.
void DecodeService::CatchUp(const recovery::RowRequest& request, const srs::Layout& layout,
                            absl::Span<const std::uint64_t> last_touch) {
  const cluster::View& view = *node_->view();
  for (std::uint32_t column = 0; column < last_touch.size(); ++column) {
    if (last_touch[column] >= request.last_touch[column] || Mutant("S7-agree")) continue;
    const ShardId shard(
        static_cast<std::uint16_t>(layout.BlockOf(request.extent, request.row, column).shard));
    MemberPort::HeldShard* const member = node_->members().Find(request.group, shard);
    if (member == nullptr || view.Coordinator(request.group, shard) != cluster::kNoNode) continue;
    const Epoch ring = view.groups[request.group.value()].shards[shard.value()].normal.epoch;
    member->store->CommitThrough(ring, request.memgest, request.last_touch[column]);
  }
}

absl::StatusOr<std::string> DecodeService::Row(const recovery::RowRequest& request, bool first) {
  const cluster::View& view = *node_->view();
  if (request.group.value() >= view.groups.size())
    return absl::InvalidArgumentError(absl::StrCat("no such group=", request.group.value()));
  const protocol::MemgestDescriptor* const memgest = view.FindMemgest(request.memgest);
  const memgest::ParityStore* const store =
      node_->members().FindParity(request.group, request.memgest);
  if (memgest == nullptr || store == nullptr) return absl::NotFoundError("no such parity");
  const srs::Layout& layout = store->layout();
  const bool known =
      request.row < layout.row_count() && request.last_touch.size() == layout.parameters().k &&
      request.extent < memgest::ParityStore::kSpaceSize / layout.parity_extent_size();
  if (!known) return absl::InvalidArgumentError("no such row");
  if (view.groups[request.group.value()].epoch != request.epoch)
    return absl::AbortedError("the epoch is another one");
  const std::uint32_t complete = recovery::CompleteParities(
      view, {request.group, request.memgest, request.extent, request.row}, *memgest, layout);
  if ((complete >> store->parity_index() & 1) == 0 ||
      !store->CoversRow(request.extent, request.row))
    return absl::FailedPreconditionError("this parity has not all of the row");
  const memgest::ParityStore::Row row = store->ReadRow(request.extent, request.row);
  if (row.last_touch != request.last_touch && !Mutant("S7")) {
    if (first) CatchUp(request, layout, row.last_touch);
    for (std::uint32_t column = 0; column < row.last_touch.size(); ++column) {
      if (row.last_touch[column] <= request.last_touch[column]) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("column=", column, " is past what is asked for"));
    }
    return absl::OutOfRangeError("has not folded what is asked for");
  }
  if (row.bytes == nullptr) return std::string();
  return std::string(reinterpret_cast<const char*>(row.bytes), layout.block_size());
}

}  // namespace ring::node
