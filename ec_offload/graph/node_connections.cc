// The connections of a node's run: one for each lane, made by who sends on it.
#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ec_offload/graph/node_run.h"
#include "ring/base/check.h"
#include "ring/base/status.h"

namespace ring::ec_offload {

using rdma::ConnectionEvent;

namespace {

constexpr absl::string_view kLaneWord = "ec-graph-lane ";

}  // namespace

absl::Status NodeRun::Connect(const NodeAddresses& peers) {
  RING_CHECK(done()) << "a run is under way";
  connect_status_ = absl::OkStatus();
  broken_ = false;
  for (std::size_t i = 0; i < out_.size(); ++i) {
    const PlannedLane& lane = plan_.out[i];
    const auto address = peers.find(lane.peer);
    if (address == peers.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("node ", node_, " sends to node ", lane.peer, ": give its address"));
    }
    absl::StatusOr<std::unique_ptr<rdma::QueuePair>> qp = options_.device->Connect(
        address->second,
        {.send_cq = primitives_->send_cq(),
         .recv_cq = idle_cq_.get(),
         .send_depth = static_cast<std::uint32_t>(2 * lane.messages.size()),
         .recv_depth = 1},
        absl::StrCat(kLaneWord, lane.number));
    if (!qp.ok()) {
      return {qp.status().code(),
              absl::StrCat("node ", node_, " to node ", lane.peer, ": ", qp.status().message())};
    }
    out_[i].qp = *std::move(qp);
    out_[i].established = false;
  }
  return absl::OkStatus();
}

bool NodeRun::connected() const {
  const auto established = [](const Connection& connection) { return connection.established; };
  return !broken_ && primitives_->ready() && std::all_of(in_.begin(), in_.end(), established) &&
         std::all_of(out_.begin(), out_.end(), established);
}

void NodeRun::Disconnect() {
  RING_CHECK(done()) << "a run is under way";
  for (std::vector<Connection>* connections : {&in_, &out_}) {
    for (Connection& connection : *connections) {
      connection.qp.reset();
      connection.established = false;
    }
  }
  for (Connection& connection : in_) primitives_->ForgetReceives(connection.recv_cq.get());
}

// Ends what is under way on them; peers hear of it.
void NodeRun::ResetConnections() {
  broken_ = true;
  for (std::vector<Connection>* connections : {&in_, &out_}) {
    for (Connection& connection : *connections) {
      if (connection.qp != nullptr) connection.qp->Reset();
      connection.established = false;
    }
  }
}

bool NodeRun::TakeEvents() {
  bool any = false;
  ConnectionEvent event;
  while (options_.device->PollEvent(&event)) {
    any = true;
    if (!primitives_->OnEvent(event)) OnEvent(event);
  }
  return any;
}

void NodeRun::OnEvent(const ConnectionEvent& event) {
  if (event.kind == ConnectionEvent::Kind::kConnectRequest) return Accept(event);
  NodeId peer = 0;
  Connection* const connection = Find(event.qp, &peer);
  if (connection == nullptr) return;
  connection->established = event.kind == ConnectionEvent::Kind::kEstablished;
  if (event.kind == ConnectionEvent::Kind::kRejected && connect_status_.ok()) {
    connect_status_ = absl::UnavailableError(absl::StrCat(
        "node ", node_, " to node ", peer,
        ": rejected: ", event.private_data.empty() ? "nobody answers" : event.private_data));
  }
}

void NodeRun::Accept(const ConnectionEvent& event) {
  absl::string_view word = event.private_data;
  std::size_t number = 0;
  const bool is_lane = absl::ConsumePrefix(&word, kLaneWord) && absl::SimpleAtoi(word, &number);
  const auto lane = std::find_if(plan_.in.begin(), plan_.in.end(), [&](const PlannedLane& planned) {
    return is_lane && planned.number == number;
  });
  if (lane == plan_.in.end()) {
    options_.device->Reject(event.request, "no lane of this node's graph");
    return;
  }
  Connection& connection = in_[static_cast<std::size_t>(lane - plan_.in.begin())];
  if (!done() || connection.qp != nullptr) {
    options_.device->Reject(event.request, "the lane has a connection: Disconnect first");
    return;
  }
  absl::StatusOr<std::unique_ptr<rdma::QueuePair>> qp =
      options_.device->Accept(event.request,
                              {.send_cq = idle_cq_.get(),
                               .recv_cq = connection.recv_cq.get(),
                               .send_depth = 1,
                               .recv_depth = static_cast<std::uint32_t>(lane->messages.size())},
                              "");
  if (!qp.ok()) {
    options_.device->Reject(event.request, qp.status().message());
    return;
  }
  connection.qp = *std::move(qp);
  connection.established = connection.qp->state() == rdma::QpState::kReadyToSend;
}

NodeRun::Connection* NodeRun::Find(const rdma::QueuePair* qp, NodeId* peer) {
  if (qp == nullptr) return nullptr;
  for (std::size_t i = 0; i < in_.size(); ++i) {
    if (in_[i].qp.get() != qp) continue;
    *peer = plan_.in[i].peer;
    return &in_[i];
  }
  for (std::size_t i = 0; i < out_.size(); ++i) {
    if (out_[i].qp.get() != qp) continue;
    *peer = plan_.out[i].peer;
    return &out_[i];
  }
  return nullptr;
}

}  // namespace ring::ec_offload
