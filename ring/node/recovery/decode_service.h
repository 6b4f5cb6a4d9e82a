// ring/node/recovery/decode_service.h — decodes Lost blocks for new coordinators, at a parity node.
//
// What:      DecodeService takes Decode requests, those that operations wait for first, runs a few
//            jobs at a time (decode_job.h), and gives rows of this node's parities to jobs of
//            other nodes once they are at the moment that is asked for (S7).
// Shape:     kJobsMax jobs, kQueuedMax requests behind them, kRowsMax rows waited for.
// Ownership: borrows the node; owns the jobs.
// Threads:   one, the node's.
// Errors:    answered: kResourceExhausted (too many at once), a job's own; of a row: kAborted (the
//            epoch is over), kFailedPrecondition (not all of the row is here, or it is past that
//            moment), kUnavailable (it did not come to it in time).
// Source:    rules S2, S7; Ring section 5.5.
#ifndef RING_NODE_RECOVERY_DECODE_SERVICE_H_
#define RING_NODE_RECOVERY_DECODE_SERVICE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "ring/node/recovery/decode_job.h"

namespace ring::node {

class DecodeService {
 public:
  static constexpr std::size_t kJobsMax = 4;
  static constexpr std::size_t kQueuedMax = 256;
  static constexpr std::size_t kRowsMax = 64;
  static constexpr std::uint64_t kRowPatienceNs = 200'000'000;

  explicit DecodeService(Node* node);

  void Progress(std::uint64_t now_ns);
  bool busy() const { return !jobs_.empty() || !rows_.empty(); }
  bool HasWork() const;
  std::uint64_t blocks_decoded() const { return blocks_decoded_; }

 private:
  struct Queued {
    recovery::DecodeRequest request;
    ControlReply reply;
  };
  struct WaitingRow {
    recovery::RowRequest request;
    std::uint64_t deadline_ns = 0;
    ControlReply reply;
  };

  void OnDecode(absl::string_view body, ControlReply reply);
  void OnRow(absl::string_view body, ControlReply reply);
  void StartJobs(std::uint64_t now_ns);
  bool StepRow(WaitingRow& row, std::uint64_t now_ns, bool first);
  // Not yet: kOutOfRange.
  absl::StatusOr<std::string> Row(const recovery::RowRequest& request, bool first);
  void CatchUp(const recovery::RowRequest& request, const srs::Layout& layout,
               absl::Span<const std::uint64_t> last_touch);

  Node* node_;
  std::vector<std::unique_ptr<DecodeJob>> jobs_;
  std::size_t next_job_ = 0;  // a turn has bytes for some of them
  std::size_t next_row_ = 0;
  std::deque<Queued> urgent_;
  std::deque<Queued> background_;
  std::vector<WaitingRow> rows_;
  std::uint64_t blocks_decoded_ = 0;
};

}  // namespace ring::node

#endif  // RING_NODE_RECOVERY_DECODE_SERVICE_H_
