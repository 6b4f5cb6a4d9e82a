#include "ring/node/scrub/scrub_rows.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"
#include "ring/node/node.h"
#include "ring/recovery/row_decode.h"

namespace ring::node {
namespace {

using protocol::MemgestState;

constexpr std::uint64_t kPauseNs = 20'000'000;

}  // namespace

ScrubRowWalk::ScrubRowWalk(Node* node, ScrubTally* tally)
    : node_(node), tally_(tally), cut_(node), scratch_(kSliceSize) {
  for (int g = 0; g < node->view()->group_count(); ++g) {
    for (const protocol::MemgestDescriptor& memgest : node->view()->memgests) {
      const GroupId group(static_cast<std::uint16_t>(g));
      const memgest::ParityStore* const store = node->members().FindParity(group, memgest.id);
      if (store == nullptr || memgest.state == MemgestState::kCreating) continue;
      parities_.push_back({group, memgest.id, std::max(1u, store->extent_count())});
      tally->progress.total +=
          std::uint64_t{parities_.back().extent_count} * store->layout().row_count();
    }
  }
}

std::string ScrubRowWalk::Name() const {
  const Parity& parity = parities_[parity_];
  const protocol::MemgestDescriptor* const memgest = node_->view()->FindMemgest(parity.memgest);
  return absl::StrCat("parity memgest=", memgest == nullptr ? "?" : memgest->name,
                      " group=", parity.group.value(), " node=", node_->id().value(),
                      " extent=", extent_, " row=", row_);
}

memgest::ParityStore* ScrubRowWalk::Find() const {
  const Parity& parity = parities_[parity_];
  return node_->members().FindParity(parity.group, parity.memgest);
}

void ScrubRowWalk::Step(std::uint64_t now_ns) {
  switch (stage_) {
    case Stage::kNext:
      return Next(now_ns);
    case Stage::kFreezing:
      if (!cut_.waiting()) OnFrozen(now_ns);
      return;
    case Stage::kFold:
      return OnFold(now_ns);
    case Stage::kCompare:
      return CompareSlice(now_ns);
    case Stage::kPause:
      if (now_ns >= pause_until_ns_) stage_ = Stage::kNext;
      return;
    case Stage::kDone:
      return;
  }
}

void ScrubRowWalk::Next(std::uint64_t now_ns) {
  if (parity_ >= parities_.size()) {
    stage_ = Stage::kDone;
    return;
  }
  const memgest::ParityStore* const store = Find();
  if (store == nullptr || extent_ >= parities_[parity_].extent_count) {
    ++parity_;
    extent_ = row_ = 0;
    attempts_ = 0;
    return;
  }
  if (!Covers(*store)) return EndRow(false);
  const absl::Status begun = Begin(now_ns);
  if (begun.ok()) return;
  tally_->failure.Update(begun);
  stage_ = Stage::kDone;
}

absl::Status ScrubRowWalk::Begin(std::uint64_t now_ns) {
  const srs::Layout& layout = Find()->layout();
  const Parity& parity = parities_[parity_];
  RING_RETURN_IF_ERROR(cut_.Begin({parity.group, parity.memgest, extent_, row_}, layout,
                                  (1u << layout.parameters().k) - 1, now_ns));
  ++attempts_;
  stage_ = Stage::kFreezing;
  return absl::OkStatus();
}

void ScrubRowWalk::OnFrozen(std::uint64_t now_ns) {
  const memgest::ParityStore* const store = Find();
  if (store == nullptr) return EndRow(false);  // deleted meanwhile
  cut_.Close();
  frozen_.clear();
  std::uint32_t block_count = 0;
  for (std::uint32_t column = 0; column < store->layout().parameters().k; ++column) {
    const absl::StatusOr<recovery::FreezeAnswer> frozen = cut_.answer(column);
    if (frozen.status().code() == absl::StatusCode::kNotFound) return EndRow(false);
    if (!frozen.ok()) return Retry(frozen.status(), now_ns);
    if (frozen->block_count > memgest::ParityStore::kSpaceSize / store->block_size())
      return Retry(absl::InvalidArgumentError(absl::StrCat("block_count=", frozen->block_count)),
                   now_ns);
    if (frozen->bytes == recovery::FrozenBytes::kLost) return EndRow(false);
    frozen_.push_back(*frozen);
    block_count = std::max(block_count, frozen->block_count);
  }
  // Heaps may have grown past what this parity folded when the walk began, or past what it ever
  // folded.
  const std::uint32_t per_extent = store->layout().blocks_per_shard();
  Parity& parity = parities_[parity_];
  parity.extent_count = std::max(parity.extent_count, (block_count + per_extent - 1) / per_extent);
  stage_ = Stage::kFold;
  OnFold(now_ns);
}

// S6: not while it is rebuilt. That may begin at any time, and the first piece of a block brings
// its last touch. Nor what a shard does not count on any more: it folds none of that shard's
// entries until it has joined again. Without fail-over records name no starts of nodes (L8).
bool ScrubRowWalk::Covers(const memgest::ParityStore& store) const {
  const Parity& parity = parities_[parity_];
  const cluster::View& view = *node_->view();
  const protocol::MemgestDescriptor* const memgest = view.FindMemgest(parity.memgest);
  if (memgest == nullptr || !store.CoversRow(extent_, row_)) return false;
  if (!view.fail_over) return true;
  const std::uint32_t complete = recovery::CompleteParities(
      view, {parity.group, parity.memgest, extent_, row_}, *memgest, store.layout());
  return (complete >> store.parity_index() & 1) != 0 || Mutant("S6-scrub");
}

bool ScrubRowWalk::Folded(const memgest::ParityStore& store) const {
  const memgest::ParityStore::Row row = store.ReadRow(extent_, row_);
  for (std::size_t column = 0; column < frozen_.size(); ++column) {
    if (row.last_touch[column] != frozen_[column].last_touch && !Mutant("S2")) return false;
  }
  return true;
}

void ScrubRowWalk::OnFold(std::uint64_t now_ns) {
  const memgest::ParityStore* const store = Find();
  if (store == nullptr || !Covers(*store)) return EndRow(false);
  if (Folded(*store)) {
    compared_ = 0;
    stage_ = Stage::kCompare;
    return;
  }
  if (now_ns - cut_.started_ns() > kCutNs) Retry(absl::DataLossError("its folds differ"), now_ns);
}

bool ScrubRowWalk::EqualsEncode(const memgest::ParityStore& store, std::size_t begin,
                                std::size_t size) {
  const std::byte* const bytes = store.ReadRow(extent_, row_).bytes;  // null: nothing was folded
  const bool blank = std::all_of(frozen_.begin(), frozen_.end(), [](const auto& frozen) {
    return frozen.bytes == recovery::FrozenBytes::kZero;
  });
  if (blank && bytes == nullptr) return true;
  std::fill_n(scratch_.begin(), size, std::byte{0});
  for (std::uint32_t column = 0; column < frozen_.size(); ++column) {
    if (frozen_[column].bytes == recovery::FrozenBytes::kZero) continue;
    store.codec().AddContribution(scratch_.data(), static_cast<std::uint32_t>(store.parity_index()),
                                  cut_.bytes(column) + begin, column, size);
  }
  if (bytes != nullptr) return std::memcmp(scratch_.data(), bytes + begin, size) == 0;
  return std::all_of(scratch_.begin(), scratch_.begin() + static_cast<std::ptrdiff_t>(size),
                     [](std::byte byte) { return byte == std::byte{0}; });
}

void ScrubRowWalk::CompareSlice(std::uint64_t now_ns) {
  const memgest::ParityStore* const store = Find();
  if (store == nullptr || !Covers(*store)) return EndRow(false);
  // Past the cut's time a block may have thawed: what was compared so far proves nothing.
  if (now_ns - cut_.started_ns() > kCutNs || !Folded(*store))
    return Retry(absl::AbortedError("the cut was lost"), now_ns);
  const std::size_t block_size = store->block_size();
  const std::size_t size = std::min(kSliceSize, block_size - compared_);
  if (!EqualsEncode(*store, compared_, size)) {
    tally_->AddMismatch(absl::StrCat(Name(), ": differs from the encode of its blocks between ",
                                     compared_, " and ", compared_ + size));
    return EndRow(true);
  }
  compared_ += size;
  if (compared_ == block_size) EndRow(true);
}

void ScrubRowWalk::EndRow(bool checked) {
  cut_.Thaw();
  stage_ = Stage::kNext;
  attempts_ = 0;
  if (checked) ++tally_->report.rows_checked;
  ++tally_->progress.checked;
  const memgest::ParityStore* const store = Find();
  if (store != nullptr && ++row_ < store->layout().row_count()) return;
  row_ = 0;
  ++extent_;
}

void ScrubRowWalk::Retry(absl::Status why, std::uint64_t now_ns) {
  if (attempts_ >= kAttemptsMax) {
    if (why.code() != absl::StatusCode::kDataLoss) {
      tally_->failure.Update(absl::UnavailableError(absl::StrCat(Name(), ": ", why.message())));
      cut_.Thaw();
      stage_ = Stage::kDone;
      return;
    }
    tally_->AddMismatch(absl::StrCat(Name(), ": ", why.message(), " from the coordinators'"));
    return EndRow(true);
  }
  cut_.Thaw();
  stage_ = Stage::kPause;
  pause_until_ns_ = now_ns + kPauseNs;
}

}  // namespace ring::node
