#include "api/client.h"

#include <array>
#include <functional>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/base/limits.h"
#include "ring/base/random.h"
#include "ring/protocol/limits.h"
#include "tests/api/twin_cluster.h"
#include "tests/support/random_seed.h"
#include "tests/support/status_matchers.h"

namespace ring {
namespace {

using ::ring::testing::StatusIs;
using ::ring::testing::TwinCluster;
using ::testing::HasSubstr;

std::string RandomBytes(SeededRandom& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.Next64());
  return bytes;
}

TEST(Client, GetGivesWhatPutStoredWithVersionAndMemgest) {
  TwinCluster cluster;
  const auto client = cluster.Connect();
  ASSERT_OK_AND_ASSIGN(const WriteResult put, client->Put("k", "value", {.memgest = "two"}));
  EXPECT_EQ(client->MemgestName(put.memgest), "two");
  ASSERT_OK_AND_ASSIGN(const GetResult get, client->Get("k"));
  EXPECT_EQ(get.value, "value");
  EXPECT_EQ(get.version, put.version);
  EXPECT_EQ(get.memgest, put.memgest);
  ASSERT_OK_AND_ASSIGN(const WriteResult other, client->Put("k2", ""));
  EXPECT_EQ(client->MemgestName(other.memgest), "one");  // the default
}

TEST(Client, KeysAndValuesAreBinaryAndOfEverySize) {
  TwinCluster cluster;
  const auto client = cluster.Connect();
  SeededRandom random(testing::SeedFor("sizes"));
  for (const std::size_t key_size :
       std::initializer_list<std::size_t>{1, 23, 24, 25, 64, 65, 1023, 1024}) {
    for (const std::size_t size : std::initializer_list<std::size_t>{0, 1, 63, 64, 65, 1024, 8191,
                                                                     8192, 8193, 70000, 1 << 20}) {
      const std::string key = RandomBytes(random, key_size);
      const std::string value = RandomBytes(random, size);
      ASSERT_OK(client->Put(key, value));
      ASSERT_OK_AND_ASSIGN(const GetResult get, client->Get(key));
      ASSERT_EQ(get.value, value) << key_size << " " << size;
      std::string buffer(size, '\0');
      ASSERT_OK_AND_ASSIGN(const ReadResult read, client->GetInto(key, absl::MakeSpan(buffer)));
      ASSERT_EQ(read.size, size);
      ASSERT_EQ(buffer, value);
    }
  }
}

TEST(Client, ASixteenMebibyteValueGoesBothWays) {
  TwinCluster cluster;
  const auto client = cluster.Connect();
  SeededRandom random(testing::SeedFor("large"));
  const std::string value = RandomBytes(random, kValueSizeMax);
  ASSERT_OK(client->Put("large", value));
  ASSERT_OK_AND_ASSIGN(const GetResult get,
                       client->Get("large", {.value_size_hint = value.size()}));
  EXPECT_TRUE(get.value == value);
}

TEST(Client, LimitsAreRefusedBeforeAnythingIsSent) {
  TwinCluster cluster;
  ClientOptions options;
  options.value_size_max = 1000;
  const auto client = cluster.Connect(options);
  const int before = cluster.node().request_count();
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(client->Get(""), StatusIs(kInvalid, HasSubstr("key length=0")));
  EXPECT_THAT(client->Put(std::string(1025, 'k'), "v"),
              StatusIs(kInvalid, HasSubstr("key length=1025")));
  EXPECT_THAT(client->Put("k", std::string(1001, 'v')),
              StatusIs(kInvalid, HasSubstr("value length=1001 is over value_size_max=1000")));
  EXPECT_THAT(client->SubmitGet(1, ""), StatusIs(kInvalid));
  EXPECT_EQ(cluster.node().request_count(), before);
  EXPECT_EQ(client->outstanding(), 0u);
}

TEST(Client, TheClustersValueLimitCountsToo) {
  TwinCluster cluster;
  cluster.ChangeView([](cluster::View* view) { view->value_size_max = 500; });
  const auto client = cluster.Connect();
  EXPECT_THAT(client->Put("k", std::string(501, 'v')),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("value_size_max=500")));
}

TEST(Client, MissingKeysAndWrongVersionsAreNamed) {
  TwinCluster cluster;
  const auto client = cluster.Connect();
  EXPECT_THAT(client->Get("a\n"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("key=\"a\\n\"")));
  EXPECT_THAT(client->Delete("a"), StatusIs(absl::StatusCode::kNotFound));
  ASSERT_OK_AND_ASSIGN(const WriteResult first, client->Put("a", "1", {.if_version = Version()}));
  const auto again = client->Put("a", "2", {.if_version = Version()});
  EXPECT_THAT(again,
              StatusIs(absl::StatusCode::kAborted, HasSubstr("version=0.1 if_version=none")));
  EXPECT_FALSE(IsUnknownOutcome(again.status()));
  EXPECT_OK(client->Put("a", "3", {.if_version = first.version}));
  EXPECT_THAT(client->Delete("a", {.if_version = first.version}),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_OK(client->Delete("a"));
  EXPECT_THAT(client->Get("a"), StatusIs(absl::StatusCode::kNotFound));
}

TEST(Client, MoveChangesTheMemgestAndWhereTellsIt) {
  TwinCluster cluster(2);
  const auto client = cluster.Connect();
  ASSERT_OK(client->Put("k", "value", {.memgest = "one"}));
  ASSERT_OK_AND_ASSIGN(const WriteResult moved, client->Move("k", "two"));
  ASSERT_OK_AND_ASSIGN(const WhereResult where, client->Where("k"));
  EXPECT_EQ(client->MemgestName(where.memgest), "two");
  EXPECT_EQ(where.version, moved.version);
  EXPECT_EQ(where.value_size, 5u);
  EXPECT_EQ(where.node.value(), where.group.value());  // the twins' view: one shard, rotated
  EXPECT_THAT(client->Move("none", "two"), StatusIs(absl::StatusCode::kNotFound));
}

TEST(Client, AMoveWithAVersionMovesOnlyThatVersion) {
  TwinCluster cluster;
  const auto client = cluster.Connect();
  ASSERT_OK_AND_ASSIGN(const MemgestId two, client->ResolveMemgest("two"));
  ASSERT_OK_AND_ASSIGN(const WriteResult first, client->Put("k", "1", {.memgest = "one"}));
  ASSERT_OK_AND_ASSIGN(const WriteResult second, client->Put("k", "2", {.memgest = "one"}));
  EXPECT_THAT(client->Move("k", "two", {.if_version = first.version}),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("version=")));
  EXPECT_EQ(client->Where("k")->version, second.version);
  ASSERT_OK(client->SubmitMove(7, "k", two, {.if_version = first.version}));
  ASSERT_OK(client->Wait(absl::Seconds(10)));
  Completion completion;
  ASSERT_EQ(client->PollCompletions(absl::MakeSpan(&completion, 1)), 1u);
  EXPECT_EQ(completion.outcome, OpOutcome::kVersionMismatch);
  EXPECT_EQ(completion.version, second.version);
  ASSERT_OK_AND_ASSIGN(const WriteResult moved,
                       client->Move("k", "two", {.if_version = second.version}));
  EXPECT_EQ(moved.memgest, two);
  EXPECT_EQ(client->Get("k")->value, "2");
}

TEST(Client, ABatchTakesTheOptionsOfItsOperations) {
  TwinCluster cluster;
  const auto client = cluster.Connect();
  ASSERT_OK_AND_ASSIGN(const WriteResult old, client->Put("k", "1"));
  ASSERT_OK_AND_ASSIGN(const WriteResult put, client->Put("k", "2"));
  Batch stale;
  stale.Delete("k", {.if_version = old.version});
  stale.Move("k", "two", {.if_version = old.version});
  ASSERT_OK_AND_ASSIGN(const auto refused, client->Execute(stale));
  for (const auto& result : refused) EXPECT_THAT(result, StatusIs(absl::StatusCode::kAborted));
  Batch move;
  move.Move("k", "two", {.if_version = put.version});
  ASSERT_OK_AND_ASSIGN(const auto moved, client->Execute(move));
  ASSERT_OK(moved[0].status());
  Batch remove;
  remove.Delete("k", {.if_version = moved[0]->version});
  ASSERT_OK_AND_ASSIGN(const auto removed, client->Execute(remove));
  EXPECT_OK(removed[0].status());

  // The nodes take no faults, so the one that asks for decoded bytes is refused.
  Batch gets;
  gets.Get("r", {.degraded = true});
  gets.Get("r", {.degraded = false});
  ASSERT_OK(client->Put("r", "value").status());
  ASSERT_OK_AND_ASSIGN(const auto got, client->Execute(gets));
  EXPECT_THAT(got[0], StatusIs(absl::StatusCode::kInvalidArgument));
  ASSERT_OK(got[1].status());
  EXPECT_EQ(got[1]->value, "value");

  // Nobody answers: only the deadlines of the batch's own operations end them in time.
  cluster.Stop(0);
  Batch late;
  late.Get("k", {.deadline = absl::Milliseconds(50)});
  late.Delete("k", {.deadline = absl::Milliseconds(50)});
  late.Move("k", "one", {.deadline = absl::Milliseconds(50)});
  const absl::Time start = absl::Now();
  ASSERT_OK_AND_ASSIGN(const auto ended, client->Execute(late));
  for (const auto& result : ended) EXPECT_FALSE(result.ok());
  EXPECT_LT(absl::Now() - start, absl::Seconds(9)) << "the client's own deadline is 10 s";
}

TEST(Client, AMemgestThatIsNotKnownIsLookedUpOnceAndThenNamed) {
  TwinCluster cluster;
  const auto client = cluster.Connect();
  EXPECT_THAT(client->Put("k", "v", {.memgest = "gold"}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("memgest=gold")));
  cluster.ChangeView([](cluster::View* view) {
    protocol::MemgestDescriptor gold;
    gold.id = MemgestId(9);
    gold.name = "gold";
    view->memgests.push_back(gold);
  });
  ASSERT_OK_AND_ASSIGN(const WriteResult put, client->Put("k", "v", {.memgest = "gold"}));
  EXPECT_EQ(put.memgest, MemgestId(9));
  EXPECT_THAT(client->Put("k", "v", {.memgest_id = MemgestId(77)}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("memgest=77")));
}

TEST(Client, AMemgestOfWhichNobodyCouldTellIsNotSaidToBeUnknown) {
  TwinCluster cluster;
  const auto client = cluster.Connect();
  cluster.Stop(0);
  const PutOptions to_gold = {.memgest = "gold", .deadline = absl::Milliseconds(50)};
  for (const absl::Status& status :
       {client->Put("k", "v", to_gold).status(), client->Move("k", "gold", to_gold).status()}) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("memgest=gold")));
    EXPECT_FALSE(IsUnknownOutcome(status));
  }
}

TEST(Client, GetIntoABufferThatIsTooSmallSaysTheSizeAndWritesNothing) {
  TwinCluster cluster;
  const auto client = cluster.Connect();
  for (const std::size_t size : {std::size_t{100}, std::size_t{100000}}) {
    ASSERT_OK(client->Put("k", std::string(size, 'v')));
    std::string buffer(size - 1, '.');
    EXPECT_THAT(
        client->GetInto("k", absl::MakeSpan(buffer)),
        StatusIs(absl::StatusCode::kOutOfRange, HasSubstr(absl::StrCat("value_size=", size))));
    EXPECT_EQ(buffer, std::string(size - 1, '.'));
  }
  ASSERT_OK(client->Put("empty", ""));
  EXPECT_OK(client->GetInto("empty", {}));
}

TEST(Client, CallbacksFuturesAndBatchesGiveTheSameResults) {
  TwinCluster cluster(3);
  ClientOptions options;
  options.window = 8;  // smaller than what is submitted
  const auto client = cluster.Connect(options);
  int called = 0;
  for (int i = 0; i < 50; ++i) {
    client->PutAsync(absl::StrCat("c", i), "x", {}, [&called](absl::StatusOr<WriteResult> put) {
      EXPECT_OK(put);
      ++called;
    });
  }
  ASSERT_OK(client->Wait(absl::Seconds(10)));
  EXPECT_EQ(called, 50);
  Future<WriteResult> put = client->PutAsync("f", "future");
  ASSERT_OK(put.Get());
  Future<GetResult> get = client->GetAsync("f");
  ASSERT_OK_AND_ASSIGN(const GetResult value, get.Get());
  EXPECT_EQ(value.value, "future");

  Batch batch;
  for (int i = 0; i < 40; ++i) batch.Put(absl::StrCat("b", i), absl::StrCat("v", i));
  ASSERT_OK_AND_ASSIGN(const auto puts, client->Execute(batch));
  for (const auto& result : puts) EXPECT_OK(result);
  batch.Clear();
  for (int i = 0; i < 40; ++i) batch.Get(absl::StrCat("b", i));
  batch.Get("missing");
  batch.Move("b0", "nowhere");
  ASSERT_OK_AND_ASSIGN(const auto gets, client->Execute(batch));
  ASSERT_EQ(gets.size(), 42u);
  for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(gets[i]->value, absl::StrCat("v", i));
  EXPECT_THAT(gets[40], StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(gets[41], StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(Client, ACallbackMayCallTheClient) {
  TwinCluster cluster;
  const auto client = cluster.Connect();
  std::string seen;
  client->PutAsync("k", "v", {}, [&](absl::StatusOr<WriteResult>) {
    absl::StatusOr<GetResult> get = client->Get("k");
    if (get.ok()) seen = get->value;
  });
  ASSERT_OK(client->Wait(absl::Seconds(10)));
  EXPECT_EQ(seen, "v");
}

TEST(Client, ACallbackMaySubmitHoweverFullTheWindowWas) {
  TwinCluster cluster;
  ClientOptions options;
  options.window = 4;
  const auto client = cluster.Connect(options);
  int left = 40;
  std::vector<absl::Status> told;
  std::function<void(absl::StatusOr<WriteResult>)> next = [&](absl::StatusOr<WriteResult> put) {
    told.push_back(put.status());
    if (left-- > 0) client->PutAsync("k", "v", {}, next);
  };
  for (int i = 0; i < 4; ++i) client->PutAsync("k", "v", {}, next);
  ASSERT_OK(client->Wait(absl::Seconds(60)));
  EXPECT_EQ(told.size(), 44u);
  for (const absl::Status& status : told) EXPECT_OK(status);
}

// They keep their places until they are taken: no waiting makes room.
TEST(Client, FinishedOperationsThatNobodyTakesLetACallBeRefusedAtOnce) {
  TwinCluster cluster;
  ClientOptions options;
  options.window = 2;
  const auto client = cluster.Connect(options);
  ASSERT_OK(client->SubmitGet(1, "a"));
  ASSERT_OK(client->SubmitGet(2, "b"));
  ASSERT_OK(client->Wait(absl::Seconds(60)));
  EXPECT_THAT(client->Put("k", "v", {.deadline = absl::Hours(1)}).status(),
              StatusIs(absl::StatusCode::kResourceExhausted));
  std::array<Completion, 2> completions;
  EXPECT_EQ(client->PollCompletions(absl::MakeSpan(completions)), 2u);
  client->PollCompletions({});
  EXPECT_OK(client->Put("k", "v").status());
}

// As one that asks again when it does not know what became of a put.
TEST(Client, WhatACallbackAsksForWhenItsClientEndsIsRefusedAndItsOwnCallbackCalled) {
  TwinCluster cluster;
  std::unique_ptr<Client> client = cluster.Connect();
  cluster.node().faults().silent = true;
  Client* const ending = client.get();
  std::vector<absl::Status> told;
  client->PutAsync("k", "v", {}, [&](absl::StatusOr<WriteResult> result) {
    told.push_back(result.status());
    ending->PutAsync("k", "v", {},
                     [&](absl::StatusOr<WriteResult> again) { told.push_back(again.status()); });
  });
  client.reset();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_THAT(told[1],
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("the client ends")));
}

// Thousands of requests of random sizes through one ring: wraps, PADs, full rings, reordered
// answers, and every value checked.
TEST(Client, APipelineOfRandomSizesWrapsTheRingAndKeepsEveryValue) {
  TwinCluster cluster;
  cluster.node().faults().reorder = true;
  ClientOptions options;
  options.window = 64;
  const auto client = cluster.Connect(options);
  SeededRandom random(testing::SeedFor("pipeline"));
  constexpr int kKeys = 64;
  std::vector<std::string> model(kKeys);
  std::vector<bool> busy(kKeys, false);
  std::vector<Completion> completions(16);
  int submitted = 0, finished = 0;
  constexpr int kOperations = 6000;
  const auto key_of = [](std::uint64_t k) {
    return absl::StrCat("key-", k, std::string(k * 16, 'p'));
  };
  while (finished < kOperations) {
    for (int tries = 0; tries < 8 && submitted < kOperations; ++tries) {
      const std::uint64_t k = random.Below(kKeys);
      if (busy[k]) continue;  // operations under way have no order among them
      const bool get = !model[k].empty() && random.Below(2) == 0;
      const std::string value =
          get ? "" : RandomBytes(random, 1 + random.Below(random.Below(8) == 0 ? 20000 : 3000));
      const absl::Status status =
          get ? client->SubmitGet(k, key_of(k)) : client->SubmitPut(k, key_of(k), value);
      if (absl::IsResourceExhausted(status)) break;
      ASSERT_OK(status);
      if (!get) model[k] = value;
      busy[k] = true;
      ++submitted;
    }
    const std::size_t count = client->PollCompletions(absl::MakeSpan(completions));
    for (std::size_t i = 0; i < count; ++i) {
      const Completion& completion = completions[i];
      ASSERT_OK(ToStatus(completion));
      if (!completion.value.empty()) {
        ASSERT_TRUE(completion.value == model[completion.token]) << completion.token;
      }
      busy[completion.token] = false;
      ++finished;
    }
    if (count == 0) client->WaitForProgress(absl::Seconds(1));
  }
  EXPECT_GT(cluster.node().pad_count(), 20);
}

TEST(Client, ClientsOfOneProcessDoNotMeet) {
  TwinCluster cluster(2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&cluster, t] {
      const auto client = cluster.Connect();  // made, used and destroyed by its thread
      for (int i = 0; i < 200; ++i) {
        const std::string key = absl::StrCat("t", t, "-", i % 10);
        ASSERT_OK(client->Put(key, absl::StrCat(t, ":", i)));
        ASSERT_OK_AND_ASSIGN(const GetResult get, client->Get(key));
        ASSERT_EQ(get.value, absl::StrCat(t, ":", i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Client, AFullWindowIsToldAndEmptiesAgain) {
  TwinCluster cluster;
  cluster.node().faults().silent = false;
  ClientOptions options;
  options.window = 4;
  const auto client = cluster.Connect(options);
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_OK(client->SubmitPut(i, "k", "v"));
  EXPECT_THAT(client->SubmitPut(4, "k", "v"),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("window")));
  ASSERT_OK(client->Wait(absl::Seconds(10)));
  std::vector<Completion> completions(8);
  EXPECT_EQ(client->PollCompletions(absl::MakeSpan(completions)), 4u);
  EXPECT_EQ(client->PollCompletions(absl::MakeSpan(completions)), 0u);
  EXPECT_EQ(client->outstanding(), 0u);
}

TEST(Client, OptionsThatCannotWorkAreRefused) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  ClientOptions options;
  EXPECT_THAT(Client::Connect(options), StatusIs(kInvalid, HasSubstr("no seeds")));
  options.seeds = {"local:nobody"};
  options.window = 0;
  EXPECT_THAT(Client::Connect(options), StatusIs(kInvalid, HasSubstr("window=0")));
  options.window = 1024;
  EXPECT_THAT(Client::Connect(options), StatusIs(kInvalid, HasSubstr("window=1024")));
}

TEST(Client, ConnectTellsWhatEverySeedDid) {
  ClientOptions options;
  options.seeds = {"local:nobody-here", "127.0.0.1:1"};
  options.deadline = absl::Seconds(2);
  EXPECT_THAT(Client::Connect(options),
              StatusIs(absl::StatusCode::kUnavailable,
                       ::testing::AllOf(HasSubstr("seed=local:nobody-here"),
                                        HasSubstr("seed=tcp:127.0.0.1:1"))));
}

// Descriptors of deleted memgests stay in a view.
TEST(Client, AViewOfMebibytesIsTakenOver) {
  TwinCluster cluster(2);
  cluster.ChangeView([](cluster::View* view) {
    for (int i = 0; i < 20'000; ++i) {
      protocol::MemgestDescriptor deleted = view->memgests.back();
      deleted.id = MemgestId(static_cast<std::uint16_t>(deleted.id.value() + 1));
      deleted.name = std::string(60, 'n');
      deleted.state = protocol::MemgestState::kDeleted;
      view->memgests.push_back(deleted);
    }
  });
  const std::unique_ptr<Client> client = cluster.Connect();
  ASSERT_OK(client->Put("key", "value").status());
  EXPECT_EQ(client->Get("key")->value, "value");
}

}  // namespace
}  // namespace ring
