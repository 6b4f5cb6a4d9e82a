// ring/node/log_links.h — a coordinator's log connections to the members of a shard, for an epoch.
//
// What:      LogLinks connects one queue pair per member role with a LogHello, keeps what the
//            member answered, and makes the LogWriter of each.
// Shape:     one place a role; Begin drops all connections of the epoch before. A connection that
//            was established and is lost is not made again within its epoch, but for a member that
//            joins (Drop): it begins anew.
// Ownership: owns queue pairs, credit words and staging; writers refer to them, so they go first.
// Threads:   one, the node's.
// Errors:    Event tells what came of a Connect.
// Source:    docs/GLOSSARY.md (ring); docs/PROTOCOL.md "The log"; rules L5, L6, L8.
#ifndef RING_NODE_LOG_LINKS_H_
#define RING_NODE_LOG_LINKS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "memgest/log_writer.h"
#include "ring/base/id.h"
#include "ring/cluster/normal_record.h"
#include "ring/node/buffer_pool.h"
#include "ring/node/credit_lines.h"
#include "ring/protocol/hello.h"

namespace ring::node {

// What the log connections of a node share.
struct LogLinkContext {
  rdma::Device* device = nullptr;
  rdma::CompletionQueue* log_cq = nullptr;
  CreditLines* credits = nullptr;
  BufferPool* staging = nullptr;
  std::uint64_t ring_size = 0;
};

class LogLinks {
 public:
  // Writer ids are first_writer_id + role.
  LogLinks(const LogLinkContext* context, std::size_t role_count, std::uint16_t first_writer_id);
  ~LogLinks();
  LogLinks(const LogLinks&) = delete;
  LogLinks& operator=(const LogLinks&) = delete;

  // Whatever was posted is on its way no more, and memory that it came from may go (V6): before a
  // coordinator begins another epoch, and before it goes. Then Begin.
  void Break();
  // A new epoch. REQUIRES: no writer refers to a link any more.
  void Begin(const protocol::LogHello& hello);
  // Starts to connect. joins: the member has nothing of the shard's last Normal epoch.
  absl::Status Connect(Role role, const cluster::Holder& member, const std::string& address,
                       bool joins);
  // Ends the connection. REQUIRES: no writer refers to it any more.
  void Drop(Role role);
  // Of the last Connect in this epoch; the member takes no older one any more.
  std::uint32_t attempt(Role role) const { return links_[role.value()].attempt; }

  enum class Outcome : std::uint8_t { kNone = 0, kConnected = 1, kFailed = 2, kLost = 3 };
  struct News {
    Outcome outcome = Outcome::kNone;
    Role role;
    std::string error;
  };
  // kNone: the event was for none of these connections.
  News OnEvent(const rdma::ConnectionEvent& event);

  // REQUIRES: connected.
  absl::StatusOr<std::unique_ptr<memgest::LogWriter>> MakeWriter(Role role, Epoch epoch);
  void set_writer(Role role, memgest::LogWriter* writer) { at(role).writer = writer; }
  memgest::LogWriter* writer(Role role) const { return links_[role.value()].writer; }
  // Null: not an id of these, or no writer yet.
  memgest::LogWriter* WriterById(std::uint16_t writer_id) const;
  std::uint16_t writer_count() const { return static_cast<std::uint16_t>(links_.size()); }

  // Wakes members that sleep on news of the commit position.
  void RingDoorbells();

 private:
  static constexpr std::uint32_t kLogSendDepth = 1024;
  struct Link {
    std::unique_ptr<rdma::QueuePair> qp;
    cluster::Holder member;  // that it was connected to last
    bool established = false;
    BufferPool::Buffer credit;
    BufferPool::Buffer staging;
    protocol::LogAccept accept;
    memgest::LogWriter* writer = nullptr;
    std::uint32_t attempt = 0;
    bool rung = false;                // since the member was last seen awake
    std::uint64_t rung_position = 0;  // commit position at the last doorbell
  };

  Link& at(Role role) { return links_[role.value()]; }
  static std::atomic<std::uint64_t>* CreditWord(const Link& link) {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(link.credit.address);
  }
  absl::StatusOr<protocol::LogAccept> CheckAccept(const rdma::ConnectionEvent& event) const;

  const LogLinkContext* context_;
  std::uint16_t first_writer_id_;
  protocol::LogHello hello_;
  std::vector<Link> links_;  // by role
};

}  // namespace ring::node

#endif  // RING_NODE_LOG_LINKS_H_
