#include "ring/node/config/config.h"
#include "ring/base/host_port.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ring/base/limits.h"
#include "ring/base/status.h"
#include "ring/cluster/catalogue.h"
#include "ring/cluster/default_memgests.h"
#include "ring/node/config/config_reader.h"
#include "ring/node/config/link_policy.h"

namespace ring::node {
namespace {

using protocol::MemgestDescriptor;

// Reads one file; keeps the places of values that later checks complain about.
class Parser {
 public:
  Parser(absl::string_view file, absl::string_view node_name, SelfIs self_is)
      : problems_(file), node_name_(node_name), self_is_(self_is) {}

  absl::StatusOr<NodeConfig> Parse(const toml::table& root);

 private:
  void ReadCluster(TableReader& root);
  void ReadControl(TableReader& in);
  void CheckControl(const toml::table& root);
  static std::string ReadPath(TableReader& in, absl::string_view key);
  void ReadNodes(TableReader& root);
  void ReadNode(const toml::table& table, std::size_t index);
  void CheckAddress(TableReader& in, absl::string_view key, const std::string& address);
  void CheckUnique(const toml::source_region& where, absl::string_view key,
                   const std::string& text);
  void ReadMemgests(TableReader& root);
  void ReadMemgest(const toml::table& table, std::size_t index);
  void ReadScheme(TableReader& in, MemgestDescriptor& memgest);
  void ReadSelf(TableReader& root);
  static Transport ChooseTransport(TableReader& in);
  void ReadTransport(TableReader& in);
  void FindSelf(const toml::source_region& where, const std::string& name);

  ConfigProblems problems_;
  std::string node_name_;
  SelfIs self_is_;
  NodeConfig config_;
  std::vector<toml::source_region> transport_at_;           // by node: its own, or the node
  std::vector<std::pair<std::string, std::string>> taken_;  // (kind of name, text)
};

absl::StatusOr<NodeConfig> Parser::Parse(const toml::table& root) {
  TableReader in(root, "the top level", &problems_);
  ReadCluster(in);
  ReadNodes(in);
  CheckControl(root);
  ReadMemgests(in);
  ReadSelf(in);
  in.Finish();
  RING_RETURN_IF_ERROR(problems_.ToStatus());
  const absl::Status status = config_.InitialView().Validate();
  if (!status.ok()) problems_.Add(root.source(), absl::string_view(status.message()));
  RING_RETURN_IF_ERROR(problems_.ToStatus());
  return std::move(config_);
}

void Parser::ReadCluster(TableReader& root) {
  const toml::table* table = root.Table("cluster");
  if (table == nullptr) {
    root.Problem("cluster", "table [cluster] is missing: it names the cluster and its shape");
    return;
  }
  TableReader in(*table, "[cluster]", &problems_);
  config_.cluster_name = in.RequiredString("name");
  if (config_.cluster_name.size() > cluster::kAddressSizeMax) {
    in.Problem("name", absl::StrCat("name in [cluster] has size=", config_.cluster_name.size(),
                                    ", at most ", cluster::kAddressSizeMax));
  }
  config_.s = static_cast<int>(in.Integer("s", 3, 1, cluster::kShardCountMax));
  config_.d = static_cast<int>(in.Integer("d", 2, 0, cluster::kRedundancyMax));
  config_.value_size_max = in.Size("value_size_max", kValueSizeMax, 1, kValueSizeMax);
  config_.default_memgest = in.String("default_memgest", "");
  ReadControl(in);
  in.Finish();
}

void Parser::ReadControl(TableReader& in) {
  ControlConfig& control = config_.control;
  const auto milliseconds = [&in](absl::string_view key, std::uint32_t fallback, std::uint32_t low,
                                  std::uint32_t high) {
    return static_cast<std::uint32_t>(in.Integer(key, fallback, low, high));
  };
  if (in.Has("voters")) {
    control.voters = static_cast<int>(in.Integer("voters", 1, 1, cluster::kVoterCountMax));
  }
  control.SetDetection(milliseconds("detect_ms", control.detect_ms, kDetectMsMin, kDetectMsMax));
  control.heartbeat_ms = milliseconds("heartbeat_ms", control.heartbeat_ms, 1, kHeartbeatMsMax);
  control.lease_ms = milliseconds("lease_ms", control.lease_ms, kDetectMsMin, kDetectMsMax);
  control.lag_ms = milliseconds("lag_ms", control.lag_ms, kDetectMsMin, kDetectMsMax);
  control.overrun = in.Choice<cluster::OverrunPolicy>(
      "overrun",
      {{"stop", cluster::OverrunPolicy::kStop}, {"continue", cluster::OverrunPolicy::kContinue}});
  control.fence =
      in.Choice<FenceKind>("fence", {{"lease", FenceKind::kLease}, {"check", FenceKind::kCheck}});
  control.fail_over = in.Choice<bool>("fail_over", {{"on", true}, {"off", false}});
}

// Behind [[nodes]]: it depends on how many there are.
void Parser::CheckControl(const toml::table& root) {
  const ControlProblem problem = node::CheckControl(config_.control, config_.nodes.size());
  if (problem.key.empty() || config_.nodes.empty()) return;
  const toml::table* const table = root["cluster"].as_table();
  const toml::node* const node = table == nullptr ? nullptr : table->get(problem.key);
  problems_.Add(node == nullptr ? root.source() : node->source(), problem.what);
}

std::string Parser::ReadPath(TableReader& in, absl::string_view key) {
  std::string path = in.String(key, "");
  if (!path.empty() && path.front() != '/') {
    in.Problem(key, absl::StrCat(key, "=\"", path.substr(0, 64), "\" must be an absolute path"));
  }
  return path;
}

void Parser::CheckUnique(const toml::source_region& where, absl::string_view key,
                         const std::string& text) {
  if (text.empty()) return;
  for (const auto& [other_key, other] : taken_) {
    if (other == text && (other_key == "name") == (key == "name")) {
      problems_.Add(where, absl::StrCat("two nodes have ", key, "=", text, ": each needs its own"));
      return;
    }
  }
  taken_.emplace_back(key, text);
}

void Parser::CheckAddress(TableReader& in, absl::string_view key, const std::string& address) {
  if (address.empty()) return;
  if (!IsHostPort(address) || address.size() > cluster::kAddressSizeMax - 5) {
    in.Problem(key, absl::StrCat(key, "=\"", address.substr(0, 64),
                                 "\" must be HOST:PORT or [IPV6]:PORT with a port 1 to 65535"));
    return;
  }
  CheckUnique(in.where(key), key, address);
}

void Parser::ReadNode(const toml::table& table, std::size_t index) {
  TableReader in(table, absl::StrCat("[[nodes]] number ", index + 1), &problems_);
  NodeEntry node;
  node.name = in.RequiredString("name");
  node.host = in.String("host", node.name);
  node.data = in.String("data", "");
  node.shm = in.String("shm", "");
  node.rdma = in.String("rdma", "");
  node.admin = in.String("admin", "");
  if (in.Has("transport")) node.transport = ChooseTransport(in);
  transport_at_.push_back(in.where("transport"));
  if (node.name.size() > cluster::kAddressSizeMax || node.host.size() > cluster::kAddressSizeMax) {
    in.Problem("name", absl::StrCat("name and host of a node have at most ",
                                    cluster::kAddressSizeMax, " bytes"));
  }
  CheckUnique(in.where("name"), "name", node.name);
  CheckAddress(in, "data", node.data);
  CheckAddress(in, "rdma", node.rdma);
  CheckAddress(in, "admin", node.admin);
  if (!node.shm.empty() && (node.shm.front() != '/' || node.shm.size() > kShmPathSizeMax)) {
    in.Problem("shm",
               absl::StrCat("shm=\"", node.shm.substr(0, 64),
                            "\" must be an absolute path of at most ", kShmPathSizeMax, " bytes"));
  } else {
    CheckUnique(in.where("shm"), "shm", node.shm);
  }
  if (node.data.empty() && node.shm.empty() && node.rdma.empty()) {
    problems_.Add(in.where(), absl::StrCat("node name=", node.name,
                                           " has no address: add data = \"HOST:PORT\", shm = "
                                           "\"/path\" or rdma = \"HOST:PORT\""));
  }
  in.Finish();
  config_.nodes.push_back(std::move(node));
}

void Parser::ReadNodes(TableReader& root) {
  const std::vector<const toml::table*> tables = root.Tables("nodes");
  if (tables.size() > cluster::kNodeCountMax) {
    root.Problem("nodes", absl::StrCat("node_count=", tables.size(), " must be at most ",
                                       cluster::kNodeCountMax));
    return;
  }
  for (const toml::table* table : tables) ReadNode(*table, config_.nodes.size());
  const auto needed = static_cast<std::size_t>(config_.s + config_.d);
  if (config_.nodes.size() < needed) {
    root.Problem("nodes", absl::StrCat("node_count=", config_.nodes.size(), " is less than s+d=",
                                       needed, ": add [[nodes]], or lower s or d in [cluster]"));
  }
}

void Parser::ReadScheme(TableReader& in, MemgestDescriptor& memgest) {
  const std::uint64_t rep = in.Integer("rep", 0, 1, 255);
  const auto srs = in.Integers("srs", 2);
  if (in.Has("rep") == in.Has("srs")) {
    problems_.Add(in.where(), absl::StrCat("memgest name=", memgest.name,
                                           " needs one of rep = 3 and srs = [3, 2]"));
    return;
  }
  memgest.r = static_cast<std::uint8_t>(rep);
  if (srs.has_value()) {
    memgest.scheme = protocol::Scheme::kStretchedReedSolomon;
    for (const std::int64_t number : *srs) {
      if (number < 0 || number > 255) {
        in.Problem("srs", absl::StrCat("srs holds ", number, ", which is no count of blocks"));
        return;
      }
    }
    memgest.k = static_cast<std::uint8_t>((*srs)[0]);
    memgest.m = static_cast<std::uint8_t>((*srs)[1]);
    if (in.Has("commit"))
      in.Problem("commit", "commit is for rep: a put into srs waits for all parities");
  } else if (in.Has("repair")) {
    in.Problem("repair", "repair is for srs: a lost value of rep is copied");
  }
  memgest.repair =
      in.Choice<protocol::RepairScheme>("repair", protocol::kRepairSchemes, &protocol::RepairName);
  memgest.commit = in.Choice<protocol::CommitRule>(
      "commit", {{"quorum", protocol::CommitRule::kQuorum}, {"all", protocol::CommitRule::kAll}});
}

void Parser::ReadMemgest(const toml::table& table, std::size_t index) {
  TableReader in(table, absl::StrCat("[[memgests]] number ", index + 1), &problems_);
  MemgestDescriptor memgest;
  memgest.id = MemgestId(static_cast<std::uint16_t>(index + 1));
  memgest.name = in.RequiredString("name");
  ReadScheme(in, memgest);
  memgest.block_size = static_cast<std::uint32_t>(in.Size(
      "block_size", protocol::kBlockSizeDefault, protocol::kBlockSizeMin, protocol::kBlockSizeMax));
  in.Finish();
  if (in.Has("rep") != in.Has("srs")) {
    if (const absl::Status status = memgest.Validate(config_.s, config_.d); !status.ok()) {
      problems_.Add(in.where(),
                    absl::StrCat("memgest name=", memgest.name.substr(0, 64), ": ",
                                 status.message(), " (s=", config_.s, " d=", config_.d, ")"));
    }
  }
  for (const MemgestDescriptor& other : config_.memgests) {
    if (other.name == memgest.name) {
      in.Problem("name", absl::StrCat("two memgests have name=", memgest.name.substr(0, 64)));
    }
  }
  config_.memgests.push_back(std::move(memgest));
}

void Parser::ReadMemgests(TableReader& root) {
  const std::vector<const toml::table*> tables = root.Tables("memgests");
  if (tables.size() > cluster::kLiveMemgestCountMax) {
    root.Problem("memgests", absl::StrCat("memgest_count=", tables.size(), " must be at most ",
                                          cluster::kLiveMemgestCountMax));
    return;
  }
  for (const toml::table* table : tables) ReadMemgest(*table, config_.memgests.size());
  if (tables.empty()) {
    config_.memgests = cluster::DefaultMemgests(config_.s, config_.d);
    std::uint16_t next = 1;
    for (MemgestDescriptor& memgest : config_.memgests) memgest.id = MemgestId(next++);
  }
  std::vector<std::string> names;
  for (const MemgestDescriptor& memgest : config_.memgests) names.push_back(memgest.name);
  if (config_.default_memgest.empty()) config_.default_memgest = names.front();
  if (std::find(names.begin(), names.end(), config_.default_memgest) != names.end()) return;
  root.Problem("cluster", absl::StrCat("default_memgest=\"", config_.default_memgest.substr(0, 64),
                                       "\" is not a memgest: choose one of ",
                                       absl::StrJoin(names, ", ").substr(0, 256)));
}

void Parser::ReadSelf(TableReader& root) {
  static const toml::table kEmpty;
  const toml::table* table = root.Table("node");
  TableReader in(table == nullptr ? kEmpty : *table, "[node]", &problems_);
  const std::string name = in.String("name", "");
  FindSelf(table == nullptr ? root.where() : in.where("name"), name);
  config_.ring_size = in.Size("ring_size", config_.ring_size, kRingSizeMin, kRingSizeMax);
  if ((config_.ring_size & (config_.ring_size - 1)) != 0) {
    in.Problem("ring_size", absl::StrCat("ring_size=", config_.ring_size,
                                         " must be a power of two, such as \"4MiB\""));
  }
  config_.arena_size_max =
      in.Size("arena_size_max", config_.arena_size_max, kArenaSizeMin, kArenaSizeLimit);
  if (config_.arena_size_max / 4 < config_.value_size_max) {
    in.Problem("arena_size_max",
               absl::StrCat("arena_size_max=", config_.arena_size_max,
                            " must hold four values of value_size_max=", config_.value_size_max,
                            ": raise it, or lower value_size_max"));
  }
  config_.warm_size = in.Size("warm_size", config_.warm_size, 0, kWarmSizeMax);
  config_.recovery_rate =
      in.Size("recovery_rate", config_.recovery_rate, kRecoveryRateLowest, kRecoveryRateHighest);
  config_.recovery_rate_min = in.Size("recovery_rate_min", config_.recovery_rate_min,
                                      kRecoveryRateLowest, kRecoveryRateHighest);
  config_.scrub_period_ns =
      kMinuteNs *
      in.Integer("scrub_minutes", config_.scrub_period_ns / kMinuteNs, 0, kScrubMinutesMax);
  config_.client_max =
      static_cast<std::uint32_t>(in.Integer("client_max", config_.client_max, 1, kClientCountMax));
  config_.fault_injection = in.Choice<bool>("fault_injection", {{"off", false}, {"on", true}});
  config_.encode_check = static_cast<std::uint32_t>(
      in.Integer("encode_check", config_.encode_check, 1, kEncodeCheckMax));
  config_.encode = in.Choice<EncodePath>(
      "encode",
      {{"auto", EncodePath::kAuto}, {"host", EncodePath::kHost}, {"nic", EncodePath::kNic}});
  ReadTransport(in);
  config_.poll = in.Choice<PollPolicy>("poll", {{"adaptive", PollPolicy::kAdaptive},
                                                {"busy", PollPolicy::kBusy},
                                                {"sleep", PollPolicy::kSleep}});
  config_.poll_us = static_cast<std::uint32_t>(in.Integer("poll_us", config_.poll_us, 0, 1000000));
  config_.admin_token_file = ReadPath(in, "admin_token_file");
  config_.control.data_dir = ReadPath(in, "data_dir");
  config_.log_level = in.Choice<LogSeverity>("log_level", {{"info", LogSeverity::kINFO},
                                                           {"warning", LogSeverity::kWARNING},
                                                           {"error", LogSeverity::kERROR}});
  in.Finish();
}

void Parser::FindSelf(const toml::source_region& where, const std::string& name) {
  const std::string& wanted = node_name_.empty() ? name : node_name_;
  if (wanted.empty()) {
    problems_.Add(where,
                  "which node is this? add name = \"...\" to [node], or start with --node NAME");
    return;
  }
  for (std::size_t i = 0; i < config_.nodes.size(); ++i) {
    if (config_.nodes[i].name != wanted) continue;
    config_.self = NodeId(static_cast<std::uint32_t>(i));
    if (self_is_ == SelfIs::kNamed) return;
    problems_.Add(where, absl::StrCat("node name=\"", wanted.substr(0, 64),
                                      "\" is among [[nodes]]: start it without --added"));
    return;
  }
  if (self_is_ == SelfIs::kAdded) return;
  std::vector<std::string> names;
  for (const NodeEntry& node : config_.nodes) names.push_back(node.name);
  problems_.Add(where, absl::StrCat("this node, name=\"", wanted.substr(0, 64),
                                    "\", is not among [[nodes]]: choose one of ",
                                    absl::StrJoin(names, ", ").substr(0, 256),
                                    "; or, if it was added since, start with --added"));
}

Transport Parser::ChooseTransport(TableReader& in) {
  return in.Choice<Transport>("transport", kTransports, &TransportName);
}

// Every pair of nodes must be able to talk as the transport says: never another one silently.
void Parser::ReadTransport(TableReader& in) {
  config_.transport = ChooseTransport(in);
  config_.rdma_device = in.String("rdma_device", "");
  if (config_.rdma_device.size() > kRdmaDeviceSizeMax) {
    in.Problem("rdma_device", absl::StrCat("rdma_device has size=", config_.rdma_device.size(),
                                           ", at most ", kRdmaDeviceSizeMax));
  }
  if (in.Has("rdma_gid_index")) {
    config_.rdma_gid_index = static_cast<int>(in.Integer("rdma_gid_index", 0, 0, kRdmaGidIndexMax));
  }
  const std::optional<TransportProblem> problem = CheckTransport(config_);
  if (!problem.has_value()) return;
  const bool own = problem->first != cluster::kNoNode;
  std::string what = problem->what;
  if (problem->second != cluster::kNoNode) {
    absl::StrAppend(&what, " in line ", transport_at_[problem->second.value()].begin.line,
                    ": give both the same, or one of them \"auto\"");
  }
  problems_.Add(own ? transport_at_[problem->first.value()] : in.where("transport"), what);
}

}  // namespace

absl::StatusOr<NodeConfig> ParseNodeConfig(absl::string_view text, absl::string_view file,
                                           absl::string_view node_name, SelfIs self_is) {
  if (text.size() > kConfigSizeMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": size=", text.size(), " is over ", kConfigSizeMax, " bytes"));
  }
  RING_RETURN_IF_ERROR(CheckCharacters(text, file));
  const toml::parse_result result = toml::parse(std::string_view(text.data(), text.size()));
  if (result.failed()) {
    const std::string_view why = result.error().description();
    ConfigProblems problems(file);
    problems.Add(result.error().source(), absl::string_view(why.data(), why.size()));
    return problems.ToStatus();
  }
  return Parser(file, node_name, self_is).Parse(result.table());
}

absl::StatusOr<NodeConfig> LoadNodeConfig(const std::string& path, absl::string_view node_name,
                                          SelfIs self_is) {
  const auto refuse = [&path](int error) {
    const std::string what =
        absl::StrCat("cannot read configuration file=", path, ": ", std::strerror(error));
    if (error == ENOENT) return absl::NotFoundError(what);
    if (error == EACCES) return absl::PermissionDeniedError(what);
    return absl::UnavailableError(what);
  };
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return refuse(errno);
  std::string text(kConfigSizeMax + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  const int error = std::ferror(file) != 0 ? errno : 0;
  std::fclose(file);
  if (error != 0) return refuse(error);
  return ParseNodeConfig(text, path, node_name, self_is);
}

}  // namespace ring::node
