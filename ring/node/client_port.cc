#include "ring/node/client_port.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/status.h"
#include "ring/node/client_connection.h"

namespace ring::node {
namespace {
// A peer that lets one work request wait for so long is as good as gone: a READ is at most 64 KiB,
// and an answer at most one value.
constexpr std::uint64_t kStuckNs = 10'000'000'000;
constexpr std::uint64_t kCrowdingNs = 1'000'000'000;  // when it stands in others' way
constexpr std::uint64_t kSweepNs = 250'000'000;
constexpr std::uint64_t kQuietNs =
    5'000'000'000;  // until an idle peer is asked whether it is there
constexpr std::uint32_t kPollsPutOff = 4;
constexpr int kDoorbellsPerPoll = 16;
}  // namespace

using protocol::Outcome;
using protocol::ReplyHeader;
using protocol::RequestWord;

absl::StatusOr<std::unique_ptr<ClientPort>> ClientPort::Create(const ClientPortOptions& options) {
  std::unique_ptr<ClientPort> port(new ClientPort(options));
  const std::size_t depth = kSharedPlaces + std::size_t{options.client_max} * kOwnPlaces;
  RING_ASSIGN_OR_RETURN(port->cq_, options.device->CreateCompletionQueue(depth));
  // Every client may ring all its bells before they are looked at.
  const std::size_t bells = std::size_t{options.client_max} * Connection::kDoorbellCount;
  RING_ASSIGN_OR_RETURN(port->doorbells_, options.device->CreateCompletionQueue(bells));
  return port;
}

ClientPort::ClientPort(const ClientPortOptions& options)
    : options_(options),
      // Those that are retired count, as their peers hold on to queue pairs of the device, too.
      rings_(options.device, protocol::kRequestRingSize, options.client_max),
      retired_(options.device, &rings_),
      headers_(options.device, protocol::kReplySlotCountMax * protocol::kCell, options.client_max),
      copies_(options.device) {
  for (rdma::WorkRequest& request : chain_) {
    request.opcode = rdma::Opcode::kWrite;
    request.unacknowledged = true;  // values are unpinned once they are captured
  }
}

ClientPort::~ClientPort() {
  while (!active_.empty()) Close(active_.back());
}

// Who came before the cluster was founded was told of no founding: it comes again.
void ClientPort::SetView(const cluster::View& view) {
  view_epoch_ = view.epoch;
  cluster_ = view.cluster;
  if (std::exchange(founding_, view.founding) == view.founding) return;
  while (!active_.empty()) Close(active_.back());
}

void ClientPort::OnConnectRequest(std::uint64_t request, absl::string_view private_data) {
  const absl::Status status = TryAccept(request, private_data);
  if (!status.ok())
    options_.device->Reject(request,
                            std::string(status.message()).substr(0, rdma::kPrivateDataSizeMax));
}

absl::Status ClientPort::TryAccept(std::uint64_t request, absl::string_view private_data) {
  RING_ASSIGN_OR_RETURN(const protocol::ClientHello hello,
                        protocol::DecodeHello<protocol::ClientHello>(private_data));
  const std::uint64_t needed = std::uint64_t{hello.reply_slot_count} * protocol::kReplySlotSize;
  if (hello.reply_slot_count == 0 || hello.reply_slot_count > protocol::kReplySlotCountMax ||
      hello.replies.length < needed) {
    return absl::InvalidArgumentError(
        absl::StrCat("reply slots out of range reply_slot_count=", hello.reply_slot_count,
                     " length=", hello.replies.length));
  }
  if (hello.client_high == 0 && hello.client_low == 0)
    return absl::InvalidArgumentError("client id is zero");
  if (client_count_ >= options_.client_max) {
    return absl::ResourceExhaustedError(
        absl::StrCat("too many clients at this node client_max=", options_.client_max,
                     "; close some and retry"));
  }
  auto connection = std::make_unique<Connection>();
  connection->id = {hello.client_high, hello.client_low};
  connection->replies = {hello.replies.address, hello.replies.length, hello.replies.rkey};
  connection->slot_count = hello.reply_slot_count;
  connection->generation = next_generation_++;
  connection->records.resize(options_.shard_count);
  retired_.Reclaim();
  RING_ASSIGN_OR_RETURN(connection->ring, rings_.Take(rdma::kRemoteWrite));
  absl::StatusOr<BufferPool::Buffer> headers = headers_.Take(rdma::kLocalOnly);
  if (!headers.ok()) {
    rings_.GiveBack(std::move(connection->ring));
    return headers.status();
  }
  connection->headers = *std::move(headers);

  protocol::ClientAccept accept;
  const rdma::RemoteBuffer ring = connection->ring.region->remote();
  accept.requests = {ring.address, ring.length, ring.rkey, 0};
  accept.node = options_.node.value();
  accept.view_epoch = view_epoch_;
  accept.cluster = cluster_;
  accept.founding = founding_;
  accept.incarnation = options_.incarnation.value();
  accept.value_size_max = options_.value_size_max;
  absl::StatusOr<std::unique_ptr<rdma::QueuePair>> qp =
      options_.device->Accept(request,
                              {.send_cq = cq_.get(),
                               .recv_cq = doorbells_.get(),
                               .send_depth = Connection::kSendDepth,
                               .recv_depth = Connection::kDoorbellCount},
                              protocol::EncodeHello(accept));
  if (!qp.ok()) {
    rings_.GiveBack(std::move(connection->ring));
    headers_.GiveBack(std::move(connection->headers));
    return qp.status();
  }
  connection->qp = *std::move(qp);
  const auto free = std::find(connections_.begin(), connections_.end(), nullptr);
  const auto index = static_cast<std::uint32_t>(free - connections_.begin());
  if (free == connections_.end()) connections_.emplace_back();
  connection->qp->set_context(this);
  connection->index = index;
  connection->completed = (capture_ - 1) & kSequenceMask;
  for (std::uint32_t i = 0; i < Connection::kDoorbellCount; ++i) {
    connection->qp->PostRecv(index, {})
        .IgnoreError();  // a lost doorbell receive shows as a disconnect
  }
  connections_[index] = std::move(connection);
  active_.push_back(index);
  ++client_count_;
  return absl::OkStatus();
}

bool ClientPort::Owns(const rdma::QueuePair* qp) const {
  return qp != nullptr && qp->context() == this;
}

void ClientPort::OnDisconnected(rdma::QueuePair* qp) {
  for (const std::uint32_t index : active_) {
    if (connections_[index]->qp.get() != qp) continue;
    Close(index);
    return;
  }
}

void ClientPort::Close(std::uint32_t index) {
  std::unique_ptr<Connection> connection = std::move(connections_[index]);
  // Its completions are dropped: nothing of it is in the device's hands any more.
  const std::uint32_t qp_number = connection->qp->number();
  connection->qp.reset();
  UnpinAll(*connection);
  for (std::uint32_t handle = 1; handle <= reads_.size(); ++handle) {
    if (reads_[handle - 1].shard != nullptr && reads_[handle - 1].connection == index)
      FinishRead(handle, false);
  }
  retired_.Add(qp_number, std::move(connection->ring));
  headers_.GiveBack(std::move(connection->headers));
  active_.erase(std::find(active_.begin(), active_.end(), index));
  const auto staged = std::find(staged_.begin(), staged_.end(), index);
  if (staged != staged_.end()) staged_.erase(staged);
  CountOutstanding(*connection, 0);
  --client_count_;
}

void ClientPort::UnpinFirst(Connection& connection) {
  const Pinned& first = connection.pinned.front();
  if (first.shard != nullptr) {
    first.shard->Unpin(first.line);
  } else {
    copies_.Release(first.line);
  }
  connection.pinned.pop_front();
}

void ClientPort::UnpinAll(Connection& connection) {
  while (!connection.pinned.empty()) UnpinFirst(connection);
}

bool ClientPort::Take(Incoming* incoming) {
  const std::size_t client_count = active_.size();
  for (std::size_t tried = 0; tried < client_count; ++tried) {
    if (next_active_ >= client_count) next_active_ = 0;
    Connection& connection = *connections_[active_[next_active_]];
    while (connection.HasRequest()) {
      if (!TakeRequest(connection, incoming)) continue;
      // The same ring again next time: its lines are coming. But one that is never empty must leave
      // turns to the others.
      if (++taken_in_turn_ >= kTakenInTurnMax) EndTurnOfRing();
      return true;
    }
    EndTurnOfRing();
  }
  return false;
}

void ClientPort::EndTurnOfRing() {
  taken_in_turn_ = 0;
  ++next_active_;
}

bool ClientPort::HasRequest() const {
  return std::any_of(active_.begin(), active_.end(),
                     [this](std::uint32_t index) { return connections_[index]->HasRequest(); });
}

bool ClientPort::TakeRequest(Connection& connection, Incoming* incoming) {
  incoming->connection = connection.index;
  incoming->outcome = protocol::DecodeRequest(connection.ring.address, connection.cell,
                                              options_.value_size_max, &incoming->view);
  const RequestWord word = incoming->view.header.word;
  if (incoming->outcome == Outcome::kOk && word.operation == protocol::Operation::kPad) {
    connection.cell = 0;
    connection.NextStamp();
    return false;
  }
  if (incoming->view.header.reply_slot >= connection.slot_count) {
    incoming->outcome = Outcome::kBadRequest;
    incoming->view.header.reply_slot = 0;
  }
  if (incoming->outcome == Outcome::kBadRequest)
    connection.closing = true;  // its extent cannot be trusted
  connection.cell += incoming->view.size_cells;
  connection.NextStamp();
  return true;
}

void ClientPort::Address(const Incoming& incoming, coordinator::Request* request) const {
  const Connection& connection = *connections_[incoming.connection];
  const protocol::RequestHeader& header = incoming.view.header;
  request->client_id = connection.id;
  request->reply.connection = incoming.connection;
  request->reply.generation = connection.generation;
  request->reply.stamp = header.word.stamp;
  request->reply.slot = header.reply_slot;
  request->reply.has_buffer = (header.word.flags & protocol::kLargeValue) != 0;
  request->reply.buffer_address = incoming.view.extension.buffer_address;
  request->reply.buffer_rkey = incoming.view.extension.buffer_rkey;
  request->reply.buffer_length = incoming.view.extension.buffer_length;
}

memgest::CompletionTable::Client* ClientPort::Records(std::uint32_t index, std::size_t shard_index,
                                                      coordinator::ShardCoordinator& shard) {
  Connection& connection = *connections_[index];
  Connection::Records& records = connection.records[shard_index];
  if (records.client == nullptr || records.forgotten != shard.completions().forgotten()) {
    records.client = shard.AdmitClient(connection.id);
    records.forgotten = shard.completions().forgotten();
  }
  return records.client;
}

void ClientPort::ForgetShard(std::size_t shard_index) {
  for (const std::uint32_t index : active_) connections_[index]->records[shard_index] = {};
}

bool ClientPort::ReadFromClient(const coordinator::ReplyTo& from, std::uint64_t offset,
                                const rdma::Sge& to, coordinator::ShardCoordinator& shard,
                                std::uint64_t token) {
  Connection* const connection = Find(from);
  if (connection == nullptr || Room(*connection) == 0) return false;
  if (free_read_ == 0) {
    reads_.emplace_back();
    free_read_ = static_cast<std::uint32_t>(reads_.size());
  }
  const std::uint32_t handle = free_read_;
  rdma::WorkRequest request;
  request.wr_id = kReadBit | handle;
  request.opcode = rdma::Opcode::kRead;
  request.signaled = true;
  request.sges = absl::MakeConstSpan(&to, 1);
  request.remote_address = from.buffer_address + offset;
  request.rkey = from.buffer_rkey;
  if (!connection->qp->PostSend(request).ok()) return false;
  CountOutstanding(*connection, connection->outstanding + 1);
  Read& read = reads_[handle - 1];
  free_read_ = read.next_free;
  read = {&shard, token, from.connection, 0};
  return true;
}

void ClientPort::FinishRead(std::uint64_t handle, bool ok) {
  Read& read = reads_[handle - 1];
  coordinator::ShardCoordinator* const shard = std::exchange(read.shard, nullptr);
  const std::uint64_t token = read.token;
  read.next_free = free_read_;
  free_read_ = static_cast<std::uint32_t>(handle);
  shard->OnRead(token, ok);
}

// While requests wait only once in some turns: looking waits for the stores of the last answers.
bool ClientPort::PollCompletions(bool busy) {
  if (busy && ++polls_put_off_ % kPollsPutOff != 0) return false;
  if (!ringing_.empty()) RingBells();
  if (outstanding_ == 0) return false;
  std::array<rdma::WorkCompletion, 8> completions;
  bool any = false;
  for (;;) {
    const std::size_t count = cq_->Poll(absl::MakeSpan(completions));
    for (std::size_t i = 0; i < count; ++i) OnCompletion(completions[i]);
    any |= count > 0;
    if (count < completions.size()) return any;
  }
}

void ClientPort::PollDoorbells() {
  rdma::WorkCompletion completion;  // one at a time: mostly there is none
  for (int i = 0; i < kDoorbellsPerPoll && doorbells_->Poll(absl::MakeSpan(&completion, 1)) > 0;
       ++i) {
    if (completion.status != rdma::WcStatus::kSuccess) continue;
    completion.qp->PostRecv(completion.wr_id, {}).IgnoreError();
  }
}

void ClientPort::EndStuck(std::uint64_t now_ns) {
  if (now_ns < next_sweep_ns_) return;
  next_sweep_ns_ = now_ns + kSweepNs;
  for (std::size_t i = active_.size(); i-- > 0;) {
    Connection& connection = *connections_[active_[i]];
    const bool crowding = shared_used_ > kSharedPlaces / 2 && connection.outstanding > kOwnPlaces;
    // One that came since the last sweep was never seen moving: its time begins now.
    const bool is_new = connection.moving_ns == 0;
    if (is_new || connection.finished != connection.finished_at_sweep) connection.heard_ns = now_ns;
    if (connection.outstanding == 0 && now_ns - connection.heard_ns >= kQuietNs) {
      connection.heard_ns = connection.moving_ns = now_ns;
      Probe(connection);
    }
    if (is_new || connection.outstanding == 0 ||
        connection.finished != connection.finished_at_sweep) {
      connection.finished_at_sweep = connection.finished;
      connection.moving_ns = now_ns;
    } else if (now_ns - connection.moving_ns >= (crowding ? kCrowdingNs : kStuckNs)) {
      Close(active_[i]);
    }
  }
}

// A WRITE of no bytes: its completion fails if the peer is gone, and with it the connection.
void ClientPort::Probe(Connection& connection) {
  if (connection.qp->transport() != options_.unwatched_transport || Room(connection) == 0) return;
  rdma::WorkRequest nothing;
  nothing.opcode = rdma::Opcode::kWrite;
  nothing.signaled = true;
  nothing.remote_address = connection.replies.address;
  nothing.rkey = connection.replies.rkey;
  nothing.wr_id = (std::uint64_t{1} << kCountShift) |
                  (std::uint64_t{connection.index} << kIndexShift) | connection.completed;
  if (connection.qp->PostSend(nothing).ok())
    CountOutstanding(connection, connection.outstanding + 1);
}

std::uint32_t ClientPort::Room(const Connection& connection) const {
  const std::uint32_t used = connection.outstanding;
  const std::uint64_t own = used < kOwnPlaces ? kOwnPlaces - used : 0;
  const std::uint64_t free = own + kSharedPlaces - shared_used_;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(free, Connection::kSendDepth - used));
}

void ClientPort::CountOutstanding(Connection& connection, std::uint32_t outstanding) {
  const auto shared = [](std::uint32_t used) { return used > kOwnPlaces ? used - kOwnPlaces : 0u; };
  shared_used_ += shared(outstanding);
  shared_used_ -= shared(connection.outstanding);
  outstanding_ += outstanding;
  outstanding_ -= connection.outstanding;
  connection.outstanding = outstanding;
}

void ClientPort::OnCompletion(const rdma::WorkCompletion& completion) {
  const bool ok = completion.status == rdma::WcStatus::kSuccess;
  const bool is_read = (completion.wr_id & kReadBit) != 0;
  const std::uint64_t handle = completion.wr_id & ~kReadBit;
  const auto index = static_cast<std::uint32_t>(
      is_read ? reads_[handle - 1].connection : (completion.wr_id >> kIndexShift) & kIndexMask);
  if (index >= connections_.size() || connections_[index] == nullptr) return;
  Connection& connection = *connections_[index];
  ++connection.finished;
  const auto count = is_read ? 1u : static_cast<std::uint32_t>(completion.wr_id >> kCountShift);
  CountOutstanding(connection, connection.outstanding - std::min(count, connection.outstanding));
  if (is_read) {
    FinishRead(handle, ok);
  } else if (ok) {
    Complete(connection, completion.wr_id & kSequenceMask);
  }  // else the disconnect event closes the connection and unpins everything
  // What was dropped since (DropHeld) has a later number than what was under way.
  const bool idle = connection.outstanding == 0 && connection.bodies.empty();
  if (idle && connection.words.empty() && !connection.pinned.empty()) UnpinAll(connection);
  if (connection.closing && connection.outstanding == 0 && connection.words.empty()) Close(index);
}

void ClientPort::Complete(Connection& connection, std::uint64_t sequence) {
  connection.completed = sequence;
  // The numbers wrap: what is at most half of them behind is of the past.
  const auto is_past = [sequence](const Pinned& pin) {
    return ((sequence - pin.sequence) & kSequenceMask) <= kSequenceMask / 2;
  };
  while (!connection.pinned.empty() && is_past(connection.pinned.front())) UnpinFirst(connection);
}

void ClientPort::Arm() {
  cq_->Arm();
  doorbells_->Arm();
}

}  // namespace ring::node
