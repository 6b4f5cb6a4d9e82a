// ring/node/fence/word_links.h — where voters show their words, and coordinators read them.
//
// What:      WordLinks has this node's word (fence_word.h writes it), takes connections that READ
//            it, and is the WordReader of this node's fence: a connection to each voter's node,
//            for READs alone, so that nothing is queued before them.
// Shape:     up to kReadsMax READs of a link at a time: what a silent voter owes keeps nobody
//            from being asked. A node's own word is read where it is.
// Ownership: owns word, connections and landing places.
// Threads:   one, the node's.
// Errors:    a link that fails is dropped, its READs fail, and it connects anew, ever later. A node
//            that connected to a former start of a peer leaves it when the view names another.
// Cost:      idle: a look at the clock's turn each kStepNs.
// Source:    rules L1 (check), L8.
#ifndef RING_NODE_FENCE_WORD_LINKS_H_
#define RING_NODE_FENCE_WORD_LINKS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rdma/fabric.h"
#include "ring/base/fifo.h"
#include "ring/node/buffer_pool.h"
#include "ring/node/fence/check_fence.h"
#include "ring/protocol/hello.h"

namespace ring::node {

class WordLinks final : public WordReader {
 public:
  static constexpr std::size_t kReadsMax = 16;

  struct Options {
    rdma::Device* device = nullptr;
    NodeId node;
    Incarnation incarnation;
    std::uint64_t cluster = 0;  // ClusterHash
  };
  struct Peer {
    std::string address;
    Incarnation incarnation;  // 0: not heard of
  };

  static absl::StatusOr<std::unique_ptr<WordLinks>> Create(const Options& options);
  ~WordLinks() override;

  // This node's own, for who knows what to show.
  std::byte* word() { return word_.address; }
  // By node id.
  void SetPeers(std::vector<Peer> peers);
  void OnConnectRequest(std::uint64_t request, absl::string_view private_data);
  // Whether the event was for one of these connections.
  bool OnEvent(const rdma::ConnectionEvent& event);
  // Connects to the nodes of these voters.
  void Progress(std::uint64_t now_ns, absl::Span<const consensus::ServerId> voters);
  void Arm() { reads_cq_->Arm(); }

  bool Post(NodeId node, std::uint64_t tag) override;
  bool Poll(Word* word) override;

 private:
  struct Link {
    std::unique_ptr<rdma::QueuePair> qp;
    bool established = false;
    std::uint64_t incarnation = 0;
    protocol::BufferFields word;
    BufferPool::Buffer landing;
    std::array<std::uint64_t, kReadsMax> tags{};
    std::uint64_t posted = 0;
    std::uint64_t done = 0;
    std::uint64_t retry_ns = 0;
    std::uint64_t backoff_ns = 0;
  };

  explicit WordLinks(const Options& options);
  void Connect(Link& link, const std::string& address, std::uint64_t now_ns);
  absl::Status TryAccept(std::uint64_t request, absl::string_view private_data);
  absl::Status Establish(Link& link, absl::string_view private_data);
  void Drop(Link& link);

  Options options_;
  std::unique_ptr<rdma::CompletionQueue> reads_cq_;
  std::unique_ptr<rdma::CompletionQueue> rest_cq_;  // of what nobody posts
  BufferPool memory_;
  BufferPool::Buffer word_;
  std::vector<Peer> peers_;
  std::vector<std::unique_ptr<Link>> links_;               // by node
  std::vector<std::unique_ptr<rdma::QueuePair>> readers_;  // by node: who reads here
  Fifo<Word> ready_;
  std::uint64_t next_step_ns_ = 0;
};

}  // namespace ring::node

#endif  // RING_NODE_FENCE_WORD_LINKS_H_
