// tests/ec_offload/soft_cluster.h — a coordinator and its parities, software NICs of this process.
//
// What:      SoftCluster: local links, a calc queue, one slot, one new value, and for each parity
//            an entry [header | delta | trailer] that Send computes and WRITEs to its log.
// Units:     bytes; values of `length`.
// Ownership: owns devices, links and memory.
// Threads:   one.
// Errors:    what cannot be opened fails a RING_CHECK.
#ifndef RING_TESTS_EC_OFFLOAD_SOFT_CLUSTER_H_
#define RING_TESTS_EC_OFFLOAD_SOFT_CLUSTER_H_

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ec_offload/ec_send.h"
#include "rdma/soft/soft_device.h"
#include "ring/base/check.h"

namespace ring::ec_offload {

class SoftCluster {
 public:
  static constexpr std::size_t kHeader = 128;
  static constexpr std::size_t kTrailer = 8;

  SoftCluster(std::size_t parity_count, std::size_t length)
      : length_(length), self_(OpenDevice("coordinator")) {
    cq_ = Queue(self_.get());
    calc_cq_ = Queue(self_.get());
    std::tie(memory_, region_) = Memory(self_.get(), rdma::kLocalOnly);
    calc_ = Connect(self_.get(), calc_cq_.get(), self_.get(), calc_cq_.get(), Name("self"));
    for (std::size_t j = 0; j < parity_count; ++j) {
      Parity& parity = parities_.emplace_back();
      parity.device = OpenDevice(absl::StrCat("parity", j));
      parity.cq = Queue(parity.device.get());
      std::tie(parity.log, parity.region) = Memory(parity.device.get(), rdma::kRemoteWrite);
      parity.connection = Connect(self_.get(), cq_.get(), parity.device.get(), parity.cq.get(),
                                  Name(absl::StrCat("parity", j)));
    }
    MakeEntries();
  }

  rdma::Device* device() { return self_.get(); }
  rdma::QueuePair* calc_qp() { return calc_.near.get(); }
  rdma::CompletionQueue* calc_cq() { return calc_cq_.get(); }
  std::byte* slot() { return At(0); }
  std::byte* value() { return At(1); }
  const std::byte* log(std::size_t parity) const { return parities_[parity].log; }

  // Posts a put of value() over slot().
  EcSend::Outcome Send(EcSend& ec_send, const rdma::Calculator& calculator) {
    completed_.clear();
    return ec_send.Send({&calculator, inputs_, outputs_, crc_out_.data(), targets_});
  }
  void Poll() {
    self_->Progress();
    std::array<rdma::WorkCompletion, 8> completions;
    const std::size_t count = cq_->Poll(absl::MakeSpan(completions));
    completed_.insert(completed_.end(), completions.begin(), completions.begin() + count);
  }
  // Of the last Send.
  const std::vector<rdma::WorkCompletion>& completed() const { return completed_; }

 private:
  static constexpr std::size_t kMemorySize = std::size_t{2} << 20;

  struct Connection {
    std::unique_ptr<rdma::QueuePair> near;
    std::unique_ptr<rdma::QueuePair> far;
  };
  struct Parity {
    std::unique_ptr<rdma::Device> device;
    std::unique_ptr<rdma::CompletionQueue> cq;
    std::byte* log = nullptr;
    std::unique_ptr<rdma::MemoryRegion> region;
    Connection connection;
  };

  static std::unique_ptr<rdma::Device> OpenDevice(const std::string& name) {
    rdma::SoftDeviceOptions options;
    options.name = name;
    options.arena_size_max = std::uint64_t{64} << 20;
    auto device = rdma::OpenSoftDevice(options);
    RING_CHECK(device.ok()) << device.status();
    return *std::move(device);
  }
  static std::unique_ptr<rdma::CompletionQueue> Queue(rdma::Device* device) {
    auto queue = device->CreateCompletionQueue(1024);
    RING_CHECK(queue.ok()) << queue.status();
    return *std::move(queue);
  }
  static std::pair<std::byte*, std::unique_ptr<rdma::MemoryRegion>> Memory(rdma::Device* device,
                                                                           std::uint32_t access) {
    const auto memory = device->Allocate(kMemorySize, rdma::MemoryKind::kShared);
    RING_CHECK(memory.ok()) << memory.status();
    auto region = device->Register(*memory, kMemorySize, access);
    RING_CHECK(region.ok()) << region.status();
    return {*memory, *std::move(region)};
  }
  // Connects from -> to over the local link; both may be the same device.
  static Connection Connect(rdma::Device* from, rdma::CompletionQueue* from_cq, rdma::Device* to,
                            rdma::CompletionQueue* to_cq, const std::string& address) {
    RING_CHECK(to->Listen(address).ok());
    rdma::QueuePairOptions near_options, far_options;
    near_options.send_cq = near_options.recv_cq = from_cq;
    far_options.send_cq = far_options.recv_cq = to_cq;
    auto near = from->Connect(address, near_options, "");
    RING_CHECK(near.ok()) << near.status();
    Connection connection;
    connection.near = *std::move(near);
    bool established = false;
    for (int turn = 0; turn < 1000 && !(established && connection.far != nullptr); ++turn) {
      from->Progress();
      to->Progress();
      for (rdma::Device* device : {from, to}) {
        rdma::ConnectionEvent event;
        while (device->PollEvent(&event)) {
          if (event.kind == rdma::ConnectionEvent::Kind::kConnectRequest) {
            auto far = device->Accept(event.request, far_options, "");
            RING_CHECK(far.ok()) << far.status();
            connection.far = *std::move(far);
          }
          established |= event.kind == rdma::ConnectionEvent::Kind::kEstablished &&
                         event.qp == connection.near.get();
        }
      }
    }
    RING_CHECK(established && connection.far != nullptr);
    return connection;
  }

  // What every put posts: the slot and the value in, a delta and its CRC for each parity out, and
  // the slot's new bytes.
  void MakeEntries() {
    const std::size_t m = parities_.size();
    gather_.resize(m);
    writes_.resize(m);
    for (std::size_t j = 0; j < m; ++j) {
      std::byte* const entry = At(2 + j);
      std::memset(entry, static_cast<int>(0x40 + j), kHeader + length_ + kTrailer);
      gather_[j] = {Region(entry, kHeader), Region(entry + kHeader, length_),
                    Region(entry + kHeader + length_, kTrailer)};
      outputs_.push_back(gather_[j][1]);
      crc_out_.push_back(reinterpret_cast<std::uint32_t*>(entry + kHeader + length_));
      rdma::WorkRequest& write = writes_[j];
      write.opcode = rdma::Opcode::kWrite;
      write.wr_id = j;
      write.signaled = true;
      write.sges = gather_[j];
      write.remote_address = reinterpret_cast<std::uint64_t>(parities_[j].log);
      write.rkey = parities_[j].region->rkey();
      targets_.push_back({parities_[j].connection.near.get(), &write});
    }
    outputs_.push_back(Region(slot(), length_));
    crc_out_.push_back(nullptr);
    inputs_ = {Region(slot(), length_), Region(value(), length_)};
  }
  std::string Name(const std::string& end) const {
    return absl::StrCat("local:ec-send-", reinterpret_cast<std::uintptr_t>(this), "-", end);
  }
  std::byte* At(std::size_t index) { return memory_ + index * 4096; }
  rdma::Sge Region(std::byte* address, std::size_t length) const {
    return {address, static_cast<std::uint32_t>(length), region_->lkey()};
  }

  std::size_t length_;
  std::unique_ptr<rdma::Device> self_;
  std::unique_ptr<rdma::CompletionQueue> cq_, calc_cq_;
  std::byte* memory_ = nullptr;
  std::unique_ptr<rdma::MemoryRegion> region_;
  Connection calc_;
  std::vector<Parity> parities_;
  std::vector<std::array<rdma::Sge, 3>> gather_;
  std::vector<rdma::WorkRequest> writes_;
  std::vector<EcSend::Target> targets_;
  std::vector<rdma::Sge> outputs_;
  std::vector<std::uint32_t*> crc_out_;
  std::array<rdma::Sge, 2> inputs_;
  std::vector<rdma::WorkCompletion> completed_;
};

}  // namespace ring::ec_offload

#endif  // RING_TESTS_EC_OFFLOAD_SOFT_CLUSTER_H_
