// EcSend on the software NIC: a coordinator and its parities are devices of this process.
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ec_offload/delta_calculator.h"
#include "ec_offload/ec_send.h"
#include "gtest/gtest.h"
#include "rdma/soft/soft_device.h"
#include "ring/base/crc32c.h"
#include "ring/base/random.h"

namespace ring::ec_offload {
namespace {

using rdma::Sge;
using rdma::WcStatus;
using rdma::WorkRequest;

constexpr std::size_t kLength = 1000;
constexpr std::size_t kHeader = 128;
constexpr std::size_t kTrailer = 8;
constexpr std::size_t kEntry = kHeader + kLength + kTrailer;

class RefusingCalculator final : public rdma::Calculator {
 public:
  explicit RefusingCalculator(std::size_t outputs) : outputs_(outputs) {}
  std::size_t input_count() const override { return 2; }
  std::size_t output_count() const override { return outputs_; }
  bool Run(const std::byte* const*, std::byte* const*, std::size_t, std::uint32_t*) const override {
    return false;
  }

 private:
  std::size_t outputs_;
};

std::unique_ptr<rdma::Device> OpenDevice(const std::string& name) {
  rdma::SoftDeviceOptions options;
  options.name = name;
  options.arena_size_max = std::uint64_t{64} << 20;
  auto device = rdma::OpenSoftDevice(options);
  EXPECT_TRUE(device.ok()) << device.status();
  return *std::move(device);
}

struct Connection {
  std::unique_ptr<rdma::QueuePair> near;
  std::unique_ptr<rdma::QueuePair> far;
};

// Connects from -> to over the local link; both may be the same device.
Connection Connect(rdma::Device* from, rdma::CompletionQueue* from_cq, rdma::Device* to,
                   rdma::CompletionQueue* to_cq, const std::string& address) {
  Connection connection;
  EXPECT_TRUE(to->Listen(address).ok());
  rdma::QueuePairOptions near_options, far_options;
  near_options.send_cq = near_options.recv_cq = from_cq;
  far_options.send_cq = far_options.recv_cq = to_cq;
  auto near = from->Connect(address, near_options, "");
  EXPECT_TRUE(near.ok()) << near.status();
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
          EXPECT_TRUE(far.ok()) << far.status();
          connection.far = *std::move(far);
        }
        established |= event.kind == rdma::ConnectionEvent::Kind::kEstablished &&
                       event.qp == connection.near.get();
      }
    }
  }
  EXPECT_TRUE(established);
  EXPECT_NE(connection.far, nullptr);
  return connection;
}

// A coordinator with `parities` parities, each a device with one log.
class Cluster {
 public:
  explicit Cluster(std::size_t parities) : self_(OpenDevice("coordinator")) {
    cq_ = Queue(self_.get());
    calc_cq_ = Queue(self_.get());
    auto memory = self_->Allocate(std::size_t{2} << 20, rdma::MemoryKind::kShared);
    EXPECT_TRUE(memory.ok());
    memory_ = *memory;
    region_ = *self_->Register(memory_, std::size_t{2} << 20, rdma::kLocalOnly);
    calc_ = Connect(self_.get(), calc_cq_.get(), self_.get(), calc_cq_.get(), Name("self"));
    for (std::size_t j = 0; j < parities; ++j) {
      Parity parity;
      parity.device = OpenDevice(absl::StrCat("parity", j));
      parity.cq = Queue(parity.device.get());
      parity.log = *parity.device->Allocate(std::size_t{2} << 20, rdma::MemoryKind::kShared);
      parity.region =
          *parity.device->Register(parity.log, std::size_t{2} << 20, rdma::kRemoteWrite);
      parity.connection = Connect(self_.get(), cq_.get(), parity.device.get(), parity.cq.get(),
                                  Name(absl::StrCat("parity", j)));
      parities_.push_back(std::move(parity));
    }
  }

  rdma::Device* device() { return self_.get(); }
  rdma::QueuePair* calc_qp() { return calc_.near.get(); }
  rdma::CompletionQueue* calc_cq() { return calc_cq_.get(); }
  const std::byte* log(std::size_t parity) const { return parities_[parity].log; }

  // Posts a put of `fresh` over `old_bytes`; gives the outcome and what completed.
  EcSend::Outcome Put(EcSend& ec_send, const rdma::Calculator& calculator,
                      const std::vector<std::byte>& old_bytes,
                      const std::vector<std::byte>& fresh) {
    const std::size_t m = parities_.size();
    std::memcpy(At(0), old_bytes.data(), kLength);
    std::memcpy(At(1), fresh.data(), kLength);
    std::vector<std::array<Sge, 3>> gather(m);
    std::vector<WorkRequest> writes(m);
    std::vector<EcSend::Target> targets(m);
    std::vector<Sge> outputs;
    std::vector<std::uint32_t*> crc_out;
    for (std::size_t j = 0; j < m; ++j) {
      std::byte* entry = At(2 + j);
      std::memset(entry, static_cast<int>(0x40 + j), kEntry);
      gather[j] = {Region(entry, kHeader), Region(entry + kHeader, kLength),
                   Region(entry + kHeader + kLength, kTrailer)};
      outputs.push_back(gather[j][1]);
      crc_out.push_back(reinterpret_cast<std::uint32_t*>(entry + kHeader + kLength));
      writes[j].opcode = rdma::Opcode::kWrite;
      writes[j].wr_id = j;
      writes[j].signaled = true;
      writes[j].sges = gather[j];
      writes[j].remote_address = reinterpret_cast<std::uint64_t>(parities_[j].log);
      writes[j].rkey = parities_[j].region->rkey();
      targets[j] = {parities_[j].connection.near.get(), &writes[j]};
    }
    outputs.push_back(Region(At(0), kLength));
    crc_out.push_back(nullptr);
    const std::array<Sge, 2> inputs = {Region(At(0), kLength), Region(At(1), kLength)};
    EcSend::Outcome outcome = ec_send.Send({&calculator, inputs, outputs, crc_out.data(), targets});
    completed_.clear();
    for (int turn = 0; turn < 100; ++turn) {
      self_->Progress();
      std::array<rdma::WorkCompletion, 8> completions;
      const std::size_t count = cq_->Poll(absl::MakeSpan(completions));
      completed_.insert(completed_.end(), completions.begin(), completions.begin() + count);
    }
    return outcome;
  }
  const std::vector<rdma::WorkCompletion>& completed() const { return completed_; }
  const std::byte* slot() { return At(0); }

 private:
  struct Parity {
    std::unique_ptr<rdma::Device> device;
    std::unique_ptr<rdma::CompletionQueue> cq;
    std::byte* log = nullptr;
    std::unique_ptr<rdma::MemoryRegion> region;
    Connection connection;
  };

  static std::unique_ptr<rdma::CompletionQueue> Queue(rdma::Device* device) {
    auto queue = device->CreateCompletionQueue(1024);
    EXPECT_TRUE(queue.ok()) << queue.status();
    return *std::move(queue);
  }
  std::string Name(const std::string& end) const {
    return absl::StrCat("local:ec-send-", reinterpret_cast<std::uintptr_t>(this), "-", end);
  }
  std::byte* At(std::size_t index) { return memory_ + index * 4096; }
  Sge Region(std::byte* address, std::size_t length) const {
    return {address, static_cast<std::uint32_t>(length), region_->lkey()};
  }

  std::unique_ptr<rdma::Device> self_;
  std::unique_ptr<rdma::CompletionQueue> cq_, calc_cq_;
  std::byte* memory_ = nullptr;
  std::unique_ptr<rdma::MemoryRegion> region_;
  Connection calc_;
  std::vector<Parity> parities_;
  std::vector<rdma::WorkCompletion> completed_;
};

std::vector<std::byte> RandomBytes(SeededRandom& random) {
  std::vector<std::byte> bytes(kLength);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random.Next64());
  return bytes;
}

TEST(EcSendSoft, EveryWayPutsTheSameEntriesIntoTheLogs) {
  SeededRandom random(61);
  const std::array<gf256::Element, 4> column = {1, 29, 77, 131};
  for (std::size_t m : {1U, 2U, 4U}) {
    Cluster cluster(m);
    ASSERT_TRUE(cluster.device()->caps().calc && cluster.device()->caps().calc_crc);
    const DeltaCalculator calculator(absl::MakeConstSpan(column.data(), m),
                                     DeltaCalculator::Slot::kWritten);
    EcSend by_queue({cluster.device(), cluster.calc_qp(), cluster.calc_cq(), false});
    EcSend by_chain({cluster.device(), nullptr, nullptr, false});
    EcSend by_host({cluster.device(), nullptr, nullptr, true});
    for (int round = 0; round < 20; ++round) {
      for (EcSend* ec_send : {&by_queue, &by_chain, &by_host}) {
        const std::vector<std::byte> old_bytes = RandomBytes(random), fresh = RandomBytes(random);
        const EcSend::Outcome outcome = cluster.Put(*ec_send, calculator, old_bytes, fresh);
        ASSERT_TRUE(outcome.status.ok()) << outcome.status;
        ASSERT_EQ(outcome.posted, (1U << m) - 1);
        ASSERT_EQ(cluster.completed().size(), m);
        for (std::size_t j = 0; j < m; ++j) {
          ASSERT_EQ(cluster.completed()[j].status, WcStatus::kSuccess);
          const std::byte* entry = cluster.log(j);
          ASSERT_EQ(entry[kHeader - 1], static_cast<std::byte>(0x40 + j));
          for (std::size_t i = 0; i < kLength; ++i) {
            const auto difference = std::to_integer<gf256::Element>(old_bytes[i] ^ fresh[i]);
            ASSERT_EQ(std::to_integer<gf256::Element>(entry[kHeader + i]),
                      gf256::Multiply(column[j], difference));
          }
          std::uint32_t crc = 0;
          std::memcpy(&crc, entry + kHeader + kLength, sizeof(crc));
          ASSERT_EQ(crc, Crc32c(entry + kHeader, kLength));
        }
        ASSERT_EQ(std::memcmp(cluster.slot(), fresh.data(), kLength), 0);
      }
    }
  }
}

TEST(EcSendSoft, AFailedCalculationReachesNoLogS11) {
  SeededRandom random(62);
  const std::vector<std::byte> bytes = RandomBytes(random);
  for (bool one_chain : {false, true}) {
    Cluster cluster(one_chain ? 1 : 2);
    const RefusingCalculator refusing(one_chain ? 2 : 3);
    EcSend ec_send({cluster.device(), one_chain ? nullptr : cluster.calc_qp(),
                    one_chain ? nullptr : cluster.calc_cq(), false});
    const EcSend::Outcome outcome = cluster.Put(ec_send, refusing, bytes, bytes);
    if (one_chain) {
      ASSERT_EQ(cluster.completed().size(), 2U);
      EXPECT_EQ(cluster.completed()[0].status, WcStatus::kCalcFailed);
      EXPECT_EQ(cluster.completed()[1].status, WcStatus::kFlushed);
    } else {
      EXPECT_EQ(outcome.status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_TRUE(cluster.completed().empty());
    }
    EXPECT_EQ(std::vector<std::byte>(cluster.log(0), cluster.log(0) + kEntry),
              std::vector<std::byte>(kEntry));
  }
}

}  // namespace
}  // namespace ring::ec_offload
