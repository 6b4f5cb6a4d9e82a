#include "api/client_core.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/base/crc32c.h"
#include "ring/base/status.h"

namespace ring::api {
namespace {

using protocol::kCell;
using protocol::kInlineKeySizeMax;
using protocol::kInlineValueSizeMax;
using protocol::kKeySizeMax;

constexpr std::uint32_t kStepsPerClock = 32;
constexpr std::uint32_t kLookPeriodMax = 8;
constexpr std::uint64_t kTickNs = 1'000'000;

// Made once, because errors with a message allocate.
const absl::Status& WindowFull() {
  static const absl::Status status =
      absl::ResourceExhaustedError("the window is full: poll for completions, then submit again");
  return status;
}

}  // namespace

absl::Status ClientCore::Check(const Request& request) const {
  if (ends_) return absl::FailedPreconditionError("the client ends: nothing more is asked for");
  if (request.key.empty() || request.key.size() > kKeySizeMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("key length=", request.key.size(), " is not in 1..", kKeySizeMax));
  }
  if (request.value.size() > value_size_max_) {
    return absl::InvalidArgumentError(absl::StrCat("value length=", request.value.size(),
                                                   " is over value_size_max=", value_size_max_));
  }
  return absl::OkStatus();
}

Operation* ClientCore::TakeOperation() {
  if (free_.empty()) return nullptr;
  Operation* op = &ops_[free_.back()];
  free_.pop_back();
  op->result = OpResult();
  return op;
}

Operation* ClientCore::TakeInternal(protocol::Operation operation, Sink sink) {
  Operation* op = TakeOperation();
  protocol::RequestHeader header;
  header.word.operation = operation;
  *op->header() = header;
  op->cells = 1;
  op->sink = sink;
  op->seq = 0;
  op->deadline_ns = 0;
  op->first_attempt_ns = 0;
  op->damaged_count = 0;
  op->destination = nullptr;
  op->unanswered = false;
  op->last_refusal = OpOutcome::kDeadlineExceeded;
  op->slot = 0;
  op->state = OpState::kQueued;
  return op;
}

absl::StatusOr<Operation*> ClientCore::Submit(const Request& request) {
  RING_RETURN_IF_ERROR(Check(request));
  if (in_use_ >= options_.window || free_.size() <= kept_back_) return WindowFull();
  // How long ago the last write was counts for the next (X4), whatever else is under way.
  if (unfinished_ == 0 || (unfinished_writes_ == 0 && Mutates(request.operation)))
    now_ns_ = ClockNs();
  const int slot = cluster::KeySlot(request.key);
  const cluster::Place place = routing_->OfSlot(slot);
  const auto window =
      static_cast<std::uint16_t>(place.group.value() * view_.s + place.shard.value());
  std::uint64_t seq = 0;
  if (Mutates(request.operation)) {
    if (now_ns_ - last_write_ns_ > protocol::kSilencePeriodNs) NewIdentity();
    last_write_ns_ = now_ns_;
    seq = windows_[window].Next();
    if (seq == 0) return WindowFull();
    ++unfinished_writes_;
  }
  Operation* op = TakeOperation();
  ++in_use_;
  ++unfinished_;
  op->sink = request.sink;
  op->slot = slot;
  op->token = request.token;
  op->seq = seq;
  op->window = window;
  op->destination = request.destination;
  op->destination_size = request.destination_size;
  op->timeout_ns = request.deadline > absl::ZeroDuration()
                       ? static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(request.deadline))
                       : timeout_default_ns_;
  op->deadline_ns = 0;
  op->first_attempt_ns = 0;
  op->not_before_ns = 0;
  op->backoff_ns = 0;
  op->view_refreshes_needed = 0;
  op->damaged_count = 0;
  op->unanswered = false;
  op->last_refusal = OpOutcome::kDeadlineExceeded;
  if (absl::Status status = BuildFrame(request, op); !status.ok()) {
    if (seq != 0) {
      windows_[window].Complete(seq);
      --unfinished_writes_;
    }
    op->state = OpState::kDone;
    --unfinished_;
    Free(op);
    return status;
  }
  // The caller waited for room, and another cluster was founded meanwhile.
  if (request.founding != 0 && request.founding != view_.founding) {
    op->state = OpState::kQueued;
    if (EndIfOfFormer(op)) return op;
  }
  PlaceOrQueue(op);
  return op;
}

void ClientCore::ApplyFlags(const Request& request, Operation* op) {
  protocol::RequestHeader* header = op->header();
  const bool stores = request.operation == protocol::Operation::kPut ||
                      request.operation == protocol::Operation::kMove;
  if (stores && request.memgest.has_value()) {
    header->memgest = request.memgest->value();
  } else if (stores) {
    header->word.flags |= protocol::kDefaultMemgest;
  }
  if (request.degraded) header->word.flags |= protocol::kDegraded;
  if (request.if_version.has_value()) {
    header->word.flags |= protocol::kIfVersion;
    header->if_version = request.if_version->bits();
  }
}

absl::Status ClientCore::BuildFrame(const Request& request, Operation* op) {
  protocol::RequestHeader header;
  header.word.operation = request.operation;
  header.word.key_length = static_cast<std::uint16_t>(request.key.size());
  header.value_length = static_cast<std::uint32_t>(request.value.size());
  header.seq = op->seq;
  std::byte* next = op->frame + kCell;
  if (request.key.size() <= kInlineKeySizeMax) {
    std::memcpy(header.key, request.key.data(), request.key.size());
  } else {
    std::memcpy(next, request.key.data(), request.key.size());
    next += (request.key.size() + kCell - 1) / kCell * kCell;
  }
  std::memcpy(op->frame, &header, sizeof(header));
  ApplyFlags(request, op);
  const bool large = request.value.size() > kInlineValueSizeMax;
  if (!large) {
    op->header()->value_crc = Crc32cCopy(next, request.value.data(), request.value.size());
  }
  op->cells = static_cast<std::uint32_t>(
      protocol::RequestCells(request.key.size(), false, large ? 0 : request.value.size()));
  if (large) {
    RING_RETURN_IF_ERROR(AttachLarge(op, request.value.size()));
    op->header()->value_crc =
        Crc32cCopy(op->large.address, request.value.data(), request.value.size());
  } else if (request.value_size_hint > kInlineValueSizeMax) {
    RING_RETURN_IF_ERROR(AttachLarge(op, std::min(request.value_size_hint, value_size_max_)));
  }
  return absl::OkStatus();
}

// Gives the operation a buffer that its node may use. REQUIRES: no inline value.
absl::Status ClientCore::AttachLarge(Operation* op, std::size_t size) {
  RING_ASSIGN_OR_RETURN(op->large, pool_->Acquire(size));
  protocol::RequestExtension extension;
  const rdma::RemoteBuffer remote = op->large.region->remote();
  extension.buffer_address = remote.address;
  extension.buffer_length = static_cast<std::uint32_t>(remote.length);
  extension.buffer_rkey = remote.rkey;
  protocol::RequestHeader* header = op->header();
  const std::size_t cells = protocol::RequestCells(header->word.key_length, true, 0);
  std::memcpy(op->frame + (cells - 1) * kCell, &extension, sizeof(extension));
  header->word.flags |= protocol::kLargeValue;
  op->cells = static_cast<std::uint32_t>(cells);
  return absl::OkStatus();
}

Connection* ClientCore::Route(int slot) const {
  if (routing_ == nullptr) return nullptr;  // only the view is asked for before there is one
  const cluster::Place place = routing_->OfSlot(slot);
  return coordinators_[static_cast<std::size_t>(place.group.value() * view_.s +
                                                place.shard.value())];
}

std::optional<cluster::Place> ClientCore::VacantPlace(const Operation& op) const {
  if (routing_ == nullptr || op.sink == Sink::kView) return std::nullopt;
  const cluster::Place place = routing_->OfSlot(op.slot);
  if (view_.Coordinator(place.group, place.shard) != cluster::kNoNode) return std::nullopt;
  return place;
}

void ClientCore::PlaceOrQueue(Operation* op) {
  // Behind what is queued already, so that requests leave in the order they came.
  if (queue_.empty()) {
    Connection* connection = Route(op->slot);
    if (connection != nullptr && connection->serves() && Place(op, connection)) return;
  }
  op->state = OpState::kQueued;
  queue_.push_back(op->index);
  pump_needed_ = true;
}

bool ClientCore::Place(Operation* op, Connection* connection) {
  const std::uint64_t first = op->mutates() ? windows_[op->window].first_incomplete() : 0;
  if (!connection->Enqueue(op, first)) return false;
  connection->OnAsked();
  if (op->first_attempt_ns == 0) {
    op->first_attempt_ns = now_ns_;
    if (op->mutates()) op->known_version = known_versions_[op->window];
  }
  op->state = OpState::kWaiting;
  waiting_.push_back(op->index);
  return true;
}

void ClientCore::Pump() {
  if (queue_.empty() || !pump_needed_) return;
  pump_needed_ = false;
  std::size_t kept = 0;
  constexpr std::uint64_t kViewPatienceNs = 50'000'000;
  bool looked = false;
  for (const std::uint16_t index : queue_) {
    Operation* op = &ops_[index];
    // The program may have stood still since this step looked at the clock, if it did.
    if (op->unanswered && !std::exchange(looked, true)) now_ns_ = ClockNs();
    if (op->state == OpState::kQueued) CheckDeadline(op);  // X4: before it may be sent again
    if (op->state != OpState::kQueued) continue;           // it ended meanwhile
    const bool due =
        now_ns_ >= op->not_before_ns && (view_refreshes_ >= op->view_refreshes_needed ||
                                         now_ns_ >= op->not_before_ns + kViewPatienceNs);
    Connection* connection = Route(op->slot);
    if (due && connection != nullptr) {
      connection->Connect(now_ns_);
      if (connection->serves() && Place(op, connection)) continue;
      if (connection->ahead()) WantViewAtPace();
      // The owner cannot be reached: a later view may name another (X3).
      if (connection->state() == Connection::State::kBackingOff) {
        WantViewAtPace();
        SeekOwner(*op);
      }
    }
    if (connection == nullptr) WantViewAtPace();  // the shard has no coordinator: it may get one
    queue_[kept++] = index;
  }
  queue_.resize(kept);
}

void ClientCore::Flush() {
  if (std::exchange(held_up_, false)) now_ns_ = ClockNs();
  ForEachConnection([this](Connection* connection) {
    if (connection->wants_flush()) connection->Flush(now_ns_);
    held_up_ |= connection->held_up();
  });
}

void ClientCore::PollDevice(bool* progress) {
  if (device_->Progress()) *progress = true;
  rdma::WorkCompletion completions[16];
  std::size_t count = send_cq_->Poll(absl::MakeSpan(completions));
  for (std::size_t i = 0; i < count; ++i) {
    static_cast<Connection*>(completions[i].qp->context())->OnSendCompletion(completions[i]);
  }
  count = recv_cq_->Poll(absl::MakeSpan(completions));
  for (std::size_t i = 0; i < count; ++i) {
    static_cast<Connection*>(completions[i].qp->context())->OnReceive(completions[i]);
  }
  rdma::ConnectionEvent event;
  while (device_->PollEvent(&event)) {
    *progress = true;
    pump_needed_ = true;
    ForEachConnection([&](Connection* connection) {
      if (connection->Owns(event.qp)) connection->OnEvent(event, now_ns_);
    });
  }
}

// Reading the clock costs a step as much as looking for answers. Who polls without a pause has it
// read once in many steps; who polls seldom shows by the kernel's tick, a few milliseconds, which
// costs less, and is looked at in some steps while it stands, and in each while it moves.
bool ClientCore::TimeMoved() {
  if (clock_ != nullptr || ++step_count_ % kStepsPerClock == 0) return true;
  if (step_count_ % look_period_ != 0) return false;
  timespec tick{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &tick);
  const std::uint64_t tick_ns = static_cast<std::uint64_t>(tick.tv_sec) * 1'000'000'000 +
                                static_cast<std::uint64_t>(tick.tv_nsec);
  const bool moved = std::exchange(tick_ns_, tick_ns) != tick_ns;
  look_period_ = moved ? 1 : std::min(2 * look_period_, kLookPeriodMax);
  return moved;
}

bool ClientCore::Step() {
  bool progress = false;
  if (TimeMoved()) now_ns_ = ClockNs();
  Flush();
  PollDevice(&progress);
  Harvest(&progress);
  // The caller may not come back for long, and the node waits for what the device has yet to say.
  if (std::exchange(owes_acknowledgement_, false)) device_->Progress();
  ForEachConnection([this](Connection* connection) {
    if (connection->broken()) ResetConnection(connection, /*graceful=*/false);
  });
  if (std::exchange(owners_moved_, false)) LeaveFormerOwners();
  if (now_ns_ - last_tick_ns_ >= kTickNs) OnTick();
  const bool view_missing = view_wanted_ || seed_wanted_;
  if (view_missing && view_op_ == nullptr && now_ns_ >= view_retry_ns_) StartViewRequest();
  Pump();
  Flush();
  return progress;
}

Operation* ClientCore::TakeFinished() {
  if (finished_count_ == 0) return nullptr;
  Operation* op = &ops_[finished_[finished_head_]];
  finished_head_ = (finished_head_ + 1) % finished_.size();
  --finished_count_;
  taken_.push_back(op->index);
  return op;
}

void ClientCore::FreeTaken() {
  for (const std::uint16_t index : taken_) Free(&ops_[index]);
  taken_.clear();
}

void ClientCore::Shutdown() {
  ends_ = true;  // what a callback asks for is refused, or nobody would be called for it
  for (Operation& op : ops_) {
    if (op.state == OpState::kQueued || op.state == OpState::kWaiting) Expire(&op);
  }
  RunCallbacks();
}

bool ClientCore::RunCallbacks() {
  bool any = false;
  while (!called_.empty()) {
    any = true;
    Operation* op = &ops_[called_.front()];
    called_.erase(called_.begin());
    absl::AnyInvocable<void(Operation*)> callback = std::move(op->callback);
    op->callback = nullptr;
    callback(op);  // may submit, poll and wait
  }
  return any;
}

void ClientCore::Free(Operation* op) {
  RING_CHECK(!op->internal());
  --in_use_;
  GiveBack(op);
}

void ClientCore::GiveBack(Operation* op) {
  RING_CHECK(op->state == OpState::kDone) << "state=" << static_cast<int>(op->state);
  if (op->on_wire) {
    op->state = OpState::kAbandoned;
    return;
  }
  Recycle(op);
}

void ClientCore::Recycle(Operation* op) {
  op->state = OpState::kFree;
  if (std::exchange(op->result.held, false)) pool_->LetGo(op->result.value);
  if (op->large) pool_->Release(std::exchange(op->large, {}));
  free_.push_back(op->index);
}

}  // namespace ring::api
