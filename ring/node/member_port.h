// ring/node/member_port.h — the shards that this node is a member of: their rings, and the folding
// of them.
//
// What:      MemberPort accepts log connections of coordinators (LogHello), gives each a ring, and
//            folds what is committed within a budget; at an epoch change it seals (Seal) and goes
//            on once the view has the shard's Normal record (member_port_epoch.cc). Parity stores
//            are shared by the shards of a group.
// Shape:     one HeldShard per (group, shard) in whose group this node holds another role, or held
//            one that a later Normal record does not have.
// Ownership: owns rings, queue pairs, member shards and parity stores.
// Threads:   one, the node's.
// Errors:    a hello of a stranger, of another epoch, or from who is not the coordinator is refused
//            with the reason. A ring that is corrupt below its commit position ends the held shard:
//            logged, never folded on.
// Source:    rules E5, E9, L5, L8; the steps of an epoch change; docs/PROTOCOL.md "The log".
#ifndef RING_NODE_MEMBER_PORT_H_
#define RING_NODE_MEMBER_PORT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "memgest/member_shard.h"
#include "memgest/parity_store.h"
#include "ring/base/clock.h"
#include "ring/cluster/view.h"
#include "ring/node/buffer_pool.h"
#include "ring/node/retired_rings.h"
#include "ring/protocol/hello.h"
#include "ring/recovery/join_message.h"
#include "ring/recovery/seal_message.h"

namespace ring::node {

class MemberPort {
 public:
  struct Options {
    rdma::Device* device = nullptr;
    NodeId node;
    Incarnation incarnation;
    std::uint64_t ring_size = 0;
    std::size_t membership_max = 0;  // (group, shard) of whose groups it holds another role
    std::uint32_t line_count_max = memgest::kLineCountMax;
    const Clock* clock = nullptr;
    bool static_membership = false;  // no Normal records: every epoch is normal at once
  };
  // What this node has of a shard that another coordinates.
  struct HeldShard {
    GroupId group;
    ShardId shard;
    // Of this node, as long as the shard's state here is that role's. If the node gets another
    // role, this one follows when the shard joins in it: till then the state may be a source (E7).
    Role role;
    std::unique_ptr<memgest::MemberShard> store;
    // Of the epoch that was promised last.
    std::unique_ptr<rdma::QueuePair> qp;
    BufferPool::Buffer ring;
    std::uint32_t ring_qp = 0;  // the number of the queue pair that it is written by, or was
    cluster::Holder writer;
    // Of the last Normal epoch, while store->sealed() reads it.
    BufferPool::Buffer sealed_ring;
    std::uint32_t sealed_ring_qp = 0;
    std::uint32_t attempt = 0;  // of the log connection, within the epoch
    // Since when it has nothing of its own: its ring waits for a snapshot, or goes on behind one.
    enum class Join : std::uint8_t { kNo = 0, kAwaitsSnapshot = 1, kLearner = 2 };
    Join join = Join::kNo;
    bool failed = false;
    bool leaves = false;  // until no record counts on it (S6), or its coordinator goes on with it
    std::uint64_t damaged_told = 0;
    bool credit_due = false;
    std::uint64_t retry_ns = 0;  // not 0: its next entry could not be folded yet
  };

  static absl::StatusOr<std::unique_ptr<MemberPort>> Create(const Options& options);
  ~MemberPort();

  // Builds the memberships of the view's roles, and what its catalogue asks for; later views add
  // memgests.
  void ApplyView(const cluster::View& view);
  void OnConnectRequest(std::uint64_t request, absl::string_view private_data);
  bool OnDisconnected(const rdma::QueuePair* qp);
  // Step 2 of an epoch change: nothing of the old coordinator can land or be acknowledged any more
  // (L5); gives where the logs of the last Normal epoch end. Errors: kAborted, this node has
  // nothing to tell and will have nothing; others: ask again.
  absl::StatusOr<recovery::SealAnswer> Seal(const recovery::SealRequest& request);

  // A piece of the snapshot that a ring goes on behind. Errors: kAborted, another log connection
  // is expected or made by now: this snapshot is of no use; others as MemberShard::Install.
  absl::Status Install(const recovery::InstallRequest& request);

  // Looks at the next ring_count rings and folds committed entries; gives how many. budget:
  // requests wait, so only where there is much to fold, and about so many entries.
  static constexpr int kNoBudget = 0;
  int Fold(int ring_count, int budget = kNoBudget);
  // Folds a few committed entries of one of held_shards(), requests or not, and tells its
  // coordinator; gives how many.
  int FoldRing(std::size_t ring);
  // Tells coordinators what is folded when nothing is left to fold (E5). True: some could not be
  // told just now, call again.
  bool ShareCredits();
  void PollCompletions();
  void Arm() { cq_->Arm(); }
  bool HasCommitted() const;

  std::vector<HeldShard>& held_shards() { return held_shards_; }
  HeldShard* Find(GroupId group, ShardId shard);
  const cluster::View& view() const { return view_; }
  // Of the role that the node holds now.
  memgest::ParityStore* FindParity(GroupId group, MemgestId memgest);
  std::uint64_t folded_count() const { return folded_count_; }
  // How often a ring had to wait for memory, or for a memgest that was not known here yet.
  std::uint64_t wait_count() const { return wait_count_; }

 private:
  explicit MemberPort(const Options& options);
  void AddMemgest(HeldShard& held, const protocol::MemgestDescriptor& descriptor);
  absl::Status TryAccept(std::uint64_t request, absl::string_view private_data);
  absl::Status CheckHello(const protocol::LogHello& hello) const;
  // member_port_epoch.cc
  absl::Status EnterEpoch(HeldShard& held, const protocol::LogHello& hello);
  Role RoleNow(const HeldShard& held) const;
  void StartRole(HeldShard& held, Role role);
  static bool HasNothing(const HeldShard& held) {
    return held.failed || held.join == HeldShard::Join::kAwaitsSnapshot;
  }
  bool HasValuesToFetch(const HeldShard& held, const cluster::NormalRecord& normal) const;
  static bool LearnsIn(const HeldShard& held, Epoch epoch);
  void LearnAnew(HeldShard& held, const protocol::LogHello& hello);
  bool AnyParityHolds(const HeldShard& shard, Role role) const;
  absl::StatusOr<bool> LeaveShardsOfParities(HeldShard& joining, Role role);
  void DropParities(const HeldShard& joining);
  void DropUnusedParities();
  void AddMemgestsOfJoiner(HeldShard& held);
  void AwaitShards(GroupId group, MemgestId memgest, Role role, memgest::ParityStore* parity) const;
  void EndRing(HeldShard& held);
  void RetireSealed(HeldShard& held);
  void JoinGroups();
  void LeaveGroups();
  void AdoptNormals();
  void AdoptNormal(HeldShard& held);
  bool IsNamed(const HeldShard& held, const cluster::NormalRecord& normal) const;
  int FoldSome(HeldShard& held);
  int FoldOne(HeldShard& held, int budget);
  static void ShareCredit(HeldShard& held);
  bool Waits(const HeldShard& held) const;

  // What a parity holds is of its role alone.
  struct ParityKey {
    GroupId group;
    Role role;
    MemgestId memgest;
    friend bool operator==(const ParityKey&, const ParityKey&) = default;
    template <class H>
    friend H AbslHashValue(H h, const ParityKey& key) {
      return H::combine(std::move(h), key.group, key.role, key.memgest);
    }
  };

  Options options_;
  cluster::View view_;
  bool joined_ = false;
  std::unique_ptr<rdma::CompletionQueue> cq_;
  BufferPool rings_;
  RetiredRings retired_;
  std::vector<HeldShard> held_shards_;
  absl::flat_hash_map<ParityKey, std::unique_ptr<memgest::ParityStore>> parities_;
  std::size_t next_ = 0;
  std::uint64_t folded_count_ = 0;
  std::uint64_t wait_count_ = 0;
};

}  // namespace ring::node

#endif  // RING_NODE_MEMBER_PORT_H_
