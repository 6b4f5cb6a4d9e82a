// ring/node/coordinated_shard.h — a shard that this node coordinates, and its log connections to
// the members.
//
// What:      Connects one queue pair per member with a LogHello, builds the writers from the
//            answers, and then the ShardCoordinator with its memgests: from then on the shard
//            serves.
// Shape:     one per (group, shard) whose coordinator role this node holds. A member that refuses
//            (it does not know the view yet) is asked again after a back-off.
// Ownership: owns queue pairs, credit words, staging, and the coordinator.
// Threads:   one, the node's.
// Errors:    a member that disconnects breaks its writer: what needs it is refused as unavailable.
// Source:    protocol rules section 0 (ring), L8; architecture section 3 (log).
#ifndef RING_NODE_COORDINATED_SHARD_H_
#define RING_NODE_COORDINATED_SHARD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ring/cluster/view.h"
#include "ring/coordinator/shard.h"
#include "ring/node/buffer_pool.h"
#include "ring/protocol/hello.h"

namespace ring::node {

// What all shards of a node share.
struct ShardContext {
  rdma::Device* device = nullptr;
  rdma::CompletionQueue* log_cq = nullptr;
  memgest::DeltaArena* arena = nullptr;
  coordinator::ReplySink* sink = nullptr;
  BufferPool* credits = nullptr;  // 64 bytes each
  BufferPool* staging = nullptr;
  NodeId node;
  Incarnation incarnation;
  std::uint64_t hash_seed = 0;
  std::uint64_t ring_size = 0;
};

class CoordinatedShard {
 public:
  // address_of: how this node reaches another.
  CoordinatedShard(const ShardContext* context, const cluster::View& view, GroupId group,
                   ShardId shard, std::vector<std::string> addresses_by_node,
                   std::uint16_t first_writer_id, std::size_t index);
  ~CoordinatedShard();

  // Connects what is not connected; builds the coordinator when all members answered.
  void Progress(std::uint64_t now_ns);
  // Whether the event was for one of these connections.
  bool OnEvent(const rdma::ConnectionEvent& event, std::uint64_t now_ns);
  bool serving() const { return coordinator_ != nullptr; }
  coordinator::ShardCoordinator* coordinator() { return coordinator_.get(); }
  memgest::LogWriter* WriterById(std::uint16_t writer_id);
  std::uint16_t writer_count() const { return static_cast<std::uint16_t>(links_.size()); }

  // The catalogue changed: new memgests become usable, states are taken over.
  void ApplyView(const cluster::View& view);

  GroupId group() const { return group_; }
  ShardId shard() const { return shard_; }
  // Wakes members that sleep on news of the commit position.
  void RingDoorbells();
  std::size_t index() const { return index_; }
  // "g2/s0 to node 4 (connecting)", for what is missing.
  std::string Missing() const;

  bool active = false;  // has something to do this turn (node.cc)

 private:
  struct Link {
    Role role;
    NodeId peer;
    std::unique_ptr<rdma::QueuePair> qp;
    bool established = false;
    std::uint64_t retry_ns = 0;
    std::string last_error;
    BufferPool::Buffer credit;
    BufferPool::Buffer staging;
    protocol::LogAccept accept;
    memgest::LogWriter* writer = nullptr;
    bool rung = false;                // since the member was last seen awake
    std::uint64_t rung_position = 0;  // commit position at the last doorbell
  };

  void Connect(Link& link, std::uint64_t now_ns);
  void Build();
  void AddMemgest(const protocol::MemgestDescriptor& descriptor);

  const ShardContext* context_;
  cluster::View view_;
  GroupId group_;
  ShardId shard_;
  Epoch epoch_;
  std::vector<std::string> addresses_;
  std::uint16_t first_writer_id_;
  std::size_t index_;  // among the shards of this node
  std::vector<Link> links_;
  std::unique_ptr<coordinator::ShardCoordinator> coordinator_;
};

}  // namespace ring::node

#endif  // RING_NODE_COORDINATED_SHARD_H_
