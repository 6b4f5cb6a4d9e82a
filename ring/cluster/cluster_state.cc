#include "ring/cluster/cluster_state.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"
#include "ring/base/wire.h"

namespace ring::cluster {
namespace {

constexpr std::uint16_t kSnapshotVersion = 2;

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("cluster snapshot: ", what));
}

void PutPart(ByteWriter& out, absl::string_view part) {
  out.Put(static_cast<std::uint32_t>(part.size()));
  out.bytes().append(part.data(), part.size());
}

absl::StatusOr<absl::string_view> ReadPart(ByteReader& in) {
  const std::size_t size = in.Get<std::uint32_t>();
  if (!in.ok() || in.rest()->size() < size) return Bad("cut short");
  const absl::string_view part = in.rest()->substr(0, size);
  in.rest()->remove_prefix(size);
  return part;
}

absl::StatusOr<PastIncarnations> ReadPast(ByteReader& in, const View& view) {
  PastIncarnations past;
  const auto count = in.Get<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    const NodeId node(in.Get<std::uint32_t>());
    const std::size_t starts = in.Get<std::uint8_t>();
    const bool ascends = past.empty() || past.rbegin()->first < node;
    if (node.value() >= view.nodes.size() || !ascends || starts == 0 || starts > kPastMax) {
      return Bad(absl::StrCat("past of node=", node.value(), " start_count=", starts));
    }
    std::vector<Incarnation>& list = past[node];
    for (std::size_t k = 0; k < starts; ++k) list.push_back(Incarnation(in.Get<std::uint64_t>()));
  }
  if (!in.ok()) return Bad("cut short");
  return past;
}

}  // namespace

ClusterState::ClusterState(View initial)
    : view_(std::make_shared<const View>(std::move(initial))), catalogue_(*view_) {}

ClusterState ClusterState::Unfounded(View own) {
  ClusterState state(std::move(own));
  state.founded_ = Mutant("I2-founded");
  return state;
}

ClusterState::ClusterState(View view, Catalogue catalogue, PastIncarnations past, bool founded)
    : view_(std::make_shared<const View>(std::move(view))),
      catalogue_(std::move(catalogue)),
      past_(std::move(past)),
      founded_(founded) {}

ClusterResult ClusterState::Apply(absl::string_view bytes) {
  const absl::StatusOr<ClusterCommand> command = DecodeClusterCommand(bytes);
  if (command.ok()) return Apply(*command);
  ClusterResult refused;
  refused.status = command.status();
  return refused;
}

ClusterResult ClusterState::Apply(const ClusterCommand& command) {
  Draft draft{*view_, past_, {}};
  const bool founds = std::holds_alternative<Found>(command);
  if (!founded_ && !founds) {
    draft.result.status = absl::UnavailableError("the cluster is being founded: try again");
    return std::move(draft.result);
  }
  draft.result.status = std::visit([&](const auto& one) { return Execute(one, &draft); }, command);
  if (!draft.result.status.ok()) return std::move(draft.result);
  // Whoever's file says the same has a new view like the others.
  const bool changed = founds || draft.view != *view_;
  if (changed) {
    ++draft.view.epoch;
    // L10 and all else that no view may be. The catalogue refuses by itself, before it changes.
    if (absl::Status status = draft.view.Validate(); !status.ok()) {
      RING_CHECK(!std::holds_alternative<CatalogueCommand>(command)) << status;
      draft.result.status = std::move(status);
      return std::move(draft.result);
    }
    view_ = std::make_shared<const View>(std::move(draft.view));
  }
  past_ = std::move(draft.past);
  draft.result.changed = changed;
  return std::move(draft.result);
}

// E8: of what a memgest is for, one that is used in no epoch before the next Normal names it has
// lost nothing. So it is not to be used while a shard is between two: its last record would not say
// whether it was. G10: nor is one to be deleted then: who takes a shard over adopts what the
// members hold, and these drop a deleted memgest each in its own time.
absl::Status ClusterState::CheckCalm(const View& view) {
  for (std::size_t g = 0; g < view.groups.size(); ++g) {
    const GroupView& group = view.groups[g];
    for (std::size_t i = 0; i < group.shards.size(); ++i) {
      const Epoch normal = group.shards[i].normal.epoch;
      if (normal == Epoch() || normal == group.epoch) continue;
      return absl::UnavailableError(
          absl::StrCat("group=", g, " shard=", i,
                       " changes its epoch: a memgest comes and goes when "
                       "all shards serve"));
    }
  }
  return absl::OkStatus();
}

absl::Status ClusterState::Execute(const CatalogueCommand& command, Draft* draft) {
  const bool activates = command.action == CatalogueAction::kSetState &&
                         command.from == protocol::MemgestState::kCreating &&
                         command.to == protocol::MemgestState::kActive;
  const bool deletes = command.action == CatalogueAction::kSetState &&
                       command.to == protocol::MemgestState::kDeleted && !Mutant("G10-calm");
  if (activates || deletes) RING_RETURN_IF_ERROR(CheckCalm(draft->view));
  const CommandResult result = catalogue_.Apply(command);
  draft->result.memgest = result.memgest;
  draft->result.duplicate = result.duplicate;
  draft->view.memgests = catalogue_.memgests();
  draft->view.default_memgest = catalogue_.default_memgest();
  draft->view.weak_past = catalogue_.weak_past();
  return result.status;
}

absl::Status ClusterState::Execute(const Found& command, Draft* draft) {
  if (founded_) return absl::FailedPreconditionError("the cluster was founded before");
  RING_RETURN_IF_ERROR(command.view.Validate());
  if (command.view.cluster != view_->cluster || command.view.s != view_->s ||
      command.view.d != view_->d) {
    return absl::FailedPreconditionError("it is another cluster: check name, s and d");
  }
  draft->view = command.view;
  catalogue_ = Catalogue(command.view);
  founded_ = true;
  return absl::OkStatus();
}

std::string ClusterState::Snapshot() const {
  ByteWriter out;
  out.Put(kSnapshotVersion);
  out.Put(std::uint8_t{founded_});
  PutPart(out, EncodeView(*view_));
  PutPart(out, EncodeCatalogue(catalogue_));
  out.Put(static_cast<std::uint32_t>(past_.size()));
  for (const auto& [node, starts] : past_) {
    out.Put(node.value());
    out.Put(static_cast<std::uint8_t>(starts.size()));
    for (const Incarnation start : starts) out.Put(start.value());
  }
  return out.Take();
}

absl::StatusOr<ClusterState> ClusterState::FromSnapshot(absl::string_view bytes) {
  ByteReader in(bytes);
  const auto version = in.Get<std::uint16_t>();
  if (in.ok() && version != kSnapshotVersion) {
    return Bad(absl::StrCat("version=", version, " is not known: upgrade this node"));
  }
  const auto founded = in.Get<std::uint8_t>();
  if (founded > 1) return Bad(absl::StrCat("founded=", founded));
  RING_ASSIGN_OR_RETURN(const absl::string_view view_part, ReadPart(in));
  RING_ASSIGN_OR_RETURN(View view, DecodeView(view_part));
  RING_ASSIGN_OR_RETURN(const absl::string_view catalogue_part, ReadPart(in));
  RING_ASSIGN_OR_RETURN(Catalogue catalogue, DecodeCatalogue(view.s, view.d, catalogue_part));
  if (catalogue.memgests() != view.memgests ||
      catalogue.default_memgest() != view.default_memgest ||
      catalogue.weak_past() != view.weak_past) {
    return Bad("view and catalogue have other memgests");
  }
  RING_ASSIGN_OR_RETURN(PastIncarnations past, ReadPast(in, view));
  if (!in.rest()->empty()) return Bad(absl::StrCat("trailing_bytes=", in.rest()->size()));
  return ClusterState(std::move(view), std::move(catalogue), std::move(past), founded != 0);
}

}  // namespace ring::cluster
