#include "rdma/verbs/wire.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace ring::rdma::verbs {
namespace {

// What the private data of a rejection may hold on InfiniBand.
constexpr std::size_t kRejectionSizeMax = 148;

std::string CheckVersion(std::uint32_t magic, std::uint16_t version) {
  if (magic != kVerbsMagic) return "refused: the peer does not speak this protocol";
  if (version != kVerbsVersion) {
    return absl::StrCat("refused: rdma link version=", version,
                        ", this program has version=", kVerbsVersion,
                        ": run the same release on both sides");
  }
  return "";
}

}  // namespace

void ControlMessage::set_data(absl::string_view data) {
  private_data_size = static_cast<std::uint32_t>(std::min(data.size(), private_data.size()));
  std::memcpy(private_data.data(), data.data(), private_data_size);
}

std::string ReadGreeting(absl::Span<const std::byte> bytes, Greeting* greeting) {
  if (bytes.size() < sizeof(*greeting)) return "refused: expected a greeting";
  std::memcpy(greeting, bytes.data(), sizeof(*greeting));
  return CheckVersion(greeting->magic, greeting->version);
}

std::string ReadControlMessage(absl::Span<const std::byte> bytes, ControlMessage* message) {
  if (bytes.size() != sizeof(*message)) return "refused: a control message of another size";
  std::memcpy(message, bytes.data(), sizeof(*message));
  std::string reason = CheckVersion(message->magic, message->version);
  if (reason.empty() && message->private_data_size > kPrivateDataSizeMax)
    reason = "refused: private data longer than it may be";
  return reason;
}

std::string EncodeRejection(absl::string_view reason) {
  std::string bytes(sizeof(kVerbsMagic), '\0');
  std::memcpy(bytes.data(), &kVerbsMagic, sizeof(kVerbsMagic));
  absl::StrAppend(&bytes, reason.substr(0, kRejectionSizeMax - bytes.size()));
  return bytes;
}

std::string DecodeRejection(absl::Span<const std::byte> bytes) {
  std::uint32_t magic = 0;
  if (bytes.size() < sizeof(magic)) return "";
  std::memcpy(&magic, bytes.data(), sizeof(magic));
  if (magic != kVerbsMagic) return "";
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  // The system fills up with zeros.
  return std::string(text + sizeof(magic),
                     strnlen(text + sizeof(magic), bytes.size() - sizeof(magic)));
}

}  // namespace ring::rdma::verbs
