// What the control queue asks of a card that takes no request inline. The card is functions in the
// places of the library's own, so these tests need none.
#include "rdma/verbs/control_queue.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "rdma/verbs/nic.h"
#include "tests/support/status_matchers.h"

namespace ring::rdma::verbs {
namespace {

struct Posted {
  ibv_wr_opcode opcode;
  ibv_sge piece;
};

// A card that keeps what was posted to it.
struct TwinCard {
  static constexpr std::uint32_t kLkey = 7;
  static int PostSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);

  ibv_device device{};
  ibv_device* list[2] = {&device, nullptr};
  ibv_context context{};
  ibv_pd pd{};
  ibv_comp_channel channel{};
  ibv_cq cq{};
  ibv_qp qp{};
  ibv_mr mr{};
  std::vector<Posted> posted;
};
TwinCard card;

int TwinCard::PostSend(ibv_qp* /*qp*/, ibv_send_wr* wr, ibv_send_wr** bad) {
  *bad = wr;
  if ((wr->send_flags & IBV_SEND_INLINE) != 0) return EINVAL;
  card.posted.push_back({wr->opcode, wr->num_sge == 0 ? ibv_sge{} : wr->sg_list[0]});
  return 0;
}

}  // namespace
}  // namespace ring::rdma::verbs

using ring::rdma::verbs::card;
using ring::rdma::verbs::TwinCard;

extern "C" {
ibv_device** ibv_get_device_list(int* count) {
  *count = 1;
  return card.list;
}
void ibv_free_device_list(ibv_device** /*list*/) {}
const char* ibv_get_device_name(ibv_device* /*device*/) { return "twin"; }
ibv_context* ibv_open_device(ibv_device* /*device*/) {
  card.context.async_fd = -1;
  card.context.ops.post_send = TwinCard::PostSend;
  card.qp.context = &card.context;
  return &card.context;
}
int ibv_close_device(ibv_context* /*context*/) { return 0; }
int ibv_query_device(ibv_context* /*context*/, ibv_device_attr* attributes) {
  *attributes = {};
  attributes->phys_port_cnt = 1;
  attributes->atomic_cap = IBV_ATOMIC_HCA;
  attributes->max_cqe = 4096;
  return 0;
}
int(ibv_query_port)(ibv_context* /*context*/, std::uint8_t /*port*/,
                    _compat_ibv_port_attr* compat) {
  auto* const attributes = reinterpret_cast<ibv_port_attr*>(compat);
  attributes->state = IBV_PORT_ACTIVE;
  attributes->link_layer = IBV_LINK_LAYER_INFINIBAND;
  return 0;
}
ibv_pd* ibv_alloc_pd(ibv_context* /*context*/) { return &card.pd; }
int ibv_dealloc_pd(ibv_pd* /*pd*/) { return 0; }
ibv_comp_channel* ibv_create_comp_channel(ibv_context* /*context*/) {
  card.channel.fd = -1;
  return &card.channel;
}
int ibv_destroy_comp_channel(ibv_comp_channel* /*channel*/) { return 0; }
ibv_cq* ibv_create_cq(ibv_context* /*context*/, int depth, void* /*cq_context*/,
                      ibv_comp_channel* /*channel*/, int /*vector*/) {
  card.cq.cqe = depth;
  return &card.cq;
}
int ibv_destroy_cq(ibv_cq* /*cq*/) { return 0; }
ibv_mr*(ibv_reg_mr)(ibv_pd* /*pd*/, void* /*address*/, std::size_t /*size*/, int /*access*/) {
  card.mr.lkey = TwinCard::kLkey;
  return &card.mr;
}
ibv_mr* ibv_reg_mr_iova2(ibv_pd* /*pd*/, void* /*address*/, std::size_t /*size*/,
                         std::uint64_t /*iova*/, unsigned int /*access*/) {
  card.mr.lkey = TwinCard::kLkey;
  return &card.mr;
}
int ibv_dereg_mr(ibv_mr* /*mr*/) { return 0; }
ibv_qp* ibv_create_qp(ibv_pd* /*pd*/, ibv_qp_init_attr* init) {
  init->cap.max_inline_data = 0;
  return &card.qp;
}
int ibv_destroy_qp(ibv_qp* /*qp*/) { return 0; }
}

namespace ring::rdma::verbs {
namespace {

// Who cannot tell the peer that it sleeps ends the connection, with each sleep anew.
TEST(ControlQueue, ACardThatTakesNothingInlineTellsThatWeSleep) {
  DeviceCounters calls;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Nic> nic, Nic::Open({.device = "twin"}, "", &calls));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ControlQueue> queue, ControlQueue::Make(nic.get(), 1));
  EXPECT_TRUE(queue->TellSleeping({.address = 64, .rkey = 3}));
  ASSERT_EQ(card.posted.size(), 1u);
  EXPECT_EQ(card.posted[0].opcode, IBV_WR_RDMA_WRITE);
  const ibv_sge& piece = card.posted[0].piece;
  EXPECT_EQ(piece.lkey, TwinCard::kLkey);
  ASSERT_EQ(piece.length, sizeof(std::uint64_t));
  std::uint64_t word = 0;
  std::memcpy(&word, reinterpret_cast<const void*>(piece.addr), sizeof(word));
  EXPECT_EQ(word, 1u);
}

}  // namespace
}  // namespace ring::rdma::verbs
