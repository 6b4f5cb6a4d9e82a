// A program that uses the client alone: it compiles, links, and is told why nobody answers.
#include <cstdio>

#include "api/client.h"

int main() {
  ring::ClientOptions options;
  options.seeds = {"127.0.0.1:1"};  // nobody listens there
  options.transport = ring::Transport::kTcp;
  options.deadline = absl::Milliseconds(200);
  const auto client = ring::Client::Connect(options);
  if (client.ok() || !absl::IsUnavailable(client.status())) {
    std::fprintf(stderr, "unexpected: %s\n", client.status().ToString().c_str());
    return 1;
  }
  return 0;
}
