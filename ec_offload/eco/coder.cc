#include "ec_offload/eco/coder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ec_offload/block_calculator.h"
#include "ec_offload/matrix_calculator.h"
#include "ring/base/status.h"

namespace ring::ec_offload::eco {
namespace {

// Plans of the latest sets of erasures: a store that repairs meets a few sets, again and again.
constexpr std::size_t kPlanCountMax = 32;

bool AnyNull(std::uint8_t** blocks, std::size_t count) {
  return std::find(blocks, blocks + count, nullptr) != blocks + count;
}

std::byte* Bytes(std::uint8_t* block) { return reinterpret_cast<std::byte*>(block); }

}  // namespace

absl::StatusOr<Matrix> MakeCoding(const CodeArguments& code) {
  if (code.w != 4 && code.w != 8)
    return absl::InvalidArgumentError(absl::StrCat("w=", code.w, ": give 4 or 8"));
  if (code.k < 1 || code.m < 1)
    return absl::InvalidArgumentError(absl::StrCat("k=", code.k, " m=", code.m));
  const auto make = code.vandermonde ? VandermondeCoding : CauchyCoding;
  return make(*FieldOfWidth(code.w), static_cast<std::size_t>(code.k),
              static_cast<std::size_t>(code.m));
}

absl::StatusOr<std::unique_ptr<Coder>> MakeCoder(const CodeArguments& code) {
  RING_ASSIGN_OR_RETURN(Matrix coding, MakeCoding(code));
  return std::make_unique<Coder>(code, std::move(coding));
}

absl::StatusOr<std::unique_ptr<Encoder>> MakeEncoder(const CodeArguments& code) {
  RING_ASSIGN_OR_RETURN(Matrix coding, MakeCoding(code));
  RING_ASSIGN_OR_RETURN(auto calculator, MakeBlockCalculator(code.w, coding));
  return std::make_unique<Encoder>(code, std::move(coding), std::move(calculator));
}

absl::StatusOr<std::unique_ptr<Decoder>> MakeDecoder(const CodeArguments& code) {
  RING_ASSIGN_OR_RETURN(Matrix coding, MakeCoding(code));
  return std::make_unique<Decoder>(code, std::move(coding));
}

Coder::Coder(const CodeArguments& code, Matrix coding)
    : k_(static_cast<std::size_t>(code.k)),
      m_(static_cast<std::size_t>(code.m)),
      w_(code.w),
      coding_(std::move(coding)),
      encode_matrix_(k_ * m_),
      int_encode_matrix_(coding_.elements().begin(), coding_.elements().end()),
      sges_(k_ + m_) {
  for (std::size_t i = 0; i < k_; ++i) {
    for (std::size_t j = 0; j < m_; ++j) encode_matrix_[i * m_ + j] = coding_.At(j, i);
  }
  ibv_exp_ec_calc_init_attr& attr = context_.attr;
  attr.comp_mask = IBV_EXP_EC_CALC_ATTR_MAX_INFLIGHT | IBV_EXP_EC_CALC_ATTR_K |
                   IBV_EXP_EC_CALC_ATTR_M | IBV_EXP_EC_CALC_ATTR_W |
                   IBV_EXP_EC_CALC_ATTR_MAX_DATA_SGE | IBV_EXP_EC_CALC_ATTR_MAX_CODE_SGE |
                   IBV_EXP_EC_CALC_ATTR_ENCODE_MAT;
  attr.max_inflight_calcs = 2;  // whole 64 bytes, and the rest
  attr.k = attr.max_data_sge = code.k;
  attr.m = attr.max_code_sge = code.m;
  attr.w = code.w;
  attr.encode_matrix = encode_matrix_.data();
  context_.int_encode_matrix = int_encode_matrix_.data();
  context_.alignment_mem.data_blocks = sges_.data();
  context_.alignment_mem.num_data_sge = code.k;
  context_.alignment_mem.code_blocks = sges_.data() + k_;
  context_.alignment_mem.num_code_sge = code.m;
  context_.mrs_list.next = context_.mrs_list.prev = &context_.mrs_list;
  pthread_mutex_init(&context_.async_mutex, nullptr);
  pthread_cond_init(&context_.async_cond, nullptr);
}

Coder::~Coder() {
  pthread_cond_destroy(&context_.async_cond);
  pthread_mutex_destroy(&context_.async_mutex);
}

void Coder::SetCompletion(void* coder, void (*done)(ibv_exp_ec_comp*)) {
  for (eco_coder_comp* comp : {&context_.alignment_comp, &context_.remainder_comp}) {
    comp->comp.done = done;
    comp->eco_coder = coder;
  }
  context_.remainder_comp.is_remainder_comp = 1;
}

void Coder::OpenDevice() {
  device_ = DeviceCalc::Open(context_.attr);
  if (device_ != nullptr) device_->ShowIn(context_);
}

bool Coder::Fits(const Blocks& blocks) const {
  return blocks.data != nullptr && blocks.coding != nullptr && blocks.block_size > 0 &&
         // not attr's k and m: the program may write these
         blocks.data_size == static_cast<int>(k_) && blocks.coding_size == static_cast<int>(m_) &&
         !AnyNull(blocks.data, k_) && !AnyNull(blocks.coding, m_);
}

int Coder::Register(const Blocks& blocks) {
  if (!Fits(blocks)) return kFailed;
  const int whole = blocks.block_size / kWholeBytes * kWholeBytes;
  for (std::size_t i = 0; i < block_count(); ++i) {
    sges_[i].addr = reinterpret_cast<std::uintptr_t>(Block(blocks, i));
    sges_[i].length = static_cast<std::uint32_t>(whole);
  }
  context_.alignment_mem.block_size = whole;
  context_.block_size = blocks.block_size;
  if (device_ == nullptr || device_->Register(absl::MakeSpan(sges_))) return 0;
  context_.alignment_mem.block_size = context_.block_size = 0;
  return -ENOMEM;
}

bool Coder::StandsAlone(const Blocks& blocks, std::size_t index) const {
  const auto size = static_cast<std::uintptr_t>(blocks.block_size);
  const auto at = reinterpret_cast<std::uintptr_t>(Block(blocks, index));
  for (std::size_t other = 0; other < block_count(); ++other) {
    const auto from = reinterpret_cast<std::uintptr_t>(Block(blocks, other));
    if (other != index && (at >= from ? at - from : from - at) < size) return false;
  }
  return true;
}

Encoder::Encoder(const CodeArguments& code, Matrix coding,
                 std::unique_ptr<rdma::Calculator> calculator)
    : Coder(code, std::move(coding)), calculator_(std::move(calculator)) {
  handle_.eco_ctx = context();
}

int Encoder::Encode(const Blocks& blocks) const {
  if (!Fits(blocks)) return kFailed;
  std::array<const std::byte*, kMatrixSizeMax> inputs;
  std::array<std::byte*, kMatrixSizeMax> outputs;
  for (std::size_t i = 0; i < k_; ++i) inputs[i] = Bytes(blocks.data[i]);
  for (std::size_t j = 0; j < m_; ++j) {
    if (!StandsAlone(blocks, k_ + j)) return kFailed;
    outputs[j] = Bytes(blocks.coding[j]);
  }
  calculator_->Run(inputs.data(), outputs.data(), static_cast<std::size_t>(blocks.block_size),
                   nullptr);
  return 0;
}

Decoder::Decoder(const CodeArguments& code, Matrix coding)
    : Coder(code, std::move(coding)),
      int_decode_matrix_(k_ * k_),
      int_erasures_(block_count()),
      survived_(block_count(), 1),
      u8_decode_matrix_(k_ * m_),
      u8_erasures_(block_count()) {
  handle_.eco_ctx = context();
  handle_.int_decode_matrix = int_decode_matrix_.data();
  handle_.u8_decode_matrix = u8_decode_matrix_.data();
  handle_.int_erasures = int_erasures_.data();
  handle_.u8_erasures = u8_erasures_.data();
  handle_.survived = survived_.data();
}

int Decoder::Generate(absl::Span<const int> erasures) {
  if (erasures.empty()) return 0;
  return PlanFor(erasures) == nullptr ? kFailed : 0;
}

int Decoder::Decode(const Blocks& blocks, absl::Span<const int> erasures) {
  if (!Fits(blocks)) return kFailed;
  if (erasures.empty()) return 0;
  const Plan* const plan = PlanFor(erasures);
  if (plan == nullptr) return kFailed;
  std::array<const std::byte*, kMatrixSizeMax> inputs;
  std::array<std::byte*, kMatrixSizeMax> outputs;
  for (std::size_t i = 0; i < k_; ++i) inputs[i] = Bytes(Block(blocks, plan->survivors[i]));
  for (std::size_t o = 0; o < plan->erasures.size(); ++o) {
    if (!StandsAlone(blocks, plan->erasures[o])) return kFailed;
    outputs[o] = Bytes(Block(blocks, plan->erasures[o]));
  }
  plan->calculator->Run(inputs.data(), outputs.data(), static_cast<std::size_t>(blocks.block_size),
                        nullptr);
  return 0;
}

const Decoder::Plan* Decoder::PlanFor(absl::Span<const int> erasures) {
  if (erasures.size() > m_) return nullptr;
  sorted_.clear();
  for (const int index : erasures) {
    if (index < 0 || static_cast<std::size_t>(index) >= block_count()) return nullptr;
    sorted_.push_back(static_cast<std::size_t>(index));
  }
  std::sort(sorted_.begin(), sorted_.end());
  const auto found = std::find_if(plans_.begin(), plans_.end(),
                                  [this](const auto& plan) { return plan->erasures == sorted_; });
  if (found != plans_.begin() && found != plans_.end()) {
    plans_.splice(plans_.begin(), plans_, found);
    Publish(*plans_.front());
  } else if (found == plans_.end()) {
    std::unique_ptr<Plan> plan = MakePlan(sorted_);
    if (plan == nullptr) return nullptr;
    plans_.push_front(std::move(plan));
    if (plans_.size() > kPlanCountMax) plans_.pop_back();
    Publish(*plans_.front());
  }
  return plans_.front().get();
}

std::unique_ptr<Decoder::Plan> Decoder::MakePlan(std::vector<std::size_t> erasures) const {
  // An index twice is refused here: a byte map, passed by mistake, has zeros and ones only.
  auto decoding = PlanDecoding(*FieldOfWidth(w_), coding_, erasures);
  if (!decoding.ok()) return nullptr;
  auto calculator = MakeBlockCalculator(w_, decoding->decode);
  if (!calculator.ok()) return nullptr;
  auto plan = std::make_unique<Plan>();
  plan->erasures = std::move(erasures);
  plan->survivors = std::move(decoding->survivors);
  plan->calculator = *std::move(calculator);
  plan->inverse = std::move(decoding->inverse);
  plan->decode = std::move(decoding->decode);
  return plan;
}

void Decoder::Publish(const Plan& plan) {
  std::copy(plan.inverse.elements().begin(), plan.inverse.elements().end(),
            int_decode_matrix_.begin());
  const std::size_t count = plan.erasures.size();
  for (std::size_t i = 0; i < k_; ++i) {
    for (std::size_t o = 0; o < count; ++o) u8_decode_matrix_[i * count + o] = plan.decode.At(o, i);
  }
  for (std::size_t block = 0; block < block_count(); ++block) {
    const bool erased = std::binary_search(plan.erasures.begin(), plan.erasures.end(), block);
    int_erasures_[block] = u8_erasures_[block] = erased;
    survived_[block] = !erased;
  }
}

}  // namespace ring::ec_offload::eco
