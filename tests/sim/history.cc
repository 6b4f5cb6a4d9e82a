#include "tests/sim/history.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace ring::sim {
namespace {

constexpr std::uint64_t kMix = 0x9e3779b97f4a7c15;

const char* KindName(OpKind kind) {
  switch (kind) {
    case OpKind::kPut:
      return "put";
    case OpKind::kGet:
      return "get";
    case OpKind::kDelete:
      return "delete";
    case OpKind::kMove:
      return "move";
  }
  return "";
}

const char* ResultName(OpResult result) {
  switch (result) {
    case OpResult::kOk:
      return "ok";
    case OpResult::kNotFound:
      return "not_found";
    case OpResult::kFailed:
      return "failed";
    default:
      return "unknown";
  }
}

void WriteLoss(const Loss& loss, std::FILE* file) {
  std::string keys;
  for (const int key : loss.keys)
    absl::StrAppend(&keys, keys.empty() ? "" : ",", "\"", KeyName(key), "\"");
  std::fprintf(file, "{\"keys\":[%s],\"f\":%s,\"before_epoch\":%u,\"time\":%llu}\n", keys.c_str(),
               loss.everything ? "null" : "0", static_cast<unsigned>(loss.epoch.value()),
               static_cast<unsigned long long>(loss.time_ns));
}

}  // namespace

std::string KeyName(int key) { return absl::StrCat("k", key); }

std::string Describe(const Operation& op) {
  return absl::StrCat(
      "process=", op.process, " ", KindName(op.kind), " key=", KeyName(op.key), " value=", op.value,
      " version=", ToString(op.version), " memgest=", op.memgest_name,
      op.if_version.has_value() ? absl::StrCat(" if_version=", ToString(*op.if_version)) : "",
      " invoke=", op.invoke_ns, " return=", op.return_ns, " ", ResultName(op.result));
}

void History::WriteJson(std::FILE* file) const {
  for (const Operation& op : operations_) {
    const std::string value = op.value != 0 ? absl::StrCat("\"v", op.value, "\"") : "null";
    const std::string version =
        op.version.bits() != 0 ? absl::StrCat("\"", ToString(op.version), "\"") : "null";
    const std::string condition =
        op.if_version.has_value() ? absl::StrCat("\"", ToString(*op.if_version), "\"") : "null";
    const std::string returned = op.return_ns == 0 ? "null" : absl::StrCat(op.return_ns);
    const std::string tolerates = op.tolerates < 0 ? "null" : absl::StrCat(op.tolerates);
    std::fprintf(file,
                 "{\"process\":%d,\"op\":\"%s\",\"key\":\"%s\",\"value\":%s,\"memgest\":\"%s\","
                 "\"f\":%s,\"if_version\":%s,\"version\":%s,\"invoke\":%llu,\"return\":%s,"
                 "\"outcome\":\"%s\",\"mismatch\":%s}\n",
                 op.process, KindName(op.kind), KeyName(op.key).c_str(), value.c_str(),
                 op.memgest_name.c_str(), tolerates.c_str(), condition.c_str(), version.c_str(),
                 static_cast<unsigned long long>(op.invoke_ns), returned.c_str(),
                 ResultName(op.result), op.mismatch ? "true" : "false");
  }
}

void History::WriteLosses(std::FILE* file) const {
  for (const Loss& loss : losses_) WriteLoss(loss, file);
}

std::string ValueBytes(ValueId id, std::uint32_t size) {
  std::string bytes(size, '\0');
  const std::uint64_t head[] = {id, size};
  std::memcpy(bytes.data(), head, sizeof(head));
  std::uint64_t word = id * kMix;
  for (std::size_t at = sizeof(head); at < size; at += sizeof(word)) {
    word = word * 6364136223846793005u + kMix;
    std::memcpy(bytes.data() + at, &word, std::min(sizeof(word), size - at));
  }
  return bytes;
}

ValueId ReadValue(absl::string_view bytes) {
  std::uint64_t head[2];
  if (bytes.size() < sizeof(head)) return 0;
  std::memcpy(head, bytes.data(), sizeof(head));
  if (head[1] != bytes.size()) return 0;
  return ValueBytes(head[0], static_cast<std::uint32_t>(bytes.size())) == bytes ? head[0] : 0;
}

}  // namespace ring::sim
