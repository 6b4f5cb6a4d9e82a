#include "api/admin/admin_service.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>

#include <atomic>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/admin.grpc.pb.h"
#include "api/admin/admin_listener.h"
#include "api/admin/admin_token.h"
#include "api/admin/convert.h"
#include "api/admin/convert_fault.h"
#include "ring/base/check.h"
#include "ring/base/status.h"
#include "ring/cluster/catalogue.h"

namespace ring::admin {
namespace {

using grpc::ServerContext;

constexpr std::chrono::seconds kShutdownGrace{2};
constexpr int kKeepAliveMs = 20'000;

absl::StatusOr<node::AdminRequestId> ReadRequestId(const v1::RequestId& id, bool present) {
  if (!present) {
    return absl::InvalidArgumentError(
        "request_id is missing: a change needs one, so that a retry is the same change");
  }
  if (id.client().empty() || id.client().size() > cluster::kAdminClientSizeMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("request_id.client has size=", id.client().size(), ", allowed are 1 to ",
                     cluster::kAdminClientSizeMax));
  }
  if (id.seq() == 0) return absl::InvalidArgumentError("request_id.seq=0: count from 1");
  return node::AdminRequestId{id.client(), id.seq()};
}

absl::Status CheckName(absl::string_view name) {
  if (name.empty() || name.size() > protocol::kMemgestNameSizeMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "name has size=", name.size(), ", allowed are 1 to ", protocol::kMemgestNameSizeMax));
  }
  return absl::OkStatus();
}

// Whom the services answer.
class Gate {
 public:
  explicit Gate(std::string token) : token_(std::move(token)) {}

  absl::Status Admit(const ServerContext& context) const {
    if (absl::Status status = CheckToken(context); !status.ok()) return status;
    // What is begun for a caller who has given up would be certain to look lost.
    if (context.IsCancelled())
      return absl::CancelledError("the call was cancelled; nothing was done");
    if (context.deadline() <= std::chrono::system_clock::now()) {
      return absl::DeadlineExceededError("the deadline had passed on arrival; nothing was done");
    }
    return absl::OkStatus();
  }

  absl::Status AdmitNodeChange(const ServerContext& context, absl::string_view node) const {
    if (absl::Status status = Admit(context); !status.ok()) return status;
    if (node.empty() || node.size() > cluster::kAddressSizeMax) {
      return absl::InvalidArgumentError(absl::StrCat(
          "node has size=", node.size(), ", allowed are 1 to ", cluster::kAddressSizeMax));
    }
    return absl::OkStatus();
  }

  // What every change of the catalogue needs before the port is asked.
  template <class Request>
  absl::StatusOr<node::AdminRequestId> AdmitChange(const ServerContext& context,
                                                   const Request& request) const {
    if (absl::Status status = Admit(context); !status.ok()) return status;
    return ReadRequestId(request.request_id(), request.has_request_id());
  }

  template <class Request>
  absl::StatusOr<node::AdminRequestId> AdmitNamedChange(const ServerContext& context,
                                                        const Request& request) const {
    auto id = AdmitChange(context, request);
    if (!id.ok()) return id;
    if (absl::Status status = CheckName(request.name()); !status.ok()) return status;
    return id;
  }

 private:
  absl::Status CheckToken(const ServerContext& context) const {
    if (token_.empty()) return absl::OkStatus();
    const auto headers = context.client_metadata().equal_range(kTokenHeader);
    for (auto header = headers.first; header != headers.second; ++header) {
      if (IsToken({header->second.data(), header->second.size()}, token_)) return absl::OkStatus();
    }
    return absl::UnauthenticatedError(
        headers.first == headers.second
            ? "this admin service asks for a token: ringctl takes it from --admin-token-file or "
              "RING_ADMIN_TOKEN_FILE"
            : "the token is not this admin service's");
  }

  const std::string token_;
};

class AdminService final : public v1::Admin::Service {
 public:
  AdminService(node::AdminPort* port, const Gate* gate) : port_(*port), gate_(*gate) {}

  grpc::Status CreateMemgest(ServerContext* context, const v1::CreateMemgestRequest* request,
                             v1::CreateMemgestResponse* response) override {
    const auto id = gate_.AdmitChange(*context, *request);
    if (!id.ok()) return ToGrpc(id.status());
    const auto descriptor = FromProto(request->spec());
    if (!descriptor.ok()) return ToGrpc(descriptor.status());
    const auto got = port_.GetView();
    if (!got.ok()) return ToGrpc(got.status());
    const cluster::View& view = **got;
    if (absl::Status status = descriptor->Validate(view.s, view.d); !status.ok()) {
      return ToGrpc(status);
    }
    const auto created = port_.CreateMemgest(*id, *descriptor);
    if (!created.ok()) return ToGrpc(created.status());
    // Made it is, whoever says which is the default one.
    const auto after = port_.GetView();
    *response->mutable_memgest() =
        ToProto(*created, after.ok() ? (*after)->default_memgest : view.default_memgest);
    return grpc::Status::OK;
  }

  grpc::Status DeleteMemgest(ServerContext* context, const v1::DeleteMemgestRequest* request,
                             v1::DeleteMemgestResponse*) override {
    const auto id = gate_.AdmitNamedChange(*context, *request);
    if (!id.ok()) return ToGrpc(id.status());
    return ToGrpc(port_.DeleteMemgest(*id, request->name(), request->force()));
  }

  grpc::Status SetDefaultMemgest(ServerContext* context,
                                 const v1::SetDefaultMemgestRequest* request,
                                 v1::SetDefaultMemgestResponse*) override {
    const auto id = gate_.AdmitNamedChange(*context, *request);
    if (!id.ok()) return ToGrpc(id.status());
    return ToGrpc(port_.SetDefaultMemgest(*id, request->name()));
  }

  grpc::Status GetMemgestDescriptor(ServerContext* context,
                                    const v1::GetMemgestDescriptorRequest* request,
                                    v1::GetMemgestDescriptorResponse* response) override {
    if (absl::Status status = gate_.Admit(*context); !status.ok()) return ToGrpc(status);
    if (absl::Status status = CheckName(request->name()); !status.ok()) return ToGrpc(status);
    const auto got = port_.GetView();
    if (!got.ok()) return ToGrpc(got.status());
    const cluster::View& view = **got;
    const auto* memgest = view.FindMemgest(absl::string_view(request->name()));
    if (memgest == nullptr) {
      return ToGrpc(absl::NotFoundError(
          absl::StrCat("no memgest name=", request->name(), ": list the memgests")));
    }
    *response->mutable_memgest() = ToProto(*memgest, view.default_memgest);
    return grpc::Status::OK;
  }

  grpc::Status ListMemgests(ServerContext* context, const v1::ListMemgestsRequest* request,
                            v1::ListMemgestsResponse* response) override {
    if (absl::Status status = gate_.Admit(*context); !status.ok()) return ToGrpc(status);
    const auto got = port_.GetView();
    if (!got.ok()) return ToGrpc(got.status());
    const cluster::View& view = **got;
    for (const auto& memgest : view.memgests) {
      if (memgest.state == protocol::MemgestState::kDeleted && !request->include_deleted())
        continue;
      *response->add_memgests() = ToProto(memgest, view.default_memgest);
    }
    return grpc::Status::OK;
  }

  grpc::Status GetClusterView(ServerContext* context, const v1::GetClusterViewRequest*,
                              v1::GetClusterViewResponse* response) override {
    if (absl::Status status = gate_.Admit(*context); !status.ok()) return ToGrpc(status);
    const auto view = port_.GetView();
    if (!view.ok()) return ToGrpc(view.status());
    *response = ToProto(**view);
    return grpc::Status::OK;
  }

  grpc::Status GetStats(ServerContext* context, const v1::GetStatsRequest*,
                        v1::GetStatsResponse* response) override {
    if (absl::Status status = gate_.Admit(*context); !status.ok()) return ToGrpc(status);
    const auto stats = port_.GetStats();
    if (!stats.ok()) return ToGrpc(stats.status());
    *response = ToProto(*stats);
    return grpc::Status::OK;
  }

  grpc::Status GetHealth(ServerContext* context, const v1::GetHealthRequest*,
                         v1::GetHealthResponse* response) override {
    if (absl::Status status = gate_.Admit(*context); !status.ok()) return ToGrpc(status);
    const auto health = port_.GetHealth();
    if (!health.ok()) return ToGrpc(health.status());
    *response = ToProto(*health);
    return grpc::Status::OK;
  }

  grpc::Status GetEvents(ServerContext* context, const v1::GetEventsRequest* request,
                         v1::GetEventsResponse* response) override {
    if (absl::Status status = gate_.Admit(*context); !status.ok()) return ToGrpc(status);
    std::vector<node::EventCursor> cursors;
    for (const v1::EventCursor& cursor : request->cursors()) {
      cursors.push_back(
          {NodeId(cursor.node()), Incarnation(cursor.incarnation()), cursor.number()});
    }
    const auto events = port_.GetEvents(cursors);
    if (!events.ok()) return ToGrpc(events.status());
    for (const node::NodeEvents& one : *events) *response->add_nodes() = ToProto(one);
    return grpc::Status::OK;
  }

  grpc::Status Drain(ServerContext* context, const v1::DrainRequest* request,
                     v1::DrainResponse*) override {
    if (absl::Status status = gate_.AdmitNodeChange(*context, request->node()); !status.ok()) {
      return ToGrpc(status);
    }
    return ToGrpc(port_.DrainNode(request->node(), request->force()));
  }

  grpc::Status AddNode(ServerContext* context, const v1::AddNodeRequest* request,
                       v1::AddNodeResponse* response) override {
    if (absl::Status status = gate_.AdmitNodeChange(*context, request->name()); !status.ok()) {
      return ToGrpc(status);
    }
    cluster::NodeInfo info;
    info.name = request->name();
    if (!request->data().empty()) info.tcp_address = absl::StrCat("tcp:", request->data());
    if (!request->shm().empty()) info.shm_address = absl::StrCat("shm:", request->shm());
    if (!request->rdma().empty()) info.rdma_address = absl::StrCat("rdma:", request->rdma());
    info.admin_address = request->admin();
    const absl::StatusOr<NodeId> node = port_.AddNode(info);
    if (!node.ok()) return ToGrpc(node.status());
    response->set_node(node->value());
    return grpc::Status::OK;
  }

  grpc::Status RemoveNode(ServerContext* context, const v1::RemoveNodeRequest* request,
                          v1::RemoveNodeResponse*) override {
    if (absl::Status status = gate_.AdmitNodeChange(*context, request->node()); !status.ok()) {
      return ToGrpc(status);
    }
    return ToGrpc(port_.RemoveNode(request->node(), request->force()));
  }

  grpc::Status AcceptLoss(ServerContext* context, const v1::AcceptLossRequest* request,
                          v1::AcceptLossResponse* response) override {
    if (absl::Status status = gate_.Admit(*context); !status.ok()) return ToGrpc(status);
    const absl::StatusOr<std::vector<cluster::StoppedShard>> shards = FromProto(*request);
    if (!shards.ok()) return ToGrpc(shards.status());
    const absl::StatusOr<int> count = port_.AcceptLoss(*shards);
    if (!count.ok()) return ToGrpc(count.status());
    response->set_shards(static_cast<std::uint32_t>(*count));
    return grpc::Status::OK;
  }

  grpc::Status Scrub(ServerContext* context, const v1::ScrubRequest*,
                     grpc::ServerWriter<v1::ScrubResponse>* writer) override {
    if (absl::Status status = gate_.Admit(*context); !status.ok()) return ToGrpc(status);
    if (scrubbing_.exchange(true)) {
      return ToGrpc(absl::ResourceExhaustedError("a scrub is running here: wait for its end"));
    }
    const auto report = port_.Scrub([&](const node::ScrubProgress& progress) {
      v1::ScrubResponse message;
      message.mutable_progress()->set_checked(progress.checked);
      message.mutable_progress()->set_total(progress.total);
      return !context->IsCancelled() && writer->Write(message);
    });
    scrubbing_.store(false);
    if (!report.ok()) return ToGrpc(report.status());
    v1::ScrubResponse last;
    *last.mutable_report() = ToProto(*report);
    writer->Write(last);
    return grpc::Status::OK;
  }

 private:
  node::AdminPort& port_;
  const Gate& gate_;
  std::atomic<bool> scrubbing_{false};
};

class FaultInjectionService final : public v1::FaultInjection::Service {
 public:
  FaultInjectionService(node::AdminPort* port, const Gate* gate) : port_(*port), gate_(*gate) {}

  grpc::Status Inject(ServerContext* context, const v1::InjectRequest* request,
                      v1::InjectResponse*) override {
    if (absl::Status status = gate_.AdmitNodeChange(*context, request->node()); !status.ok()) {
      return ToGrpc(status);
    }
    const absl::StatusOr<node::Fault> fault = FromProto(*request);
    if (!fault.ok()) return ToGrpc(fault.status());
    return ToGrpc(port_.InjectFault(request->node(), *fault));
  }

  grpc::Status GetDeviceFaults(ServerContext* context, const v1::GetDeviceFaultsRequest* request,
                               v1::GetDeviceFaultsResponse* response) override {
    if (absl::Status status = gate_.AdmitNodeChange(*context, request->node()); !status.ok()) {
      return ToGrpc(status);
    }
    const absl::StatusOr<node::DeviceFaults> faults = port_.GetDeviceFaults(request->node());
    if (faults.ok()) *response = ToProto(*faults);
    return ToGrpc(faults.status());
  }

 private:
  node::AdminPort& port_;
  const Gate& gate_;
};

class GrpcAdminServer final : public AdminServer {
 public:
  GrpcAdminServer(node::AdminPort* port, std::string token)
      : port_(port), gate_(std::move(token)), service_(port, &gate_), faults_(port, &gate_) {}
  ~GrpcAdminServer() override { Shutdown(); }

  absl::Status Start(const std::string& address) {
    RING_ASSIGN_OR_RETURN(listener_, AdminListener::Open(address));
    grpc::ServerBuilder builder;
    // Who vanished, or never spoke HTTP/2, is given up.
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepAliveMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepAliveMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    builder.SetMaxReceiveMessageSize(static_cast<int>(kAdminMessageSizeMax));
    builder.SetResourceQuota(grpc::ResourceQuota("admin").SetMaxThreads(kAdminThreadCountMax));
    builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
    builder.RegisterService(&service_);
    builder.RegisterService(&faults_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) {
      return absl::UnavailableError(
          absl::StrCat("the admin service does not start: address=", address));
    }
    listener_->Start([this](int fd) { grpc::AddInsecureChannelFromFd(server_.get(), fd); });
    return absl::OkStatus();
  }

  int port() const override { return listener_->port(); }

  void Shutdown() override {
    if (server_ == nullptr) return;
    listener_->Stop();
    // gRPC waits for its handlers, and these for what may take minutes.
    port_->EndCalls();
    server_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
    server_->Wait();
    server_.reset();
  }

 private:
  node::AdminPort* const port_;
  const Gate gate_;
  AdminService service_;
  FaultInjectionService faults_;
  std::unique_ptr<AdminListener> listener_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<AdminServer>> StartAdminServer(absl::string_view address,
                                                              node::AdminPort* port,
                                                              std::string token) {
  RING_CHECK(port != nullptr);
  // Process-wide switches of gRPC; setting them again is harmless.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  auto server = std::make_unique<GrpcAdminServer>(port, std::move(token));
  if (absl::Status status = server->Start(std::string(address)); !status.ok()) return status;
  return std::unique_ptr<AdminServer>(std::move(server));
}

}  // namespace ring::admin
