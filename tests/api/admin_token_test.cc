// Who may ask the admin service for something: token files, and every call of a gated service.
#include "api/admin/admin_token.h"

#include <grpcpp/grpcpp.h>
#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/admin.grpc.pb.h"
#include "api/admin/admin_client.h"
#include "api/admin/admin_service.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "tests/api/admin_fake_port.h"
#include "tests/api/raw_call.h"
#include "tests/support/status_matchers.h"

namespace ring::admin {
namespace {

using ::ring::testing::FakeAdminPort;
using ::ring::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";

// A file that its owner alone may read.
std::string WriteFile(const std::string& name, const std::string& text, mode_t mode = 0600) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  std::remove(path.c_str());
  std::ofstream(path) << text;
  EXPECT_EQ(chmod(path.c_str(), mode), 0);
  return path;
}

TEST(AdminToken, AFileHoldsOneWordAndBlanksAroundItAreNotPartOfIt) {
  EXPECT_EQ(ReadTokenFile(WriteFile("token", absl::StrCat(" ", kToken, "\n"))).value(), kToken);
  const std::string longest(kTokenSizeMax, 'x');
  EXPECT_EQ(ReadTokenFile(WriteFile("token", longest)).value(), longest);
}

TEST(AdminToken, AFileThatHoldsNoSecretIsRefusedAndNotQuoted) {
  EXPECT_THAT(ReadTokenFile(WriteFile("token", kToken, 0640)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("chmod 600")));
  for (const std::string& text :
       {std::string(), std::string(kTokenSizeMin - 1, 'q'), std::string(kTokenSizeMax + 1, 'q'),
        std::string(1 << 20, 'q'), std::string("qqqqqqqqqqqq qqqqqqqqqqqq"),
        std::string("qqqqqqqqqqqqqqqqqqqq\0qq", 23)}) {
    EXPECT_THAT(ReadTokenFile(WriteFile("token", text)),
                StatusIs(absl::StatusCode::kInvalidArgument, Not(HasSubstr("qq"))));
  }
  EXPECT_THAT(ReadTokenFile("/nowhere/token"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/token")));
  EXPECT_THAT(ReadTokenFile(::testing::TempDir()), Not(StatusIs(absl::StatusCode::kOk)));
}

TEST(AdminToken, OnlyTheWholeTokenBehindItsSchemeIsTheToken) {
  EXPECT_TRUE(IsToken(BearerOf(kToken), kToken));
  EXPECT_FALSE(IsToken(kToken, kToken));
  EXPECT_FALSE(IsToken("", kToken));
  EXPECT_FALSE(IsToken("Bearer ", kToken));
  EXPECT_FALSE(IsToken(BearerOf(absl::StrCat(kToken, kToken)), kToken));
  std::string wrong = kToken;
  for (char& c : wrong) {
    c ^= 1;
    EXPECT_FALSE(IsToken(BearerOf(wrong), kToken));
    c ^= 1;
  }
  EXPECT_FALSE(IsToken(BearerOf(wrong.substr(1)), kToken));
}

class AdminTokenTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(server_, StartAdminServer("127.0.0.1:0", &port_, kToken));
    address_ = absl::StrCat("127.0.0.1:", server_->port());
    channel_ = grpc::CreateChannel(address_, grpc::InsecureChannelCredentials());
  }

  std::unique_ptr<AdminClient> Client(std::string token) {
    return *AdminClient::Create(
        {.addresses = {address_}, .token = std::move(token), .deadline = absl::Seconds(20)});
  }

  // An empty request.
  grpc::Status Call(const std::string& method, const std::string& header) {
    return CallRaw(channel_, method, "", nullptr, header);
  }

  FakeAdminPort port_;
  std::unique_ptr<AdminServer> server_;
  std::string address_;
  std::shared_ptr<grpc::Channel> channel_;
};

// By the services' descriptors, so that a call that is added later is met, too.
TEST_F(AdminTokenTest, EveryCallWithoutTheTokenIsRefusedAndReachesNothing) {
  int methods = 0;
  for (const char* const name : {"ring.admin.v1.Admin", "ring.admin.v1.FaultInjection"}) {
    const auto* const service =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
    ASSERT_NE(service, nullptr) << name;
    for (int i = 0; i < service->method_count(); ++i, ++methods) {
      const std::string method = absl::StrCat("/", name, "/", service->method(i)->name());
      for (const std::string& header : {std::string(), std::string("Bearer wrong"),
                                        std::string(kToken), std::string("Basic dXNlcg==")}) {
        const grpc::Status status = Call(method, header);
        EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED)
            << method << " " << status.error_message();
        EXPECT_THAT(status.error_message(), HasSubstr("token"));
        EXPECT_THAT(status.error_message(), Not(HasSubstr(kToken)));
      }
      if (service->method(i)->server_streaming()) continue;  // its answers are several
      EXPECT_NE(Call(method, BearerOf(kToken)).error_code(), grpc::StatusCode::UNAUTHENTICATED)
          << method;
    }
  }
  EXPECT_GE(methods, 14);
  EXPECT_TRUE(port_.requests.empty());
}

TEST_F(AdminTokenTest, WhoHasTheTokenIsServedAndWhoHasNotChangesNothing) {
  EXPECT_OK(Client(kToken)->SetDefaultMemgest("SRS32"));
  EXPECT_OK(Client(kToken)->Scrub([](const node::ScrubProgress&) { return true; }).status());
  EXPECT_THAT(Client("")->SetDefaultMemgest("REP3"),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("RING_ADMIN_TOKEN_FILE")));
  EXPECT_THAT(Client("another-token-0123456789")->GetClusterView().status(),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("not this admin service's")));
  EXPECT_EQ(port_.requests.size(), 1u);
}

}  // namespace
}  // namespace ring::admin
