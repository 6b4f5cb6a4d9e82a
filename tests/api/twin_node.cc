#include "tests/api/twin_node.h"

#include <poll.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <thread>

#include "absl/strings/match.h"
#include "rdma/soft/soft_device.h"
#include "ring/base/check.h"
#include "ring/base/crc32c.h"
#include "ring/base/limits.h"
#include "ring/cluster/routing.h"
#include "tests/support/await.h"

namespace ring::testing {

using protocol::kCell;
using protocol::Operation;
using protocol::Outcome;

struct TwinNode::Peer {
  protocol::ClientHello hello;
  std::unique_ptr<rdma::QueuePair> qp;
  std::byte* ring = nullptr;
  std::unique_ptr<rdma::MemoryRegion> region;
  std::size_t cell = 0;
  std::uint32_t stamp = 1;
  bool dead = false;
};

namespace {

constexpr std::size_t kStagingSize = std::size_t{32} << 20;
constexpr std::uint32_t kDoorbellCount = 64;

}  // namespace

std::unique_ptr<TwinNode> TwinNode::Start(int id, std::string address, TwinStore* store) {
  std::unique_ptr<TwinNode> node(new TwinNode(id, std::move(address), store));
  std::atomic<int> started{0};
  node->thread_ = std::thread([&node, &started] { node->Run(&started); });
  started.wait(0);
  return node;
}

TwinNode::TwinNode(int id, std::string address, TwinStore* store)
    : id_(id), address_(std::move(address)), store_(store) {}

TwinNode::~TwinNode() {
  stop_ = true;
  thread_.join();
}

void TwinNode::Run(std::atomic<int>* started) {
  rdma::SoftDeviceOptions options;
  options.name = "twin";
  options.shareable = absl::StartsWith(address_, "shm:");
  auto device = rdma::OpenSoftDevice(options);
  RING_CHECK(device.ok()) << device.status();
  device_ = *std::move(device);
  cq_ = *device_->CreateCompletionQueue(4096);
  recv_cq_ = *device_->CreateCompletionQueue(4096);
  staging_ = *device_->Allocate(kStagingSize, rdma::MemoryKind::kShared);
  staging_region_ = *device_->Register(staging_, kStagingSize, rdma::kLocalOnly);
  auto address = device_->Listen(address_);
  RING_CHECK(address.ok()) << address.status();
  address_ = *address;
  started->store(1);
  started->notify_one();
  while (!stop_) {
    if (Turn()) continue;
    device_->SetSleeping(true);
    recv_cq_->Arm();
    if (!Turn()) {
      pollfd descriptor{device_->event_fd(), POLLIN, 0};
      ::poll(&descriptor, 1, 20);
    }
    device_->SetSleeping(false);
  }
  peers_.clear();
  staging_region_.reset();
  recv_cq_.reset();
  cq_.reset();
  device_.reset();
}

bool TwinNode::Turn() {
  bool progress = device_->Progress();
  rdma::ConnectionEvent event;
  while (device_->PollEvent(&event)) {
    OnEvent(event);
    progress = true;
  }
  rdma::WorkCompletion completions[16];
  for (std::size_t i = recv_cq_->Poll(absl::MakeSpan(completions)); i-- > 0;) {
    if (completions[i].status == rdma::WcStatus::kSuccess) {
      (void)completions[i].qp->PostRecv(0, {});
    }
    progress = true;
  }
  if (!faults_.silent) {
    for (const std::unique_ptr<Peer>& peer : peers_) {
      while (!peer->dead && ServeOne(peer.get())) progress = true;
    }
  }
  if (faults_.reorder) {
    for (std::size_t i = answers_.size(); i > 1; --i) {
      std::swap(answers_[i - 1], answers_[random_.Below(i)]);
    }
  }
  for (const Answer& answer : answers_) {
    if (!answer.peer->dead) Send(answer);
  }
  answers_.clear();
  std::erase_if(peers_, [](const std::unique_ptr<Peer>& peer) {
    return peer->dead || peer->qp->state() == rdma::QpState::kError;
  });
  return progress;
}

void TwinNode::OnEvent(const rdma::ConnectionEvent& event) {
  if (event.kind != rdma::ConnectionEvent::Kind::kConnectRequest) return;
  auto hello = protocol::DecodeHello<protocol::ClientHello>(event.private_data);
  if (!hello.ok()) return device_->Reject(event.request, hello.status().ToString());
  auto peer = std::make_unique<Peer>();
  peer->hello = *hello;
  peer->ring = *device_->Allocate(protocol::kRequestRingSize, rdma::MemoryKind::kShared);
  peer->region = *device_->Register(peer->ring, protocol::kRequestRingSize, rdma::kRemoteWrite);
  protocol::ClientAccept accept;
  const rdma::RemoteBuffer remote = peer->region->remote();
  accept.requests = {remote.address, remote.length, remote.rkey, 0};
  accept.node = static_cast<std::uint32_t>(id_);
  {
    MutexLock lock(store_->mutex);
    accept.cluster = store_->view.cluster;
    accept.founding = store_->view.founding;
  }
  rdma::QueuePairOptions options;
  options.send_cq = cq_.get();
  options.recv_cq = recv_cq_.get();
  auto qp = device_->Accept(event.request, options, protocol::EncodeHello(accept));
  if (!qp.ok()) return;
  peer->qp = *std::move(qp);
  for (std::uint32_t i = 0; i < kDoorbellCount; ++i) RING_CHECK(peer->qp->PostRecv(i, {}).ok());
  peers_.push_back(std::move(peer));
  ++client_count_;
}

bool TwinNode::ServeOne(Peer* peer) {
  const auto* word = reinterpret_cast<const std::uint32_t*>(peer->ring + peer->cell * kCell);
  if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != peer->stamp) return false;
  protocol::RequestView view;
  const Outcome outcome = protocol::DecodeRequest(peer->ring, peer->cell, kValueSizeMax, &view);
  RING_CHECK(outcome == Outcome::kOk) << "outcome=" << static_cast<int>(outcome);
  RING_CHECK(view.header.word.stamp == peer->stamp);
  if (++peer->stamp == 0) peer->stamp = 1;
  if (view.header.word.operation == Operation::kPad) {
    peer->cell = 0;
    ++pad_count_;
    return true;
  }
  peer->cell += view.size_cells;
  ++request_count_;
  RING_CHECK(view.header.reply_slot < peer->hello.reply_slot_count);
  std::string value(view.header.value_length, '\0');
  if (view.value != nullptr) {
    std::memcpy(value.data(), view.value, value.size());
  } else if (!value.empty()) {
    Write(peer, staging_, value.size(), view.extension.buffer_address, view.extension.buffer_rkey,
          rdma::Opcode::kRead);
    std::memcpy(value.data(), staging_, value.size());
  }
  Execute(peer, view, std::move(value));
  return true;
}

void TwinNode::Execute(Peer* peer, const protocol::RequestView& view, std::string value) {
  Answer answer{peer, view.header.word.stamp, view.header.reply_slot, {}, {}, false, {}};
  answer.large = (view.header.word.flags & protocol::kLargeValue) != 0;
  answer.extension = view.extension;
  bool executed = false;
  Outcome outcome = Outcome::kOk;
  {
    MutexLock lock(store_->mutex);
    answer.header.view_epoch = store_->view.epoch;
    const bool about_view = view.header.word.operation == Operation::kGetView;
    const bool about_owner = view.header.word.operation == Operation::kWhoOwns;
    NodeId owner(static_cast<std::uint32_t>(id_));
    if (!about_view) {
      const cluster::Routing routing(store_->view.s, store_->view.d);
      const auto question = std::bit_cast<protocol::OwnerQuestion>(view.header.if_version);
      const cluster::Place place =
          about_owner ? routing.OfSlot(question.slot) : routing.OfKey(view.key);
      owner = store_->view.Coordinator(place.group, place.shard);
    }
    answer.header.owner = owner.value();
    if (about_view) {
      answer.value = cluster::EncodeView(store_->view);
    } else if (owner.value() != static_cast<std::uint32_t>(id_)) {
      outcome = Outcome::kWrongOwner;
    } else if (about_owner) {
      outcome = Outcome::kOk;
    } else if (faults_.refuse_count > 0) {
      --faults_.refuse_count;
      outcome = faults_.refuse_with;
    } else if (view.header.seq != 0) {
      outcome = Mutate(peer, view, std::move(value), &answer.header);
      executed = true;
    } else if ((view.header.word.flags & protocol::kDegraded) != 0) {
      outcome = Outcome::kBadRequest;  // as nodes that take no faults
    } else {
      outcome = Read(view, &answer);
    }
  }
  if (executed && faults_.drop_after_execute > 0) {
    --faults_.drop_after_execute;
    faults_.refuse_count += faults_.refuse_after_drop;
    peer->qp->Reset();
    peer->dead = true;
    return;
  }
  answer.header.word.outcome = outcome;
  answers_.push_back(std::move(answer));
}

Outcome TwinNode::Mutate(Peer* peer, const protocol::RequestView& view, std::string value,
                         protocol::ReplyHeader* reply) {
  const protocol::RequestHeader& header = view.header;
  RING_CHECK(header.incomplete_delta < protocol::kReplySlotCountMax);  // X4
  if (header.word.operation == Operation::kPut &&
      Crc32c(value.data(), value.size()) != header.value_crc) {
    return Outcome::kBadChecksum;
  }
  const std::string key(view.key.data(), view.key.size());
  const cluster::Place place = cluster::Routing(store_->view.s, store_->view.d).OfKey(key);
  const TwinStore::Shard id{place.group.value() * 100 + place.shard.value(),
                            {peer->hello.client_low, header.seq}};
  if (const auto old = store_->records.find(id); old != store_->records.end()) {  // X1
    ++store_->duplicate_count;
    reply->version = old->second.version;
    reply->word.memgest = old->second.memgest;
    return old->second.outcome;
  }
  const bool default_memgest = (header.word.flags & protocol::kDefaultMemgest) != 0;
  const MemgestId memgest =
      default_memgest ? store_->view.default_memgest : MemgestId(header.memgest);
  const bool stores = header.word.operation != Operation::kDelete;
  if (stores && store_->view.FindMemgest(memgest) == nullptr) return Outcome::kNoSuchMemgest;
  const auto item = store_->items.find(key);
  const std::uint64_t have = item == store_->items.end() ? 0 : item->second.version;
  reply->version = have;
  if ((header.word.flags & protocol::kIfVersion) != 0 && have != header.if_version) {
    return Outcome::kVersionMismatch;
  }
  if (header.word.operation != Operation::kPut && have == 0) return Outcome::kNotFound;
  ++store_->executed_count;
  reply->version = ++store_->last_version;
  reply->word.memgest = memgest.value();
  if (header.word.operation == Operation::kDelete) {
    store_->items.erase(item);
  } else if (header.word.operation == Operation::kMove) {
    item->second.version = reply->version;
    item->second.memgest = memgest.value();
  } else {
    store_->items[key] = {std::move(value), reply->version, memgest.value()};
  }
  store_->records[id] = {Outcome::kOk, reply->version, memgest.value()};
  return Outcome::kOk;
}

Outcome TwinNode::Read(const protocol::RequestView& view, Answer* answer) {
  const auto item = store_->items.find(std::string(view.key.data(), view.key.size()));
  if (item == store_->items.end()) return Outcome::kNotFound;
  answer->header.version = item->second.version;
  answer->header.word.memgest = item->second.memgest;
  answer->header.value_length = static_cast<std::uint32_t>(item->second.value.size());
  if (view.header.word.operation == Operation::kGet) answer->value = item->second.value;
  return Outcome::kOk;
}

void TwinNode::Send(const Answer& answer) {
  protocol::ReplyHeader header = answer.header;
  header.word.stamp = answer.stamp;
  const std::string& value = answer.value;
  if (!value.empty()) {
    header.value_length = static_cast<std::uint32_t>(value.size());
    header.value_crc = Crc32c(value.data(), value.size());
    if (faults_.damage_value_count > 0) {
      --faults_.damage_value_count;
      header.value_crc ^= 1;
    }
  }
  const std::uint64_t slot =
      answer.peer->hello.replies.address + answer.slot * protocol::kReplySlotSize;
  const std::uint32_t rkey = answer.peer->hello.replies.rkey;
  std::size_t inline_size = value.size();
  if (value.size() > protocol::kInlineValueSizeMax) {
    inline_size = 0;
    if (answer.large && answer.extension.buffer_length >= value.size()) {
      header.word.flags |= protocol::kValueInBuffer;
      std::memcpy(staging_, value.data(), value.size());
      Write(answer.peer, staging_, value.size(), answer.extension.buffer_address,
            answer.extension.buffer_rkey, rdma::Opcode::kWrite);
    } else {
      header.word.outcome = Outcome::kReplyTooLarge;
    }
  }
  std::memcpy(staging_, &header, sizeof(header));
  std::memcpy(staging_ + kCell, value.data(), inline_size);
  Write(answer.peer, staging_ + 8, kCell - 8 + inline_size, slot + 8, rkey, rdma::Opcode::kWrite);
  Write(answer.peer, staging_, 8, slot, rkey, rdma::Opcode::kWrite);
  ++answer_count_;
  if (answer.peer->qp->PeerSleep() != 0) {
    rdma::WorkRequest doorbell;
    doorbell.opcode = rdma::Opcode::kSend;
    (void)answer.peer->qp->PostSend(doorbell);
  }
}

// Posts one request and waits for its completion: the twin is simple, not fast.
void TwinNode::Write(Peer* peer, const std::byte* source, std::size_t size, std::uint64_t address,
                     std::uint32_t rkey, rdma::Opcode opcode) {
  rdma::Sge sge{const_cast<std::byte*>(source), static_cast<std::uint32_t>(size),
                staging_region_->lkey()};
  rdma::WorkRequest request;
  request.wr_id = 1;
  request.opcode = opcode;
  request.signaled = true;
  request.sges = absl::MakeConstSpan(&sge, 1);
  request.remote_address = address;
  request.rkey = rkey;
  if (!peer->qp->PostSend(request).ok()) {
    peer->dead = true;
    return;
  }
  rdma::WorkCompletion completion;
  while (cq_->Poll(absl::MakeSpan(&completion, 1)) == 0 || completion.wr_id != 1) {
    if (stop_) return;
    // Over tcp the client acknowledges, for which it needs a core.
    if (!device_->Progress()) ring::testing::LetOthersRun();
  }
  if (completion.status != rdma::WcStatus::kSuccess) peer->dead = true;
}

}  // namespace ring::testing
