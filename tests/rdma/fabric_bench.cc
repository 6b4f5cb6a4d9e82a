// Cost of posted requests over the links of the software NIC: ns per WRITE on local, round trips on
// shm and tcp beside a bare cache-line ping-pong of the same run, and the processor time of a
// message on tcp with and without io_uring. Not a test: run it alone on an otherwise idle machine.
//   fabric_bench [mapped|tcp]
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rdma/soft/soft_device.h"
#include "ring/base/check.h"

namespace ring::rdma {
namespace {

using Clock = std::chrono::steady_clock;
double NsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

struct End {
  std::unique_ptr<Device> device;
  std::unique_ptr<CompletionQueue> cq;
  std::unique_ptr<MemoryRegion> region;
  std::unique_ptr<QueuePair> qp;
  std::byte* memory = nullptr;
  std::uint64_t peer_address = 0;
  std::uint32_t peer_rkey = 0;

  explicit End(bool shareable, bool tcp_uring = true) {
    SoftDeviceOptions options;
    options.tcp_uring = tcp_uring;
    options.shareable = shareable;
    options.arena_size_max = 64 << 20;
    device = *OpenSoftDevice(options);
    cq = *device->CreateCompletionQueue(4096);
    memory = *device->Allocate(16 << 20, rdma::MemoryKind::kShared);
    region = *device->Register(memory, 16 << 20, kRemoteRead | kRemoteWrite | kRemoteAtomic);
    std::memset(memory, 0, 16 << 20);
  }
  ~End() {
    qp.reset();
    region.reset();
    cq.reset();
  }
  QueuePairOptions options() const {
    QueuePairOptions made;
    made.send_cq = cq.get();
    made.recv_cq = cq.get();
    return made;
  }
  std::string Name() const {
    const RemoteBuffer remote = region->remote();
    return std::string(reinterpret_cast<const char*>(&remote), sizeof(remote));
  }
  void Learn(const std::string& name) {
    RemoteBuffer remote;
    RING_CHECK(name.size() == sizeof(remote)) << "name size=" << name.size();
    std::memcpy(&remote, name.data(), sizeof(remote));
    peer_address = remote.address;
    peer_rkey = remote.rkey;
  }
  // One turn of connection work. True when connected.
  bool Turn() {
    device->Progress();
    ConnectionEvent event;
    while (device->PollEvent(&event)) {
      if (event.kind == ConnectionEvent::Kind::kConnectRequest) {
        qp = *device->Accept(event.request, options(), Name());
        Learn(event.private_data);
      } else if (event.kind == ConnectionEvent::Kind::kEstablished) {
        if (!event.private_data.empty()) Learn(event.private_data);
        return true;
      }
    }
    return false;
  }
};

void ConnectInOneThread(const std::string& address, End* a, End* b) {
  const std::string at = *b->device->Listen(address);
  a->qp = *a->device->Connect(at, a->options(), a->Name());
  int established = 0;
  while (established < 2) established += (a->Turn() ? 1 : 0) + (b->Turn() ? 1 : 0);
}

void PostWrites(End& a, std::size_t size, std::size_t chain_length, const char* what) {
  constexpr int kRounds = 20000;
  std::vector<Sge> sges(chain_length);
  std::vector<WorkRequest> chain(chain_length);
  for (std::size_t i = 0; i < chain_length; ++i) {
    sges[i] = {a.memory + i * 4096, static_cast<std::uint32_t>(size), a.region->lkey()};
    chain[i].opcode = Opcode::kWrite;
    chain[i].sges = absl::MakeConstSpan(&sges[i], 1);
    chain[i].remote_address = a.peer_address + i * 4096;
    chain[i].rkey = a.peer_rkey;
    chain[i].signaled = i + 1 == chain_length;
    if (i > 0) chain[i - 1].next = &chain[i];
  }
  double best = 1e9;
  double best_copy = 1e9;
  for (int repeat = 0; repeat < 15; ++repeat) {
    auto start = Clock::now();
    for (int round = 0; round < kRounds; ++round) {
      RING_CHECK(a.qp->PostSend(chain[0]).ok()) << "post";
      WorkCompletion completion;
      RING_CHECK(a.cq->Poll(absl::MakeSpan(&completion, 1)) == 1 &&
                 completion.status == WcStatus::kSuccess)
          << "completion";
    }
    best = std::min(best, NsSince(start) / (kRounds * static_cast<double>(chain_length)));
    start = Clock::now();
    for (int round = 0; round < kRounds; ++round) {
      for (std::size_t i = 0; i < chain_length; ++i) {
        std::memcpy(a.memory + (8 << 20) + i * 4096, sges[i].address, sges[i].length);
        asm volatile("" ::: "memory");
      }
    }
    best_copy = std::min(best_copy, NsSince(start) / (kRounds * static_cast<double>(chain_length)));
  }
  std::printf("%-34s size=%5zu chain=%2zu: %6.1f ns per WRITE, bare memcpy %5.1f, overhead %5.1f\n",
              what, size, chain_length, best, best_copy, best - best_copy);
}

void WriteStamp(End& end, std::uint64_t value) {
  Sge sge{end.memory + 4096, 64, end.region->lkey()};
  std::memcpy(end.memory + 4096, &value, 8);
  WorkRequest wr;
  wr.opcode = Opcode::kWrite;
  wr.sges = absl::MakeConstSpan(&sge, 1);
  wr.remote_address = end.peer_address;
  wr.rkey = end.peer_rkey;
  RING_CHECK(end.qp->PostSend(wr).ok()) << "post";
}

void AwaitStamp(End& end, std::uint64_t value, bool progress) {
  auto* word = reinterpret_cast<std::uint64_t*>(end.memory);
  while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) {
    if (progress) {
      end.device->Progress();
    } else {
      __builtin_ia32_pause();
    }
  }
}

void PinTo(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

void RoundTrips(const std::string& address, const char* what, bool shareable, bool progress,
                int rounds, bool tcp_uring = true) {
  std::atomic<bool> listening{false};
  std::string at;
  std::vector<double> samples;
  std::thread server([&] {
    PinTo(1);
    End b(shareable, tcp_uring);
    at = *b.device->Listen(address);
    listening.store(true);
    while (!b.Turn()) {
    }
    for (int i = 1; i <= rounds; ++i) {
      AwaitStamp(b, static_cast<std::uint64_t>(i), progress);
      WriteStamp(b, static_cast<std::uint64_t>(i));
      if (progress) b.device->Progress();
    }
    for (int i = 0; i < 1000; ++i) b.device->Progress();
  });
  std::thread client([&] {
    PinTo(0);
    while (!listening.load()) std::this_thread::yield();
    End a(shareable, tcp_uring);
    a.qp = *a.device->Connect(at, a.options(), a.Name());
    while (!a.Turn()) {
    }
    for (int i = 1; i <= rounds; ++i) {
      const auto start = Clock::now();
      WriteStamp(a, static_cast<std::uint64_t>(i));
      AwaitStamp(a, static_cast<std::uint64_t>(i), progress);
      samples.push_back(NsSince(start));
    }
  });
  client.join();
  server.join();
  std::sort(samples.begin(), samples.end());
  std::printf("%-34s round trip of 64 B WRITEs: p50 %7.0f ns, p99 %7.0f, min %7.0f\n", what,
              samples[samples.size() / 2], samples[samples.size() * 99 / 100], samples[0]);
}

double ThreadCpuNs() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// A batch goes each way over each of some connections in each turn, all in one thread: what the
// system and the device do for it, and nothing that waits. Chains of `depth` WRITEs of 200 bytes.
class Exchange {
 public:
  Exchange(std::size_t pairs, std::size_t depth, bool tcp_uring)
      : depth_(depth), a_(false, tcp_uring), b_(false, tcp_uring) {
    const std::string at = *b_.device->Listen("tcp:127.0.0.1:0");
    for (std::size_t i = 0; i < pairs; ++i) {
      a_.qp = *a_.device->Connect(at, a_.options(), a_.Name());
      for (int established = 0; established < 2;)
        established += (a_.Turn() ? 1 : 0) + (b_.Turn() ? 1 : 0);
      from_a_.push_back(std::move(a_.qp));
      from_b_.push_back(std::move(b_.qp));
    }
  }
  // Processor time of one WRITE in a batch, sent and received.
  double NsOfAMessage(int turns) {
    const double start = ThreadCpuNs();
    for (int i = 0; i < turns; ++i) {
      ++value_;
      Say(a_, from_a_);
      Hear(b_);
      Say(b_, from_b_);
      Hear(a_);
    }
    return (ThreadCpuNs() - start) /
           (2.0 * turns * static_cast<double>(from_a_.size()) * static_cast<double>(depth_));
  }

 private:
  static constexpr std::size_t kSize = 200;
  void Say(End& end, const std::vector<std::unique_ptr<QueuePair>>& qps) {
    std::memcpy(end.memory + (8 << 20), &value_, sizeof(value_));
    const Sge sge{end.memory + (8 << 20), kSize, end.region->lkey()};
    std::vector<WorkRequest> chain(depth_);
    for (std::size_t i = 0; i < qps.size(); ++i) {
      for (std::size_t j = 0; j < depth_; ++j) {
        chain[j].opcode = Opcode::kWrite;
        chain[j].unacknowledged = true;
        chain[j].sges = absl::MakeConstSpan(&sge, 1);
        chain[j].remote_address = end.peer_address + (i * depth_ + j) * 256;
        chain[j].rkey = end.peer_rkey;
        chain[j].next = j + 1 < depth_ ? &chain[j + 1] : nullptr;
      }
      RING_CHECK(qps[i]->PostSend(chain[0]).ok()) << "post";
    }
  }
  void Hear(End& end) {
    for (std::size_t i = 0; i < from_a_.size(); ++i) {
      const auto* word =
          reinterpret_cast<std::uint64_t*>(end.memory + (i * depth_ + depth_ - 1) * 256);
      while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value_) end.device->Progress();
    }
  }

  const std::size_t depth_;
  End a_;
  End b_;
  std::vector<std::unique_ptr<QueuePair>> from_a_;
  std::vector<std::unique_ptr<QueuePair>> from_b_;
  std::uint64_t value_ = 0;
};

// Both ways in turn; the median of what each took.
void CompareReceivers(std::size_t pairs, std::size_t depth) {
  constexpr std::size_t kRounds = 31;
  Exchange one_by_one(pairs, depth, false);
  Exchange uring(pairs, depth, true);
  const int turns = static_cast<int>(4000 / (pairs * depth) + 50);
  std::vector<double> took[2];
  for (std::size_t round = 0; round < kRounds; ++round) {
    took[0].push_back(one_by_one.NsOfAMessage(turns));
    took[1].push_back(uring.NsOfAMessage(turns));
  }
  for (std::vector<double>& one : took) std::sort(one.begin(), one.end());
  std::printf(
      "tcp, one thread, connections=%3zu chain=%2zu: CPU of a WRITE one by one %6.0f ns, "
      "io_uring %6.0f ns (best %6.0f, %6.0f)\n",
      pairs, depth, took[0][kRounds / 2], took[1][kRounds / 2], took[0][0], took[1][0]);
}

void BarePingPong(int rounds) {
  struct alignas(128) Line {
    std::atomic<std::uint64_t> value{0};
  };
  static Line lines[2];
  lines[0].value = lines[1].value = 0;
  std::vector<double> samples;
  std::thread server([&] {
    PinTo(1);
    for (int i = 1; i <= rounds; ++i) {
      while (lines[0].value.load(std::memory_order_acquire) != static_cast<std::uint64_t>(i))
        __builtin_ia32_pause();
      lines[1].value.store(static_cast<std::uint64_t>(i), std::memory_order_release);
    }
  });
  std::thread client([&] {
    PinTo(0);
    for (int i = 1; i <= rounds; ++i) {
      const auto start = Clock::now();
      lines[0].value.store(static_cast<std::uint64_t>(i), std::memory_order_release);
      while (lines[1].value.load(std::memory_order_acquire) != static_cast<std::uint64_t>(i))
        __builtin_ia32_pause();
      samples.push_back(NsSince(start));
    }
  });
  client.join();
  server.join();
  std::sort(samples.begin(), samples.end());
  std::printf("%-34s round trip: p50 %7.0f ns, p99 %7.0f, min %7.0f\n", "bare cache line",
              samples[samples.size() / 2], samples[samples.size() * 99 / 100], samples[0]);
}

void TcpFigures() {
  for (const std::size_t pairs : {1, 4, 16, 64}) {
    for (const std::size_t depth : {1, 16}) CompareReceivers(pairs, depth);
  }
  for (int i = 0; i < 3; ++i) {
    RoundTrips("tcp:127.0.0.1:0", "tcp loopback, one by one", false, true, 20000, false);
    RoundTrips("tcp:127.0.0.1:0", "tcp loopback, io_uring", false, true, 20000, true);
  }
}

void MappedFigures() {
  {
    End a(false);
    End b(false);
    ConnectInOneThread("local:bench", &a, &b);
    for (const std::size_t size : {std::size_t{64}, std::size_t{1216}}) {
      for (const std::size_t length : {std::size_t{1}, std::size_t{8}}) {
        PostWrites(a, size, length, "local, same thread");
      }
    }
  }
  {
    End a(true);
    End b(true);
    ConnectInOneThread(absl::StrCat("shm:/tmp/ring-bench-", getpid()), &a, &b);
    for (const std::size_t size : {std::size_t{64}, std::size_t{1216}}) {
      for (const std::size_t length : {std::size_t{1}, std::size_t{8}}) {
        PostWrites(a, size, length, "shm, fenced");
      }
    }
  }
  BarePingPong(200000);
  RoundTrips(absl::StrCat("shm:/tmp/ring-bench-", getpid()), "shm", true, false, 200000);
  BarePingPong(200000);
  RoundTrips("local:bench", "local, two threads", false, false, 200000);
}

}  // namespace
}  // namespace ring::rdma

int main(int argc, char** argv) {
  const std::string only = argc > 1 ? argv[1] : "";
  if (only != "tcp") ring::rdma::MappedFigures();
  if (only != "mapped") ring::rdma::TcpFigures();
  return 0;
}
