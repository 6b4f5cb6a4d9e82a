// With fail_over = "off" nobody takes a lost member's part: what a quorum of copies takes goes on.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "api/client.h"
#include "ring/cluster/routing.h"
#include "tests/node/node_cluster.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

TEST(LostMember, WithoutFailOverQuorumsGoOnWhateverElseWasUsed) {
  testing::NodeCluster cluster;
  ASSERT_OK(cluster.Start());
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Client> client, cluster.Connect());
  const cluster::Routing routing(3, 2);
  const auto put = [&](const std::string& memgest, int count) {
    for (int i = 0; count > 0; ++i) {
      const std::string key = absl::StrCat(memgest, "/", i);
      const cluster::Place place = routing.OfKey(key);
      if (place.group != GroupId(0) || place.shard != ShardId(0)) continue;
      ASSERT_OK(client->Put(key, "value", {.memgest = memgest}).status()) << count << " to come";
      --count;
    }
  };
  put("SRS32", 3);
  put("REP4", 3);
  cluster.Kill(NodeId(3));  // role 3 of the group; role 4 has a parity and copies, too
  put("REP3", 600);         // more than is kept for a member that may be back
}

}  // namespace
}  // namespace ring::node
