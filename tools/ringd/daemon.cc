#include "tools/ringd/daemon.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "api/admin/admin_service.h"
#include "api/admin/admin_token.h"
#include "ring/base/check.h"
#include "ring/base/log.h"
#include "ring/base/status.h"
#include "ring/base/sync.h"
#include "ring/node/config/link_policy.h"
#include "ring/node/host.h"
#include "tools/common/program.h"
#include "tools/ringd/join.h"

namespace ring::tools {
namespace {

// How long a signal may go unnoticed while the peers of a new cluster are started one by one.
constexpr absl::Duration kReadyInterval = absl::Milliseconds(200);
constexpr int kIntervalsPerMessage = 50;

absl::StatusOr<node::HostOptions> ReadOptions(const DaemonOptions& options) {
  node::HostOptions host;
  host.reactor_count = options.reactor_count;
  if (!options.embedded) {
    RING_ASSIGN_OR_RETURN(host.config, node::LoadNodeConfig(options.config_path, options.node_name,
                                                            options.added ? node::SelfIs::kAdded
                                                                          : node::SelfIs::kNamed));
    host.hosted = {host.config.self};
    return host;
  }
  host.config = node::EmbeddedConfig();
  host.config.admin_token_file = options.admin_token_file;
  if (options.data_port != 0) {
    int port = options.data_port;
    for (node::NodeEntry& entry : host.config.nodes)
      entry.data = absl::StrCat("127.0.0.1:", port++);
  }
  return host;
}

// Where the admin service listens; empty: nowhere.
std::string AdminAddress(const DaemonOptions& options, const node::NodeConfig& config) {
  if (options.embedded) return absl::StrCat("127.0.0.1:", options.admin_port);
  return config.self_entry().admin;
}

// The two signals that stop it; blocked everywhere, taken by sigtimedwait.
sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

// Whether one of them came within the time.
bool StopRequested(absl::Duration timeout) {
  const sigset_t signals = StopSignals();
  const timespec time = absl::ToTimespec(timeout);
  return sigtimedwait(&signals, nullptr, &time) > 0;
}

void WaitForStop() {
  const sigset_t signals = StopSignals();
  while (sigwaitinfo(&signals, nullptr) < 0) RING_CHECK(errno == EINTR) << "errno=" << errno;
}

// From now on a signal ends the process at once.
void RestoreSignals() {
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

int Fail(const absl::Status& status) {
  PrintError("ringd", status.message());
  const bool is_configuration = absl::IsInvalidArgument(status) || absl::IsUnimplemented(status);
  return is_configuration ? 2 : 1;
}

// What a node that runs here lost: told by its thread, asked by the main one.
class LostCard {
 public:
  // Ends the wait for a signal.
  void Tell(const absl::Status& status) {
    {
      MutexLock lock(mutex_);
      status_ = status;
    }
    kill(getpid(), SIGTERM);
  }
  absl::Status status() const {
    MutexLock lock(mutex_);
    return status_;
  }

 private:
  mutable Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// The same program with the same arguments, in this process: what supervises it sees no end, and
// nothing of the card stays open, which its removal may wait for.
int StartAnew() {
  std::string bytes;
  if (std::FILE* const file = std::fopen("/proc/self/cmdline", "r"); file != nullptr) {
    for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) bytes += static_cast<char>(c);
    std::fclose(file);
  }
  std::vector<char*> arguments;
  for (std::size_t at = 0; at < bytes.size(); at += std::strlen(&bytes[at]) + 1)
    arguments.push_back(&bytes[at]);
  arguments.push_back(nullptr);
  execv("/proc/self/exe", arguments.data());
  return Fail(absl::ErrnoToStatus(errno, "ringd cannot start itself anew"));
}

void PrintHints(const std::string& seeds, const std::string& admin) {
  std::printf(
      "\nTry, in another terminal:\n"
      "  export RING_SEEDS=%s RING_ADMIN=%s\n"
      "  ringctl put hello world\n"
      "  ringctl get hello\n"
      "  ringctl move hello SRS32\n"
      "  ringctl memgest list\n"
      "Ctrl-C stops it; values live in memory and are gone then.\n",
      seeds.c_str(), admin.c_str());
}

// Without TCP clients come through shared memory, or by rdma.
std::string Seeds(const node::Host& host, const node::NodeConfig& config) {
  std::string seeds = host.seeds();
  const node::NodeEntry& self = config.self_entry();
  if (!seeds.empty()) return seeds;
  return self.shm.empty() ? absl::StrCat("rdma:", self.rdma) : absl::StrCat("shm:", self.shm);
}

// Waits until the cluster serves. False: a signal came first.
bool WaitReady(node::Host& host) {
  for (int i = 1;; ++i) {
    const absl::Status status = host.WaitReady(kReadyInterval);
    if (status.ok()) return true;
    if (i % kIntervalsPerMessage == 0) RING_LOG(INFO) << "waiting for peers: " << status.message();
    if (StopRequested(absl::ZeroDuration())) return false;
  }
}

int Serve(const DaemonOptions& options, node::HostOptions host_options,
          const std::string& admin_token) {
  LostCard lost;
  host_options.card_lost = [&lost](NodeId, const absl::Status& status) { lost.Tell(status); };
  absl::StatusOr<std::unique_ptr<node::Host>> host = node::Host::Start(host_options);
  if (!host.ok()) return Fail(host.status());
  std::string address = AdminAddress(options, host_options.config);
  std::unique_ptr<admin::AdminServer> server;
  if (!address.empty()) {
    absl::StatusOr<std::unique_ptr<admin::AdminServer>> started =
        admin::StartAdminServer(address, &(*host)->admin(), admin_token);
    if (!started.ok()) return Fail(started.status());
    server = *std::move(started);
    address = absl::StrCat(address.substr(0, address.rfind(':')), ":", server->port());
  }
  if (WaitReady(**host)) {
    const std::string seeds = Seeds(**host, host_options.config);
    std::printf("ready: seeds=%s admin=%s\n", seeds.c_str(), address.c_str());
    if (options.hints || isatty(STDOUT_FILENO) != 0) PrintHints(seeds, address);
    std::fflush(stdout);
    WaitForStop();
  }
  RestoreSignals();
  const node::NodeConfig& config = host_options.config;
  const bool anew =
      !lost.status().ok() && !node::Requires(config, config.self, node::Transport::kRdma);
  if (anew) RING_LOG(WARNING) << "node=" << config.self.value() << " starts anew without its card";
  // Nodes of one process that stop one after the other miss each other: that is no news.
  SetMinLogSeverity(LogSeverity::kERROR);
  if (server != nullptr) server->Shutdown();
  (*host)->Stop();
  if (lost.status().ok()) return 0;
  if (anew) return StartAnew();
  return Fail(absl::Status(lost.status().code(),
                           absl::StrCat(lost.status().message(),
                                        ": start the node then, or let transport = \"auto\" go on "
                                        "without")));
}

// Connections of peers and clients are descriptors: as many as the system lets this process have.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int RunDaemon(const DaemonOptions& options) {
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  RaiseDescriptorLimit();
  absl::StatusOr<node::HostOptions> host_options = ReadOptions(options);
  if (!host_options.ok()) {
    // A file that is not there is as wrong as one that is.
    PrintError("ringd", host_options.status().message());
    return 2;
  }
  std::string admin_token;
  if (const std::string& file = host_options->config.admin_token_file; !file.empty()) {
    absl::StatusOr<std::string> token = admin::ReadTokenFile(file);
    if (!token.ok()) return Fail(token.status());
    admin_token = *std::move(token);
  }
  SetMinLogSeverity(host_options->config.log_level);
  if (options.added) {
    node::NodeConfig& config = host_options->config;
    const absl::Status joined =
        AwaitAdded([] { return StopRequested(kReadyInterval); }, options.node_name, &config);
    if (absl::IsCancelled(joined)) return 0;
    if (!joined.ok()) return Fail(joined);
    host_options->hosted = {config.self};
  }
  return Serve(options, *host_options, admin_token);
}

}  // namespace ring::tools
