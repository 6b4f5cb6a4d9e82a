// The view: where it comes from, and what follows when it changes.
#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/client_core.h"
#include "api/client_seeds.h"
#include "rdma/host_identity.h"
#include "rdma/soft/soft_device.h"
#include "ring/base/check.h"
#include "ring/base/clock.h"
#include "ring/base/limits.h"
#include "ring/base/status.h"

namespace ring::api {
namespace {

constexpr std::uint64_t kViewTimeoutNs = 500 * kMillisecondNs;
constexpr std::uint64_t kViewRetryNs = 5 * kMillisecondNs;
constexpr std::uint64_t kViewPaceNs = 20 * kMillisecondNs;
constexpr std::uint64_t kSeedPatienceNs = 250 * kMillisecondNs;
constexpr std::size_t kQueueDepth = 4096;
constexpr std::size_t kWindowMax = protocol::kReplySlotCountMax - 1;
constexpr std::uint64_t kArenaSize = std::uint64_t{8} << 30;  // address space

}  // namespace

absl::StatusOr<std::unique_ptr<ClientCore>> ClientCore::Start(const ClientOptions& options,
                                                              ClientEnvironment environment) {
  std::unique_ptr<ClientCore> core(new ClientCore(options, environment.clock, environment.random));
  core->device_ = std::move(environment.device);
  core->started_ = true;
  if (environment.processor_count > 0) core->processor_count_ = environment.processor_count;
  RING_RETURN_IF_ERROR(core->Initialize());
  core->WantView();
  return core;
}

std::uint64_t ClientCore::RandomBits() {
  if (random_ != nullptr) return random_->Next64();
  std::uint64_t bits = 0;
  RING_CHECK(getrandom(&bits, sizeof(bits), 0) == sizeof(bits)) << "getrandom failed";
  return bits;
}

absl::StatusOr<std::unique_ptr<ClientCore>> ClientCore::Open(const ClientOptions& options,
                                                             const Clock* clock) {
  std::unique_ptr<ClientCore> core(new ClientCore(options, clock, nullptr));
  RING_RETURN_IF_ERROR(core->Initialize());
  RING_RETURN_IF_ERROR(core->Bootstrap());
  return core;
}

ClientCore::~ClientCore() {
  // Queue pairs go before the memory that they were told of.
  connections_.clear();
  seed_connection_.reset();
}

absl::Status ClientCore::Initialize() {
  if (options_.window < 1 || options_.window > kWindowMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("window=", options_.window, " is not in 1..", kWindowMax));
  }
  if (options_.deadline <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("deadline must be more than zero");
  }
  RING_ASSIGN_OR_RETURN(seeds_, ParseSeeds(options_.seeds));
  if (device_ == nullptr) RING_RETURN_IF_ERROR(OpenDevice());
  timeout_default_ns_ = static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(options_.deadline));
  value_size_max_ = std::min(options_.value_size_max, kValueSizeMax);
  constexpr int kPollers = 2;  // this thread, and that of the node that it waits for
  if (MayPoll(kPollers, processor_count_)) {
    spin_max_ns_ = static_cast<std::uint64_t>(
        std::max<std::int64_t>(absl::ToInt64Nanoseconds(options_.spin_max), 0));
  }
  spin_ns_ = spin_max_ns_;

  RING_ASSIGN_OR_RETURN(send_cq_, device_->CreateCompletionQueue(kQueueDepth));
  RING_ASSIGN_OR_RETURN(recv_cq_, device_->CreateCompletionQueue(kQueueDepth));
  pool_ = std::make_unique<ClientBuffers>(device_.get());

  // Twice the window, so that operations that were given up do not close it; and those that are
  // kept back: one for the view, the others to ask who owns a shard. The largest windows leave no
  // room for these, and only the view tells.
  constexpr std::size_t kKeptBackMax = 1 + 16;
  const std::size_t count =
      std::min(2 * options_.window + kKeptBackMax, protocol::kReplySlotCountMax);
  kept_back_ = std::min(kKeptBackMax, count - options_.window);
  RING_ASSIGN_OR_RETURN(frames_,
                        device_->Allocate(count * kFrameStride, rdma::MemoryKind::kShared));
  RING_ASSIGN_OR_RETURN(frames_region_,
                        device_->Register(frames_, count * kFrameStride, rdma::kLocalOnly));
  ops_ = std::vector<Operation>(count);
  for (std::size_t i = count; i-- > 0;) {
    ops_[i].index = static_cast<std::uint16_t>(i);
    ops_[i].frame = frames_ + i * kFrameStride;
    free_.push_back(static_cast<std::uint16_t>(i));
  }
  queue_.reserve(2 * count);  // an entry of an operation that ended may stand beside its next one
  waiting_.reserve(count);
  finished_.resize(count);
  called_.reserve(count);
  taken_.reserve(count);
  context_.device = device_.get();
  context_.send_cq = send_cq_.get();
  context_.recv_cq = recv_cq_.get();
  context_.pool = pool_.get();
  context_.op_count = count;
  context_.frame_lkey = frames_region_->lkey();
  context_.client_high = RandomBits();
  context_.client_low = RandomBits();
  now_ns_ = last_write_ns_ = ClockNs();
  return absl::OkStatus();
}

absl::Status ClientCore::OpenDevice() {
  host_ = rdma::HostIdentity();
  rdma::SoftDeviceOptions device;
  device.name = "ring-client";
  device.arena_size_max = kArenaSize;
  device.shareable = HasSeed(seeds_, Transport::kShm) || options_.transport == Transport::kAuto ||
                     options_.transport == Transport::kShm;
  RING_ASSIGN_OR_RETURN(device_, rdma::OpenSoftDevice(device));
  return absl::OkStatus();
}

// X4: a client that was silent for long may have been forgotten, and begins as another one.
void ClientCore::NewIdentity() {
  for (const SequenceWindow& window : windows_) {
    if (!window.idle()) return;
  }
  context_.client_high = RandomBits();
  context_.client_low = RandomBits();
  std::fill(windows_.begin(), windows_.end(), SequenceWindow());
  ForEachConnection([this](Connection* connection) {
    if (connection->state() != Connection::State::kIdle) ResetConnection(connection, true);
  });
}

absl::Status ClientCore::Bootstrap() {
  const std::uint64_t until_ns = DeadlineNs(options_.deadline);
  std::vector<std::string> errors(seeds_.size());
  // Round by round, since a cluster that starts may not answer at once.
  for (std::uint64_t round = 0; now_ns_ < until_ns; ++round) {
    for (std::size_t i = 0; i < seeds_.size() && now_ns_ < until_ns; ++i) {
      absl::Status status = ResolveSeed(&seeds_[i]);
      now_ns_ = ClockNs();
      if (status.ok())
        status =
            AskSeed(seeds_[i], std::min(until_ns, now_ns_ + 1000 * kMillisecondNs * (round + 1)));
      if (status.ok()) return status;
      errors[i] = absl::StrCat("seed=", seeds_[i], ": ", status.message());
    }
    Sleep(std::min(until_ns, now_ns_ + 20 * kMillisecondNs));
  }
  std::erase(errors, "");  // not tried any more
  return absl::UnavailableError(absl::StrCat("no seed answered: ", absl::StrJoin(errors, "; ")));
}

absl::Status ClientCore::AskSeed(const std::string& seed, std::uint64_t until_ns) {
  seed_connection_ = std::make_unique<Connection>(&context_, std::vector<std::string>{seed});
  view_error_ = absl::OkStatus();
  seed_connection_->Connect(now_ns_);
  WantView();
  while (view_refreshes_ == 0 && view_error_.ok() && now_ns_ < until_ns) {
    WaitStep(until_ns);
    if (view_refreshes_ != 0) return absl::OkStatus();  // the seed may be a node's connection now
    if (seed_connection_->state() == Connection::State::kBackingOff) break;
  }
  absl::Status error = view_error_;
  if (error.ok()) error = seed_connection_->last_error();
  if (error.ok()) error = absl::DeadlineExceededError("did not answer");
  ResetConnection(seed_connection_.get(), /*graceful=*/true);
  seed_connection_.reset();
  return error;
}

void ClientCore::WantViewAtPace() {
  if (now_ns_ < view_pace_ns_) return;
  view_pace_ns_ = now_ns_ + kViewPaceNs;
  WantView();
}

Connection* ClientCore::PickViewSource() {
  const std::size_t count = connections_.size();
  for (const std::unique_ptr<Connection>& connection : connections_) {
    if (connection != nullptr && connection->ahead() && !connection->broken())
      return connection.get();
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = (view_cursor_ + i) % count;
    Connection* connection = connections_[at].get();
    if (connection == nullptr || !connection->ready() || connection->broken()) continue;
    view_cursor_ = at + 1;
    return connection;
  }
  if (seed_connection_ != nullptr && seed_connection_->ready()) return seed_connection_.get();
  return nullptr;
}

// X3: the nodes of the view are not there, or know of no owner. A seed may know a later view.
void ClientCore::ApproachSeed() {
  if (view_refreshes_ == 0 && !started_) return;  // Bootstrap has a seed of its own
  if (now_ns_ - seed_attempt_ns_ <= kSeedPatienceNs) return;
  seed_attempt_ns_ = now_ns_;
  if (seed_connection_ != nullptr) ResetConnection(seed_connection_.get(), true);
  std::string& seed = seeds_[seed_index_++ % seeds_.size()];
  const absl::Status resolved = ResolveSeed(&seed);
  if (!resolved.ok()) return seed_connection_.reset();
  seed_connection_ = std::make_unique<Connection>(&context_, std::vector<std::string>{seed});
  seed_connection_->Connect(now_ns_);
}

void ClientCore::StartViewRequest() {
  const bool seed_ready = seed_connection_ != nullptr && seed_connection_->ready();
  Connection* source = seed_wanted_ && seed_ready ? seed_connection_.get() : nullptr;
  if (source == nullptr && seed_wanted_) ApproachSeed();
  if (source == nullptr && view_wanted_) {
    source = PickViewSource();
    if (source == nullptr) {
      ForEachConnection([this](Connection* connection) { connection->Connect(now_ns_); });
      ApproachSeed();
    }
  }
  if (source == nullptr || free_.empty()) return;
  if (source == seed_connection_.get()) seed_wanted_ = false;
  Operation* op = TakeInternal(protocol::Operation::kGetView, Sink::kView);
  op->timeout_ns = kViewTimeoutNs;
  view_wanted_ = false;
  view_op_ = op;
  if (!AttachLarge(op, view_size_).ok() || !Place(op, source)) {
    Finish(op, OpOutcome::kResourceExhausted);
  }
}

void ClientCore::OnViewAnswer(Operation* op, OpOutcome outcome) {
  view_op_ = nullptr;
  if (outcome == OpOutcome::kOk) {
    const absl::string_view bytes(reinterpret_cast<const char*>(op->result.value),
                                  op->result.value_size);
    absl::StatusOr<cluster::View> view = cluster::DecodeView(bytes);
    if (view.ok()) view_error_ = view->Validate();
    if (!view.ok()) view_error_ = view.status();
    if (view_error_.ok() && AdoptView(*std::move(view))) ++view_refreshes_;
  }
  if (outcome != OpOutcome::kOk || !view_error_.ok()) {
    WantView();
    view_retry_ns_ = now_ns_ + kViewRetryNs;
  }
  pump_needed_ = true;
  GiveBack(op);
}

// It was founded anew, with nothing in it: numbers of epochs, versions and memgests begin again.
// former: the founding that was known; 0: none, and nobody had executed anything.
void ClientCore::ForgetCluster(std::uint64_t former) {
  // First: no answer that is here already is taken for one of the new cluster's.
  ForEachConnection([this](Connection* connection) {
    if (connection->behind()) ResetConnection(connection, /*graceful=*/false);
  });
  std::fill(owner_epochs_.begin(), owner_epochs_.end(), 0);
  std::fill(coordinators_.begin(), coordinators_.end(), nullptr);
  std::fill(known_versions_.begin(), known_versions_.end(), Version());
  if (former == 0) return;
  // All that is under way waits to be sent by now.
  for (Operation& op : ops_) {
    if (op.state == OpState::kQueued) EndIfOfFormer(&op);
  }
}

// Ends what must not be asked of the new cluster: a write that the former one may have executed, as
// others may have read it there, and would see it happen twice (X5); and what names a memgest or a
// version of the former one. Gives whether it ended.
bool ClientCore::EndIfOfFormer(Operation* op) {
  op->first_attempt_ns = 0;  // none was made here: it has yet to note what is known before (X7)
  const bool unsure = op->mutates() && op->unanswered;
  if (!unsure && !op->names_version() && !op->names_memgest()) return false;
  op->result = OpResult();
  op->result.of_former_cluster = true;
  Finish(op, unsure                ? OpOutcome::kUnknown
             : op->names_version() ? OpOutcome::kVersionMismatch
                                   : OpOutcome::kNoSuchMemgest);
  return true;
}

// False: the view is of another cluster.
bool ClientCore::AdoptView(cluster::View view) {
  if (routing_ != nullptr) {
    if (view.cluster != view_.cluster || view.s != view_.s || view.d != view_.d) {
      view_error_ = absl::FailedPreconditionError(
          absl::StrCat("a node answered for cluster=", view.cluster, ", expected ", view_.cluster,
                       ": give seeds of one cluster"));
      return false;
    }
    if (view.founding < view_.founding) return true;
    if (view.founding == view_.founding && view.epoch <= view_.epoch) return true;
  } else {
    routing_ = std::make_unique<cluster::Routing>(view.s, view.d);
    windows_.resize(static_cast<std::size_t>(view.s * (view.s + view.d)));
    known_versions_.resize(windows_.size());
    coordinators_.resize(windows_.size());
    owner_epochs_.resize(windows_.size());
    owners_.Resize(windows_.size());
  }
  view_ = std::move(view);
  context_.cluster = view_.cluster;
  const std::uint64_t former = std::exchange(context_.founding, view_.founding);
  if (former != view_.founding) ForgetCluster(former);
  if (view_.value_size_max != 0) {
    value_size_max_ =
        std::min<std::uint64_t>({options_.value_size_max, view_.value_size_max, kValueSizeMax});
  }
  for (const cluster::NodeInfo& node : view_.nodes) {
    const std::size_t id = node.id.value();
    if (connections_.size() <= id) connections_.resize(id + 1);
    std::vector<std::string> addresses =
        NodeAddresses(node, options_.transport, host_, HasSeed(seeds_, Transport::kRdma));
    if (connections_[id] != nullptr) {
      connections_[id]->set_addresses(std::move(addresses));
      continue;
    }
    // The seed's connection stays when it is the one that would be chosen.
    const bool same = seed_connection_ != nullptr && seed_connection_->ready() &&
                      seed_connection_->accept().node == id && !addresses.empty() &&
                      TransportOf(addresses.front()) == TransportOf(seed_connection_->address());
    if (same) {
      connections_[id] = std::move(seed_connection_);
      connections_[id]->set_addresses(std::move(addresses));
    } else {
      connections_[id] = std::make_unique<Connection>(&context_, std::move(addresses));
    }
  }
  for (int g = 0; g < view_.group_count(); ++g) {
    for (int i = 0; i < view_.s; ++i) {
      const auto shard = static_cast<std::size_t>(g * view_.s + i);
      if (owner_epochs_[shard] > view_.epoch) continue;  // its owner itself said so since
      Connection* const owner = ConnectionOf(view_.Coordinator(
          GroupId(static_cast<std::uint16_t>(g)), ShardId(static_cast<std::uint16_t>(i))));
      if (owner != coordinators_[shard]) owners_.Found(shard);
      coordinators_[shard] = owner;
      owner_epochs_[shard] = view_.epoch;
    }
  }
  owners_moved_ = true;
  return true;
}

bool ClientCore::RefreshView(std::uint64_t until_ns) {
  // An answer that is on its way may be older than this call.
  const std::uint64_t old = view_refreshes_ + (view_op_ != nullptr ? 1 : 0);
  while (view_refreshes_ <= old && now_ns_ < until_ns) {
    if (view_op_ == nullptr) WantView();
    WaitStep(until_ns);
  }
  return view_refreshes_ > old;
}

Connection* ClientCore::ConnectionOf(NodeId node) const {
  return node.value() < connections_.size() ? connections_[node.value()].get() : nullptr;
}

std::vector<NodeConnection> ClientCore::Connections() const {
  std::vector<NodeConnection> list;
  for (const cluster::NodeInfo& node : view_.nodes) {
    const Connection* connection = ConnectionOf(node.id);
    list.push_back({node.id, node.name, std::string(connection->transport())});
  }
  return list;
}

}  // namespace ring::api
