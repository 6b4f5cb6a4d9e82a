// rdma/fabric.h — the fabric port: what Ring needs of an RDMA device, in verbs terms.
//
// What:      Device, MemoryRegion, CompletionQueue, QueuePair, Listener and connection events.
//            Reliable-connected queue pairs carry SEND, WRITE, WRITE_WITH_IMM, READ, CMP_AND_SWP,
//            FETCH_AND_ADD, and the two requests of encode-and-send: WAIT (hold the requests behind
//            it until a completion queue has n more completions) and CALC (run a registered
//            calculator on local memory).
// Shape:     a chain of work requests is posted with one call (one doorbell); requests of a queue
//            pair execute and complete in order. A failed request moves the queue pair to kError
//            and flushes the rest.
//            An aligned WRITE of 8 bytes is seen whole, and after every WRITE that was posted
//            before it on the queue pair: who polls a word of its memory may trust what it finds,
//            and what was written before. The words within a longer WRITE are seen in no certain
//            order, and are certain only once something posted after it is seen.
// Units:     bytes; remote addresses are the remote process's virtual addresses.
// Ownership: buffers named by a posted request belong to the device until its completion, or until
//            the completion of a later signalled request of the same queue pair. Requests
//            with inline_data copy at the post. The device outlives everything made from it.
// Threads:   a device and all that is made from it belong to one thread, except where said. The
//            peer's thread and process are another: every access by a peer is checked against key,
//            bounds, rights and generation.
// Errors:    posting gives kInvalidArgument or kResourceExhausted and posts nothing; what fails
//            later is told by a completion with a WcStatus. Expected failures never crash.
// Cost:      no allocation, lock or system call per request on mapped links when the peer is awake;
//            at most one system call per batch on tcp.
// Source:    rdma-core's ibv_post_send(3), ibv_poll_cq(3); INEC (SC'20) for WAIT and CALC.
#ifndef RING_RDMA_FABRIC_H_
#define RING_RDMA_FABRIC_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace ring::rdma {

class CompletionQueue;
class QueuePair;

enum class Opcode : std::uint8_t {
  kSend = 1,
  kWrite = 2,
  kWriteWithImm = 3,
  kRead = 4,
  kCmpAndSwp = 5,
  kFetchAndAdd = 6,
  kWait = 7,
  kCalc = 8,
  kRecv = 9,          // completions only: a SEND arrived
  kRecvWithImm = 10,  // completions only: a SEND or WRITE_WITH_IMM with immediate data arrived
};

enum class WcStatus : std::uint8_t {
  kSuccess = 0,
  kLocalLength = 1,       // a message longer than the posted receive
  kLocalProtection = 2,   // an sge outside its region, or a wrong lkey
  kFlushed = 3,           // the queue pair was in kError, or was reset
  kRemoteAccess = 4,      // wrong rkey, bounds, rights; a revoked region; a dead owner
  kRemoteInvalid = 5,     // e.g. a misaligned atomic
  kRnrRetryExceeded = 6,  // the peer had posted no receive
  kRetryExceeded = 7,     // the peer vanished
  kCalcFailed = 8,        // the calculator refused; requests that WAIT on it are flushed
};
absl::string_view WcStatusName(WcStatus status);

enum Access : std::uint32_t {
  kLocalOnly = 0,
  kRemoteRead = 1,
  kRemoteWrite = 2,
  kRemoteAtomic = 4,
};

struct Sge {
  std::byte* address = nullptr;
  std::uint32_t length = 0;
  std::uint32_t lkey = 0;
};

// Where a peer may read or write: travels in messages.
struct RemoteBuffer {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint32_t rkey = 0;
};

// A kernel that CALC runs: outputs[j] = f_j(inputs), all of one length. Implemented in ec_offload.
class Calculator {
 public:
  virtual ~Calculator() = default;
  virtual std::size_t input_count() const = 0;
  virtual std::size_t output_count() const = 0;
  // crcs is null or output_count() long, and gets the CRC-32C of each output. An output may be the
  // same buffer as an input (in place), never overlap it otherwise. False: nothing may be relied on
  // in the outputs.
  virtual bool Run(const std::byte* const* inputs, std::byte* const* outputs, std::size_t length,
                   std::uint32_t* crcs) const = 0;
};

struct CalcArguments {
  const Calculator* calculator = nullptr;
  absl::Span<const Sge> inputs;   // input_count() of one length
  absl::Span<const Sge> outputs;  // output_count() of the same length
  // Null, or output_count() pointers, each null or where the CRC-32C of that output is stored.
  std::uint32_t* const* crc_out = nullptr;
};

struct WorkRequest {
  std::uint64_t wr_id = 0;
  const WorkRequest* next = nullptr;
  Opcode opcode = Opcode::kSend;
  bool signaled = false;
  // The gather list is copied at the post; at most Device::Caps::inline_size_max bytes.
  bool inline_data = false;
  bool has_imm = false;  // SEND with immediate data
  // On the last request of a chain: another chain follows in this turn, so a device that sends in
  // packets may wait for it.
  bool more = false;
  // Of a WRITE: the next one will go to the bytes behind it, so a device may make them ready.
  bool appends = false;
  // WRITE only: its completion need only tell that its buffers are the caller's again, not that the
  // peer has it. A failure at the peer then shows as a disconnect. Spares tcp an acknowledgement.
  bool unacknowledged = false;
  std::uint32_t imm = 0;
  // Gathered (SEND, WRITE) or scattered (READ, and the old value of an atomic).
  absl::Span<const Sge> sges;
  std::uint64_t remote_address = 0;
  std::uint32_t rkey = 0;
  std::uint64_t compare_or_add = 0;  // CMP_AND_SWP: expected; FETCH_AND_ADD: addend
  std::uint64_t swap = 0;
  // WAIT: until wait_count further completions are in this queue.
  CompletionQueue* wait_cq = nullptr;
  std::uint32_t wait_count = 0;
  const CalcArguments* calc = nullptr;
};

struct WorkCompletion {
  std::uint64_t wr_id = 0;
  QueuePair* qp = nullptr;
  WcStatus status = WcStatus::kSuccess;
  Opcode opcode = Opcode::kSend;
  bool has_imm = false;
  std::uint32_t imm = 0;
  std::uint32_t byte_len = 0;  // receives and READ
};

// Registered memory: a range of bytes with an access right and keys. Peers name it by rkey.
class MemoryRegion {
 public:
  virtual ~MemoryRegion() = default;  // deregisters: later access by peers fails
  virtual std::byte* address() const = 0;
  virtual std::size_t length() const = 0;
  virtual std::uint32_t lkey() const = 0;
  virtual std::uint32_t rkey() const = 0;
  RemoteBuffer remote() const {
    return {reinterpret_cast<std::uint64_t>(address()), length(), rkey()};
  }
  // Rule L5: no WRITE or atomic by a peer with the present rkey can succeed after this returns
  // (bytes of a copy under way may still land, but its initiator sees kRemoteAccess). Scan the
  // memory only afterwards. The region stays readable by its owner and never becomes writable for
  // peers again.
  virtual void Revoke() = 0;
};

class CompletionQueue {
 public:
  virtual ~CompletionQueue() = default;
  // Takes up to completions.size() completions, oldest first; gives how many.
  virtual std::size_t Poll(absl::Span<WorkCompletion> completions) = 0;
  // The next completion makes Device::event_fd() readable, once. Poll again after arming: what came
  // before does not count (ibv_req_notify_cq(3)).
  virtual void Arm() = 0;
};

enum class QpState : std::uint8_t { kInit = 0, kReadyToSend = 1, kError = 2, kReset = 3 };

class QueuePair {
 public:
  virtual ~QueuePair() = default;  // resets; its completions still in queues are dropped
  virtual std::uint32_t number() const = 0;
  virtual QpState state() const = 0;
  // Posts a chain with one doorbell. On an error nothing of the chain is posted.
  virtual absl::Status PostSend(const WorkRequest& chain) = 0;
  virtual absl::Status PostRecv(std::uint64_t wr_id, absl::Span<const Sge> sges) = 0;
  // Outstanding requests complete as kFlushed; the peer's requests fail from now on; its queue pair
  // goes to kError.
  virtual void Reset() = 0;
  // Which of its sleeps (Device::SetSleeping) the peer's device is in, and needs a SEND or
  // WRITE_WITH_IMM to wake from; 0: none. One that was rung in this sleep finds all that was posted
  // before this call when it wakes up: it takes one bell a sleep. Always 0 on links where any
  // message wakes the peer (tcp). A full fence is in it: what was posted before is seen by a peer
  // that goes to sleep after this returned.
  virtual std::uint32_t PeerSleep() const = 0;
  // "local", "shm", "tcp", "rdma".
  virtual absl::string_view transport() const = 0;
  // An opaque word of the owner.
  void set_context(void* context) { context_ = context; }
  void* context() const { return context_; }

 private:
  void* context_ = nullptr;
};

struct QueuePairOptions {
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* recv_cq = nullptr;
  std::uint32_t send_depth = 256;  // outstanding requests
  std::uint32_t recv_depth = 64;   // posted receives
};

struct ConnectionEvent {
  enum class Kind : std::uint8_t {
    kConnectRequest = 1,  // a peer wants to connect: Accept or Reject `request`
    kEstablished = 2,     // qp is ready to send; private_data is the acceptor's
    // qp failed to connect; private_data is the acceptor's reason, empty if it vanished.
    kRejected = 3,
    kDisconnected = 4,  // qp went to kError because the peer reset it, exited or vanished
  };
  Kind kind = Kind::kConnectRequest;
  std::uint64_t request = 0;
  QueuePair* qp = nullptr;
  std::string private_data;
};

inline constexpr std::size_t kPrivateDataSizeMax = 256;

// What Device::Allocate gives.
enum class MemoryKind : std::uint8_t {
  kShared = 0,       // peers on this host can map it
  kPrivate = 1,      // may be registered with kLocalOnly alone
  kPrivateHuge = 2,  // the same in huge pages, where the system allows
};

// What a device did since it was opened: what it asked of the system to carry messages, what it
// carried, and what an RDMA card was asked for. Without tcp connections only `waits` moves of the
// first, and rarely. A batch is what goes one way over one connection in one turn.
struct DeviceCounters {
  // System calls, and what they carried.
  std::uint64_t sends = 0;
  std::uint64_t batches_sent = 0;
  std::uint64_t receives = 0;
  std::uint64_t receives_in_vain = 0;  // of those: found nothing
  std::uint64_t batches_received = 0;
  std::uint64_t waits = 0;          // looks at which descriptors are ready
  std::uint64_t waits_in_vain = 0;  // of those: none was
  // With io_uring, one call receives what came on all connections: then nothing else does.
  std::uint64_t uring_enters = 0;
  std::uint64_t uring_enters_in_vain = 0;  // of those: neither brought nor armed anything
  std::uint64_t urings = 0;                // rings that are open
  // Over whatever link.
  std::uint64_t chains = 0;    // posted
  std::uint64_t requests = 0;  // in them
  std::uint64_t request_bytes = 0;
  std::uint64_t completions = 0;  // polled by who uses the device
  // Of an RDMA card, with what keeps its connections. A real one takes no system call for requests,
  // doorbells and completions, but one for what is made.
  std::uint64_t card_requests = 0;
  std::uint64_t card_doorbells = 0;    // of requests; the last one of each is signalled
  std::uint64_t card_receives = 0;     // posted
  std::uint64_t card_completions = 0;  // of both
  std::uint64_t card_registrations = 0;
  std::uint64_t card_queue_pairs = 0;
  friend bool operator==(const DeviceCounters&, const DeviceCounters&) = default;
};
// By the names that statistics show.
struct DeviceCounter {
  const char* name;
  std::uint64_t DeviceCounters::*member;
};
inline constexpr std::array kDeviceCounters = {
    DeviceCounter{"sends", &DeviceCounters::sends},
    DeviceCounter{"batches_sent", &DeviceCounters::batches_sent},
    DeviceCounter{"receives", &DeviceCounters::receives},
    DeviceCounter{"receives_in_vain", &DeviceCounters::receives_in_vain},
    DeviceCounter{"batches_received", &DeviceCounters::batches_received},
    DeviceCounter{"waits", &DeviceCounters::waits},
    DeviceCounter{"waits_in_vain", &DeviceCounters::waits_in_vain},
    DeviceCounter{"uring_enters", &DeviceCounters::uring_enters},
    DeviceCounter{"uring_enters_in_vain", &DeviceCounters::uring_enters_in_vain},
    DeviceCounter{"urings", &DeviceCounters::urings},
    DeviceCounter{"chains", &DeviceCounters::chains},
    DeviceCounter{"requests", &DeviceCounters::requests},
    DeviceCounter{"request_bytes", &DeviceCounters::request_bytes},
    DeviceCounter{"completions", &DeviceCounters::completions},
    DeviceCounter{"card_requests", &DeviceCounters::card_requests},
    DeviceCounter{"card_doorbells", &DeviceCounters::card_doorbells},
    DeviceCounter{"card_receives", &DeviceCounters::card_receives},
    DeviceCounter{"card_completions", &DeviceCounters::card_completions},
    DeviceCounter{"card_registrations", &DeviceCounters::card_registrations},
    DeviceCounter{"card_queue_pairs", &DeviceCounters::card_queue_pairs},
};
static_assert(sizeof(DeviceCounters) == kDeviceCounters.size() * sizeof(std::uint64_t));

class Device {
 public:
  struct Caps {
    std::uint32_t sge_count_max = 0;
    std::uint32_t inline_size_max = 0;
    bool calc = false;      // executes CALC and WAIT itself (coherent)
    bool calc_crc = false;  // CALC fills crc_out
  };

  virtual ~Device() = default;
  virtual const Caps& caps() const = 0;

  // Zeroed, 2-MiB-aligned memory. Lives until it is freed or the device is closed; pages are
  // resident only once touched (shared ones: once read).
  virtual absl::StatusOr<std::byte*> Allocate(std::size_t size, MemoryKind kind) = 0;
  // Takes back what one Allocate gave: its pages go to the system, a slice with each Progress, its
  // addresses to later calls. Nothing may refer to it any more.
  virtual void Free(std::byte* address, std::size_t size, MemoryKind kind) = 0;
  // A hint: this kPrivate memory is full enough for huge pages. May copy it.
  virtual void PreferHuge(std::byte* address, std::size_t size) = 0;
  // A hint: much will go through this memory when nobody can wait for its pages. Makes them
  // resident; what they hold stays.
  virtual void Populate(std::byte* address, std::size_t size) = 0;
  // An lkey that is good for all memory that one Allocate gave.
  virtual std::uint32_t LocalKey(const std::byte* address) const = 0;
  // Gives the pages of [address, address+size) back to the system; they read as zero afterwards.
  virtual void Discard(std::byte* address, std::size_t size) = 0;
  // Registers a range of memory from Allocate. Memory of another origin may be registered with
  // kLocalOnly.
  virtual absl::StatusOr<std::unique_ptr<MemoryRegion>> Register(std::byte* address,
                                                                 std::size_t length,
                                                                 std::uint32_t access) = 0;
  virtual absl::StatusOr<std::unique_ptr<CompletionQueue>> CreateCompletionQueue(
      std::size_t depth) = 0;

  // Accepts connections at "local:NAME", "shm:PATH", "tcp:HOST:PORT" or "rdma:HOST:PORT" (port 0:
  // any). Gives the address in use.
  virtual absl::StatusOr<std::string> Listen(absl::string_view address) = 0;
  // Starts to connect; the outcome is an event. private_data: at most kPrivateDataSizeMax bytes.
  virtual absl::StatusOr<std::unique_ptr<QueuePair>> Connect(absl::string_view address,
                                                             const QueuePairOptions& options,
                                                             absl::string_view private_data) = 0;
  virtual absl::StatusOr<std::unique_ptr<QueuePair>> Accept(std::uint64_t request,
                                                            const QueuePairOptions& options,
                                                            absl::string_view private_data) = 0;
  virtual void Reject(std::uint64_t request, absl::string_view private_data) = 0;
  virtual bool PollEvent(ConnectionEvent* event) = 0;

  // Drives what the host must drive: sockets, deferred chains. Cheap when there is nothing to do;
  // call once a turn. Gives whether anything happened.
  virtual bool Progress() = 0;
  // While SetSleeping(true) holds: readable when an armed completion queue got a completion, a
  // connection event is there, or Progress has work.
  virtual int event_fd() const = 0;
  // Tells mapped peers whether this device's thread sleeps on event_fd (see
  // QueuePair::PeerSleep). Setting true contains a full fence: look for work once more before
  // sleeping. What made event_fd readable so far may be forgotten: arm completion queues behind it,
  // or one that fired meanwhile is not armed in the sleep.
  virtual void SetSleeping(bool sleeping) = 0;
  // Of a queue pair that is gone: its peer may have been stopped in the middle of a copy into this
  // device's memory. The rest lands when it goes on, though the request fails (L5). False once its
  // end let go or is dead, and on links whose peers copy nothing here themselves (tcp, rdma).
  virtual bool PeerHoldsOn(std::uint32_t qp_number) const = 0;
  virtual DeviceCounters device_counters() const = 0;
  // kUnavailable: the RDMA card that it has open went away, and does not come back to this device.
  virtual absl::Status CardStatus() const = 0;
};

}  // namespace ring::rdma

#endif  // RING_RDMA_FABRIC_H_
