#include "ring/node/recovery/recovery_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "memgest/log_tail.h"
#include "ring/base/status.h"
#include "ring/node/node.h"
#include "ring/recovery/value_batch.h"

namespace ring::node {

using recovery::FetchKind;

RecoverySource::RecoverySource(Node* node, std::size_t snapshot_piece_size)
    : node_(node), snapshot_piece_size_(snapshot_piece_size) {
  node->control().Handle(ControlType::kFetch, [this](NodeId, absl::string_view body,
                                                     ControlReply reply) { reply(Answer(body)); });
  node->control().Handle(
      ControlType::kFetchValues,
      [this](NodeId, absl::string_view body, ControlReply reply) { reply(Values(body)); });
}

void RecoverySource::Progress(std::uint64_t now_ns) {
  busy_ = std::any_of(prepared_.begin(), prepared_.end(), [now_ns](const auto& prepared) {
    return now_ns < prepared.second.asked_ns + kAwaitNs;
  });
  absl::erase_if(prepared_, [now_ns](const auto& prepared) {
    return now_ns - prepared.second.asked_ns >= kKeptNs && now_ns > prepared.second.asked_ns;
  });
}

absl::StatusOr<std::string> RecoverySource::Answer(absl::string_view body) {
  RING_ASSIGN_OR_RETURN(const recovery::FetchRequest request, recovery::DecodeFetchRequest(body));
  // Who asks may do so by what an earlier start of this node had.
  if (node_->view() == nullptr) return absl::UnavailableError("has no view yet: retry");
  if (request.kind == FetchKind::kValue) return Value(request, recovery::kValuePieceSize);
  RING_ASSIGN_OR_RETURN(MemberPort::HeldShard* const held, FindHeld(request));
  std::uint64_t id = request.id;
  if (id == 0) {
    ForgetEarlier(request);
    if (prepared_.size() >= kPreparedMax)
      return absl::ResourceExhaustedError("too many fetches are under way here: retry");
    id = ++last_id_;
    RING_ASSIGN_OR_RETURN(Prepared prepared, Prepare(request, *held, id));
    prepared_.emplace(id, std::move(prepared));
  }
  const auto found = prepared_.find(id);
  if (found == prepared_.end() || request.piece != found->second.given) {
    return absl::NotFoundError(
        absl::StrCat("fetch id=", id, " piece=", request.piece, " is not kept here any more"));
  }
  KeepAll(request);
  std::uint32_t count = 0;
  absl::StatusOr<std::string> answer = NextPiece(found->second, &count);
  if (answer.ok()) recovery::EndFetchAnswer(id, count, &*answer);
  if (!answer.ok() || request.piece + 1 == count) prepared_.erase(found);
  return answer;
}

absl::StatusOr<std::string> RecoverySource::NextPiece(Prepared& prepared, std::uint32_t* count) {
  ++prepared.given;
  if (prepared.snapshot == nullptr) {
    *count = static_cast<std::uint32_t>(prepared.tail.size());
    return std::exchange(prepared.tail[prepared.given - 1], {});
  }
  RING_ASSIGN_OR_RETURN(memgest::SnapshotPiece piece, prepared.snapshot->Next());
  *count = piece.last ? prepared.given : 0;
  return std::move(piece.bytes);
}

// Whoever fetches several things asks for all first pieces at once, and for further ones in order:
// what comes last waits for all of what comes before, however long that takes.
void RecoverySource::KeepAll(const recovery::FetchRequest& request) {
  const std::uint64_t now_ns = node_->control().now_ns();
  for (auto& [id, prepared] : prepared_) {
    const recovery::FetchRequest& other = prepared.request;
    if (other.group == request.group && other.shard == request.shard &&
        other.epoch == request.epoch)
      prepared.asked_ns = now_ns;
  }
}

void RecoverySource::ForgetEarlier(const recovery::FetchRequest& request) {
  absl::erase_if(prepared_, [&request](const auto& prepared) {
    const recovery::FetchRequest& earlier = prepared.second.request;
    return earlier.group == request.group && earlier.shard == request.shard &&
           earlier.kind == request.kind && earlier.memgests == request.memgests;
  });
}

absl::StatusOr<RecoverySource::Prepared> RecoverySource::Prepare(
    const recovery::FetchRequest& request, MemberPort::HeldShard& held, std::uint64_t id) const {
  memgest::MemberShard& store = *held.store;
  Prepared prepared;
  prepared.request = request;
  if (request.kind == FetchKind::kSnapshot) {
    prepared.snapshot = store.TakeSnapshot(id, request.memgests, snapshot_piece_size_);
    return prepared;
  }
  if (store.sealed() == nullptr) {
    return absl::FailedPreconditionError("no ring is sealed here: nothing is to be shipped");
  }
  memgest::TailEncoder encoder;
  RING_RETURN_IF_ERROR(store.sealed()->ReadTail(
      request.memgests.front(), request.index,
      [&encoder](const memgest::EntryView& entry) { encoder.Add(entry); }));
  prepared.tail = encoder.Take();
  return prepared;
}

absl::StatusOr<MemberPort::HeldShard*> RecoverySource::FindHeld(
    const recovery::FetchRequest& request) const {
  MemberPort::HeldShard* const held = node_->members().Find(request.group, request.shard);
  const auto nothing = [&] {
    return absl::StrCat("node ", node_->id().value(),
                        " has nothing of group=", request.group.value(),
                        " shard=", request.shard.value());
  };
  // Who asks knows a record that names this node; this one's view is another, or it coordinates the
  // shard and does not serve just now: that says nothing of what it has.
  if (held == nullptr) return absl::UnavailableError(absl::StrCat(nothing(), " now: retry"));
  if (held->failed) return absl::NotFoundError(nothing());
  if (held->store->promised() == request.epoch) return held;
  return absl::FailedPreconditionError(absl::StrCat("fetch in epoch=", request.epoch.value(),
                                                    " promised=", held->store->promised().value()));
}

absl::StatusOr<memgest::ValuePiece> RecoverySource::ReadValue(const recovery::FetchRequest& request,
                                                              std::size_t size) const {
  const std::uint64_t first = std::uint64_t{request.piece} * recovery::kValuePieceSize;
  CoordinatedShard* const shard = request.group.value() < node_->view()->groups.size()
                                      ? node_->FindShard(request.group, request.shard)
                                      : nullptr;
  if (shard != nullptr && shard->serving()) {
    return shard->coordinator()->ReadValue(request.line, request.version, first, size);
  }
  RING_ASSIGN_OR_RETURN(const MemberPort::HeldShard* const held, FindHeld(request));
  // E3: what it has not folded yet it does not lack.
  const std::uint64_t applied = held->store->applied(request.memgests.front());
  if (applied < request.index) {
    return absl::UnavailableError(
        absl::StrCat("folded index=", applied, " adopted=", request.index, ": retry"));
  }
  return held->store->ReadValue(request.line, request.version, first, size);
}

// Each by itself: one that is not here takes nothing from the others.
absl::StatusOr<std::string> RecoverySource::Values(absl::string_view body) const {
  RING_ASSIGN_OR_RETURN(const std::vector<recovery::FetchRequest> requests,
                        recovery::DecodeValueBatch(body));
  if (node_->view() == nullptr) return absl::UnavailableError("has no view yet: retry");
  std::string answers;
  for (const recovery::FetchRequest& request : requests) {
    recovery::AddBatchAnswer(Value(request, recovery::kBatchedSizeMax), &answers);
  }
  return answers;
}

// No more than the piece is read: this thread serves clients, too. Whether all of them together are
// the version's bytes, who asked for them finds out (S12).
absl::StatusOr<std::string> RecoverySource::Value(const recovery::FetchRequest& request,
                                                  std::size_t size) const {
  RING_ASSIGN_OR_RETURN(memgest::ValuePiece piece, ReadValue(request, size));
  if (size < recovery::kValuePieceSize && piece.value_length > size) {
    return absl::InvalidArgumentError(
        absl::StrCat("value_length=", piece.value_length, " in a batch, at most ", size));
  }
  const std::uint32_t count = recovery::ValuePieceCount(piece.value_length);
  if (request.piece >= count) {
    return absl::NotFoundError(absl::StrCat("value piece=", request.piece, " of ", count));
  }
  recovery::EndFetchAnswer(request.id, count, &piece.bytes);
  return std::move(piece.bytes);
}

}  // namespace ring::node
