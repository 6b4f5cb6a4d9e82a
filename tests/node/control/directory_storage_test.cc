// Where a voter's part in the consensus is kept, and a learner's is not: rule 10.6.
#include "ring/node/control/directory_storage.h"

#include <filesystem>
#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/node/host.h"
#include "tests/consensus/file/temp_directory.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ::ring::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kName[] = "n";
constexpr NodeId kVoter{1};
const consensus::ServerId kFirst = consensus::MakeServerId(1, 5);
const consensus::ServerId kLater = consensus::MakeServerId(1, 9);

class DirectoryStorageTest : public ::testing::Test {
 protected:
  DirectoryStorageTest() : config_(EmbeddedConfig()) {
    config_.control.data_dir = directory_.path();
  }
  std::unique_ptr<VoterStorage> Disk(NodeId node = kVoter) {
    return MakeVoterStorage(config_, node, kName);
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
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<consensus::Storage> storage,
                         Disk()->Open(&id, nullptr));
    ASSERT_OK_AND_ASSIGN(const consensus::InitialState initial, storage->Load());
    EXPECT_TRUE(consensus::IsEmpty(initial));
    EXPECT_EQ(id, kFirst);
  }
  // Nobody adds a founder that ended before its configuration was durable: the others have it in
  // theirs.
  EXPECT_FALSE(Disk()->HasMemory()) << "an id alone is none";
  id = kLater;
  {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<consensus::Storage> storage,
                         Disk()->Open(&id, nullptr));
    EXPECT_EQ(id, kLater);
    ASSERT_OK(storage->Load().status());
    ASSERT_OK(consensus::Bootstrap(OneVoter(), *storage));
  }
  EXPECT_TRUE(Disk()->HasMemory());
  id = kFirst;
  ASSERT_OK(Disk()->Open(&id, nullptr).status());
  EXPECT_EQ(id, kLater) << "it may have voted";
}

// 10.6, F11: its files are there, and say nothing: it founds once the disk takes them.
TEST_F(DirectoryStorageTest, Rule10_6AFounderWhoseDiskWasFullFoundsLater) {
  const std::string blocked =
      absl::StrCat(directory_.path(), "/", kName, "/snapshot-", std::string(16, '0'), ".tmp");
  consensus::ServerId id = kFirst;
  {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<consensus::Storage> storage,
                         Disk()->Open(&id, nullptr));
    ASSERT_OK(storage->Load().status());
    ASSERT_TRUE(std::filesystem::create_directory(blocked));
    ASSERT_FALSE(consensus::Bootstrap(OneVoter(), *storage).ok());
    ASSERT_TRUE(std::filesystem::remove(blocked));
  }
  ASSERT_FALSE(Disk()->HasMemory());
  for (const bool is_next_start : {false, true}) {
    id = kLater;
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<consensus::Storage> storage,
                         Disk()->Open(&id, nullptr));
    EXPECT_EQ(id, kLater);
    ASSERT_OK(storage->Load().status());
    if (is_next_start) continue;
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
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<consensus::Storage> storage,
                         disk->Open(&id, nullptr));
    ASSERT_OK(storage->Load().status());
    ASSERT_OK(consensus::Bootstrap(OneVoter(), *storage));
    EXPECT_EQ(id, kFirst);
    EXPECT_FALSE(disk->HasMemory());
  }
}

TEST_F(DirectoryStorageTest, WhatCannotBeOpenedNamesTheFolderAndWhatToDo) {
  EXPECT_OK(Disk()->Check());
  EXPECT_FALSE(Disk()->HasMemory());
  config_.control.data_dir = directory_.path() + "/mounted";
  EXPECT_THAT(Disk()->Check(),
              StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr(config_.control.data_dir),
                                                          HasSubstr("create it, or mount it"))));
  const NodeId learner(static_cast<std::uint32_t>(config_.voter_count()));
  EXPECT_OK(Disk(learner)->Check()) << "which keeps nothing";
  std::ofstream(config_.control.data_dir) << "a file";
  EXPECT_THAT(Disk()->Check(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(config_.control.data_dir)));
}

TEST_F(DirectoryStorageTest, WhatIsAnothersOrBrokenIsSaidBeforeItIsUsed) {
  consensus::ServerId id = kFirst;
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<consensus::Storage> storage, Disk()->Open(&id, nullptr));
  EXPECT_THAT(Disk()->Check(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another process")));
  storage.reset();
  EXPECT_OK(Disk()->Check());
  EXPECT_THAT(Disk(NodeId(2))->Check(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("belongs to node=1")));
  std::ofstream(absl::StrCat(directory_.path(), "/", kName, "/identity")) << "broken";
  EXPECT_THAT(Disk()->Check(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("corrupt")));
}

TEST_F(DirectoryStorageTest, ANodeWhoseFolderIsMissingDoesNotStart) {
  config_.control.data_dir = directory_.path() + "/missing";
  HostOptions options;
  options.config = config_;
  EXPECT_THAT(Host::Start(options),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("node n0: data_dir="), HasSubstr("/missing"))));
}

}  // namespace
}  // namespace ring::node
