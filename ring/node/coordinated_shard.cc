#include "ring/node/coordinated_shard.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/base/log.h"

namespace ring::node {
namespace {
constexpr std::uint64_t kRetryNs = 50'000'000;
constexpr std::uint32_t kLogSendDepth = 1024;
}  // namespace

CoordinatedShard::CoordinatedShard(const ShardContext* context, const cluster::View& view,
                                   GroupId group, ShardId shard,
                                   std::vector<std::string> addresses_by_node,
                                   std::uint16_t first_writer_id, std::size_t index)
    : context_(context),
      view_(view),
      group_(group),
      shard_(shard),
      epoch_(view.groups[group.value()].epoch),
      addresses_(std::move(addresses_by_node)),
      first_writer_id_(first_writer_id),
      index_(index) {
  for (int role = 0; role < view.s + view.d; ++role) {
    if (role == shard.value()) continue;
    Link link;
    link.role = Role(static_cast<std::uint16_t>(role));
    link.peer = view.groups[group.value()].roles[static_cast<std::size_t>(role)];
    links_.push_back(std::move(link));
  }
}

CoordinatedShard::~CoordinatedShard() {
  coordinator_.reset();  // its writers refer to the links
  for (Link& link : links_) {
    link.qp.reset();
    context_->credits->GiveBack(std::move(link.credit));
    context_->staging->GiveBack(std::move(link.staging));
  }
}

void CoordinatedShard::Progress(std::uint64_t now_ns) {
  if (serving()) return;
  bool all = true;
  for (Link& link : links_) {
    if (link.peer == cluster::kNoNode) {
      link.last_error = "nobody holds the role";
      all = false;
      continue;
    }
    if (link.qp == nullptr && now_ns >= link.retry_ns) Connect(link, now_ns);
    all &= link.established;
  }
  if (all) Build();
}

void CoordinatedShard::Connect(Link& link, std::uint64_t now_ns) {
  link.retry_ns = now_ns + kRetryNs;
  if (link.credit.address == nullptr) {
    absl::StatusOr<BufferPool::Buffer> credit = context_->credits->Take(rdma::kRemoteWrite);
    if (!credit.ok()) {
      link.last_error = std::string(credit.status().message());
      return;
    }
    link.credit = *std::move(credit);
  }
  const rdma::RemoteBuffer credit = link.credit.region->remote();
  protocol::LogHello hello;
  hello.cluster = view_.cluster;
  hello.node = context_->node.value();
  hello.epoch = epoch_.value();
  hello.incarnation = context_->incarnation.value();
  hello.group = group_.value();
  hello.shard = shard_.value();
  hello.credit = {credit.address, credit.length, credit.rkey, 0};
  absl::StatusOr<std::unique_ptr<rdma::QueuePair>> qp =
      context_->device->Connect(addresses_[link.peer.value()],
                                {.send_cq = context_->log_cq,
                                 .recv_cq = context_->log_cq,
                                 .send_depth = kLogSendDepth,
                                 .recv_depth = 1},
                                protocol::EncodeHello(hello));
  if (!qp.ok()) {
    link.last_error = std::string(qp.status().message());
    return;
  }
  link.qp = *std::move(qp);
}

bool CoordinatedShard::OnEvent(const rdma::ConnectionEvent& event, std::uint64_t now_ns) {
  const auto found = std::find_if(links_.begin(), links_.end(),
                                  [&event](const Link& link) { return link.qp.get() == event.qp; });
  if (found == links_.end()) return false;
  Link& link = *found;
  if (event.kind == rdma::ConnectionEvent::Kind::kEstablished) {
    absl::StatusOr<protocol::LogAccept> accept =
        protocol::DecodeHello<protocol::LogAccept>(event.private_data);
    if (accept.ok() && accept->ring.length == memgest::kRingControlSize + context_->ring_size) {
      link.accept = *accept;
      link.established = true;
      return true;
    }
    link.last_error =
        accept.ok() ? absl::StrCat("ring length=", accept->ring.length,
                                   " expected=", memgest::kRingControlSize + context_->ring_size)
                    : std::string(accept.status().message());
  } else {
    link.last_error = event.private_data.empty() ? "no answer" : event.private_data;
    if (serving()) {
      RING_LOG(WARNING) << "log connection lost group=" << group_.value()
                        << " shard=" << shard_.value() << " member_node=" << link.peer.value();
      return true;  // the writer finds its queue pair in error
    }
  }
  link.established = false;
  link.qp.reset();
  link.retry_ns = now_ns + kRetryNs;
  return true;
}

void CoordinatedShard::Build() {
  coordinator::ShardOptions options;
  options.group = group_;
  options.shard = shard_;
  options.epoch = epoch_;
  options.s = view_.s;
  options.d = view_.d;
  options.value_size_max = view_.value_size_max;
  options.hash_seed = context_->hash_seed;
  for (Link& link : links_) {
    if (link.staging.address != nullptr) continue;
    absl::StatusOr<BufferPool::Buffer> staging = context_->staging->Take(rdma::kLocalOnly);
    if (!staging.ok()) {
      link.last_error = std::string(staging.status().message());
      return;
    }
    link.staging = *std::move(staging);
  }
  coordinator_ = std::make_unique<coordinator::ShardCoordinator>(options, context_->device,
                                                                 context_->arena, context_->sink);
  for (std::size_t i = 0; i < links_.size(); ++i) {
    Link& link = links_[i];
    memgest::LogWriterOptions writer;
    writer.qp = link.qp.get();
    writer.ring = {link.accept.ring.address, link.accept.ring.length, link.accept.ring.rkey};
    writer.credit = reinterpret_cast<const std::atomic<std::uint64_t>*>(link.credit.address);
    writer.staging = link.staging.address;
    writer.staging_size = static_cast<std::uint32_t>(context_->staging->size());
    writer.staging_lkey = link.staging.region->lkey();
    writer.writer_id = static_cast<std::uint16_t>(first_writer_id_ + i);
    writer.epoch = epoch_;
    writer.send_depth = kLogSendDepth;
    link.writer =
        coordinator_->log().AddWriter(link.role, std::make_unique<memgest::LogWriter>(writer));
  }
  for (const protocol::MemgestDescriptor& descriptor : view_.memgests) AddMemgest(descriptor);
}

void CoordinatedShard::AddMemgest(const protocol::MemgestDescriptor& descriptor) {
  if (descriptor.state == protocol::MemgestState::kDeleted) return;
  coordinator_->AddMemgest(descriptor);
}

void CoordinatedShard::ApplyView(const cluster::View& view) {
  view_ = view;
  if (!serving()) return;
  for (const protocol::MemgestDescriptor& descriptor : view_.memgests) {
    if (descriptor.state == protocol::MemgestState::kDeleted) {
      coordinator_->RemoveMemgest(descriptor.id);
    } else if (coordinator_->FindMemgest(descriptor.id) == nullptr) {
      AddMemgest(descriptor);
    } else {
      coordinator_->SetMemgestState(descriptor.id, descriptor.state);
    }
  }
}

void CoordinatedShard::RingDoorbells() {
  if (!coordinator_->log().TakeTold()) return;
  for (Link& link : links_) {
    if (link.writer->shared_position() == link.rung_position || link.writer->broken()) continue;
    link.rung_position = link.writer->shared_position();
    const bool sleeping = link.qp->PeerSleeping();
    // Once a sleep: a member that was stopped takes no bells, and looks around by itself when it
    // goes on.
    if (sleeping && !link.rung) link.writer->RingDoorbell();
    link.rung = sleeping;
  }
}

memgest::LogWriter* CoordinatedShard::WriterById(std::uint16_t writer_id) {
  const std::size_t i = static_cast<std::size_t>(writer_id - first_writer_id_);
  return writer_id >= first_writer_id_ && i < links_.size() ? links_[i].writer : nullptr;
}

std::string CoordinatedShard::Missing() const {
  std::string missing;
  for (const Link& link : links_) {
    if (link.established) continue;
    absl::StrAppend(&missing, missing.empty() ? "" : ", ", "group ", group_.value(), " shard ",
                    shard_.value(), " to node ", link.peer.value(),
                    link.last_error.empty() ? "" : ": ", link.last_error);
  }
  return missing;
}

}  // namespace ring::node
