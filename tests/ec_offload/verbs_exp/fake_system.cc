#include "tests/ec_offload/verbs_exp/fake_system.h"

#include <cerrno>
#include <cstddef>
#include <map>
#include <new>
#include <string_view>

#include "ec_offload/verbs_exp/real_verbs.h"

namespace ring::ec_verbs {
namespace {

FakeSystem& Fake() { return FakeSystem::Get(); }

ibv_mr* NewRegion(ibv_pd* pd, void* address, std::size_t length) {
  auto* const mr = new (std::nothrow) ibv_mr();
  if (mr == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = address;
  mr->length = length;
  mr->lkey = mr->rkey = Fake().next_key++;
  ++Fake().live_regions;
  return mr;
}

void FreeRegion(ibv_mr* mr) {
  --Fake().live_regions;
  delete mr;
}

ibv_mr* RegMr(ibv_pd* pd, void* address, std::size_t length, int) {
  return Fake().Called("ibv_reg_mr") == 0 ? NewRegion(pd, address, length) : nullptr;
}

ibv_mr* RegMrIova2(ibv_pd* pd, void* address, std::size_t length, std::uint64_t, unsigned) {
  return Fake().Called("ibv_reg_mr_iova2") == 0 ? NewRegion(pd, address, length) : nullptr;
}

int DeregMr(ibv_mr* mr) {
  const int result = Fake().Called("ibv_dereg_mr");
  if (result == 0) FreeRegion(mr);
  return result;
}

// A new key each time, as a device may have it.
int ReregMr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t length, int) {
  const int result = Fake().Called("ibv_rereg_mr");
  if (result != 0 && result != IBV_REREG_MR_ERR_DO_FORK_OLD) return result;
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) mr->pd = pd;
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) {
    mr->addr = address;
    mr->length = length;
  }
  mr->lkey = mr->rkey = Fake().next_key++;
  return result;
}

template <class Function>
void* Symbol(Function* function) {
  return reinterpret_cast<void*>(function);
}

const std::map<std::string_view, void*>& Symbols() {
  static const auto& symbols = *new std::map<std::string_view, void*>{
      {"ibv_dealloc_pd", Symbol(+[](ibv_pd*) { return Fake().Called("ibv_dealloc_pd"); })},
      {"ibv_reg_mr", Symbol(RegMr)},
      {"ibv_reg_mr_iova2", Symbol(RegMrIova2)},
      {"ibv_dereg_mr", Symbol(DeregMr)},
      {"ibv_rereg_mr", Symbol(ReregMr)},
      {"ibv_reg_dmabuf_mr",
       Symbol(+[](ibv_pd* pd, std::uint64_t, std::size_t length, std::uint64_t, int, int) {
         Fake().Called("ibv_reg_dmabuf_mr");
         return NewRegion(pd, nullptr, length);
       })},
      {"ibv_import_mr", Symbol(+[](ibv_pd* pd, std::uint32_t) {
         Fake().Called("ibv_import_mr");
         return NewRegion(pd, nullptr, 0);
       })},
      {"ibv_unimport_mr", Symbol(+[](ibv_mr* mr) {
         Fake().Called("ibv_unimport_mr");
         FreeRegion(mr);
       })},
      {"ibv_import_pd", Symbol(+[](ibv_context*, std::uint32_t) {
         Fake().Called("ibv_import_pd");
         return &Fake().pd;
       })},
      {"ibv_unimport_pd", Symbol(+[](ibv_pd*) { Fake().Called("ibv_unimport_pd"); })},
      {"ibv_import_dm", Symbol(+[](ibv_context*, std::uint32_t) -> ibv_dm* {
         Fake().Called("ibv_import_dm");
         return nullptr;
       })},
      {"ibv_query_ece", Symbol(+[](ibv_qp*, ibv_ece*) { return Fake().Called("ibv_query_ece"); })},
      {"ibv_set_ece", Symbol(+[](ibv_qp*, ibv_ece*) { return Fake().Called("ibv_set_ece"); })},
      {"ibv_query_qp_data_in_order", Symbol(+[](ibv_qp*, ibv_wr_opcode, std::uint32_t) {
         return Fake().Called("ibv_query_qp_data_in_order");
       })},
      {"ibv_qp_to_qp_ex", Symbol(+[](ibv_qp*) -> ibv_qp_ex* {
         Fake().Called("ibv_qp_to_qp_ex");
         return nullptr;
       })},
      {"ibv_get_pkey_index", Symbol(+[](ibv_context*, std::uint8_t, __be16) {
         return Fake().Called("ibv_get_pkey_index");
       })},
      {"ibv_init_ah_from_wc",
       Symbol(+[](ibv_context*, std::uint8_t, ibv_wc*, ibv_grh*, ibv_ah_attr*) {
         return Fake().Called("ibv_init_ah_from_wc");
       })},
      {"ibv_create_ah_from_wc", Symbol(+[](ibv_pd*, ibv_wc*, ibv_grh*, std::uint8_t) -> ibv_ah* {
         Fake().Called("ibv_create_ah_from_wc");
         return nullptr;
       })},
      {"ibv_resolve_eth_l2_from_gid",
       Symbol(+[](ibv_context*, ibv_ah_attr*, std::uint8_t*, std::uint16_t*) {
         return Fake().Called("ibv_resolve_eth_l2_from_gid");
       })},
  };
  return symbols;
}

}  // namespace

FakeSystem& FakeSystem::Get() {
  static FakeSystem& fake = *new FakeSystem;
  return fake;
}

void FakeSystem::Reset() {
  device = {};
  context = {};
  context.device = &device;
  pd = {};
  pd.context = &context;
  other_pd = pd;
  qp = {};
  qp.context = &context;
  next_key = 1;
  live_regions = 0;
  result = 0;
  calls.clear();
}

void* RealSymbol(const char* name) {
  const auto found = Symbols().find(name);
  return found == Symbols().end() ? nullptr : found->second;
}

}  // namespace ring::ec_verbs
