// ring/coordinator/large_write.h — a put from a client's buffer, or a move, that takes more than
// one turn.
//
// What:      Fetches the value piece by piece (READ from the client, or from the source slot),
//            appends each as a PART entry, and makes the whole visible with one FINAL (S10). A
//            value that fits one piece is fetched and becomes a plain PUT.
// Shape:     pieces of at most 64 KiB that cross no block; one PART a turn of the loop, small
//            operations in between. A client has half of a shard's places at most, and what waits
//            for a client's bytes for long holds none. Its time has a bound (F11).
// Ownership: keeps a copy of the request; owns its slot until FINAL, or until it is given up. A
//            READ for a coded memgest lands in memory of its own: deltas share their scratch with
//            every put of the node, and a client may let a READ wait for long.
// Threads:   one, the node's.
// Errors:    a bad checksum, a version mismatch or a lost connection gives everything up: PARTs are
//            invisible, and their slots are free again once every member has them. A READ that
//            cannot be posted, and a slot in blocks that a new parity has no BASE of (S6), are
//            refused as UNAVAILABLE: the client sends the request again.
// Cost:      one pass over the value in, one for its CRC.
// Source:    rules S10, G7, V5, V6, F11.
#ifndef RING_COORDINATOR_LARGE_WRITE_H_
#define RING_COORDINATOR_LARGE_WRITE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ring/coordinator/shard.h"

namespace ring::coordinator {

class LargeWrite {
 public:
  static constexpr std::size_t kConcurrentMax = 8;  // of one shard, that move on
  static constexpr std::size_t kUnderWayMax = 64;   // those that wait for their client, too
  static constexpr std::uint64_t kReadSlowNs = 100'000'000;
  static constexpr std::size_t kOfOneClientMax = kConcurrentMax / 2;
  // What a put may take whose client gives its bytes slowly: so long, and a second for each MiB.
  static constexpr std::uint64_t kPatienceNs = 10'000'000'000;

  ~LargeWrite();

  // As ShardCoordinator::Execute: false means come again.
  static bool StartPut(ShardCoordinator& shard, const Request& request, memgest::Memgest& memgest);
  // A value that came inline and is longer than the memgest's blocks.
  static bool StartInline(ShardCoordinator& shard, const Request& request,
                          memgest::Memgest& memgest);
  static bool StartMove(ShardCoordinator& shard, const Request& request, memgest::Memgest& target,
                        std::uint32_t source);

  // Moves on by at most one PART; gives a put up that takes too long.
  void Step(std::uint64_t now_ns);
  void OnRead(bool ok);
  // The role is lost: nothing more is appended, and what has no answer yet is UNKNOWN (X5). While a
  // READ is under way its memory must stay: it is finished when that is done.
  void Abort();
  bool finished() const { return state_ == State::kFinished; }
  // False while a READ takes longer than kReadSlowNs, and when all that is left is to give memory
  // back. Asked each turn.
  bool HoldsPlace(std::uint64_t now_ns);
  // Somebody waits for its blocks: a put whose client makes it wait gives them up.
  void Yield(std::uint64_t now_ns);
  // Its client asks again from there: a READ by another connection is waited for no more.
  void LeaveConnection(const ReplyTo& now);
  // Something to do without waiting for a READ or an acknowledgement.
  bool runnable() const { return MayAppend() && state_ != State::kReading; }
  std::uint64_t token() const { return token_; }
  MemgestId memgest_id() const { return memgest_.descriptor().id; }
  const memgest::CompletionTable::Client* client() const { return request_.client; }
  std::uint64_t seq() const { return request_.seq; }
  // Copies of its request (X2), until it is appended as a whole or given up.
  std::uint32_t* waiter() { return &waiter_; }
  bool Touches(std::uint32_t first_cell, std::uint32_t cell_count) const;
  bool MayAppend() const { return state_ < State::kDraining; }

 private:
  enum class State : std::uint8_t {
    kFetch = 0,
    kReading = 1,
    kAppend = 2,
    kFinish = 3,
    kDraining = 4,
    kFinished = 5,
    // A READ is under way; nothing but its end is waited for. kGivenUp: the slot is drained then.
    kAborted = 6,
    kGivenUp = 7,
  };
  // A run of bytes of a value in one memgest's heap.
  struct Place {
    std::uint32_t offset_cells = 0;
    std::uint32_t length = 0;
  };

  LargeWrite(ShardCoordinator& shard, const Request& request, memgest::Memgest& memgest);
  static bool Start(ShardCoordinator& shard, const Request& request, memgest::Memgest& memgest,
                    std::uint32_t source, std::uint64_t length,
                    absl::string_view inline_value = {});
  // Where byte `at` of a value lies, and how many bytes follow it there without crossing a block.
  static Place PlaceOf(std::uint32_t base_cells, absl::Span<const memgest::Range> ranges,
                       std::uint32_t block_size, std::uint64_t at);
  void Fetch();
  void Read();
  void Append();
  void Finish();
  // No room in a log just now: the next turn tries again, unless a member is gone.
  bool AwaitsBase() const;
  void AwaitRoom();
  void GiveUp(protocol::Outcome outcome, Version version = Version());
  // For the deltas of the piece, if there are any; taken when nothing else can fail. None: come
  // again when others were acknowledged.
  std::optional<memgest::DeltaArena::Piece> TakeScratch();
  // The piece at hand is the whole value, in one slot: it becomes a plain PUT. A source of smaller
  // blocks gives it in pieces, also where it fits one slot here.
  bool one_entry() const { return ranges_.empty() && done_ == 0 && piece_.length == length_; }
  std::byte* fetched() const;

  ShardCoordinator& shard_;
  Request request_;
  std::string key_;
  std::string inline_value_;  // of StartInline
  memgest::Memgest& memgest_;
  memgest::Slot slot_;
  std::vector<memgest::Range> ranges_;
  std::uint32_t source_ = memgest::kNoLine;  // of a move: pinned (V6)
  std::uint64_t length_ = 0;
  std::uint64_t done_ = 0;
  Place piece_;
  LandingPlace landing_;  // coded memgests: what is READ
  const std::byte* source_bytes_ = nullptr;
  std::uint32_t crc_ = 0;
  std::uint32_t waiter_ = 0;
  std::uint64_t last_order_ = 0;
  std::uint64_t token_ = 0;
  std::uint64_t reading_since_ns_ = 0;  // as HoldsPlace saw it; 0: not reading
  std::uint64_t begun_ns_ = 0;          // as Step saw it; 0: not seen
  State state_ = State::kFetch;
};

}  // namespace ring::coordinator

#endif  // RING_COORDINATOR_LARGE_WRITE_H_
