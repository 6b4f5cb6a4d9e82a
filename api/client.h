// api/client.h — Ring's client: get, put, delete and move keys of a cluster.
//
// What:      Client. Three ways to use it, which mix freely: calls that wait; calls with a
//            callback, a Future or a Batch; and Submit*/PollCompletions, which allocate nothing.
// Shape:     keys are 1 to 1,024 bytes, values 0 to 16 MiB (or less, if the cluster says so); both
//            are binary.
// Units:     bytes; absl::Duration.
// Ownership: keys and values are copied before a call returns; the buffer of a GetInto is the
//            client's until it ended. Views in a Completion are valid until the next call of
//            PollCompletions.
// Threads:   thread-compatible: one thread at a time. A client whose transport is kAuto or kShm is
//            made, used and destroyed by one thread. Nothing happens between calls: what was
//            submitted goes out, and callbacks run, inside Poll, Wait and the calls that wait.
// Errors:    a write that fails was certainly not applied, unless IsUnknownOutcome(status): then it
//            may have been, or may still be, applied. A call is executed at most once, however
//            often the client had to send it.
//            kNotFound: no such key. kAborted: if_version did not hold. kFailedPrecondition: the
//            memgest does not exist or takes no writes. kResourceExhausted: back off.
//            kUnavailable: the shard cannot serve now. kDeadlineExceeded. kDataLoss.
//            kInvalidArgument: the call is wrong; nothing was sent.
//            A cluster that forgot everything and was founded anew is another one: ids of memgests
//            and versions mean something else there. Of what is under way when the client learns of
//            it, a write that the former cluster may have executed ends at once, its outcome
//            unknown; so does, certainly not applied, one with a version in if_version (kAborted),
//            or with a memgest, by name or id (kFailedPrecondition). All else is asked of the new
//            cluster.
// Cost:      docs/BENCHMARKS.md. A waiting call spins for a bounded time, then sleeps.
//
// Example:
//   ring::ClientOptions options;
//   options.seeds = {"127.0.0.1:7800"};
//   auto client = ring::Client::Connect(options);
//   auto put = (*client)->Put("user:1", "Ada", {.memgest = "SRS32"});
//   auto get = (*client)->Get("user:1");  // get->value, get->version, get->memgest
#ifndef RING_API_CLIENT_H_
#define RING_API_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ring/base/id.h"
#include "ring/base/limits.h"

namespace ring {

class Client;
namespace api {
class ClientCore;
// What Connect makes of the core that it opened.
std::unique_ptr<Client> ClientOf(std::unique_ptr<ClientCore> core);
}  // namespace api

enum class Transport : std::uint8_t {
  kAuto = 0,   // local if the node is in this process, shm if it is on this host, rdma if a seed
               // says so and both sides have a device, else tcp
  kLocal = 1,  // the others never fall back to something else
  kShm = 2,
  kTcp = 3,
  kRdma = 4,
};

struct ClientOptions {
  // "HOST:PORT", "tcp:HOST:PORT", "rdma:HOST:PORT", "shm:PATH" or "local:NAME"; an element may be a
  // list with commas. The name of a host is looked up once, by the thread that calls, when its seed
  // is first asked: in Connect, or later, when no node of the view is there any more.
  std::vector<std::string> seeds = {};
  Transport transport = Transport::kAuto;
  // Of Connect, and of every operation that names none.
  absl::Duration deadline = absl::Seconds(10);
  std::size_t window = 256;                    // operations under way at the same time: 1 to 1,023
  std::size_t value_size_max = kValueSizeMax;  // the cluster may take less
  // How long a waiting call polls before it sleeps, at most. On a single core it never polls.
  absl::Duration spin_max = absl::Microseconds(50);

  // The seeds that the environment variable RING_SEEDS lists; kNotFound when it is not set.
  static absl::StatusOr<std::vector<std::string>> SeedsFromEnvironment();
};

struct GetOptions {
  absl::Duration deadline = absl::ZeroDuration();  // zero: the client's
  // If the value is likely larger than 8 KiB: saves a round trip.
  std::size_t value_size_hint = 0;
  // For measurements: a value that lies in one block of a coded memgest is decoded from the blocks
  // of other nodes, not read. kInvalidArgument: the nodes take no faults.
  bool degraded = false;
};

struct PutOptions {
  // By id, or by name; neither: the cluster's default. The name is borrowed.
  absl::string_view memgest = {};
  std::optional<MemgestId> memgest_id = std::nullopt;
  std::optional<Version> if_version = std::nullopt;  // Version(): only if the key does not exist
  absl::Duration deadline = absl::ZeroDuration();
};

struct DeleteOptions {
  std::optional<Version> if_version = std::nullopt;
  absl::Duration deadline = absl::ZeroDuration();
};

struct GetResult {
  std::string value;
  Version version;
  MemgestId memgest;
};

struct ReadResult {  // of GetInto: how much of the buffer holds the value
  std::size_t size = 0;
  Version version;
  MemgestId memgest;
};

struct WriteResult {
  Version version;
  MemgestId memgest;
};

struct WhereResult {
  NodeId node;  // the key's coordinator
  GroupId group;
  ShardId shard;
  Version version;
  MemgestId memgest;
  std::size_t value_size = 0;
};

struct NodeConnection {
  NodeId node;
  std::string name;
  std::string transport;  // "local", "shm", "tcp", "rdma"; empty while not connected
};

// How an operation of the low-level path ended; below 128 as the nodes say it.
enum class OpOutcome : std::uint8_t {
  kOk = 0,
  kNotFound = 1,
  // Completion::version is the one that is there; Version() if the one that was asked for is of a
  // cluster in whose place another was founded.
  kVersionMismatch = 2,
  kTooLarge = 3,
  kNoSuchMemgest = 4,
  kMemgestNotWritable = 5,
  kResourceExhausted = 6,
  kWrongOwner = 7,
  kUnavailable = 8,
  kRequestReused = 9,
  kStaleRequest = 10,
  kBadRequest = 11,
  kBadChecksum = 12,
  kReplyTooLarge = 13,  // the value does not fit the buffer; Completion::value_size is its size
  kDataLost = 14,
  kDeadlineExceeded = 128,  // certainly not applied
  kUnknown = 129,           // applied or not, or later: rule X5
};

struct Completion {
  std::uint64_t token = 0;
  OpOutcome outcome = OpOutcome::kOk;
  MemgestId memgest;
  Version version;
  std::size_t value_size = 0;
  absl::string_view value;  // empty when the value went to a buffer of the caller
};
absl::Status ToStatus(const Completion& completion);

// Whether a failed write may nevertheless have been applied.
bool IsUnknownOutcome(const absl::Status& status);

class Client;

// A result that is still to come. Get waits for it; call it once. It belongs to its client's thread
// and must not be waited for after the client is gone.
template <class T>
class Future {
 public:
  bool ready() const { return state_->has_value(); }
  absl::StatusOr<T> Get();

 private:
  friend class Client;
  using State = std::optional<absl::StatusOr<T>>;
  explicit Future(Client* client) : client_(client), state_(std::make_shared<State>()) {}
  Client* client_;
  std::shared_ptr<State> state_;
};

// Requests that go out together: one doorbell per node. Each is an operation of its own; they have
// no order among them and are not atomic together.
class Batch {
 public:
  struct Result {
    std::string value;  // of a get
    Version version;
    MemgestId memgest;
  };
  void Get(absl::string_view key, const GetOptions& options = {}) {
    Add(Kind::kGet, key, {}, {.deadline = options.deadline});
    requests_.back().value_size_hint = options.value_size_hint;
    requests_.back().degraded = options.degraded;
  }
  void Put(absl::string_view key, absl::string_view value, const PutOptions& options = {}) {
    Add(Kind::kPut, key, value, options);
  }
  void Delete(absl::string_view key, const DeleteOptions& options = {}) {
    Add(Kind::kDelete, key, {}, {.if_version = options.if_version, .deadline = options.deadline});
  }
  // As Client::Move.
  void Move(absl::string_view key, absl::string_view memgest, const PutOptions& options = {}) {
    PutOptions to = options;
    to.memgest = memgest;
    Add(Kind::kMove, key, {}, to);
  }
  std::size_t size() const { return requests_.size(); }
  void Clear() { requests_.clear(); }

 private:
  friend class Client;
  enum class Kind : std::uint8_t { kGet, kPut, kDelete, kMove };
  struct Request {
    Kind kind;
    std::string key;
    std::string value;
    std::string memgest;
    std::optional<MemgestId> memgest_id;
    std::optional<Version> if_version;
    absl::Duration deadline;
    std::size_t value_size_hint = 0;  // get
    bool degraded = false;            // get
  };
  void Add(Kind kind, absl::string_view key, absl::string_view value, const PutOptions& options);
  std::vector<Request> requests_;
};

class Client {
 public:
  // Fetches the view from the first seed that answers.
  // Errors: kInvalidArgument (options), kUnavailable (no seed answered; says what each did).
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const ClientOptions& options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // --- Calls that wait ---
  absl::StatusOr<GetResult> Get(absl::string_view key, const GetOptions& options = {});
  // No allocation. kOutOfRange when the value is larger than the buffer, which then holds nothing.
  absl::StatusOr<ReadResult> GetInto(absl::string_view key, absl::Span<char> buffer,
                                     const GetOptions& options = {});
  absl::StatusOr<WriteResult> Put(absl::string_view key, absl::string_view value,
                                  const PutOptions& options = {});
  absl::StatusOr<WriteResult> Delete(absl::string_view key, const DeleteOptions& options = {});
  // Changes the key's memgest; the value does not cross the network. options.memgest is not used,
  // and options.memgest_id only if `memgest` is empty.
  absl::StatusOr<WriteResult> Move(absl::string_view key, absl::string_view memgest,
                                   const PutOptions& options = {});
  absl::StatusOr<WhereResult> Where(absl::string_view key, const GetOptions& options = {});
  absl::StatusOr<std::vector<absl::StatusOr<Batch::Result>>> Execute(const Batch& batch);

  // --- Callbacks, and futures; a full window makes them wait for room ---
  // A callback is called exactly once: inside Poll, Wait or a call that waits; inside this call if
  // nothing could be sent; or when the client is destroyed (then the outcome is unknown).
  template <class T>
  using Callback = absl::AnyInvocable<void(absl::StatusOr<T>)>;
  void GetAsync(absl::string_view key, const GetOptions& options, Callback<GetResult> done);
  void PutAsync(absl::string_view key, absl::string_view value, const PutOptions& options,
                Callback<WriteResult> done);
  void DeleteAsync(absl::string_view key, const DeleteOptions& options, Callback<WriteResult> done);
  void MoveAsync(absl::string_view key, absl::string_view memgest, const PutOptions& options,
                 Callback<WriteResult> done);
  Future<GetResult> GetAsync(absl::string_view key, const GetOptions& options = {});
  Future<WriteResult> PutAsync(absl::string_view key, absl::string_view value,
                               const PutOptions& options = {});
  Future<WriteResult> DeleteAsync(absl::string_view key, const DeleteOptions& options = {});
  Future<WriteResult> MoveAsync(absl::string_view key, absl::string_view memgest,
                                const PutOptions& options = {});

  // Sends what was submitted, takes answers, runs callbacks; never waits. Gives whether anything
  // happened.
  bool Poll();
  // As Poll, but waits until nothing is under way, at most so long. Completions that nobody took
  // by PollCompletions do not count. kDeadlineExceeded.
  absl::Status Wait(absl::Duration timeout);
  // As Poll, but sleeps until something happens, at most so long.
  void WaitForProgress(absl::Duration timeout);

  // --- Low level: no allocation (values above 8 KiB: none once their buffers are there) ---
  // An unknown memgest name makes the call wait for the view; an id never does.
  // Errors: kResourceExhausted when the window is full: poll, then submit again; what
  // PollCompletions gave has its place until it is called again. kInvalidArgument.
  absl::Status SubmitGet(std::uint64_t token, absl::string_view key,
                         const GetOptions& options = {});
  absl::Status SubmitGetInto(std::uint64_t token, absl::string_view key, absl::Span<char> buffer,
                             const GetOptions& options = {});
  absl::Status SubmitPut(std::uint64_t token, absl::string_view key, absl::string_view value,
                         const PutOptions& options = {});
  absl::Status SubmitDelete(std::uint64_t token, absl::string_view key,
                            const DeleteOptions& options = {});
  // options: if_version and deadline.
  absl::Status SubmitMove(std::uint64_t token, absl::string_view key, MemgestId memgest,
                          const PutOptions& options = {});
  // Sends what was submitted: one doorbell per node. The polls do this, too.
  void Flush();
  // Polls, then gives up to completions.size() of what was submitted here and has ended, in any
  // order. The views of the previous call end.
  std::size_t PollCompletions(absl::Span<Completion> completions);

  // --- What the client knows ---
  // Asks for the view again when it does not know the name. Errors: kFailedPrecondition: there is
  // none; kDeadlineExceeded.
  absl::StatusOr<MemgestId> ResolveMemgest(absl::string_view name);
  std::string MemgestName(MemgestId id) const;  // empty: unknown
  std::uint32_t view_epoch() const;
  std::size_t outstanding() const;
  std::vector<NodeConnection> Connections() const;

 private:
  friend std::unique_ptr<Client> api::ClientOf(std::unique_ptr<api::ClientCore> core);
  explicit Client(std::unique_ptr<api::ClientCore> core);
  std::unique_ptr<api::ClientCore> core_;
};

template <class T>
absl::StatusOr<T> Future<T>::Get() {
  while (!ready()) client_->WaitForProgress(absl::Milliseconds(100));
  return *std::move(*state_);
}

}  // namespace ring

#endif  // RING_API_CLIENT_H_
