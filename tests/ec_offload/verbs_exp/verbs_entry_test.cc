// Whose object a call of libibverbs is about: the software device's never reach the system's
// library, and all others do.
#include <endian.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "ec_offload/verbs_exp/real_verbs.h"
#include "ec_offload/verbs_exp/soft_device.h"
#include "tests/ec_offload/verbs_exp/connected_pair.h"
#include "tests/ec_offload/verbs_exp/fake_system.h"
#include "tests/ec_offload/verbs_exp/verbs_fixture.h"

namespace ring::ec_verbs {
namespace {

using Calls = std::vector<std::string>;

class VerbsEntryTest : public ::testing::Test {
 protected:
  VerbsEntryTest() {
    fake_.Reset();
    context_ = ibv_open_device(SoftDevice());
    pd_ = ibv_alloc_pd(context_);
    RING_CHECK(pd_ != nullptr);
  }
  ~VerbsEntryTest() override {
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
    EXPECT_EQ(ibv_close_device(context_), 0);
  }

  FakeSystem& fake_ = FakeSystem::Get();
  ibv_context* context_;
  ibv_pd* pd_;
};

TEST_F(VerbsEntryTest, WhatTheSoftwareDeviceDoesNotHaveIsRefused) {
  Endpoint end(pd_);
  Memory memory(pd_, 64);
  ibv_ece ece = {};
  EXPECT_EQ(ibv_query_ece(end.qp(), &ece), EOPNOTSUPP);
  EXPECT_EQ(ibv_set_ece(end.qp(), &ece), EOPNOTSUPP);
  EXPECT_EQ(ibv_qp_to_qp_ex(end.qp()), nullptr);
  const auto refused = [](const void* object) {
    const int error = errno;
    errno = 0;
    return object == nullptr && error == EOPNOTSUPP;
  };
  errno = 0;
  EXPECT_TRUE(refused(ibv_reg_dmabuf_mr(pd_, 0, 64, 0, 0, 0)));
  EXPECT_TRUE(refused(ibv_import_pd(context_, 1)));
  EXPECT_TRUE(refused(ibv_import_mr(pd_, 1)));
  EXPECT_TRUE(refused(ibv_import_dm(context_, 1)));
  ibv_wc wc = {};
  ibv_grh grh = {};
  EXPECT_TRUE(refused(ibv_create_ah_from_wc(pd_, &wc, &grh, 1)));
  ibv_unimport_pd(pd_);
  EXPECT_TRUE(refused(nullptr));
  ibv_unimport_mr(memory.mr());
  EXPECT_TRUE(refused(nullptr));
  ibv_ah_attr attr = {};
  std::uint8_t mac[ETHERNET_LL_SIZE];
  EXPECT_EQ(ibv_resolve_eth_l2_from_gid(context_, &attr, mac, nullptr), -EOPNOTSUPP);
  EXPECT_EQ(fake_.calls, Calls{});
}

TEST_F(VerbsEntryTest, WhatTheSoftwareDeviceKnowsItAnswers) {
  Endpoint end(pd_);
  EXPECT_EQ(ibv_query_qp_data_in_order(end.qp(), IBV_WR_RDMA_WRITE, 0), 0);
  EXPECT_EQ(ibv_get_pkey_index(context_, 1, htobe16(0xffff)), 0);
  EXPECT_EQ(ibv_get_pkey_index(context_, 1, htobe16(0x7fff)), -1);
  EXPECT_EQ(ibv_get_pkey_index(context_, 2, htobe16(0xffff)), -1);
  ibv_wc wc = {};
  wc.slid = 17;
  wc.sl = 3;
  wc.dlid_path_bits = 2;
  ibv_ah_attr attr;
  EXPECT_EQ(ibv_init_ah_from_wc(context_, 1, &wc, nullptr, &attr), 0);
  EXPECT_EQ(attr.dlid, 17);
  EXPECT_EQ(attr.sl, 3);
  EXPECT_EQ(attr.src_path_bits, 2);
  EXPECT_EQ(attr.port_num, 1);
  EXPECT_EQ(attr.is_global, 0);
  ibv_grh grh = {};
  wc.wc_flags = IBV_WC_GRH;
  EXPECT_EQ(ibv_init_ah_from_wc(context_, 1, &wc, &grh, &attr), -1);
  EXPECT_EQ(fake_.calls, Calls{});
}

TEST_F(VerbsEntryTest, ObjectsOfOtherDevicesGoToTheSystemsLibrary) {
  ibv_ece ece = {};
  ibv_wc wc = {};
  ibv_grh grh = {};
  ibv_ah_attr attr = {};
  std::uint8_t mac[ETHERNET_LL_SIZE];
  fake_.result = 5;
  EXPECT_EQ(ibv_query_ece(&fake_.qp, &ece), 5);
  EXPECT_EQ(ibv_set_ece(&fake_.qp, &ece), 5);
  EXPECT_EQ(ibv_query_qp_data_in_order(&fake_.qp, IBV_WR_SEND, 0), 5);
  EXPECT_EQ(ibv_qp_to_qp_ex(&fake_.qp), nullptr);
  EXPECT_EQ(ibv_get_pkey_index(&fake_.context, 1, 0), 5);
  EXPECT_EQ(ibv_init_ah_from_wc(&fake_.context, 1, &wc, &grh, &attr), 5);
  EXPECT_EQ(ibv_create_ah_from_wc(&fake_.pd, &wc, &grh, 1), nullptr);
  EXPECT_EQ(ibv_resolve_eth_l2_from_gid(&fake_.context, &attr, mac, nullptr), 5);
  EXPECT_EQ(ibv_import_pd(&fake_.context, 1), &fake_.pd);
  ibv_unimport_pd(&fake_.pd);
  EXPECT_EQ(ibv_import_dm(&fake_.context, 1), nullptr);
  EXPECT_EQ(fake_.calls, (Calls{"ibv_query_ece", "ibv_set_ece", "ibv_query_qp_data_in_order",
                                "ibv_qp_to_qp_ex", "ibv_get_pkey_index", "ibv_init_ah_from_wc",
                                "ibv_create_ah_from_wc", "ibv_resolve_eth_l2_from_gid",
                                "ibv_import_pd", "ibv_unimport_pd", "ibv_import_dm"}));
}

TEST_F(VerbsEntryTest, RegionsThatOthersMadeGoToTheSystemsLibrary) {
  for (ibv_mr* const mr :
       {ibv_import_mr(&fake_.pd, 1), ibv_reg_dmabuf_mr(&fake_.pd, 0, 64, 0, 0, 0)}) {
    ASSERT_NE(mr, nullptr);
    ibv_unimport_mr(mr);
  }
  EXPECT_EQ(fake_.calls,
            (Calls{"ibv_import_mr", "ibv_reg_dmabuf_mr", "ibv_unimport_mr", "ibv_unimport_mr"}));
}

TEST_F(VerbsEntryTest, ADomainOfAnotherDeviceWithAContextIsBusy) {
  Bytes matrix = SlowField(8).CauchyMatrix(2, 1);
  ibv_exp_ec_calc_init_attr attr = Attributes(2, 1, 8, matrix);
  ibv_exp_ec_calc* const calc = ibv_exp_alloc_ec_calc(&fake_.pd, &attr);
  ASSERT_NE(calc, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(&fake_.pd), EBUSY);
  EXPECT_EQ(fake_.calls, Calls{});
  ibv_exp_dealloc_ec_calc(calc);
  EXPECT_EQ(ibv_dealloc_pd(&fake_.pd), 0);
  EXPECT_EQ(fake_.calls, Calls{"ibv_dealloc_pd"});
}

// Whether calculations may use a region of the system's library after it changed it, or did not.
class OtherRegionTest : public VerbsEntryTest {
 protected:
  OtherRegionTest()
      : matrix_(SlowField(8).CauchyMatrix(1, 1)),
        attr_(Attributes(1, 1, 8, matrix_)),
        calc_(ibv_exp_alloc_ec_calc(&fake_.pd, &attr_)),
        mr_(ibv_reg_mr(&fake_.pd, memory_, sizeof(memory_), IBV_ACCESS_LOCAL_WRITE)) {}
  ~OtherRegionTest() override { ibv_exp_dealloc_ec_calc(calc_); }
  // The value of a calculation in both halves of `memory`, by the key.
  int Use(std::uint32_t key, std::uint8_t* memory) {
    const auto at = reinterpret_cast<std::uint64_t>(memory);
    ibv_sge data = {at, 64, key};
    ibv_sge code = {at + 64, 64, key};
    ibv_exp_ec_mem mem = {&data, 1, &code, 1, 64};
    return ibv_exp_ec_encode_sync(calc_, &mem);
  }
  int Rereg(int flags, int result) {
    fake_.result = result;
    const int given = ibv_rereg_mr(mr_, flags, &fake_.other_pd, moved_, sizeof(moved_), 0);
    fake_.result = 0;
    return given;
  }

  std::uint8_t memory_[128] = {};
  std::uint8_t moved_[128] = {};
  Bytes matrix_;
  ibv_exp_ec_calc_init_attr attr_;
  ibv_exp_ec_calc* calc_;
  ibv_mr* mr_;
};

TEST_F(OtherRegionTest, AFailedDeregistrationLeavesTheRegionUsable) {
  const std::uint32_t key = mr_->lkey;
  ASSERT_EQ(Use(key, memory_), 0);
  fake_.result = EBUSY;
  EXPECT_EQ(ibv_dereg_mr(mr_), EBUSY);
  EXPECT_EQ(Use(key, memory_), 0);
  fake_.result = 0;
  EXPECT_EQ(ibv_dereg_mr(mr_), 0);
  EXPECT_EQ(Use(key, memory_), IBV_EXP_EC_CALC_FAIL);
}

TEST_F(OtherRegionTest, AFailedReregistrationLeavesTheRegionUsableWhereItIsValidStill) {
  const std::uint32_t key = mr_->lkey;
  for (const int error : {IBV_REREG_MR_ERR_INPUT, IBV_REREG_MR_ERR_DONT_FORK_NEW}) {
    EXPECT_EQ(Rereg(IBV_REREG_MR_CHANGE_TRANSLATION, error), error);
    EXPECT_EQ(Use(key, memory_), 0);
  }
  EXPECT_EQ(Rereg(IBV_REREG_MR_CHANGE_TRANSLATION, IBV_REREG_MR_ERR_CMD), IBV_REREG_MR_ERR_CMD);
  EXPECT_EQ(Use(key, memory_), IBV_EXP_EC_CALC_FAIL);
  EXPECT_EQ(ibv_dereg_mr(mr_), 0);
}

TEST_F(OtherRegionTest, AReregistrationChangesWhatItsFlagsName) {
  const std::uint32_t key = mr_->lkey;
  // The rights stay.
  EXPECT_EQ(Rereg(IBV_REREG_MR_CHANGE_TRANSLATION, IBV_REREG_MR_ERR_DO_FORK_OLD),
            IBV_REREG_MR_ERR_DO_FORK_OLD);
  EXPECT_EQ(Use(mr_->lkey, moved_), 0);
  EXPECT_EQ(Use(mr_->lkey, memory_), IBV_EXP_EC_CALC_FAIL);
  EXPECT_EQ(Use(key, memory_), IBV_EXP_EC_CALC_FAIL);
  EXPECT_EQ(Rereg(IBV_REREG_MR_CHANGE_ACCESS, 0), 0);  // to read only
  EXPECT_EQ(Use(mr_->lkey, moved_), IBV_EXP_EC_CALC_FAIL);
  EXPECT_EQ(ibv_dereg_mr(mr_), 0);
}

TEST_F(VerbsEntryTest, AFunctionThatAnOlderLibraryDoesNotHaveIsNotSupported) {
  int (*const none)(ibv_qp*, ibv_ece*) = nullptr;
  errno = 0;
  EXPECT_EQ(CallReal(none, EOPNOTSUPP, &fake_.qp, nullptr), EOPNOTSUPP);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

}  // namespace
}  // namespace ring::ec_verbs
