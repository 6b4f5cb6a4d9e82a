// ring-bench peers: starts Redis and memcached, gives them the same work, and stops them.
#include <poll.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ring/base/status.h"
#include "tools/common/child_process.h"
#include "tools/common/free_ports.h"
#include "tools/common/size_option.h"
#include "tools/common/temporary_folder.h"
#include "tools/ring-bench/client_loop.h"
#include "tools/ring-bench/context.h"
#include "tools/ring-bench/load.h"
#include "tools/ring-bench/peer_connection.h"
#include "tools/ring-bench/target.h"

namespace ring::bench {
namespace {

struct PeersOptions {
  std::uint64_t key_count = 100'000;
  std::size_t value_size = 1024;
  double seconds = 1;
  int rounds = 3;
  bool pin = false;
};

struct Shape {
  std::size_t connections;
  std::size_t pipeline;
};

struct Measurement {
  Histogram latency;
  double rate = 0;
};

// Something that does puts or gets of a shape: Ring, or a peer.
struct Contender {
  std::string name;
  bool gets_too = true;
  std::function<absl::StatusOr<Measurement>(const Shape&, bool is_get, std::uint64_t seed)> run;
};

class PeersBench {
 public:
  PeersBench(const PeersOptions& options, Context* context)
      : options_(options), context_(context) {}
  absl::Status Run();

 private:
  absl::Status AddRing(const std::string& transport);
  absl::Status AddRedis();
  absl::Status AddRedisWithReplicas();
  absl::Status AddMemcached();
  absl::StatusOr<int> StartServer(std::vector<std::string> argv, int port);
  void AddPeer(const std::string& name, const PeerAddress& address, bool gets_too = true);
  absl::StatusOr<std::vector<Row>> MeasureShape(const Shape& shape);
  PeerWork Work() const {
    PeerWork work;
    work.key_count = options_.key_count;
    work.value_size = options_.value_size;
    work.seconds = options_.seconds;
    return work;
  }

  const PeersOptions& options_;
  Context* context_;
  std::optional<tools::TemporaryFolder> folder_;
  std::vector<std::unique_ptr<tools::ChildProcess>> servers_;
  std::vector<std::unique_ptr<Target>> targets_;
  std::vector<Contender> contenders_;
};

absl::Status PeersBench::AddRing(const std::string& transport) {
  TargetOptions options;
  options.transport = transport;
  options.pin = options_.pin;
  RING_ASSIGN_OR_RETURN(auto target, Target::Start(options));
  Target* cluster = target.get();
  targets_.push_back(std::move(target));
  RING_ASSIGN_OR_RETURN(const auto client, cluster->NewClient(64));
  std::uint16_t space = 0;
  for (const char* memgest : {"REP1", "REP3", "SRS32"}) {
    RING_ASSIGN_OR_RETURN(const MemgestId id, client->ResolveMemgest(memgest));
    LoadOptions load{.memgest = id,
                     .key_space = ++space,
                     .key_count = options_.key_count,
                     .value_size = options_.value_size,
                     .progress = context_->progress};
    RING_RETURN_IF_ERROR(Load(client.get(), absl::StrCat("loading ", memgest), load));
    contenders_.push_back(
        {absl::StrCat("Ring ", memgest, " ", transport), true,
         [this, cluster, id, space](const Shape& shape, bool is_get,
                                    std::uint64_t seed) -> absl::StatusOr<Measurement> {
           LoopOptions loop;
           loop.memgest = id;
           loop.key_space = space;
           loop.key_count = options_.key_count;
           loop.value_size = options_.value_size;
           loop.read_ratio = is_get ? 1 : 0;
           loop.pipeline = shape.pipeline;
           loop.seconds = options_.seconds;
           std::vector<std::unique_ptr<Client>> clients;
           std::vector<std::unique_ptr<ClientLoop>> loops;
           for (std::size_t i = 0; i < shape.connections; ++i) {
             RING_ASSIGN_OR_RETURN(auto one, cluster->NewClient(shape.pipeline));
             clients.push_back(std::move(one));
             loop.seed = seed * 100 + i;
             loops.push_back(std::make_unique<ClientLoop>(clients.back().get(), loop));
           }
           Measurement out;
           for (const LoopResult& result : ClientLoop::Run(loops)) {
             if (result.failed + result.wrong_values != 0) {
               return absl::AbortedError(
                   absl::StrCat("Ring: ", result.failed, " failed, ", result.wrong_values,
                                " wrong values, first: ", result.first_error));
             }
             out.latency.Merge(result.gets);
             out.latency.Merge(result.puts);
           }
           out.rate = static_cast<double>(out.latency.count()) / options_.seconds;
           return out;
         }});
  }
  return absl::OkStatus();
}

// Waits until the port answers.
absl::StatusOr<int> PeersBench::StartServer(std::vector<std::string> argv, int port) {
  const std::string name = argv.front();
  PeerAddress address;
  address.port = port;
  if (options_.pin) Target::PinToFirst(1);
  absl::StatusOr<std::unique_ptr<tools::ChildProcess>> server = tools::ChildProcess::Start(argv);
  if (options_.pin) Target::PinToOthers(1);
  RING_RETURN_IF_ERROR(server.status());
  servers_.push_back(*std::move(server));
  for (int i = 0; i < 500; ++i) {
    if (PeerConnection::Connect(address).ok()) return port;
    poll(nullptr, 0, 10);
  }
  return absl::UnavailableError(absl::StrCat("program=", name, " does not listen at port=", port));
}

void PeersBench::AddPeer(const std::string& name, const PeerAddress& address, bool gets_too) {
  contenders_.push_back({name, gets_too,
                         [this, address](const Shape& shape, bool is_get,
                                         std::uint64_t seed) -> absl::StatusOr<Measurement> {
                           PeerWork work = Work();
                           work.is_get = is_get;
                           work.connections = shape.connections;
                           work.pipeline = shape.pipeline;
                           work.seed = seed;
                           RING_ASSIGN_OR_RETURN(PeerResult result, RunPeer(address, work));
                           Measurement out;
                           out.rate = static_cast<double>(result.latency.count()) / result.seconds;
                           out.latency = std::move(result.latency);
                           return out;
                         }});
}

absl::Status PeersBench::AddRedis() {
  if (!tools::FindProgram("redis-server").ok()) {
    context_->report.AddNote("redis-server is not installed: left out");
    return absl::OkStatus();
  }
  RING_ASSIGN_OR_RETURN(const int port, tools::FreePort());
  const std::string path = folder_->path() + "/redis";
  RING_RETURN_IF_ERROR(StartServer({"redis-server", "--port", absl::StrCat(port), "--bind",
                                    "127.0.0.1", "--unixsocket", path, "--save", "", "--appendonly",
                                    "no", "--dir", folder_->path(), "--loglevel", "warning"},
                                   port)
                           .status());
  PeerAddress tcp;
  tcp.port = port;
  PeerAddress local = tcp;
  local.unix_path = path;
  RING_RETURN_IF_ERROR(LoadPeer(tcp, Work()));
  AddPeer("Redis TCP", tcp);
  AddPeer("Redis Unix socket", local);
  return AddRedisWithReplicas();
}

absl::Status PeersBench::AddRedisWithReplicas() {
  int leader = 0;
  for (int i = 0; i < 3; ++i) {
    RING_ASSIGN_OR_RETURN(const int port, tools::FreePort());
    std::vector<std::string> argv = {"redis-server",
                                     "--port",
                                     absl::StrCat(port),
                                     "--bind",
                                     "127.0.0.1",
                                     "--save",
                                     "",
                                     "--appendonly",
                                     "no",
                                     "--dir",
                                     folder_->path(),
                                     "--loglevel",
                                     "warning",
                                     "--repl-diskless-sync-delay",
                                     "0"};
    if (leader != 0) {
      for (const std::string& word :
           {std::string("--replicaof"), absl::StrCat("127.0.0.1 ", leader)}) {
        argv.push_back(word);
      }
    }
    RING_RETURN_IF_ERROR(StartServer(argv, port).status());
    if (leader == 0) leader = port;
  }
  const PeerAddress address{
      .protocol = PeerProtocol::kRedis, .port = leader, .unix_path = {}, .wait_for_replica = true};
  RING_ASSIGN_OR_RETURN(const auto connection, PeerConnection::Connect(address));
  RING_ASSIGN_OR_RETURN(const std::string set, connection->Command("SET a 1"));
  RING_ASSIGN_OR_RETURN(const std::string wait, connection->Command("WAIT 2 20000"));
  if (wait != ":2\r\n") {
    context_->report.AddNote("Redis with replicas did not get ready: left out");
    return absl::OkStatus();
  }
  AddPeer("Redis, 2 replicas, WAIT 1", address, false);
  return absl::OkStatus();
}

absl::Status PeersBench::AddMemcached() {
  if (!tools::FindProgram("memcached").ok()) {
    context_->report.AddNote("memcached is not installed: left out");
    return absl::OkStatus();
  }
  RING_ASSIGN_OR_RETURN(const int port, tools::FreePort());
  std::vector<std::string> argv = {"memcached", "-l", "127.0.0.1", "-p",  absl::StrCat(port),
                                   "-U",        "0",  "-m",        "2048"};
  if (geteuid() == 0) argv.insert(argv.end(), {"-u", "nobody"});
  RING_RETURN_IF_ERROR(StartServer(argv, port).status());
  PeerAddress address;
  address.protocol = PeerProtocol::kMemcached;
  address.port = port;
  RING_RETURN_IF_ERROR(LoadPeer(address, Work()));
  AddPeer("memcached TCP", address);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Row>> PeersBench::MeasureShape(const Shape& shape) {
  std::vector<Row> rows;
  for (const bool is_get : {false, true}) {
    std::vector<std::vector<double>> rates(contenders_.size()), p50s(contenders_.size());
    std::vector<Histogram> latency(contenders_.size());
    for (int round = 0; round < options_.rounds; ++round) {
      for (std::size_t i = 0; i < contenders_.size(); ++i) {
        if (is_get && !contenders_[i].gets_too) continue;
        RING_ASSIGN_OR_RETURN(
            const Measurement one,
            contenders_[i].run(shape, is_get, static_cast<std::uint64_t>(round) + 1));
        rates[i].push_back(one.rate);
        p50s[i].push_back(static_cast<double>(one.latency.Percentile(50)));
        latency[i].Merge(one.latency);
      }
    }
    double redis_rate = 0, redis_p50 = 0;
    for (std::size_t i = 0; i < contenders_.size(); ++i) {
      if (contenders_[i].name != "Redis TCP") continue;
      redis_rate = Median(rates[i]);
      redis_p50 = Median(p50s[i]);
    }
    for (std::size_t i = 0; i < contenders_.size(); ++i) {
      if (rates[i].empty()) continue;
      Row row;
      row["who"] = contenders_[i].name;
      row["op"] = is_get ? "get" : "put";
      row["ops_per_second"] = Median(rates[i]);
      row["p50_ns"] = Median(p50s[i]);
      row["p99_ns"] = latency[i].Percentile(99);
      row["rate/Redis TCP_ratio"] = redis_rate == 0 ? Row() : Row(Median(rates[i]) / redis_rate);
      row["Redis TCP p50/p50_ratio"] = redis_p50 == 0 ? Row() : Row(redis_p50 / Median(p50s[i]));
      rows.push_back(row);
    }
  }
  return rows;
}

absl::Status PeersBench::Run() {
  RING_ASSIGN_OR_RETURN(folder_, tools::TemporaryFolder::Create("ring-bench-"));
  RING_RETURN_IF_ERROR(AddRing("tcp"));
  RING_RETURN_IF_ERROR(AddRing("shm"));
  RING_RETURN_IF_ERROR(AddRedis());
  RING_RETURN_IF_ERROR(AddMemcached());
  for (const Shape& shape : {Shape{1, 1}, Shape{1, 16}, Shape{16, 1}}) {
    RING_ASSIGN_OR_RETURN(const std::vector<Row> rows, MeasureShape(shape));
    context_->report.AddSection(
        absl::StrFormat("peers: %d connection(s), pipeline %d, %d B values, %d keys",
                        shape.connections, shape.pipeline, options_.value_size, options_.key_count),
        rows);
  }
  return absl::OkStatus();
}

}  // namespace

void AddPeersCommand(CLI::App& app, Context* context) {
  auto options = std::make_shared<PeersOptions>();
  CLI::App* command = app.add_subcommand(
      "peers", "The same work over TCP by Ring, Redis and memcached, side by side");
  command->add_option("--key-count", options->key_count, "Keys, loaded first")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  tools::AddSizeOption(command, "--value-size", options->value_size, "Bytes")
      ->check(CLI::Range(1, 8 << 10))
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "Of each measurement")
      ->check(CLI::Range(0.05, 3600.0))
      ->capture_default_str();
  command->add_option("--rounds", options->rounds, "Measurements of each, A B A B")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--pin", options->pin,
                    "All servers on the first processor, the clients on the others");
  command->footer(
      "Servers run on loopback at ports of the system's choice, without persistence, and are\n"
      "stopped by their process ids. Peers that are not installed are left out.");
  command->callback([options, context] { context->status = PeersBench(*options, context).Run(); });
}

}  // namespace ring::bench
