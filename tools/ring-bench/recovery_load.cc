#include "tools/ring-bench/recovery_load.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ring/base/check.h"
#include "ring/base/status.h"
#include "tools/ring-bench/workload.h"

namespace ring::bench {
namespace {

constexpr std::size_t kWindow = 128;
constexpr absl::Duration kAttempt = absl::Seconds(2);
constexpr absl::Duration kPatience = absl::Seconds(10);
constexpr absl::Duration kNapMax = absl::Milliseconds(1);

// Behind the key's number, which comes first: which put of it this is.
void FillNumber(std::uint64_t number, absl::Span<char> value) {
  std::memcpy(value.data() + sizeof(number), &number, sizeof(number));
}

std::uint64_t NumberOf(absl::string_view value) {
  std::uint64_t number = 0;
  std::memcpy(&number, value.data() + sizeof(number), sizeof(number));
  return number;
}

bool Schedule(int policy) {
  sched_param parameters{};
  parameters.sched_priority = sched_get_priority_min(policy);
  return sched_setscheduler(0, policy, &parameters) == 0;
}

}  // namespace

RecoveryLoad::RecoveryLoad(const RecoveryLoadOptions& options, Connect connect)
    : options_(options), connect_(std::move(connect)) {
  RING_CHECK(options_.value_size >= 2 * sizeof(std::uint64_t)) << "size=" << options_.value_size;
  // Turn by turn, so that all memgests are written at all times.
  for (std::uint64_t i = 0; i < options_.key_count; ++i) {
    for (std::size_t m = 0; m < options_.memgests.size(); ++m) {
      Key key;
      key.space = static_cast<std::uint16_t>(options_.first_space + m);
      key.index = i;
      key.memgest = options_.memgests[m];
      keys_.push_back(std::move(key));
    }
  }
}

RecoveryLoad::~RecoveryLoad() {
  abandoned_ = stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void RecoveryLoad::Start(std::vector<StaticKey> gets) {
  RING_CHECK(!thread_.joinable());
  gets_ = std::move(gets);
  timed_.clear();
  failed_gets_ = 0;
  status_ = absl::OkStatus();
  stop_ = false;
  thread_ = std::thread([this] { Run(); });
}

absl::Status RecoveryLoad::Stop() {
  stop_ = true;
  thread_.join();
  return status_;
}

void RecoveryLoad::Run() {
  absl::StatusOr<std::unique_ptr<Client>> client = connect_();
  status_ = client.status();
  if (!client.ok()) return;
  runs_first_ = Schedule(SCHED_FIFO);
  RunUntilStopped(client->get());
  Schedule(SCHED_OTHER);
  if (abandoned_) return;
  status_ = (*client)->Wait(2 * kAttempt);
  if (status_.ok()) status_ = Verify(client->get());
}

void RecoveryLoad::RunUntilStopped(Client* client) {
  const bool idle = options_.rate <= 0 || gets_.empty();
  const auto interval_ns = static_cast<std::int64_t>(1e9 / std::max(options_.rate, 1.0));
  std::int64_t due_ns = absl::GetCurrentTimeNanos();
  bool get = false;
  while (!stop_) {
    const std::int64_t now_ns = absl::GetCurrentTimeNanos();
    while (!idle && due_ns <= now_ns && under_way_ < kWindow) {
      get = !get;
      get ? Get(client, due_ns) : Put(client);
      due_ns += interval_ns;
    }
    const absl::Duration nap = absl::Nanoseconds(due_ns - absl::GetCurrentTimeNanos());
    client->WaitForProgress(idle ? kNapMax : std::clamp(nap, absl::ZeroDuration(), kNapMax));
  }
}

void RecoveryLoad::Get(Client* client, std::int64_t due_ns) {
  const StaticKey& at = gets_[next_get_++ % gets_.size()];
  ++under_way_;
  GetOptions options;
  options.deadline = kAttempt;
  client->GetAsync(KeyName(at.space, at.index).view(), options,
                   [this, due_ns](const absl::StatusOr<GetResult>& result) {
                     --under_way_;
                     if (!result.ok()) ++failed_gets_;
                     timed_.push_back({due_ns, absl::GetCurrentTimeNanos() - due_ns});
                   });
}

void RecoveryLoad::Put(Client* client) {
  Key& key = keys_[next_key_++ % keys_.size()];
  if (key.under_way) return;  // it waits for the shard that is lost
  key.under_way = true;
  ++under_way_;
  const std::uint64_t number = ++key.put;
  std::string value(options_.value_size, 'v');
  FillValue(key.index, absl::MakeSpan(value.data(), value.size()));
  FillNumber(number, absl::MakeSpan(value.data(), value.size()));
  PutOptions options;
  options.memgest_id = key.memgest;
  options.deadline = kAttempt;
  client->PutAsync(KeyName(key.space, key.index).view(), value, options,
                   [this, &key, number](const absl::StatusOr<WriteResult>& result) {
                     --under_way_;
                     key.under_way = false;
                     if (result.ok()) {
                       key.acknowledged = number;
                       ++acknowledged_;
                     } else if (IsUnknownOutcome(result.status())) {
                       key.unknown.push_back(number);
                       ++unknown_;
                     }
                   });
}

absl::Status RecoveryLoad::Verify(Client* client) {
  for (const Key& key : keys_) {
    if (abandoned_) return absl::CancelledError("nobody asks");
    if (key.put == 0) continue;
    RING_RETURN_IF_ERROR(VerifyKey(client, key));
    ++verified_;
  }
  return absl::OkStatus();
}

absl::Status RecoveryLoad::VerifyKey(Client* client, const Key& key) {
  GetOptions options;
  options.deadline = kPatience;
  const absl::Time end = absl::Now() + kPatience;
  absl::StatusOr<GetResult> got;
  do {
    got = client->Get(KeyName(key.space, key.index).view(), options);
  } while (absl::IsUnavailable(got.status()) && absl::Now() < end && !abandoned_);
  const auto wrong = [&key](absl::string_view what) {
    return absl::DataLossError(absl::StrCat("key number ", key.index, " of key space ", key.space,
                                            ", acknowledged put ", key.acknowledged, ": ", what));
  };
  if (absl::IsNotFound(got.status()))
    return key.acknowledged == 0 ? absl::OkStatus() : wrong("it is not there");
  if (!got.ok()) return got.status();
  if (!CheckValue(key.index, options_.value_size, got->value)) return wrong("another key's value");
  const std::uint64_t number = NumberOf(got->value);
  const bool may_be =
      number == key.acknowledged ||
      std::find(key.unknown.begin(), key.unknown.end(), number) != key.unknown.end();
  return may_be ? absl::OkStatus() : wrong(absl::StrCat("the value is of put ", number));
}

}  // namespace ring::bench
