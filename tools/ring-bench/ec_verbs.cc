// The experimental verbs of erasure coding: synchronous, by the context's thread, by polling.
#include <infiniband/verbs.h>

#include <atomic>
#include <cerrno>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "tools/ring-bench/ec_coder.h"

namespace ring::bench {
namespace {

absl::Status Refused(absl::string_view call, int value) {
  return absl::InternalError(absl::StrCat(call, "=", value));
}

class VerbsDevice final : public EcDevice {
 public:
  static absl::StatusOr<std::unique_ptr<VerbsDevice>> Open() {
    std::unique_ptr<VerbsDevice> device(new VerbsDevice);
    ibv_device** const list = ibv_get_device_list(nullptr);
    if (list != nullptr && list[0] != nullptr) device->context_ = ibv_open_device(list[0]);
    if (list != nullptr) ibv_free_device_list(list);
    if (device->context_ == nullptr) return Refused("ibv_open_device errno", errno);
    device->pd_ = ibv_alloc_pd(device->context_);
    if (device->pd_ == nullptr) return Refused("ibv_alloc_pd errno", errno);
    return device;
  }
  ~VerbsDevice() override {
    if (pd_ != nullptr) ibv_dealloc_pd(pd_);
    if (context_ != nullptr) ibv_close_device(context_);
  }
  std::string name() const override { return ibv_get_device_name(context_->device); }
  ibv_pd* pd() { return pd_; }

 private:
  VerbsDevice() = default;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
};

// How many operations of a run have completed. The submitter waits for one of them, not for each:
// it sleeps until the window is half empty, as a program does that has other work.
class Window {
 public:
  void Reset() {
    done_ = 0;
    failed_ = 0;
    wake_at_ = 0;
  }
  void Done(bool success) {
    if (!success) ++failed_;
    if (const int done = ++done_; done == wake_at_) done_.notify_one();
  }
  void WaitFor(int target) {
    wake_at_ = target;
    for (int done = done_; done < target; done = done_) done_.wait(done);
  }
  int done() const { return done_; }
  int failed() const { return failed_; }

 private:
  std::atomic<int> done_ = 0;
  std::atomic<int> failed_ = 0;
  std::atomic<int> wake_at_ = 0;
};

struct Operation {
  ibv_exp_ec_comp comp;  // first: done() gets its address
  Window* window;
};

void TellWindow(ibv_exp_ec_comp* comp) {
  reinterpret_cast<Operation*>(comp)->window->Done(comp->status == IBV_EXP_EC_CALC_SUCCESS);
}

class VerbsCoder final : public EcCoder {
 public:
  VerbsCoder(EcManner manner, int max_inflight) : manner_(manner), max_inflight_(max_inflight) {}
  ~VerbsCoder() override {
    if (calc_ != nullptr) ibv_exp_dealloc_ec_calc(calc_);
    for (ibv_mr* const region : regions_) ibv_dereg_mr(region);
  }

  absl::Status Open(const EcCode& code, EcStripe* stripe, ibv_pd* pd);
  absl::Status Encode(int count) override {
    if (manner_ == EcManner::kSync) {
      return RunSync(count, [this] { return ibv_exp_ec_encode_sync(calc_, &mem_); });
    }
    return RunAsync(count, [this](ibv_exp_ec_comp* comp) {
      return ibv_exp_ec_encode_async(calc_, &mem_, comp);
    });
  }
  absl::Status Decode(int count) override {
    if (manner_ == EcManner::kSync) {
      return RunSync(count, [this] {
        return ibv_exp_ec_decode_sync(calc_, &mem_, erasures_.data(), decode_matrix_.data());
      });
    }
    return RunAsync(count, [this](ibv_exp_ec_comp* comp) {
      return ibv_exp_ec_decode_async(calc_, &mem_, erasures_.data(), decode_matrix_.data(), comp);
    });
  }

 private:
  static absl::Status RunSync(int count, absl::FunctionRef<int()> call);
  absl::Status RunAsync(int count, absl::FunctionRef<int(ibv_exp_ec_comp*)> submit);
  // Lets completions come until `target` of the run's operations have.
  absl::Status Complete(int target);

  const EcManner manner_;
  const int max_inflight_;
  std::vector<ibv_mr*> regions_;
  std::vector<ibv_sge> blocks_;
  std::vector<std::uint8_t> encode_matrix_, decode_matrix_, erasures_;
  ibv_exp_ec_mem mem_{};
  ibv_exp_ec_calc* calc_ = nullptr;
  Window window_;
  std::vector<Operation> operations_;
};

// Verbs want a row for each input.
std::vector<std::uint8_t> Transposed(const ec_offload::Matrix& matrix) {
  std::vector<std::uint8_t> out;
  for (std::size_t column = 0; column < matrix.columns(); ++column) {
    for (std::size_t row = 0; row < matrix.rows(); ++row) out.push_back(matrix.At(row, column));
  }
  return out;
}

absl::Status VerbsCoder::Open(const EcCode& code, EcStripe* stripe, ibv_pd* pd) {
  for (std::size_t i = 0; i < code.k + code.m; ++i) {
    ibv_mr* const region =
        ibv_reg_mr(pd, stripe->Block(i), stripe->block_size(), IBV_ACCESS_LOCAL_WRITE);
    if (region == nullptr) return Refused("ibv_reg_mr errno", errno);
    regions_.push_back(region);
    blocks_.push_back({.addr = reinterpret_cast<std::uint64_t>(stripe->Block(i)),
                       .length = static_cast<std::uint32_t>(stripe->block_size()),
                       .lkey = region->lkey});
  }
  encode_matrix_ = Transposed(code.coding);
  decode_matrix_ = Transposed(code.plan.decode);
  erasures_.assign(code.k + code.m, 0);
  for (std::size_t i = 0; i < code.erased_count; ++i) erasures_[i] = 1;
  ibv_exp_ec_calc_init_attr attr{};
  attr.comp_mask = IBV_EXP_EC_CALC_INIT_ATTR_RESERVED - 1;
  attr.max_inflight_calcs = static_cast<std::uint32_t>(max_inflight_);
  attr.k = attr.max_data_sge = static_cast<int>(code.k);
  attr.m = attr.max_code_sge = static_cast<int>(code.m);
  attr.w = code.w;
  attr.encode_matrix = encode_matrix_.data();
  attr.polling = manner_ == EcManner::kPoll ? 1 : 0;
  calc_ = ibv_exp_alloc_ec_calc(pd, &attr);
  if (calc_ == nullptr) return Refused("ibv_exp_alloc_ec_calc errno", errno);
  mem_ = {.data_blocks = blocks_.data(),
          .num_data_sge = attr.k,
          .code_blocks = blocks_.data() + code.k,
          .num_code_sge = attr.m,
          .block_size = static_cast<int>(stripe->block_size())};
  operations_.assign(static_cast<std::size_t>(max_inflight_),
                     {{TellWindow, IBV_EXP_EC_CALC_FAIL}, &window_});
  return absl::OkStatus();
}

absl::Status VerbsCoder::RunSync(int count, absl::FunctionRef<int()> call) {
  for (int i = 0; i < count; ++i) {
    if (const int error = call(); error != 0) return Refused("ibv_exp_ec_..._sync", error);
  }
  return absl::OkStatus();
}

absl::Status VerbsCoder::RunAsync(int count, absl::FunctionRef<int(ibv_exp_ec_comp*)> submit) {
  window_.Reset();
  absl::Status status;
  int submitted = 0;
  while (status.ok() && submitted < count) {
    if (submitted - window_.done() >= max_inflight_) {
      status = Complete(submitted - max_inflight_ / 2);
      continue;
    }
    // Completions come in order, so this one's last use has ended.
    Operation& operation = operations_[static_cast<std::size_t>(submitted % max_inflight_)];
    const int error = submit(&operation.comp);
    if (error != 0) status = Refused("ibv_exp_ec_..._async", error);
    if (error == 0) ++submitted;
  }
  // Whatever went wrong: what is under way uses this object.
  status.Update(Complete(submitted));
  if (window_.failed() > 0) status.Update(Refused("failed calculations", window_.failed()));
  return status;
}

absl::Status VerbsCoder::Complete(int target) {
  if (manner_ == EcManner::kThread) {
    window_.WaitFor(target);
    return absl::OkStatus();
  }
  while (window_.done() < target) {
    const int polled = ibv_exp_ec_poll(calc_, target - window_.done());
    if (polled < 0) return Refused("ibv_exp_ec_poll", polled);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<EcDevice>> OpenEcDevice() { return VerbsDevice::Open(); }

absl::StatusOr<std::unique_ptr<EcCoder>> MakeVerbsCoder(const EcCode& code, EcStripe* stripe,
                                                        EcDevice* device, EcManner manner,
                                                        int max_inflight) {
  auto coder = std::make_unique<VerbsCoder>(manner, max_inflight);
  const absl::Status opened = coder->Open(code, stripe, static_cast<VerbsDevice*>(device)->pd());
  if (!opened.ok()) return opened;
  return coder;
}

}  // namespace ring::bench
