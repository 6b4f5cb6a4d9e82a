#include "ring/node/scrub/scrub_values.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/crc32c.h"
#include "ring/node/node.h"

namespace ring::node {
namespace {

using memgest::MetadataLine;
using protocol::MemgestState;

constexpr std::uint64_t kFoldWaitNs = 3'000'000'000;
constexpr std::uint64_t kAskTimeoutNs = 5'000'000'000;
constexpr int kAttemptsMax = 5;

// CRC-32C of a line's value in this heap.
bool ValueCrc(const memgest::LineTable& lines, std::uint32_t number, const memgest::HeapSpace& heap,
              std::uint32_t* crc) {
  const MetadataLine& line = lines.line(number);
  const memgest::Range whole = {line.offset_cells, (line.value_length + 63) / 64};
  const absl::Span<const memgest::Range> ranges =
      (line.flags & memgest::kLarge) != 0 ? lines.Ranges(number) : absl::MakeConstSpan(&whole, 1);
  std::uint32_t left = line.value_length;
  *crc = 0;
  for (const memgest::Range& range : ranges) {
    if (left == 0) break;
    if (!heap.Has(range.offset_cells, range.length_cells)) return false;
    const std::uint32_t size = std::min(left, range.length_cells * 64);
    *crc = Crc32c(heap.At(range.offset_cells), size, *crc);
    left -= size;
  }
  return left == 0;
}

bool IsServed(const protocol::MemgestDescriptor& descriptor) {
  return descriptor.state == MemgestState::kActive || descriptor.state == MemgestState::kDraining;
}

}  // namespace

ScrubComparer::ScrubComparer(Node* node) : node_(node) {
  node->control().Handle(
      ControlType::kScrubVersions, [this](NodeId from, absl::string_view body, ControlReply reply) {
        absl::StatusOr<ScrubVersions> versions = DecodeScrubVersions(body);
        if (!versions.ok()) return reply(versions.status());
        if (waiting_.size() >= kWaitingMax)
          return reply(absl::ResourceExhaustedError("too many comparisons wait: try again"));
        Waiting waiting;
        waiting.from = from;
        waiting.versions = *std::move(versions);
        waiting.deadline_ns = node_->control().now_ns() + kFoldWaitNs;
        waiting.reply = std::move(reply);
        if (!Step(waiting, node_->control().now_ns())) waiting_.push_back(std::move(waiting));
      });
}

bool ScrubComparer::Step(Waiting& waiting, std::uint64_t now_ns) {
  const ScrubVersions& versions = waiting.versions;
  MemberPort::HeldShard* const member =
      node_->members().Find(versions.place.group, versions.place.shard);
  if (member == nullptr || member->failed) {
    waiting.reply(member == nullptr ? absl::NotFoundError("is no member of the shard")
                                    : absl::DataLossError("cannot fold its log"));
    return true;
  }
  if (member->join == MemberPort::HeldShard::Join::kAwaitsSnapshot) {
    // How far its log goes comes before its lines do.
    waiting.reply(absl::UnavailableError("waits for its snapshot: try again"));
    return true;
  }
  memgest::MemberShard& store = *member->store;
  // What is here may come from another coordinator by now, who put and collected since: it is no
  // copy of what the one has who asks. Who got the role a moment ago is waited for.
  const bool follows = member->writer.node == waiting.from;
  if (!follows &&
      node_->view()->Coordinator(versions.place.group, versions.place.shard) != waiting.from) {
    waiting.reply(absl::UnavailableError(
        absl::StrCat("node ", waiting.from.value(), " does not coordinate the shard")));
    return true;
  }
  if (!follows || store.applied(versions.place.memgest) < versions.index) {
    if (now_ns < waiting.deadline_ns) return false;
    waiting.reply(absl::DeadlineExceededError(
        absl::StrCat("did not fold index=", versions.index,
                     " applied=", store.applied(versions.place.memgest))));
    return true;
  }
  const memgest::HeapSpace* const heap = store.replica_heap(versions.place.memgest);
  ScrubFindings findings;
  for (std::size_t i = 0; i < versions.items.size(); ++i) {
    const ScrubItem& item = versions.items[i];
    const auto number = static_cast<std::uint16_t>(i);
    if (!store.lines().Has(item.line) || store.lines().line(item.line).version != item.version) {
      findings.findings.push_back({number, ScrubFinding::kMissing});
      continue;
    }
    const MetadataLine& line = store.lines().line(item.line);
    if (line.memgest != versions.place.memgest.value() || line.value_crc != item.value_crc ||
        line.value_length != item.value_length) {
      findings.findings.push_back({number, ScrubFinding::kOtherMetadata});
      continue;
    }
    if (heap == nullptr || item.value_length == 0) continue;
    if ((line.flags & memgest::kAbsent) != 0)
      continue;  // a copy that is still to come is no wrong one
    std::uint32_t crc = 0;
    if (!ValueCrc(store.lines(), item.line, *heap, &crc) || crc != item.value_crc)
      findings.findings.push_back({number, ScrubFinding::kOtherBytes});
  }
  waiting.reply(EncodeScrub(findings));
  return true;
}

void ScrubComparer::Progress(std::uint64_t now_ns) {
  for (std::size_t i = 0; i < waiting_.size();) {
    if (!Step(waiting_[i], now_ns)) {
      ++i;
      continue;
    }
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

ScrubValueWalk::ScrubValueWalk(Node* node, GroupId group, ShardId shard, ScrubTally* tally)
    : node_(node), group_(group), shard_(shard), tally_(tally), left_(std::make_shared<int>(0)) {}

ScrubValueWalk::~ScrubValueWalk() { *left_ = -1; }

coordinator::ShardCoordinator* ScrubValueWalk::Shard() const {
  CoordinatedShard* const shard = node_->FindShard(group_, shard_);
  return shard != nullptr && shard->serving() ? shard->coordinator() : nullptr;
}

void ScrubValueWalk::Step() {
  if (done_ || waiting()) return;
  coordinator::ShardCoordinator* const shard = Shard();
  if (shard == nullptr) {
    tally_->failure = absl::UnavailableError("a shard is not served");
    done_ = true;
    return;
  }
  const std::uint32_t end = shard->lines().granule_count() * memgest::kLinesPerGranule;
  std::uint64_t bytes = 0;
  for (std::uint32_t looked = 0; looked < kStepLines && bytes < kStepBytes; ++looked) {
    if (line_ >= end) {
      done_ = true;
      break;
    }
    if (!shard->lines().Has(line_)) {
      line_ += memgest::kLinesPerGranule - line_ % memgest::kLinesPerGranule;
      continue;
    }
    if (!Look(*shard, line_, &bytes)) return SendBatch(*shard);
    ++line_;
    if (batch_.items.size() == kScrubItemsMax) return SendBatch(*shard);
  }
  // What was looked at is sent while it is fresh: its entries are in the log's past.
  if (!batch_.items.empty()) SendBatch(*shard);
}

bool ScrubValueWalk::Look(coordinator::ShardCoordinator& shard, std::uint32_t number,
                          std::uint64_t* bytes) {
  const MetadataLine& line = shard.lines().line(number);
  constexpr unsigned kState = memgest::kLive | memgest::kCommitted | memgest::kCollecting;
  if (line.version == 0 || (line.flags & kState) != (memgest::kLive | memgest::kCommitted))
    return true;
  memgest::Memgest* const memgest = shard.FindMemgest(MemgestId(line.memgest));
  if (memgest == nullptr || !IsServed(memgest->descriptor())) return true;
  const recovery::LogName place = {group_, shard_, memgest->descriptor().id};
  if (!batch_.items.empty() && !(batch_.place == place)) return false;
  batch_.place = place;
  const std::uint32_t length = (line.flags & memgest::kTombstone) != 0 ? 0 : line.value_length;
  if (length > 0 && (line.flags & memgest::kAbsent) == 0) {
    std::uint32_t crc = 0;
    ++tally_->report.values_checked;
    ++tally_->progress.checked;
    *bytes += length;
    if (!ValueCrc(shard.lines(), number, memgest->heap(), &crc) || crc != line.value_crc) {
      tally_->AddMismatch(
          absl::StrCat("value memgest=", memgest->descriptor().name, " group=", group_.value(),
                       " shard=", shard_.value(), " node=", node_->id().value(), " line=", number,
                       " version=", line.version, ": its bytes do not have its checksum"));
    }
  }
  batch_.items.push_back({number, line.version, line.value_crc, length});
  return true;
}

void ScrubValueWalk::SendBatch(coordinator::ShardCoordinator& shard) {
  memgest::Memgest& memgest = *shard.FindMemgest(batch_.place.memgest);
  batch_.index = memgest.next_index() - 1;
  const cluster::View& view = *node_->view();
  const std::vector<NodeId>& roles = view.groups[group_.value()].roles;
  const std::vector<Role> members = memgest.descriptor().MemberRoles(shard_, view.s, view.d);
  if (members.empty()) {
    batch_.items.clear();
    return;
  }
  *left_ += static_cast<int>(members.size());
  for (const Role role : members) Ask(roles[role.value()], 1);  // a vacant one is unavailable
}

void ScrubValueWalk::Ask(NodeId member, int attempt) {
  node_->control().Call(
      member, ControlType::kScrubVersions, EncodeScrub(batch_), kAskTimeoutNs,
      [this, left = left_, member, attempt](const absl::StatusOr<std::string>& answer) {
        if (*left >= 0) OnAnswer(member, attempt, answer);
      });
}

void ScrubValueWalk::OnAnswer(NodeId member, int attempt,
                              const absl::StatusOr<std::string>& answer) {
  const absl::StatusOr<ScrubFindings> findings =
      answer.ok() ? DecodeScrubFindings(*answer) : answer.status();
  const bool again = findings.status().code() == absl::StatusCode::kDeadlineExceeded ||
                     findings.status().code() == absl::StatusCode::kResourceExhausted;
  if (again && attempt < kAttemptsMax) return Ask(member, attempt + 1);
  if (findings.ok()) {
    for (const ScrubFindings::One& one : findings->findings) OnFinding(member, one);
    coordinator::ShardCoordinator* const shard = Shard();
    memgest::Memgest* const memgest =
        shard == nullptr ? nullptr : shard->FindMemgest(batch_.place.memgest);
    if (memgest != nullptr && !memgest->coded()) {
      for (const ScrubItem& item : batch_.items)
        tally_->report.replicas_checked += item.value_length > 0 ? 1 : 0;
    }
  } else if (findings.status().code() == absl::StatusCode::kDataLoss) {
    tally_->AddMismatch(absl::StrCat("member memgest=", batch_.place.memgest.value(),
                                     " group=", group_.value(), " shard=", shard_.value(),
                                     " node=", member.value(), ": ", findings.status().message()));
  } else {
    tally_->failure.Update(absl::UnavailableError(
        absl::StrCat("node ", member.value(), ": ", findings.status().message())));
  }
  if (--*left_ == 0) batch_.items.clear();
}

void ScrubValueWalk::OnFinding(NodeId member, const ScrubFindings::One& one) {
  coordinator::ShardCoordinator* const shard = Shard();
  if (shard == nullptr || one.item >= batch_.items.size()) return;
  const ScrubItem& item = batch_.items[one.item];
  const MetadataLine& line = shard->lines().line(item.line);
  memgest::Memgest* const memgest = shard->FindMemgest(batch_.place.memgest);
  // Collected meanwhile: the member was right.
  const bool gone = line.version != item.version || (line.flags & memgest::kCollecting) != 0;
  if (memgest == nullptr || !IsServed(memgest->descriptor()) || gone) return;
  const absl::string_view what = one.finding == ScrubFinding::kMissing ? "is missing"
                                 : one.finding == ScrubFinding::kOtherMetadata
                                     ? "has other metadata"
                                     : "has other bytes";
  tally_->AddMismatch(absl::StrCat(
      memgest->coded() ? "metadata" : "replica", " memgest=", memgest->descriptor().name,
      " group=", group_.value(), " shard=", shard_.value(), " node=", member.value(),
      " line=", item.line, " version=", item.version, ": ", what));
}

}  // namespace ring::node
