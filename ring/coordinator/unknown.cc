// Requests for a memgest that is not known here, or only as CREATING: they are decided by what was
// agreed upon when they came, not by how much of that this node has heard of (G11).
#include <algorithm>

#include "ring/base/mutant.h"
#include "ring/coordinator/catalogue_reader.h"
#include "ring/coordinator/shard.h"

namespace ring::coordinator {

using protocol::Outcome;

namespace {
constexpr std::size_t kUndecidedMax = 256;
}  // namespace

void ShardCoordinator::RefuseUnknown(const Request& request) {
  if (!KnowsCatalogue(request)) return;
  Decide(request, Outcome::kNoSuchMemgest);  // X5: a copy may come when there is such a memgest
}

void ShardCoordinator::RefuseWrite(const Request& request, const memgest::Memgest& memgest) {
  // What is made is usable when it is ACTIVE; this node may be the last to hear of that.
  const bool may_be_active = memgest.descriptor().state == protocol::MemgestState::kCreating;
  if (may_be_active && !KnowsCatalogue(request)) return;
  Refuse(request, Outcome::kMemgestNotWritable);
}

bool ShardCoordinator::KnowsCatalogue(const Request& request) {
  CatalogueReader* const catalogue = options_.catalogue;
  if (catalogue == nullptr || Mutant("G11-unknown")) return true;
  if (request.catalogue_read != 0) {
    const CatalogueReader::Result result = catalogue->Look(request.catalogue_read);
    if (result == CatalogueReader::Result::kApplied) return true;
    Refuse(request, Outcome::kUnavailable);
    return false;
  }
  for (const std::uint32_t handle : undecided_) {
    if (TakePlace(request, handle)) return false;
  }
  // Who asks for what is nowhere keeps nobody from waiting for a value.
  if (undecided_.size() >= kUndecidedMax || deferred_count_ >= kStalledMax) {
    Refuse(request, Outcome::kUnavailable);
    return false;
  }
  const std::uint32_t handle = CopyDeferred(request);
  deferred_[handle - 1].request.catalogue_read = catalogue->Ask();
  undecided_.push_back(handle);
  return false;
}

// Reads end in their order: behind the first that is under way all are.
void ShardCoordinator::ReleaseUndecided() {
  const auto first =
      std::find_if(undecided_.begin(), undecided_.end(), [this](std::uint32_t handle) {
        const std::uint64_t read = deferred_[handle - 1].request.catalogue_read;
        return options_.catalogue->Look(read) == CatalogueReader::Result::kUnderWay;
      });
  ready_.insert(ready_.end(), undecided_.begin(), first);
  undecided_.erase(undecided_.begin(), first);
}

}  // namespace ring::coordinator
