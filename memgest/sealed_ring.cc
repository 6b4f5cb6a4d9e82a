#include "memgest/sealed_ring.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "ring/base/status.h"

namespace ring::memgest {

absl::StatusOr<std::unique_ptr<SealedRing>> SealedRing::Create(std::unique_ptr<LogReader> reader,
                                                               std::vector<SealedLog> logs) {
  absl::flat_hash_map<MemgestId, SealedLog> by_memgest;
  for (const SealedLog& log : logs) by_memgest[log.memgest] = log;
  absl::Status dense;
  const auto meet = [&](const EntryView& entry) {
    SealedLog& log = by_memgest[MemgestId(entry.header.memgest)];
    log.memgest = MemgestId(entry.header.memgest);
    const std::uint64_t index = entry.header.index;
    if (log.last == 0 ? index > log.applied + 1 : index != log.last + 1) {
      dense.Update(absl::DataLossError(absl::StrCat("sealed ring: memgest=", log.memgest.value(),
                                                    " index=", index, " behind index=", log.last,
                                                    " applied=", log.applied)));
    }
    log.last = index;
  };
  RING_RETURN_IF_ERROR(reader->Seal(meet).status());
  RING_RETURN_IF_ERROR(dense);
  logs.clear();
  for (auto& [memgest, log] : by_memgest) {
    // Entries that were folded from an older ring may be all that this one has of a log.
    log.last = std::max(log.last, log.applied);
    logs.push_back(log);
  }
  std::sort(logs.begin(), logs.end(),
            [](const SealedLog& a, const SealedLog& b) { return a.memgest < b.memgest; });
  return std::unique_ptr<SealedRing>(new SealedRing(std::move(reader), std::move(logs)));
}

absl::Status SealedRing::ReadTail(MemgestId memgest, std::uint64_t after_index,
                                  absl::FunctionRef<void(const EntryView&)> visit) const {
  std::uint64_t last = 0;
  for (const SealedLog& log : logs_) {
    if (log.memgest == memgest) last = log.last;
  }
  if (after_index >= last) return absl::OkStatus();
  std::uint64_t next = after_index + 1;
  reader_->ReadBack([&](const EntryView& entry) {
    if (MemgestId(entry.header.memgest) != memgest || entry.header.index != next) return;
    visit(entry);
    ++next;
  });
  // A log is dense in a ring, so what is missing is missing at the front.
  if (next == last + 1) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("memgest=", memgest.value(), " index=", next,
                                            " is not in the ring of epoch=", epoch().value(),
                                            " any more; take a snapshot"));
}

}  // namespace ring::memgest
