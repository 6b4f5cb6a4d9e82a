// tests/tools/program.h — runs a program to its end, for tests of command lines.
//
// What:      RunProgram(argv, stdin, environment) gives exit status, stdout and stderr. TestFolder
//            is a folder that goes away.
// Threads:   any: the child is spawned, not forked.
// Errors:    a program that cannot be started, or dies of a signal, gives status -1.
#ifndef RING_TESTS_TOOLS_PROGRAM_H_
#define RING_TESTS_TOOLS_PROGRAM_H_

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "ring/base/check.h"

namespace ring::testing {

class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "ring-test-XXXXXX").string();
    RING_CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& bytes) const {
    const std::filesystem::path path = *this / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }

 private:
  std::string path_;
};

inline std::string ReadTestFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

struct ProgramResult {
  int status = -1;
  std::string out;
  std::string err;
};

// environment: "NAME=value", and nothing else is inherited but the sanitizers' own.
inline ProgramResult RunProgram(const std::vector<std::string>& arguments,
                                const std::string& input = "",
                                const std::vector<std::string>& environment = {}) {
  const TestFolder folder;
  const std::string in = folder.Write("in", input);
  const std::string out = folder / "out";
  const std::string err = folder / "err";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, in.c_str(), O_RDONLY, 0);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), kFlags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), kFlags, 0600);
  const auto pointers = [](const std::vector<std::string>& strings) {
    std::vector<char*> result;
    for (const std::string& string : strings) result.push_back(const_cast<char*>(string.c_str()));
    result.push_back(nullptr);
    return result;
  };
  std::vector<std::string> variables = environment;
  for (const char* name : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"}) {
    if (const char* value = getenv(name)) variables.push_back(std::string(name) + "=" + value);
  }
  pid_t pid = 0;
  const int error = posix_spawn(&pid, arguments.front().c_str(), &actions, nullptr,
                                pointers(arguments).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  ProgramResult result;
  if (error != 0) return result;
  int status = 0;
  RING_CHECK(waitpid(pid, &status, 0) == pid);
  if (WIFEXITED(status)) result.status = WEXITSTATUS(status);
  result.out = ReadTestFile(out);
  result.err = ReadTestFile(err);
  return result;
}

}  // namespace ring::testing

#endif  // RING_TESTS_TOOLS_PROGRAM_H_
