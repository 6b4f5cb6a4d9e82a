// Any bytes as a configuration file: a located error, or a configuration whose view is valid.
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "ring/base/check.h"
#include "ring/cluster/view.h"
#include "ring/node/config/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = ring::node::ParseNodeConfig(text, "fuzz.toml");
  if (!config.ok()) {
    RING_CHECK(!config.status().message().empty());
    return 0;
  }
  const ring::cluster::View view = config->InitialView();
  const absl::Status status = view.Validate();
  RING_CHECK(status.ok()) << status;
  RING_CHECK(config->self.value() < view.nodes.size());
  const auto decoded = ring::cluster::DecodeView(ring::cluster::EncodeView(view));
  RING_CHECK(decoded.ok() && *decoded == view);
  return 0;
}
