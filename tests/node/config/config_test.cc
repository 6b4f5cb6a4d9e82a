#include "ring/node/config/config.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/node/config/config_reader.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using ::ring::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::Not;

// Five nodes of one host; lines 1 to 7 are the tables that most tests change.
constexpr char kSmall[] = R"([cluster]
name = "small"
s = 3
d = 2
[node]
name = "n0"
log_level = "warning"
[[nodes]]
name = "n0"
host = "h"
shm = "/tmp/n0"
[[nodes]]
name = "n1"
host = "h"
shm = "/tmp/n1"
[[nodes]]
name = "n2"
host = "h"
shm = "/tmp/n2"
[[nodes]]
name = "n3"
host = "h"
shm = "/tmp/n3"
[[nodes]]
name = "n4"
host = "h"
shm = "/tmp/n4"
)";

std::string Changed(absl::string_view from, absl::string_view to) {
  return absl::StrReplaceAll(kSmall, {{from, to}});
}

// The file is refused with the place and the text.
void ExpectRefused(const std::string& text, absl::string_view place, absl::string_view what) {
  EXPECT_THAT(ParseNodeConfig(text, "ring.toml"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(absl::StrCat("ring.toml:", place, ": ")),
                             HasSubstr(std::string(what)))))
      << text;
}

TEST(NodeConfig, TheExampleIsAccepted) {
  ASSERT_OK_AND_ASSIGN(const NodeConfig config,
                       LoadNodeConfig(RING_SOURCE_DIR "/tools/ring.toml.example"));
  EXPECT_EQ(config.cluster_name, "example");
  EXPECT_EQ(config.nodes.size(), 6u);
  EXPECT_EQ(config.self_entry().name, "n0");
  EXPECT_EQ(config.memgests.size(), 2u);
  EXPECT_EQ(config.memgests[1].SchemeName(), "SRS(3,2)");
  const cluster::View view = config.InitialView();
  ASSERT_OK(view.Validate());
  EXPECT_EQ(view.spare_count(), 1);
  EXPECT_EQ(view.nodes[0].tcp_address, "tcp:10.0.0.1:7800");
  EXPECT_EQ(view.nodes[0].shm_address, "shm:/run/ring/n0");
  EXPECT_EQ(view.nodes[5].host, "machine-a");
}

TEST(NodeConfig, TheExampleShowsTheDefaults) {
  ASSERT_OK_AND_ASSIGN(const NodeConfig shown,
                       LoadNodeConfig(RING_SOURCE_DIR "/tools/ring.toml.example"));
  const NodeConfig defaults;
  EXPECT_EQ(shown.s, defaults.s);
  EXPECT_EQ(shown.d, defaults.d);
  EXPECT_EQ(shown.value_size_max, defaults.value_size_max);
  EXPECT_EQ(shown.transport, defaults.transport);
  EXPECT_EQ(shown.rdma_device, defaults.rdma_device);
  EXPECT_EQ(shown.ring_size, defaults.ring_size);
  EXPECT_EQ(shown.arena_size_max, defaults.arena_size_max);
  EXPECT_EQ(shown.warm_size, defaults.warm_size);
  EXPECT_EQ(shown.recovery_rate, defaults.recovery_rate);
  EXPECT_EQ(shown.recovery_rate_min, defaults.recovery_rate_min);
  EXPECT_EQ(shown.scrub_period_ns, defaults.scrub_period_ns);
  EXPECT_EQ(shown.client_max, defaults.client_max);
  EXPECT_EQ(shown.poll, defaults.poll);
  EXPECT_EQ(shown.poll_us, defaults.poll_us);
  EXPECT_EQ(shown.fault_injection, defaults.fault_injection);
  EXPECT_EQ(shown.encode, defaults.encode);
  EXPECT_EQ(shown.encode_check, defaults.encode_check);
  EXPECT_EQ(shown.log_level, defaults.log_level);
  EXPECT_EQ(shown.control.VoterCount(6), defaults.control.VoterCount(6));
  EXPECT_EQ(shown.control.heartbeat_ms, defaults.control.heartbeat_ms);
  EXPECT_EQ(shown.control.detect_ms, defaults.control.detect_ms);
  EXPECT_EQ(shown.control.lease_ms, defaults.control.lease_ms);
  EXPECT_EQ(shown.control.lag_ms, defaults.control.lag_ms);
  EXPECT_EQ(shown.control.overrun, defaults.control.overrun);
  EXPECT_EQ(shown.control.fence, defaults.control.fence);
  EXPECT_EQ(shown.control.fail_over, defaults.control.fail_over);
  EXPECT_EQ(shown.control.data_dir, defaults.control.data_dir);
  EXPECT_EQ(shown.admin_token_file, defaults.admin_token_file);
  EXPECT_EQ(shown.memgests[0].commit, protocol::MemgestDescriptor().commit);
  EXPECT_EQ(shown.memgests[1].block_size, protocol::kBlockSizeDefault);
  EXPECT_EQ(shown.memgests[1].repair, protocol::MemgestDescriptor().repair);
}

TEST(NodeConfig, AFileWithoutMemgestsBeginsWithThePapersSeven) {
  ASSERT_OK_AND_ASSIGN(const NodeConfig config, ParseNodeConfig(kSmall, "ring.toml"));
  EXPECT_EQ(config.memgests.size(), 7u);
  EXPECT_EQ(config.default_memgest, "REP3");
  EXPECT_EQ(config.log_level, LogSeverity::kWARNING);
  ASSERT_OK(config.InitialView().Validate());
}

TEST(NodeConfig, TheCallersNodeNameComesFirst) {
  ASSERT_OK_AND_ASSIGN(const NodeConfig config, ParseNodeConfig(kSmall, "ring.toml", "n3"));
  EXPECT_EQ(config.self, NodeId(3));
  EXPECT_THAT(ParseNodeConfig(kSmall, "ring.toml", "n9"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("\"n9\", is not among [[nodes]]: choose one of n0, n1")));
  ExpectRefused(Changed("name = \"n0\"\nlog", "log"), "5:1", "which node is this?");
}

TEST(NodeConfig, EveryNodeStartsFromTheSameView) {
  ASSERT_OK_AND_ASSIGN(const NodeConfig one, ParseNodeConfig(kSmall, "ring.toml", "n1"));
  ASSERT_OK_AND_ASSIGN(const NodeConfig two, ParseNodeConfig(kSmall, "other.toml", "n2"));
  EXPECT_EQ(one.InitialView(), two.InitialView());
}

TEST(NodeConfig, AnUnknownKeyIsRefusedWithTheNearestKnownOne) {
  ExpectRefused(Changed("log_level", "log_levle"), "7:1", "did you mean log_level?");
  ExpectRefused(Changed("s = 3", "color = 3"), "3:1", "known are name, s, d");
  ExpectRefused(absl::StrCat("clutser = 1\n", kSmall), "1:1", "did you mean cluster?");
}

TEST(NodeConfig, ATypeErrorIsRefusedWhereItStands) {
  ExpectRefused(Changed("s = 3", "s = \"3\""), "3:5", "s in [cluster] must be an integer");
  ExpectRefused(Changed("\"small\"", "7"), "2:8", "name in [cluster] must be a string");
  ExpectRefused(Changed("[cluster]", "[[cluster]]"), "1:1", "cluster must be a table");
  ExpectRefused(Changed("log_level = \"warning\"", "ring_size = true"), "7:13",
                "must be a size: bytes, or a string such as \"4MiB\"");
}

TEST(NodeConfig, SaysWhoCalculatesDeltas) {
  ASSERT_OK_AND_ASSIGN(
      const NodeConfig config,
      ParseNodeConfig(Changed("log_level", "encode = \"nic\"\nencode_check = 16\nlog_level"),
                      "ring.toml"));
  EXPECT_EQ(config.encode, EncodePath::kNic);
  EXPECT_EQ(config.encode_check, 16u);
  ExpectRefused(Changed("log_level = \"warning\"", "encode = \"gpu\""), "7:10",
                "encode=\"gpu\" must be \"auto\", \"host\" or \"nic\"");
  ExpectRefused(Changed("log_level = \"warning\"", "encode_check = 0"), "7:16", "encode_check");
}

TEST(NodeConfig, SaysHowTheClusterAgreesAndWhenANodeIsLost) {
  ASSERT_OK_AND_ASSIGN(
      const NodeConfig config,
      ParseNodeConfig(
          absl::StrReplaceAll(kSmall, {{"d = 2",
                                        "d = 2\nvoters = 3\nheartbeat_ms = 2\ndetect_ms = 5\n"
                                        "lease_ms = 50\nlag_ms = 7\noverrun = \"continue\"\n"
                                        "fence = \"check\"\nfail_over = \"on\""},
                                       {"log_level",
                                        "data_dir = \"/var/lib/ring\"\n"
                                        "admin_token_file = \"/etc/ring/token\"\nlog_level"}}),
          "ring.toml"));
  EXPECT_EQ(config.control.VoterCount(5), 3);
  EXPECT_EQ(config.control.heartbeat_ms, 2u);
  EXPECT_EQ(config.control.detect_ms, 5u);
  EXPECT_EQ(config.control.lease_ms, 50u);
  EXPECT_EQ(config.control.fence, FenceKind::kCheck);
  EXPECT_EQ(config.control.lag_ms, 7u);
  // What is promised within 5 ms does not wait for a sleeper.
  EXPECT_LT(config.control.SleepNsMax(), 1'000'000u);
  EXPECT_EQ(config.control.data_dir, "/var/lib/ring");
  EXPECT_EQ(config.admin_token_file, "/etc/ring/token");
  const cluster::View view = config.InitialView();
  EXPECT_EQ(view.voter_count, 3u);
  EXPECT_EQ(view.overrun, cluster::OverrunPolicy::kContinue);
  EXPECT_TRUE(view.fail_over);
}

TEST(NodeConfig, L11FiveNodesHaveFiveVotersUnlessToldOtherwise) {
  ASSERT_OK_AND_ASSIGN(const NodeConfig config, ParseNodeConfig(kSmall, "ring.toml"));
  EXPECT_EQ(config.InitialView().voter_count, 5u);
  EXPECT_EQ(ControlConfig().VoterCount(4), 3);
  EXPECT_EQ(ControlConfig().VoterCount(2), 1);
}

// Whatever is accepted is what the consensus accepts, too.
TEST(NodeConfig, L1WhateverDetectionIsTakenLeavesTimeForTwoHeartbeats) {
  ControlConfig control;
  for (control.heartbeat_ms = 1; control.heartbeat_ms <= kHeartbeatMsMax; ++control.heartbeat_ms) {
    const std::uint32_t least = std::max(kDetectMsMin, 2 * control.heartbeat_ms);
    for (control.detect_ms = least; control.detect_ms <= least + 30; ++control.detect_ms) {
      ASSERT_EQ(CheckControl(control, 5).key, "");
      ASSERT_GE(control.DetectTicks(), 2 * control.HeartbeatTicks());
      ASSERT_GT(control.ElectionTicks(), 2 * control.HeartbeatTicks());
      ASSERT_LE(control.DetectTicks() * control.TickNs(),
                control.detect_ms * 1'000'000 + control.TickNs());
    }
    control.detect_ms = 2 * control.heartbeat_ms - 1;
    ASSERT_EQ(CheckControl(control, 5).key, "detect_ms");
  }
}

TEST(NodeConfig, HeartbeatsAndLeasesFollowTheDetection) {
  for (const auto& [detect_ms, heartbeat_ms, lease_ms] : {std::array<std::uint32_t, 3>{5, 1, 5},
                                                          {50, 8, 33},
                                                          {150, 25, 100},
                                                          {60'000, 1000, 40'000}}) {
    const std::string given = absl::StrCat("d = 2\ndetect_ms = ", detect_ms);
    ASSERT_OK_AND_ASSIGN(const NodeConfig config,
                         ParseNodeConfig(Changed("d = 2", given), "ring.toml"));
    EXPECT_EQ(config.control.detect_ms, detect_ms);
    EXPECT_EQ(config.control.heartbeat_ms, heartbeat_ms);
    EXPECT_EQ(config.control.lease_ms, lease_ms);
  }
  ASSERT_OK_AND_ASSIGN(
      const NodeConfig config,
      ParseNodeConfig(Changed("d = 2", "d = 2\nlease_ms = 70\ndetect_ms = 60\nheartbeat_ms = 20"),
                      "ring.toml"));
  EXPECT_EQ(config.control.heartbeat_ms, 20u);
  EXPECT_EQ(config.control.lease_ms, 70u);
}

TEST(NodeConfig, WaysToAgreeThatCannotWorkAreRefused) {
  ExpectRefused(Changed("d = 2", "d = 2\nvoters = 4"), "5:10", "voters=4 must be odd");
  ExpectRefused(Changed("d = 2", "d = 2\nvoters = 7"), "5:10",
                "voters=7 is more than node_count=5");
  ExpectRefused(Changed("d = 2", "d = 2\nvoters = 0"), "5:10", "voters=0");
  ExpectRefused(Changed("d = 2", "d = 2\nheartbeat_ms = 25\ndetect_ms = 49"), "6:13",
                "at least twice heartbeat_ms=25");
  ExpectRefused(Changed("d = 2", "d = 2\nlease_ms = 4"), "5:12", "lease_ms=4");
  ExpectRefused(Changed("d = 2", "d = 2\nlag_ms = 4"), "5:10", "lag_ms=4");
  ExpectRefused(Changed("d = 2", "d = 2\noverrun = \"ask\""), "5:11", "overrun=\"ask\"");
  ExpectRefused(Changed("d = 2", "d = 2\nfail_over = \"yes\""), "5:13", "fail_over=\"yes\"");
  ExpectRefused(Changed("d = 2", "d = 2\nfence = \"open\""), "5:9", "fence=\"open\"");
  ExpectRefused(Changed("log_level = \"warning\"", "data_dir = \"ring\""), "7:12",
                "must be an absolute path");
  ExpectRefused(Changed("log_level = \"warning\"", "admin_token_file = \"token\""), "7:20",
                "must be an absolute path");
}

TEST(NodeConfig, ImpossibleNumbersAreRefused) {
  ExpectRefused(Changed("s = 3", "s = 0"), "3:5", "s=0 in [cluster] must be 1 to 16");
  ExpectRefused(Changed("s = 3", "s = 17"), "3:5", "s=17");
  ExpectRefused(Changed("d = 2", "d = -1"), "4:5", "d=-1");
  ExpectRefused(Changed("s = 3", "s = 9223372036854775807"), "3:5", "must be 1 to 16");
  ExpectRefused(Changed("s = 3", "s = 4"), "8:1", "node_count=5 is less than s+d=6");
  ExpectRefused(Changed("s = 3", "value_size_max = 0"), "3:18", "value_size_max=0");
  ExpectRefused(Changed("s = 3", "value_size_max = 16777217"), "3:18", "value_size_max=16777217");
  ExpectRefused(Changed("log_level = \"warning\"", "ring_size = \"128KiB\""), "7:13",
                "ring_size=131072");
  ExpectRefused(Changed("log_level = \"warning\"", "ring_size = \"3MiB\""), "7:13",
                "must be a power of two");
  ExpectRefused(Changed("log_level = \"warning\"", "arena_size_max = \"32MiB\""), "7:18",
                "lower value_size_max");
  ExpectRefused(Changed("log_level = \"warning\"", "client_max = 0"), "7:14", "client_max=0");
  ExpectRefused(Changed("log_level = \"warning\"", "recovery_rate_min = \"1KiB\""), "7:21",
                "recovery_rate_min=1024");
  ExpectRefused(Changed("log_level = \"warning\"", "recovery_rate = \"2TiB\""), "7:17",
                "recovery_rate=2199023255552");
}

TEST(NodeConfig, DuplicateNodesAndAddressesAreRefused) {
  ExpectRefused(Changed("name = \"n3\"", "name = \"n1\""), "21:8", "two nodes have name=n1");
  ExpectRefused(Changed("/tmp/n3", "/tmp/n1"), "23:7", "two nodes have shm=/tmp/n1");
  ExpectRefused(Changed("shm = \"/tmp/n3\"", "data = \"h:1\"\nadmin = \"h:1\""), "24:9",
                "two nodes have admin=h:1");
}

TEST(NodeConfig, ImpossibleAddressesAreRefused) {
  for (const char* address : {"h", "h:", ":1", "h:0", "h:65536", "h:x", "a b:1", "::1:5", "[]:5",
                              "h:+5", "h:99999999999999999999"}) {
    ExpectRefused(Changed("shm = \"/tmp/n3\"", absl::StrCat("data = \"", address, "\"")), "23:8",
                  "must be HOST:PORT");
  }
  ExpectRefused(Changed("/tmp/n3", "tmp/n3"), "23:7", "must be an absolute path");
  ExpectRefused(Changed("/tmp/n3", absl::StrCat("/", std::string(100, 'x'))), "23:7",
                "at most 100 bytes");
  ExpectRefused(Changed("shm = \"/tmp/n3\"", ""), "20:1", "has no address");
}

TEST(NodeConfig, IPv6AddressesAreAccepted) {
  EXPECT_OK(ParseNodeConfig(Changed("shm = \"/tmp/n3\"", "shm = \"/tmp/n3\"\ndata = \"[::1]:7\""),
                            "ring.toml")
                .status());
}

TEST(NodeConfig, RdmaNeedsAnAddressAndIsNeverAnotherTransport) {
  ExpectRefused(Changed("log_level = \"warning\"", "transport = \"rdma\""), "7:13",
                "transport=rdma, and node name=n0 has no rdma address");
}

TEST(NodeConfig, ATransportThatSomeNodesLackIsRefused) {
  ExpectRefused(Changed("log_level = \"warning\"", "transport = \"tcp\""), "7:13",
                "node name=n0 has no data address");
  ExpectRefused(absl::StrReplaceAll(kSmall, {{"log_level = \"warning\"", "transport = \"shm\""},
                                             {"host = \"h\"\nshm = \"/tmp/n4\"",
                                              "host = \"x\"\nshm = \"/tmp/n4\""}}),
                "7:13", "name=n4 has no shm path or another host");
  ExpectRefused(Changed("host = \"h\"\nshm = \"/tmp/n4\"", "shm = \"/tmp/n4\""), "5:1",
                "no transport in common");
  ExpectRefused(Changed("log_level = \"warning\"", "transport = \"quic\""), "7:13",
                "must be \"auto\"");
}

TEST(NodeConfig, ImpossibleMemgestsAreRefused) {
  const auto with = [](absl::string_view lines) {
    return absl::StrCat(kSmall, "[[memgests]]\nname = \"m\"\n", lines, "\n");
  };
  ExpectRefused(with(""), "28:1", "needs one of rep = 3 and srs = [3, 2]");
  ExpectRefused(with("rep = 2\nsrs = [2, 1]"), "28:1", "needs one of");
  ExpectRefused(with("rep = 0"), "30:7", "rep=0");
  ExpectRefused(with("rep = 6"), "28:1", "r=6");
  ExpectRefused(with("srs = [4, 1]"), "28:1", "k=4");
  ExpectRefused(with("srs = [2, 3]"), "28:1", "m=3");
  ExpectRefused(with("srs = [2]"), "30:7", "a list of 2 integers");
  ExpectRefused(with("srs = [2, 1, 0]"), "30:7", "a list of 2 integers");
  ExpectRefused(with("srs = [2, \"1\"]"), "30:7", "a list of 2 integers");
  ExpectRefused(with("srs = [300, 1]"), "30:7", "srs holds 300");
  ExpectRefused(with("srs = [2, 1]\ncommit = \"all\""), "31:10", "commit is for rep");
  ExpectRefused(with("rep = 3\nrepair = \"ppr\""), "31:10", "repair is for srs");
  ExpectRefused(with("srs = [2, 1]\nrepair = \"lrc\""), "31:10", "must be \"rs\"");
  ExpectRefused(with("rep = 3\ncommit = \"some\""), "31:10", "must be \"quorum\" or \"all\"");
  ExpectRefused(with("rep = 3\nblock_size = 0"), "31:14", "block_size=0");
  ExpectRefused(with("rep = 3\nblock_size = 5000"), "28:1", "block_size=5000");
  ExpectRefused(with("rep = 3\n[[memgests]]\nname = \"m\"\nrep = 2"), "32:8",
                "two memgests have name=m");
  ExpectRefused(absl::StrReplaceAll(with("rep = 3"), {{"d = 2", "d = 2\ndefault_memgest = \"q\""}}),
                "1:1", "default_memgest=\"q\" is not a memgest: choose one of m");
}

TEST(NodeConfig, EverythingWrongIsToldAtOnce) {
  const absl::Status status =
      ParseNodeConfig(absl::StrReplaceAll(kSmall, {{"s = 3", "s = 0"}, {"d = 2", "e = 2"}}),
                      "ring.toml")
          .status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               AllOf(HasSubstr("ring.toml:3:5"), HasSubstr("ring.toml:4:1"))));
}

TEST(NodeConfig, SyntaxErrorsAreLocated) {
  ExpectRefused("[cluster\nname = 1", "1:9", "");
  ExpectRefused("a = 1\na = 2\n", "2:5", "");
  ExpectRefused(Changed("\"small\"", "\"sm\xff\""), "2:11", "not ASCII");
  ExpectRefused("", "1:1", "table [cluster] is missing");
  ExpectRefused("[=]", "1:2", "");
  ExpectRefused(std::string("[\0]", 3), "1:2", "");
}

TEST(NodeConfig, OnlyCommentsHoldMoreThanAscii) {
  ExpectRefused("a\n\xc3\xa4 = 1", "2:1", "not ASCII");
  ExpectRefused("T\xef\xbb\xbd", "1:2", "not ASCII");
  ExpectRefused("x = 1 \xc2\xa0", "1:7", "not ASCII");
  ExpectRefused("x = \"\"\"a\"\"\"\"\"\xc3", "1:14", "not ASCII");
  ExpectRefused("x = 'a\\'\xc3", "1:9", "not ASCII");
  ExpectRefused("x = 0\"1:\xc9\xbf", "1:9", "not ASCII");
  ExpectRefused("x = \"#\xc9\xbf\"", "1:7", "not ASCII");
  ExpectRefused("x = \"\"\"\\\xc9\xbf\"\"\"", "1:9", "not ASCII");
  ASSERT_OK(ParseNodeConfig(absl::StrCat("\xef\xbb\xbf# gr\u00fc\u00dfe \"\n",
                                         Changed("small", "kl\\u00e4in\\\"")),
                            "ring.toml")
                .status());
}

TEST(NodeConfig, AFloodOfProblemsIsCut) {
  std::string text = kSmall;
  for (int i = 0; i < 500; ++i) text = absl::StrCat("bogus", i, " = 1\n", text);
  EXPECT_THAT(ParseNodeConfig(text, "ring.toml"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("and 480 more problems")));
  EXPECT_THAT(ParseNodeConfig(std::string(kConfigSizeMax + 1, '\n'), "ring.toml"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is over 1048576 bytes")));
}

TEST(LoadNodeConfig, SaysWhyAFileCannotBeRead) {
  EXPECT_THAT(LoadNodeConfig("/nonexistent/ring.toml"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nonexistent/ring.toml")));
  EXPECT_THAT(LoadNodeConfig(std::filesystem::temp_directory_path().string()),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("directory")));
}

TEST(ParseSize, TakesBytesAndBinaryUnits) {
  EXPECT_EQ(ParseSize("0"), 0u);
  EXPECT_EQ(ParseSize("4096"), 4096u);
  EXPECT_EQ(ParseSize("4KiB"), 4096u);
  EXPECT_EQ(ParseSize("4 MiB"), 4u << 20);
  EXPECT_EQ(ParseSize("1TiB"), 1ull << 40);
  for (const char* bad : {"", "KiB", "-1", "+1", "1.5MiB", "1MB", "1 M", "0x10", "1kib",
                          "99999999999999999999", "9223372036854775807KiB", " 1"}) {
    EXPECT_EQ(ParseSize(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace ring::node
