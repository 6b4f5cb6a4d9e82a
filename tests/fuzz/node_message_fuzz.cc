// What a peer may send of itself: renewals of leases, answers to probes and proposals, health,
// events; and what whoever reaches the admin service may ask a node to do wrong.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "ring/base/check.h"
#include "ring/node/control/cluster_machine.h"
#include "ring/node/control/founding.h"
#include "ring/node/events/event.h"
#include "ring/node/events/fault.h"
#include "ring/node/fence/lease_message.h"
#include "ring/node/health_report.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ring::node;
  using ring::testing::RoundTrip;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  RoundTrip(bytes, DecodeRenewal, EncodeRenewal);
  RoundTrip(bytes, DecodeProbe, EncodeProbe);
  RoundTrip(bytes, DecodeResult, EncodeResult);
  RoundTrip(bytes, DecodeFault, EncodeFault);
  RoundTrip(bytes, DecodeDeviceFaults, EncodeDeviceFaults);
  RoundTrip(bytes, DecodeEvents, EncodeEvents);
  RoundTrip(bytes, DecodeHealth, EncodeHealth);
  if (const auto fault = DecodeFault(bytes); fault.ok()) RING_CHECK(CheckFault(*fault).ok());
  return 0;
}
