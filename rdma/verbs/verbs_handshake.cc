// The part of VerbsConnection that makes a connection, up to the link.
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/soft/device.h"
#include "rdma/soft/queue_pair.h"
#include "rdma/soft/socket_address.h"
#include "rdma/verbs/verbs_connection.h"
#include "ring/base/log.h"
#include "ring/base/status.h"

namespace ring::rdma::verbs {
namespace {

constexpr int kResolveMs = 2000;

class VerbsRequest final : public soft::PendingRequest {
 public:
  explicit VerbsRequest(std::shared_ptr<VerbsConnection> connection)
      : connection_(std::move(connection)) {}
  ~VerbsRequest() override { Reject(""); }
  bool mapped() const override { return false; }
  absl::Status Accept(soft::SoftQueuePair* qp, absl::string_view private_data) override {
    return connection_->AcceptWith(qp, private_data);
  }
  void Reject(absl::string_view private_data) override {
    if (connection_->state() == VerbsConnection::State::kRequested)
      connection_->Refuse(private_data);
  }

 private:
  std::shared_ptr<VerbsConnection> connection_;
};

absl::Status ManagerError(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

}  // namespace

absl::Status VerbsConnection::Connect(rdma_event_channel* channel,
                                      const soft::SocketAddress* source,
                                      const soft::SocketAddress& target, soft::SoftQueuePair* own,
                                      absl::string_view private_data) {
  qp_number_ = own->number();
  private_data_ = std::string(private_data);
  if (const absl::Status port = hub_->PortStatus(); !port.ok()) {
    Fail(port.message());
    return absl::OkStatus();
  }
  if (rdma_create_id(channel, &id_, this, RDMA_PS_TCP) != 0) {
    id_ = nullptr;
    return absl::ResourceExhaustedError(absl::StrCat("rdma_create_id: ", std::strerror(errno)));
  }
  soft::SocketAddress from = source == nullptr ? soft::SocketAddress{} : *source;
  soft::SocketAddress to = target;
  if (rdma_resolve_addr(id_, source == nullptr ? nullptr : from.raw(), to.raw(), kResolveMs) != 0)
    Fail(absl::StrCat("rdma_resolve_addr: ", std::strerror(errno)));
  return absl::OkStatus();
}

void VerbsConnection::OnCmEvent(const CmEvent& event) {
  if (state_ == State::kDead) return;
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      return Resolved();
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      return Routed();
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      return Answered(event.private_data);
    case RDMA_CM_EVENT_REJECTED:
      return Fail(DecodeRejection(event.private_data));
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return OnHangUp();
    default:  // established: the peer's first message tells more
      return;
  }
}

void VerbsConnection::Resolved() {
  const absl::StatusOr<Nic*> nic = hub_->NicOf(id_);
  if (!nic.ok()) return Fail(nic.status().message());
  nic_ = *nic;
  if (rdma_resolve_route(id_, kResolveMs) != 0) Fail(ManagerError("rdma_resolve_route").message());
}

absl::Status VerbsConnection::MakeControl() {
  RING_ASSIGN_OR_RETURN(control_, ControlQueue::Make(nic_, serial_));
  RING_ASSIGN_OR_RETURN(path_.init, AskTransition(id_, IBV_QPS_INIT));
  RING_RETURN_IF_ERROR(control_->card().Initialise(path_.init));
  if (!control_->PostReceives()) return absl::ResourceExhaustedError("no receives of control");
  return absl::OkStatus();
}

absl::Status VerbsConnection::ConnectControl(absl::Span<const std::byte> bytes) {
  Greeting greeting;
  const std::string reason = ReadGreeting(bytes, &greeting);
  if (!reason.empty()) return absl::FailedPreconditionError(reason);
  path_.peer_reads = greeting.atomics;
  RING_ASSIGN_OR_RETURN(path_.receive, AskTransition(id_, IBV_QPS_RTR));
  RING_ASSIGN_OR_RETURN(path_.send, AskTransition(id_, IBV_QPS_RTS));
  return control_->card().Connect(path_, path_.receive.attributes.dest_qp_num,
                                  PlanRnr(device_->options().rnr_timeout_ms));
}

absl::StatusOr<std::unique_ptr<DataQueue>> VerbsConnection::MakeData(
    const soft::SoftQueuePair& own) {
  RING_ASSIGN_OR_RETURN(
      std::unique_ptr<DataQueue> data,
      DataQueue::Make(nic_, serial_, own.options().send_depth, own.options().recv_depth));
  RING_RETURN_IF_ERROR(data->card().Initialise(path_.init));
  return data;
}

namespace {

// The card's own, and what the manager has to know of the queue pair that it connects.
rdma_conn_param Parameters(const Nic& nic, ControlQueue& control, Greeting* greeting) {
  greeting->atomics = ReadsTaken(nic);
  rdma_conn_param parameters{};
  parameters.private_data = greeting;
  parameters.private_data_len = sizeof(*greeting);
  parameters.responder_resources = parameters.initiator_depth = ReadsTaken(nic);
  parameters.retry_count = 7;
  parameters.rnr_retry_count = 7;
  parameters.qp_num = control.card().number();
  return parameters;
}

}  // namespace

void VerbsConnection::Routed() {
  soft::SoftQueuePair* const own = qp();
  if (own == nullptr) return Die();
  absl::Status made = MakeControl();
  if (made.ok()) {
    absl::StatusOr<std::unique_ptr<DataQueue>> data = MakeData(*own);
    made = data.status();
    if (made.ok()) data_ = std::move(*data);
  }
  if (!made.ok()) return Fail(made.message());
  Greeting greeting;
  rdma_conn_param parameters = Parameters(*nic_, *control_, &greeting);
  if (rdma_connect(id_, &parameters) != 0) return Fail(ManagerError("rdma_connect").message());
  SetState(State::kConnecting);
}

void VerbsConnection::Answered(absl::Span<const std::byte> greeting) {
  if (qp() == nullptr) return Disconnect();
  absl::Status connected = ConnectControl(greeting);
  if (connected.ok() && rdma_establish(id_) != 0) connected = ManagerError("rdma_establish");
  if (!connected.ok()) return Fail(connected.message());
  SetState(State::kAwaitAnswer);
  if (!SendControl(ControlType::kHello, private_data_)) Fail("hello could not be sent");
}

absl::Status VerbsConnection::StartAdmission(absl::Span<const std::byte> greeting) {
  RING_ASSIGN_OR_RETURN(nic_, hub_->NicOf(id_));
  RING_RETURN_IF_ERROR(MakeControl());
  RING_RETURN_IF_ERROR(ConnectControl(greeting));
  Greeting answer;
  rdma_conn_param parameters = Parameters(*nic_, *control_, &answer);
  if (rdma_accept(id_, &parameters) != 0) return ManagerError("rdma_accept");
  return absl::OkStatus();
}

void VerbsConnection::Admit(rdma_cm_id* id, absl::Span<const std::byte> private_data) {
  id_ = id;
  id_->context = this;
  SetState(State::kAwaitHello);
  const absl::Status started = StartAdmission(private_data);
  if (started.ok()) return;
  const std::string rejection = EncodeRejection(started.message());
  rdma_reject(id_, rejection.data(), static_cast<std::uint8_t>(rejection.size()));
  Die();
}

bool VerbsConnection::SendControl(ControlType type, absl::string_view private_data) {
  ControlMessage message;
  message.type = type;
  message.data_qp_number = data_ == nullptr ? 0 : data_->card().number();
  message.table_address = nic_->memory().table_address();
  message.table_rkey = nic_->memory().table_rkey();
  message.word_address = control_->word().address;
  message.word_rkey = control_->word().rkey;
  message.set_data(private_data);
  return control_->Send(message);
}

void VerbsConnection::OnControlMessage(const ControlMessage& message) {
  switch (message.type) {
    case ControlType::kHello:
      return OnHello(message);
    case ControlType::kAccept:
    case ControlType::kReject:
      return OnAnswer(message);
    case ControlType::kReady:
      peer_ready_ = state_ == State::kLinked;
      return;
  }
  Break("a control message of no type");
}

void VerbsConnection::OnHello(const ControlMessage& message) {
  if (state_ != State::kAwaitHello) return Break("a second hello");
  peer_data_number_ = message.data_qp_number;
  peer_table_ = {message.table_address, message.table_rkey};
  peer_word_ = {message.word_address, message.word_rkey};
  SetState(State::kRequested);
  device_->AddRequest(std::make_unique<VerbsRequest>(shared_from_this()),
                      std::string(message.data()));
}

absl::Status VerbsConnection::AcceptWith(soft::SoftQueuePair* own, absl::string_view private_data) {
  if (state_ != State::kRequested)
    return absl::UnavailableError("the peer closed its connection request");
  absl::StatusOr<std::unique_ptr<DataQueue>> data = MakeData(*own);
  absl::Status made = data.status();
  if (made.ok()) {
    made = (*data)->card().Connect(path_, peer_data_number_,
                                   PlanRnr(device_->options().rnr_timeout_ms));
  }
  if (!made.ok()) {
    Refuse(made.message());
    return made;
  }
  data_ = std::move(*data);
  qp_number_ = own->number();
  const bool told = SendControl(ControlType::kAccept, private_data);
  Link(own, "");
  if (!told) Break("its answer cannot be sent");
  return absl::OkStatus();
}

void VerbsConnection::OnAnswer(const ControlMessage& message) {
  if (state_ != State::kAwaitAnswer) return Break("a second answer");
  soft::SoftQueuePair* const own = qp();
  const bool rejected = message.type == ControlType::kReject;
  if (rejected || own == nullptr || own->state() != QpState::kInit) return Fail(message.data());
  peer_table_ = {message.table_address, message.table_rkey};
  peer_word_ = {message.word_address, message.word_rkey};
  const absl::Status connected = data_->card().Connect(path_, message.data_qp_number,
                                                       PlanRnr(device_->options().rnr_timeout_ms));
  if (!connected.ok()) return Fail(connected.message());
  peer_ready_ = true;
  const bool told = SendControl(ControlType::kReady, "");
  Link(own, std::string(message.data()));
  if (!told) Break("its answer cannot be sent");
}

void VerbsConnection::Link(soft::SoftQueuePair* own, std::string private_data) {
  SetState(State::kLinked);
  data_->PostReceives(own->receives());
  BreakWithData();
  device_->Establish(own, std::make_unique<VerbsLink>(shared_from_this()), std::move(private_data));
}

}  // namespace ring::rdma::verbs
