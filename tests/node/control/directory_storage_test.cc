// Where a voter's part in the consensus is kept, and a learner's is not: rule 10.6.
#include "ring/node/control/directory_storage.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

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
  std::string Path(const std::string& file) const {
    return absl::StrCat(directory_.path(), "/", kName, "/", file);
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
  const std::string blocked = Path(absl::StrCat("snapshot-", std::string(16, '0'), ".tmp"));
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

// The number given to who comes back is the founder's: with it the node may have voted from a disk
// that is gone.
TEST_F(DirectoryStorageTest, Rule10_6WhoCouldNotBeReadIsNotGivenTheNumberOfAFounder) {
  for (const bool has_id : {true, false}) {
    const std::unique_ptr<VoterStorage> disk = Disk();
    consensus::ServerId id = kLater;
    {
      ASSERT_OK_AND_ASSIGN(const std::unique_ptr<consensus::Storage> storage,
                           Disk()->Open(&id, nullptr));
      EXPECT_TRUE(disk->HasMemory()) << "somebody has the lock at this moment";
    }
    if (!has_id) {
      ASSERT_TRUE(std::filesystem::remove(Path("identity")));
    }
    id = kFirst;
    EXPECT_THAT(disk->Open(&id, nullptr),
                StatusIs(absl::StatusCode::kAborted,
                         AllOf(HasSubstr(directory_.path()), HasSubstr("start the node again"))));
    EXPECT_EQ(std::filesystem::exists(Path("identity")), has_id);
  }
  EXPECT_FALSE(Disk()->HasMemory()) << "the next start is told so, and may join, or found";
}

TEST_F(DirectoryStorageTest, Rule10_6WhoCannotBeReadForAMomentComesBackLater) {
  const std::unique_ptr<VoterStorage> disk = Disk();
  consensus::ServerId id = kLater;
  {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<consensus::Storage> storage,
                         Disk()->Open(&id, nullptr));
    ASSERT_OK(storage->Load().status());
    ASSERT_OK(consensus::Bootstrap(OneVoter(), *storage));
    EXPECT_TRUE(disk->HasMemory());
    EXPECT_FALSE(disk->Open(&id, nullptr).ok());
  }
  id = kFirst;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<consensus::Storage> storage, disk->Open(&id, nullptr));
  EXPECT_EQ(id, kLater);
  ASSERT_OK_AND_ASSIGN(const consensus::InitialState initial, storage->Load());
  EXPECT_FALSE(consensus::IsEmpty(initial));
}

TEST_F(DirectoryStorageTest, Rule10_6AFolderThatLostItsIdentityIsRefusedWithWhatToDo) {
  consensus::ServerId id = kFirst;
  {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<consensus::Storage> storage,
                         Disk()->Open(&id, nullptr));
    ASSERT_OK(storage->Load().status());
    ASSERT_OK(consensus::Bootstrap(OneVoter(), *storage));
  }
  ASSERT_TRUE(std::filesystem::remove(Path("identity")));
  EXPECT_THAT(Disk()->Check(),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr(absl::StrCat(directory_.path(), "/", kName)),
                             HasSubstr("no identity"), HasSubstr("remove the directory"))));
  EXPECT_TRUE(Disk()->HasMemory()) << "it is no new server's";
  std::filesystem::remove_all(Path(""));  // as it was told
  EXPECT_OK(Disk()->Check());
  EXPECT_FALSE(Disk()->HasMemory());
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
  std::ofstream(Path("identity")) << "broken";
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
