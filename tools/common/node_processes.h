// tools/common/node_processes.h — the nodes of a cluster, as processes that can be hurt.
//
// What:      NodeProcesses starts a ringd for each node of a configuration, kills it with its
//            memory, stops and continues it, and starts it again.
// Shape:     nodes by their number in the configuration. Each has a log file, and, if it votes, a
//            folder with what it decided.
// Ownership: owns the processes: they end with it, and with the thread that started them.
// Threads:   thread-compatible; one thread starts all.
// Errors:    kUnavailable, with the end of the node's log.
#ifndef RING_TOOLS_COMMON_NODE_PROCESSES_H_
#define RING_TOOLS_COMMON_NODE_PROCESSES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ring/node/config/config.h"
#include "tools/common/child_process.h"

namespace ring::tools {

struct NodeProcessesOptions {
  std::string ringd;                         // the program
  std::string config;                        // of all nodes: a ring.toml
  std::string folder;                        // for logs; voters' files are in its folder "voters"
  std::vector<std::string> namespaces = {};  // of the network, one a node; empty: none
};

class NodeProcesses {
 public:
  // config: what the file says.
  NodeProcesses(NodeProcessesOptions options, node::NodeConfig config);

  std::size_t count() const { return nodes_.size(); }
  const node::NodeConfig& config() const { return config_; }
  std::string name(std::size_t i) const { return config_.nodes[i].name; }
  bool up(std::size_t i) const { return nodes_[i].process != nullptr; }
  bool paused(std::size_t i) const { return nodes_[i].paused; }

  // Does not wait until it serves. REQUIRES: it is not up.
  absl::Status Start(std::size_t i);
  absl::Status StartAll(absl::Duration timeout);
  absl::Status WaitReady(std::size_t i, absl::Duration timeout);
  // SIGKILL; the process is gone when this returns.
  void Kill(std::size_t i);
  // A voter that is started next remembers nothing.
  void ForgetVotes(std::size_t i);
  void Pause(std::size_t i);
  void Resume(std::size_t i);
  // A process that ended though nobody killed it: which, and how. Empty: none.
  std::string FindDead();

 private:
  struct Node {
    std::unique_ptr<ChildProcess> process;
    bool paused = false;
  };
  std::string LogPath(std::size_t i) const;
  std::string LogTail(std::size_t i) const;

  NodeProcessesOptions options_;
  node::NodeConfig config_;
  std::vector<Node> nodes_;
};

}  // namespace ring::tools

#endif  // RING_TOOLS_COMMON_NODE_PROCESSES_H_
