#include "ring/node/recovery/row_cut.h"

#include <utility>

#include "ring/base/check.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"
#include "ring/base/wire.h"
#include "ring/node/node.h"

namespace ring::node {
namespace {
constexpr std::uint64_t kFreezeTimeoutNs = 3'000'000'000;
}  // namespace

RowCut::RowCut(Node* node) : node_(node) {}

RowCut::~RowCut() {
  Abandon();
  if (memory_ != nullptr) node_->device().Free(memory_, size_, rdma::MemoryKind::kShared);
}

// L5: who was asked and has not given the block may be writing it yet, or begin to.
std::vector<NodeId> RowCut::Writers() const {
  std::vector<NodeId> writers;
  if (attempt_ == nullptr || attempt_->region == nullptr) return writers;
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    if (!attempt_->answers[columns_[i]].ok()) writers.push_back(asked_[i]);
  }
  return writers;
}

void RowCut::Abandon() {
  Thaw();
  const std::vector<NodeId> writers = Writers();
  const std::shared_ptr<Attempt> attempt = std::exchange(attempt_, nullptr);
  if (writers.empty() || Mutant("L5-cut")) return;
  HeldMemory::Piece piece;
  piece.memory = std::exchange(memory_, nullptr);
  piece.size = std::exchange(size_, 0);
  piece.region = std::move(attempt->region);
  piece.token = token_;
  node_->held_memory().Add(std::move(piece), writers);
}

absl::Status RowCut::MakeRoom(std::size_t size) {
  if (size_ >= size) return absl::OkStatus();
  RING_ASSIGN_OR_RETURN(std::byte* const memory,
                        node_->device().Allocate(size, rdma::MemoryKind::kShared));
  if (memory_ != nullptr) node_->device().Free(memory_, size_, rdma::MemoryKind::kShared);
  memory_ = memory;
  size_ = size;
  return absl::OkStatus();
}

absl::Status RowCut::Begin(const recovery::RowName& place, const srs::Layout& layout,
                           std::uint32_t columns, bool held, std::uint64_t now_ns) {
  Abandon();
  block_size_ = layout.block_size();
  const std::uint32_t k = layout.parameters().k;
  auto attempt = std::make_shared<Attempt>();
  if (!held) {
    RING_RETURN_IF_ERROR(MakeRoom(k * block_size_));
    // A key of its own: a WRITE of an earlier attempt cannot land in this one (L5).
    RING_ASSIGN_OR_RETURN(attempt->region,
                          node_->device().Register(memory_, k * block_size_, rdma::kRemoteWrite));
  }
  attempt_ = attempt;
  attempt->answers.assign(k, absl::UnknownError("was not asked for"));
  started_ns_ = now_ns;
  token_ = node_->TakeToken();
  frozen_ = true;
  asked_.clear();
  columns_.clear();
  const cluster::View& view = *node_->view();
  for (std::uint32_t column = 0; column < k; ++column) {
    if ((columns >> column & 1) == 0) continue;
    const srs::DataBlock data = layout.BlockOf(place.extent, place.row, column);
    recovery::FreezeRequest request;
    request.log = {place.group, ShardId(static_cast<std::uint16_t>(data.shard)), place.memgest};
    request.epoch = view.groups[place.group.value()].epoch;
    request.block = static_cast<std::uint32_t>(data.offset / block_size_);
    request.token = token_;
    request.held = held;
    if (!held) {
      request.address = attempt->region->remote().address + column * block_size_;
      request.rkey = attempt->region->rkey();
    }
    const NodeId owner = view.Coordinator(place.group, request.log.shard);
    ++attempt->left;
    const bool sent = node_->control().Call(owner, ControlType::kFreeze, recovery::Encode(request),
                                            kFreezeTimeoutNs,
                                            [attempt, column](absl::StatusOr<std::string> answer) {
                                              attempt->answers[column] = std::move(answer);
                                              --attempt->left;
                                            });
    if (!sent) continue;  // it writes nothing, and has nothing to thaw
    asked_.push_back(owner);
    columns_.push_back(column);
  }
  return absl::OkStatus();
}

absl::StatusOr<recovery::FreezeAnswer> RowCut::answer(std::uint32_t column) const {
  const absl::StatusOr<std::string>& answer = attempt_->answers[column];
  if (!answer.ok()) return answer.status();
  return recovery::DecodeFreezeAnswer(*answer);
}

// A key that ends under a WRITE ends the connection that carries it, with all else on it. Where
// such a WRITE lands nobody looks, and its key ends when the writer was heard of.
bool RowCut::Close() {
  RING_CHECK(!waiting());
  if (!Writers().empty()) return false;
  if (attempt_ != nullptr && attempt_->region != nullptr) attempt_->region->Revoke();
  return true;
}

void RowCut::Thaw() {
  if (!std::exchange(frozen_, false)) return;
  ByteWriter body;
  body.Put(token_);
  for (const NodeId owner : asked_) {
    node_->control().Call(owner, ControlType::kThaw, body.bytes(), kFreezeTimeoutNs,
                          [](const absl::StatusOr<std::string>&) {});
  }
}

}  // namespace ring::node
