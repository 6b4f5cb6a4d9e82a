// What the client's low-level path costs: ns per SubmitGet and SubmitPut of 1 KiB at a pipeline of
// 16, over the local link, against a responder that does nothing but answer.
//   near:  client and responder take turns on one thread; only the client's turns are timed.
//   far:   the responder has a thread of its own; whole operations are timed.
// Figures, not rules: run it by hand on an otherwise idle machine.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "api/client.h"
#include "rdma/soft/soft_device.h"
#include "ring/base/check.h"
#include "ring/base/crc32c.h"
#include "ring/cluster/view.h"
#include "ring/protocol/client_frame.h"
#include "ring/protocol/hello.h"

namespace ring {
namespace {

using SteadyClock = std::chrono::steady_clock;
using protocol::kCell;
constexpr std::size_t kValueSize = 1024;

// One client, one node, every get is answered with the same kilobyte.
class Responder {
 public:
  explicit Responder(const std::string& address) {
    device_ = *rdma::OpenSoftDevice({});
    cq_ = *device_->CreateCompletionQueue(4096);
    ring_ = *device_->Allocate(protocol::kRequestRingSize, rdma::MemoryKind::kShared);
    ring_region_ = *device_->Register(ring_, protocol::kRequestRingSize, rdma::kRemoteWrite);
    replies_ = *device_->Allocate(kStaging, rdma::MemoryKind::kShared);
    reply_region_ = *device_->Register(replies_, kStaging, rdma::kLocalOnly);
    RING_CHECK(device_->Listen(address).ok());
    protocol::MemgestDescriptor memgest;
    memgest.name = "one";
    cluster::NodeInfo node;
    node.name = "node";
    node.local_address = address;
    view_ = cluster::EncodeView(cluster::InitialView(1, 0, {node}, {memgest}));
    value_.assign(kValueSize, 'v');
    crc_ = Crc32c(value_.data(), value_.size());
  }

  bool Turn() {
    bool progress = device_->Progress();
    rdma::WorkCompletion completions[16];
    while (cq_->Poll(absl::MakeSpan(completions)) != 0) {
    }
    rdma::ConnectionEvent event;
    while (device_->PollEvent(&event)) {
      if (event.kind == rdma::ConnectionEvent::Kind::kConnectRequest) Accept(event);
    }
    while (qp_ != nullptr && ServeOne()) progress = true;
    return progress;
  }

 private:
  static constexpr std::size_t kStaging = std::size_t{1} << 20;

  void Accept(const rdma::ConnectionEvent& event) {
    hello_ = *protocol::DecodeHello<protocol::ClientHello>(event.private_data);
    protocol::ClientAccept accept;
    const rdma::RemoteBuffer remote = ring_region_->remote();
    accept.requests = {remote.address, remote.length, remote.rkey, 0};
    rdma::QueuePairOptions options;
    options.send_cq = cq_.get();
    options.recv_cq = cq_.get();
    qp_ = *device_->Accept(event.request, options, protocol::EncodeHello(accept));
    for (std::uint64_t i = 0; i < 64; ++i) RING_CHECK(qp_->PostRecv(i, {}).ok());
  }

  bool ServeOne() {
    const auto* word = reinterpret_cast<const std::uint32_t*>(ring_ + cell_ * kCell);
    if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != stamp_) return false;
    protocol::RequestView view;
    RING_CHECK(protocol::DecodeRequest(ring_, cell_, std::size_t{16} << 20, &view) ==
               protocol::Outcome::kOk);
    ++stamp_;
    cell_ += view.size_cells;
    if (view.header.word.operation == protocol::Operation::kPad) {
      cell_ = 0;
      return true;
    }
    protocol::ReplyHeader header;
    header.word.stamp = view.header.word.stamp;
    header.view_epoch = 1;
    header.version = 1;
    std::byte* reply = replies_ + view.header.reply_slot % 64 * (kStaging / 64);
    std::size_t size = 0;
    if (view.header.word.operation == protocol::Operation::kGetView) {
      size = view_.size();
      std::memcpy(reply + kCell, view_.data(), size);
      header.value_crc = Crc32c(view_.data(), size);
    } else if (view.header.word.operation == protocol::Operation::kGet) {
      size = value_.size();
      std::memcpy(reply + kCell, value_.data(), size);
      header.value_crc = crc_;
    }
    header.value_length = static_cast<std::uint32_t>(size);
    std::memcpy(reply, &header, sizeof(header));
    rdma::Sge sges[2] = {
        {reply + 8, static_cast<std::uint32_t>(kCell - 8 + size), reply_region_->lkey()},
        {reply, 8, reply_region_->lkey()}};
    rdma::WorkRequest requests[2];
    const std::uint64_t slot =
        hello_.replies.address + view.header.reply_slot * protocol::kReplySlotSize;
    for (int i = 0; i < 2; ++i) {
      requests[i].opcode = rdma::Opcode::kWrite;
      requests[i].sges = absl::MakeConstSpan(&sges[i], 1);
      requests[i].rkey = hello_.replies.rkey;
    }
    requests[0].remote_address = slot + 8;
    requests[0].next = &requests[1];
    requests[1].remote_address = slot;
    RING_CHECK(qp_->PostSend(requests[0]).ok());
    return true;
  }

  std::unique_ptr<rdma::Device> device_;
  std::unique_ptr<rdma::CompletionQueue> cq_;
  std::byte* ring_ = nullptr;
  std::unique_ptr<rdma::MemoryRegion> ring_region_;
  std::byte* replies_ = nullptr;
  std::unique_ptr<rdma::MemoryRegion> reply_region_;
  std::unique_ptr<rdma::QueuePair> qp_;
  protocol::ClientHello hello_;
  std::size_t cell_ = 0;
  std::uint32_t stamp_ = 1;
  std::string view_;
  std::string value_;
  std::uint32_t crc_ = 0;
};

std::unique_ptr<Client> Connect(const std::string& address) {
  ClientOptions options;
  options.seeds = {address};
  options.transport = Transport::kLocal;
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(options);
  RING_CHECK(client.ok()) << client.status();
  return *std::move(client);
}

// ns per operation: the median of rounds. `serve` lets the responder run; not timed.
template <class F>
double Measure(Client* client, bool put, int depth, F serve) {
  const std::string value(kValueSize, 'v');
  const std::string key = "key-0123456789ab";
  std::vector<Completion> completions(static_cast<std::size_t>(depth));
  std::vector<double> rounds;
  constexpr int kBatches = 500;
  const auto finished = [&] { return client->PollCompletions(absl::MakeSpan(completions)); };
  for (int round = 0; round < 41; ++round) {
    SteadyClock::duration spent{};
    for (int batch = 0; batch < kBatches; ++batch) {
      auto start = SteadyClock::now();
      for (int i = 0; i < depth; ++i) {
        const auto token = static_cast<std::uint64_t>(i);
        RING_CHECK(
            (put ? client->SubmitPut(token, key, value) : client->SubmitGet(token, key)).ok());
      }
      client->Flush();
      spent += SteadyClock::now() - start;
      serve();
      start = SteadyClock::now();
      for (int done = 0; done < depth;) done += static_cast<int>(finished());
      spent += SteadyClock::now() - start;
    }
    rounds.push_back(std::chrono::duration<double, std::nano>(spent).count() / kBatches / depth);
  }
  std::sort(rounds.begin(), rounds.end());
  return rounds[rounds.size() / 2];
}

void Run() {
  std::atomic<bool> stop{false};
  std::atomic<bool> own_thread{true};
  std::atomic<bool> parked{false};
  Responder responder("local:client-bench");
  std::thread thread([&] {
    while (!stop) {
      if (own_thread) {
        parked = false;
        responder.Turn();
      } else {
        parked = true;
        own_thread.wait(false);
      }
    }
  });
  const std::unique_ptr<Client> client = Connect("local:client-bench");
  for (const int depth : {1, 16}) {
    for (const bool put : {false, true}) {
      std::printf("far  depth=%-2d %s  %7.1f ns per operation\n", depth, put ? "put" : "get",
                  Measure(client.get(), put, depth, [] {}));
    }
  }
  own_thread = false;
  while (!parked) std::this_thread::yield();
  for (const int depth : {1, 16}) {
    for (const bool put : {false, true}) {
      std::printf("near depth=%-2d %s  %7.1f ns of the client per operation\n", depth,
                  put ? "put" : "get",
                  Measure(client.get(), put, depth, [&responder] { responder.Turn(); }));
    }
  }
  stop = true;
  own_thread = true;
  own_thread.notify_one();
  thread.join();
}

}  // namespace
}  // namespace ring

int main() { ring::Run(); }
