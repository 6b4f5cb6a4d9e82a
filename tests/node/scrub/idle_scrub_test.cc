// A node's own scrub: in pauses of the requests, and behind an operator's.
#include "ring/node/scrub/idle_scrub.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "api/client.h"
#include "gtest/gtest.h"
#include "ring/cluster/routing.h"
#include "ring/node/control_services.h"
#include "ring/node/node.h"
#include "tests/node/node_cluster.h"
#include "tests/support/await.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ::ring::testing::Await;

constexpr std::uint64_t kMs = 1'000'000;

class IdleScrubTest : public ::testing::Test {
 protected:
  void Start(std::uint64_t period_ns) {
    ASSERT_OK(cluster_.Start(false, false, FenceKind::kLease, [period_ns](NodeConfig* config) {
      config->scrub_period_ns = period_ns;
    }));
    ASSERT_OK_AND_ASSIGN(client_, cluster_.Connect());
    for (const char* memgest : {"REP1", "REP3", "SRS32"}) {
      for (int i = 0; i < 30; ++i) {
        ASSERT_OK(
            client_
                ->Put(absl::StrCat(memgest, "-", i), std::string(3000, 'v'), {.memgest = memgest})
                .status());
      }
    }
  }
  IdleScrub::Totals OfAllNodes() {
    IdleScrub::Totals sum;
    cluster_.Run([&] {
      for (std::uint32_t i = 0; i < 6; ++i) {
        const IdleScrub::Totals& totals = cluster_.node(i).services().scrub().idle_totals();
        sum.checked += totals.checked;
        sum.mismatches += totals.mismatches;
      }
    });
    return sum;
  }

  testing::NodeCluster cluster_;
  std::unique_ptr<Client> client_;
};

TEST_F(IdleScrubTest, S12EverythingIsComparedWithoutBeingAskedAndWhatDiffersIsTold) {
  Start(20 * kMs);
  Await("three rounds", [&] { return OfAllNodes().checked >= 3 * 90; });
  EXPECT_EQ(OfAllNodes().mismatches, 0u);
  cluster_.Run([&] {
    memgest::ParityStore* store = nullptr;
    const MemgestId srs32 = cluster_.node(0).view()->FindMemgest("SRS32")->id;
    for (std::uint32_t i = 0; i < 6 && store == nullptr; ++i) {
      store = cluster_.node(i).members().FindParity(GroupId(0), srs32);
    }
    ASSERT_NE(store, nullptr);
    *store->heap().At(0) ^= std::byte{1};
  });
  Await("the mismatch", [&] { return OfAllNodes().mismatches != 0; });
  int told = 0;
  cluster_.Run([&] {
    for (std::uint32_t i = 0; i < 6; ++i) {
      for (const Event& event : cluster_.node(i).events().Since(0))
        told += event.kind == EventKind::kMismatch ? 1 : 0;
    }
  });
  EXPECT_GT(told, 0);
}

TEST_F(IdleScrubTest, AnOperatorsScrubIsNeverRefusedBecauseOfIt) {
  Start(1 * kMs);
  for (int i = 0; i < 10; ++i) {
    const absl::StatusOr<ScrubReport> report =
        cluster_.admin().Scrub([](const ScrubProgress&) { return true; });
    ASSERT_OK(report.status());
    EXPECT_EQ(report->mismatches, 0u);
    EXPECT_EQ(report->values_checked, 90u);
  }
}

TEST_F(IdleScrubTest, NoneBeginsWhileRequestsCome) {
  Start(0);
  const cluster::View& view = *cluster_.node(0).view();
  const cluster::Place place = cluster::Routing(view.s, view.d).OfKey("REP1-0");
  Node& owner = cluster_.node(view.Coordinator(place.group, place.shard).value());
  IdleScrub scrub(&owner, 100 * kMs);
  std::uint64_t now_ns = 0;
  const auto pass = [&](std::uint64_t time_ns) {
    cluster_.Run([&] {
      now_ns += time_ns;
      scrub.Progress(now_ns);
    });
  };
  for (int i = 0; i < 50; ++i) {
    ASSERT_OK(client_->Get("REP1-0").status());
    pass(60 * kMs);
    EXPECT_FALSE(scrub.HasWork() || scrub.busy());
  }
  EXPECT_EQ(scrub.totals().checked, 0u);
  Await("the first comparison", [&] {
    pass(10 * kMs);
    return scrub.totals().checked != 0;
  });
  EXPECT_EQ(scrub.totals().mismatches, 0u);
  cluster_.Run([&] { scrub.Stop(); });
}

}  // namespace
}  // namespace ring::node
