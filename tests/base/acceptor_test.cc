#include "ring/base/acceptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <vector>

namespace ring {
namespace {

constexpr std::size_t kReserve = 16;
constexpr rlim_t kLimit = 200;  // below the numbers that a shell hands down

class AcceptorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // Bound to a name that the system chooses.
    address_.sun_family = AF_UNIX;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    size_ = sizeof(sa_family_t);
    ASSERT_EQ(bind(fd, raw(), size_), 0);
    ASSERT_EQ(listen(fd, 128), 0);
    size_ = sizeof(address_);
    ASSERT_EQ(getsockname(fd, raw(), &size_), 0);
    acceptor_.emplace(fd, kReserve);
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = kLimit;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  void TearDown() override {
    for (const int fd : peers_) close(fd);
    Release();
    setrlimit(RLIMIT_NOFILE, &before_);
  }

  void Dial() {
    peers_.push_back(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(peers_.back(), raw(), size_), 0);
  }
  // Takes descriptors until only so many are left.
  void Hoard(std::size_t left) {
    for (int fd; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) hoard_.push_back(fd);
    for (; left > 0; --left) {
      close(hoard_.back());
      hoard_.pop_back();
    }
  }
  void Release() {
    for (const int fd : hoard_) close(fd);
    hoard_.clear();
  }
  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&address_); }

  sockaddr_un address_{};
  socklen_t size_ = 0;
  std::optional<Acceptor> acceptor_;
  rlimit before_{};
  std::vector<int> peers_;
  std::vector<int> hoard_;
};

TEST_F(AcceptorTest, TheLastDescriptorsAreForTheProcessItself) {
  for (int i = 0; i < 3; ++i) Dial();
  Hoard(kReserve + 2);
  std::vector<int> taken;
  for (int i = 0; i < 2; ++i) {
    const auto connection = acceptor_->Next();
    ASSERT_TRUE(connection.has_value());
    EXPECT_FALSE(connection->refuse) << i;
    taken.push_back(connection->fd);
  }
  const auto refused = acceptor_->Next();
  ASSERT_TRUE(refused.has_value());
  EXPECT_TRUE(refused->refuse);
  close(refused->fd);
  EXPECT_FALSE(acceptor_->Next().has_value());
  for (const int fd : taken) close(fd);
}

TEST_F(AcceptorTest, WithoutAnyDescriptorAConnectionIsStillRefused) {
  for (int i = 0; i < 3; ++i) Dial();
  Hoard(0);
  for (int i = 0; i < 3; ++i) {
    const auto connection = acceptor_->Next();
    ASSERT_TRUE(connection.has_value()) << i;
    EXPECT_TRUE(connection->refuse);
    close(connection->fd);
  }
  EXPECT_FALSE(acceptor_->Next().has_value());
}

TEST_F(AcceptorTest, ASpareThatSomebodyElseTookIsTakenBackLater) {
  for (int i = 0; i < 3; ++i) Dial();
  Hoard(0);
  const auto refused = acceptor_->Next();
  ASSERT_TRUE(refused.has_value());
  close(refused->fd);
  Hoard(0);  // as another thread may at this moment
  EXPECT_FALSE(acceptor_->Next().has_value());
  Release();
  const auto accepted = acceptor_->Next();
  ASSERT_TRUE(accepted.has_value());
  EXPECT_FALSE(accepted->refuse);
  Hoard(0);
  const auto again = acceptor_->Next();
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(again->refuse);
  close(again->fd);
  close(accepted->fd);
}

}  // namespace
}  // namespace ring
