// The exported calls of libibverbs on memory regions. What registers memory also writes it into the
// book of regions, on any device.
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "ec_offload/verbs_exp/c_entry.h"
#include "ec_offload/verbs_exp/real_verbs.h"
#include "ec_offload/verbs_exp/region_book.h"
#include "ec_offload/verbs_exp/soft_device.h"

// rdma-core has macros over these, which choose by constants.
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

using ring::ec_verbs::CallReal;
using ring::ec_verbs::IsSoft;
using ring::ec_verbs::OrNoMemory;
using ring::ec_verbs::Refused;
using ring::ec_verbs::RegionBook;

namespace {

bool Write(const ibv_mr* mr, const RegionBook::Range& range) {
  return OrNoMemory(false, [&] {
    RegionBook::Get().Set(mr->pd, mr->lkey, range);
    return true;
  });
}

// The region, written into the book; or null, and no region, where there is no memory for that.
ibv_mr* Written(ibv_mr* mr, unsigned access) {
  if (mr == nullptr) return nullptr;
  if (Write(mr, {reinterpret_cast<std::uint64_t>(mr->addr), mr->length, access})) return mr;
  RING_REAL(ibv_dereg_mr)(mr);
  return Refused<ibv_mr>(ENOMEM);
}

ibv_mr* SoftRegion(ibv_pd* pd, void* address, std::size_t length, unsigned access) {
  return OrNoMemory<ibv_mr*>(
      nullptr, [&] { return ring::ec_verbs::SoftRegMr(pd, address, length, access); });
}

// What the book has of a region before a call that may end it, or end without ending it. The region
// itself may be gone after that call.
class Known {
 public:
  explicit Known(const ibv_mr* mr)
      : pd_(mr->pd), key_(mr->lkey), entry_(RegionBook::Get().Find(pd_, key_)) {}
  const std::optional<RegionBook::Entry>& entry() const { return entry_; }
  void Forget() const {
    if (entry_.has_value()) RegionBook::Get().Remove(pd_, key_, entry_->serial);
  }

 private:
  const ibv_pd* pd_;
  std::uint32_t key_;
  std::optional<RegionBook::Entry> entry_;
};

// What a region is after ibv_rereg_mr has changed what `flags` name; none when that says too little
// of one that is not in the book.
std::optional<RegionBook::Range> Changed(const Known& known, int flags, void* address,
                                         std::size_t length, int access) {
  const bool moved = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const bool rights = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0;
  if (!known.entry().has_value() && !(moved && rights)) return std::nullopt;
  RegionBook::Range range;
  if (known.entry().has_value()) range = known.entry()->range;
  if (moved) {
    range.address = reinterpret_cast<std::uint64_t>(address);
    range.length = length;
  }
  if (rights) range.access = static_cast<unsigned>(access);
  return range;
}

}  // namespace

extern "C" {

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) {
  const auto rights = static_cast<unsigned>(access);
  if (IsSoft(pd->context)) return SoftRegion(pd, address, length, rights);
  return Written(RING_REAL(ibv_reg_mr)(pd, address, length, access), rights);
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                         unsigned access) {
  if (IsSoft(pd->context)) {
    // Addresses of the software device are those of the process.
    if (iova != reinterpret_cast<std::uint64_t>(address)) return Refused<ibv_mr>(EOPNOTSUPP);
    return SoftRegion(pd, address, length, access);
  }
  ibv_mr* const mr = RING_REAL(ibv_reg_mr_iova2)(pd, address, length, iova, access);
  // An entry of a calculation names an address of the process, which only this iova is.
  return iova == reinterpret_cast<std::uint64_t>(address) ? Written(mr, access) : mr;
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                        int access) {
  if (IsSoft(pd->context)) {
    return ibv_reg_mr_iova2(pd, address, length, iova, static_cast<unsigned>(access));
  }
  ibv_mr* const mr = RING_REAL(ibv_reg_mr_iova)(pd, address, length, iova, access);
  const bool same = iova == reinterpret_cast<std::uint64_t>(address);
  return same ? Written(mr, static_cast<unsigned>(access)) : mr;
}

// Not written into the book: the memory may be mapped nowhere in the process.
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length, std::uint64_t iova,
                          int fd, int access) {
  if (IsSoft(pd->context)) return Refused<ibv_mr>(EOPNOTSUPP);
  return CallReal<ibv_mr*>(RING_REAL(ibv_reg_dmabuf_mr), nullptr, pd, offset, length, iova, fd,
                           access);
}

// Nor is this: an imported region does not say its address.
ibv_mr* ibv_import_mr(ibv_pd* pd, std::uint32_t handle) {
  if (IsSoft(pd->context)) return Refused<ibv_mr>(EOPNOTSUPP);
  return CallReal<ibv_mr*>(RING_REAL(ibv_import_mr), nullptr, pd, handle);
}

void ibv_unimport_mr(ibv_mr* mr) {
  const auto real = RING_REAL(ibv_unimport_mr);
  if (IsSoft(mr->context) || real == nullptr) {
    errno = EOPNOTSUPP;
    return;
  }
  const Known known(mr);
  real(mr);
  known.Forget();
}

// Of the software device: register anew.
int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t length, int access) {
  if (IsSoft(mr->context)) {
    errno = EOPNOTSUPP;
    return IBV_REREG_MR_ERR_INPUT;
  }
  const Known known(mr);
  int error = RING_REAL(ibv_rereg_mr)(mr, flags, pd, address, length, access);
  if (error == IBV_REREG_MR_ERR_INPUT || error == IBV_REREG_MR_ERR_DONT_FORK_NEW) return error;
  if (error == 0 || error == IBV_REREG_MR_ERR_DO_FORK_OLD) {
    const auto range = Changed(known, flags, address, length, access);
    if (range.has_value() && !Write(mr, *range)) error = IBV_REREG_MR_ERR_CMD;
  }
  known.Forget();  // not what was written just now, though it may have the same key
  return error;
}

int ibv_dereg_mr(ibv_mr* mr) {
  if (IsSoft(mr->context)) return ring::ec_verbs::SoftDeregMr(mr);
  const Known known(mr);
  const int error = RING_REAL(ibv_dereg_mr)(mr);
  if (error == 0) known.Forget();
  return error;
}

}  // extern "C"
