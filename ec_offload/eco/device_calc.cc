#include "ec_offload/eco/device_calc.h"

#include <cstring>

#include "ring/base/sync.h"

#pragma weak ibv_alloc_pd
#pragma weak ibv_close_device
#pragma weak ibv_dealloc_pd
#pragma weak ibv_dereg_mr
#pragma weak ibv_exp_alloc_ec_calc
#pragma weak ibv_exp_dealloc_ec_calc
#pragma weak ibv_exp_ec_encode_async
#pragma weak ibv_free_device_list
#pragma weak ibv_get_device_list
#pragma weak ibv_get_device_name
#pragma weak ibv_open_device
#pragma weak ibv_reg_mr

namespace ring::ec_offload::eco {
namespace {

// Who has the calculators has the plain verbs.
bool ProgramHasVerbs() { return &ibv_exp_alloc_ec_calc != nullptr; }

ibv_context* OpenDevice() {
  ibv_device** const devices = ibv_get_device_list(nullptr);
  if (devices == nullptr) return nullptr;
  ibv_device* chosen = devices[0];
  for (ibv_device** device = devices; *device != nullptr; ++device) {
    if (std::strcmp(ibv_get_device_name(*device), "mlx5_0") == 0) {
      chosen = *device;
      break;
    }
  }
  ibv_context* const context = chosen == nullptr ? nullptr : ibv_open_device(chosen);
  ibv_free_device_list(devices);
  return context;
}

ibv_mr* RegisterMemory(ibv_pd* pd, void* memory, std::size_t size) {
  // In parentheses: the function, not the macro.
  return (ibv_reg_mr)(pd, memory, size, IBV_ACCESS_LOCAL_WRITE);
}

}  // namespace

std::unique_ptr<DeviceCalc> DeviceCalc::Open(const ibv_exp_ec_calc_init_attr& attr) {
  if (!ProgramHasVerbs()) return nullptr;
  std::unique_ptr<DeviceCalc> device(new DeviceCalc(static_cast<std::size_t>(attr.k + attr.m)));
  device->context_ = OpenDevice();
  if (device->context_ == nullptr) return nullptr;
  device->pd_ = ibv_alloc_pd(device->context_);
  if (device->pd_ == nullptr || !device->RegisterRemainder()) return nullptr;
  ibv_exp_ec_calc_init_attr copy = attr;
  device->calc_ = ibv_exp_alloc_ec_calc(device->pd_, &copy);
  if (device->calc_ == nullptr) return nullptr;
  device->FindCompleter(attr.k, attr.m);
  return device;
}

DeviceCalc::~DeviceCalc() {
  if (calc_ != nullptr) ibv_exp_dealloc_ec_calc(calc_);  // first: it uses all the others
  Forget();
  if (remainder_region_ != nullptr) ibv_dereg_mr(remainder_region_);
  if (pd_ != nullptr) ibv_dealloc_pd(pd_);
  if (context_ != nullptr) ibv_close_device(context_);
}

bool DeviceCalc::Register(absl::Span<ibv_sge> blocks) {
  Forget();
  for (ibv_sge& block : blocks) {
    block.lkey = 0;
    if (block.length == 0) continue;
    ibv_mr* const region = RegisterMemory(pd_, reinterpret_cast<void*>(block.addr), block.length);
    if (region == nullptr) {
      Forget();
      return false;
    }
    regions_.push_back(region);
    block.lkey = region->lkey;
  }
  return true;
}

bool DeviceCalc::RegisterRemainder() {
  remainder_region_ = RegisterMemory(pd_, remainder_.data(), remainder_.size() * kWholeBytes);
  if (remainder_region_ == nullptr) return false;
  for (std::size_t i = 0; i < remainder_.size(); ++i) {
    remainder_sges_[i].addr = reinterpret_cast<std::uintptr_t>(remainder_[i].bytes);
    remainder_sges_[i].length = kWholeBytes;
    remainder_sges_[i].lkey = remainder_region_->lkey;
  }
  return true;
}

ibv_exp_ec_mem DeviceCalc::RemainderMem(int k, int m) {
  return {remainder_sges_.data(), k, remainder_sges_.data() + k, m, kWholeBytes};
}

void DeviceCalc::FindCompleter(int k, int m) {
  if (&ibv_exp_ec_encode_async == nullptr) return;
  struct Probe {
    ibv_exp_ec_comp comp;  // first: done() gets its address
    Mutex mutex;
    CondVar changed;
    pthread_t thread;
    bool told;
  } probe{};
  probe.comp.done = [](ibv_exp_ec_comp* comp) {
    auto* const self = reinterpret_cast<Probe*>(comp);
    const MutexLock lock(self->mutex);
    self->thread = pthread_self();
    self->told = true;
    self->changed.NotifyAll();
  };
  // Zeros, of which the code is zeros.
  ibv_exp_ec_mem mem = RemainderMem(k, m);
  if (ibv_exp_ec_encode_async(calc_, &mem, &probe.comp) != 0) return;
  const MutexLock lock(probe.mutex);
  while (!probe.told) probe.changed.Wait(probe.mutex);
  completer_ = probe.thread;
  has_completer_ = true;
}

void DeviceCalc::ShowIn(eco_context& context) {
  context.calc = calc_;
  context.remainder_buffers = remainder_.front().bytes;
  context.remainder_mr = remainder_region_;
  context.remainder_mem = RemainderMem(context.attr.k, context.attr.m);
}

void DeviceCalc::Forget() {
  for (ibv_mr* region : regions_) ibv_dereg_mr(region);
  regions_.clear();
}

}  // namespace ring::ec_offload::eco
