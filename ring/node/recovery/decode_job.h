// ring/node/recovery/decode_job.h — one block decoded at a parity node.
//
// What:      DecodeJob waits until this parity has folded the Lost block's log to its adopted end,
//            cuts the row's other blocks (row_cut.h), and captures the parity's row at the moment
//            in which its last touches are those of the cut (S2). Blocks that are lost, too, are
//            erasures: other parities give their rows, captured at equal last touches (S7). Then it
//            combines what it has by the recipe that rank allows. By the memgest's repair scheme
//            the other blocks are written here, or stay where they are, and partial sums of them
//            come along a repair graph (ring/recovery/repair_graph.h). Blocks that the request
//            leaves out are at the cut, too, and no term of the recipe (S12).
// Shape:     kFold -> kCut -> kVector -> [kRows] -> [kPartials] -> kCombine -> done; what fails
//            goes through kPause to kCut again, kAttemptsMax times.
// Ownership: borrows the node.
// Threads:   one, the node's.
// Errors:    the answer's: kAborted (the epoch is over), kNotFound (the memgest was deleted),
//            kFailedPrecondition (this parity has not all of the row), kDataLoss (what is lost for
//            good, or left out, is more than rank allows), kUnavailable (it did not come together
//            in time, or needs a shard that does not serve or a parity under rebuild: ask again).
// Cost:      k - 1 WRITEs of a block, a copy of the row, a multiply-add for each term. With partial
//            sums, as many bytes here as the graph's root has edges.
// Source:    rules S1, S2, S7, S8; Ring section 5.5.
#ifndef RING_NODE_RECOVERY_DECODE_JOB_H_
#define RING_NODE_RECOVERY_DECODE_JOB_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memgest/parity_store.h"
#include "ring/node/control/control_port.h"
#include "ring/node/recovery/row_cut.h"
#include "ring/recovery/repair_graph.h"
#include "ring/recovery/row_decode.h"
#include "srs/decode_plan.h"

namespace ring::node {

class DecodeJob {
 public:
  static constexpr std::size_t kSliceSize = 64 * 1024;
  // Nodes of a graph keep a sum for each tree that is under way.
  static constexpr std::size_t kTreesUnderWay = 4;
  static constexpr int kAttemptsMax = 12;
  static constexpr int kLostAfter = 4;  // attempts, before it does without a shard that is silent
  // From before the freeze: within the freezes' 1 s wherever they are, and within the time in which
  // a coordinator that begins an epoch waits for the members of the last one.
  static constexpr std::uint64_t kCutNs = 500'000'000;
  static constexpr std::uint64_t kDeadlineNs = 2'000'000'000;

  DecodeJob(Node* node, const recovery::DecodeRequest& request, ControlReply reply,
            std::uint64_t now_ns);
  // One that is not done is not answered.
  ~DecodeJob();

  // False: it is over, and answered.
  bool Step(std::uint64_t now_ns);
  // Something to do without waiting for anybody.
  bool runnable() const { return stage_ == Stage::kCombine; }
  bool urgent() const { return request_.urgent; }

 private:
  enum class Stage : std::uint8_t {
    kFold = 0,
    kCut = 1,
    kVector = 2,
    kRows = 3,
    kCombine = 4,
    kPause = 5,
    kPartials = 6
  };

  absl::Status Check();
  absl::Status CheckFolded();
  absl::Status BeginCut(std::uint64_t now_ns);
  absl::Status OnCut();
  absl::Status OnVector();
  std::uint32_t Complete(std::uint32_t columns) const;
  std::optional<srs::Recipe> Plan(std::uint32_t lost, std::uint32_t columns) const;
  bool MayCome() const;
  absl::Status AskRows(std::string own_row);
  absl::Status OnRows();
  protocol::RepairScheme Repair() const;  // a memgest's is never changed
  void BeginPartials();
  void AskPartials();
  bool AddPartials(absl::Status* status);
  bool Combine();
  bool Retry(const absl::Status& why, std::uint64_t now_ns);
  bool Finish(absl::StatusOr<std::string> answer);
  recovery::RowName Name() const {
    return {request_.log.group, request_.log.memgest, extent_, row_};
  }
  std::uint32_t Bit(std::uint32_t column) const { return 1u << column; }

  Node* node_;
  recovery::DecodeRequest request_;
  ControlReply reply_;
  std::uint64_t deadline_ns_;
  Stage stage_ = Stage::kFold;
  int attempts_ = 0;
  std::uint64_t pause_until_ns_ = 0;
  memgest::ParityStore* store_ = nullptr;  // looked up each step
  std::uint32_t extent_ = 0;
  std::uint32_t row_ = 0;
  std::uint32_t column_ = 0;  // the Lost block's
  RowCut cut_;
  std::uint32_t lost_ = 0;                      // columns, this one among them
  std::uint32_t vacant_ = 0;                    // of them, of shards that do not serve
  bool away_ = false;                           // too much of the row, for now
  std::vector<recovery::FreezeAnswer> frozen_;  // by column
  std::vector<std::uint64_t> last_touch_;       // of the captured row
  srs::Recipe recipe_;
  // By parity, an empty one is zero; shared with callbacks, which may come after the job's end.
  struct Rows {
    std::vector<absl::StatusOr<std::string>> bytes;
    std::size_t left = 0;
  };
  std::shared_ptr<Rows> rows_;
  bool partial_ = false;  // blocks stay where they are, and sums of them come
  // By tree; shared like rows.
  struct Partials {
    std::vector<absl::StatusOr<std::string>> bytes;
    std::size_t answered = 0;
  };
  std::vector<recovery::PartialTree> trees_;
  std::shared_ptr<Partials> partials_;
  std::size_t trees_asked_ = 0;
  std::size_t trees_added_ = 0;
  std::string answer_;             // encoded: the block is its end
  std::size_t combine_begin_ = 0;  // in the answer
  std::size_t combined_ = 0;
};

}  // namespace ring::node

#endif  // RING_NODE_RECOVERY_DECODE_JOB_H_
