// ring/cluster/catalogue.h — the memgest catalogue as a deterministic state machine.
//
// What:      Catalogue: the memgests of a view, their states and the default one, changed by
//            CatalogueCommands in one agreed order. Equal commands in equal order give equal
//            catalogues on every node, byte for byte (EncodeCatalogue).
// Shape:     CREATING -> ACTIVE -> DRAINING -> DELETED, and DRAINING -> ACTIVE when a drain is
//            given up (G10, G11). Ids ascend and are never used again (V2).
// Units:     revision counts the changes.
// Ownership: value.
// Threads:   thread-compatible; no clock, no I/O.
// Errors:    in CommandResult::status; a refused command changes nothing but the record of its
//            request, so that a retry is refused the same way (X6).
// Cost:      linear in memgests and requests remembered; off the hot path.
// Source:    rules G10, G11, X1, X2, X6, V2.
#ifndef RING_CLUSTER_CATALOGUE_H_
#define RING_CLUSTER_CATALOGUE_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ring/base/id.h"
#include "ring/cluster/view.h"
#include "ring/protocol/memgest_descriptor.h"

namespace ring::cluster {

inline constexpr std::size_t kAdminClientSizeMax = 64;
inline constexpr std::size_t kLiveMemgestCountMax = 256;  // not DELETED: each costs every shard
// Of all descriptors there ever were, as a view has them: it goes to nodes in one message.
inline constexpr std::size_t kCatalogueSizeMax = std::size_t{2} << 20;
// Requests remembered over all clients; beyond, the one applied first is forgotten.
inline constexpr std::size_t kRequestMemory = 4096;
// A client's request is refused when its seq is this far below the client's highest.
inline constexpr std::uint64_t kRequestWindow = 64;
inline constexpr std::size_t kRefusalSizeMax = 512;  // of the text that a refused deletion is told

// Who asks, for the n-th time: a retry carries the same pair. An empty client is the cluster
// itself, whose commands are idempotent by their own (SetState says from where to where).
struct RequestId {
  std::string client;
  std::uint64_t seq = 0;
  friend bool operator==(const RequestId&, const RequestId&) = default;
};

// What a second command with the same request id gets (X6).
absl::Status RequestReused(const RequestId& request);

// Travels: never renumber.
enum class CatalogueAction : std::uint8_t {
  kCreate = 1,
  kSetState = 2,
  kSetDefault = 3,
  kDelete = 4,
  kRefuseDelete = 5
};

struct CatalogueCommand {
  RequestId request;
  CatalogueAction action = CatalogueAction::kCreate;
  protocol::MemgestDescriptor descriptor;  // create; its id and state are not looked at
  MemgestId memgest;                       // set state, set default, refuse delete
  protocol::MemgestState from = protocol::MemgestState::kActive;  // set state
  protocol::MemgestState to = protocol::MemgestState::kActive;
  // to DELETED, refuse delete: of the catalogue in which the memgest was found empty, or not
  std::uint64_t revision = 0;
  std::string name;     // delete
  bool force = false;   // delete; part of what is asked for, the catalogue does not look at it
  std::string refusal;  // refuse delete: the answer
  friend bool operator==(const CatalogueCommand&, const CatalogueCommand&) = default;
};

CatalogueCommand CreateCommand(RequestId request, protocol::MemgestDescriptor descriptor);
CatalogueCommand SetStateCommand(RequestId request, MemgestId memgest, protocol::MemgestState from,
                                 protocol::MemgestState to);
// From DRAINING: `revision` is the catalogue's from before the shards were asked what they hold.
CatalogueCommand DeletedCommand(MemgestId memgest, std::uint64_t revision);
CatalogueCommand SetDefaultCommand(RequestId request, MemgestId memgest);
// Begins a deletion: the memgest that has the name is DRAINING.
CatalogueCommand DeleteCommand(RequestId request, absl::string_view name, bool force);
// Ends the one that `request` asked for: the memgest is ACTIVE again, and kFailedPrecondition with
// this text is the request's answer from now on (X6). `revision` as for DeletedCommand.
CatalogueCommand RefuseDeleteCommand(RequestId request, MemgestId memgest, std::uint64_t revision,
                                     absl::string_view refusal);

// REQUIRES: a client of at most kAdminClientSizeMax bytes, a refusal of at most kRefusalSizeMax.
std::string EncodeCommand(const CatalogueCommand& command);
absl::StatusOr<CatalogueCommand> DecodeCommand(absl::string_view bytes);

struct CommandResult {
  absl::Status status;
  MemgestId memgest;       // the one created or changed
  bool changed = false;    // the catalogue is another one than before
  bool duplicate = false;  // answered from memory
};

class Catalogue {
 public:
  // REQUIRES: a valid view.
  explicit Catalogue(const View& view);

  // Errors: kAlreadyExists (name), kInvalidArgument (descriptor; the request id was used for
  // another command), kNotFound (memgest), kFailedPrecondition (state; default memgest; a deletion
  // that was refused), kResourceExhausted (ids or live memgests), kAborted (seq is below the
  // client's window: it is certain not to be executed now).
  CommandResult Apply(const CatalogueCommand& command);

  const std::vector<protocol::MemgestDescriptor>& memgests() const { return memgests_; }
  const protocol::MemgestDescriptor* Find(MemgestId id) const;            // null: unknown
  const protocol::MemgestDescriptor* Find(absl::string_view name) const;  // not DELETED
  MemgestId default_memgest() const { return default_memgest_; }
  const protocol::WeakPast& weak_past() const { return weak_past_; }
  std::uint64_t revision() const { return revision_; }
  // The memgest of a request that is remembered; nullopt: it is not, or had none.
  std::optional<MemgestId> RememberedMemgest(const RequestId& request) const;

  friend std::string EncodeCatalogue(const Catalogue& catalogue);
  friend absl::StatusOr<Catalogue> DecodeCatalogue(int s, int d, absl::string_view bytes);
  friend bool operator==(const Catalogue&, const Catalogue&);

 private:
  // What was answered, kept for retries.
  struct Remembered {
    RequestId request;
    std::uint32_t payload_crc = 0;
    absl::StatusCode code = absl::StatusCode::kOk;
    std::string message;
    MemgestId memgest;
    friend bool operator==(const Remembered&, const Remembered&) = default;
  };

  Catalogue(int s, int d) : s_(s), d_(d) {}
  protocol::MemgestDescriptor* FindMutable(MemgestId id);
  // Whether the request was seen; then *result is its answer.
  bool Recall(const CatalogueCommand& command, CommandResult* result) const;
  void Remember(const CatalogueCommand& command, const CommandResult& result);
  CommandResult Execute(const CatalogueCommand& command);
  CommandResult Create(const CatalogueCommand& command);
  CommandResult SetState(const CatalogueCommand& command);
  CommandResult SetDefault(const CatalogueCommand& command);
  CommandResult Delete(const CatalogueCommand& command);
  CommandResult RefuseDelete(const CatalogueCommand& command);

  int s_;
  int d_;
  std::uint64_t revision_ = 0;
  MemgestId default_memgest_;
  protocol::WeakPast weak_past_;
  std::vector<protocol::MemgestDescriptor> memgests_;  // ids ascend
  std::deque<Remembered> remembered_;                  // in the order applied
};

// A snapshot: the memgests, the default one, and the requests remembered.
std::string EncodeCatalogue(const Catalogue& catalogue);
absl::StatusOr<Catalogue> DecodeCatalogue(int s, int d, absl::string_view bytes);

}  // namespace ring::cluster

#endif  // RING_CLUSTER_CATALOGUE_H_
