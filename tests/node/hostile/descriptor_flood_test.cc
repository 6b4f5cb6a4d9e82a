// Ten thousand connects, to every port there is, while the process may open only a few files: who
// was there goes on, strangers are refused by name, and afterwards all is as before.
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <fstream>

#include "absl/strings/numbers.h"
#include "api/admin.grpc.pb.h"
#include "api/admin/admin_client.h"
#include "api/admin/admin_service.h"
#include "tests/node/hostile/hostile_fixture.h"
#include "tests/support/sanitized.h"

namespace ring::node {
namespace {

constexpr int kConnects = 10'000;
constexpr int kWave = 500;
constexpr int kReserve = 64;  // of the nodes' listeners
constexpr int kWaveMs = 150;  // how long a wave waits for its answers

struct FloodCounts {
  int connected = 0;
  int named = 0;   // refused, with the reason
  int closed = 0;  // without one
  int left = 0;    // neither: let in, or still waiting
};

int Dial(std::uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd >= 0) connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof(at));
  return fd;
}

std::int64_t NowMs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

// Reads what a refused connection is told, and closes it.
void TakeAnswer(pollfd* entry, FloodCounts* counts) {
  constexpr char kReason[] = "out of file descriptors";
  char answer[512];
  const ssize_t size = recv(entry->fd, answer, sizeof(answer), MSG_DONTWAIT);
  const bool named =
      size > 0 && memmem(answer, static_cast<std::size_t>(size), kReason, sizeof(kReason) - 1);
  ++(named ? counts->named : counts->closed);
  close(entry->fd);
  entry->fd = -1;
}

// In a child of its own: nothing here allocates or locks.
FloodCounts Flood(const std::uint16_t* ports, int port_count) {
  static std::array<pollfd, kWave> wave;
  FloodCounts counts;
  for (int made = 0; made < kConnects; made += kWave) {
    for (int i = 0; i < kWave; ++i) {
      wave[static_cast<std::size_t>(i)] = {Dial(ports[i % port_count]), POLLIN, 0};
    }
    const std::int64_t end_ms = NowMs() + kWaveMs;
    for (std::int64_t left = kWaveMs; left > 0; left = end_ms - NowMs()) {
      poll(wave.data(), wave.size(), static_cast<int>(left));
      for (pollfd& entry : wave) {
        if (entry.fd >= 0 && entry.revents != 0) TakeAnswer(&entry, &counts);
      }
    }
    for (const pollfd& entry : wave) {
      if (entry.fd < 0) continue;
      ++counts.left;
      close(entry.fd);
    }
  }
  counts.connected = counts.named + counts.closed + counts.left;
  return counts;
}

// Forks the flood, which writes its counts to this descriptor.
pid_t StartFlood(const std::vector<std::uint16_t>& ports, int result_fd) {
  const pid_t child = fork();
  if (child != 0) return child;
  dup2(result_fd, 0);
  close_range(1, ~0u, 0);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  const FloodCounts counts = Flood(ports.data(), static_cast<int>(ports.size()));
  _exit(write(0, &counts, sizeof(counts)) == sizeof(counts) ? 0 : 1);
}

std::size_t ResidentKiB() {
  std::size_t size = 0;
  std::size_t resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * 4;
}

int OpenDescriptors() {
  int count = 0;
  DIR* const folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

class AdminFlood : public HostileTest {
 protected:
  // What connections take is measured.
  void Configure(NodeConfig* config) override { config->warm_size = 0; }
  void SetUp() override {
    HostileTest::SetUp();
    ASSERT_OK_AND_ASSIGN(admin_, admin::StartAdminServer("127.0.0.1:0", &host_->admin()));
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
  }
  void TearDown() override {
    admin_.reset();  // it borrows from the host
    HostileTest::TearDown();
  }

  std::uint16_t port() const { return static_cast<std::uint16_t>(admin_->port()); }
  std::string admin_address() const { return absl::StrCat("127.0.0.1:", admin_->port()); }
  // Over a connection of its own: by itself gRPC would share the first one's.
  bool AnotherOperatorIsServed() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel =
        grpc::CreateCustomChannel(admin_address(), grpc::InsecureChannelCredentials(), arguments);
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    admin::v1::GetStatsResponse response;
    const grpc::Status status =
        admin::v1::Admin::NewStub(channel)->GetStats(&context, {}, &response);
    return status.ok() && response.nodes_size() > 0;
  }

  rlimit before_{};
  std::unique_ptr<admin::AdminServer> admin_;
};

// The parameter: whether not one descriptor is left when the flood comes, or a hundred.
class DescriptorFlood : public AdminFlood, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    AdminFlood::SetUp();
    for (const cluster::NodeInfo& node : view_->nodes) ports_.push_back(PortOf(node.tcp_address));
    ports_.push_back(port());
  }
  void TearDown() override {
    LeaveDescriptors();
    AdminFlood::TearDown();
  }

  static std::uint16_t PortOf(const std::string& address) {
    std::uint32_t port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    return static_cast<std::uint16_t>(port);
  }
  absl::StatusOr<std::unique_ptr<Client>> NewClient() {
    return Client::Connect({.seeds = {node().tcp_address},
                            .transport = ring::Transport::kTcp,
                            .deadline = absl::Seconds(5)});
  }

  void LimitDescriptors() {
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(OpenDescriptors() + kReserve + 100);
    ASSERT_LT(limit.rlim_cur, before_.rlim_cur) << "the machine's limit is too low for this test";
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (!GetParam()) return;
    for (int fd; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) hoard_.push_back(fd);
  }
  void LeaveDescriptors() {
    for (const int fd : hoard_) close(fd);
    hoard_.clear();
    setrlimit(RLIMIT_NOFILE, &before_);
  }

  std::vector<int> hoard_;
  std::vector<std::uint16_t> ports_;
};

TEST_P(DescriptorFlood, TenThousandConnectsPastTheLimitAreRefusedByNameAndHurtNobody) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Client> client, NewClient());
  ASSERT_OK(client->Put("early", "bird").status());
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<admin::AdminClient> operator_,
                       admin::AdminClient::Create({.addresses = {admin_address()}}));
  ASSERT_OK(operator_->GetStats().status());
  for (int i = 0; i < 100; ++i) {  // to every node
    ASSERT_OK(client->Put(absl::StrCat("key", i), "value").status());
  }
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  LimitDescriptors();
  const pid_t child = StartFlood(ports_, ends[1]);
  close(ends[1]);
  int rounds = 0;
  for (pollfd done{ends[0], POLLIN, 0}; poll(&done, 1, 0) == 0; ++rounds) {
    const std::string value = absl::StrCat("value", rounds);
    for (Client* const one : {client.get(), healthy_.get()}) {
      ASSERT_OK(one->Put("early", value).status());
      ASSERT_OK_AND_ASSIGN(const GetResult got, one->Get("early"));
      ASSERT_EQ(got.value, value);
    }
    if (rounds % 16 == 0) {
      ASSERT_OK(operator_->GetStats().status());
    }
  }
  FloodCounts counts;
  ASSERT_EQ(read(ends[0], &counts, sizeof(counts)), static_cast<ssize_t>(sizeof(counts)));
  close(ends[0]);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  std::printf("connects=%d refused_by_name=%d closed=%d neither=%d rounds=%d\n", counts.connected,
              counts.named, counts.closed, counts.left, rounds);
  EXPECT_EQ(counts.connected, kConnects);
  EXPECT_GT(counts.named, kConnects / 4);
  EXPECT_GT(rounds, 0);

  // The connections are gone, and with them what they took.
  for (const int fd : hoard_) close(fd);
  hoard_.clear();
  absl::StatusOr<std::unique_ptr<Client>> late = NewClient();
  for (int i = 0; i < 20 && !late.ok(); ++i) late = NewClient();
  ASSERT_OK(late.status());
  ASSERT_OK((*late)->Put("late", "bird").status());
  EXPECT_EQ((*late)->Get("late")->value, "bird");
  EXPECT_OK(operator_->GetStats().status());
  EXPECT_TRUE(AnotherOperatorIsServed());
}

INSTANTIATE_TEST_SUITE_P(Left, DescriptorFlood, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "None" : "AHundred"; });

// gRPC would take tens of kilobytes for each. Who comes behind them is served all the same.
TEST_F(AdminFlood, TenThousandSilentConnectsAreKeptFromGrpcAndTheOldestRefused) {
  rlimit limit = before_;
  const auto at_once = static_cast<int>(std::min<rlim_t>(2000, limit.rlim_max / 3));
  limit.rlim_cur = limit.rlim_max;  // both ends are in this process
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_TRUE(AnotherOperatorIsServed());
  const std::size_t before_kib = ResidentKiB();
  std::size_t most_kib = before_kib;
  int told = 0;
  for (int made = 0; made < kConnects; made += at_once) {
    std::vector<int> sockets;
    for (int i = 0; i < at_once; ++i) {
      sockets.push_back(Dial(port()));
      if (i % 100 == 99) {  // the backlog holds 128; one that is served comes behind them
        ASSERT_TRUE(AnotherOperatorIsServed());
      }
    }
    most_kib = std::max(most_kib, ResidentKiB());
    for (const int fd : sockets) {
      char answer[128];
      const ssize_t size = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);
      constexpr char kReason[] = "refused: ";
      const auto length = static_cast<std::size_t>(std::max<ssize_t>(size, 0));
      told += memmem(answer, length, kReason, sizeof(kReason) - 1) != nullptr ? 1 : 0;
      close(fd);
    }
  }
  std::printf("told=%d resident_growth_kib=%zu\n", told, most_kib - before_kib);
  EXPECT_GE(told, kConnects / at_once * (at_once - 1024));
  // At most 4 KiB of each before it says what it is; a sanitizer keeps what was freed.
  constexpr std::size_t kOfEachKiB = testing::kSanitized ? 64 : 4;
  EXPECT_LE(most_kib - before_kib, static_cast<std::size_t>(at_once) * kOfEachKiB);
  setrlimit(RLIMIT_NOFILE, &before_);
}

}  // namespace
}  // namespace ring::node
