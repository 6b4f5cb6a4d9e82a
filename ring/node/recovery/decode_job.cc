#include "ring/node/recovery/decode_job.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ec_offload/kernels.h"
#include "ring/base/mutant.h"
#include "ring/base/status.h"
#include "ring/base/zero.h"
#include "ring/node/node.h"
#include "srs/codec.h"

namespace ring::node {
namespace {

constexpr std::uint64_t kRowTimeoutNs = 400'000'000;
constexpr std::uint64_t kPartialTimeoutNs = 400'000'000;
constexpr std::uint64_t kPauseNs = 2'000'000;
constexpr int kPauseDoublings = 5;

bool Has(std::uint32_t mask, std::uint32_t bit) { return (mask >> bit & 1) != 0; }
const std::byte* BytesOf(const std::string& bytes) {
  return reinterpret_cast<const std::byte*>(bytes.data());
}

}  // namespace

DecodeJob::DecodeJob(Node* node, const recovery::DecodeRequest& request, ControlReply reply,
                     std::uint64_t now_ns)
    : node_(node),
      request_(request),
      reply_(std::move(reply)),
      deadline_ns_(now_ns + kDeadlineNs),
      cut_(node) {}

DecodeJob::~DecodeJob() = default;

bool DecodeJob::Finish(absl::StatusOr<std::string> answer) {
  cut_.Thaw();
  std::exchange(reply_, nullptr)(std::move(answer));
  return false;
}

// What must hold all the time: the epoch, and that this parity has everything of the row (L7).
absl::Status DecodeJob::Check() {
  const recovery::LogName& log = request_.log;
  const cluster::View& view = *node_->view();
  if (log.group.value() >= view.groups.size() || log.shard.value() >= view.s)
    return absl::InvalidArgumentError("no such shard");
  if (view.groups[log.group.value()].epoch != request_.epoch) {
    return absl::AbortedError(absl::StrCat("decode in epoch=", request_.epoch.value(), " present=",
                                           view.groups[log.group.value()].epoch.value()));
  }
  const protocol::MemgestDescriptor* const memgest = view.FindMemgest(log.memgest);
  store_ = node_->members().FindParity(log.group, log.memgest);
  if (store_ == nullptr || memgest == nullptr)
    return absl::NotFoundError(absl::StrCat("no parity of memgest=", log.memgest.value()));
  const srs::Layout& layout = store_->layout();
  const std::uint64_t offset = std::uint64_t{request_.block} * layout.block_size();
  const std::uint32_t sources = layout.parameters().k + layout.parameters().m;
  if (offset >= memgest::ParityStore::kSpaceSize || request_.left_out >= Bit(sources)) {
    return absl::InvalidArgumentError(
        absl::StrCat("block=", request_.block, " left_out=0x", absl::Hex(request_.left_out)));
  }
  const srs::Position position = layout.Locate(log.shard.value(), offset);
  extent_ = static_cast<std::uint32_t>(position.extent);
  row_ = position.row;
  column_ = position.column;
  const std::uint32_t complete = recovery::CompleteParities(view, Name(), *memgest, layout);
  if (!Has(complete, static_cast<std::uint32_t>(store_->parity_index())) ||
      !store_->CoversRow(extent_, row_))
    return absl::FailedPreconditionError("this parity has not all of the row");
  return absl::OkStatus();
}

// OK: all that ever touched the block is folded here. Nothing more will touch it: it is Lost (S4).
// One that lives, of a degraded read, may be touched on: its own column is no part of the cut, and
// bytes of a version stay what they are as long as its line holds it (S14).
absl::Status DecodeJob::CheckFolded() {
  const recovery::LogName& log = request_.log;
  MemberPort::HeldShard* const member = node_->members().Find(log.group, log.shard);
  if (member == nullptr || member->failed || member->store->promised() != request_.epoch)
    return absl::UnavailableError("is no member of the shard in this epoch");
  const std::uint64_t applied = member->store->applied(log.memgest);
  if (applied >= request_.index) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("folded index=", applied, " adopted=", request_.index));
}

bool DecodeJob::Step(std::uint64_t now_ns) {
  const absl::Status still = Check();
  if (!still.ok()) return Finish(still);
  absl::Status status;
  switch (stage_) {
    case Stage::kFold:
      if (!CheckFolded().ok()) {
        return now_ns < deadline_ns_ || Finish(CheckFolded());
      }
      status = BeginCut(now_ns);
      break;
    case Stage::kCut:
      if (cut_.waiting()) return true;
      status = OnCut();
      break;
    case Stage::kVector:
      status = OnVector();
      if (absl::IsOutOfRange(status) && now_ns - cut_.started_ns() < kCutNs) return true;
      break;
    case Stage::kRows:
      if (rows_->left > 0) return true;
      status = OnRows();
      break;
    case Stage::kPartials:
      AskPartials();
      if (partials_->answered < trees_.size() || !AddPartials(&status)) return true;
      break;
    case Stage::kCombine:
      return Combine();
    case Stage::kPause:
      if (now_ns < pause_until_ns_) return true;
      status = BeginCut(now_ns);
      break;
  }
  if (status.ok()) return true;
  // Who comes back or is rebuilt does not within this job, and its cuts hold up writers.
  const bool final = absl::IsDataLoss(status) || absl::IsNotFound(status) || away_;
  return final ? Finish(status) : Retry(status, now_ns);
}

bool DecodeJob::Retry(const absl::Status& why, std::uint64_t now_ns) {
  cut_.Thaw();
  if (++attempts_ >= kAttemptsMax || now_ns >= deadline_ns_) {
    return Finish(absl::UnavailableError(
        absl::StrCat("extent=", extent_, " row=", row_, ": ", why.message())));
  }
  pause_until_ns_ = now_ns + (kPauseNs << std::min(attempts_, kPauseDoublings));
  stage_ = Stage::kPause;
  return true;
}

absl::Status DecodeJob::BeginCut(std::uint64_t now_ns) {
  const srs::Layout& layout = store_->layout();
  lost_ = Bit(column_);
  vacant_ = 0;
  std::uint32_t asked = 0;
  for (std::uint32_t column = 0; column < layout.parameters().k; ++column) {
    if (column == column_) continue;
    const ShardId shard(static_cast<std::uint16_t>(layout.BlockOf(extent_, row_, column).shard));
    if (node_->view()->Coordinator(request_.log.group, shard) == cluster::kNoNode) {
      vacant_ |= Bit(column);
    } else {
      asked |= Bit(column);
    }
  }
  lost_ |= vacant_;
  stage_ = Stage::kCut;
  partial_ = Repair() != protocol::RepairScheme::kRs;
  return partial_ ? cut_.BeginHeld(Name(), layout, asked, now_ns)
                  : cut_.Begin(Name(), layout, asked, now_ns);
}

absl::Status DecodeJob::OnCut() {
  cut_.Close();
  const std::uint32_t k = store_->layout().parameters().k;
  frozen_.assign(k, recovery::FreezeAnswer());
  std::uint32_t silent = 0;
  absl::Status unavailable;
  for (std::uint32_t column = 0; column < k; ++column) {
    if (Has(lost_, column)) continue;
    const absl::StatusOr<recovery::FreezeAnswer> answer = cut_.answer(column);
    if (absl::IsUnavailable(answer.status())) {
      silent |= Bit(column);
      unavailable = answer.status();
      continue;
    }
    RING_ASSIGN_OR_RETURN(frozen_[column], answer);
    if (frozen_[column].bytes == recovery::FrozenBytes::kLost) lost_ |= Bit(column);
  }
  // L10: a shard that does not serve, or is stopped, is one more that is lost to this row, if there
  // are parities enough. Mostly it only begins to, and is asked again before.
  const bool enough = attempts_ >= kLostAfter && !Mutant("S7-stopped") &&
                      Plan(lost_ | silent, recovery::kAllColumns).has_value();
  if (silent != 0 && !enough) return unavailable;
  lost_ |= silent;
  vacant_ |= silent;
  stage_ = Stage::kVector;
  return absl::OkStatus();
}

// kOutOfRange: the row is not at the cut yet.
absl::Status DecodeJob::OnVector() {
  const memgest::ParityStore::Row row = store_->ReadRow(extent_, row_);
  for (std::uint32_t column = 0; column < row.last_touch.size(); ++column) {
    const bool known = !Has(lost_, column);
    if (known && row.last_touch[column] != frozen_[column].last_touch && !Mutant("S2")) {
      return absl::OutOfRangeError(absl::StrCat("column=", column,
                                                " last_touch=", row.last_touch[column],
                                                " frozen at ", frozen_[column].last_touch));
    }
  }
  last_touch_ = row.last_touch;
  const std::optional<srs::Recipe> recipe = Plan(lost_, recovery::kAllColumns);
  if (!recipe.has_value()) {
    const std::string what = absl::StrCat(
        "extent=", extent_, " row=", row_, ": lost columns=0x", absl::Hex(lost_),
        ", of them of shards that do not serve=0x", absl::Hex(vacant_), ", parities=0x",
        absl::Hex(Complete(recovery::kAllColumns)), ", left out=0x", absl::Hex(request_.left_out));
    away_ = MayCome();
    return away_ ? absl::UnavailableError(what) : absl::DataLossError(what);
  }
  recipe_ = *recipe;
  const std::size_t size = row.bytes == nullptr ? 0 : store_->layout().block_size();
  node_->control().Spend(size);
  return AskRows(std::string(reinterpret_cast<const char*>(row.bytes), size));
}

// Parities that have all of these columns.
std::uint32_t DecodeJob::Complete(std::uint32_t columns) const {
  return recovery::CompleteParities(*node_->view(), Name(),
                                    *node_->view()->FindMemgest(request_.log.memgest),
                                    store_->layout(), columns);
}

// Of what is neither lost nor left out, with parities that have all of these columns.
std::optional<srs::Recipe> DecodeJob::Plan(std::uint32_t lost, std::uint32_t columns) const {
  const std::uint32_t k = store_->layout().parameters().k;
  return recovery::PlanBlock(store_->codec().generator(), column_,
                             lost | (request_.left_out & (Bit(k) - 1)),
                             Complete(columns) & ~(request_.left_out >> k),
                             static_cast<std::uint32_t>(store_->parity_index()));
}

// Whether what cannot be decoded now is only away. What a vacant role's last holder has may come
// back with it, a shard that stopped may serve again, and a parity under rebuild that has the lost
// columns gets the others from shards that live.
bool DecodeJob::MayCome() const {
  const std::uint32_t vacant = Mutant("S7-vacant") ? 0 : vacant_;
  const std::uint32_t lost = lost_ & ~vacant;
  return Plan(lost, Mutant("S7-rebuilt") ? recovery::kAllColumns : lost).has_value();
}

absl::Status DecodeJob::AskRows(std::string own_row) {
  const auto own = static_cast<std::uint32_t>(store_->parity_index());
  const cluster::View& view = *node_->view();
  rows_ = std::make_shared<Rows>();
  rows_->bytes.assign(store_->codec().parameters().m, absl::UnknownError("was not asked for"));
  rows_->bytes[own] = std::move(own_row);
  recovery::RowRequest request;
  request.group = request_.log.group;
  request.memgest = request_.log.memgest;
  request.epoch = request_.epoch;
  request.extent = extent_;
  request.row = row_;
  request.last_touch = last_touch_;
  for (std::uint32_t j = 0; j < rows_->bytes.size(); ++j) {
    if (j == own || !Has(recovery::ParitiesOf(recipe_), j)) continue;
    ++rows_->left;
    const NodeId node =
        view.groups[request.group.value()].roles[static_cast<std::size_t>(view.s) + j];
    node_->control().Call(node, ControlType::kRow, recovery::Encode(request), kRowTimeoutNs,
                          [rows = rows_, j](absl::StatusOr<std::string> bytes) {
                            rows->bytes[j] = std::move(bytes);
                            --rows->left;
                          });
  }
  stage_ = Stage::kRows;
  return absl::OkStatus();
}

absl::Status DecodeJob::OnRows() {
  const std::size_t size = store_->layout().block_size();
  for (std::uint32_t j = 0; j < rows_->bytes.size(); ++j) {
    if (!Has(recovery::ParitiesOf(recipe_), j)) continue;
    RING_RETURN_IF_ERROR(rows_->bytes[j].status());
    if (!rows_->bytes[j]->empty() && rows_->bytes[j]->size() != size)
      return absl::InvalidArgumentError(absl::StrCat("a row of size=", rows_->bytes[j]->size()));
  }
  answer_ = recovery::Encode(recovery::DecodeAnswer{last_touch_[column_], {}});
  combine_begin_ = answer_.size();
  answer_.resize(combine_begin_ + size);
  node_->control().Spend(size);
  combined_ = 0;
  if (partial_) {
    BeginPartials();
  } else {
    cut_.Thaw();  // everything is captured
    stage_ = Stage::kCombine;
  }
  return absl::OkStatus();
}

protocol::RepairScheme DecodeJob::Repair() const {
  return node_->view()->FindMemgest(request_.log.memgest)->repair;
}

void DecodeJob::BeginPartials() {
  trees_ = recovery::PlanPartials(Repair(), recipe_, store_->layout(), extent_, row_);
  partials_ = std::make_shared<Partials>();
  partials_->bytes.assign(trees_.size(), absl::UnknownError("was not answered"));
  trees_asked_ = trees_added_ = 0;
  stage_ = Stage::kPartials;
}

void DecodeJob::AskPartials() {
  recovery::PartialRequest request;
  request.group = request_.log.group;
  request.memgest = request_.log.memgest;
  request.epoch = request_.epoch;
  request.reader = node_->id();
  request.token = cut_.token();
  while (trees_asked_ < trees_.size() && trees_asked_ - partials_->answered < kTreesUnderWay) {
    const std::size_t i = trees_asked_++;
    request.offset = trees_[i].offset;
    request.length = trees_[i].length;
    request.steps = trees_[i].steps;
    const NodeId owner = node_->view()->Coordinator(request.group, request.steps[0].shard);
    node_->control().Call(owner, ControlType::kPartial, recovery::Encode(request),
                          kPartialTimeoutNs,
                          [partials = partials_, i](absl::StatusOr<std::string> bytes) {
                            partials->bytes[i] = std::move(bytes);
                            ++partials->answered;
                          });
  }
}

// False: more in the next turn. REQUIRES: all are answered.
bool DecodeJob::AddPartials(absl::Status* status) {
  cut_.Thaw();  // everything is captured
  auto* const block = reinterpret_cast<std::byte*>(answer_.data() + combine_begin_);
  for (bool any = false; trees_added_ < trees_.size(); ++trees_added_, any = true) {
    const recovery::PartialTree& tree = trees_[trees_added_];
    const absl::StatusOr<std::string>& sum = partials_->bytes[trees_added_];
    *status = sum.status();
    if (sum.ok() && !sum->empty() && sum->size() != tree.length)
      *status = absl::InvalidArgumentError(absl::StrCat("a partial sum of size=", sum->size()));
    if (!status->ok()) return true;
    if (sum->empty()) continue;  // zeros
    if (any && node_->control().turn_spent()) return false;
    ec_offload::XorInto(block + tree.offset, BytesOf(*sum), tree.length);
    node_->control().Spend(tree.length);
  }
  partials_.reset();
  std::erase_if(recipe_.terms, [](const srs::Term& term) { return !term.survivor.is_parity; });
  stage_ = Stage::kCombine;
  return true;
}

bool DecodeJob::Combine() {
  static constexpr std::array<std::byte, kSliceSize> kZeros = {};
  const std::size_t block_size = answer_.size() - combine_begin_;
  const std::size_t size = std::min(kSliceSize, block_size - combined_);
  std::vector<const std::byte*> data(store_->codec().parameters().k);
  std::vector<const std::byte*> parities(store_->codec().parameters().m);
  for (std::uint32_t column = 0; column < data.size(); ++column) {
    if (Has(lost_, column) || partial_) continue;
    const bool zero = frozen_[column].bytes == recovery::FrozenBytes::kZero;
    data[column] = zero ? kZeros.data() : cut_.bytes(column) + combined_;
  }
  for (std::uint32_t j = 0; j < parities.size(); ++j) {
    if (!Has(recovery::ParitiesOf(recipe_), j)) continue;
    const std::string& row = *rows_->bytes[j];
    parities[j] = row.empty() ? kZeros.data() : BytesOf(row) + combined_;
  }
  auto* const block = reinterpret_cast<std::byte*>(answer_.data() + combine_begin_);
  srs::AddRecipe(recipe_, data, parities, block + combined_, size);
  node_->control().Spend(size * recipe_.terms.size());
  combined_ += size;
  if (combined_ < block_size) return true;
  if (IsZero(block, block_size)) answer_.resize(combine_begin_);
  return Finish(std::move(answer_));
}

}  // namespace ring::node
