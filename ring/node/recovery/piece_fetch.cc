#include "ring/node/recovery/piece_fetch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "memgest/log_tail.h"
#include "memgest/snapshot.h"
#include "ring/base/status.h"
#include "ring/node/recovery/takeover.h"

namespace ring::node {
namespace {
// Of more at once some have no room to ask for a while, and do so later.
static_assert(kTakeoversMax * PieceFetch::kWindow * memgest::kPieceSizeMax <=
              ControlLink::kOutgoingBytesMax);
// A fourth chunk for the last bytes of a piece would be a message for nothing.
constexpr std::size_t kAboutAPiece = 64;
static_assert(memgest::kPieceSizeMax + kAboutAPiece <= 3 * kControlChunkSize);
}  // namespace

PieceFetch::PieceFetch(Send send, std::vector<Thing> things, Take take, Refused refused, Done done)
    : send_(std::move(send)),
      take_(std::move(take)),
      refused_(std::move(refused)),
      done_(std::move(done)),
      alive_(std::make_shared<bool>(true)) {
  for (Thing& thing : things) {
    things_.emplace_back();
    things_.back().thing = std::move(thing);
  }
}

void PieceFetch::Start() {
  if (things_.empty()) return End(absl::OkStatus());
  Pump();
}

// What is taken first is asked for first.
void PieceFetch::Pump() {
  for (std::size_t i = next_; i < things_.size(); ++i) {
    Progress& one = things_[i];
    std::uint32_t known = one.began ? one.taken + kWindow : 1;
    if (one.count != 0) known = std::min(known, one.count);
    while (one.asked < known) {
      if (under_way_ >= window_) return;
      Ask(i, one.asked++);
    }
  }
}

void PieceFetch::Ask(std::size_t index, std::uint32_t piece) {
  const Thing& thing = things_[index].thing;
  recovery::FetchRequest request = thing.request;
  request.piece = piece;
  ++under_way_;
  send_(
      thing.source, request,
      [this, index, piece, alive = std::weak_ptr<bool>(alive_)](absl::StatusOr<std::string> bytes) {
        if (!alive.expired()) OnAnswer(index, piece, std::move(bytes));
      });
}

void PieceFetch::OnAnswer(std::size_t index, std::uint32_t piece,
                          absl::StatusOr<std::string> bytes) {
  --under_way_;
  if (over_) return;
  Progress& one = things_[index];
  if (!bytes.ok() && piece == 0) {
    const bool full = absl::IsResourceExhausted(bytes.status()) && under_way_ > 0;
    if (full) window_ = 1;
    if (full || refused_(index, bytes.status(), &one.thing.request)) {
      one.asked = 0;
      return Pump();
    }
  }
  absl::Status status = bytes.ok() ? Learn(one, piece, *bytes) : bytes.status();
  // There may be no such piece: its turn tells.
  const bool may_not_be =
      one.count == 0 ? one.began && absl::IsNotFound(status) : piece >= one.count;
  if (status.ok() || may_not_be) {
    one.here.insert_or_assign(piece, std::move(bytes));
    status = TakeAll();
  }
  if (!status.ok() || next_ == things_.size()) return End(status);
  Pump();
}

// What an answer says of the whole.
absl::Status PieceFetch::Learn(Progress& one, std::uint32_t piece, absl::string_view bytes) {
  RING_ASSIGN_OR_RETURN(const recovery::FetchAnswer answer, recovery::DecodeFetchAnswer(bytes));
  const std::uint32_t count = answer.piece_count != 0 ? answer.piece_count : one.count;
  const bool same = piece == 0 || answer.id == one.thing.request.id;
  const bool fits = count == 0 || (piece < count && (one.count == 0 || one.count == count));
  if (!same || !fits) {
    return absl::InvalidArgumentError(absl::StrCat(
        "fetch answer id=", answer.id, " piece=", piece, " pieces=", answer.piece_count,
        " of id=", one.thing.request.id, " pieces=", one.count));
  }
  one.began = true;
  one.thing.request.id = answer.id;
  one.count = count;
  return absl::OkStatus();
}

absl::Status PieceFetch::TakeAll() {
  while (next_ < things_.size()) {
    Progress& one = things_[next_];
    const auto found = one.here.find(one.taken);
    if (found == one.here.end()) break;
    RING_RETURN_IF_ERROR(found->second.status());
    RING_ASSIGN_OR_RETURN(const recovery::FetchAnswer answer,
                          recovery::DecodeFetchAnswer(*found->second));
    const bool last = one.taken + 1 == one.count;
    RING_RETURN_IF_ERROR(take_(next_, one.taken, answer.piece, last));
    one.here.erase(found);
    ++one.taken;
    if (last) ++next_;
  }
  return absl::OkStatus();
}

void PieceFetch::End(const absl::Status& status) {
  over_ = true;
  Done done = std::move(done_);
  done(status);
}

}  // namespace ring::node
