#include "ring/node/log_links.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/check.h"
#include "ring/base/status.h"

namespace ring::node {

LogLinks::LogLinks(const LogLinkContext* context, std::size_t role_count,
                   std::uint16_t first_writer_id)
    : context_(context), first_writer_id_(first_writer_id), links_(role_count) {}

LogLinks::~LogLinks() { Begin({}); }

void LogLinks::Break() {
  for (Link& link : links_) link.qp.reset();
}

void LogLinks::Begin(const protocol::LogHello& hello) {
  hello_ = hello;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    Drop(Role(static_cast<std::uint16_t>(i)));
    links_[i].attempt = 0;
  }
}

void LogLinks::Drop(Role role) {
  Link& link = at(role);
  link.qp.reset();  // its completions are dropped with it (L6)
  context_->credits->GiveBack(link.member, std::move(link.credit));
  context_->staging->GiveBack(std::move(link.staging));
  const std::uint32_t attempt = link.attempt;
  link = Link();
  link.attempt = attempt;
}

absl::Status LogLinks::Connect(Role role, const cluster::Holder& member, const std::string& address,
                               bool joins) {
  Link& link = at(role);
  RING_CHECK(!link.established) << "role=" << role.value();
  link.qp.reset();
  if (!(link.member == member)) context_->credits->GiveBack(link.member, std::move(link.credit));
  link.member = member;
  if (link.credit.address == nullptr) {
    RING_ASSIGN_OR_RETURN(link.credit, context_->credits->Take(member));
  }
  const rdma::RemoteBuffer credit = link.credit.region->remote();
  protocol::LogHello hello = hello_;
  if (joins) hello.flags |= protocol::kLogJoins;
  hello.attempt = ++link.attempt;
  hello.credit = {credit.address, credit.length, credit.rkey, 0};
  RING_ASSIGN_OR_RETURN(link.qp, context_->device->Connect(address,
                                                           {.send_cq = context_->log_cq,
                                                            .recv_cq = context_->log_cq,
                                                            .send_depth = kLogSendDepth,
                                                            .recv_depth = 1},
                                                           protocol::EncodeHello(hello)));
  return absl::OkStatus();
}

absl::StatusOr<protocol::LogAccept> LogLinks::CheckAccept(
    const rdma::ConnectionEvent& event) const {
  RING_ASSIGN_OR_RETURN(const protocol::LogAccept accept,
                        protocol::DecodeHello<protocol::LogAccept>(event.private_data));
  const std::uint64_t expected = memgest::kRingControlSize + context_->ring_size;
  if (accept.ring.length == expected) return accept;
  const std::uint64_t theirs =
      accept.ring.length - std::min(accept.ring.length, memgest::kRingControlSize);
  return absl::InvalidArgumentError(absl::StrCat("ring_size=", theirs, " at the member, ",
                                                 context_->ring_size,
                                                 " here: give all nodes the same ring_size"));
}

LogLinks::News LogLinks::OnEvent(const rdma::ConnectionEvent& event) {
  const auto found = std::find_if(links_.begin(), links_.end(), [&event](const Link& link) {
    return link.qp != nullptr && link.qp.get() == event.qp;
  });
  if (found == links_.end()) return {};
  Link& link = *found;
  News news;
  news.role = Role(static_cast<std::uint16_t>(found - links_.begin()));
  if (event.kind == rdma::ConnectionEvent::Kind::kEstablished) {
    absl::StatusOr<protocol::LogAccept> accept = CheckAccept(event);
    if (accept.ok()) {
      link.accept = *accept;
      // L5: what the member may have been writing there for an earlier connection has come by now,
      // and for this one it has nothing to say before entries come.
      CreditWord(link)->store(0, std::memory_order_release);
      link.established = true;
      news.outcome = Outcome::kConnected;
      return news;
    }
    news.error = std::string(accept.status().message());
  } else {
    news.error = event.private_data.empty() ? "no answer" : event.private_data;
  }
  news.outcome = link.established ? Outcome::kLost : Outcome::kFailed;
  // The writer of a lost one finds its queue pair in error.
  if (news.outcome == Outcome::kFailed) link.qp.reset();
  return news;
}

absl::StatusOr<std::unique_ptr<memgest::LogWriter>> LogLinks::MakeWriter(Role role, Epoch epoch) {
  Link& link = at(role);
  RING_CHECK(link.established && link.writer == nullptr) << "role=" << role.value();
  if (link.staging.address == nullptr) {
    RING_ASSIGN_OR_RETURN(link.staging, context_->staging->Take(rdma::kLocalOnly));
  }
  memgest::LogWriterOptions writer;
  writer.qp = link.qp.get();
  writer.ring = {link.accept.ring.address, link.accept.ring.length, link.accept.ring.rkey};
  writer.credit = CreditWord(link);
  writer.staging = link.staging.address;
  writer.staging_size = static_cast<std::uint32_t>(context_->staging->size());
  writer.staging_lkey = link.staging.lkey;
  writer.writer_id = static_cast<std::uint16_t>(first_writer_id_ + role.value());
  writer.epoch = epoch;
  writer.send_depth = kLogSendDepth;
  return std::make_unique<memgest::LogWriter>(writer);
}

memgest::LogWriter* LogLinks::WriterById(std::uint16_t writer_id) const {
  const std::size_t role = static_cast<std::size_t>(writer_id - first_writer_id_);
  return writer_id >= first_writer_id_ && role < links_.size() ? links_[role].writer : nullptr;
}

void LogLinks::RingDoorbells() {
  for (Link& link : links_) {
    if (link.writer == nullptr || link.writer->broken()) continue;
    if (link.writer->shared_position() == link.rung_position) continue;
    link.rung_position = link.writer->shared_position();
    const bool sleeping = link.qp->PeerSleep() != 0;
    // Entries count once they are written, and folding them can wait until the member looks around
    // by itself: one that dozes off behind each is not woken for each.
    if (sleeping && !link.rung) link.writer->RingDoorbell();
    link.rung = sleeping;
  }
}

}  // namespace ring::node
