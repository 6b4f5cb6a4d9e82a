// By which of its addresses a card takes part.
#include "rdma/verbs/gid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <arpa/inet.h>

#include <string>
#include <vector>

namespace ring::rdma::verbs {
namespace {

using ::testing::HasSubstr;

ibv_gid_entry Entry(std::uint32_t index, ibv_gid_type type, const char* address) {
  ibv_gid_entry entry{};
  entry.gid_index = index;
  entry.gid_type = type;
  EXPECT_EQ(inet_pton(AF_INET6, address, entry.gid.raw), 1);
  return entry;
}

std::vector<ibv_gid_entry> RoceTable() {
  return {Entry(0, IBV_GID_TYPE_ROCE_V1, "fe80::1"), Entry(1, IBV_GID_TYPE_ROCE_V2, "fe80::1"),
          Entry(2, IBV_GID_TYPE_ROCE_V1, "::ffff:10.0.0.1"),
          Entry(3, IBV_GID_TYPE_ROCE_V2, "fd00::1"),
          Entry(4, IBV_GID_TYPE_ROCE_V2, "::ffff:10.0.0.1")};
}

TEST(VerbsGid, RoceVersionTwoWithAnIpv4AddressIsChosen) {
  EXPECT_EQ(ChooseGid(RoceTable(), -1, "mlx5_0")->gid_index, 4u);
}

TEST(VerbsGid, Ipv6ServesWhereThereIsNoIpv4) {
  std::vector<ibv_gid_entry> table = RoceTable();
  table.pop_back();
  EXPECT_EQ(ChooseGid(table, -1, "mlx5_0")->gid_index, 3u);
}

TEST(VerbsGid, TheOneThatIsAskedForIsTaken) {
  EXPECT_EQ(ChooseGid(RoceTable(), 2, "mlx5_0")->gid_index, 2u);
}

TEST(VerbsGid, OneThatIsNotThereIsNamedWithThoseThatAre) {
  const absl::Status status = ChooseGid(RoceTable(), 9, "mlx5_0").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("gid_index=9"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("4=10.0.0.1"));
}

TEST(VerbsGid, AnAddressForASingleWireIsNone) {
  std::vector<ibv_gid_entry> table = RoceTable();
  table.resize(2);
  EXPECT_EQ(ChooseGid(table, -1, "mlx5_0").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ChooseGid({}, -1, "mlx5_0").status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(VerbsGid, AGidStandsForAnAddress) {
  EXPECT_EQ(GidAddress(RoceTable()[4].gid), "10.0.0.1");
  EXPECT_EQ(GidAddress(RoceTable()[3].gid), "fd00::1");
}

}  // namespace
}  // namespace ring::rdma::verbs
