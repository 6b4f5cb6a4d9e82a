#include "tools/common/node_processes.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/base/status.h"

namespace ring::tools {

NodeProcesses::NodeProcesses(NodeProcessesOptions options, node::NodeConfig config)
    : options_(std::move(options)), config_(std::move(config)), nodes_(config_.nodes.size()) {}

std::string NodeProcesses::LogPath(std::size_t i) const {
  return absl::StrCat(options_.folder, "/", name(i), ".log");
}

std::string NodeProcesses::LogTail(std::size_t i) const {
  constexpr std::size_t kTailMax = 2000;
  std::ifstream file(LogPath(i));
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  return all.substr(all.size() - std::min(all.size(), kTailMax));
}

absl::Status NodeProcesses::Start(std::size_t i) {
  RING_CHECK(!up(i)) << "node=" << i;
  std::vector<std::string> argv;
  if (!options_.namespaces.empty()) argv = {"ip", "netns", "exec", options_.namespaces[i]};
  // The shell gives it its log and becomes it, so that the process is the node's.
  argv.insert(argv.end(), {"/bin/sh", "-c", R"(log=$0; exec "$@" 2>>"$log")", LogPath(i),
                           options_.ringd, "--config", options_.config, "--node", name(i)});
  RING_ASSIGN_OR_RETURN(nodes_[i].process, ChildProcess::Start(argv));
  nodes_[i].paused = false;
  return absl::OkStatus();
}

absl::Status NodeProcesses::WaitReady(std::size_t i, absl::Duration timeout) {
  const absl::Status ready = nodes_[i].process->ReadLine("ready:", timeout).status();
  if (ready.ok()) return ready;
  return absl::UnavailableError(
      absl::StrCat("node ", name(i), ": ", ready.message(), "\n", LogTail(i)));
}

absl::Status NodeProcesses::StartAll(absl::Duration timeout) {
  for (std::size_t i = 0; i < count(); ++i) RING_RETURN_IF_ERROR(Start(i));
  for (std::size_t i = 0; i < count(); ++i) RING_RETURN_IF_ERROR(WaitReady(i, timeout));
  return absl::OkStatus();
}

void NodeProcesses::Kill(std::size_t i) {
  RING_CHECK(up(i)) << "node=" << i;
  kill(nodes_[i].process->pid(), SIGKILL);
  nodes_[i].process.reset();  // waits for its end
  nodes_[i].paused = false;
}

void NodeProcesses::ForgetVotes(std::size_t i) {
  std::error_code ignored;
  std::filesystem::remove_all(absl::StrCat(options_.folder, "/voters/", name(i)), ignored);
}

void NodeProcesses::Pause(std::size_t i) {
  kill(nodes_[i].process->pid(), SIGSTOP);
  nodes_[i].paused = true;
}

void NodeProcesses::Resume(std::size_t i) {
  kill(nodes_[i].process->pid(), SIGCONT);
  nodes_[i].paused = false;
}

std::string NodeProcesses::FindDead() {
  std::string found;
  for (std::size_t i = 0; i < count(); ++i) {
    if (!up(i)) continue;
    siginfo_t info{};
    const bool ended = waitid(P_PID, static_cast<id_t>(nodes_[i].process->pid()), &info,
                              WEXITED | WNOHANG | WNOWAIT) == 0 &&
                       info.si_pid != 0;
    if (!ended) continue;
    absl::StrAppend(&found, "node ", name(i), " ended by itself, status=", info.si_status, "\n",
                    LogTail(i));
    nodes_[i].process.reset();
  }
  return found;
}

}  // namespace ring::tools
