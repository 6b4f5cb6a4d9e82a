#include "ring/node/member_port.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "memgest/log_reader.h"
#include "ring/base/log.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"

namespace ring::node {
namespace {
constexpr int kFoldPerRing = 8;  // keeps a fold turn in front of a request short (hot path)
constexpr std::uint64_t kFoldAtShare = 32;  // a ring below this part of itself waits for idle turns
constexpr int kFoldPerFullRing = 32;        // a ring over an eighth full
constexpr std::uint32_t kDoorbellCount = 4;
constexpr std::uint32_t kSendDepth = 64;
// Of the completion queue, for each held shard: its receives, those of the connection before it
// that were flushed, and credits under way.
constexpr std::size_t kPlacesPerShard = 2 * kDoorbellCount + 8;
constexpr std::size_t kPlacesMin = 1024;
constexpr std::uint64_t kRetryNs = 20'000'000;
}  // namespace

absl::StatusOr<std::unique_ptr<MemberPort>> MemberPort::Create(const Options& options) {
  std::unique_ptr<MemberPort> port(new MemberPort(options));
  const std::size_t places = std::max(kPlacesMin, kPlacesPerShard * options.membership_max);
  RING_ASSIGN_OR_RETURN(port->cq_, options.device->CreateCompletionQueue(places));
  return port;
}

MemberPort::MemberPort(const Options& options)
    : options_(options),
      rings_(options.device, memgest::kRingControlSize + options.ring_size, 1u << 16),
      retired_(options.device, &rings_) {}

MemberPort::~MemberPort() {
  for (HeldShard& held : held_shards_) {
    held.store.reset();
    held.qp.reset();
    rings_.GiveBack(std::move(held.ring));
    rings_.GiveBack(std::move(held.sealed_ring));
  }
}

void MemberPort::ApplyView(const cluster::View& view) {
  const bool same_memgests = view.memgests == view_.memgests;
  view_ = view;
  joined_ = true;
  const std::size_t known = held_shards_.size();
  JoinGroups();
  for (std::size_t i = 0; i < held_shards_.size(); ++i) {
    held_shards_[i].retry_ns = 0;  // it may have waited for this view
    if (same_memgests && i < known) continue;
    for (const protocol::MemgestDescriptor& descriptor : view_.memgests)
      AddMemgest(held_shards_[i], descriptor);
  }
  absl::erase_if(parities_, [&view](const auto& parity) {
    const protocol::MemgestDescriptor* const descriptor = view.FindMemgest(parity.first.memgest);
    return descriptor != nullptr && descriptor->state == protocol::MemgestState::kDeleted;
  });
  AdoptNormals();
  LeaveGroups();
}

void MemberPort::AddMemgest(HeldShard& held, const protocol::MemgestDescriptor& descriptor) {
  if (descriptor.state == protocol::MemgestState::kDeleted) {
    held.store->RemoveMemgest(descriptor.id);
    return;
  }
  const std::vector<Role> members = descriptor.MemberRoles(held.shard, view_.s, view_.d);
  const auto found = std::find(members.begin(), members.end(), held.role);
  if (found == members.end()) return;
  if (descriptor.scheme == protocol::Scheme::kReplicated) {
    held.store->AddReplica(descriptor);
    return;
  }
  std::unique_ptr<memgest::ParityStore>& store = parities_[{held.group, held.role, descriptor.id}];
  if (store == nullptr) {
    store = std::make_unique<memgest::ParityStore>(options_.device, descriptor, view_.s,
                                                   static_cast<int>(found - members.begin()));
    AwaitShards(held.group, descriptor.id, held.role, store.get());
  }
  const bool is_news = !held.store->Knows(descriptor.id);
  held.store->AddParity(descriptor, store.get());
  // Not in the snapshot that its ring goes on behind: all of the memgest comes through that.
  const bool whole = held.join == HeldShard::Join::kLearner && is_news;
  if (whole && store->awaits(held.shard)) store->BeginRebuild(held.shard, 0);
}

void MemberPort::OnConnectRequest(std::uint64_t request, absl::string_view private_data) {
  const absl::Status status = TryAccept(request, private_data);
  if (!status.ok()) {
    options_.device->Reject(request,
                            std::string(status.message()).substr(0, rdma::kPrivateDataSizeMax));
  }
}

absl::Status MemberPort::CheckHello(const protocol::LogHello& hello) const {
  if (!joined_) return absl::UnavailableError("this node does not know its view yet; retry");
  if (hello.cluster != view_.cluster)
    return absl::InvalidArgumentError("another cluster: check cluster names and s, d");
  if (hello.group >= view_.groups.size() || hello.shard >= view_.s) {
    return absl::InvalidArgumentError(
        absl::StrCat("no such shard group=", hello.group, " shard=", hello.shard));
  }
  const cluster::GroupView& group = view_.groups[hello.group];
  if (group.epoch.value() != hello.epoch) {
    return absl::FailedPreconditionError(
        absl::StrCat("epoch=", hello.epoch, " promised=", group.epoch.value()));
  }
  // L8: a node that was started again is not who the view means.
  const bool same_start = options_.static_membership || Mutant("L8-hello") ||
                          group.incarnations[hello.shard].value() == hello.incarnation;
  if (group.roles[hello.shard].value() != hello.node || !same_start) {
    return absl::FailedPreconditionError(
        absl::StrCat("node ", hello.node, " is not the coordinator"));
  }
  return absl::OkStatus();
}

absl::Status MemberPort::TryAccept(std::uint64_t request, absl::string_view private_data) {
  RING_ASSIGN_OR_RETURN(const protocol::LogHello hello,
                        protocol::DecodeHello<protocol::LogHello>(private_data));
  RING_RETURN_IF_ERROR(CheckHello(hello));
  const GroupId group(hello.group);
  const ShardId shard(hello.shard);
  const Epoch epoch(hello.epoch);
  HeldShard* const held = Find(group, shard);
  if (held == nullptr)
    return absl::FailedPreconditionError("this node is not a member of the group");
  if (hello.credit.length < sizeof(std::uint64_t))
    return absl::InvalidArgumentError("credit word is too short");
  RING_RETURN_IF_ERROR(EnterEpoch(*held, hello));
  retired_.Reclaim();
  RING_ASSIGN_OR_RETURN(BufferPool::Buffer ring, rings_.Take(rdma::kRemoteWrite));
  const rdma::RemoteBuffer remote = ring.region->remote();
  protocol::LogAccept accept;
  accept.incarnation = options_.incarnation.value();
  accept.ring = {remote.address, remote.length, remote.rkey, 0};
  absl::StatusOr<std::unique_ptr<rdma::QueuePair>> qp =
      options_.device->Accept(request,
                              {.send_cq = cq_.get(),
                               .recv_cq = cq_.get(),
                               .send_depth = kSendDepth,
                               .recv_depth = kDoorbellCount},
                              protocol::EncodeHello(accept));
  if (!qp.ok()) {
    rings_.GiveBack(std::move(ring));
    return qp.status();
  }
  absl::Status posted;
  for (std::uint32_t i = 0; i < kDoorbellCount && posted.ok(); ++i) posted = (*qp)->PostRecv(i, {});
  if (!posted.ok()) {  // the coordinator sees its connection end, and comes again
    const std::uint32_t number = (*qp)->number();
    qp->reset();
    retired_.Add(number, std::move(ring));
    return posted;
  }
  memgest::LogReaderOptions reader;
  reader.memory = ring.address;
  reader.size = rings_.size();
  reader.epoch = epoch;
  reader.qp = qp->get();
  reader.credit = {hello.credit.address, hello.credit.length, hello.credit.rkey};
  held->qp = *std::move(qp);
  held->ring = std::move(ring);
  held->ring_qp = held->qp->number();
  held->writer = {NodeId(hello.node), Incarnation(hello.incarnation)};
  held->store->Attach(std::make_unique<memgest::LogReader>(reader));
  if (options_.static_membership) RING_RETURN_IF_ERROR(held->store->Adopt(epoch));
  return absl::OkStatus();
}

bool MemberPort::OnDisconnected(const rdma::QueuePair* qp) {
  for (HeldShard& held : held_shards_) {
    if (held.qp.get() != qp) continue;
    RING_LOG(WARNING) << "coordinator disconnected group=" << held.group.value()
                      << " shard=" << held.shard.value();
    return true;
  }
  return false;
}

int MemberPort::Fold(int ring_count, int budget) {
  const bool busy = budget != kNoBudget;
  int folded = 0;
  const std::size_t count = std::min(static_cast<std::size_t>(ring_count), held_shards_.size());
  for (std::size_t i = 0; i < count; ++i) {
    HeldShard& held = held_shards_[next_];
    next_ = next_ + 1 == held_shards_.size() ? 0 : next_ + 1;
    if (held.failed || !held.store->HasWork() || Waits(held)) continue;
    if (busy && held.store->backlog() < options_.ring_size / kFoldAtShare) continue;
    folded += FoldSome(held);
    if (busy && folded >= budget) break;
  }
  return folded;
}

int MemberPort::FoldRing(std::size_t ring) {
  HeldShard& held = held_shards_[ring];
  if (held.failed) return 0;
  const int folded = !held.store->HasWork() || Waits(held) ? 0 : FoldSome(held);
  if (held.credit_due && !held.failed) ShareCredit(held);
  return folded;
}

// Several entries of one ring at once let the misses of one hide behind the others; a ring that
// fills up is emptied at full speed.
int MemberPort::FoldSome(HeldShard& held) {
  const bool fills = held.store->backlog() > options_.ring_size / 8;
  const int folded = FoldOne(held, fills ? kFoldPerFullRing : kFoldPerRing);
  folded_count_ += static_cast<std::uint64_t>(folded);
  return folded;
}

int MemberPort::FoldOne(HeldShard& held, int budget) {
  const absl::StatusOr<int> folded = held.store->Fold(budget);
  if (absl::IsResourceExhausted(folded.status()) || absl::IsFailedPrecondition(folded.status())) {
    // Memory, or a memgest that this node is about to hear of: the ring waits.
    held.retry_ns = options_.clock->NowNs() + kRetryNs;
    ++wait_count_;
    return 0;
  }
  held.retry_ns = 0;
  if (!folded.ok()) {
    // Entries ahead of the wrong one may be consumed and not folded: of this ring nothing is told
    // any more, and nothing that comes into it counts.
    held.failed = true;
    EndRing(held);
    RING_LOG(ERROR) << "cannot fold group=" << held.group.value() << " shard=" << held.shard.value()
                    << ": " << folded.status().ToString();
    return 0;
  }
  if (held.damaged_told != held.store->damaged_count()) {
    held.damaged_told = held.store->damaged_count();
    RING_LOG(WARNING) << "payloads came damaged, their values are fetched group="
                      << held.group.value() << " shard=" << held.shard.value()
                      << " payloads=" << held.damaged_told;
  }
  held.credit_due = true;
  if (held.store->sealed() == nullptr) RetireSealed(held);
  // An error here is the queue pair's, and shows as a disconnect.
  if (held.store->reader() != nullptr) {
    held.store->reader()->ShareCredit(false).IgnoreError();
  }
  return *folded;
}

// The clock is read only for rings that wait.
bool MemberPort::Waits(const HeldShard& held) const {
  return held.retry_ns != 0 && options_.clock->NowNs() < held.retry_ns;
}

bool MemberPort::ShareCredits() {
  bool due = false;
  for (HeldShard& held : held_shards_) {
    if (!held.credit_due || held.failed) continue;
    ShareCredit(held);
    due |= held.credit_due;
  }
  return due;
}

// A ring that is full brings nothing more to fold: what finds no place now must not be dropped.
// Another error is the queue pair's, and shows as a disconnect.
void MemberPort::ShareCredit(HeldShard& held) {
  held.credit_due = held.store->reader() != nullptr &&
                    absl::IsResourceExhausted(held.store->reader()->ShareCredit(true));
}

void MemberPort::PollCompletions() {
  rdma::WorkCompletion completion;  // one at a time: mostly there is none
  while (cq_->Poll(absl::MakeSpan(&completion, 1)) > 0) {
    const bool doorbell =
        completion.opcode == rdma::Opcode::kRecv && completion.status == rdma::WcStatus::kSuccess;
    if (doorbell) completion.qp->PostRecv(completion.wr_id, {}).IgnoreError();
  }
}

bool MemberPort::HasCommitted() const {
  return std::any_of(held_shards_.begin(), held_shards_.end(), [this](const HeldShard& held) {
    return !held.failed && held.store->HasWork() && !Waits(held);
  });
}

MemberPort::HeldShard* MemberPort::Find(GroupId group, ShardId shard) {
  for (HeldShard& held : held_shards_) {
    if (held.group == group && held.shard == shard) return &held;
  }
  return nullptr;
}

memgest::ParityStore* MemberPort::FindParity(GroupId group, MemgestId memgest) {
  if (group.value() >= view_.groups.size()) return nullptr;
  const std::optional<Role> role = view_.RoleOf(group, options_.node, options_.incarnation);
  if (!role.has_value()) return nullptr;
  const auto found = parities_.find({group, *role, memgest});
  return found == parities_.end() ? nullptr : found->second.get();
}

}  // namespace ring::node
