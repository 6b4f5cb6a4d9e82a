#include "consensus/message.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "ring/base/status.h"

namespace ring::consensus {
namespace {

constexpr std::uint8_t kFlagReject = 1;
constexpr std::uint8_t kFlagForce = 2;
// Bytes of an encoded snapshot may not outgrow what a receiver would reserve for it.
constexpr std::uint64_t kSnapshotSizeMax = std::uint64_t{1} << 32;

absl::Status Bad(absl::string_view field, std::uint64_t value) {
  return absl::InvalidArgumentError(absl::StrFormat("consensus message: %s=%d", field, value));
}

bool MayReject(MessageType type) {
  return type == MessageType::kPreVoteReply || type == MessageType::kVoteReply ||
         type == MessageType::kAppendReply || type == MessageType::kReadReply;
}

void PutServers(const std::vector<ServerId>& servers, ByteWriter& out) {
  out.Put(static_cast<std::uint16_t>(servers.size()));
  for (const ServerId id : servers) out.Put(id.value());
}

std::vector<ServerId> TakeServers(ByteReader& in) {
  std::vector<ServerId> servers;
  const std::size_t count = in.Get<std::uint16_t>();
  for (std::size_t i = 0; i < count && in.ok(); ++i) servers.emplace_back(in.Get<std::uint64_t>());
  return servers;
}

void PutBody(const Message& m, ByteWriter& out) {
  switch (m.type) {
    case MessageType::kPreVote:
    case MessageType::kVote:
      out.Put(m.index);
      out.Put(m.log_term);
      break;
    case MessageType::kAppend:
      out.Put(m.index);
      out.Put(m.log_term);
      out.Put(m.commit);
      out.Put(static_cast<std::uint32_t>(m.entries.size()));
      for (const Entry& entry : m.entries) PutEntry(entry, out);
      break;
    case MessageType::kAppendReply:
      out.Put(m.index);
      out.Put(m.hint);
      out.Put(m.log_term);
      break;
    case MessageType::kHeartbeat:
      out.Put(m.commit);
      out.Put(m.round);
      break;
    case MessageType::kHeartbeatReply:
    case MessageType::kReadRequest:
      out.Put(m.round);
      break;
    case MessageType::kSnapshot:
      out.Put(m.index);
      out.Put(m.log_term);
      out.Put(m.offset);
      out.Put(m.total);
      out.Put(static_cast<std::uint32_t>(m.data.size()));
      out.PutBytes(m.data);
      break;
    case MessageType::kSnapshotReply:
      out.Put(m.index);
      out.Put(m.offset);
      break;
    case MessageType::kReadReply:
      out.Put(m.index);
      out.Put(m.round);
      break;
    case MessageType::kPreVoteReply:
    case MessageType::kVoteReply:
    case MessageType::kTimeoutNow:
      break;
  }
}

absl::Status TakeAppend(ByteReader& in, Message& m) {
  m.index = in.Get<std::uint64_t>();
  m.log_term = in.Get<std::uint64_t>();
  m.commit = in.Get<std::uint64_t>();
  const std::uint32_t count = in.Get<std::uint32_t>();
  if (count > in.rest()->size() / kEntryOverhead) return Bad("entry_count", count);
  if (m.index > ~std::uint64_t{0} - count) return Bad("index", m.index);
  m.entries.reserve(count);
  Term term = m.log_term;
  for (std::uint32_t i = 0; i < count; ++i) {
    RING_ASSIGN_OR_RETURN(Entry entry, TakeEntry(m.index + 1 + i, in));
    // Terms never fall along a log and never exceed the leader's.
    if (entry.term < term || entry.term > m.term) return Bad("entry_term", entry.term);
    term = entry.term;
    m.entries.push_back(std::move(entry));
  }
  return absl::OkStatus();
}

absl::Status TakeSnapshotChunk(ByteReader& in, Message& m) {
  m.index = in.Get<std::uint64_t>();
  m.log_term = in.Get<std::uint64_t>();
  m.offset = in.Get<std::uint64_t>();
  m.total = in.Get<std::uint64_t>();
  const std::uint32_t size = in.Get<std::uint32_t>();
  if (m.total > kSnapshotSizeMax) return Bad("total", m.total);
  if (m.offset > m.total || size > m.total - m.offset) return Bad("offset", m.offset);
  const absl::string_view data = in.GetBytes(size);
  m.data.assign(data.data(), data.size());
  return absl::OkStatus();
}

absl::Status TakeBody(ByteReader& in, Message& m) {
  switch (m.type) {
    case MessageType::kPreVote:
    case MessageType::kVote:
      m.index = in.Get<std::uint64_t>();
      m.log_term = in.Get<std::uint64_t>();
      break;
    case MessageType::kAppend:
      return TakeAppend(in, m);
    case MessageType::kAppendReply:
      m.index = in.Get<std::uint64_t>();
      m.hint = in.Get<std::uint64_t>();
      m.log_term = in.Get<std::uint64_t>();
      break;
    case MessageType::kHeartbeat:
      m.commit = in.Get<std::uint64_t>();
      m.round = in.Get<std::uint64_t>();
      break;
    case MessageType::kHeartbeatReply:
    case MessageType::kReadRequest:
      m.round = in.Get<std::uint64_t>();
      break;
    case MessageType::kSnapshot:
      return TakeSnapshotChunk(in, m);
    case MessageType::kSnapshotReply:
      m.index = in.Get<std::uint64_t>();
      m.offset = in.Get<std::uint64_t>();
      break;
    case MessageType::kReadReply:
      m.index = in.Get<std::uint64_t>();
      m.round = in.Get<std::uint64_t>();
      break;
    case MessageType::kPreVoteReply:
    case MessageType::kVoteReply:
    case MessageType::kTimeoutNow:
      break;
  }
  return absl::OkStatus();
}

}  // namespace

std::string EncodeMessage(const Message& m) {
  ByteWriter out;
  std::size_t size = kAppendOverhead + m.data.size();
  for (const Entry& entry : m.entries) size += kEntryOverhead + entry.data.size();
  out.bytes().reserve(size);
  out.Put(static_cast<std::uint8_t>(m.type));
  out.Put(static_cast<std::uint8_t>((m.reject ? kFlagReject : 0) | (m.force ? kFlagForce : 0)));
  out.Put(std::uint16_t{0});
  out.Put(m.from.value());
  out.Put(m.to.value());
  out.Put(m.term);
  PutBody(m, out);
  return out.Take();
}

absl::StatusOr<Message> DecodeMessage(absl::string_view bytes) {
  ByteReader in(bytes);
  Message m;
  const std::uint8_t type = in.Get<std::uint8_t>();
  if (type == 0 || type > static_cast<std::uint8_t>(kMessageTypeMax)) return Bad("type", type);
  m.type = static_cast<MessageType>(type);
  const std::uint8_t flags = in.Get<std::uint8_t>();
  m.reject = (flags & kFlagReject) != 0;
  m.force = (flags & kFlagForce) != 0;
  if ((flags & ~(kFlagReject | kFlagForce)) != 0 || (m.reject && !MayReject(m.type)) ||
      (m.force && m.type != MessageType::kVote)) {
    return Bad("flags", flags);
  }
  if (const std::uint16_t reserved = in.Get<std::uint16_t>(); reserved != 0) {
    return Bad("reserved", reserved);
  }
  m.from = ServerId(in.Get<std::uint64_t>());
  m.to = ServerId(in.Get<std::uint64_t>());
  m.term = in.Get<std::uint64_t>();
  RING_RETURN_IF_ERROR(TakeBody(in, m));
  if (!in.finished()) return Bad("size", bytes.size());
  if (m.from == kNoServer) return Bad("from", 0);
  if (m.to == kNoServer) return Bad("to", 0);
  return m;
}

std::size_t EncodedSize(const Configuration& configuration) {
  return 4 + 8 * (configuration.voters.size() + configuration.learners.size());
}

std::string EncodeConfiguration(const Configuration& configuration) {
  ByteWriter out;
  PutServers(configuration.voters, out);
  PutServers(configuration.learners, out);
  return out.Take();
}

absl::StatusOr<Configuration> DecodeConfiguration(absl::string_view bytes) {
  ByteReader in(bytes);
  Configuration configuration{TakeServers(in), TakeServers(in)};
  if (!in.finished()) return Bad("configuration_size", bytes.size());
  RING_RETURN_IF_ERROR(configuration.Validate());
  return configuration;
}

std::string EncodeSnapshot(const Snapshot& snapshot) {
  ByteWriter out;
  out.Put(snapshot.index);
  out.Put(snapshot.term);
  const std::string configuration = EncodeConfiguration(snapshot.configuration);
  out.PutString(configuration);
  out.PutBytes(snapshot.data);
  return out.Take();
}

absl::StatusOr<Snapshot> DecodeSnapshot(absl::string_view bytes) {
  ByteReader in(bytes);
  Snapshot snapshot;
  snapshot.index = in.Get<std::uint64_t>();
  snapshot.term = in.Get<std::uint64_t>();
  const absl::string_view configuration = in.GetString();
  if (!in.ok()) return Bad("snapshot_size", bytes.size());
  RING_ASSIGN_OR_RETURN(snapshot.configuration, DecodeConfiguration(configuration));
  snapshot.data.assign(in.rest()->data(), in.rest()->size());
  return snapshot;
}

void PutEntry(const Entry& entry, ByteWriter& out) {
  out.Put(entry.term);
  out.Put(static_cast<std::uint8_t>(entry.kind));
  out.Put(static_cast<std::uint32_t>(entry.data.size()));
  out.PutBytes(entry.data);
}

absl::StatusOr<Entry> TakeEntry(LogIndex index, ByteReader& in) {
  Entry entry;
  entry.index = index;
  entry.term = in.Get<std::uint64_t>();
  const std::uint8_t kind = in.Get<std::uint8_t>();
  const std::uint32_t size = in.Get<std::uint32_t>();
  const absl::string_view data = in.GetBytes(size);
  if (!in.ok()) return Bad("entry_size", size);
  if (kind == 0 || kind > static_cast<std::uint8_t>(EntryKind::kConfig)) {
    return Bad("entry_kind", kind);
  }
  entry.kind = static_cast<EntryKind>(kind);
  entry.data.assign(data.data(), data.size());
  if (entry.kind == EntryKind::kConfig) {
    RING_RETURN_IF_ERROR(DecodeConfiguration(entry.data).status());
  }
  return entry;
}

}  // namespace ring::consensus
