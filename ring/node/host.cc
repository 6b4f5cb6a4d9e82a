#include "ring/node/host.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "rdma/host_identity.h"
#include "ring/base/boot_clock.h"
#include "ring/base/host_port.h"
#include "ring/base/log.h"
#include "ring/base/processors.h"
#include "ring/base/random.h"
#include "ring/base/status.h"
#include "ring/base/sync.h"
#include "ring/cluster/default_memgests.h"
#include "ring/node/control/cluster_admin.h"
#include "ring/node/polling.h"
#include "ring/node/reactor.h"

namespace ring::node {
namespace {

// Waits for a count of parties, each with a status; keeps the first error.
class Arrivals {
 public:
  explicit Arrivals(std::size_t count) : left_(count) {}
  void Arrive(const absl::Status& status) {
    MutexLock lock(mutex_);
    status_.Update(status);
    if (--left_ == 0) done_.NotifyAll();
  }
  absl::Status Wait() {
    MutexLock lock(mutex_);
    while (left_ > 0) done_.Wait(mutex_);
    return status_;
  }

 private:
  Mutex mutex_;
  CondVar done_;
  std::size_t left_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

class HostImpl final : public Host {
 public:
  explicit HostImpl(const HostOptions& options) : options_(options) {
    if (options_.hosted.empty()) {
      for (std::size_t i = 0; i < options_.config.nodes.size(); ++i) {
        options_.hosted.push_back(NodeId(static_cast<std::uint32_t>(i)));
      }
    }
  }
  ~HostImpl() override { Stop(); }

  absl::Status Open();
  absl::Status WaitReady(absl::Duration timeout) override;
  std::string seeds() const override { return seeds_; }
  std::string local_seed() const override { return local_seed_; }
  AdminPort& admin() override { return *admin_; }
  absl::Status Kill(NodeId node) override;
  void Stop() override;

 private:
  void OpenNodes(Reactor* reactor, const std::vector<NodeId>& ids, Arrivals* arrivals);
  void FindNames(std::vector<HostName> unknown, const Resolve& resolve);
  int NeighbourCount() const;
  cluster::View MakeView(const std::vector<cluster::NodeInfo>& infos) const;
  template <class Call>
  auto Ask(Reactor& reactor, Call call);

  HostOptions options_;
  BootClock clock_;
  std::vector<std::unique_ptr<Reactor>> reactors_;
  std::vector<std::thread> threads_;
  std::unique_ptr<AdminPort> admin_;
  std::unique_ptr<NameFinder> names_;
  std::string seeds_;
  std::string local_seed_;
};

template <class Call>
auto HostImpl::Ask(Reactor& reactor, Call call) {
  decltype(call()) result;
  Arrivals arrivals(1);
  reactor.Post([&] {
    result = call();
    arrivals.Arrive(absl::OkStatus());
  });
  arrivals.Wait().IgnoreError();
  return result;
}

// A device belongs to the thread that opened it, so a reactor opens its nodes itself.
void HostImpl::OpenNodes(Reactor* reactor, const std::vector<NodeId>& ids, Arrivals* arrivals) {
  std::random_device entropy;
  SeededRandom random((std::uint64_t{entropy()} << 32) | entropy());
  absl::Status status;
  for (const NodeId id : ids) {
    NodeOptions options;
    options.config = options_.config;
    options.id = id;
    options.clock = &clock_;
    options.random = &random;
    options.wall_us = static_cast<std::uint64_t>(absl::ToUnixMicros(absl::Now()));
    if (options_.found_without > absl::ZeroDuration()) {
      options.found_without_ns =
          static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(options_.found_without));
    }
    options.host = rdma::HostIdentity();
    options.card_lost = options_.card_lost;
    options.wake = [reactor] { reactor->Post([] {}); };
    options.die = [this, reactor](NodeId dying) {
      if (options_.hosted.size() == 1) kill(getpid(), SIGKILL);
      reactor->Post([reactor, dying] { reactor->DropNode(dying); });
    };
    absl::StatusOr<std::unique_ptr<Node>> node = Node::Open(options);
    if (!node.ok()) {
      status = absl::Status(node.status().code(),
                            absl::StrCat("node ", options_.config.nodes[id.value()].name, ": ",
                                         node.status().message()));
      break;
    }
    reactor->AddNode(*std::move(node));
  }
  arrivals->Arrive(status);
  if (status.ok()) reactor->Run();
  reactor->DropNodes();
}

// Threads of the other nodes of this host, which are taken to be configured like this one.
int HostImpl::NeighbourCount() const {
  const std::vector<NodeEntry>& nodes = options_.config.nodes;
  const std::string& host = nodes[options_.hosted.front().value()].host;
  int count = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NodeId id(static_cast<std::uint32_t>(i));
    const bool hosted =
        std::find(options_.hosted.begin(), options_.hosted.end(), id) != options_.hosted.end();
    count += !hosted && nodes[i].host == host ? 1 : 0;
  }
  return count;
}

void HostImpl::FindNames(std::vector<HostName> unknown, const Resolve& resolve) {
  names_ = std::make_unique<NameFinder>(
      std::move(unknown), resolve, options_.resolve_period,
      [this](const HostName& name, const std::string& address) {
        const std::string tcp = name.rdma ? "" : absl::StrCat("tcp:", address);
        const std::string rdma = name.rdma ? absl::StrCat("rdma:", address) : "";
        for (const std::unique_ptr<Reactor>& one : reactors_) {
          one->Post([reactor = one.get(), id = name.node, tcp, rdma] {
            for (const std::unique_ptr<Node>& node : reactor->nodes())
              node->LearnContact(id, tcp, rdma);
          });
        }
      });
}

absl::Status HostImpl::Open() {
  const Resolve resolve =
      options_.resolve == nullptr ? Resolve(&ResolveHostPort) : options_.resolve;
  RING_ASSIGN_OR_RETURN(std::vector<HostName> unknown,
                        ResolveNames(options_.hosted, resolve, &options_.config));
  const auto reactor_count = std::clamp<std::size_t>(
      static_cast<std::size_t>(std::max(1, options_.reactor_count)), 1, options_.hosted.size());
  Pollers pollers;
  pollers.reactors = static_cast<int>(reactor_count);
  pollers.neighbours = NeighbourCount();
  pollers.processors = options_.processor_count > 0 ? options_.processor_count : ProcessorCount();
  RING_ASSIGN_OR_RETURN(ReactorOptions reactor_options, PollingOf(options_.config, pollers));
  reactor_options.clock = &clock_;
  Arrivals opened(reactor_count);
  for (std::size_t i = 0; i < reactor_count; ++i)
    reactors_.push_back(std::make_unique<Reactor>(reactor_options));
  for (std::size_t i = 0; i < reactor_count; ++i) {
    std::vector<NodeId> ids;
    for (std::size_t j = i; j < options_.hosted.size(); j += reactor_count)
      ids.push_back(options_.hosted[j]);
    threads_.emplace_back(
        [this, reactor = reactors_[i].get(), ids, &opened] { OpenNodes(reactor, ids, &opened); });
  }
  RING_RETURN_IF_ERROR(opened.Wait());

  std::vector<cluster::NodeInfo> infos;
  std::vector<Node*> nodes;
  for (const std::unique_ptr<Reactor>& reactor : reactors_) {
    for (const std::unique_ptr<Node>& node : reactor->nodes()) {
      infos.push_back(node->info());
      nodes.push_back(node.get());
    }
  }
  auto view = std::make_shared<const cluster::View>(MakeView(infos));
  RING_RETURN_IF_ERROR(view->Validate());
  for (const cluster::NodeInfo& node : view->nodes) {
    const bool hosted =
        std::find(options_.hosted.begin(), options_.hosted.end(), node.id) != options_.hosted.end();
    if (!hosted || node.tcp_address.empty()) continue;
    absl::StrAppend(&seeds_, seeds_.empty() ? "" : ",",
                    absl::StripPrefix(node.tcp_address, "tcp:"));
  }
  local_seed_ = infos.front().local_address;
  std::vector<Reactor*> reactors;
  for (const std::unique_ptr<Reactor>& reactor : reactors_) reactors.push_back(reactor.get());
  RING_ASSIGN_OR_RETURN(admin_, StartClusterAdmin(reactors, view));
  FindNames(std::move(unknown), resolve);  // behind the first view
  return absl::OkStatus();
}

cluster::View HostImpl::MakeView(const std::vector<cluster::NodeInfo>& infos) const {
  cluster::View view = options_.config.InitialView();
  const bool whole = infos.size() == view.nodes.size();
  for (const cluster::NodeInfo& info : infos) {
    cluster::NodeInfo& node = view.nodes[info.id.value()];
    node.incarnation = info.incarnation;
    node.host = info.host;
    node.tcp_address = info.tcp_address;
    node.shm_address = info.shm_address;
    node.rdma_address = info.rdma_address;
    // Inside one process; a cluster of several processes has one view, in which it would mislead
    // the others.
    if (whole) node.local_address = info.local_address;
  }
  // Nodes of other processes: their label in the configuration decides whether they share memory
  // with this one.
  for (cluster::NodeInfo& node : view.nodes) {
    const NodeEntry& self = options_.config.nodes[options_.hosted.front().value()];
    if (options_.config.nodes[node.id.value()].host == self.host) node.host = infos.front().host;
  }
  return view;
}

absl::Status HostImpl::WaitReady(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  for (;;) {
    std::string missing;
    for (const std::unique_ptr<Reactor>& reactor : reactors_) {
      missing += Ask(*reactor, [&reactor] {
        std::string links;
        for (const std::unique_ptr<Node>& node : reactor->nodes()) {
          if (!node->ready()) absl::StrAppend(&links, links.empty() ? "" : "; ", node->Missing());
        }
        return links;
      });
    }
    if (missing.empty()) return absl::OkStatus();
    if (absl::Now() > deadline)
      return absl::DeadlineExceededError(absl::StrCat("not connected: ", missing));
    absl::SleepFor(absl::Milliseconds(2));
  }
}

absl::Status HostImpl::Kill(NodeId node) {
  for (const std::unique_ptr<Reactor>& reactor : reactors_) {
    const bool killed = Ask(*reactor, [&reactor, node] {
      const std::size_t before = reactor->nodes().size();
      reactor->DropNode(node);
      return reactor->nodes().size() < before;
    });
    if (killed) return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat("node=", node.value(), " does not run here"));
}

void HostImpl::Stop() {
  names_.reset();
  for (const std::unique_ptr<Reactor>& reactor : reactors_) reactor->Stop();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  admin_.reset();
  reactors_.clear();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Host>> Host::Start(const HostOptions& options) {
  if (options.config.nodes.empty()) return absl::InvalidArgumentError("config has no nodes");
  auto host = std::make_unique<HostImpl>(options);
  RING_RETURN_IF_ERROR(host->Open());
  return host;
}

NodeConfig EmbeddedConfig() {
  static std::atomic<int> count{0};
  const std::string tag = absl::StrCat(getpid(), "-", count.fetch_add(1));
  NodeConfig config;
  config.cluster_name = absl::StrCat("embedded-", tag);
  for (int i = 0; i < config.s + config.d + 1; ++i) {
    NodeEntry entry;
    entry.name = absl::StrCat("n", i);
    entry.host = "localhost";
    entry.data = "127.0.0.1:0";
    entry.shm = absl::StrCat("/tmp/ring-", tag, "-", entry.name, ".sock");
    config.nodes.push_back(entry);
  }
  config.memgests = cluster::DefaultMemgests(config.s, config.d);
  config.default_memgest = "REP3";
  config.ring_size = kRingSizeMin;
  // Nodes of one process do not die one by one: silence is a machine that is busy. So they may also
  // sleep long.
  config.control.heartbeat_ms = 100;
  config.control.detect_ms = 1000;
  config.control.lease_ms = 600;
  return config;
}

}  // namespace ring::node
