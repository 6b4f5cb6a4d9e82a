// What a client is answered: the accept of its hello, the view, and replies whose headers, values
// and check sums say anything, in any order, into slots and large buffers. The client must not
// read or write outside of what it has, and every operation ends at most once.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/client_core.h"
#include "api/client_requests.h"
#include "rdma/soft/soft_device.h"
#include "ring/base/check.h"
#include "ring/base/crc32c.h"
#include "ring/base/random.h"
#include "ring/protocol/client_frame.h"
#include "ring/protocol/hello.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

namespace api = ring::api;
namespace protocol = ring::protocol;
namespace rdma = ring::rdma;

constexpr std::size_t kValueMax = 64 << 10;
constexpr char kAddress[] = "local:client-reply-fuzz";

using Input = ring::testing::FuzzInput;

class FuzzClock final : public ring::Clock {
 public:
  std::uint64_t NowNs() const override { return now_ns; }
  std::uint64_t now_ns = 1'000'000'000;
};

ring::cluster::View RightView() {
  ring::cluster::NodeInfo info;
  info.name = "n";
  info.local_address = kAddress;
  protocol::MemgestDescriptor one;
  one.name = "one";
  return ring::cluster::InitialView(1, 0, {info}, {one});
}

std::unique_ptr<rdma::Device> OpenDevice() {
  rdma::SoftDeviceOptions options;
  options.arena_size_max = std::uint64_t{32} << 20;  // what is mapped is what an input costs
  options.qp_count_max = 16;
  options.recv_depth_max = 64;
  return *rdma::OpenSoftDevice(options);
}

// A node in the same thread, which lies as the input says.
class LyingNode {
 public:
  explicit LyingNode(Input* input) : input_(*input), device_(OpenDevice()) {
    cq_ = *device_->CreateCompletionQueue(1024);
    staging_ = *device_->Allocate(kStagingSize, rdma::MemoryKind::kShared);
    region_ = *device_->Register(staging_, kStagingSize, rdma::kLocalOnly);
    RING_CHECK(device_->Listen(kAddress).ok());
  }

  void Turn() {
    device_->Progress();
    rdma::ConnectionEvent event;
    while (device_->PollEvent(&event)) {
      if (event.kind == rdma::ConnectionEvent::Kind::kConnectRequest) Accept(event);
    }
    std::erase_if(peers_, [](const std::unique_ptr<Peer>& peer) {
      return peer->qp->state() != rdma::QpState::kReadyToSend;
    });
    for (const std::unique_ptr<Peer>& peer : peers_) TakeRequests(peer.get());
  }
  // Answers one request that is owed an answer: rightly the view, unless it lies about that, too.
  void Answer() {
    for (const std::unique_ptr<Peer>& peer : peers_) {
      if (peer->owed.empty()) continue;
      const std::size_t which = input_.Byte() % peer->owed.size();
      const Owed owed = peer->owed[which];
      const std::uint8_t choice = input_.Byte();
      // Sometimes a second answer to the same request follows.
      if ((choice & 0x40) == 0) {
        peer->owed.erase(peer->owed.begin() + static_cast<std::ptrdiff_t>(which));
      }
      if (owed.operation == protocol::Operation::kGetView && (choice & 0x80) == 0) {
        AnswerView(peer.get(), owed);
      } else {
        Lie(peer.get(), owed, choice);
      }
      return;
    }
  }

 private:
  static constexpr std::size_t kStagingSize = std::size_t{1} << 20;
  struct Owed {
    protocol::Operation operation;
    std::uint32_t stamp;
    std::uint16_t slot;
    protocol::RequestExtension extension;
  };
  struct Peer {
    protocol::ClientHello hello;
    std::unique_ptr<rdma::QueuePair> qp;
    std::byte* ring = nullptr;
    std::unique_ptr<rdma::MemoryRegion> region;
    std::size_t cell = 0;
    std::uint32_t stamp = 1;
    std::vector<Owed> owed;
    bool lied_to = false;
  };

  void Accept(const rdma::ConnectionEvent& event) {
    auto hello = protocol::DecodeHello<protocol::ClientHello>(event.private_data);
    RING_CHECK(hello.ok()) << hello.status();
    auto peer = std::make_unique<Peer>();
    peer->hello = *hello;
    auto ring = device_->Allocate(protocol::kRequestRingSize, rdma::MemoryKind::kShared);
    if (!ring.ok()) return device_->Reject(event.request, "full");
    peer->ring = *ring;
    peer->region = *device_->Register(peer->ring, protocol::kRequestRingSize, rdma::kRemoteWrite);
    protocol::ClientAccept accept;
    const rdma::RemoteBuffer remote = peer->region->remote();
    accept.requests = {remote.address, remote.length, remote.rkey, 0};
    std::string said = protocol::EncodeHello(accept);
    if (const std::uint8_t lie = input_.Byte(); lie >= 0xc0) {
      said[input_.Byte() % said.size()] = static_cast<char>(input_.Byte());
      peer->lied_to = true;
      if (lie >= 0xf0) said.resize(input_.Byte() % said.size());
    }
    rdma::QueuePairOptions options;
    options.send_cq = cq_.get();
    options.recv_cq = cq_.get();
    auto qp = device_->Accept(event.request, options, said);
    if (!qp.ok()) return;
    peer->qp = *std::move(qp);
    for (std::uint32_t i = 0; i < 32; ++i) RING_CHECK(peer->qp->PostRecv(i, {}).ok());
    peers_.push_back(std::move(peer));
  }

  void TakeRequests(Peer* peer) {
    for (;;) {
      const auto* word =
          reinterpret_cast<const std::uint32_t*>(peer->ring + peer->cell * protocol::kCell);
      if (*word != peer->stamp) return;
      protocol::RequestView view;
      // Only a client that was lied to about where the ring is sends what is no request.
      const protocol::Outcome outcome =
          protocol::DecodeRequest(peer->ring, peer->cell, kValueMax, &view);
      RING_CHECK(outcome == protocol::Outcome::kOk || peer->lied_to)
          << "outcome=" << static_cast<int>(outcome) << " cell=" << peer->cell
          << " operation=" << static_cast<int>(view.header.word.operation);
      if (outcome != protocol::Outcome::kOk) return peer->qp->Reset();
      if (++peer->stamp == 0) peer->stamp = 1;
      if (view.header.word.operation == protocol::Operation::kPad) {
        peer->cell = 0;
        continue;
      }
      peer->cell += view.size_cells;
      RING_CHECK(view.header.reply_slot < peer->hello.reply_slot_count || peer->lied_to);
      const bool large = (view.header.word.flags & protocol::kLargeValue) != 0;
      peer->owed.push_back({view.header.word.operation, view.header.word.stamp,
                            view.header.reply_slot,
                            large ? view.extension : protocol::RequestExtension{}});
    }
  }

  void AnswerView(Peer* peer, const Owed& owed) {
    const std::string value = ring::cluster::EncodeView(RightView());
    protocol::ReplyHeader header;
    header.view_epoch = RightView().epoch;
    header.value_length = static_cast<std::uint32_t>(value.size());
    header.value_crc = ring::Crc32c(value.data(), value.size());
    std::memcpy(staging_ + protocol::kCell, value.data(), value.size());
    Reply(peer, owed, header, value.size());
  }

  void Lie(Peer* peer, const Owed& owed, std::uint8_t choice) {
    protocol::ReplyHeader header;
    input_.Copy(&header, sizeof(header));
    if ((choice & 1) != 0) header.word.outcome = protocol::Outcome::kOk;
    const std::size_t size = std::size_t{input_.Byte()} << (choice % 8);
    std::byte* const value = staging_ + protocol::kCell;
    std::memset(value, 0, size);
    input_.Copy(value, std::min<std::size_t>(size, 256));
    if ((choice & 2) != 0) header.value_length = static_cast<std::uint32_t>(size);
    if ((choice & 4) != 0) header.value_crc = ring::Crc32c(value, size);
    const std::size_t room = owed.extension.buffer_length;
    if ((choice & 8) != 0 && room != 0) {
      header.word.flags |= protocol::kValueInBuffer;
      Write(peer, value, std::min(size, room), owed.extension.buffer_address,
            owed.extension.buffer_rkey);
    }
    Reply(peer, owed, header, std::min(size, protocol::kInlineValueSizeMax));
  }

  // The value stands behind the header's place in the staging memory.
  void Reply(Peer* peer, const Owed& owed, protocol::ReplyHeader header, std::size_t inline_size) {
    header.word.stamp = owed.stamp;
    std::memcpy(staging_, &header, sizeof(header));
    const std::uint64_t slot = peer->hello.replies.address + owed.slot * protocol::kReplySlotSize;
    const std::uint32_t rkey = peer->hello.replies.rkey;
    Write(peer, staging_ + 8, protocol::kCell - 8 + inline_size, slot + 8, rkey);
    Write(peer, staging_, 8, slot, rkey);
  }

  void Write(Peer* peer, const std::byte* source, std::size_t size, std::uint64_t address,
             std::uint32_t rkey) {
    const rdma::Sge sge{const_cast<std::byte*>(source), static_cast<std::uint32_t>(size),
                        region_->lkey()};
    rdma::WorkRequest request;
    request.opcode = rdma::Opcode::kWrite;
    request.signaled = true;
    request.sges = absl::MakeConstSpan(&sge, 1);
    request.remote_address = address;
    request.rkey = rkey;
    peer->qp->PostSend(request).IgnoreError();
    device_->Progress();
    rdma::WorkCompletion completion;
    while (cq_->Poll(absl::MakeSpan(&completion, 1)) != 0) {
    }
  }

  Input& input_;
  std::unique_ptr<rdma::Device> device_;
  std::unique_ptr<rdma::CompletionQueue> cq_;
  std::byte* staging_ = nullptr;
  std::unique_ptr<rdma::MemoryRegion> region_;
  std::vector<std::unique_ptr<Peer>> peers_;
};

class Caller {
 public:
  explicit Caller(api::ClientCore* core) : core_(*core) {}

  void Submit(std::uint8_t choice) {
    if (started_.size() >= 16) return;
    Call call;
    api::Request request;
    request.operation =
        static_cast<protocol::Operation>(static_cast<int>(protocol::Operation::kGet) + choice % 4);
    if ((choice & 0x40) != 0) request.operation = protocol::Operation::kWhere;
    request.key = "key";
    request.memgest = ring::MemgestId(1);
    request.deadline = absl::Milliseconds(20);
    const bool gets = request.operation == protocol::Operation::kGet;
    if (gets && (choice & 8) != 0) request.value_size_hint = 20'000;
    if (gets && (choice & 16) != 0) {
      call.buffer = std::make_unique<char[]>(choice);  // exactly: the next byte is poisoned
      api::SetDestination(absl::MakeSpan(call.buffer.get(), choice), &request);
    }
    absl::StatusOr<api::Operation*> op = core_.Submit(request);
    if (!op.ok()) return;
    call.op = *op;
    started_.push_back(std::move(call));
  }
  void TakeFinished() {
    for (std::size_t i = 0; i < started_.size();) {
      api::Operation* const op = started_[i].op;
      if (op->state != api::OpState::kDone) {
        ++i;
        continue;
      }
      std::size_t sum = 0;  // every byte may be read
      for (const char c : api::ResultValue(*op)) sum += static_cast<unsigned char>(c);
      RING_CHECK(sum <= std::size_t{255} * kValueMax);
      api::ResultStatus(core_, *op).IgnoreError();
      core_.Free(op);
      started_.erase(started_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  bool empty() const { return started_.empty(); }

 private:
  struct Call {
    api::Operation* op = nullptr;
    std::unique_ptr<char[]> buffer;
  };
  api::ClientCore& core_;
  std::vector<Call> started_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  FuzzClock clock;
  ring::SeededRandom random(1);
  LyingNode node(&input);
  ring::ClientOptions options;
  options.seeds = {kAddress};
  options.transport = ring::Transport::kLocal;
  options.window = 16;
  options.value_size_max = kValueMax;
  api::ClientEnvironment environment;
  environment.clock = &clock;
  environment.random = &random;
  environment.device = OpenDevice();
  auto core = *api::ClientCore::Start(options, std::move(environment));
  Caller caller(core.get());
  const auto turn = [&](std::uint64_t pass_ns) {
    clock.now_ns += pass_ns;
    core->Step();
    node.Turn();
    caller.TakeFinished();
  };
  for (int i = 0; i < 4; ++i) turn(100'000);
  while (!input.empty()) {
    const std::uint8_t choice = input.Byte();
    if (choice < 0x80) {
      node.Answer();
    } else if (choice < 0xf8) {
      if (core->connected()) caller.Submit(choice);
    } else {
      clock.now_ns += std::uint64_t{input.Byte()} * 1'000'000;
    }
    for (int i = 0; i < 2; ++i) turn(50'000);
  }
  // Nobody answers any more: what is left ends by its deadline.
  for (int i = 0; i < 200 && !caller.empty(); ++i) turn(1'000'000);
  RING_CHECK(caller.empty()) << "operations without an end";
  core->Shutdown();
  return 0;
}
