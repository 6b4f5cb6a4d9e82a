#include "api/admin/admin_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "api/admin.grpc.pb.h"
#include "api/admin/admin_token.h"
#include "api/admin/convert.h"
#include "api/admin/convert_fault.h"
#include "ring/base/host_port.h"
#include "ring/base/status.h"

namespace ring::admin {
namespace {

using protocol::MemgestDescriptor;

constexpr int kResponseSizeMax = 64 << 20;  // a large cluster's view
constexpr absl::Duration kBackoffMin = absl::Milliseconds(50);
constexpr absl::Duration kBackoffMax = absl::Seconds(1);

std::string RandomClientName() {
  std::random_device device;
  std::string name;
  for (int i = 0; i < 4; ++i) absl::StrAppendFormat(&name, "%08x", device());
  return name;
}

bool IsRetried(grpc::StatusCode code) {
  return code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::DEADLINE_EXCEEDED;
}

class GrpcAdminClient final : public AdminClient {
 public:
  explicit GrpcAdminClient(AdminClientOptions options)
      : options_(std::move(options)), name_(RandomClientName()) {
    options_.deadline = std::min(options_.deadline, kDeadlineMax);
    for (const std::string& address : options_.addresses) {
      grpc::ChannelArguments arguments;
      arguments.SetMaxReceiveMessageSize(kResponseSizeMax);
      // Retries are ours: they carry the request id to other nodes, too.
      arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
      arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
      channels_.push_back(
          grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
      stubs_.push_back(v1::Admin::NewStub(channels_.back()));
    }
  }

  absl::StatusOr<MemgestDescriptor> CreateMemgest(const MemgestDescriptor& descriptor) override {
    v1::CreateMemgestRequest request;
    *request.mutable_request_id() = NextRequestId();
    *request.mutable_spec() = ToProto(descriptor);
    v1::CreateMemgestResponse response;
    RING_RETURN_IF_ERROR(Call(&v1::Admin::Stub::CreateMemgest, request, &response));
    return FromProto(response.memgest());
  }

  absl::Status DeleteMemgest(absl::string_view name, bool force) override {
    v1::DeleteMemgestRequest request;
    *request.mutable_request_id() = NextRequestId();
    request.set_name(std::string(name));
    request.set_force(force);
    v1::DeleteMemgestResponse response;
    return Call(&v1::Admin::Stub::DeleteMemgest, request, &response);
  }

  absl::Status SetDefaultMemgest(absl::string_view name) override {
    v1::SetDefaultMemgestRequest request;
    *request.mutable_request_id() = NextRequestId();
    request.set_name(std::string(name));
    v1::SetDefaultMemgestResponse response;
    return Call(&v1::Admin::Stub::SetDefaultMemgest, request, &response);
  }

  absl::StatusOr<MemgestDescriptor> GetMemgestDescriptor(absl::string_view name) override {
    v1::GetMemgestDescriptorRequest request;
    request.set_name(std::string(name));
    v1::GetMemgestDescriptorResponse response;
    RING_RETURN_IF_ERROR(Call(&v1::Admin::Stub::GetMemgestDescriptor, request, &response));
    return FromProto(response.memgest());
  }

  absl::StatusOr<std::vector<MemgestDescriptor>> ListMemgests(bool include_deleted) override {
    v1::ListMemgestsRequest request;
    request.set_include_deleted(include_deleted);
    v1::ListMemgestsResponse response;
    RING_RETURN_IF_ERROR(Call(&v1::Admin::Stub::ListMemgests, request, &response));
    std::vector<MemgestDescriptor> memgests;
    for (const v1::Memgest& memgest : response.memgests()) {
      RING_ASSIGN_OR_RETURN(MemgestDescriptor descriptor, FromProto(memgest));
      memgests.push_back(std::move(descriptor));
    }
    return memgests;
  }

  absl::StatusOr<cluster::View> GetClusterView() override {
    v1::GetClusterViewResponse response;
    RING_RETURN_IF_ERROR(
        Call(&v1::Admin::Stub::GetClusterView, v1::GetClusterViewRequest(), &response));
    return FromProto(response);
  }

  absl::StatusOr<node::ClusterStats> GetStats() override {
    v1::GetStatsResponse response;
    RING_RETURN_IF_ERROR(Call(&v1::Admin::Stub::GetStats, v1::GetStatsRequest(), &response));
    return FromProto(response);
  }

  absl::StatusOr<cluster::Health> GetHealth() override {
    v1::GetHealthResponse response;
    RING_RETURN_IF_ERROR(Call(&v1::Admin::Stub::GetHealth, v1::GetHealthRequest(), &response));
    return FromProto(response);
  }

  absl::StatusOr<std::vector<node::NodeEvents>> GetEvents(
      absl::Span<const node::EventCursor> cursors) override {
    v1::GetEventsRequest request;
    for (const node::EventCursor& cursor : cursors) {
      v1::EventCursor* one = request.add_cursors();
      one->set_node(cursor.node.value());
      one->set_incarnation(cursor.incarnation.value());
      one->set_number(cursor.number);
    }
    v1::GetEventsResponse response;
    RING_RETURN_IF_ERROR(Call(&v1::Admin::Stub::GetEvents, request, &response));
    std::vector<node::NodeEvents> events;
    for (const v1::NodeEvents& one : response.nodes()) events.push_back(FromProto(one));
    return events;
  }

  absl::Status DrainNode(absl::string_view node, bool force) override {
    v1::DrainRequest request;
    request.set_node(std::string(node));
    request.set_force(force);
    v1::DrainResponse response;
    return Call(&v1::Admin::Stub::Drain, request, &response);
  }

  absl::StatusOr<NodeId> AddNode(const cluster::NodeInfo& info) override {
    v1::AddNodeRequest request;
    request.set_name(info.name);
    request.set_data(std::string(absl::StripPrefix(info.tcp_address, "tcp:")));
    request.set_shm(std::string(absl::StripPrefix(info.shm_address, "shm:")));
    request.set_rdma(std::string(absl::StripPrefix(info.rdma_address, "rdma:")));
    request.set_admin(info.admin_address);
    v1::AddNodeResponse response;
    RING_RETURN_IF_ERROR(Call(&v1::Admin::Stub::AddNode, request, &response));
    return NodeId(response.node());
  }

  absl::Status RemoveNode(absl::string_view node, bool force) override {
    v1::RemoveNodeRequest request;
    request.set_node(std::string(node));
    request.set_force(force);
    v1::RemoveNodeResponse response;
    return Call(&v1::Admin::Stub::RemoveNode, request, &response);
  }

  absl::StatusOr<int> AcceptLoss(absl::Span<const cluster::StoppedShard> shards) override {
    v1::AcceptLossResponse response;
    RING_RETURN_IF_ERROR(Call(&v1::Admin::Stub::AcceptLoss, ToProto(shards), &response));
    return static_cast<int>(response.shards());
  }

  // Sent once, to the address that answered last: a fault twice is another fault.
  absl::Status InjectFault(absl::string_view node, const node::Fault& fault) override {
    const v1::InjectRequest request = ToProto(node, fault);
    v1::InjectResponse response;
    grpc::ClientContext context;
    Introduce(&context);
    context.set_deadline(absl::ToChronoTime(absl::Now() + options_.attempt_deadline));
    return FromGrpc(v1::FaultInjection::NewStub(channels_[first_.load()])
                        ->Inject(&context, request, &response));
  }

  absl::StatusOr<node::DeviceFaults> GetDeviceFaults(absl::string_view node) override {
    v1::GetDeviceFaultsRequest request;
    request.set_node(std::string(node));
    v1::GetDeviceFaultsResponse response;
    grpc::ClientContext context;
    Introduce(&context);
    context.set_deadline(absl::ToChronoTime(absl::Now() + options_.attempt_deadline));
    RING_RETURN_IF_ERROR(FromGrpc(v1::FaultInjection::NewStub(channels_[first_.load()])
                                      ->GetDeviceFaults(&context, request, &response)));
    return FromProto(response);
  }

  absl::StatusOr<node::ScrubReport> Scrub(
      absl::FunctionRef<bool(const node::ScrubProgress&)> progress) override;

 private:
  template <class Request, class Response>
  using Method = grpc::Status (v1::Admin::Stub::*)(grpc::ClientContext*, const Request&, Response*);

  void Introduce(grpc::ClientContext* context) const {
    if (!options_.token.empty()) context->AddMetadata(kTokenHeader, BearerOf(options_.token));
  }

  v1::RequestId NextRequestId() {
    v1::RequestId id;
    id.set_client(name_);
    id.set_seq(next_seq_.fetch_add(1));
    return id;
  }

  // The error, and where it was met when that is not plain.
  absl::Status Explain(const grpc::Status& status) const {
    if (!IsRetried(status.error_code())) return FromGrpc(status);
    return absl::Status(
        static_cast<absl::StatusCode>(status.error_code()),
        absl::StrCat("tried admin addresses=", absl::StrJoin(options_.addresses, ","), " for ",
                     absl::FormatDuration(options_.deadline),
                     ", the last one: ", status.error_message()));
  }

  template <class Request, class Response>
  absl::Status Call(Method<Request, Response> method, const Request& request, Response* response) {
    const absl::Time end = absl::Now() + options_.deadline;
    absl::Duration backoff = kBackoffMin;
    for (std::size_t attempt = 0;; ++attempt) {
      grpc::ClientContext context;
      Introduce(&context);
      context.set_deadline(
          absl::ToChronoTime(std::min(end, absl::Now() + options_.attempt_deadline)));
      v1::Admin::Stub& stub = *stubs_[(first_.load() + attempt) % stubs_.size()];
      const grpc::Status status = (stub.*method)(&context, request, response);
      if (status.ok()) {
        first_ = (first_.load() + attempt) % stubs_.size();
        return absl::OkStatus();
      }
      if (!IsRetried(status.error_code()) || absl::Now() + backoff >= end) return Explain(status);
      // Another address at once; a pause before the same one again, or a node that is just
      // starting would be flooded.
      if ((attempt + 1) % stubs_.size() == 0) {
        absl::SleepFor(backoff);
        backoff = std::min(backoff * 2, kBackoffMax);
      }
    }
  }

  AdminClientOptions options_;
  const std::string name_;
  std::atomic<std::uint64_t> next_seq_{1};
  std::atomic<std::size_t> first_{0};                     // the address that answered last
  std::vector<std::shared_ptr<grpc::Channel>> channels_;  // by address, as the stubs
  std::vector<std::unique_ptr<v1::Admin::Stub>> stubs_;
};

absl::StatusOr<node::ScrubReport> GrpcAdminClient::Scrub(
    absl::FunctionRef<bool(const node::ScrubProgress&)> progress) {
  const absl::Time end = absl::Now() + options_.scrub_deadline;
  // A cheap call first: it finds an address that answers, and honours the deadline.
  v1::ListMemgestsResponse probe;
  RING_RETURN_IF_ERROR(Call(&v1::Admin::Stub::ListMemgests, v1::ListMemgestsRequest(), &probe));
  grpc::ClientContext context;
  Introduce(&context);
  if (end != absl::InfiniteFuture()) context.set_deadline(absl::ToChronoTime(end));
  const auto reader = stubs_[first_.load()]->Scrub(&context, v1::ScrubRequest());
  std::optional<node::ScrubReport> report;
  node::ScrubProgress last;
  bool stopped = false;
  v1::ScrubResponse message;
  while (reader->Read(&message)) {
    if (message.has_report()) {
      report = FromProto(message.report());
      continue;
    }
    last = {message.progress().checked(), message.progress().total()};
    if (!stopped && !progress(last)) {
      stopped = true;
      context.TryCancel();
    }
  }
  const grpc::Status status = reader->Finish();
  if (stopped) return absl::CancelledError("the scrub was stopped");
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED && absl::Now() >= end) {
    return absl::DeadlineExceededError(
        absl::StrCat("not done within ", absl::FormatDuration(options_.scrub_deadline),
                     ": checked=", last.checked, " of ", last.total));
  }
  if (!status.ok()) return FromGrpc(status);
  if (!report.has_value()) return absl::UnavailableError("the scrub ended without a report");
  return *std::move(report);
}

}  // namespace

absl::StatusOr<std::unique_ptr<AdminClient>> AdminClient::Create(AdminClientOptions options) {
  if (options.addresses.empty()) {
    return absl::InvalidArgumentError("no admin address: give HOST:PORT of a node");
  }
  for (const std::string& address : options.addresses) {
    if (!IsHostPort(address)) {
      return absl::InvalidArgumentError(
          absl::StrCat("admin address=", address.substr(0, 64),
                       " must be HOST:PORT or [IPV6]:PORT with a port 1 to 65535"));
    }
  }
  if (options.deadline <= absl::ZeroDuration() ||
      options.attempt_deadline <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("deadlines must be positive");
  }
  return std::unique_ptr<AdminClient>(std::make_unique<GrpcAdminClient>(std::move(options)));
}

}  // namespace ring::admin
