#include "ring/cluster/catalogue.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/base/random.h"
#include "tests/cluster/view_builders.h"
#include "tests/support/random_seed.h"
#include "tests/support/status_matchers.h"

namespace ring::cluster {
namespace {

using protocol::MemgestState;
using ::ring::testing::StatusIs;
using ::testing::HasSubstr;

constexpr MemgestId kRep3(1);
constexpr MemgestId kSrs32(2);

// Walks a memgest to a state as the cluster itself does.
void Walk(Catalogue& catalogue, MemgestId id, const std::vector<MemgestState>& states) {
  MemgestState from = catalogue.Find(id)->state;
  for (const MemgestState to : states) {
    ASSERT_OK(catalogue
                  .Apply(to == MemgestState::kDeleted ? DeletedCommand(id, catalogue.revision())
                                                      : SetStateCommand({}, id, from, to))
                  .status);
    from = to;
  }
}

// The view that the cluster makes of a changed catalogue.
View NextView(const View& view, const Catalogue& catalogue) {
  View next = view;
  ++next.epoch;
  next.memgests = catalogue.memgests();
  next.default_memgest = catalogue.default_memgest();
  next.weak_past = catalogue.weak_past();
  return next;
}

TEST(Catalogue, G11CreatesInCreatingAndIsUsableOnlyWhenActive) {
  Catalogue catalogue(TestView());
  const CommandResult created = catalogue.Apply(CreateCommand({"a", 1}, Srs("cold", 2, 1)));
  ASSERT_OK(created.status);
  EXPECT_TRUE(created.changed);
  EXPECT_EQ(created.memgest, MemgestId(3));
  EXPECT_EQ(catalogue.Find("cold")->state, MemgestState::kCreating);
  EXPECT_THAT(catalogue.Apply(SetDefaultCommand({"a", 2}, created.memgest)).status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("creating")));
  Walk(catalogue, created.memgest, {MemgestState::kActive});
  ASSERT_OK(catalogue.Apply(SetDefaultCommand({"a", 3}, created.memgest)).status);
  EXPECT_EQ(catalogue.default_memgest(), created.memgest);
}

TEST(Catalogue, X6ARetriedCreateMakesOneMemgestAndGivesTheSameAnswer) {
  Catalogue catalogue(TestView());
  const CatalogueCommand command = CreateCommand({"admin", 7}, Srs("cold", 2, 1));
  const CommandResult first = catalogue.Apply(command);
  const CommandResult again = catalogue.Apply(command);
  ASSERT_OK(again.status);
  EXPECT_EQ(again.memgest, first.memgest);
  EXPECT_TRUE(again.duplicate);
  EXPECT_FALSE(again.changed);
  EXPECT_EQ(catalogue.memgests().size(), 3u);
  EXPECT_EQ(catalogue.revision(), 1u);
}

TEST(Catalogue, X6ARefusalIsRememberedToo) {
  Catalogue catalogue(TestView());
  const CatalogueCommand command = CreateCommand({"admin", 1}, Rep("REP3", 2));
  EXPECT_THAT(catalogue.Apply(command).status,
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("name=REP3")));
  ASSERT_OK(catalogue.Apply(SetDefaultCommand({"admin", 2}, kSrs32)).status);
  Walk(catalogue, kRep3, {MemgestState::kDraining, MemgestState::kDeleted});
  const CommandResult again = catalogue.Apply(command);
  EXPECT_THAT(again.status, StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_TRUE(again.duplicate);
}

TEST(Catalogue, X6ADeletionIsOfTheNameAndTheForceThatItWasAskedForWith) {
  Catalogue catalogue(TestView());
  const CommandResult first = catalogue.Apply(DeleteCommand({"admin", 1}, "SRS32", false));
  ASSERT_OK(first.status);
  EXPECT_TRUE(first.changed);
  EXPECT_EQ(first.memgest, kSrs32);
  EXPECT_EQ(catalogue.Find(kSrs32)->state, MemgestState::kDraining);
  for (const CatalogueCommand& other :
       {DeleteCommand({"admin", 1}, "SRS32", true), DeleteCommand({"admin", 1}, "REP3", false),
        SetDefaultCommand({"admin", 1}, kSrs32), CreateCommand({"admin", 1}, Srs("SRS32", 2, 1))}) {
    EXPECT_THAT(catalogue.Apply(other).status,
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("was used for another")));
  }
  // Its name may be another memgest's by the time it comes again.
  Walk(catalogue, kSrs32, {MemgestState::kDeleted});
  ASSERT_OK(catalogue.Apply(CreateCommand({"admin", 2}, Srs("SRS32", 2, 1))).status);
  const CommandResult again = catalogue.Apply(DeleteCommand({"admin", 1}, "SRS32", false));
  EXPECT_OK(again.status);
  EXPECT_TRUE(again.duplicate);
  EXPECT_EQ(again.memgest, kSrs32);
  EXPECT_EQ(catalogue.Find("SRS32")->state, MemgestState::kCreating);
}

TEST(Catalogue, X6ADeletionThatWasRefusedStaysRefused) {
  Catalogue catalogue(TestView());
  const CatalogueCommand deletes = DeleteCommand({"admin", 1}, "SRS32", false);
  ASSERT_OK(catalogue.Apply(deletes).status);
  const CommandResult refused = catalogue.Apply(
      RefuseDeleteCommand({"admin", 1}, kSrs32, catalogue.revision(), "NOT_EMPTY keys=7"));
  ASSERT_OK(refused.status);
  EXPECT_TRUE(refused.changed);
  EXPECT_EQ(refused.memgest, kSrs32);
  EXPECT_EQ(catalogue.Find(kSrs32)->state, MemgestState::kActive);
  // Whoever leads: also one that learned it from a snapshot.
  ASSERT_OK_AND_ASSIGN(Catalogue copy, DecodeCatalogue(3, 2, EncodeCatalogue(catalogue)));
  EXPECT_EQ(copy, catalogue);
  const CommandResult again = copy.Apply(deletes);
  EXPECT_EQ(again.status, absl::FailedPreconditionError("NOT_EMPTY keys=7"));
  EXPECT_TRUE(again.duplicate);
  EXPECT_EQ(copy.Find(kSrs32)->state, MemgestState::kActive);
  EXPECT_THAT(copy.Apply(DeleteCommand({"admin", 1}, "SRS32", true)).status,
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_OK(copy.Apply(DeleteCommand({"admin", 2}, "SRS32", true)).status);
}

// Of a leader that lost its office: by now the deletion goes on with another one.
TEST(Catalogue, X6ARefusalIsOfTheDrainThatWasCounted) {
  Catalogue catalogue(TestView());
  const CatalogueCommand deletes = DeleteCommand({"admin", 1}, "SRS32", false);
  ASSERT_OK(catalogue.Apply(deletes).status);
  const CatalogueCommand late =
      RefuseDeleteCommand({"admin", 1}, kSrs32, catalogue.revision(), "NOT_EMPTY");
  Walk(catalogue, kSrs32, {MemgestState::kActive, MemgestState::kDraining});
  EXPECT_THAT(catalogue.Apply(late).status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("ask again")));
  EXPECT_EQ(catalogue.Find(kSrs32)->state, MemgestState::kDraining);
  EXPECT_OK(catalogue.Apply(deletes).status);
  // Nor is one that is not drained, though nothing was changed since it was asked for.
  Walk(catalogue, kSrs32, {MemgestState::kDeleted});
  EXPECT_THAT(
      catalogue.Apply(RefuseDeleteCommand({"admin", 1}, kSrs32, catalogue.revision(), "")).status,
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is deleted")));
  EXPECT_OK(catalogue.Apply(deletes).status);
}

TEST(Catalogue, X6ADeletionOfANameThatNobodyHadIsNotOneOfWhoGetsIt) {
  Catalogue catalogue(TestView());
  const CatalogueCommand deletes = DeleteCommand({"admin", 1}, "cold", true);
  const absl::Status first = catalogue.Apply(deletes).status;
  EXPECT_THAT(first, StatusIs(absl::StatusCode::kNotFound, HasSubstr("name=cold")));
  const MemgestId cold = catalogue.Apply(CreateCommand({"admin", 2}, Rep("cold", 2))).memgest;
  Walk(catalogue, cold, {MemgestState::kActive});
  EXPECT_EQ(catalogue.Apply(deletes).status, first);
  EXPECT_EQ(catalogue.Find(cold)->state, MemgestState::kActive);
}

TEST(Catalogue, X2ARequestIdUsedForAnotherCommandIsRefused) {
  Catalogue catalogue(TestView());
  ASSERT_OK(catalogue.Apply(CreateCommand({"admin", 1}, Rep("one", 1))).status);
  EXPECT_THAT(
      catalogue.Apply(CreateCommand({"admin", 1}, Rep("two", 1))).status,
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("client=admin seq=1 was used")));
  EXPECT_EQ(catalogue.Find("two"), nullptr);
}

TEST(Catalogue, X3ASeqBelowTheClientsWindowIsCertainNotToBeExecuted) {
  Catalogue catalogue(TestView());
  for (std::uint64_t seq = 1; seq <= 100; ++seq) {
    ASSERT_OK(catalogue.Apply(SetDefaultCommand({"a", seq}, seq % 2 ? kRep3 : kSrs32)).status);
  }
  EXPECT_THAT(catalogue.Apply(SetDefaultCommand({"a", 36}, kSrs32)).status,
              StatusIs(absl::StatusCode::kAborted, HasSubstr("highest_seq=100")));
  EXPECT_TRUE(catalogue.Apply(SetDefaultCommand({"a", 37}, kRep3)).duplicate);
  EXPECT_FALSE(catalogue.Apply(SetDefaultCommand({"b", 1}, kRep3)).duplicate);
}

TEST(Catalogue, V2NeverUsesAnIdAgain) {
  Catalogue catalogue(TestView());
  for (std::uint64_t round = 0; round < 5; ++round) {
    const CommandResult created = catalogue.Apply(CreateCommand({"a", round}, Rep("temp", 2)));
    ASSERT_OK(created.status);
    EXPECT_EQ(created.memgest.value(), 3 + round);
    Walk(catalogue, created.memgest,
         {MemgestState::kActive, MemgestState::kDraining, MemgestState::kDeleted});
    EXPECT_EQ(catalogue.Find("temp"), nullptr);
    EXPECT_EQ(catalogue.Find(created.memgest)->state, MemgestState::kDeleted);
  }
  ASSERT_OK(NextView(TestView(), catalogue).Validate());
}

TEST(Catalogue, G10TheDefaultMemgestCannotBeDeleted) {
  Catalogue catalogue(TestView());
  EXPECT_THAT(
      catalogue
          .Apply(SetStateCommand({"a", 1}, kRep3, MemgestState::kActive, MemgestState::kDraining))
          .status,
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("default")));
  EXPECT_THAT(catalogue.Apply(DeleteCommand({"a", 2}, "REP3", true)).status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("default")));
  EXPECT_EQ(catalogue.Find(kRep3)->state, MemgestState::kActive);
}

TEST(Catalogue, G10ADrainCanBeGivenUpButADeletionCannot) {
  Catalogue catalogue(TestView());
  Walk(catalogue, kSrs32,
       {MemgestState::kDraining, MemgestState::kActive, MemgestState::kDraining,
        MemgestState::kDeleted});
  for (const MemgestState from : {MemgestState::kDraining, MemgestState::kCreating}) {
    EXPECT_THAT(catalogue.Apply(SetStateCommand({}, kSrs32, from, MemgestState::kActive)).status,
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is deleted")));
  }
}

// A leader counted nothing, lost its office, and its command came late: the drain that it counted
// in was undone by the next leader, puts were acknowledged, and another drain began.
TEST(Catalogue, G10ADeletionIsOfTheDrainThatWasCounted) {
  Catalogue catalogue(TestView());
  Walk(catalogue, kSrs32, {MemgestState::kDraining});
  const CatalogueCommand late = DeletedCommand(kSrs32, catalogue.revision());
  Walk(catalogue, kSrs32, {MemgestState::kActive, MemgestState::kDraining});
  EXPECT_THAT(catalogue.Apply(late).status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("ask again")));
  EXPECT_EQ(catalogue.Find(kSrs32)->state, MemgestState::kDraining);
  EXPECT_OK(catalogue.Apply(DeletedCommand(kSrs32, catalogue.revision())).status);
}

TEST(Catalogue, RefusesEveryStepThatIsNotInTheOrderOfStates) {
  const std::vector<MemgestState> states = {MemgestState::kCreating, MemgestState::kActive,
                                            MemgestState::kDraining, MemgestState::kDeleted};
  int allowed = 0;
  for (const MemgestState from : states) {
    for (const MemgestState to : states) {
      Catalogue catalogue(TestView());
      const absl::Status status = catalogue.Apply(SetStateCommand({}, kSrs32, from, to)).status;
      if (status.code() != absl::StatusCode::kInvalidArgument) ++allowed;
    }
  }
  EXPECT_EQ(allowed, 4);
}

TEST(Catalogue, ASetStateSaysFromWhereAndIsIdempotent) {
  Catalogue catalogue(TestView());
  const CatalogueCommand drain =
      SetStateCommand({}, kSrs32, MemgestState::kActive, MemgestState::kDraining);
  EXPECT_TRUE(catalogue.Apply(drain).changed);
  const CommandResult again = catalogue.Apply(drain);
  EXPECT_OK(again.status);
  EXPECT_FALSE(again.changed);
  Walk(catalogue, kSrs32, {MemgestState::kDeleted});
  EXPECT_THAT(catalogue.Apply(drain).status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("deleted")));
}

TEST(Catalogue, RefusesWhatTheClusterCannotHold) {
  Catalogue catalogue(TestView());
  EXPECT_THAT(catalogue.Apply(CreateCommand({"a", 1}, Srs("big", 4, 2))).status,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("k=4")));
  EXPECT_THAT(catalogue.Apply(CreateCommand({"a", 2}, Rep("big", 6))).status,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("r=6")));
  EXPECT_THAT(catalogue.Apply(CreateCommand({"a", 3}, Rep("no good", 1))).status,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("name")));
  EXPECT_THAT(catalogue.Apply(SetDefaultCommand({"a", 4}, MemgestId(9))).status,
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("memgest=9")));
  EXPECT_THAT(catalogue.Apply(CreateCommand({std::string(65, 'x'), 1}, Rep("ok", 1))).status,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("size=65")));
  EXPECT_EQ(catalogue.revision(), 0u);
}

TEST(Catalogue, HasABoundOnLiveMemgests) {
  Catalogue catalogue(TestView());
  for (std::size_t i = 2; i < kLiveMemgestCountMax; ++i) {
    ASSERT_OK(catalogue.Apply(CreateCommand({}, Rep(absl::StrCat("m", i), 1))).status);
  }
  EXPECT_THAT(catalogue.Apply(CreateCommand({}, Rep("more", 1))).status,
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("memgest_count=256")));
}

// A random command of a client that retries now and then.
CatalogueCommand RandomCommand(Random& random, std::uint64_t step, std::uint64_t revision) {
  const RequestId id{absl::StrCat("c", random.Next64() % 3), step - random.Next64() % 3};
  const MemgestId memgest(static_cast<std::uint16_t>(random.Next64() % 12));
  const auto state = [&] { return static_cast<MemgestState>(1 + random.Next64() % 4); };
  switch (random.Next64() % 6) {
    case 0:
      return CreateCommand(
          id, Rep(absl::StrCat("m", random.Next64() % 6), static_cast<int>(random.Next64() % 7)));
    case 1:
      return SetDefaultCommand(id, memgest);
    case 2:
      return DeleteCommand(id, absl::StrCat("m", random.Next64() % 6), random.Next64() % 2 != 0);
    case 3:
      return RefuseDeleteCommand(id, memgest, revision - random.Next64() % 2, "NOT_EMPTY");
    default:
      return SetStateCommand(random.Next64() % 2 ? id : RequestId{}, memgest, state(), state());
  }
}

// What lets it be replicated: equal commands, equal bytes; and its views are always valid.
// X7: what was once weak stays known, over snapshots, too.
TEST(Catalogue, X7RemembersThatAWeakMemgestWasTheDefaultOrAlone) {
  const View view = InitialView(3, 2, TestNodes(6), {Rep("weak", 1)});
  Catalogue catalogue(view);
  EXPECT_EQ(catalogue.weak_past(), protocol::WeakPast());
  const MemgestId strong = catalogue.Apply(CreateCommand({"a", 1}, Srs("strong", 2, 1))).memgest;
  EXPECT_EQ(catalogue.weak_past(), (protocol::WeakPast{false, true}));
  Walk(catalogue, strong, {MemgestState::kActive});
  ASSERT_OK(catalogue.Apply(SetDefaultCommand({"a", 2}, strong)).status);
  EXPECT_EQ(catalogue.weak_past(), (protocol::WeakPast{true, true}));
  EXPECT_EQ(NextView(view, catalogue).weak_past, catalogue.weak_past());
  ASSERT_OK_AND_ASSIGN(const Catalogue copy, DecodeCatalogue(3, 2, EncodeCatalogue(catalogue)));
  EXPECT_EQ(copy.weak_past(), catalogue.weak_past());
  // Neither is said of a cluster that never was so.
  Catalogue other(TestView());
  const MemgestId weak = other.Apply(CreateCommand({"a", 1}, Rep("weak", 1))).memgest;
  other.Apply(CreateCommand({"a", 2}, Srs("more", 2, 1)));
  Walk(other, weak, {MemgestState::kActive});
  ASSERT_OK(other.Apply(SetDefaultCommand({"a", 3}, weak)).status);
  EXPECT_EQ(other.weak_past(), protocol::WeakPast());
  ASSERT_OK(other.Apply(SetDefaultCommand({"a", 4}, kSrs32)).status);
  EXPECT_EQ(other.weak_past(), (protocol::WeakPast{true, false}));
}

TEST(Catalogue, EqualCommandsGiveEqualCataloguesAlsoOverSnapshotsAndTheWire) {
  SeededRandom random(testing::SeedFor("catalogue"));
  View view = TestView();
  Catalogue one(view);
  Catalogue two(view);
  for (std::uint64_t step = 3; step < 3000; ++step) {
    const CatalogueCommand command = RandomCommand(random, step, one.revision());
    const CommandResult first = one.Apply(command);
    const absl::StatusOr<CatalogueCommand> sent = DecodeCommand(EncodeCommand(command));
    if (command.descriptor.name == "") {
      ASSERT_OK(sent.status());
    }
    if (!sent.ok()) {  // a descriptor that the wire itself refuses
      two.Apply(command);
    } else {
      const CommandResult second = two.Apply(*sent);
      ASSERT_EQ(first.status, second.status);
      ASSERT_EQ(first.changed, second.changed);
    }
    if (first.changed) {
      view = NextView(view, one);
      ASSERT_OK(view.Validate());
    }
    if (step % 50 == 0) {
      ASSERT_OK_AND_ASSIGN(two, DecodeCatalogue(3, 2, EncodeCatalogue(two)));
    }
    ASSERT_TRUE(one == two) << "step=" << step;
  }
  EXPECT_EQ(EncodeCatalogue(one), EncodeCatalogue(two));
  EXPECT_GT(one.revision(), 20u);
}

TEST(Catalogue, V2TheLastIdIsTheOneBelowThatWhichStandsForNone) {
  View view = TestView();
  view.memgests.back().id = MemgestId(static_cast<std::uint16_t>(kMemgestIdMax.value() - 1));
  Catalogue catalogue(view);
  protocol::MemgestDescriptor asked = Rep("last", 2);
  asked.id = kNoMemgest;  // not looked at
  const CommandResult last = catalogue.Apply(CreateCommand({"c", 1}, asked));
  ASSERT_OK(last.status);
  EXPECT_EQ(last.memgest, kMemgestIdMax);
  EXPECT_THAT(catalogue.Apply(CreateCommand({"c", 2}, Rep("over", 2))).status,
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("last_id=65534")));
  ASSERT_OK(NextView(view, catalogue).Validate());
  EXPECT_OK(DecodeCatalogue(3, 2, EncodeCatalogue(catalogue)).status());
}

// Every view has all of them, and goes to a node in one message.
TEST(Catalogue, F11DescriptorsOfDeletedMemgestsAreNotKeptWithoutABound) {
  View view = TestView();
  const std::string name(protocol::kMemgestNameSizeMax, 'n');
  const auto first = view.memgests.back().id.value();
  for (int i = 1; i < 60'000; ++i) {
    protocol::MemgestDescriptor deleted = Rep(name, 2);
    deleted.id = MemgestId(static_cast<std::uint16_t>(first + i));
    deleted.state = protocol::MemgestState::kDeleted;
    view.memgests.push_back(deleted);
  }
  EXPECT_THAT(Catalogue(view).Apply(CreateCommand({"c", 1}, Rep("one", 2))).status,
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("there were 60")));
  view.memgests.resize(20'000);
  EXPECT_OK(Catalogue(view).Apply(CreateCommand({"c", 1}, Rep("one", 2))).status);
}

TEST(CatalogueCommand, SurvivesTheWire) {
  CatalogueCommand create = CreateCommand({"c", 1}, Srs("cold", 3, 2));
  create.descriptor.state = MemgestState::kCreating;
  for (const CatalogueCommand& command :
       {create,
        SetStateCommand({"client-0123", 1ull << 60}, MemgestId(4), MemgestState::kDraining,
                        MemgestState::kActive),
        DeletedCommand(MemgestId(5), 1ull << 50), SetDefaultCommand({}, MemgestId(65535)),
        DeleteCommand({"c", 2}, std::string(protocol::kMemgestNameSizeMax, 'n'), true),
        RefuseDeleteCommand({"c", 2}, MemgestId(6), 1ull << 40,
                            std::string(kRefusalSizeMax, 'r'))}) {
    const std::string bytes = EncodeCommand(command);
    ASSERT_OK_AND_ASSIGN(const CatalogueCommand decoded, DecodeCommand(bytes));
    EXPECT_EQ(decoded, command);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_THAT(DecodeCommand(absl::string_view(bytes).substr(0, size)),
                  StatusIs(absl::StatusCode::kInvalidArgument));
    }
    EXPECT_THAT(DecodeCommand(bytes + "x"), StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

// F11: what is remembered of a request has a bound.
TEST(CatalogueCommand, WithATextThatIsTooLongIsRefused) {
  for (const CatalogueCommand& command :
       {DeleteCommand({"c", 1}, std::string(protocol::kMemgestNameSizeMax + 1, 'n'), false),
        RefuseDeleteCommand({"c", 1}, kSrs32, 1, std::string(kRefusalSizeMax + 1, 'r'))}) {
    EXPECT_THAT(DecodeCommand(EncodeCommand(command)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has size=")));
  }
  std::string bytes = EncodeCommand(DeleteCommand({"c", 1}, "cold", false));
  bytes.back() = 2;
  EXPECT_THAT(DecodeCommand(bytes), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("=2")));
}

TEST(CatalogueCommand, OfMutatedBytesIsACommandOrAnError) {
  SeededRandom random(testing::SeedFor("command"));
  const std::string bytes = EncodeCommand(CreateCommand({"client", 1}, Srs("cold", 3, 2)));
  Catalogue catalogue(TestView());
  for (int round = 0; round < 20000; ++round) {
    std::string mutated = bytes;
    for (std::uint64_t flips = 1 + random.Next64() % 3; flips > 0; --flips) {
      mutated[random.Next64() % mutated.size()] = static_cast<char>(random.Next64());
    }
    const absl::StatusOr<CatalogueCommand> command = DecodeCommand(mutated);
    if (command.ok()) catalogue.Apply(*command);
  }
  ASSERT_OK(NextView(TestView(), catalogue).Validate());
  ASSERT_OK(DecodeCatalogue(3, 2, EncodeCatalogue(catalogue)).status());
}

}  // namespace
}  // namespace ring::cluster
