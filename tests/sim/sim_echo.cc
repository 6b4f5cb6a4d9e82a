#include "tests/sim/sim_echo.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "ring/base/check.h"
#include "ring/base/crc32c.h"
#include "ring/base/status.h"
#include "ring/protocol/client_frame.h"
#include "ring/protocol/hello.h"

namespace ring::sim {
namespace {

constexpr std::uint64_t kLookNs = 20'000;
constexpr std::uint64_t kPatienceNs = 5'000'000;
constexpr std::uint32_t kClientSlots = 64;  // more than a simulated client has operations
constexpr std::uint32_t kSlotCount =
    kClientSlots + SimEcho::kCopiesMax;  // ... and of altered copies
constexpr std::size_t kWord = sizeof(protocol::RequestWord);
constexpr std::size_t kAnswersSize = kSlotCount * protocol::kReplySlotSize;
constexpr std::size_t kPlaceSize = protocol::kRequestSizeMax + protocol::kCell;

}  // namespace

absl::StatusOr<std::shared_ptr<SimEcho>> SimEcho::Open(rdma::sim::SimNetwork* network) {
  std::shared_ptr<SimEcho> self(new SimEcho(network));
  RING_RETURN_IF_ERROR(self->Prepare());
  return self;
}

absl::Status SimEcho::Prepare() {
  rdma::SoftDeviceOptions options;
  options.name = "echo";
  options.arena_size_max = std::uint64_t{1} << 26;
  RING_ASSIGN_OR_RETURN(device_,
                        rdma::sim::SimDevice::Open(network_, network_->AddHost(nullptr), options));
  RING_ASSIGN_OR_RETURN(send_cq_, device_->CreateCompletionQueue(256));
  RING_ASSIGN_OR_RETURN(recv_cq_, device_->CreateCompletionQueue(256));
  const std::size_t size = kAnswersSize + kCopiesMax * kPlaceSize;
  RING_ASSIGN_OR_RETURN(memory_, device_->Allocate(size, rdma::MemoryKind::kShared));
  RING_ASSIGN_OR_RETURN(region_, device_->Register(memory_, size, rdma::kRemoteWrite));
  copies_.resize(kCopiesMax);
  return absl::OkStatus();
}

bool SimEcho::Send(const SentRequest& request, const std::string& address) {
  return SendCopy(request, address, false);
}

bool SimEcho::SendAltered(SentRequest request, const std::string& address) {
  protocol::RequestHeader header;
  std::memcpy(&header, request.bytes.data(), sizeof(header));
  const std::size_t cells = protocol::RequestCells(header.word.key_length, false, 0);
  char* const value = request.bytes.data() + cells * protocol::kCell;
  value[0] = static_cast<char>(value[0] + 1);
  header.value_crc = Crc32c(value, header.value_length);
  std::memcpy(request.bytes.data(), &header, sizeof(header));
  return SendCopy(request, address, true);
}

bool SimEcho::SendCopy(const SentRequest& request, const std::string& address, bool altered) {
  const auto free = std::find_if(copies_.begin(), copies_.end(),
                                 [](const Copy& copy) { return copy.qp == nullptr; });
  if (device_ == nullptr || free == copies_.end()) return false;
  RING_CHECK(request.bytes.size() + kWord <= kPlaceSize) << "size=" << request.bytes.size();
  protocol::ClientHello hello;
  std::tie(hello.client_high, hello.client_low) = request.client;
  hello.reply_slot_count = kSlotCount;
  const rdma::RemoteBuffer answers = region_->remote();
  hello.replies = {answers.address, kAnswersSize, answers.rkey, 0};
  rdma::QueuePairOptions options;
  options.send_cq = send_cq_.get();
  options.recv_cq = recv_cq_.get();
  options.send_depth = 8;
  options.recv_depth = 8;
  absl::StatusOr<std::unique_ptr<rdma::QueuePair>> qp =
      device_->Connect(address, options, protocol::EncodeHello(hello));
  if (!qp.ok()) return false;
  const auto place = static_cast<std::size_t>(free - copies_.begin());
  free->qp = *std::move(qp);
  free->begin = kAnswersSize + place * kPlaceSize;
  free->size = request.bytes.size();
  free->end_ns = network_->now_ns() + kPatienceNs;
  free->altered = altered;
  std::byte* const frame = memory_ + free->begin;
  std::memcpy(frame, request.bytes.data(), request.bytes.size());
  std::memset(frame + request.bytes.size(), 0, kWord);  // nothing is behind it
  protocol::RequestWord word;
  std::memcpy(&word, frame, sizeof(word));
  word.stamp = 1;  // the first of its connection
  std::memcpy(frame, &word, sizeof(word));
  if (altered) {  // its answer is its own
    const auto slot = static_cast<std::uint16_t>(kClientSlots + place);
    std::memcpy(frame + offsetof(protocol::RequestHeader, reply_slot), &slot, sizeof(slot));
    std::memset(memory_ + slot * protocol::kReplySlotSize, 0, sizeof(protocol::ReplyWord));
  }
  LookAgain();
  return true;
}

void SimEcho::Close() {
  copies_.clear();
  region_.reset();
  send_cq_.reset();
  recv_cq_.reset();
  device_.reset();
}

void SimEcho::LookAgain() {
  if (std::exchange(looks_, true)) return;
  network_->events().Schedule(network_->now_ns() + kLookNs, shared_from_this(), 0);
}

void SimEcho::OnEvent(std::uint64_t) {
  looks_ = false;
  if (device_ == nullptr) return;
  device_->Progress();
  rdma::WorkCompletion completions[16];
  while (send_cq_->Poll(absl::MakeSpan(completions)) != 0) {
  }
  while (recv_cq_->Poll(absl::MakeSpan(completions)) != 0) {
  }
  rdma::ConnectionEvent event;
  while (device_->PollEvent(&event)) {
    const auto copy = std::find_if(copies_.begin(), copies_.end(), [&event](const Copy& one) {
      return one.qp != nullptr && one.qp.get() == event.qp;
    });
    if (copy == copies_.end()) continue;
    if (event.kind == rdma::ConnectionEvent::Kind::kEstablished) {
      Post(&*copy, event.private_data);
    } else {
      copy->qp.reset();  // lost
    }
  }
  bool any = false;
  for (Copy& copy : copies_) {
    if (copy.qp != nullptr && copy.altered) LookAtAnswer(&copy);
    if (copy.qp != nullptr && network_->now_ns() >= copy.end_ns) copy.qp.reset();
    any |= copy.qp != nullptr;
  }
  if (any) LookAgain();
}

void SimEcho::LookAtAnswer(Copy* copy) {
  protocol::ReplyWord word;
  const std::size_t slot = kClientSlots + static_cast<std::size_t>(copy - copies_.data());
  std::memcpy(&word, memory_ + slot * protocol::kReplySlotSize, sizeof(word));
  if (word.stamp != 1) return;
  copy->altered = false;  // it was looked at
  altered_taken_ += word.outcome == protocol::Outcome::kOk ? 1 : 0;
}

// The first word last: the node looks at that.
void SimEcho::Post(Copy* copy, absl::string_view accepted) {
  const absl::StatusOr<protocol::ClientAccept> accept =
      protocol::DecodeHello<protocol::ClientAccept>(accepted);
  if (!accept.ok()) return copy->qp.reset();
  for (const auto& [from, size] :
       {std::pair(kWord, copy->size), std::pair(std::size_t{0}, kWord)}) {
    const rdma::Sge sge{memory_ + copy->begin + from, static_cast<std::uint32_t>(size),
                        region_->lkey()};
    rdma::WorkRequest write;
    write.opcode = rdma::Opcode::kWrite;
    write.unacknowledged = true;
    write.sges = absl::MakeConstSpan(&sge, 1);
    write.remote_address = accept->requests.address + from;
    write.rkey = accept->requests.rkey;
    if (!copy->qp->PostSend(write).ok()) return copy->qp.reset();
  }
  rdma::WorkRequest bell;
  if (copy->qp->PeerSleep() != 0) copy->qp->PostSend(bell).IgnoreError();
}

}  // namespace ring::sim
