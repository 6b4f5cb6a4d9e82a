// tests/api/raw_call.h — a call of the admin service with bytes of the caller's choice.
//
// What:      CallRaw: one unary call by name, as any program could make it.
// Threads:   any.
// Errors:    the call's own status; DEADLINE_EXCEEDED after 20 s.
#ifndef RING_TESTS_API_RAW_CALL_H_
#define RING_TESTS_API_RAW_CALL_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "api/admin/admin_token.h"
#include "gtest/gtest.h"

namespace ring::admin {

// answer: gets the first answer's bytes. authorization: sent as the header of that name, unless it
// is empty.
inline grpc::Status CallRaw(const std::shared_ptr<grpc::Channel>& channel,
                            const std::string& method, const std::string& bytes,
                            std::string* answer = nullptr, const std::string& authorization = "") {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  if (!authorization.empty()) context.AddMetadata(kTokenHeader, authorization);
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(&response, &status, &context);
  void* tag = nullptr;
  bool ok = false;
  EXPECT_TRUE(queue.Next(&tag, &ok));
  std::vector<grpc::Slice> slices;
  if (answer != nullptr && status.ok() && response.Dump(&slices).ok()) {
    for (const grpc::Slice& part : slices)
      answer->append(reinterpret_cast<const char*>(part.begin()), part.size());
  }
  return status;
}

}  // namespace ring::admin

#endif  // RING_TESTS_API_RAW_CALL_H_
