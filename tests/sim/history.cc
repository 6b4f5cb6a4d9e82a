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

}  // namespace

std::string KeyName(int key) { return absl::StrCat("k", key); }

std::string VersionText(Version version) {
  return absl::StrCat(version.epoch().value(), ".", version.counter());
}

std::string Describe(const Operation& op) {
  return absl::StrCat(
      "process=", op.process, " ", KindName(op.kind), " key=", KeyName(op.key), " value=", op.value,
      " version=", VersionText(op.version), " memgest=", op.memgest_name,
      op.if_version.has_value() ? absl::StrCat(" if_version=", VersionText(*op.if_version)) : "",
      " invoke=", op.invoke_ns, " return=", op.return_ns, " ", ResultName(op.result));
}

void History::WriteJson(std::FILE* file) const {
  for (const Operation& op : operations_) {
    const bool has_value = op.value != 0;
    const std::string value = has_value ? absl::StrCat("\"v", op.value, "\"") : "null";
    const std::string version = op.version.bits() != 0 && !op.mismatch
                                    ? absl::StrCat("\"", VersionText(op.version), "\"")
                                    : "null";
    const std::string returned = op.return_ns == 0 ? "null" : absl::StrCat(op.return_ns);
    std::fprintf(file,
                 "{\"process\":%d,\"op\":\"%s\",\"key\":\"%s\",\"value\":%s,\"memgest\":\"%s\","
                 "\"version\":%s,\"invoke\":%llu,\"return\":%s,\"outcome\":\"%s\"}\n",
                 op.process, KindName(op.kind), KeyName(op.key).c_str(), value.c_str(),
                 op.memgest_name.c_str(), version.c_str(),
                 static_cast<unsigned long long>(op.invoke_ns), returned.c_str(),
                 ResultName(op.result));
  }
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
