// A member in an epoch change: Seal, Adopt, Reset (steps 2, 6 and 7).
#include <utility>

#include "absl/strings/str_cat.h"
#include "memgest/member_shard.h"
#include "ring/base/check.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"

namespace ring::memgest {
namespace {

// Of one step of folding what was sealed, when nobody asked for a budget.
constexpr int kSealedFoldBudget = 1024;

}  // namespace

// Indexes of a ring may begin at or below what was folded from an older one.
void MemberShard::StartRing() {
  for (auto& [id, state] : states_) state->ring_index = 0;
}

void MemberShard::Attach(std::unique_ptr<LogReader> reader) {
  RING_CHECK(promised_ == Epoch() || reader->epoch() == promised_)
      << "epoch=" << reader->epoch().value() << " promised=" << promised_.value();
  reader_ = std::move(reader);
  if (sealed_ == nullptr) StartRing();
}

absl::StatusOr<int> MemberShard::FoldSealed(int budget) {
  RING_ASSIGN_OR_RETURN(const int folded, FoldFrom(sealed_->reader(), budget));
  if (sealed_->reader().drained()) {
    sealed_ = nullptr;
    StartRing();
  }
  return folded;
}

absl::StatusOr<std::vector<SealedLog>> MemberShard::Seal(Epoch next, Epoch last_normal) {
  if (!failure_.ok()) return failure_;
  if (next < promised_ || (next == promised_ && !held_)) {
    return absl::FailedPreconditionError(
        absl::StrCat("seal for epoch=", next.value(), ", promised=", promised_.value()));
  }
  if (installing_) return NotOfEpoch(last_normal);  // a joiner, and half of it
  if (!held_) {
    // The present ring's epoch is Normal, and so is what was sealed before it.
    while (sealed_ != nullptr) RING_RETURN_IF_ERROR(FoldSealed(kSealedFoldBudget).status());
    RING_RETURN_IF_ERROR(SealPresent(last_normal));
    held_ = true;
  } else if (reader_ != nullptr && reader_->epoch() == last_normal) {
    return absl::FailedPreconditionError(
        absl::StrCat("epoch=", last_normal.value(), " became Normal: it is adopted here first"));
  } else if ((sealed_ == nullptr ? Epoch() : sealed_->epoch()) != last_normal) {
    return NotOfEpoch(last_normal);
  }
  if (next > promised_) reader_ = nullptr;  // of an epoch that was abandoned: unread
  if (held_ && next > promised_ && promised_ != last_normal && Mutant("E7")) sealed_ = nullptr;
  promised_ = next;
  return sealed_ == nullptr ? std::vector<SealedLog>() : sealed_->logs();
}

absl::Status MemberShard::NotOfEpoch(Epoch last_normal) const {
  return absl::AbortedError(absl::StrCat("group=", group_.value(), " shard=", shard_.value(),
                                         ": no ring of epoch=", last_normal.value(), " is here"));
}

absl::Status MemberShard::SealPresent(Epoch last_normal) {
  std::vector<SealedLog> logs;
  for (const auto& [id, state] : states_) {
    logs.push_back({id, state->applied, state->ring_index});
    if (last_normal != Epoch() || state->applied == 0) continue;
    failure_ = absl::DataLossError(absl::StrCat("memgest=", id.value(), " applied=", state->applied,
                                                " before any epoch was Normal"));
    return failure_;
  }
  if (last_normal == Epoch()) return absl::OkStatus();  // nothing was ever committed
  const bool other =
      reader_ == nullptr || (reader_->epoch() != last_normal && !Mutant("step2-ring"));
  if (other) return NotOfEpoch(last_normal);
  absl::StatusOr<std::unique_ptr<SealedRing>> sealed =
      SealedRing::Create(std::move(reader_), std::move(logs));
  if (!sealed.ok()) {
    failure_ = sealed.status();
    return failure_;
  }
  sealed_ = *std::move(sealed);
  return absl::OkStatus();
}

absl::Status MemberShard::Adopt(Epoch epoch) {
  if (!failure_.ok()) return failure_;
  if (epoch != promised_) {
    return absl::FailedPreconditionError(
        absl::StrCat("epoch=", epoch.value(), " is Normal, promised=", promised_.value()));
  }
  if (!held_) return absl::OkStatus();
  if (sealed_ != nullptr && !Mutant("E1")) sealed_->reader().CommitTail();
  held_ = false;
  return absl::OkStatus();
}

bool MemberShard::CommitThrough(Epoch ring, MemgestId memgest, std::uint64_t index) {
  const bool folds = failure_.ok() && !held_ && !installing_ && sealed_ == nullptr;
  if (!folds || reader_ == nullptr || reader_->epoch() != ring) return false;
  return reader_->CommitThrough(memgest, index);
}

void MemberShard::Reset(Epoch promised) {
  RING_CHECK(promised >= promised_ && promised != Epoch())
      << "promised=" << promised.value() << " before=" << promised_.value();
  snapshots_.AbandonAll();
  reader_ = nullptr;
  sealed_ = nullptr;
  if (!Mutant("step7")) {
    lines_.DropAll();
    completions_.DropAll();
    states_.clear();
  }
  last_state_ = nullptr;
  released_.clear();
  last_client_ = nullptr;
  failure_ = absl::OkStatus();
  absent_count_ = 0;
  installing_ = false;
  install_crcs_.clear();
  promised_ = promised;
  held_ = true;
}

}  // namespace ring::memgest
