// Nanoseconds per folded entry at a member: replica and parity, values of 1 KiB over a table and
// heap that no cache holds; and per line of a snapshot, taken and installed. Run by hand:
// memgest_fold_bench.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "memgest/member_shard.h"
#include "memgest/size_class.h"
#include "ring/base/random.h"
#include "tests/memgest/entry_ring.h"
#include "tests/memgest/snapshot_pieces.h"
#include "tests/memgest/twin_device.h"

namespace ring::memgest {
namespace {

constexpr std::uint32_t kSlots = 400 * 1024;
constexpr std::uint32_t kBatch = 192;  // fits a ring of 256 KiB
constexpr int kPasses = 4;             // over all slots; the first one touches the memory
constexpr std::uint32_t kLength = 1024;

protocol::MemgestDescriptor Descriptor(bool coded) {
  protocol::MemgestDescriptor descriptor;
  descriptor.id = MemgestId(1);
  descriptor.r = 3;
  if (coded) {
    descriptor.scheme = protocol::Scheme::kStretchedReedSolomon;
    descriptor.k = 3;
    descriptor.m = 2;
  }
  return descriptor;
}

// Gives the nanoseconds of Fold alone, per entry, of the passes behind the first. Each entry puts
// into a slot and collects what the slot beside it in the random order held, as a steady state
// does.
double Measure(bool coded, std::uint32_t length, std::uint32_t batch) {
  TwinDevice device;
  device.advise_huge = true;
  ParityStore parity(&device, Descriptor(true), 3, 1);
  MemberShard member(&device, GroupId(0), ShardId(0), kSlots);
  if (coded) {
    member.AddParity(Descriptor(true), &parity);
  } else {
    member.AddReplica(Descriptor(false));
  }
  std::vector<std::uint32_t> order(kSlots);
  std::iota(order.begin(), order.end(), 0);
  SeededRandom random(1);
  for (std::uint32_t i = kSlots - 1; i > 0; --i) std::swap(order[i], order[random.Below(i + 1)]);
  std::vector<std::uint64_t> versions(kSlots);
  const std::uint32_t cells = CellsOf(ClassOf(length));
  const std::vector<std::byte> value(length, std::byte{0x5a});

  auto ring = std::make_unique<EntryRing>(256 * 1024);
  std::uint64_t index = 0;
  std::uint64_t entries = 0;
  std::chrono::nanoseconds time{0};
  for (std::uint64_t i = 0; i < std::uint64_t{kSlots} * kPasses; i += batch) {
    // A further ring, in the same memory: the log goes on.
    ring = nullptr;
    ring = std::make_unique<EntryRing>(256 * 1024);
    member.Attach(ring->MakeReader());
    for (std::uint32_t n = 0; n < batch; ++n) {
      const std::uint32_t line = order[(i + n) % kSlots];
      const std::uint32_t next = order[(i + n + batch) % kSlots];
      EntryFields fields;
      fields.memgest = MemgestId(1);
      fields.index = ++index;
      fields.version = Version(Epoch(3), index);
      fields.key = "0123456789abcdef";
      fields.line = line;
      fields.size_class = ClassOf(length);
      fields.offset_cells = line * cells;
      fields.value_length = length;
      fields.client = ClientId{1, 1};
      fields.seq = index;
      fields.incomplete_delta = static_cast<std::uint16_t>(std::min<std::uint64_t>(index, 16));
      const CollectItem item{versions[next], next};
      if (item.version != 0) fields.collect = absl::MakeConstSpan(&item, 1);
      versions[next] = 0;
      versions[line] = index + (std::uint64_t{3} << Version::kCounterBits);
      ring->Append(fields, value.data(), value.size());
    }
    ring->Commit();
    const auto start = std::chrono::steady_clock::now();
    const absl::StatusOr<int> folded = member.Fold(static_cast<int>(batch));
    const auto end = std::chrono::steady_clock::now();
    RING_CHECK(folded.ok() && *folded == static_cast<int>(batch)) << folded.status().message();
    if (i < kSlots) continue;
    time += end - start;
    entries += batch;
  }
  return static_cast<double>(time.count()) / static_cast<double>(entries);
}

double NsPerLine(std::chrono::steady_clock::duration time) {
  return static_cast<double>(std::chrono::nanoseconds(time).count()) / kSlots;
}

void MeasureSnapshot() {
  TwinDevice device;
  MemberShard source(&device, GroupId(0), ShardId(0), kSlots);
  source.AddReplica(Descriptor(false));
  for (std::uint32_t number = 0; number < kSlots; ++number) {
    LineTable& lines = source.lines();
    RING_CHECK(lines.EnsureLine(number, MemgestId(1), 16, number * CellsOf(16)).ok());
    MetadataLine& line = lines.line(number);
    line.version = number + 1;
    line.offset_cells = number * CellsOf(16);
    line.memgest = 1;
    line.flags = kLive | kCommitted;
    lines.SetKey(number, "0123456789abcdef");
    lines.TakeLine(number);
  }
  const MemgestId memgest(1);
  const auto start = std::chrono::steady_clock::now();
  const std::vector<std::string> pieces =
      AllPieces(*source.TakeSnapshot(1, absl::MakeConstSpan(&memgest, 1)));
  const auto taken = std::chrono::steady_clock::now();
  MemberShard joiner(&device, GroupId(0), ShardId(0), kSlots);
  joiner.AddReplica(Descriptor(false));
  for (const std::string& piece : pieces) RING_CHECK(joiner.Install(piece).ok());
  const auto installed = std::chrono::steady_clock::now();
  std::size_t size = 0;
  for (const std::string& piece : pieces) size += piece.size();
  std::printf("snapshot, 16-byte keys: %.0f bytes a line, taken %.0f ns, installed %.0f ns\n",
              static_cast<double>(size) / kSlots, NsPerLine(taken - start),
              NsPerLine(installed - taken));
}

}  // namespace
}  // namespace ring::memgest

int main() {
  using ring::memgest::kBatch;
  using ring::memgest::kLength;
  using ring::memgest::Measure;
  for (const std::uint32_t batch : {std::uint32_t{8}, kBatch}) {
    std::printf("1 KiB, %u entries a Fold: replica %.0f ns, parity %.0f ns\n", batch,
                Measure(false, kLength, batch), Measure(true, kLength, batch));
  }
  std::printf("448 B, %u entries a Fold: replica %.0f ns, parity %.0f ns\n", kBatch,
              Measure(false, 448, kBatch), Measure(true, 448, kBatch));
  ring::memgest::MeasureSnapshot();
  return 0;
}
