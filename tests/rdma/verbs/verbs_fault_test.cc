// What a card may refuse, and a peer may send at the wrong time: each ends the connection, and all
// requests are answered. The faults stand in for the card's library between it and us.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rdma/verbs/terms.h"
#include "rdma/verbs/wire.h"
#include "tests/contract/fabric_harness.h"

namespace ring::rdma {
namespace {

using ::testing::HasSubstr;

struct Faults {
  std::uint32_t message_size_max = 0;  // of a card; 0: its own
  ibv_mtu mtu = {};                    // of a port; 0: its own
  int requests_taken = -1;             // of the user's, before a post fails; -1: all
  bool disconnect_fails = false;
  bool ready_is_reject = false;  // what a connector sends last
};
Faults faults;

decltype(ibv_context_ops::post_send) post_send = nullptr;
decltype(verbs_context::query_port) query_port = nullptr;

bool IsOfUser(const ibv_send_wr& wr) {
  const verbs::WrKind kind = verbs::UnpackWrId(wr.wr_id).kind;
  return kind == verbs::WrKind::kRead || kind == verbs::WrKind::kWrite ||
         kind == verbs::WrKind::kPart;
}

void SpoilReady(const ibv_send_wr& wr) {
  if (verbs::UnpackWrId(wr.wr_id).kind != verbs::WrKind::kControl || wr.num_sge == 0) return;
  auto* const message = reinterpret_cast<verbs::ControlMessage*>(wr.sg_list[0].addr);
  if (message->type == verbs::ControlType::kReady) message->type = verbs::ControlType::kReject;
}

int FaultyPostSend(ibv_qp* qp, ibv_send_wr* first, ibv_send_wr** bad) {
  if (faults.ready_is_reject) SpoilReady(*first);
  if (!IsOfUser(*first) || faults.requests_taken < 0) return post_send(qp, first, bad);
  ibv_send_wr* last = nullptr;
  for (*bad = first; *bad != nullptr && faults.requests_taken > 0; *bad = (*bad)->next) {
    --faults.requests_taken;
    last = *bad;
  }
  if (*bad == nullptr) return post_send(qp, first, bad);
  if (last == nullptr) return ENOMEM;
  last->next = nullptr;
  ibv_send_wr* none = nullptr;
  EXPECT_EQ(post_send(qp, first, &none), 0);
  return ENOMEM;
}

int FaultyQueryPort(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes,
                    std::size_t size) {
  const int error = query_port(context, port, attributes, size);
  if (faults.message_size_max != 0) attributes->max_msg_sz = faults.message_size_max;
  if (faults.mtu != 0) attributes->active_mtu = faults.mtu;
  return error;
}

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace
}  // namespace ring::rdma

// These two take the places of the libraries' own.
extern "C" ibv_context* ibv_open_device(ibv_device* device) {
  using namespace ring::rdma;
  ibv_context* const context = Next<ibv_context* (*)(ibv_device*)>("ibv_open_device")(device);
  verbs_context* const extended = context == nullptr ? nullptr : verbs_get_ctx(context);
  if (extended == nullptr) return context;
  post_send = context->ops.post_send;
  context->ops.post_send = FaultyPostSend;
  query_port = extended->query_port;
  extended->query_port = FaultyQueryPort;
  return context;
}

extern "C" int rdma_disconnect(rdma_cm_id* id) {
  if (!ring::rdma::faults.disconnect_fails)
    return ring::rdma::Next<int (*)(rdma_cm_id*)>("rdma_disconnect")(id);
  errno = EINVAL;
  return -1;
}

namespace ring::rdma {
namespace {

constexpr std::uint32_t kPartSize = 4096;

class VerbsFault : public FabricContract {
 protected:
  void SetUp() override {
    faults = {.message_size_max = kPartSize};
    FabricContract::SetUp();
  }
  void TearDown() override {
    faults = {};
    FabricContract::TearDown();
  }
  // The statuses of this many WRITEs in one chain, and of the end that follows them.
  std::vector<WcStatus> PostChain(std::size_t count) {
    std::vector<Sge> sges(count, a_->At(0, 8));
    std::vector<WorkRequest> chain;
    for (std::size_t i = 0; i < count; ++i) {
      chain.push_back(Write(sges[i], 8 * i, i));
      chain.back().signaled = true;
    }
    for (std::size_t i = 1; i < count; ++i) chain[i - 1].next = &chain[i];
    EXPECT_TRUE(a_->qp->PostSend(chain[0]).ok());
    std::vector<WcStatus> statuses;
    for (const WorkCompletion& completion : Completions(*a_, *a_->send_cq, count))
      statuses.push_back(completion.status);
    return statuses;
  }
  bool Disconnected(Side& side) {
    ConnectionEvent event;
    return WaitFor([&] { return side.TakeEvent(ConnectionEvent::Kind::kDisconnected, &event); });
  }
};

TEST_P(VerbsFault, APostThatFailsInTheMiddleOfABatchAnswersAllOfIt) {
  ASSERT_EQ(PostOne(Write(a_->At(0, 8), 0)).status, WcStatus::kSuccess);
  faults.requests_taken = 2;
  std::vector<WcStatus> expected(4, WcStatus::kFlushed);
  expected[0] = WcStatus::kRetryExceeded;
  EXPECT_EQ(PostChain(4), expected);
  EXPECT_TRUE(Disconnected(*a_));
  EXPECT_TRUE(Disconnected(*b_));
}

TEST_P(VerbsFault, APostThatFailsBecauseTheBatchIsFullAnswersAllOfIt) {
  ASSERT_EQ(PostOne(Write(a_->At(0, 8), 0)).status, WcStatus::kSuccess);
  faults.requests_taken = 5;
  std::vector<WcStatus> expected(20, WcStatus::kFlushed);
  expected[0] = WcStatus::kRetryExceeded;
  EXPECT_EQ(PostChain(20), expected);
  EXPECT_TRUE(Disconnected(*a_));
  EXPECT_TRUE(Disconnected(*b_));
}

TEST_P(VerbsFault, ARequestInPartsArrivesWhole) {
  const std::string text(3 * kPartSize - 1, 'p');
  Put(a_->memory, text);
  EXPECT_EQ(PostOne(Write(a_->At(0, text.size()), 64)).status, WcStatus::kSuccess);
  EXPECT_TRUE(BytesAtB(64, text));
}

TEST_P(VerbsFault, ARequestOfMorePartsThanTheQueueHoldsFails) {
  const Sge sge = a_->At(0, (Side::kDepth + 1) * kPartSize);
  EXPECT_EQ(PostOne(Write(sge, 0)).status, WcStatus::kLocalLength);
}

TEST_P(VerbsFault, AnEndThatTheManagerRefusesIsToldAllTheSame) {
  faults.disconnect_fails = true;
  EXPECT_EQ(PostOne(Write(a_->At(0, (Side::kDepth + 1) * kPartSize), 0)).status,
            WcStatus::kLocalLength);
  EXPECT_TRUE(Disconnected(*a_));
  EXPECT_TRUE(Disconnected(*b_));
}

TEST_P(VerbsFault, AnAnswerAfterTheConnectionIsThereEndsIt) {
  faults.ready_is_reject = true;
  std::unique_ptr<QueuePair> from_a;
  std::unique_ptr<QueuePair> at_b;
  Connect(&from_a, &at_b);
  EXPECT_TRUE(Disconnected(*b_));
  EXPECT_EQ(at_b->state(), QpState::kError);
  EXPECT_EQ(b_->qp->state(), QpState::kReadyToSend);
}

TEST_P(VerbsFault, TwoMtusAreRefusedWithBoth) {
  faults.mtu = IBV_MTU_256;
  SoftDeviceOptions options;
  options.verbs = TestVerbsOptions(/*peer=*/false);
  const std::unique_ptr<Device> device = *OpenSoftDevice(options);
  const std::unique_ptr<CompletionQueue> cq = *device->CreateCompletionQueue(256);
  const QueuePairOptions depths{.send_cq = cq.get(), .recv_cq = cq.get()};
  const std::unique_ptr<QueuePair> qp = *device->Connect(address_, depths, "");
  ConnectionEvent event;
  ASSERT_TRUE(WaitFor([&] {
    device->Progress();
    return device->PollEvent(&event);
  }));
  EXPECT_EQ(event.kind, ConnectionEvent::Kind::kRejected);
  EXPECT_THAT(event.private_data, HasSubstr("path mtu="));
  EXPECT_THAT(event.private_data, HasSubstr("port mtu=256"));
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(VerbsFault);
INSTANTIATE_TEST_SUITE_P(Links, VerbsFault, ::testing::ValuesIn(WithVerbs({}, {LinkKind::kVerbs})),
                         [](const auto& link) { return LinkKindName(link.param); });

}  // namespace
}  // namespace ring::rdma
