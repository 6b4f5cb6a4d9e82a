#include "tools/ring-bench/recovery_target.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/admin/admin_client.h"
#include "ring/base/status.h"
#include "ring/node/config/config.h"
#include "ring/node/host.h"
#include "tools/common/child_process.h"
#include "tools/common/free_ports.h"
#include "tools/common/node_processes.h"
#include "tools/common/temporary_folder.h"

namespace ring::bench {
namespace {

constexpr int kNodeCount = 6;
constexpr absl::Duration kReadyTimeout = absl::Seconds(60);

// As the file has them: those of an embedded cluster.
std::string MemgestTables(protocol::RepairScheme repair) {
  std::string text;
  for (const protocol::MemgestDescriptor& memgest : node::EmbeddedConfig().memgests) {
    absl::StrAppend(&text, "[[memgests]]\nname = \"", memgest.name, "\"\n");
    if (memgest.scheme == protocol::Scheme::kReplicated) {
      absl::StrAppend(&text, "rep = ", memgest.r, "\n");
    } else {
      absl::StrAppend(&text, "srs = [", memgest.k, ", ", memgest.m, "]\nrepair = \"",
                      protocol::RepairName(repair), "\"\n");
    }
  }
  return text;
}

class EmbeddedTarget final : public RecoveryTarget {
 public:
  absl::Status Open(const RecoveryTargetOptions& options) {
    node::HostOptions host{
        .config = node::EmbeddedConfig(), .hosted = {}, .reactor_count = options.reactor_count};
    host.config.recovery_rate = std::uint64_t{options.recovery_rate_mib} << 20;
    host.config.recovery_rate_min = std::uint64_t{options.recovery_rate_min_mib} << 20;
    host.config.control.fail_over = true;
    host.config.control.SetDetection(options.detect_ms);
    host.config.control.fence =
        options.fence == "check" ? node::FenceKind::kCheck : node::FenceKind::kLease;
    for (protocol::MemgestDescriptor& memgest : host.config.memgests) {
      if (memgest.scheme == protocol::Scheme::kStretchedReedSolomon)
        memgest.repair = options.repair;
    }
    RING_ASSIGN_OR_RETURN(host_, node::Host::Start(host));
    return host_->WaitReady(kReadyTimeout);
  }
  absl::StatusOr<std::unique_ptr<Client>> Connect() const override {
    ClientOptions client;
    client.seeds = {host_->local_seed()};
    client.transport = Transport::kLocal;
    return Client::Connect(client);
  }
  absl::StatusOr<cluster::View> View() override { return **host_->admin().GetView(); }
  absl::StatusOr<cluster::Health> Health() override { return host_->admin().GetHealth(); }
  absl::StatusOr<std::vector<node::NodeEvents>> Events() override {
    return host_->admin().GetEvents({});
  }
  absl::Status Kill(NodeId node) override { return host_->Kill(node); }
  bool restarts() const override { return false; }
  absl::Status Restart(NodeId node) override {
    return absl::UnimplementedError(
        absl::StrCat("node=", node.value(), " of an embedded cluster does not come back"));
  }

 private:
  std::unique_ptr<node::Host> host_;
};

class ProcessTarget final : public RecoveryTarget {
 public:
  explicit ProcessTarget(tools::TemporaryFolder folder) : folder_(std::move(folder)) {}

  absl::Status Open(const RecoveryTargetOptions& options) {
    transport_ = options.transport == "shm" ? Transport::kShm : Transport::kTcp;
    RING_ASSIGN_OR_RETURN(const std::string ringd, tools::FindProgram("ringd"));
    const std::string file = absl::StrCat(folder_.path(), "/ring.toml");
    RING_RETURN_IF_ERROR(WriteConfiguration(options, file));
    RING_ASSIGN_OR_RETURN(node::NodeConfig config, node::LoadNodeConfig(file, "n0"));
    nodes_ = std::make_unique<tools::NodeProcesses>(
        tools::NodeProcessesOptions{.ringd = ringd, .config = file, .folder = folder_.path()},
        std::move(config));
    RING_RETURN_IF_ERROR(nodes_->StartAll(kReadyTimeout));
    admin::AdminClientOptions admins{.addresses = admins_};
    admins.attempt_deadline = absl::Seconds(1);  // the next one is asked when one is gone
    RING_ASSIGN_OR_RETURN(admin_, admin::AdminClient::Create(admins));
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<Client>> Connect() const override {
    ClientOptions client;
    client.seeds = seeds_;
    client.transport = transport_;
    return Client::Connect(client);
  }
  absl::StatusOr<cluster::View> View() override { return admin_->GetClusterView(); }
  absl::StatusOr<cluster::Health> Health() override { return admin_->GetHealth(); }
  absl::StatusOr<std::vector<node::NodeEvents>> Events() override { return admin_->GetEvents({}); }
  absl::Status Kill(NodeId node) override {
    // One that ended by itself is a finding, and would be taken for the one that was killed.
    if (const std::string dead = nodes_->FindDead(); !dead.empty())
      return absl::UnavailableError(dead);
    nodes_->Kill(node.value());
    return absl::OkStatus();
  }
  bool restarts() const override { return true; }
  absl::Status Restart(NodeId node) override {
    RING_RETURN_IF_ERROR(nodes_->Start(node.value()));
    return nodes_->WaitReady(node.value(), kReadyTimeout);
  }

 private:
  absl::Status WriteConfiguration(const RecoveryTargetOptions& options, const std::string& path) {
    std::string text = absl::StrCat(
        "[cluster]\nname = \"recovery-bench\"\ns = 3\nd = 2\nfail_over = \"on\"\nfence = \"",
        options.fence, "\"\ndetect_ms = ", options.detect_ms, "\n[node]\ntransport = \"",
        options.transport, "\"\nlog_level = \"warning\"\nring_size = \"256KiB\"\n");
    absl::StrAppend(&text, "recovery_rate = \"", options.recovery_rate_mib, "MiB\"\n");
    absl::StrAppend(&text, "recovery_rate_min = \"", options.recovery_rate_min_mib, "MiB\"\n");
    if (options.durable) {
      const std::string voters = absl::StrCat(folder_.path(), "/voters");
      std::error_code error;
      std::filesystem::create_directory(voters, error);
      if (error) return absl::UnavailableError(absl::StrCat(voters, ": ", error.message()));
      absl::StrAppend(&text, "data_dir = \"", voters, "\"\n");
    }
    absl::StrAppend(&text, MemgestTables(options.repair));
    RING_ASSIGN_OR_RETURN(std::vector<int> ports, tools::FreePorts(2 * kNodeCount));
    for (int i = 0; i < kNodeCount; ++i) {
      admins_.push_back(absl::StrCat("127.0.0.1:", ports.back()));
      ports.pop_back();
      absl::StrAppend(&text, "[[nodes]]\nname = \"n", i, "\"\nhost = \"bench\"\nadmin = \"",
                      admins_.back(), "\"\n");
      if (transport_ == Transport::kShm) {
        const std::string socket = absl::StrCat(folder_.path(), "/n", i, ".sock");
        absl::StrAppend(&text, "shm = \"", socket, "\"\n");
        seeds_.push_back(absl::StrCat("shm:", socket));
      } else {
        absl::StrAppend(&text, "data = \"127.0.0.1:", ports.back(), "\"\n");
        seeds_.push_back(absl::StrCat("tcp:127.0.0.1:", ports.back()));
        ports.pop_back();
      }
    }
    std::ofstream file(path);
    file << text;
    file.close();
    if (!file) return absl::UnavailableError(absl::StrCat("file=", path, ": cannot write it"));
    return absl::OkStatus();
  }

  tools::TemporaryFolder folder_;
  Transport transport_ = Transport::kTcp;
  std::vector<std::string> seeds_;
  std::vector<std::string> admins_;
  std::unique_ptr<tools::NodeProcesses> nodes_;
  std::unique_ptr<admin::AdminClient> admin_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecoveryTarget>> RecoveryTarget::Start(
    const RecoveryTargetOptions& options) {
  if (options.transport == "local") {
    auto target = std::make_unique<EmbeddedTarget>();
    RING_RETURN_IF_ERROR(target->Open(options));
    return target;
  }
  RING_ASSIGN_OR_RETURN(tools::TemporaryFolder folder,
                        tools::TemporaryFolder::Create("ring-recovery-"));
  auto target = std::make_unique<ProcessTarget>(std::move(folder));
  RING_RETURN_IF_ERROR(target->Open(options));
  return target;
}

}  // namespace ring::bench
