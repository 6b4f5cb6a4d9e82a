#include "ring/node/recovery/value_calls.h"

#include <algorithm>
#include <utility>

namespace ring::node {

ValueCalls::ValueCalls(ControlPort* control, std::uint64_t timeout_ns)
    : ValueCalls([control, timeout_ns](NodeId source, ControlType type, std::string body,
                                       CallWait wait, ControlReply done) {
        control->Call(source, type, std::move(body), timeout_ns, std::move(done), wait);
      }) {}

void ValueCalls::Send(NodeId source, const recovery::FetchRequest& request, std::uint32_t length,
                      CallWait wait, ControlReply done) {
  if (length > recovery::kBatchedSizeMax) return SendAlone(source, request, wait, std::move(done));
  auto batch = std::find_if(waiting_.begin(), waiting_.end(), [=](const Batch& one) {
    return one.source == source && one.wait == wait;
  });
  if (batch == waiting_.end()) {
    batch = waiting_.emplace(waiting_.end());
    batch->source = source;
    batch->wait = wait;
  }
  batch->bytes += length;
  batch->requests.push_back(request);
  batch->done.push_back(std::move(done));
  const bool full = batch->requests.size() == recovery::kBatchMax ||
                    batch->bytes > kBatchBytesMax - recovery::kBatchedSizeMax;
  if (!full) return;
  Batch whole = std::move(*batch);
  waiting_.erase(batch);
  SendBatch(std::move(whole));
}

void ValueCalls::Flush() {
  for (Batch& batch : std::exchange(waiting_, {})) SendBatch(std::move(batch));
}

void ValueCalls::SendAlone(NodeId source, const recovery::FetchRequest& request, CallWait wait,
                           ControlReply done) {
  call_(source, ControlType::kFetch, recovery::EncodeFetchRequest(request), wait,
        [this, done = std::move(done),
         alive = std::weak_ptr<bool>(alive_)](absl::StatusOr<std::string> answer) mutable {
          if (alive.expired()) return;
          done(std::move(answer));
          if (!alive.expired()) Flush();
        });
}

void ValueCalls::SendBatch(Batch batch) {
  if (batch.requests.size() == 1) {
    return SendAlone(batch.source, batch.requests.front(), batch.wait,
                     std::move(batch.done.front()));
  }
  call_(batch.source, ControlType::kFetchValues, recovery::EncodeValueBatch(batch.requests),
        batch.wait,
        [this, done = std::move(batch.done),
         alive = std::weak_ptr<bool>(alive_)](const absl::StatusOr<std::string>& bytes) mutable {
          auto answers =
              bytes.ok() ? recovery::DecodeBatchAnswers(*bytes, done.size())
                         : absl::StatusOr<std::vector<absl::StatusOr<std::string>>>(bytes.status());
          for (std::size_t i = 0; i < done.size() && !alive.expired(); ++i)
            done[i](answers.ok() ? std::move((*answers)[i]) : answers.status());
          if (!alive.expired()) Flush();
        });
}

}  // namespace ring::node
