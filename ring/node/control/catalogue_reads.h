// ring/node/control/catalogue_reads.h — what the catalogue is by now, for all shards of a node.
//
// What:      CatalogueReads asks the consensus what is committed, and tells when that is applied
//            here. However many requests name memgests that nobody knows, one read is under way,
//            and those that come meanwhile share the next one.
// Shape:     Ask, then Progress begins the read and ends it when it takes too long.
// Units:     nanoseconds of the node's clock.
// Ownership: callbacks of the consensus must not outlive it.
// Threads:   one, the node's.
// Errors:    a read fails when no leader is known, it moves, or nobody answers for kPatienceNs.
// Cost:      none for a node that asks nothing; at most one quorum round every kPeriodNs.
// Source:    rules G11, 10.5.
#ifndef RING_NODE_CONTROL_CATALOGUE_READS_H_
#define RING_NODE_CONTROL_CATALOGUE_READS_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "ring/coordinator/catalogue_reader.h"

namespace ring::node {

class CatalogueReads final : public coordinator::CatalogueReader {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;
  // Runs `done` once, now or later, when all that was committed before the call is applied here.
  using Read = std::function<void(Done done)>;

  // on_asked: Progress is due.
  CatalogueReads(Read read, std::function<void()> on_asked)
      : read_(std::move(read)), on_asked_(std::move(on_asked)) {}

  std::uint64_t Ask() override;
  Result Look(std::uint64_t read) const override;
  // Whether a read ended for want of an answer.
  bool Progress(std::uint64_t now_ns);
  // A read is to begin, and waits for nobody's answer.
  bool due() const { return asked_ > begun_ && begun_ == ended_; }

  static constexpr std::uint64_t kPeriodNs = 1'000'000;
  static constexpr std::uint64_t kPatienceNs = 500'000'000;

 private:
  void End(std::uint64_t read, bool applied);

  Read read_;
  std::function<void()> on_asked_;
  std::uint64_t asked_ = 0;  // numbers of reads: a later one covers all before it
  std::uint64_t begun_ = 0;
  std::uint64_t ended_ = 0;
  std::uint64_t applied_ = 0;
  std::uint64_t begun_ns_ = 0;
};

}  // namespace ring::node

#endif  // RING_NODE_CONTROL_CATALOGUE_READS_H_
