// ring/node/control/control_message.h — what travels on the control connection of two nodes.
//
// What:      ControlHeader and its chunks: a message is cut into chunks of at most
//            kControlChunkSize bytes, each behind a header; ControlAssembler puts them together
//            again.
// Shape:     fixed little-endian header of 32 bytes {magic, type, flags, code, request, total,
//            offset, consumed}. The chunks of a message follow each other on the connection,
//            without others in between.
// Units:     bytes.
// Ownership: values; a chunk borrows the receive buffer.
// Threads:   pure; the assembler is thread-compatible.
// Errors:    kInvalidArgument naming the field: the connection is ended then.
// Cost:      one copy of the body.
#ifndef RING_NODE_CONTROL_CONTROL_MESSAGE_H_
#define RING_NODE_CONTROL_CONTROL_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ring::node {

inline constexpr std::uint32_t kControlMagic = 0x4c544352;  // "RCTL"
inline constexpr std::size_t kControlBufferSize = 16384;    // a chunk with its header
inline constexpr std::size_t kControlBodyMax = std::size_t{4} << 20;

// Travels: never renumber.
enum class ControlType : std::uint16_t {
  kCredit = 0,      // no message: only `consumed`
  kPing = 1,        // empty; answered by the view epoch
  kView = 2,        // a view; answered by the epoch that the node has then
  kCatalogue = 3,   // an operator's change, to the leader
  kDrain = 4,       // DrainRequest: what a memgest that is deleted still holds; drops it by force
  kStats = 5,       // empty; answered by a node's statistics
  kScrubStart = 6,  // begin a node's part of a scrub
  kScrubPoll = 7,
  kScrubStop = 8,
  kScrubVersions = 9,  // versions that a member compares with its own
  kFreeze = 10,        // recovery::FreezeRequest, a block at a cut (S2); by recovery::FreezeAnswer
  kThaw = 11,          // u64 token of freezes that end
  kSeal = 12,          // recovery::SealRequest; answered by recovery::SealAnswer
  kConsensus = 13,     // a message between consensus servers; one-way
  kProbe = 14,         // empty; answered by what the node knows of the cluster (founding.h)
  kJoin = 15,          // a server id, to the leader
  kPropose = 16,       // a cluster command, to the leader; answered when it is applied there
  kFetch = 17,         // recovery::FetchRequest; answered by recovery::FetchAnswer
  kDecode = 18,        // recovery::DecodeRequest, a Lost block; answered by recovery::DecodeAnswer
  kRow = 19,           // recovery::RowRequest, to another parity; answered by its bytes
  kHealth = 20,        // empty; answered by cluster::NodeHealth
  kEvents = 21,        // start and number of the last seen; answered by NodeEvents
  kRenew = 22,         // LeaseRenewal, to the leader; the answer, empty, is the grant
  kFault = 23,         // Fault, to be injected
  kInstall = 24,       // recovery::InstallRequest
  kProgress = 25,      // recovery::ProgressRequest; answered by recovery::ProgressAnswer
  kDeviceFaults = 26,  // empty; answered by DeviceFaults
  kPartial = 27,       // recovery::PartialRequest, to a coordinator; answered by the sum's bytes
  kFetchValues = 28,   // several of kFetch (recovery/value_batch.h); answered by their answers
};
inline constexpr std::size_t kControlTypeCount = 29;

enum ControlFlags : std::uint8_t { kControlAnswer = 1 };

struct ControlHeader {
  std::uint32_t magic = kControlMagic;
  ControlType type = ControlType::kCredit;
  std::uint8_t flags = 0;
  std::uint8_t code = 0;       // of an answer: absl::StatusCode; the body is its message unless 0
  std::uint64_t request = 0;   // the caller's number
  std::uint32_t total = 0;     // of the body
  std::uint32_t offset = 0;    // of this chunk in it
  std::uint32_t consumed = 0;  // chunks taken from the peer so far, mod 2^32
  std::uint32_t reserved = 0;
};
static_assert(sizeof(ControlHeader) == 32);
inline constexpr std::size_t kControlChunkSize = kControlBufferSize - sizeof(ControlHeader);

struct ControlChunk {
  ControlHeader header;
  absl::string_view body;
};
absl::StatusOr<ControlChunk> DecodeControlChunk(absl::string_view bytes);

class ControlAssembler {
 public:
  // Whether `header()` and `body()` are a whole message now. REQUIRES: a chunk that was decoded.
  absl::StatusOr<bool> Add(const ControlChunk& chunk);
  const ControlHeader& header() const { return header_; }
  const std::string& body() const { return body_; }
  std::string TakeBody() { return std::exchange(body_, {}); }

 private:
  ControlHeader header_;
  std::string body_;
  bool partial_ = false;
};

}  // namespace ring::node

#endif  // RING_NODE_CONTROL_CONTROL_MESSAGE_H_
