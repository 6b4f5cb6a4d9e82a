// Where a voter's part in the consensus is kept, and a learner's is not: rule 10.6.
#include "ring/node/control/directory_storage.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/node/host.h"
#include "tests/consensus/file/temp_directory.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

constexpr NodeId kVoter{1};
const consensus::ServerId kFirst = consensus::MakeServerId(1, 5);
const consensus::ServerId kLater = consensus::MakeServerId(1, 9);

class DirectoryStorageTest : public ::testing::Test {
 protected:
  DirectoryStorageTest() : config_(EmbeddedConfig()) {
    config_.control.data_dir = directory_.path();
  }
  std::unique_ptr<VoterStorage> Disk(NodeId node = kVoter) {
    return MakeVoterStorage(config_, node, "n");
  }
  static consensus::Configuration OneVoter() {
    consensus::Configuration configuration;
    configuration.AddVoter(kFirst);
    return configuration;
  }
  consensus::TempDirectory directory_;
  NodeConfig config_;
};

TEST_F(DirectoryStorageTest, Rule10_6AVoterComesBackAsWhoItWas) {
  EXPECT_FALSE(Disk()->HasMemory());
  consensus::ServerId id = kFirst;
  {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<consensus::Storage> storage, Disk()->Open(&id));
    ASSERT_OK_AND_ASSIGN(const consensus::InitialState initial, storage->Load());
    EXPECT_TRUE(consensus::IsEmpty(initial));
    EXPECT_EQ(id, kFirst);
  }
  EXPECT_FALSE(Disk()->HasMemory()) << "an id alone is none";
  id = kLater;
  {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<consensus::Storage> storage, Disk()->Open(&id));
    EXPECT_EQ(id, kFirst);
    ASSERT_OK(storage->Load().status());
    ASSERT_OK(consensus::Bootstrap(OneVoter(), *storage));
  }
  EXPECT_TRUE(Disk()->HasMemory());
}

TEST_F(DirectoryStorageTest, Rule10_6LearnersAndNodesWithoutAFolderKeepNothing) {
  const NodeId learner(static_cast<std::uint32_t>(config_.voter_count()));
  for (const bool has_folder : {true, false}) {
    if (!has_folder) config_.control.data_dir.clear();
    const std::unique_ptr<VoterStorage> disk = Disk(has_folder ? learner : kVoter);
    consensus::ServerId id = kFirst;
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<consensus::Storage> storage, disk->Open(&id));
    ASSERT_OK(storage->Load().status());
    ASSERT_OK(consensus::Bootstrap(OneVoter(), *storage));
    EXPECT_EQ(id, kFirst);
    EXPECT_FALSE(disk->HasMemory());
  }
}

}  // namespace
}  // namespace ring::node
