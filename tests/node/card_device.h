// tests/node/card_device.h — a device with the scheme of RDMA cards, on a machine without one.
//
// What:      CardDevice: "rdma:HOST:PORT" is TCP below. MakeCards: a factory that gives such a one
//            to the nodes that are named, and to the others what the machine has. While the network
//            of the cards is cut, nobody is connected to by rdma.
// Ownership: owns the device below.
// Threads:   the device's.
// Errors:    those of the device below.
#ifndef RING_TESTS_NODE_CARD_DEVICE_H_
#define RING_TESTS_NODE_CARD_DEVICE_H_

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "rdma/forwarding_device.h"
#include "ring/base/status.h"
#include "ring/node/node.h"

namespace ring::node::testing {

class CardDevice final : public rdma::ForwardingDevice {
 public:
  using Cut = std::shared_ptr<const std::atomic<bool>>;

  explicit CardDevice(std::unique_ptr<rdma::Device> below, Cut cut = nullptr)
      : ForwardingDevice(std::move(below)), cut_(std::move(cut)) {}

  absl::StatusOr<std::string> Listen(absl::string_view address) override {
    if (!absl::StartsWith(address, "rdma:")) return below()->Listen(address);
    RING_ASSIGN_OR_RETURN(const std::string listens, below()->Listen(Tcp(address)));
    return absl::StrCat("rdma:", absl::StripPrefix(listens, "tcp:"));
  }
  absl::StatusOr<std::unique_ptr<rdma::QueuePair>> Connect(
      absl::string_view address, const rdma::QueuePairOptions& options,
      absl::string_view private_data) override {
    if (cut_ != nullptr && cut_->load() && absl::StartsWith(address, "rdma:"))
      return absl::UnavailableError("the cards' network is cut");
    return below()->Connect(Tcp(address), options, private_data);
  }
  // Taken out while the cut lasts.
  absl::Status CardStatus() const override {
    const bool gone = cut_ != nullptr && cut_->load();
    return gone ? absl::UnavailableError("card=0 went away") : absl::OkStatus();
  }

 private:
  static std::string Tcp(absl::string_view address) {
    const bool card = absl::ConsumePrefix(&address, "rdma:");
    return absl::StrCat(card ? "tcp:" : "", address);
  }

  Cut cut_;
};

inline DeviceFactory MakeCards(std::set<std::string> names, CardDevice::Cut cut = nullptr) {
  return
      [names = std::move(names), cut = std::move(cut)](
          const rdma::SoftDeviceOptions& options) -> absl::StatusOr<std::unique_ptr<rdma::Device>> {
        RING_ASSIGN_OR_RETURN(std::unique_ptr<rdma::Device> device, rdma::OpenSoftDevice(options));
        if (names.count(options.name) == 0) return device;
        return {std::make_unique<CardDevice>(std::move(device), cut)};
      };
}

}  // namespace ring::node::testing

#endif  // RING_TESTS_NODE_CARD_DEVICE_H_
