#include "ring/node/control/catalogue_reads.h"

namespace ring::node {

// What is under way may have begun before that was committed which the asker has heard of.
std::uint64_t CatalogueReads::Ask() {
  if (asked_ == begun_) {
    ++asked_;
    on_asked_();
  }
  return asked_;
}

CatalogueReads::Result CatalogueReads::Look(std::uint64_t read) const {
  if (read <= applied_) return Result::kApplied;
  return read <= ended_ ? Result::kFailed : Result::kUnderWay;
}

bool CatalogueReads::Progress(std::uint64_t now_ns) {
  const bool overdue = begun_ > ended_ && now_ns - begun_ns_ >= kPatienceNs;
  if (overdue) End(begun_, false);
  if (!due() || (begun_ > 0 && now_ns - begun_ns_ < kPeriodNs)) return overdue;
  begun_ = asked_;
  begun_ns_ = now_ns;
  read_([this, read = begun_](const absl::Status& status) { End(read, status.ok()); });
  return overdue;
}

void CatalogueReads::End(std::uint64_t read, bool applied) {
  if (read <= ended_) return;  // it took too long
  ended_ = read;
  if (applied) applied_ = read;
}

}  // namespace ring::node
