#include "ring/node/recovery/block_fetch.h"

namespace ring::node {
namespace {
constexpr std::uint64_t kDecodeTimeoutNs = 3'000'000'000;
}  // namespace

BlockFetch::BlockFetch(ControlPort* control, Pace* pace, coordinator::ShardCoordinator* shard,
                       std::function<void()> on_value)
    : control_(control),
      shard_(shard),
      on_value_(std::move(on_value)),
      recovery_(this, pace, &shard->lines(), shard->options().group, shard->options().shard),
      alive_(std::make_shared<bool>(true)) {
  for (const std::unique_ptr<memgest::Memgest>& memgest : shard->memgests()) {
    if (memgest == nullptr || !memgest->coded()) continue;
    recovery_.Add(memgest->descriptor().id, memgest->next_index() - 1);
  }
  const memgest::LineTable& lines = shard->lines();
  lines.ForEachLarge([&](std::uint32_t line) {
    const MemgestId memgest(lines.line(line).memgest);
    if (!Absent(line) || !Find(memgest)->coded()) return;
    std::vector<std::uint32_t>& blocks = large_[memgest];
    ForEachBlock(line, [&](std::uint32_t block) {
      if (blocks.size() <= block) blocks.resize(block + 1, memgest::kNoLine);
      blocks[block] = line;
    });
  });
}

BlockFetch::~BlockFetch() = default;

bool BlockFetch::Absent(std::uint32_t line) const {
  const memgest::MetadataLine& metadata = shard_->lines().line(line);
  return metadata.version != 0 && (metadata.flags & memgest::kAbsent) != 0;
}

template <class Visit>
void BlockFetch::ForEachBlock(std::uint32_t number, Visit visit) const {
  const memgest::MetadataLine& line = shard_->lines().line(number);
  const std::uint32_t cells =
      shard_->FindMemgest(MemgestId(line.memgest))->descriptor().block_size /
      static_cast<std::uint32_t>(kCacheLine);
  if ((line.flags & memgest::kLarge) == 0) return visit(line.offset_cells / cells);
  for (const memgest::Range& range : shard_->lines().Ranges(number)) {
    for (std::uint32_t at = 0; at < range.length_cells; at += cells)
      visit((range.offset_cells + at) / cells);
  }
}

std::vector<std::uint32_t> BlockFetch::LinesOf(MemgestId id, std::uint32_t block) const {
  std::vector<std::uint32_t> lines;
  const memgest::Memgest* const memgest = shard_->FindMemgest(id);
  if (memgest == nullptr) return lines;
  memgest->allocator().ForEachLine(block, [&](std::uint32_t line) {
    if (Absent(line)) lines.push_back(line);
  });
  const std::uint32_t large = LargeLine(id, block);
  if (large != memgest::kNoLine) lines.push_back(large);
  return lines;
}

std::uint32_t BlockFetch::LargeLine(MemgestId id, std::uint32_t block) const {
  const auto blocks = large_.find(id);
  if (blocks == large_.end() || block >= blocks->second.size()) return memgest::kNoLine;
  const std::uint32_t line = blocks->second[block];
  if (line == memgest::kNoLine || !Absent(line)) return memgest::kNoLine;
  // The line may be another version's by now.
  bool in_block = false;
  if (shard_->lines().line(line).memgest == id.value()) {
    ForEachBlock(line, [&](std::uint32_t one) { in_block |= one == block; });
  }
  return in_block ? line : memgest::kNoLine;
}

void BlockFetch::ForgetLarge(MemgestId id, std::uint32_t block) {
  const auto blocks = large_.find(id);
  if (blocks != large_.end() && block < blocks->second.size())
    blocks->second[block] = memgest::kNoLine;
}

std::vector<std::uint32_t> BlockFetch::BlocksOfValue(MemgestId id, std::uint32_t block) {
  std::vector<std::uint32_t> blocks;
  const std::uint32_t line = LargeLine(id, block);
  if (line != memgest::kNoLine)
    ForEachBlock(line, [&](std::uint32_t one) { blocks.push_back(one); });
  return blocks;
}

bool BlockFetch::ValueFits(MemgestId id, std::uint32_t block) {
  const std::uint32_t line = LargeLine(id, block);
  return line == memgest::kNoLine || shard_->ValueFits(line);
}

bool BlockFetch::CanBring(std::uint32_t line) const {
  const MemgestId memgest(shard_->lines().line(line).memgest);
  bool can = true;
  ForEachBlock(line, [&](std::uint32_t block) { can = can && recovery_.CanBring(memgest, block); });
  return can;
}

bool BlockFetch::MayCome(std::uint32_t line) const {
  const memgest::Memgest& memgest =
      *shard_->FindMemgest(MemgestId(shard_->lines().line(line).memgest));
  bool misses = false;
  ForEachBlock(line, [&](std::uint32_t block) {
    misses = misses || memgest.allocator().state(block) != memgest::BlockState::kPresent;
  });
  return misses && recovery_.HasSource(memgest.descriptor().id) && CanBring(line);
}

void BlockFetch::Want(std::uint32_t number) {
  const memgest::MetadataLine& line = shard_->lines().line(number);
  const MemgestId id(line.memgest);
  const memgest::SlotAllocator& allocator = shard_->FindMemgest(id)->allocator();
  bool here = true;
  bool gone = false;
  ForEachBlock(number, [&](std::uint32_t block) {
    if (allocator.state(block) == memgest::BlockState::kPresent) return;
    here = false;
    gone |= recovery_.gone(id, block);
  });
  if (here || gone) return shard_->OnValue(number, Version(line.version), here);
  ForEachBlock(number, [&](std::uint32_t block) {
    if (allocator.state(block) != memgest::BlockState::kPresent) recovery_.Want(id, block);
  });
}

void BlockFetch::Ask(std::uint64_t call, NodeId parity, const recovery::DecodeRequest& request) {
  control_->Call(
      parity, ControlType::kDecode, recovery::Encode(request), kDecodeTimeoutNs,
      [this, call, alive = std::weak_ptr<bool>(alive_)](const absl::StatusOr<std::string>& body) {
        if (alive.expired() || shard_->retired()) return;
        recovery_.OnBlock(call, body);
      });
}

void BlockFetch::OnPresent(MemgestId id, std::uint32_t block) {
  const memgest::SlotAllocator& allocator = shard_->FindMemgest(id)->allocator();
  for (const std::uint32_t line : LinesOf(id, block)) {
    bool here = true;
    ForEachBlock(line, [&](std::uint32_t one) {
      here = here && allocator.state(one) == memgest::BlockState::kPresent;
    });
    if (!here) continue;
    // Once for all blocks of a large one, which is absent still if it does not fit.
    for (const std::uint32_t one : BlocksOfValue(id, block)) ForgetLarge(id, one);
    shard_->OnValue(line, Version(shard_->lines().line(line).version), true);
  }
  ForgetLarge(id, block);
  shard_->OnPresent(id);
  on_value_();
}

void BlockFetch::OnGone(MemgestId id, std::uint32_t block) {
  for (const std::uint32_t line : LinesOf(id, block))
    shard_->OnValue(line, Version(shard_->lines().line(line).version), false);
  on_value_();
}

void BlockFetch::OnDelayed(MemgestId id, std::uint32_t block) {
  for (const std::uint32_t line : LinesOf(id, block)) shard_->OnDelay(line);
  on_value_();
}

}  // namespace ring::node
