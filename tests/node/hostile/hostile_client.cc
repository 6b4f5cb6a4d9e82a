#include "tests/node/hostile/hostile_client.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>

#include "rdma/soft/soft_device.h"
#include "ring/base/align.h"
#include "ring/base/check.h"
#include "ring/base/crc32c.h"
#include "tests/support/await.h"

#if defined(__SANITIZE_THREAD__)
extern "C" void AnnotateIgnoreWritesBegin(const char* file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char* file, int line);
#endif

namespace ring::node {
namespace {

constexpr std::size_t kRingCells = protocol::kRequestRingSize / protocol::kCell;
constexpr std::size_t kWordSize = sizeof(protocol::RequestWord);
constexpr auto kDeadline = std::chrono::seconds(30);
constexpr int kTurnsPerPause = 128;

HostileFrame MakeFrame(protocol::Operation operation, const std::string& key) {
  HostileFrame frame;
  frame.header.word.operation = operation;
  frame.header.word.key_length = static_cast<std::uint16_t>(key.size());
  if (key.size() <= protocol::kInlineKeySizeMax) {
    std::memcpy(frame.header.key, key.data(), key.size());
  } else {
    frame.key = key;
  }
  return frame;
}

template <class T>
T Must(absl::StatusOr<T> result) {
  RING_CHECK(result.ok()) << result.status().ToString();
  return *std::move(result);
}

}  // namespace

HostileFrame MakeGet(const std::string& key) { return MakeFrame(protocol::Operation::kGet, key); }

HostileFrame MakePut(const std::string& key, const std::string& value, MemgestId memgest,
                     std::uint64_t seq) {
  HostileFrame frame = MakeFrame(protocol::Operation::kPut, key);
  frame.header.value_length = static_cast<std::uint32_t>(value.size());
  frame.header.value_crc = Crc32c(value.data(), value.size());
  frame.header.memgest = memgest.value();
  frame.header.seq = seq;
  frame.value = value;
  return frame;
}

HostileFrame MakeDelete(const std::string& key, std::uint64_t seq) {
  HostileFrame frame = MakeFrame(protocol::Operation::kDelete, key);
  frame.header.seq = seq;
  return frame;
}

std::string EncodeFrame(const HostileFrame& frame) {
  std::string bytes(reinterpret_cast<const char*>(&frame.header), sizeof(frame.header));
  bytes += frame.key;
  bytes.resize(AlignUp(bytes.size(), protocol::kCell));
  if (frame.extension.has_value()) {
    bytes.append(reinterpret_cast<const char*>(&*frame.extension), sizeof(*frame.extension));
  }
  bytes += frame.value;
  bytes.resize(AlignUp(bytes.size(), protocol::kCell));
  return bytes;
}

#if defined(__SANITIZE_THREAD__)
RaceOnPurpose::RaceOnPurpose() { AnnotateIgnoreWritesBegin(__FILE__, __LINE__); }
RaceOnPurpose::~RaceOnPurpose() { AnnotateIgnoreWritesEnd(__FILE__, __LINE__); }
#else
RaceOnPurpose::RaceOnPurpose() = default;
RaceOnPurpose::~RaceOnPurpose() = default;
#endif

HostileClient::HostileClient(const std::string& name) {
  static std::atomic<std::uint64_t> count{1};
  id_ = count.fetch_add(1);
  rdma::SoftDeviceOptions options;
  options.name = name;
  options.arena_size_max = std::uint64_t{64} << 20;
  options.shareable = true;
  device_ = Must(rdma::OpenSoftDevice(options));
  send_cq_ = Must(device_->CreateCompletionQueue(8192));
  recv_cq_ = Must(device_->CreateCompletionQueue(1024));
  replies_ = Must(device_->Allocate(kRepliesSize, rdma::MemoryKind::kShared));
  staging_ = Must(device_->Allocate(kStagingSize, rdma::MemoryKind::kShared));
  large_ = Must(device_->Allocate(kLargeSize, rdma::MemoryKind::kShared));
  replies_region_ = Must(device_->Register(replies_, kRepliesSize, rdma::kRemoteWrite));
  staging_region_ = Must(device_->Register(staging_, kStagingSize, rdma::kLocalOnly));
  large_region_ =
      Must(device_->Register(large_, kLargeSize, rdma::kRemoteRead | rdma::kRemoteWrite));
  PoisonReplies();
}

HostileClient::~HostileClient() { Vanish(); }

protocol::ClientHello HostileClient::Hello() const {
  protocol::ClientHello hello;
  hello.client_high = 0xbadbadbad0000000 + static_cast<std::uint64_t>(getpid());
  hello.client_low = id_;
  const rdma::RemoteBuffer remote = replies_region_->remote();
  hello.replies = {remote.address, remote.length, remote.rkey, 0};
  hello.reply_slot_count = kSlotCount;
  return hello;
}

rdma::QueuePairOptions HostileClient::qp_options() const {
  return {
      .send_cq = send_cq_.get(), .recv_cq = recv_cq_.get(), .send_depth = 1024, .recv_depth = 64};
}

bool HostileClient::Connect(const std::string& address, const std::string& private_data) {
  Vanish();
  established_ = rejected_ = disconnected_ = false;
  failures_ = 0;
  {
    RaceOnPurpose late_answers;  // of the connection before: they may still land
    PoisonReplies();             // stamps begin anew
  }
  cell_ = 0;
  stamp_ = 1;
  absl::StatusOr<std::unique_ptr<rdma::QueuePair>> qp =
      device_->Connect(address, qp_options(), private_data);
  if (!qp.ok()) {
    reason_ = std::string(qp.status().message().data(), qp.status().message().size());
    return false;
  }
  qp_ = *std::move(qp);
  if (!WaitFor([this] { return established_ || rejected_; })) reason_ = "no answer";
  if (!established_) return false;
  for (std::uint64_t i = 0; i < 32; ++i) qp_->PostRecv(i, {}).IgnoreError();
  return true;
}

void HostileClient::Vanish() { qp_.reset(); }

void HostileClient::Progress() {
  device_->Progress();
  rdma::ConnectionEvent event;
  while (device_->PollEvent(&event)) {
    if (event.qp != qp_.get()) continue;
    switch (event.kind) {
      case rdma::ConnectionEvent::Kind::kEstablished: {
        established_ = true;
        const auto accept = protocol::DecodeHello<protocol::ClientAccept>(event.private_data);
        if (accept.ok()) accept_ = *accept;
        break;
      }
      case rdma::ConnectionEvent::Kind::kRejected:
        rejected_ = true;
        reason_ = event.private_data;
        break;
      case rdma::ConnectionEvent::Kind::kDisconnected:
        disconnected_ = true;
        break;
      case rdma::ConnectionEvent::Kind::kConnectRequest:
        break;
    }
  }
  std::array<rdma::WorkCompletion, 64> completions;
  for (std::size_t n = 0; (n = send_cq_->Poll(absl::MakeSpan(completions))) > 0;) {
    for (std::size_t i = 0; i < n; ++i) {
      failures_ += completions[i].status != rdma::WcStatus::kSuccess ? 1 : 0;
    }
  }
  for (std::size_t n = 0; (n = recv_cq_->Poll(absl::MakeSpan(completions))) > 0;) {
    for (std::size_t i = 0; i < n; ++i) {
      if (completions[i].status != rdma::WcStatus::kSuccess) continue;
      ++bells_;
      completions[i].qp->PostRecv(completions[i].wr_id, {}).IgnoreError();
    }
  }
}

bool HostileClient::WaitFor(absl::FunctionRef<bool()> condition) {
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  for (;;) {
    // A device whose sockets are quiet asks the kernel once in many turns.
    for (int turn = 0; turn < kTurnsPerPause; ++turn) {
      Progress();
      if (condition()) return true;
    }
    if (std::chrono::steady_clock::now() > deadline) return false;
    ring::testing::LetOthersRun();
  }
}

void HostileClient::Post(const std::string& bytes, std::uint64_t address, std::uint32_t rkey) {
  RING_CHECK(bytes.size() <= kStagingSize);
  if (staging_at_ + bytes.size() > kStagingSize) staging_at_ = 0;
  std::memcpy(staging_ + staging_at_, bytes.data(), bytes.size());
  const rdma::Sge sge = {staging_ + staging_at_, static_cast<std::uint32_t>(bytes.size()),
                         staging_region_->lkey()};
  staging_at_ = AlignUp(staging_at_ + bytes.size(), protocol::kCell);
  rdma::WorkRequest request;
  request.opcode = rdma::Opcode::kWrite;
  request.signaled = true;
  request.sges = absl::MakeConstSpan(&sge, 1);
  request.remote_address = address;
  request.rkey = rkey;
  if (qp_ != nullptr) {
    WaitFor([&] { return qp_->PostSend(request).code() != absl::StatusCode::kResourceExhausted; });
  }
}

void HostileClient::WriteRing(std::size_t offset, const std::string& bytes) {
  Post(bytes, accept_.requests.address + offset, accept_.requests.rkey);
}

void HostileClient::WriteAt(const rdma::RemoteBuffer& target, const std::string& bytes) {
  Post(bytes, target.address, target.rkey);
}

void HostileClient::RingDoorbell(std::size_t size) {
  const rdma::Sge sge = {staging_, static_cast<std::uint32_t>(size), staging_region_->lkey()};
  rdma::WorkRequest request;
  request.opcode = rdma::Opcode::kSend;
  request.signaled = true;
  if (size > 0) request.sges = absl::MakeConstSpan(&sge, 1);
  qp_->PostSend(request).IgnoreError();
}

std::uint32_t HostileClient::Send(const HostileFrame& frame) {
  std::string bytes = EncodeFrame(frame);
  const std::size_t cells = bytes.size() / protocol::kCell;
  if (cell_ + cells > kRingCells - 1) {
    protocol::RequestWord pad;
    pad.stamp = stamp_;
    if (++stamp_ == 0) stamp_ = 1;
    WriteRing(0, std::string(kWordSize, '\0'));
    WriteRing(cell_ * protocol::kCell,
              std::string(reinterpret_cast<const char*>(&pad), sizeof(pad)));
    cell_ = 0;
  }
  const std::uint32_t stamp = stamp_;
  if (++stamp_ == 0) stamp_ = 1;
  std::memcpy(bytes.data(), &stamp, sizeof(stamp));
  const std::size_t at = cell_ * protocol::kCell;
  WriteRing(at + kWordSize, bytes.substr(kWordSize) + std::string(kWordSize, '\0'));
  WriteRing(at, bytes.substr(0, kWordSize));
  cell_ += cells;
  if (qp_ != nullptr && qp_->PeerSleep() != 0) RingDoorbell();
  return stamp;
}

bool HostileClient::AwaitReply(std::uint16_t slot, std::uint32_t stamp) {
  const auto* const word =
      reinterpret_cast<const std::uint32_t*>(replies_ + slot * protocol::kReplySlotSize);
  return WaitFor([&] { return __atomic_load_n(word, __ATOMIC_ACQUIRE) == stamp; });
}

bool HostileClient::AwaitDisconnect() {
  return WaitFor([this] { return disconnected_; });
}

protocol::Outcome HostileClient::Ask(const HostileFrame& frame) {
  const std::uint32_t stamp = Send(frame);
  if (!AwaitReply(frame.header.reply_slot, stamp)) return protocol::Outcome::kDataLost;
  return Reply(frame.header.reply_slot).word.outcome;
}

protocol::ReplyHeader HostileClient::Reply(std::uint16_t slot) const {
  protocol::ReplyHeader header;
  std::memcpy(&header, replies_ + slot * protocol::kReplySlotSize, sizeof(header));
  return header;
}

std::string HostileClient::InlineValue(std::uint16_t slot) const {
  return BytesBehindHeader(slot, Reply(slot).value_length);
}

std::string HostileClient::BytesBehindHeader(std::uint16_t slot, std::size_t size) const {
  const std::byte* const at = replies_ + slot * protocol::kReplySlotSize + protocol::kCell;
  return std::string(reinterpret_cast<const char*>(at), size);
}

void HostileClient::PoisonReplies() {
  std::memset(replies_, static_cast<int>(kPoison), kRepliesSize);
}

std::size_t HostileClient::StrayBytes(const std::vector<std::size_t>& sizes) const {
  std::size_t stray = 0;
  for (std::size_t slot = 0; slot < kSlotCount; ++slot) {
    const std::size_t from = slot < sizes.size() ? sizes[slot] : 0;
    for (std::size_t i = from; i < protocol::kReplySlotSize; ++i) {
      stray += replies_[slot * protocol::kReplySlotSize + i] != kPoison ? 1 : 0;
    }
  }
  return stray;
}

protocol::RequestExtension HostileClient::LargeBuffer(std::size_t offset,
                                                      std::uint32_t length) const {
  protocol::RequestExtension extension;
  extension.buffer_address = large_region_->remote().address + offset;
  extension.buffer_rkey = large_region_->rkey();
  extension.buffer_length = length;
  return extension;
}

}  // namespace ring::node
