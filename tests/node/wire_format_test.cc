// What nodes say to each other has a version: a node of another one is refused at the handshake, so
// bytes that change without it would be misread by a node that is not upgraded yet.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "consensus/message.h"
#include "gtest/gtest.h"
#include "memgest/log_entry.h"
#include "memgest/snapshot.h"
#include "ring/base/crc32c.h"
#include "ring/cluster/cluster_command.h"
#include "ring/node/control/cluster_machine.h"
#include "ring/node/control/control_change.h"
#include "ring/node/control/control_message.h"
#include "ring/node/control/drain_message.h"
#include "ring/node/control/founding.h"
#include "ring/node/events/event.h"
#include "ring/node/events/fault.h"
#include "ring/node/fence/lease_message.h"
#include "ring/node/health_report.h"
#include "ring/node/scrub/scrub_message.h"
#include "ring/node/stats.h"
#include "ring/protocol/hello.h"
#include "ring/recovery/block_message.h"
#include "ring/recovery/fetch_message.h"
#include "ring/recovery/join_message.h"
#include "ring/recovery/partial_message.h"
#include "ring/recovery/seal_message.h"
#include "ring/recovery/value_batch.h"
#include "tests/cluster/view_builders.h"
#include "tests/memgest/snapshot_pieces.h"
#include "tests/memgest/twin_device.h"
#include "tests/support/status_matchers.h"

namespace ring::node {
namespace {

using Samples = std::vector<std::pair<std::string, std::string>>;

const GroupId kGroup(2);
const ShardId kShard(1);
const MemgestId kMemgest(5);
const Epoch kEpoch(7);
const Incarnation kIncarnation(0x1122334455667788);

template <class T>
std::string Bytes(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

// The version is in them: here it is that of the samples.
template <class Hello>
std::string HelloBytes(Hello hello) {
  hello.prefix.version = 0;
  hello.incarnation = kIncarnation.value();
  return protocol::EncodeHello(hello);
}

void AddHellos(Samples* out) {
  protocol::LogHello log;
  log.cluster = 1;
  log.node = 2;
  log.epoch = 3;
  log.group = 4;
  log.shard = 5;
  log.flags = protocol::kLogJoins;
  log.attempt = 6;
  log.credit = {7, 8, 9, 0};
  out->emplace_back("LogHello", HelloBytes(log));
  protocol::LogAccept log_accept;
  log_accept.ring = {1, 2, 3, 0};
  out->emplace_back("LogAccept", HelloBytes(log_accept));
  protocol::ControlHello control;
  control.cluster = 1;
  control.node = 2;
  control.fence = 100;
  control.founding = 3;
  out->emplace_back("ControlHello", HelloBytes(control));
  protocol::ControlAccept control_accept;
  control_accept.node = 2;
  control_accept.founding = 3;
  out->emplace_back("ControlAccept", HelloBytes(control_accept));
  protocol::WordHello word;
  word.cluster = 1;
  word.node = 2;
  out->emplace_back("WordHello", HelloBytes(word));
  protocol::WordAccept word_accept;
  word_accept.word = {1, 2, 3, 0};
  out->emplace_back("WordAccept", HelloBytes(word_accept));
}

void AddRecovery(Samples* out) {
  const recovery::LogName log = {kGroup, kShard, kMemgest};
  out->emplace_back("SealRequest",
                    recovery::EncodeSealRequest({kGroup, kShard, kEpoch, Epoch(3), kIncarnation}));
  out->emplace_back("SealAnswer",
                    recovery::EncodeSealAnswer({kIncarnation, true, {{kMemgest, 8, 9}}}));
  out->emplace_back("FetchRequest", recovery::EncodeFetchRequest({recovery::FetchKind::kValue,
                                                                  kGroup,
                                                                  kShard,
                                                                  kEpoch,
                                                                  1,
                                                                  2,
                                                                  3,
                                                                  4,
                                                                  Version(5),
                                                                  {kMemgest}}));
  out->emplace_back("FetchAnswer", recovery::EncodeFetchAnswer({1, 2, "piece"}));
  std::string batch;
  recovery::AddBatchAnswer(std::string("value"), &batch);
  recovery::AddBatchAnswer(absl::NotFoundError("why"), &batch);
  out->emplace_back("value batch",
                    absl::StrCat(recovery::EncodeValueBatch({{recovery::FetchKind::kValue,
                                                              kGroup,
                                                              kShard,
                                                              kEpoch,
                                                              1,
                                                              2,
                                                              3,
                                                              4,
                                                              Version(5),
                                                              {kMemgest}}}),
                                 batch));
  out->emplace_back("InstallRequest",
                    recovery::EncodeInstallRequest({kGroup, kShard, kEpoch, 3, "piece"}));
  out->emplace_back("ProgressRequest", recovery::EncodeProgressRequest({kGroup, kShard, kEpoch}));
  out->emplace_back("ProgressAnswer", recovery::EncodeProgressAnswer({{kMemgest, 1, 2, 3}}));
  out->emplace_back("FreezeRequest",
                    recovery::Encode(recovery::FreezeRequest{log, kEpoch, 1, 2, false, 3, 4}));
  out->emplace_back("FreezeAnswer",
                    recovery::Encode(recovery::FreezeAnswer{1, 2, recovery::FrozenBytes::kLost}));
  out->emplace_back("DecodeRequest",
                    recovery::Encode(recovery::DecodeRequest{log, kEpoch, 1, 2, true, 4}));
  out->emplace_back("DecodeAnswer", recovery::Encode(recovery::DecodeAnswer{1, "block"}));
  out->emplace_back("RowRequest",
                    recovery::Encode(recovery::RowRequest{kGroup, kMemgest, kEpoch, 1, 2, {3, 4}}));
  out->emplace_back("PartialRequest",
                    recovery::Encode(recovery::PartialRequest{
                        kGroup, kMemgest, kEpoch, NodeId(1), 2, 3, 4, {{kShard, 5, 6, 0}}}));
}

void AddControl(Samples* out) {
  ControlHeader header;
  header.type = ControlType::kProgress;
  header.flags = kControlAnswer;
  header.code = 1;
  header.request = 2;
  header.total = 3;
  header.offset = 4;
  header.consumed = 5;
  out->emplace_back("ControlHeader", Bytes(header));
  out->emplace_back("control types", absl::StrCat(kControlTypeCount));
  CatalogueChange change;
  change.id = {"client", 3};
  change.descriptor = cluster::Srs("made", 3, 2);
  out->emplace_back("CatalogueChange", EncodeChange(change));
  out->emplace_back("DrainRequest", EncodeDrainRequest({kMemgest, true}));
  out->emplace_back("DrainAnswer",
                    EncodeDrainAnswer({kIncarnation, {{kGroup, kShard, {1, 2, 3, 4}}}}));
  out->emplace_back("LeaseRenewal", EncodeRenewal({kIncarnation, 3}));
  out->emplace_back("ProbeAnswer",
                    EncodeProbe({ProbeState::kFounder, kIncarnation, Incarnation(2), 3, 5}));
  out->emplace_back(
      "NodeEvents",
      EncodeEvents(
          {NodeId(1), kIncarnation, -2, {{3, 4, EventKind::kNormal, 5, 6, kEpoch, NodeId(7)}}}));
  Fault fault;
  fault.kind = FaultKind::kPause;
  fault.duration_ms = 3;
  out->emplace_back("Fault", EncodeFault(fault));
  ScrubVersions versions;
  versions.place = {kGroup, kShard, kMemgest};
  versions.index = 1;
  versions.items = {{2, 3, 4, 5}};
  out->emplace_back("ScrubVersions", EncodeScrub(versions));
  out->emplace_back("ScrubFindings", EncodeScrub(ScrubFindings{{{1, ScrubFinding::kOtherBytes}}}));
  ScrubState state;
  state.done = true;
  state.status = absl::UnavailableError("why");
  state.progress.checked = 1;
  state.report.details = {"detail"};
  out->emplace_back("ScrubState", EncodeScrub(state));
}

void AddAnswers(Samples* out) {
  cluster::NodeHealth health;
  health.node = NodeId(1);
  cluster::ShardReport& shard = health.shards.emplace_back();
  shard.group = kGroup;
  shard.shard = kShard;
  shard.epoch = kEpoch;
  shard.serving = true;
  shard.waiting = "for";
  shard.lost = {MemgestId(11)};
  shard.sets = {{kMemgest, 0b11001, 0b10001, true, {{Role(3), 7}}, true}};
  shard.counts = {{kMemgest, 1, 2, 3, 4}};
  shard.rebuilds = {{kMemgest, Role(3), 5, 6}};
  health.members = {{kGroup, kShard, kMemgest, 8}};
  out->emplace_back("NodeHealth", EncodeHealth(health));
  cluster::ClusterResult result;
  result.status = absl::UnavailableError("why");
  result.changed = true;
  result.memgest = kMemgest;
  result.node = NodeId(2);
  out->emplace_back("ClusterResult", EncodeResult(result));
  NodeReport report;
  report.node.node = NodeId(1);
  report.node.gets = 2;
  report.node.fence = "lease";
  MemgestStats& memgest = report.memgests.emplace_back();
  memgest.id = kMemgest;
  memgest.keys = 3;
  out->emplace_back("NodeReport", EncodeReport(report));
  rdma::DeviceFaultStatus fault;
  fault.left = 4;
  out->emplace_back("DeviceFaults", EncodeDeviceFaults({fault}));
}

void AddCluster(Samples* out) {
  cluster::View view = cluster::TestView();
  cluster::NormalRecord& normal = view.groups[0].shards[0].normal;
  normal.epoch = view.groups[0].epoch;
  for (const NodeId node : view.groups[0].roles) normal.holders.push_back({node, kIncarnation});
  normal.memgests = {{MemgestId(1), 0b11001, 0b10001, true, {{Role(3), 7}}, true}};
  out->emplace_back("View", cluster::EncodeView(view));
  out->emplace_back("RegisterNode",
                    cluster::EncodeClusterCommand(cluster::RegisterNode{view.nodes[0]}));
  out->emplace_back("NewEpoch",
                    cluster::EncodeClusterCommand(cluster::NewEpoch{kGroup, kEpoch, 3, "why"}));
  out->emplace_back("ReturnRole", cluster::EncodeClusterCommand(
                                      cluster::ReturnRole{kGroup, kShard, kEpoch, Role(3)}));
  out->emplace_back("Found", cluster::EncodeClusterCommand(cluster::Found{view}));
  out->emplace_back("SetNormal", cluster::EncodeClusterCommand(
                                     cluster::SetNormal{kGroup, kShard, kEpoch, normal.memgests}));
  out->emplace_back("CatalogueCommand", cluster::EncodeClusterCommand(cluster::CreateCommand(
                                            {"client", 1}, cluster::Rep("made", 3))));
  out->emplace_back("DeletedCommand",
                    cluster::EncodeClusterCommand(cluster::DeletedCommand(MemgestId(5), 77)));
  out->emplace_back("DeleteCommand", cluster::EncodeClusterCommand(
                                         cluster::DeleteCommand({"client", 2}, "made", true)));
  out->emplace_back("RefuseDeleteCommand",
                    cluster::EncodeClusterCommand(cluster::RefuseDeleteCommand(
                        {"client", 2}, MemgestId(5), 77, "NOT_EMPTY")));
  consensus::Message message;
  message.type = consensus::MessageType::kAppend;
  message.from = consensus::ServerId(1);
  message.to = consensus::ServerId(2);
  message.term = 3;
  message.index = 4;
  message.log_term = 5;
  message.commit = 6;
  message.entries = {{3, 7, consensus::EntryKind::kCommand, "command"}};
  out->emplace_back("consensus append", consensus::EncodeMessage(message));
  message.type = consensus::MessageType::kSnapshot;
  message.entries.clear();
  message.offset = 8;
  message.total = 20;
  message.data = "chunk";
  out->emplace_back("consensus snapshot", consensus::EncodeMessage(message));
}

void AddLog(Samples* out) {
  const memgest::Range range = {1, 2};
  const memgest::CollectItem collect = {.version = 3, .line = 4};
  memgest::EntryFields fields;
  fields.type = memgest::EntryType::kFinal;
  fields.memgest = kMemgest;
  fields.index = 9;
  fields.version = Version(10);
  fields.key = "key";
  fields.line = 11;
  fields.size_class = 2;
  fields.offset_cells = 12;
  fields.value_length = 13;
  fields.value_crc = 14;
  fields.expiry_ns = 15;
  fields.ranges = absl::MakeConstSpan(&range, 1);
  fields.collect = absl::MakeConstSpan(&collect, 1);
  fields.client = {16, 17};
  fields.seq = 18;
  fields.incomplete_delta = 1;
  fields.request_crc = 19;
  fields.result_code = 1;
  alignas(8) std::byte head[memgest::kEntryHeadSizeMax] = {};
  const std::size_t size = memgest::BuildEntryHead(fields, kEpoch, head);
  memgest::SealEntryHead(head, size, 64, 21, 32, head);
  out->emplace_back("log entry", std::string(reinterpret_cast<const char*>(head), size));
  memgest::TwinDevice device;
  memgest::LineTable lines(&device, 64);
  for (const std::uint32_t number : {3u, 5u}) {  // a key of 9 bytes, and one of 25
    ASSERT_OK(lines.EnsureLine(number, kMemgest, 1, 7 + number));
    memgest::MetadataLine& line = lines.line(number);
    line = {.version = 26 + number, .value_crc = 27, .value_length = 28};
    line.offset_cells = 7 + number;
    line.memgest = kMemgest.value();
    line.size_class = 1;
    lines.SetKey(number, std::string(number * number, 'k'));
    lines.TakeLine(number);
  }
  memgest::SnapshotWriter writer(23);
  writer.BeginLog({kMemgest, 24, 25});
  writer.AddGranule(lines, 0);
  writer.AddLines(lines, 0, lines.granule(0).taken);
  std::string pieces;
  for (const std::string& piece : memgest::AllPieces(writer)) absl::StrAppend(&pieces, piece);
  out->emplace_back("snapshot", pieces);
}

Samples AllSamples() {
  Samples samples;
  AddHellos(&samples);
  AddRecovery(&samples);
  AddControl(&samples);
  AddAnswers(&samples);
  AddCluster(&samples);
  AddLog(&samples);
  return samples;
}

// By version, the checksums of the samples' bytes. Of former versions none need be kept.
constexpr std::uint16_t kVersion = 21;
const std::map<std::string, std::uint32_t>& Known() {
  static const auto* const known = new std::map<std::string, std::uint32_t>{
      {"LogHello", 0x9d7cfa45},
      {"LogAccept", 0x70753c5d},
      {"ControlHello", 0xf85fdeaa},
      {"ControlAccept", 0x054ed0f9},
      {"WordHello", 0x75f4b5c5},
      {"WordAccept", 0x73a2724a},
      {"SealRequest", 0x7834e8bb},
      {"SealAnswer", 0x18bafda1},
      {"FetchRequest", 0xdfc6d92f},
      {"FetchAnswer", 0x9a3327b5},
      {"value batch", 0xfa595e0f},
      {"InstallRequest", 0x80903814},
      {"ProgressRequest", 0xe8609b17},
      {"ProgressAnswer", 0x4e37f084},
      {"FreezeRequest", 0x62520d16},
      {"FreezeAnswer", 0x1d90322e},
      {"DecodeRequest", 0x8dd9f5ca},
      {"DecodeAnswer", 0x070310fe},
      {"RowRequest", 0x34fb37e4},
      {"PartialRequest", 0xd56a892e},
      {"ControlHeader", 0xf4660d61},
      {"control types", 0xde3bc7c2},
      {"CatalogueChange", 0x67e0bd4b},
      {"DrainRequest", 0xa990161d},
      {"DrainAnswer", 0x727aaea0},
      {"LeaseRenewal", 0xa7deeb54},
      {"ProbeAnswer", 0x23249c68},
      {"NodeEvents", 0x281db5ff},
      {"Fault", 0xbe135e0a},
      {"ScrubVersions", 0x9bdd708e},
      {"ScrubFindings", 0xcb727813},
      {"ScrubState", 0x6d915773},
      {"NodeHealth", 0xd4842af6},
      {"ClusterResult", 0x27b6b042},
      {"NodeReport", 0xd3bb2a2c},
      {"DeviceFaults", 0x2f992d78},
      {"View", 0xff4a3fd7},
      {"RegisterNode", 0x21ad3a10},
      {"NewEpoch", 0x6b425ef7},
      {"ReturnRole", 0xa660492a},
      {"Found", 0x693e3e52},
      {"SetNormal", 0x4214a29e},
      {"CatalogueCommand", 0x9ec844bb},
      {"DeletedCommand", 0x9d6fa6fd},
      {"DeleteCommand", 0x48a2b4ce},
      {"RefuseDeleteCommand", 0xe0ebac6d},
      {"consensus append", 0x88479ed8},
      {"consensus snapshot", 0x89293713},
      {"log entry", 0x102b8add},
      {"snapshot", 0x16990525},
  };
  return *known;
}

TEST(WireFormat, BytesThatChangeRaiseTheVersion) {
  ASSERT_EQ(protocol::kProtocolVersion, kVersion)
      << "a new version: take the checksums below over, and its number into kVersion";
  std::string all;
  bool same = AllSamples().size() == Known().size();
  for (const auto& [name, bytes] : AllSamples()) {
    const std::uint32_t crc = Crc32c(bytes.data(), bytes.size());
    absl::StrAppend(&all, "      {\"", name, "\", 0x", absl::Hex(crc, absl::kZeroPad8), "},\n");
    const auto known = Known().find(name);
    if (known != Known().end() && known->second == crc) continue;
    same = false;
    ADD_FAILURE() << name << " has other bytes than in version " << kVersion
                  << ": raise protocol::kProtocolVersion, then take the checksums over";
  }
  EXPECT_TRUE(same) << all;
}

}  // namespace
}  // namespace ring::node
