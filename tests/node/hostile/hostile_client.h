// tests/node/hostile/hostile_client.h — a client that need not play by the rules, on a raw device.
//
// What:      HostileClient connects to one node with a hello of the test's choice, WRITEs any bytes
//            into its request ring, and looks at its own reply memory, which is poisoned before.
//            MakePut and friends build well-formed frames for a test to spoil.
// Shape:     frames of a ring are sent in order; what is under way at a time must fit the ring.
// Ownership: owns device, queues, memory.
// Threads:   one, the test's. Nothing is answered (READs, receives) while no method runs.
// Errors:    waits are bounded by a deadline that only a hang reaches.
#ifndef RING_TESTS_NODE_HOSTILE_HOSTILE_CLIENT_H_
#define RING_TESTS_NODE_HOSTILE_HOSTILE_CLIENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "rdma/fabric.h"
#include "ring/base/id.h"
#include "ring/protocol/client_frame.h"
#include "ring/protocol/hello.h"

namespace ring::node {

struct HostileFrame {
  protocol::RequestHeader header;
  std::string key;  // in cells of its own if longer than 24 bytes
  std::optional<protocol::RequestExtension> extension;
  std::string value;
};

HostileFrame MakeGet(const std::string& key);
HostileFrame MakePut(const std::string& key, const std::string& value, MemgestId memgest,
                     std::uint64_t seq);
HostileFrame MakeDelete(const std::string& key, std::uint64_t seq);
std::string EncodeFrame(const HostileFrame& frame);

// While it lives, ThreadSanitizer takes no notice of what this thread writes: bytes that a peer
// changes while the node reads them are a race by design, and what the node makes of them is the
// test.
class RaceOnPurpose {
 public:
  RaceOnPurpose();
  ~RaceOnPurpose();
  RaceOnPurpose(const RaceOnPurpose&) = delete;
  RaceOnPurpose& operator=(const RaceOnPurpose&) = delete;
};

class HostileClient {
 public:
  static constexpr std::uint32_t kSlotCount = 64;
  static constexpr std::size_t kRepliesSize = kSlotCount * protocol::kReplySlotSize;
  static constexpr std::size_t kStagingSize = std::size_t{1} << 20;
  static constexpr std::size_t kLargeSize = (std::size_t{16} << 20) + 4096;
  static constexpr std::byte kPoison{0xA5};

  explicit HostileClient(const std::string& name);
  ~HostileClient();

  // What an honest client of this memory would say.
  protocol::ClientHello Hello() const;
  // True: established. False: reason() says why not.
  bool Connect(const std::string& address, const std::string& private_data);
  bool Connect(const std::string& address) {
    return Connect(address, protocol::EncodeHello(Hello()));
  }
  const std::string& reason() const { return reason_; }
  const protocol::ClientAccept& accept() const { return accept_; }
  bool disconnected() const { return disconnected_; }
  // Drops the queue pair, as a process that dies does.
  void Vanish();

  // Gives the frame the next stamp and place, and publishes it. Gives the stamp.
  std::uint32_t Send(const HostileFrame& frame);
  // Only bytes: no stamp, no place.
  void WriteRing(std::size_t offset, const std::string& bytes);
  void WriteAt(const rdma::RemoteBuffer& target, const std::string& bytes);
  void RingDoorbell(std::size_t size = 0);

  // Makes progress until the condition holds; false after the deadline.
  bool WaitFor(absl::FunctionRef<bool()> condition);
  bool AwaitReply(std::uint16_t slot, std::uint32_t stamp);
  bool AwaitDisconnect();
  void Progress();
  // Send and AwaitReply; the outcome. Ends the test's hope (kDataLost) if there is no reply.
  protocol::Outcome Ask(const HostileFrame& frame);

  protocol::ReplyHeader Reply(std::uint16_t slot) const;
  std::string InlineValue(std::uint16_t slot) const;
  // The bytes there, whether or not an answer says how many there are.
  std::string BytesBehindHeader(std::uint16_t slot, std::size_t size) const;
  void PoisonReplies();
  // Offsets within reply memory whose byte changed though it is in none of the slots' first
  // sizes[slot] bytes.
  std::size_t StrayBytes(const std::vector<std::size_t>& sizes) const;

  std::byte* large() { return large_; }
  protocol::RequestExtension LargeBuffer(std::size_t offset, std::uint32_t length) const;
  std::size_t cell() const { return cell_; }
  std::size_t failures() const { return failures_; }
  std::size_t bells() const { return bells_; }  // that the node rang
  rdma::Device& device() { return *device_; }
  rdma::QueuePair* qp() { return qp_.get(); }
  // For connections beside the first.
  rdma::QueuePairOptions qp_options() const;

 private:
  void Post(const std::string& bytes, std::uint64_t address, std::uint32_t rkey);

  std::unique_ptr<rdma::Device> device_;
  std::unique_ptr<rdma::CompletionQueue> send_cq_;
  std::unique_ptr<rdma::CompletionQueue> recv_cq_;
  std::byte* replies_ = nullptr;
  std::byte* staging_ = nullptr;
  std::byte* large_ = nullptr;
  std::unique_ptr<rdma::MemoryRegion> replies_region_;
  std::unique_ptr<rdma::MemoryRegion> staging_region_;
  std::unique_ptr<rdma::MemoryRegion> large_region_;
  std::unique_ptr<rdma::QueuePair> qp_;
  protocol::ClientAccept accept_;
  std::string reason_;
  bool established_ = false;
  bool rejected_ = false;
  bool disconnected_ = false;
  std::size_t failures_ = 0;
  std::size_t bells_ = 0;
  std::size_t staging_at_ = 0;
  std::size_t cell_ = 0;
  std::uint32_t stamp_ = 1;
  std::uint64_t id_ = 0;
};

}  // namespace ring::node

#endif  // RING_TESTS_NODE_HOSTILE_HOSTILE_CLIENT_H_
