// ring/node/recovery/value_calls.h — asks sources for values, small ones many at a time.
//
// What:      ValueCalls sends FetchRequests for values. Those of at most kBatchedSizeMax bytes wait
//            for each other until Flush, and go to their source in one message
//            (ring/recovery/value_batch.h): of a small value the messages cost most.
// Shape:     one for each that fetches. Who asks within an answer is flushed when all answers of
//            that message were told.
// Ownership: borrows the control port; requests that are under way when this ends are not answered.
// Threads:   one, the node's.
// Errors:    told to `done` of each request: its source's own, or those of the call.
// Source:    Ring section 5.5; S5.
#ifndef RING_NODE_RECOVERY_VALUE_CALLS_H_
#define RING_NODE_RECOVERY_VALUE_CALLS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "ring/node/control/control_port.h"
#include "ring/recovery/value_batch.h"

namespace ring::node {

class ValueCalls {
 public:
  // Bytes of values that one message asks for.
  static constexpr std::size_t kBatchBytesMax = 32 * 1024;
  static_assert(kBatchBytesMax >= recovery::kBatchedSizeMax);

  // As ControlPort::Call.
  using Call = absl::AnyInvocable<void(NodeId source, ControlType type, std::string body,
                                       CallWait wait, ControlReply done)>;

  explicit ValueCalls(Call call) : call_(std::move(call)) {}
  ValueCalls(ControlPort* control, std::uint64_t timeout_ns);

  // length: of the value.
  void Send(NodeId source, const recovery::FetchRequest& request, std::uint32_t length,
            CallWait wait, ControlReply done);
  void Flush();

 private:
  struct Batch {
    NodeId source;
    CallWait wait = CallWait::kAsSaid;
    std::size_t bytes = 0;
    std::vector<recovery::FetchRequest> requests;
    std::vector<ControlReply> done;
  };

  void SendAlone(NodeId source, const recovery::FetchRequest& request, CallWait wait,
                 ControlReply done);
  void SendBatch(Batch batch);

  Call call_;
  std::vector<Batch> waiting_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ring::node

#endif  // RING_NODE_RECOVERY_VALUE_CALLS_H_
