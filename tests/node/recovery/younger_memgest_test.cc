// Memgests that are made while the roles which are to hold them change hands (G11, V2, L7).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ring/cluster/health.h"
#include "tests/node/epoch_cluster.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using protocol::MemgestDescriptor;
using protocol::MemgestState;

class YoungerMemgestTest : public ::testing::Test {
 protected:
  // Nodes 3 and 4 hold nothing of a catalogue without redundancy.
  void Start() {
    const auto lone = [](NodeConfig* config) {
      std::erase_if(config->memgests, [](const MemgestDescriptor& memgest) {
        return memgest.scheme != protocol::Scheme::kReplicated || memgest.r != 1;
      });
      config->default_memgest = config->memgests.front().name;
    };
    ASSERT_OK(cluster_.Start(1, lone));
  }

  // Within Run.
  absl::Status Make(const MemgestDescriptor& descriptor) {
    return cluster_.ApplyHere(cluster::CreateCommand({descriptor.name, 1}, descriptor));
  }
  static MemgestDescriptor Rep3() {
    MemgestDescriptor descriptor;
    descriptor.name = "made-rep3";
    descriptor.r = 3;
    return descriptor;
  }
  static MemgestDescriptor Srs32(int number) {
    MemgestDescriptor descriptor;
    descriptor.name = absl::StrCat("made-srs32-", number);
    descriptor.scheme = protocol::Scheme::kStretchedReedSolomon;
    descriptor.k = 3;
    descriptor.m = 2;
    return descriptor;
  }
  absl::Status Activate(absl::string_view name) {
    return cluster_.WaitUntilNothing([this, name]() -> std::string {
      // A copy: what is applied replaces the view.
      const std::vector<MemgestDescriptor> memgests = cluster_.view().memgests;
      for (const MemgestDescriptor& memgest : memgests) {
        if (memgest.name != name || memgest.state == MemgestState::kActive) continue;
        const absl::Status status = cluster_.ApplyHere(cluster::SetStateCommand(
            {}, memgest.id, MemgestState::kCreating, MemgestState::kActive));
        if (!status.ok()) return std::string(status.message());
      }
      return "";
    });
  }
  // Every shard that lives through this has a proposal under way.
  absl::Status WaitProposing() {
    return cluster_.WaitUntilNothing([this]() -> std::string {
      const cluster::View& view = cluster_.view();
      for (const cluster::GroupView& group : view.groups) {
        for (int i = 0; i < view.s; ++i) {
          const std::size_t shard = static_cast<std::size_t>(i);
          Node* const node = cluster_.node(group.roles[shard]);
          for (const auto& held : node->shards()) {
            const auto* const change = held->change();
            const bool there =
                change != nullptr && (change->phase() == recovery::EpochPhase::kProposing ||
                                      change->phase() == recovery::EpochPhase::kServing);
            if (!there) return absl::StrCat("does not propose: ", held->Missing());
          }
        }
      }
      return "";
    });
  }
  // Everybody who is to hold a memgest counts for it, by the records.
  absl::Status WaitWhole() {
    return cluster_.WaitUntilNothing([this]() -> std::string {
      for (const std::string& warning : cluster::HealthWarnings(cluster_.view())) {
        if (absl::StrContains(warning, "protected") && absl::StrContains(warning, "made"))
          return warning;
      }
      return "";
    });
  }
  void Use(absl::string_view memgest) {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Client> client, cluster_.Connect());
    for (int i = 0; i < 20; ++i) {
      const std::string key = absl::StrCat(memgest, "/", i);
      ASSERT_OK(client->Put(key, "value", {.memgest = std::string(memgest)}).status()) << key;
    }
  }

  testing::EpochCluster cluster_;
};

// Of role 4 the record says nothing, as no memgest of it is there, and its holder is new.
TEST_F(YoungerMemgestTest, L7ARoleThatNoMemgestUsedCountsOnlyWhenItIsNamed) {
  Start();
  cluster_.HoldNormals(true);
  cluster_.Kill(NodeId(4));
  ASSERT_OK(cluster_.Fail(NodeId(4)));
  ASSERT_OK(WaitProposing());
  cluster_.Run([&] { ASSERT_OK(Make(Rep3())); });
  cluster_.HoldNormals(false);
  ASSERT_OK(cluster_.WaitServing());
  ASSERT_OK(Activate(Rep3().name));
  ASSERT_OK(cluster_.WaitProtected());
  ASSERT_OK(WaitWhole());
  Use(Rep3().name);
}

// Before who joins is connected, in the middle of it, and behind it.
TEST_F(YoungerMemgestTest, S6AParityCountsForMemgestsThatAreMadeWhileItJoins) {
  Start();
  cluster_.HoldNormals(true);
  cluster_.Kill(NodeId(4));
  ASSERT_OK(cluster_.Fail(NodeId(4)));
  ASSERT_OK(WaitProposing());
  cluster_.HoldNormals(false);
  constexpr int kMemgests = 24;
  for (int i = 0; i < kMemgests; ++i) {
    cluster_.Run([&] { ASSERT_OK(Make(Srs32(i))); });
  }
  ASSERT_OK(cluster_.WaitServing());
  for (int i = 0; i < kMemgests; ++i) ASSERT_OK(Activate(Srs32(i).name));
  ASSERT_OK(WaitWhole());
  Use(Srs32(0).name);
}

}  // namespace
}  // namespace ring::node
