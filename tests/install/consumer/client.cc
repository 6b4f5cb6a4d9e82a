// A program that uses the client alone. With RING_SEEDS it stores a value and reads it back;
// without a cluster it is told why nobody answers.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "api/client.h"

namespace {

bool StoresAndReads(const char* seeds) {
  ring::ClientOptions options;
  options.seeds = {seeds};
  const auto client = ring::Client::Connect(options);
  if (!client.ok()) {
    std::fprintf(stderr, "connect: %s\n", client.status().ToString().c_str());
    return false;
  }
  const auto put = (*client)->Put("greeting", "hello", {.memgest = "SRS32"});
  if (!put.ok()) {
    std::fprintf(stderr, "put: %s\n", put.status().ToString().c_str());
    return false;
  }
  const auto moved = (*client)->Move("greeting", "REP3");
  const auto got = (*client)->Get("greeting");
  const bool good = moved.ok() && got.ok() && got->value == "hello" &&
                    got->version == moved->version && got->version > put->version;
  if (!good) std::fprintf(stderr, "get: %s\n", got.status().ToString().c_str());
  const auto gone = (*client)->Delete("greeting");
  return good && gone.ok() && absl::IsNotFound((*client)->Get("greeting").status());
}

bool IsToldThatNobodyAnswers() {
  ring::ClientOptions options;
  options.seeds = {"127.0.0.1:1"};  // nobody listens there
  options.transport = ring::Transport::kTcp;
  options.deadline = absl::Milliseconds(200);
  const auto client = ring::Client::Connect(options);
  if (!client.ok() && absl::IsUnavailable(client.status())) return true;
  std::fprintf(stderr, "unexpected: %s\n", client.status().ToString().c_str());
  return false;
}

}  // namespace

int main() {
  const char* const seeds = std::getenv("RING_SEEDS");
  const bool good = seeds != nullptr ? StoresAndReads(seeds) : IsToldThatNobodyAnswers();
  std::puts(good ? "client: good" : "client: wrong");
  return good ? 0 : 1;
}
