// The data commands of ringctl, as processes, against a double of a node over TCP.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/api/twin_cluster.h"
#include "tests/tools/program.h"

namespace ring::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string& kRingctl = *new std::string(RINGCTL_PROGRAM);

ProgramResult Ringctl(std::vector<std::string> arguments,
                      const std::vector<std::string>& environment = {},
                      const std::string& input = "") {
  arguments.insert(arguments.begin(), kRingctl);
  return RunProgram(arguments, input, environment);
}

class RingctlTest : public ::testing::Test {
 protected:
  ProgramResult Run(std::vector<std::string> arguments, const std::string& input = "") {
    return Ringctl(std::move(arguments), {"RING_SEEDS=" + cluster_.node().address()}, input);
  }
  nlohmann::json RunJson(std::vector<std::string> arguments, int status = 0) {
    arguments.push_back("--json");
    const ProgramResult result = Run(std::move(arguments));
    EXPECT_EQ(result.status, status) << result.out << result.err;
    const auto json = nlohmann::json::parse(result.out, nullptr, false);
    EXPECT_TRUE(json.is_object()) << result.out;
    return json;
  }

  TwinCluster cluster_{1, "tcp"};
  TestFolder folder_;
};

TEST(RingctlUsage, ACommandLineThatIsWrongExitsWithTwo) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"bogus"},
      {"--bogus"},
      {"put"},
      {"put", "k", "v", "w"},
      {"put", "k", "v", "--file", "f"},
      {"put", "k", "v", "--if-version", "x"},
      {"put", "k", "v", "--if-version", "1.2", "--if-absent"},
      {"get"},
      {"get", "k", "--timeout", "soon"},
      {"get", "k", "--timeout", "-1"},
      {"get", "k", "--memgest", "m"},
      {"delete"},
      {"delete", "k", "--if-version", "1"},
      {"move", "k"},
      {"where"},
      {"load"},
      {"verify"},
      {"memgest"},
      {"memgest", "bogus"},
      {"memgest", "create"},
      {"memgest", "create", "--rep", "0"},
      {"memgest", "create", "--rep", "x"},
      {"memgest", "create", "--rep", "3", "--srs", "3,2"},
      {"memgest", "create", "--srs", "3,2", "--commit", "quorum"},
      {"memgest", "create", "--srs", "3,2", "--commit", "all"},
      {"memgest", "create", "--srs", "3,2", "--repair", "lrc"},
      {"memgest", "create", "--rep", "3", "--repair", "rs"},
      {"memgest", "create", "--srs", "3"},
      {"memgest", "create", "--srs", "3,x"},
      {"memgest", "create", "--srs", "3,300"},
      {"memgest", "create", "--rep", "3", "--commit", "some"},
      {"memgest", "create", "--rep", "3", "--block-size", "1"},
      {"memgest", "show"},
      {"memgest", "delete"},
      {"cluster", "extra"},
      {"stats", "--bogus"},
      {"scrub", "extra"},
  };
  for (const std::vector<std::string>& arguments : wrong) {
    const ProgramResult result = Ringctl(arguments);
    std::string line;
    for (const std::string& argument : arguments) absl::StrAppend(&line, argument, " ");
    EXPECT_EQ(result.status, 2) << line << result.out << result.err;
    EXPECT_THAT(result.err, Not(IsEmpty())) << line;
    EXPECT_THAT(result.out, IsEmpty()) << line;
  }
}

TEST(RingctlUsage, AnUnknownCommandIsNamed) {
  EXPECT_THAT(Ringctl({"bogus", "k"}).err, HasSubstr("no such command: bogus"));
}

TEST(RingctlUsage, HelpAndVersionExitWithZeroAndNeedNoCluster) {
  const ProgramResult help = Ringctl({"--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* word : {"put", "verify", "memgest", "scrub", "RING_SEEDS", "EXIT STATUS",
                           "of commands that need --admin 30"}) {
    EXPECT_THAT(help.out, HasSubstr(word));
  }
  EXPECT_EQ(Ringctl({"put", "--help"}).status, 0);
  EXPECT_EQ(Ringctl({"memgest", "create", "--help"}).status, 0);
  EXPECT_EQ(Ringctl({"--version"}).status, 0);
  EXPECT_EQ(Ringctl({"--version"}).out, "ringctl 0.1.0\n");
}

TEST(RingctlUsage, NoClusterIsARefusalThatSaysWhatToDo) {
  const ProgramResult none = Ringctl({"get", "k"});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, AllOf(HasSubstr("RING_SEEDS"), HasSubstr("(failed_precondition)")));
  const ProgramResult down = Ringctl({"get", "k", "--seeds", "127.0.0.1:1", "--timeout", "0.3"});
  EXPECT_EQ(down.status, 1);
  EXPECT_THAT(down.err, AllOf(HasSubstr("key=k"), HasSubstr("127.0.0.1:1")));
}

TEST(RingctlUsage, SeedsThatAreNoAddressesAreAWrongCommandLine) {
  for (const char* const command : {"get", "delete", "where"}) {
    const ProgramResult bad = Ringctl({command, "k", "--seeds", "nowhere"});
    EXPECT_EQ(bad.status, 2) << command;
    EXPECT_THAT(bad.err, HasSubstr("seed=nowhere is no address")) << command;
  }
}

TEST(RingctlUsage, DataCommandsLoadNoGrpc) {
  const ProgramResult data = Ringctl({"get", "k"}, {"LD_TRACE_LOADED_OBJECTS=1"});
  EXPECT_EQ(data.status, 0);
  EXPECT_THAT(data.out, AllOf(HasSubstr("libc.so"), Not(HasSubstr("libgrpc")),
                              Not(HasSubstr("libprotobuf"))));
}

TEST(RingctlUsage, AMissingAdminProgramIsNamed) {
  const TestFolder folder;
  std::filesystem::copy(kRingctl, folder / "ringctl");
  const ProgramResult result = RunProgram({folder / "ringctl", "cluster"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr(folder / "ringctl-admin: No such file"));
  EXPECT_EQ(RunProgram({folder / "ringctl", "health"}).status, 3) << "no level";
}

TEST_F(RingctlTest, PutsGetsMovesAndDeletesAKey) {
  EXPECT_EQ(Run({"put", "user:1", "Ada"}).status, 0);
  EXPECT_EQ(Run({"get", "user:1"}).out, "Ada");
  EXPECT_EQ(RunJson({"move", "user:1", "two"})["memgest"], "two");
  const nlohmann::json where = RunJson({"where", "user:1"});
  EXPECT_EQ(where["memgest"], "two");
  EXPECT_EQ(where["node"], 0);
  EXPECT_EQ(where["node_name"], "twin-0");
  EXPECT_THAT(Run({"where", "user:1"}).out, AllOf(HasSubstr("COORDINATOR"), HasSubstr("twin-0")));
  EXPECT_EQ(Run({"delete", "user:1"}).status, 0);
  const ProgramResult gone = Run({"get", "user:1"});
  EXPECT_EQ(gone.status, 1);
  EXPECT_THAT(gone.out, IsEmpty());
  EXPECT_THAT(gone.err, HasSubstr("key=user:1"));
}

TEST_F(RingctlTest, JsonOfADeleteNamesTheKeyAndTheVersionOfItsTombstone) {
  const std::string stored = RunJson({"put", "user:1", "Ada"})["version"];
  const nlohmann::json deleted = RunJson({"delete", "user:1"});
  EXPECT_EQ(deleted["key"], "user:1");
  EXPECT_THAT(deleted["version"].get<std::string>(), AllOf(Not(IsEmpty()), Not(stored)));
  EXPECT_EQ(RunJson({"delete", "user:1"}, 1)["error"]["code"], "NOT_FOUND");
  EXPECT_EQ(Run({"put", "\xff", "v"}).status, 0);
  EXPECT_EQ(RunJson({"delete", "\xff"})["key_base64"], "/w==");
}

TEST_F(RingctlTest, KeysMayBeCommandsOptionsAndOddBytes) {
  for (const std::string key :
       {"get", "put", "memgest", "--json", "-k", " ", "a b", "\xff\xfe\n", "[1,2]", "%s", "{x}"}) {
    EXPECT_EQ(Run({"put", "--", key, "[v]"}).status, 0) << key;
    EXPECT_EQ(Run({"get", "--", key}).out, "[v]") << key;
  }
  EXPECT_EQ(Run({"put", "plain", "get"}).status, 0);
  EXPECT_EQ(Run({"get", "plain"}).out, "get");
}

TEST_F(RingctlTest, ValuesAreBytesFromArgumentFileAndStdin) {
  std::string bytes;
  for (int i = 0; i < 100000; ++i) bytes.push_back(static_cast<char>(i * 7));
  EXPECT_EQ(Run({"put", "in"}, bytes).status, 0);
  EXPECT_EQ(Run({"put", "dash", "--file", "-"}, bytes).status, 0);
  EXPECT_EQ(Run({"put", "file", "--file", folder_.Write("v", bytes)}).status, 0);
  EXPECT_EQ(Run({"put", "empty", ""}).status, 0);
  for (const char* key : {"in", "dash", "file"}) EXPECT_EQ(Run({"get", key}).out, bytes) << key;
  EXPECT_EQ(Run({"get", "empty"}).out, "");
  EXPECT_EQ(Run({"get", "in", "--file", folder_ / "out"}).out, "");
  EXPECT_EQ(ReadTestFile(folder_ / "out"), bytes);
}

TEST_F(RingctlTest, JsonHoldsBytesThatAreNoTextAsBase64) {
  EXPECT_EQ(Run({"put", "\xff", "--file", "-"}, std::string("\0\x80", 2)).status, 0);
  const nlohmann::json got = RunJson({"get", "\xff"});
  EXPECT_EQ(got["key_base64"], "/w==");
  EXPECT_EQ(got["value_base64"], "AIA=");
  EXPECT_EQ(got["size"], 2);
  EXPECT_EQ(RunJson({"put", "k", "gr\u00fc\u00df"})["memgest"], "one");
  EXPECT_EQ(RunJson({"get", "k"})["value"], "gr\u00fc\u00df");
}

TEST_F(RingctlTest, LongKeysAreCutInMessagesOnly) {
  const std::string key(1024, 'x');
  const ProgramResult stored = Run({"put", key, "v"});
  EXPECT_THAT(stored.out, HasSubstr("key=" + std::string(64, 'x') + "...(1024 bytes) "));
  EXPECT_EQ(Run({"get", key}).out, "v");
  EXPECT_EQ(RunJson({"get", key})["key"], key);
  const ProgramResult refused = Run({"put", key + "x", "v"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("...(1025 bytes)"), HasSubstr("length=1025")));
  // Never in the middle of a character.
  std::string umlauts(63, 'x');
  for (int i = 0; i < 20; ++i) umlauts += "\xc3\xbc";
  EXPECT_THAT(Run({"put", umlauts, "v"}).out,
              HasSubstr("key=" + std::string(63, 'x') + "...(103 bytes)"));
}

TEST_F(RingctlTest, JsonOfAValueForStdoutIsOneObject) {
  EXPECT_EQ(Run({"put", "k", "v"}).status, 0);
  EXPECT_EQ(RunJson({"get", "k", "--file", "-"})["value"], "v");
}

TEST_F(RingctlTest, VersionsGuardPutsAndDeletes) {
  const std::string version = RunJson({"put", "k", "1"})["version"];
  EXPECT_EQ(Run({"put", "k", "2", "--if-absent"}).status, 1);
  EXPECT_EQ(Run({"put", "k", "2", "--if-version", version}).status, 0);
  const ProgramResult late = Run({"delete", "k", "--if-version", version});
  EXPECT_EQ(late.status, 1);
  EXPECT_THAT(late.err, HasSubstr("key=k"));
  EXPECT_EQ(Run({"get", "k"}).out, "2");
}

TEST_F(RingctlTest, ErrorsNameTheMemgestAndTheSizes) {
  const nlohmann::json error = RunJson({"put", "k", "v", "--memgest", "nope"}, 1)["error"];
  EXPECT_THAT(error["message"].get<std::string>(), AllOf(HasSubstr("key=k"), HasSubstr("nope")));
  const std::string big = folder_.Write("big", "");
  std::filesystem::resize_file(big, (16u << 20) + 1);
  const ProgramResult refused = Run({"put", "k", "--file", big});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("size=16777217"), HasSubstr("16777216")));
  EXPECT_THAT(Run({"put", "k", "--file", folder_ / "none"}).err, HasSubstr("No such file"));
  EXPECT_THAT(Run({"put", "k", "--file", folder_.path()}).err, HasSubstr("directory"));
  EXPECT_EQ(Run({"put", "k"}, std::string((16u << 20) + 1, 'x')).status, 1);
  EXPECT_EQ(Run({"put", std::string(1025, 'k'), "v"}).status, 1);
}

TEST_F(RingctlTest, LoadsAFolderAndVerifiesEveryByte) {
  for (int i = 0; i < 300; ++i) {
    folder_.Write(absl::StrCat("d", i % 7, "/file", i),
                  std::string(static_cast<std::size_t>(i * 211), 'a'));
  }
  folder_.Write("\xff odd", "odd");
  std::filesystem::create_symlink("/etc/hostname", folder_ / "link");
  const nlohmann::json loaded = RunJson({"load", folder_.path(), "--memgest", "two"});
  EXPECT_EQ(loaded["files"], 301);
  EXPECT_EQ(loaded["left_out"], 1);
  EXPECT_EQ(Run({"get", "d3/file3"}).out, std::string(633, 'a'));
  EXPECT_EQ(RunJson({"where", "d3/file3"})["memgest"], "two");
  const ProgramResult verified = Run({"verify", folder_.path()});
  EXPECT_EQ(verified.status, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("files=301 of 301"));
}

TEST_F(RingctlTest, VerifyTellsMissingDifferentAndResizedFilesApart) {
  folder_.Write("same", "1");
  folder_.Write("changed", "1234");
  folder_.Write("longer", "1");
  EXPECT_EQ(Run({"load", folder_.path()}).status, 0);
  folder_.Write("changed", "1294");
  folder_.Write("longer", "123");
  folder_.Write("new", "1");
  const nlohmann::json report = RunJson({"verify", folder_.path()}, 1);
  EXPECT_EQ(report["files"], 1);
  EXPECT_EQ(report["counts"], (nlohmann::json{{"different", 1}, {"missing", 1}, {"size", 1}}));
  EXPECT_EQ(report["problems"].size(), 3u);
  const ProgramResult shown = Run({"verify", folder_.path()});
  EXPECT_EQ(shown.status, 1);
  EXPECT_THAT(shown.err, AllOf(HasSubstr("different key=changed: first different byte at offset=2"),
                               HasSubstr("missing key=new"),
                               HasSubstr("size key=longer: file size=3 stored size=1")));
}

TEST_F(RingctlTest, LoadGoesOnAfterAFileThatCannotBeStored) {
  folder_.Write("a", "1");
  std::filesystem::resize_file(folder_.Write("b", ""), (16u << 20) + 1);
  folder_.Write("c", "1");
  const nlohmann::json report = RunJson({"load", folder_.path()}, 1);
  EXPECT_EQ(report["files"], 2);
  EXPECT_EQ(report["problems"][0]["key"], "b");
  EXPECT_EQ(Run({"load", folder_ / "none"}).status, 1);
  EXPECT_EQ(Run({"load", folder_ / "a"}).status, 1);
  EXPECT_THAT(Run({"load", folder_.path(), "-m", "nope"}).err, HasSubstr("nope"));
}

}  // namespace
}  // namespace ring::testing
