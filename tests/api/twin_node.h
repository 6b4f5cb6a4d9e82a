// tests/api/twin_node.h — a node's double: real frames over a real link, a map for a store.
//
// What:      TwinNode serves one address from a thread of its own: handshake, request ring,
//            replies, large values, completion records. TwinFaults is what it does wrong on demand.
// Ownership: Start gives a running node; its destructor stops it. The store is shared, so that
//            several twins are one cluster.
// Threads:   the test's thread and the node's; what both touch is atomic or under the store's
//            mutex.
// Errors:    broken expectations of the twin end the test program.
#ifndef RING_TESTS_API_TWIN_NODE_H_
#define RING_TESTS_API_TWIN_NODE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rdma/fabric.h"
#include "ring/base/random.h"
#include "ring/base/sync.h"
#include "ring/cluster/view.h"
#include "ring/protocol/client_frame.h"
#include "ring/protocol/hello.h"

namespace ring::testing {

struct TwinStore {
  struct Item {
    std::string value;
    std::uint64_t version = 0;
    std::uint16_t memgest = 0;
  };
  struct Record {
    protocol::Outcome outcome = protocol::Outcome::kOk;
    std::uint64_t version = 0;
    std::uint16_t memgest = 0;
  };
  using ClientSeq = std::pair<std::uint64_t, std::uint64_t>;  // low half of the client, seq
  using Shard = std::pair<int, ClientSeq>;                    // sequence numbers are per shard

  Mutex mutex;
  std::map<std::string, Item> items;
  std::map<Shard, Record> records;
  std::uint64_t last_version = 0;
  int executed_count = 0;  // mutations that were executed, duplicates left out
  int duplicate_count = 0;
  cluster::View view;
};

struct TwinFaults {
  std::atomic<bool> silent{false};         // requests stay in the ring
  std::atomic<bool> reorder{false};        // answers of a turn go out in random order
  std::atomic<int> damage_value_count{0};  // so many values are answered with a wrong check sum
  std::atomic<int> refuse_count{0};        // so many requests are refused with ...
  std::atomic<protocol::Outcome> refuse_with{protocol::Outcome::kUnavailable};
  std::atomic<int> drop_after_execute{0};  // so many mutations end the connection unanswered
  std::atomic<int> refuse_after_drop{0};   // what refuse_count is when one did
};

class TwinNode {
 public:
  static std::unique_ptr<TwinNode> Start(int id, std::string address, TwinStore* store);
  ~TwinNode();

  TwinFaults& faults() { return faults_; }
  // As bound: "tcp:127.0.0.1:40123".
  const std::string& address() const { return address_; }
  int request_count() const { return request_count_.load(); }
  int answer_count() const { return answer_count_.load(); }  // that are in the client's memory
  int pad_count() const { return pad_count_.load(); }
  int client_count() const { return client_count_.load(); }  // handshakes accepted

 private:
  struct Peer;
  struct Answer {
    Peer* peer;
    std::uint32_t stamp;
    std::uint16_t slot;
    protocol::ReplyHeader header;
    std::string value;
    bool large;
    protocol::RequestExtension extension;
  };

  TwinNode(int id, std::string address, TwinStore* store);
  void Run(std::atomic<int>* started);
  bool Turn();
  void OnEvent(const rdma::ConnectionEvent& event);
  bool ServeOne(Peer* peer);
  void Execute(Peer* peer, const protocol::RequestView& view, std::string value);
  protocol::Outcome Mutate(Peer* peer, const protocol::RequestView& view, std::string value,
                           protocol::ReplyHeader* reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(store_->mutex);
  protocol::Outcome Read(const protocol::RequestView& view, Answer* answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(store_->mutex);
  void Send(const Answer& answer);
  void Write(Peer* peer, const std::byte* source, std::size_t size, std::uint64_t address,
             std::uint32_t rkey, rdma::Opcode opcode);

  const int id_;
  std::string address_;
  TwinStore* const store_;
  TwinFaults faults_;
  std::atomic<bool> stop_{false};
  std::atomic<int> request_count_{0};
  std::atomic<int> answer_count_{0};
  std::atomic<int> pad_count_{0};
  std::atomic<int> client_count_{0};

  std::unique_ptr<rdma::Device> device_;
  std::unique_ptr<rdma::CompletionQueue> cq_;
  std::unique_ptr<rdma::CompletionQueue> recv_cq_;
  std::byte* staging_ = nullptr;
  std::unique_ptr<rdma::MemoryRegion> staging_region_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Answer> answers_;
  SeededRandom random_{7};
  std::thread thread_;
};

}  // namespace ring::testing

#endif  // RING_TESTS_API_TWIN_NODE_H_
