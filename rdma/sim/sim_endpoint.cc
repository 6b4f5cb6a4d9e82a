#include "rdma/sim/sim_endpoint.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace ring::rdma::sim {
namespace {

class SimRequest final : public soft::PendingRequest {
 public:
  explicit SimRequest(std::shared_ptr<SimConnection> connection)
      : connection_(std::move(connection)) {}
  ~SimRequest() override { connection_->Reject(""); }  // nothing once it was answered
  bool mapped() const override { return false; }
  absl::Status Accept(soft::SoftQueuePair* qp, absl::string_view private_data) override {
    connection_->Accept(qp, private_data);
    return absl::OkStatus();
  }
  void Reject(absl::string_view private_data) override { connection_->Reject(private_data); }

 private:
  std::shared_ptr<SimConnection> connection_;
};

}  // namespace

SimEndpoint::~SimEndpoint() {
  for (const std::string& name : names_) network_->RemoveListener(name, this);
  network_->DropDevice(device_);
}

absl::StatusOr<std::string> SimEndpoint::Listen(absl::string_view address) {
  std::string name(address);
  if (!network_->AddListener(name, this))
    return absl::AlreadyExistsError(absl::StrCat(address, " is empty or taken"));
  names_.push_back(name);
  return name;
}

absl::Status SimEndpoint::Connect(absl::string_view address, soft::SoftQueuePair* qp,
                                  absl::string_view private_data) {
  auto connection = std::make_shared<SimConnection>(network_);
  connection->set_number(network_->AddConnection(connection));
  connection->Propose(device_, host_, qp->number(), std::string(address), private_data);
  return absl::OkStatus();
}

void SimEndpoint::OnConnect(const std::shared_ptr<SimConnection>& connection,
                            std::string private_data) {
  device_->AddRequest(std::make_unique<SimRequest>(connection), std::move(private_data));
}

}  // namespace ring::rdma::sim
