#include "rdma/soft/local_endpoint.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "rdma/soft/device.h"
#include "rdma/soft/mapped_link.h"
#include "rdma/soft/queue_pair.h"
#include "ring/base/sync.h"

namespace ring::rdma::soft {
namespace {

class Inbox;

struct Message {
  enum class Kind : std::uint8_t { kConnect, kAccept, kReject, kDetach };
  Kind kind = Kind::kConnect;
  std::shared_ptr<Inbox> from;
  std::uint32_t qp_number = 0;  // kAccept, kReject: the receiver's; kConnect: the sender's
  MailboxName mailbox;          // the sender's; kDetach and kReject: the receiver's
  std::string private_data;
};

// Where messages for one device wait. Outlives the device: peers hold it.
class Inbox {
 public:
  explicit Inbox(std::shared_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {}

  // False: the device is gone.
  bool Post(Message message) {
    {
      MutexLock lock(mutex_);
      if (closed_) return false;
      messages_.push_back(std::move(message));
    }
    mapping_->RequestAttention();
    return true;
  }
  std::vector<Message> Take() {
    MutexLock lock(mutex_);
    return std::exchange(messages_, {});
  }
  std::vector<Message> Close() {
    MutexLock lock(mutex_);
    closed_ = true;
    return std::exchange(messages_, {});
  }
  const std::shared_ptr<Mapping>& mapping() const { return mapping_; }

 private:
  std::shared_ptr<Mapping> mapping_;
  Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Message> messages_ ABSL_GUARDED_BY(mutex_);
};

// The names of this process.
class Registry {
 public:
  static Registry& Get() {
    // Never destroyed: devices may outlive static objects.
    static Registry& registry = *new Registry;
    return registry;
  }
  bool Add(const std::string& name, std::shared_ptr<Inbox> inbox) {
    MutexLock lock(mutex_);
    return names_.emplace(name, std::move(inbox)).second;
  }
  void Remove(const std::string& name) {
    MutexLock lock(mutex_);
    names_.erase(name);
  }
  std::shared_ptr<Inbox> Find(const std::string& name) {
    MutexLock lock(mutex_);
    const auto it = names_.find(name);
    return it == names_.end() ? nullptr : it->second;
  }

 private:
  Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<Inbox>> names_ ABSL_GUARDED_BY(mutex_);
};

class LocalChannel final : public PeerChannel {
 public:
  LocalChannel(std::shared_ptr<Inbox> peer, const MailboxName& mailbox)
      : peer_(std::move(peer)), mailbox_(mailbox) {}
  absl::string_view transport() const override { return "local"; }
  bool HungUp() const override { return false; }
  void Detach() override {
    Message message;
    message.kind = Message::Kind::kDetach;
    message.mailbox = mailbox_;
    peer_->Post(std::move(message));
  }

 private:
  std::shared_ptr<Inbox> peer_;
  MailboxName mailbox_;
};

std::unique_ptr<Link> MakeLink(SoftDevice* device, const std::shared_ptr<Inbox>& peer,
                               const MailboxName& mailbox) {
  return std::make_unique<MappedLink>(peer->mapping(), mailbox,
                                      std::make_unique<LocalChannel>(peer, mailbox),
                                      device->options().copy_hook);
}

class LocalRequest final : public PendingRequest {
 public:
  LocalRequest(SoftDevice* device, std::shared_ptr<Inbox> self, Message message)
      : device_(device), self_(std::move(self)), message_(std::move(message)) {}
  ~LocalRequest() override {
    if (!answered_) Reject("");
  }
  bool mapped() const override { return true; }

  absl::Status Accept(SoftQueuePair* qp, absl::string_view private_data) override {
    device_->mailboxes().AttachPeer({qp->mailbox_name().index, qp->mailbox_name().key});
    if (!Answer(Message::Kind::kAccept, qp->mailbox_name(), private_data)) {
      device_->mailboxes().DetachPeer({qp->mailbox_name().index, qp->mailbox_name().key});
      return absl::UnavailableError("the peer's device is closed");
    }
    device_->Establish(qp, MakeLink(device_, message_.from, message_.mailbox), "");
    return absl::OkStatus();
  }
  void Reject(absl::string_view private_data) override {
    Answer(Message::Kind::kReject, message_.mailbox, private_data);
  }

 private:
  bool Answer(Message::Kind kind, const MailboxName& mailbox, absl::string_view private_data) {
    answered_ = true;
    Message answer;
    answer.kind = kind;
    answer.from = self_;
    answer.qp_number = message_.qp_number;
    answer.mailbox = mailbox;
    answer.private_data = std::string(private_data);
    return message_.from->Post(std::move(answer));
  }

  SoftDevice* device_;
  std::shared_ptr<Inbox> self_;
  Message message_;
  bool answered_ = false;
};

class LocalEndpoint final : public Endpoint {
 public:
  explicit LocalEndpoint(SoftDevice* device)
      : device_(device), inbox_(std::make_shared<Inbox>(device->mapping())) {}

  ~LocalEndpoint() override {
    for (const std::string& name : names_) Registry::Get().Remove(name);
    for (Message& message : inbox_->Close()) Handle(std::move(message), /*closing=*/true);
  }

  bool mapped() const override { return true; }

  absl::StatusOr<std::string> Listen(absl::string_view address) override {
    const std::string name(address);
    if (name.empty() || !Registry::Get().Add(name, inbox_)) {
      return absl::AlreadyExistsError(
          absl::StrCat("local:", name, " is empty or taken in this process"));
    }
    names_.push_back(name);
    return absl::StrCat("local:", name);
  }

  absl::Status Connect(absl::string_view address, SoftQueuePair* qp,
                       absl::string_view private_data) override {
    const std::shared_ptr<Inbox> listener = Registry::Get().Find(std::string(address));
    Message message;
    message.kind = Message::Kind::kConnect;
    message.from = inbox_;
    message.qp_number = qp->number();
    message.mailbox = qp->mailbox_name();
    message.private_data = std::string(private_data);
    const MailboxPool::Name mailbox{qp->mailbox_name().index, qp->mailbox_name().key};
    device_->mailboxes().AttachPeer(mailbox);
    if (listener == nullptr || !listener->Post(std::move(message))) {
      device_->mailboxes().DetachPeer(mailbox);
      device_->FailConnect(qp, "");
    }
    return absl::OkStatus();
  }

  bool Progress() override {
    std::vector<Message> messages = inbox_->Take();
    for (Message& message : messages) Handle(std::move(message), /*closing=*/false);
    return !messages.empty();
  }

 private:
  void Handle(Message message, bool closing) {
    SoftQueuePair* qp = closing ? nullptr : device_->FindQueuePair(message.qp_number);
    switch (message.kind) {
      case Message::Kind::kConnect: {
        std::string private_data = std::move(message.private_data);
        auto request = std::make_unique<LocalRequest>(device_, inbox_, std::move(message));
        if (!closing) device_->AddRequest(std::move(request), std::move(private_data));
        return;
      }
      case Message::Kind::kAccept: {
        std::unique_ptr<Link> link = MakeLink(device_, message.from, message.mailbox);
        // Dropping the link tells the peer that we are gone.
        if (qp != nullptr && qp->state() == QpState::kInit) {
          device_->Establish(qp, std::move(link), std::move(message.private_data));
        }
        return;
      }
      case Message::Kind::kReject:
        if (closing) return;
        device_->mailboxes().DetachPeer({message.mailbox.index, message.mailbox.key});
        if (qp != nullptr && qp->state() == QpState::kInit) {
          device_->FailConnect(qp, std::move(message.private_data));
        }
        return;
      case Message::Kind::kDetach:
        if (!closing) device_->mailboxes().DetachPeer({message.mailbox.index, message.mailbox.key});
        return;
    }
  }

  SoftDevice* device_;
  std::shared_ptr<Inbox> inbox_;
  std::vector<std::string> names_;
};

}  // namespace

std::unique_ptr<Endpoint> MakeLocalEndpoint(SoftDevice* device) {
  return std::make_unique<LocalEndpoint>(device);
}

}  // namespace ring::rdma::soft
