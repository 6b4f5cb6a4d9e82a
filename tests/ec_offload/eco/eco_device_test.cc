// The device that a context of mlx_eco_init opens: verbs of this program's own, behind the weak
// references of the library.
#include <infiniband/verbs.h>
#include <infiniband/verbs_exp.h>

#include <string>
#include <vector>

#include "ec_offload/eco/include/ecOffload/eco_common.h"
#include "gtest/gtest.h"

namespace ring::ec_offload {
namespace {

// The devices that there are, by name; the one opened; what is open of each kind.
struct FakeVerbs {
  std::vector<std::string> names;
  std::vector<ibv_device> devices;
  std::vector<ibv_device*> list;
  int opened = -1;
  int open_count = 0;
  ibv_context context{};
  ibv_pd pd{};
  ibv_exp_ec_calc calc{};
  ibv_mr region{};
};

FakeVerbs& Fake() {
  static FakeVerbs fake;
  return fake;
}

void Done(ibv_exp_ec_comp*) {}

// The index of the device that a context opens; all is closed again at its release.
int OpenedAmong(std::vector<std::string> names) {
  FakeVerbs& fake = Fake();
  fake.names = std::move(names);
  fake.devices.assign(fake.names.size(), {});
  fake.list.clear();
  for (ibv_device& device : fake.devices) fake.list.push_back(&device);
  fake.list.push_back(nullptr);
  fake.opened = -1;
  eco_context* const context = mlx_eco_init(nullptr, 4, 2, 1, Done);
  EXPECT_NE(context, nullptr);
  EXPECT_EQ(context->calc, fake.names.empty() ? nullptr : &fake.calc);
  EXPECT_EQ(mlx_eco_release(context), 0);
  EXPECT_EQ(fake.open_count, 0);
  return fake.opened;
}

TEST(EcoDevice, TheFirstNamedMlx50IsOpenedElseTheFirst) {
  EXPECT_EQ(OpenedAmong({"a", "mlx5_0", "b", "mlx5_0"}), 1);
  EXPECT_EQ(OpenedAmong({"mlx5_0", "mlx5_0"}), 0);
  EXPECT_EQ(OpenedAmong({"a", "b"}), 0);
  EXPECT_EQ(OpenedAmong({}), -1);
}

TEST(EcoDevice, DeletingAListDeregistersItsRegions) {
  Fake().open_count = 2;
  ibv_mr first{};
  ibv_mr second{};
  eco_list head;
  init_eco_list(&head);
  EXPECT_EQ(eco_list_add(&head, &first), 0);
  EXPECT_EQ(eco_list_add(&head, &second), 0);
  eco_list_delete_all(&head);
  EXPECT_EQ(Fake().open_count, 0);
  EXPECT_EQ(head.next, &head);
  eco_list_delete_all(&head);
  EXPECT_EQ(Fake().open_count, 0);
}

}  // namespace
}  // namespace ring::ec_offload

using ring::ec_offload::Fake;

extern "C" {

ibv_device** ibv_get_device_list(int*) {
  ++Fake().open_count;
  return Fake().list.data();
}
void ibv_free_device_list(ibv_device**) { --Fake().open_count; }
const char* ibv_get_device_name(ibv_device* device) {
  return Fake().names[static_cast<std::size_t>(device - Fake().devices.data())].c_str();
}
ibv_context* ibv_open_device(ibv_device* device) {
  ++Fake().open_count;
  Fake().opened = static_cast<int>(device - Fake().devices.data());
  return &Fake().context;
}
int ibv_close_device(ibv_context*) {
  --Fake().open_count;
  return 0;
}
ibv_pd* ibv_alloc_pd(ibv_context*) {
  ++Fake().open_count;
  return &Fake().pd;
}
int ibv_dealloc_pd(ibv_pd*) {
  --Fake().open_count;
  return 0;
}
// In parentheses: the function, not the macro.
ibv_mr*(ibv_reg_mr)(ibv_pd*, void*, std::size_t, int) {
  ++Fake().open_count;
  return &Fake().region;
}
int ibv_dereg_mr(ibv_mr*) {
  --Fake().open_count;
  return 0;
}
ibv_exp_ec_calc* ibv_exp_alloc_ec_calc(ibv_pd*, ibv_exp_ec_calc_init_attr*) {
  ++Fake().open_count;
  return &Fake().calc;
}
void ibv_exp_dealloc_ec_calc(ibv_exp_ec_calc*) { --Fake().open_count; }

}  // extern "C"
