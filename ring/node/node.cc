#include "ring/node/node.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/log.h"
#include "ring/base/status.h"
#include "ring/node/config/link_policy.h"
#include "ring/node/control_services.h"

namespace ring::node {
namespace {
constexpr std::size_t kStagingSize = 64 * 1024;
constexpr std::size_t kLogCompletionDepth = 8192;
constexpr std::uint32_t kConnectionMax = 16384;
constexpr std::uint32_t kPeerQpCount = 4096;  // of the other nodes, beside those of clients
// From one look to the next: fewer turns while looks find something, for who waits for an answer;
// and never longer than this, however much there is to do in a turn.
constexpr std::uint32_t kTurnsPerLookMin = 32;
constexpr std::uint32_t kTurnsPerLookMax = 256;
constexpr std::uint64_t kLookNs = 500'000;
// Nodes of a reactor differ in it by so much: a request seldom waits behind the looks of all.
constexpr std::uint32_t kTurnsBetweenNodes = 37;
}  // namespace

absl::StatusOr<std::unique_ptr<Node>> Node::Open(const NodeOptions& options) {
  std::unique_ptr<Node> node(new Node(options));
  RING_RETURN_IF_ERROR(node->OpenDevice());
  RING_RETURN_IF_ERROR(node->OpenPorts());
  RING_RETURN_IF_ERROR(node->ListenAll());
  return node;
}

Node::Node(const NodeOptions& options)
    : options_(options),
      events_(options.clock),
      pace_(options.config.recovery_rate, options.config.recovery_rate_min),
      refusals_(options.id) {
  const NodeEntry& entry = options_.config.nodes[options_.id.value()];
  role_count_ = static_cast<std::size_t>(options_.config.s + options_.config.d);
  turns_per_look_max_ = kTurnsPerLookMax + options_.id.value() % 8 * kTurnsBetweenNodes;
  info_.id = options_.id;
  info_.name = entry.name;
  info_.incarnation = Incarnation(options_.random->Next64() | 1);
  info_.host = options_.host;
  hash_seed_ = options_.random->Next64();
  shard_context_.pace = &pace_;
  shard_context_.events = &events_;
}

Node::~Node() {
  services_.reset();
  membership_.reset();
  words_.reset();  // behind whose word it is
  control_.reset();
  clients_.reset();  // before the shards whose slots it has pinned
  shards_.clear();
  resting_shards_.clear();
  lost_shards_.clear();
  members_.reset();
}

absl::Status Node::OpenDevice() {
  rdma::SoftDeviceOptions device;
  device.name = info_.name;
  device.arena_size_max = options_.config.arena_size_max;
  device.warm_size = options_.config.warm_size;
  device.shareable = MayUse(options_.config, options_.id, Transport::kShm);
  device.verbs.device = options_.config.rdma_device;
  device.verbs.gid_index = options_.config.rdma_gid_index;
  device.qp_count_max = options_.config.client_max + kPeerQpCount;
  device.connection_count_max = std::min(kConnectionMax, options_.config.client_max + kPeerQpCount);
  device.clock = options_.clock;
  if (options_.open_device != nullptr) {
    RING_ASSIGN_OR_RETURN(device_, (*options_.open_device)(device));
  } else {
    RING_ASSIGN_OR_RETURN(device_, rdma::OpenSoftDevice(device));
  }
  if (options_.config.fault_injection) {
    auto faulty = std::make_unique<rdma::FaultyDevice>(std::move(device_), options_.clock,
                                                       options_.random->Next64());
    faulty_device_ = faulty.get();
    device_ = std::move(faulty);
  }
  return absl::OkStatus();
}

absl::Status Node::OpenPorts() {
  RING_ASSIGN_OR_RETURN(log_cq_, device_->CreateCompletionQueue(kLogCompletionDepth));
  RING_ASSIGN_OR_RETURN(arena_, memgest::DeltaArena::Create(device_.get()));
  RING_RETURN_IF_ERROR(OpenCalc());
  credits_ = std::make_unique<CreditLines>(device_.get(), 1u << 16);
  staging_ = std::make_unique<BufferPool>(device_.get(), kStagingSize, 1u << 16);

  ClientPortOptions clients;
  clients.device = device_.get();
  clients.client_max = options_.config.client_max;
  clients.value_size_max = options_.config.value_size_max;
  clients.node = options_.id;
  clients.incarnation = info_.incarnation;
  // One a group: a node holds at most one role of each (L10).
  clients.shard_count = role_count_;
  RING_ASSIGN_OR_RETURN(clients_, ClientPort::Create(clients));
  MemberPort::Options members;
  members.device = device_.get();
  members.node = options_.id;
  members.incarnation = info_.incarnation;
  members.ring_size = options_.config.ring_size;
  members.membership_max = static_cast<std::size_t>(options_.config.s) *
                           static_cast<std::size_t>(options_.config.s + options_.config.d - 1);
  members.clock = options_.clock;
  members.static_membership = !options_.propose && !options_.config.control.fail_over;
  RING_ASSIGN_OR_RETURN(members_, MemberPort::Create(members));

  ControlPort::Options control;
  control.device = device_.get();
  control.node = options_.id;
  control.incarnation = info_.incarnation;
  control.cluster =
      cluster::ClusterHash(options_.config.cluster_name, options_.config.s, options_.config.d);
  control.fence = options_.config.control.FenceTerms();
  control.node_count = options_.config.nodes.size();
  RING_ASSIGN_OR_RETURN(control_, ControlPort::Create(control));
  RING_RETURN_IF_ERROR(OpenWords(control.cluster));
  RING_RETURN_IF_ERROR(OpenMembership());
  OpenCatalogueReads();
  OpenFence();
  services_ = std::make_unique<ControlServices>(this, options_.snapshot_piece_size);

  FillShardContext();
  return absl::OkStatus();
}

// kAuto: the one device that a node opens is the software NIC. Its CALC runs in the node's thread,
// and the work requests come on top (docs/adr/0021).
absl::Status Node::OpenCalc() {
  if (options_.config.encode != EncodePath::kNic) return absl::OkStatus();
  CalcLink::Options calc;
  calc.device = device_.get();
  calc.check_every = options_.config.encode_check;
  calc.word = absl::StrCat("calc/", absl::Hex(options_.random->Next64(), absl::kZeroPad16));
  RING_ASSIGN_OR_RETURN(calc_, CalcLink::Create(calc));
  shard_context_.calc_queue = &calc_->queue();
  return absl::OkStatus();
}

void Node::FillShardContext() {
  shard_context_.device = device_.get();
  shard_context_.links.device = device_.get();
  shard_context_.links.log_cq = log_cq_.get();
  shard_context_.links.credits = credits_.get();
  shard_context_.links.staging = staging_.get();
  shard_context_.links.ring_size = options_.config.ring_size;
  shard_context_.arena = arena_.get();
  shard_context_.sink = clients_.get();
  shard_context_.control = control_.get();
  shard_context_.propose = options_.propose;
  if (!options_.propose && options_.config.control.fail_over) {
    shard_context_.propose = [this](const cluster::ClusterCommand& command) {
      // Whether it was taken shows in the next view, or it is proposed again.
      membership_->Propose(command, [](const absl::StatusOr<cluster::ClusterResult>&) {});
    };
  }
  if (options_.config.control.fail_over) {
    shard_context_.lag_ns = options_.config.control.lag_ms * std::uint64_t{1'000'000};
  }
  shard_context_.node = options_.id;
  shard_context_.incarnation = info_.incarnation;
  shard_context_.hash_seed = hash_seed_;
  shard_context_.lines_per_step = options_.lines_per_step;
  shard_context_.snapshot_piece_size = options_.snapshot_piece_size;
  if (options_.config.fault_injection) shard_context_.decoder = &degraded_decoder_;
  // Who is left out of an epoch has to join from nothing. So nobody is while it may just be slow:
  // of who is lost the cluster hears sooner.
  std::uint64_t& patience_ns = shard_context_.timeouts.patience_ns;
  patience_ns = std::max(patience_ns, std::uint64_t{4'000'000} * options_.config.control.detect_ms);
}

absl::Status Node::OpenMembership() {
  Membership::Options options;
  options.config = &options_.config;
  options.node = options_.id;
  options.incarnation = info_.incarnation;
  options.clock = options_.clock;
  options.random = options_.random;
  options.control = control_.get();
  options.storage = options_.storage;
  options.wake = options_.wake;
  options.events = &events_;
  options.lease_ns = LeaseNs();
  options.wall_us = options_.wall_us;
  options.found_without_ns = options_.found_without_ns;
  if (words_ != nullptr) options.word = words_->word();
  options.on_view = [this](const std::shared_ptr<const cluster::View>& view) { TakeAgreed(view); };
  options.on_leadership = [this](bool leads) { services_->catalogue().OnLeadership(leads); };
  membership_ = std::make_unique<Membership>(std::move(options));
  // With somebody else's state machine it never begins.
  return options_.propose ? absl::OkStatus() : membership_->CheckStorage();
}

void Node::OpenCatalogueReads() {
  if (options_.propose) return;
  catalogue_reads_ = std::make_unique<CatalogueReads>(
      [this](CatalogueReads::Done done) { membership_->Read(std::move(done)); },
      [this] { look_ = true; });
  shard_context_.catalogue = catalogue_reads_.get();
}

// 0: no node holds a lease.
std::uint64_t Node::LeaseNs() const {
  const ControlConfig& control = options_.config.control;
  const bool leases = control.fail_over && control.fence == FenceKind::kLease;
  return leases ? control.lease_ms * std::uint64_t{1'000'000} : 0;
}

// Whether coordinators read what voters know.
bool Node::Checks() const {
  const ControlConfig& control = options_.config.control;
  return !options_.propose && control.fail_over && control.fence == FenceKind::kCheck;
}

absl::Status Node::OpenWords(std::uint64_t cluster) {
  if (!Checks()) return absl::OkStatus();
  WordLinks::Options words;
  words.device = device_.get();
  words.node = options_.id;
  words.incarnation = info_.incarnation;
  words.cluster = cluster;
  RING_ASSIGN_OR_RETURN(words_, WordLinks::Create(words));
  return absl::OkStatus();
}

void Node::OpenFence() {
  if (Checks()) {
    auto check = std::make_unique<CheckFence>(
        options_.clock, words_.get(), [this] { return membership_->RolesKnown(); },
        [this] { membership_->Refresh(); });
    check_ = check.get();
    fence_ = std::move(check);
    return;
  }
  if (options_.propose || LeaseNs() == 0) {
    fence_ = std::make_unique<coordinator::OpenFence>();
    return;
  }
  auto lease = std::make_unique<LeaseFence>(
      options_.clock, LeaseNs(),
      [this](LeaseFence::Granted done) { membership_->Renew(std::move(done)); });
  lease_ = lease.get();
  fence_ = std::move(lease);
}

absl::Status Node::ListenAll() {
  const NodeEntry& entry = options_.config.nodes[options_.id.value()];
  RING_ASSIGN_OR_RETURN(
      info_.local_address,
      device_->Listen(absl::StrCat("local:", options_.config.cluster_name, "/", entry.name, "/",
                                   absl::Hex(info_.incarnation.value()))));
  if (calc_ != nullptr) calc_->set_address(info_.local_address);
  const auto offers = [this](Transport kind) { return Offers(options_.config, options_.id, kind); };
  if (offers(Transport::kShm)) {
    RING_ASSIGN_OR_RETURN(info_.shm_address, device_->Listen(absl::StrCat("shm:", entry.shm)));
  }
  if (offers(Transport::kTcp)) {
    RING_ASSIGN_OR_RETURN(info_.tcp_address, device_->Listen(absl::StrCat("tcp:", entry.data)));
  }
  if (offers(Transport::kRdma)) RING_RETURN_IF_ERROR(ListenRdma(entry.rdma));
  info_.admin_address = entry.admin;
  return absl::OkStatus();
}

// A node that has to have it does not start without; any other says so, here and in its views.
absl::Status Node::ListenRdma(const std::string& address) {
  absl::StatusOr<std::string> listens = device_->Listen(absl::StrCat("rdma:", address));
  if (listens.ok()) {
    info_.rdma_address = *std::move(listens);
    return absl::OkStatus();
  }
  const std::string& device = options_.config.rdma_device;
  const std::size_t founder_count = options_.config.nodes.size() - options_.config.added_count;
  const bool added = options_.id.value() >= founder_count;
  const std::string what = absl::StrCat(
      "rdma=", address, device.empty() ? "" : " rdma_device=", device,
      " cannot be used: ", listens.status().message(), ": ringctl doctor --config FILE --node ",
      info_.name, added ? " --added" : "", " says what is missing");
  if (Requires(options_.config, options_.id, Transport::kRdma)) {
    return absl::Status(listens.status().code(),
                        absl::StrCat(what, "; or let transport = \"auto\" do without"));
  }
  RING_LOG(WARNING) << "node=" << info_.id.value() << " is not reached by rdma: " << what;
  return absl::OkStatus();
}

// What no request waits for is looked at when the device says that something happened, and once in
// a while: an idle turn of all nodes of a reactor is the floor under every latency.
bool Node::Progress(std::uint64_t now_ns, bool busy) {
  const bool moved = device_->Progress();
  if (calc_ != nullptr && calc_->Progress(now_ns)) FlushShards();
  const bool due = turns_to_look_-- == 0 || look_ || now_ns - looked_ns_ >= kLookNs ||
                   (persisting_ && membership_->HasPersisted());
  const bool controlled = (due || moved) && Look(now_ns);
  return clients_->PollCompletions(busy) || moved || controlled;
}

// The others reach this start by rdma alone (docs/adr/0031): it can do no more than say so.
void Node::WatchCard() {
  if (card_lost_ || info_.rdma_address.empty()) return;
  const absl::Status status = device_->CardStatus();
  if (status.ok()) return;
  card_lost_ = true;
  RING_LOG(ERROR) << "node=" << options_.id.value() << " lost its card: " << status;
  if (options_.card_lost != nullptr) options_.card_lost(options_.id, status);
}

bool Node::Look(std::uint64_t now_ns) {
  WatchCard();
  HandleEvents(now_ns);
  clients_->PollDoorbells();
  clients_->EndStuck(now_ns);
  members_->PollCompletions();
  for (const std::unique_ptr<CoordinatedShard>& shard : shards_) {
    shard->Progress(now_ns);
    if (shard->serving() && shard->coordinator()->TimePassed(now_ns)) shard->active = true;
  }
  connecting_ = connecting_ && !Serving();
  ForgetLostShards();
  bool controlled = control_->Progress(now_ns);
  if (catalogue_reads_ != nullptr) controlled |= catalogue_reads_->Progress(now_ns);
  controlled |= membership_->Progress(now_ns);
  if (lease_ != nullptr && !shards_.empty()) lease_->Progress(now_ns);
  if (check_ != nullptr) {
    words_->Progress(now_ns, membership_->RolesKnown().voters);
    check_->Collect();
  }
  controlled |= services_->Progress(now_ns);
  look_ = connecting_ || services_->busy() || control_->HasWork();
  persisting_ = membership_->IsPersisting();
  looked_ns_ = now_ns;
  turns_per_look_ =
      controlled ? kTurnsPerLookMin : std::min(2 * turns_per_look_, turns_per_look_max_);
  turns_to_look_ = turns_per_look_;
  return controlled;
}

void Node::HandleEvents(std::uint64_t now_ns) {
  rdma::ConnectionEvent event;
  while (device_->PollEvent(&event)) {
    if (event.kind == rdma::ConnectionEvent::Kind::kConnectRequest) {
      if (calc_ != nullptr && calc_->OnConnectRequest(event.request, event.private_data)) continue;
      const absl::StatusOr<protocol::HelloKind> kind = protocol::PeekHello(event.private_data);
      if (!kind.ok()) {
        refusals_.Refuses(cluster::kNoNode, kind.status().message(), now_ns);
        device_->Reject(event.request, std::string(kind.status().message()));
      } else if (*kind == protocol::HelloKind::kClient) {
        clients_->OnConnectRequest(event.request, event.private_data);
      } else if (*kind == protocol::HelloKind::kLog) {
        members_->OnConnectRequest(event.request, event.private_data);
      } else if (*kind == protocol::HelloKind::kControl) {
        control_->OnConnectRequest(event.request, event.private_data);
      } else if (*kind == protocol::HelloKind::kWord && words_ != nullptr) {
        words_->OnConnectRequest(event.request, event.private_data);
      } else if (*kind == protocol::HelloKind::kWord) {
        device_->Reject(event.request, "shows no word: give all nodes the same fence");
      } else {
        device_->Reject(event.request, "unknown kind of connection");
      }
      continue;
    }
    if (clients_->Owns(event.qp)) {
      if (event.kind == rdma::ConnectionEvent::Kind::kDisconnected)
        clients_->OnDisconnected(event.qp);
      continue;
    }
    if (control_->OnEvent(event, now_ns)) continue;
    if (words_ != nullptr && words_->OnEvent(event)) continue;
    if (calc_ != nullptr && calc_->OnEvent(event)) continue;
    const bool ended = event.kind == rdma::ConnectionEvent::Kind::kDisconnected;
    if (ended && members_->OnDisconnected(event.qp)) continue;
    for (const std::unique_ptr<CoordinatedShard>& shard : shards_) {
      if (shard->OnEvent(event)) break;
    }
  }
}

void Node::FlushShards() {
  for (const std::unique_ptr<CoordinatedShard>& shard : shards_) {
    if (!shard->active) continue;
    const absl::Status flushed = shard->coordinator()->Flush();
    if (!flushed.ok()) RING_LOG(WARNING) << "log flush: " << flushed.ToString();
  }
}

bool Node::PollLog() {
  std::array<rdma::WorkCompletion, 8> completions;
  bool any = false;
  for (;;) {
    const std::size_t count = log_cq_->Poll(absl::MakeSpan(completions));
    for (std::size_t i = 0; i < count; ++i) {
      const auto writer_id = static_cast<std::uint16_t>(completions[i].wr_id >> 48);
      CoordinatedShard* const shard = ShardOfWriter(writer_id);
      memgest::LogWriter* const writer = shard == nullptr ? nullptr : shard->WriterById(writer_id);
      if (writer == nullptr) continue;  // still connecting
      writer->OnCompletion(completions[i]);
      shard->active = true;
    }
    any |= count > 0;
    if (count < completions.size()) return any;
  }
}

bool Node::Finish(std::uint64_t now_ns, bool busy) {
  const bool any_active =
      std::any_of(shards_.begin(), shards_.end(),
                  [](const std::unique_ptr<CoordinatedShard>& shard) { return shard->active; });
  if (!any_active) {
    clients_->Send(*fence_);
    return false;
  }
  FlushShards();
  // A shard with entries under way is active, so without one no completion can come.
  const bool acked = PollLog();
  for (const std::unique_ptr<CoordinatedShard>& shard : shards_) {
    if (!shard->active) continue;
    shard->coordinator()->Commit();
    shard->WatchServed();
  }
  clients_->Send(*fence_);
  for (const std::unique_ptr<CoordinatedShard>& shard : shards_) {
    if (!shard->active) continue;
    shard->coordinator()->EndTurn(now_ns, busy);
    shard->RingDoorbells();
    shard->active = shard->coordinator()->Busy();
  }
  return acked;
}

void Node::Arm() {
  log_cq_->Arm();
  if (calc_ != nullptr) calc_->Arm();
  clients_->Arm();
  members_->Arm();
  control_->Arm();
  if (words_ != nullptr) words_->Arm();
  look_ = true;  // what came before is not told: the next Progress looks at everything
}

void Node::SetSleeping(bool sleeping) {
  device_->SetSleeping(sleeping);
  if (!sleeping) look_ = true;  // doorbells and events are likely now
}

bool Node::HasWork() const {
  for (const std::unique_ptr<CoordinatedShard>& shard : shards_) {
    // What waits for acknowledgements is woken by them.
    if (shard->active && shard->coordinator()->HasWork()) return true;
    if (shard->building()) return true;
  }
  return control_->HasWork() || services_->HasWork() || members_->HasCommitted() ||
         clients_->HasRequest() || (catalogue_reads_ != nullptr && catalogue_reads_->due());
}

}  // namespace ring::node
