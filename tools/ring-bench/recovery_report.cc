#include "tools/ring-bench/recovery_report.h"

#include <algorithm>
#include <optional>

namespace ring::bench {
namespace {

using node::EventKind;
using node::FailOver;
using node::ShardFailOver;

constexpr char kValuesBack[] = "killed -> all values of the lost shards back";

std::optional<std::int64_t> At(const ShardFailOver& shard, EventKind kind) {
  return shard.at[static_cast<std::size_t>(kind)];
}

bool IsLost(const ShardFailOver& shard, const std::set<ShardName>& lost) {
  return lost.contains({shard.group, shard.shard});
}

// When the last of the shards got there; none: one never did.
std::optional<std::int64_t> LastAt(const FailOver& fail_over, EventKind kind,
                                   const std::set<ShardName>* among) {
  std::map<ShardName, std::optional<std::int64_t>> newest;  // an epoch may have been superseded
  for (const ShardFailOver& shard : fail_over.shards) {
    if (among == nullptr || IsLost(shard, *among))
      newest[{shard.group, shard.shard}] = At(shard, kind);
  }
  std::optional<std::int64_t> last;
  for (const auto& [name, at] : newest) {
    if (!at.has_value()) return std::nullopt;
    last = std::max(last.value_or(*at), *at);
  }
  return last;
}

}  // namespace

bool ValuesAreBack(const FailOver& fail_over, const std::set<ShardName>& lost) {
  return LastAt(fail_over, EventKind::kValuesComplete, &lost).has_value();
}

bool IsProtected(const FailOver& fail_over) {
  return LastAt(fail_over, EventKind::kProtected, nullptr).has_value();
}

RecoveryReport::Series& RecoveryReport::At(const std::string& phase) {
  if (!phases_.contains(phase)) order_.push_back(phase);
  return phases_[phase];
}

void RecoveryReport::Record(const std::string& phase, std::int64_t from_ns, std::int64_t to_ns) {
  At(phase).times.Record(static_cast<std::uint64_t>(std::max<std::int64_t>(0, to_ns - from_ns)));
}

void RecoveryReport::RecordNever(const std::string& phase) { ++At(phase).never; }

void RecoveryReport::RecordEvents(std::int64_t killed_ns, const std::set<ShardName>& lost,
                                  const FailOver& fail_over, std::uint64_t lost_bytes) {
  const std::int64_t agreed_ns = fail_over.agreed_ns;
  lost_bytes_ = lost_bytes;
  if (fail_over.suspected_ns.has_value()) {
    Record("killed -> detected", killed_ns, *fail_over.suspected_ns);
    Record("detected -> epoch committed", *fail_over.suspected_ns, agreed_ns);
  }
  Record("killed -> epoch committed", killed_ns, agreed_ns);
  RecordLost(killed_ns, lost, fail_over);
  for (const ShardFailOver& shard : fail_over.shards) {
    const auto served = bench::At(shard, EventKind::kNormal);
    if (!IsLost(shard, lost) && served.has_value())
      Record("epoch committed -> any other shard serves", agreed_ns, *served);
  }
  const auto whole = LastAt(fail_over, EventKind::kProtected, nullptr);
  const std::string protected_again = "killed -> all shards protected again";
  if (!whole.has_value()) return RecordNever(protected_again);
  Record(protected_again, killed_ns, *whole);
}

// The way of the shards that the node coordinated, each by itself and all together.
void RecoveryReport::RecordLost(std::int64_t killed_ns, const std::set<ShardName>& lost,
                                const FailOver& fail_over) {
  const std::int64_t agreed_ns = fail_over.agreed_ns;
  for (const ShardFailOver& shard : fail_over.shards) {
    if (!IsLost(shard, lost)) continue;
    const auto record = [&](const std::string& phase, EventKind from, EventKind to) {
      const auto from_ns = bench::At(shard, from), to_ns = bench::At(shard, to);
      if (from_ns.has_value() && to_ns.has_value()) Record(phase, *from_ns, *to_ns);
    };
    if (const auto begun = bench::At(shard, EventKind::kEpochBegun); begun.has_value())
      Record("epoch committed -> a lost shard's new coordinator begins", agreed_ns, *begun);
    record("  begun -> sealed", EventKind::kEpochBegun, EventKind::kSealed);
    record("  sealed -> metadata here", EventKind::kSealed, EventKind::kFetched);
    record("  metadata here -> logs re-appended", EventKind::kFetched, EventKind::kReappended);
    record("  re-appended -> record committed, serves", EventKind::kReappended, EventKind::kNormal);
  }
  if (const auto at = LastAt(fail_over, EventKind::kReappended, &lost); at.has_value())
    Record("epoch committed -> all lost shards ready but for their records", agreed_ns, *at);
  if (const auto at = LastAt(fail_over, EventKind::kNormal, &lost); at.has_value()) {
    Record("epoch committed -> all lost shards serve", agreed_ns, *at);
    Record("killed -> all lost shards serve", killed_ns, *at);
  }
  const auto back = LastAt(fail_over, EventKind::kValuesComplete, &lost);
  if (!back.has_value()) return RecordNever(kValuesBack);
  RecordValues(killed_ns, LastAt(fail_over, EventKind::kNormal, &lost), *back);
}

void RecoveryReport::RecordValues(std::int64_t killed_ns, std::optional<std::int64_t> served_ns,
                                  std::int64_t back_ns) {
  Record(kValuesBack, killed_ns, back_ns);
  if (!served_ns.has_value() || back_ns <= *served_ns) return;
  Record("all lost shards serve -> all their values back", *served_ns, back_ns);
  rates_.push_back(static_cast<double>(lost_bytes_) * 1e9 /
                   static_cast<double>(back_ns - *served_ns));
}

void RecoveryReport::RecordGets(std::int64_t from_ns, std::int64_t killed_ns, std::int64_t gone_ns,
                                const FailOver& fail_over,
                                absl::Span<const RecoveryLoad::TimedGet> gets) {
  const auto served = LastAt(fail_over, EventKind::kNormal, nullptr);
  const auto whole = LastAt(fail_over, EventKind::kProtected, nullptr);
  for (const RecoveryLoad::TimedGet& get : gets) {
    const auto took_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(0, get.took_ns));
    if (get.due_ns < from_ns) continue;
    if (get.due_ns < killed_ns) {
      before_.Record(took_ns);
    } else if (get.due_ns < gone_ns) {
      continue;
    } else if (served.has_value() && get.due_ns <= *served) {
      until_served_.Record(took_ns);
    } else if (whole.has_value() && get.due_ns <= *whole) {
      until_protected_.Record(took_ns);
    }
  }
}

std::vector<Row> RecoveryReport::PhaseRows() const {
  std::vector<Row> rows;
  for (const std::string& phase : order_) {
    const Series& series = phases_.at(phase);
    Row row;
    row["phase"] = phase;
    row["samples"] = series.times.count();
    row["never"] = series.never;
    row["p50_ns"] = nullptr;
    row["p90_ns"] = nullptr;
    row["max_ns"] = nullptr;
    if (series.times.count() != 0) {
      row["p50_ns"] = series.times.Percentile(50);
      row["p90_ns"] = series.times.Percentile(90);
      row["max_ns"] = series.times.max();
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Row> RecoveryReport::RateRows(std::uint64_t limit) const {
  if (rates_.empty()) return {};
  Row row;
  row["values_bytes"] = lost_bytes_;
  row["p50_bytes_per_second"] = Median(rates_);
  row["least_bytes_per_second"] = *std::min_element(rates_.begin(), rates_.end());
  row["most_bytes_per_second"] = *std::max_element(rates_.begin(), rates_.end());
  row["limit_bytes_per_second"] = limit;
  return {row};
}

std::vector<Row> RecoveryReport::GetRows() const {
  std::vector<Row> rows;
  const auto add = [&](const std::string& when, const Histogram& times) {
    Row row;
    row["gets due"] = when;
    row["gets"] = times.count();
    row["p50_ns"] = times.Percentile(50);
    row["p99_ns"] = times.Percentile(99);
    row["max_ns"] = times.max();
    row["p99 of before_ratio"] =
        static_cast<double>(times.Percentile(99)) /
        static_cast<double>(std::max<std::uint64_t>(before_.Percentile(99), 1));
    rows.push_back(std::move(row));
  };
  Histogram all = until_served_;
  all.Merge(until_protected_);
  add("before the kill", before_);
  add("killed -> all shards serve", until_served_);
  add("all shards serve -> protected", until_protected_);
  add("killed -> protected", all);
  return rows;
}

}  // namespace ring::bench
