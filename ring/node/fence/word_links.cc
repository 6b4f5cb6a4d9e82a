#include "ring/node/fence/word_links.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/log.h"
#include "ring/base/status.h"
#include "ring/node/config/link_policy.h"
#include "ring/node/fence/fence_word.h"

namespace ring::node {
namespace {
constexpr std::uint64_t kStepNs = 5'000'000;
constexpr std::uint64_t kBackoffMinNs = 10'000'000;
constexpr std::uint64_t kBackoffMaxNs = 1'000'000'000;
constexpr std::size_t kReadDepth = 1024;
// A cache line for a node's own word; the same for where others' land.
constexpr std::size_t kBufferSize = WordLinks::kReadsMax * kFenceWordSize;
}  // namespace

absl::StatusOr<std::unique_ptr<WordLinks>> WordLinks::Create(const Options& options) {
  std::unique_ptr<WordLinks> links(new WordLinks(options));
  RING_ASSIGN_OR_RETURN(links->reads_cq_, options.device->CreateCompletionQueue(kReadDepth));
  RING_ASSIGN_OR_RETURN(links->rest_cq_, options.device->CreateCompletionQueue(1));
  RING_ASSIGN_OR_RETURN(links->word_, links->memory_.Take(rdma::kRemoteRead));
  return links;
}

WordLinks::WordLinks(const Options& options)
    : options_(options), memory_(options.device, kBufferSize, 1u << 16) {}

WordLinks::~WordLinks() {
  for (const std::unique_ptr<Link>& link : links_) Drop(*link);
  readers_.clear();
  memory_.GiveBack(std::move(word_));
}

void WordLinks::SetPeers(std::vector<Peer> peers) {
  std::vector<Peer> before = std::exchange(peers_, std::move(peers));
  before.resize(peers_.size());
  while (links_.size() < peers_.size()) links_.push_back(std::make_unique<Link>());
  readers_.resize(std::max(readers_.size(), peers_.size()));
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const std::uint64_t present = peers_[i].incarnation.value();
    Link& link = *links_[i];
    const bool moved = IsOtherTransport(before[i].address, peers_[i].address);
    // A start that is new here is there now: who was away for long is tried at once.
    const bool returned = present != 0 && before[i].incarnation.value() != present;
    const bool other = link.established ? present != 0 && link.incarnation != present : returned;
    const bool ends = link.qp != nullptr && (other || moved);
    if (ends) Drop(link);
    if (ends || (returned && link.qp == nullptr)) link.backoff_ns = link.retry_ns = 0;
  }
}

void WordLinks::OnConnectRequest(std::uint64_t request, absl::string_view private_data) {
  const absl::Status status = TryAccept(request, private_data);
  if (status.ok()) return;
  options_.device->Reject(request, status.message().substr(0, rdma::kPrivateDataSizeMax));
}

absl::Status WordLinks::TryAccept(std::uint64_t request, absl::string_view private_data) {
  RING_ASSIGN_OR_RETURN(const protocol::WordHello hello,
                        protocol::DecodeHello<protocol::WordHello>(private_data));
  if (hello.cluster != options_.cluster)
    return absl::InvalidArgumentError("another cluster: check cluster names and s, d");
  if (hello.node >= readers_.size() || hello.node == options_.node.value())
    return absl::InvalidArgumentError(absl::StrCat("no such node here: node=", hello.node));
  const rdma::RemoteBuffer word = word_.region->remote();
  protocol::WordAccept accept;
  accept.incarnation = options_.incarnation.value();
  accept.word = {word.address, word.length, word.rkey, 0};
  readers_[hello.node].reset();  // it connects anew
  RING_ASSIGN_OR_RETURN(
      readers_[hello.node],
      options_.device->Accept(
          request,
          {.send_cq = rest_cq_.get(), .recv_cq = rest_cq_.get(), .send_depth = 1, .recv_depth = 1},
          protocol::EncodeHello(accept)));
  return absl::OkStatus();
}

void WordLinks::Connect(Link& link, const std::string& address, std::uint64_t now_ns) {
  link.backoff_ns = std::clamp(link.backoff_ns * 2, kBackoffMinNs, kBackoffMaxNs);
  link.retry_ns = now_ns + link.backoff_ns;
  protocol::WordHello hello;
  hello.cluster = options_.cluster;
  hello.incarnation = options_.incarnation.value();
  hello.node = options_.node.value();
  absl::StatusOr<BufferPool::Buffer> landing = memory_.Take(rdma::kLocalOnly);
  if (!landing.ok()) return;
  link.landing = *std::move(landing);
  absl::StatusOr<std::unique_ptr<rdma::QueuePair>> qp =
      options_.device->Connect(address,
                               {.send_cq = reads_cq_.get(),
                                .recv_cq = rest_cq_.get(),
                                .send_depth = kReadsMax,
                                .recv_depth = 1},
                               protocol::EncodeHello(hello));
  if (!qp.ok()) return Drop(link);
  link.qp = *std::move(qp);
  link.qp->set_context(&link);
}

absl::Status WordLinks::Establish(Link& link, absl::string_view private_data) {
  RING_ASSIGN_OR_RETURN(const protocol::WordAccept accept,
                        protocol::DecodeHello<protocol::WordAccept>(private_data));
  if (accept.word.length < kFenceWordSize || accept.word.address % kFenceWordSize != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("word address=", accept.word.address, " length=", accept.word.length));
  }
  link.established = true;
  link.incarnation = accept.incarnation;
  link.word = accept.word;
  // When it is lost it is made anew at once, however late it came up.
  link.retry_ns = link.retry_ns - link.backoff_ns + kBackoffMinNs;
  link.backoff_ns = 0;
  return absl::OkStatus();
}

bool WordLinks::OnEvent(const rdma::ConnectionEvent& event) {
  if (event.qp == nullptr) return false;
  const auto reader = std::find_if(
      readers_.begin(), readers_.end(),
      [&](const std::unique_ptr<rdma::QueuePair>& qp) { return qp.get() == event.qp; });
  if (reader != readers_.end()) {
    if (event.kind == rdma::ConnectionEvent::Kind::kDisconnected) reader->reset();
    return true;
  }
  const auto found =
      std::find_if(links_.begin(), links_.end(),
                   [&](const std::unique_ptr<Link>& link) { return link->qp.get() == event.qp; });
  if (found == links_.end()) return false;
  Link& link = **found;
  if (event.kind != rdma::ConnectionEvent::Kind::kEstablished) {
    Drop(link);
  } else if (const absl::Status status = Establish(link, event.private_data); !status.ok()) {
    RING_LOG(WARNING) << "node=" << options_.node.value()
                      << " cannot read the word of node=" << found - links_.begin() << ": "
                      << status;
    Drop(link);
  }
  return true;
}

// What was posted fails; a set that waits for it is told so.
void WordLinks::Drop(Link& link) {
  link.qp.reset();  // its completions are dropped with it
  for (; link.done < link.posted; ++link.done)
    ready_.push_back({link.tags[link.done % kReadsMax], false, 0});
  memory_.GiveBack(std::exchange(link.landing, {}));
  link.established = false;
}

void WordLinks::Progress(std::uint64_t now_ns, absl::Span<const consensus::ServerId> voters) {
  if (now_ns < next_step_ns_) return;
  next_step_ns_ = now_ns + kStepNs;
  for (const consensus::ServerId voter : voters) {
    const std::size_t node = consensus::NodeOf(voter);
    if (node >= peers_.size() || node == options_.node.value()) continue;
    Link& link = *links_[node];
    if (link.qp == nullptr && now_ns >= link.retry_ns) Connect(link, peers_[node].address, now_ns);
  }
}

bool WordLinks::Post(NodeId node, std::uint64_t tag) {
  if (node == options_.node) {
    ready_.push_back({tag, true, LoadFenceWord(word_.address)});
    return true;
  }
  if (node.value() >= links_.size()) return false;
  Link& link = *links_[node.value()];
  if (!link.established || link.posted - link.done == kReadsMax) return false;
  const std::size_t slot = link.posted % kReadsMax;
  const rdma::Sge sge = {link.landing.address + slot * kFenceWordSize, kFenceWordSize,
                         link.landing.lkey};
  rdma::WorkRequest request;
  request.opcode = rdma::Opcode::kRead;
  request.signaled = true;
  request.sges = absl::MakeConstSpan(&sge, 1);
  request.remote_address = link.word.address;
  request.rkey = link.word.rkey;
  if (!link.qp->PostSend(request).ok()) return false;
  link.tags[slot] = tag;
  ++link.posted;
  return true;
}

bool WordLinks::Poll(Word* word) {
  rdma::WorkCompletion completion;
  if (ready_.empty() && reads_cq_->Poll(absl::MakeSpan(&completion, 1)) > 0) {
    Link& link = *static_cast<Link*>(completion.qp->context());
    if (completion.status == rdma::WcStatus::kSuccess) {
      const std::size_t slot = link.done++ % kReadsMax;
      *word = {link.tags[slot], true, LoadFenceWord(link.landing.address + slot * kFenceWordSize)};
      return true;
    }
    Drop(link);
  }
  if (ready_.empty()) return false;
  *word = ready_.front();
  ready_.pop_front();
  return true;
}

}  // namespace ring::node
