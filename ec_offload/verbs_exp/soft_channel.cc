// Completion channels of the software device: events, and the descriptor that programs wait on.
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "ec_offload/verbs_exp/soft_nic.h"
#include "ec_offload/verbs_exp/soft_queues.h"

namespace ring::ec_verbs {

void Channel::Tell(CompletionQueue& cq) {
  if (cq.event_count++ == 0) told.splice(told.end(), cq.place);
  ++event_count;
  // Of a socket that is full the program knows already.
  const char byte = 0;
  if (send(told_fd, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1) ++byte_count;
}

CompletionQueue* Channel::Take() {
  if (told.empty()) return nullptr;
  CompletionQueue* const cq = told.front();
  if (--cq->event_count == 0) {
    cq->place.splice(cq->place.end(), told, told.begin());
  } else {
    told.splice(told.end(), told, told.begin());
  }
  --event_count;
  TakeBytes();
  return cq;
}

void Channel::Drop(CompletionQueue& cq) {
  if (cq.event_count == 0) return;
  for (auto at = told.begin(); at != told.end(); ++at) {
    if (*at != &cq) continue;
    cq.place.splice(cq.place.end(), told, at);
    break;
  }
  event_count -= cq.event_count;
  cq.event_count = 0;
  TakeBytes();
}

void Channel::TakeBytes() {
  char byte = 0;
  for (; byte_count > event_count; --byte_count) (void)!recv(fd, &byte, 1, MSG_DONTWAIT);
}

ibv_comp_channel* NicCreateChannel(ibv_context* context) {
  auto channel = std::make_unique<Channel>();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return nullptr;
  channel->context = context;
  channel->fd = ends[0];
  channel->told_fd = ends[1];
  return channel.release();
}

int NicDestroyChannel(ibv_comp_channel* base) {
  MutexLock lock(Nic::Get().mutex);
  if (base->refcnt > 0) return EBUSY;
  auto* const channel = static_cast<Channel*>(base);
  close(channel->fd);
  close(channel->told_fd);
  delete channel;
  return 0;
}

int NicGetCqEvent(ibv_comp_channel* base, ibv_cq** cq, void** cq_context) {
  auto* const channel = static_cast<Channel*>(base);
  for (;;) {
    // Waits as a read would: a signal ends it, and a non-blocking descriptor does not wait.
    char byte = 0;
    if (recv(channel->fd, &byte, 1, MSG_PEEK) != 1) return -1;
    MutexLock lock(Nic::Get().mutex);
    CompletionQueue* const from = channel->Take();
    if (from == nullptr) continue;  // another thread has it, or its queue is gone
    ++from->taken_count;
    *cq = from;
    *cq_context = from->cq_context;
    return 0;
  }
}

void NicAckCqEvents(ibv_cq* cq, unsigned count) {
  Nic& nic = Nic::Get();
  {
    MutexLock lock(nic.mutex);
    static_cast<CompletionQueue*>(cq)->acknowledged_count += count;
  }
  nic.acknowledged.NotifyAll();
}

}  // namespace ring::ec_verbs
