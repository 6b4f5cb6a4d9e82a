// ring/recovery/epoch_change.h — the change of one shard to a new epoch, at its coordinator.
//
// What:      EpochChange seals the members of the last Normal epoch, adopts the longest logs, has
//            them fetched (a coordinator that takes over) and re-appended to those who go on,
//            proposes Normal, and afterwards brings learners in. It says what to do next through
//            EpochActions and is told what came of it.
// Shape:     one per (group, shard) that this node coordinates and epoch; a newer epoch supersedes
//            it: destroy this one, begin again from the last Normal (E7).
//            kSealing -> kFetching -> kConnecting -> kReappending -> kProposing -> kServing; or
//            kStopped: what survived is too little (E8). epoch_joins.cc has what comes after.
// Units:     nanoseconds of the caller's clock.
// Ownership: borrows the actions.
// Threads:   one, the node's. Actions may answer from within the call.
// Errors:    what fails is tried again until a newer epoch comes; who cannot be reached in time is
//            not named and joins as a learner, if nobody needs what it has. Else another epoch is
//            asked for: an error of a link, or of memory, costs nobody the last copy (E8, F11).
// Source:    the steps of an epoch change; E1, E2, E6, E7, E8, L7.
#ifndef RING_RECOVERY_EPOCH_CHANGE_H_
#define RING_RECOVERY_EPOCH_CHANGE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ring/base/id.h"
#include "ring/cluster/normal_record.h"
#include "ring/protocol/memgest_descriptor.h"
#include "ring/recovery/adoption.h"

namespace ring::recovery {

struct EpochPlan {
  GroupId group;
  ShardId shard;
  Epoch epoch;
  int s = 0;
  int d = 0;
  std::vector<cluster::Holder> holders;       // by role
  std::optional<cluster::NormalRecord> last;  // none: the shard never served
  // Holders of `last` that the cluster believes to be there, by role of L.
  RoleMask reachable = 0;
  std::vector<protocol::MemgestDescriptor> memgests;  // all but DELETED ones
  // Other shards of the group whose coordinator has not all of its blocks: each needs a parity. So
  // it was when the plan was made; OnAbsentShards says what changed.
  int absent_shards = 0;
  // Roles whose holders take other shards over, and do not serve them yet; OnTakingOver says what
  // changed.
  RoleMask taking_over = 0;
  // This node coordinated the shard in the epoch of `last`, and has its state.
  bool living = false;
  std::vector<LogEnd> own_logs;  // living: where its own logs end
  // living: of which this node has all values or blocks, whether or not a record says so yet.
  std::vector<MemgestId> own_complete;
  RoleMask demoted = 0;  // do not go on, whatever they have (E5)
  // E8: of which memgests it may go on without what is lost; or of all.
  std::vector<MemgestId> accepted;
  bool accepts_all = false;
  // living: nobody asks again for what was written before records were lost (X7).
  bool records_settled = false;
};

enum class EpochPhase : std::uint8_t {
  kSealing = 0,
  kFetching = 1,
  kConnecting = 2,
  kReappending = 3,
  kProposing = 4,
  kServing = 5,
  kStopped = 6,
};

class EpochActions {
 public:
  virtual ~EpochActions() = default;
  // Asks the holder of a role of L to seal; answer with OnSealed or OnSealFailed.
  virtual void Seal(Role role, const cluster::Holder& holder) = 0;
  // A coordinator that takes over fetches the adopted logs, and a living one what it needs of them:
  // nothing. Answer with OnFetched.
  virtual void Fetch(const std::vector<AdoptedLog>& logs) = 0;
  // Opens a log connection of the new epoch; answer with OnConnected or OnConnectFailed. joins: the
  // role does not go on from L, and drops its state (step 7); asked only when Normal is applied,
  // since a change that is abandoned may need that state yet (E7).
  virtual void Connect(Role role, const cluster::Holder& holder, bool joins) = 0;
  // The role's connection is of no use: what it was sent counts for nothing. Nothing is told of it.
  virtual void Disconnect(Role role) = 0;
  // Begins the epoch: logs go on behind the adopted ends, held until Serve.
  virtual void Begin(const std::vector<AdoptedLog>& logs) = 0;
  // Appends to a connected role what it lacks behind `logs`. kOutOfRange: it is in no ring any
  // more. Another error: not now.
  virtual absl::Status Reappend(Role role, const std::vector<LogEnd>& logs) = 0;
  // Whether the role acknowledged all that was re-appended to it; kUnavailable: it is lost.
  virtual absl::StatusOr<bool> Reappended(Role role) = 0;
  // This epoch does not come to its end with the role, nor may it do without: another one is to
  // begin. Asked again and again.
  virtual void Renew(Role role) = 0;
  // The shard stopped for want of values that the role's former holder sealed and has: it is to
  // have the role back, for in another one it would drop them. Asked again and again.
  virtual void GiveBack(Role role) = 0;
  // Proposes Normal; the outcome comes with OnNormal. Asked again, with equal sets while serving,
  // when nothing is heard. While serving: from here on entries need both sets (L7), and who is
  // named must have caught up before the proposal goes out.
  virtual void Propose(const std::vector<cluster::MemgestNormal>& sets) = 0;
  // Normal is applied: commit, answer, take requests.
  virtual void Serve(const std::vector<cluster::MemgestNormal>& sets) = 0;
  // Brings a connected role that has nothing up to date: its ring opens behind a snapshot, which is
  // sent. Answer with OnJoined.
  virtual void Join(Role role, const cluster::Holder& holder) = 0;
  // The change goes into this phase, for who watches it.
  virtual void Entered(EpochPhase) {}
};

class EpochChange {
 public:
  using Phase = EpochPhase;
  struct Timeouts {
    std::uint64_t retry_ns = 2'000'000;       // of a call that failed; later it is rarer
    std::uint64_t patience_ns = 600'000'000;  // with who is believed to be there
    std::uint64_t proposal_retry_ns = 50'000'000;
    // From serving on: so long a join may wait for the shards that its node takes over.
    std::uint64_t defer_ns = 200'000'000;
    // So long a living coordinator leaves its members to those who take shards over.
    std::uint64_t yield_ns = 20'000'000;
  };

  EpochChange(EpochPlan plan, EpochActions* actions, const Timeouts& timeouts);

  // Time passed: repeats what failed, gives up on who is silent. Costs nothing once everybody is
  // named.
  void Step(std::uint64_t now_ns);

  // The cluster's belief of who is there changed; roles of L. Who came back is asked to seal, also
  // by a shard that stopped; who is gone is waited for no more.
  void OnReachable(RoleMask reachable);
  // Other shards of the group got all of their blocks, or lack them by now.
  void OnAbsentShards(int absent_shards);
  // Of the plan's holders, who takes shards over by now. Their joins wait for that: nobody serves
  // those shards meanwhile, and this one is served without the joiner. A living coordinator that
  // has not begun to seal waits, too: its gets go on.
  void OnTakingOver(RoleMask taking_over);
  // E8: an operator accepts what these memgests lost. A shard that stopped behind Begin goes on
  // from there, as its members are connected: they are not sealed twice for one epoch. False: it
  // stopped before; begin again. REQUIRES: kStopped.
  bool AcceptLoss(std::vector<MemgestId> accepted);
  // leaves: it asks to be done without (S6).
  void OnSealed(Role role, std::vector<LogEnd> logs, bool leaves = false);
  // gone: it has no state of the shard, or is another incarnation: no reason to ask again.
  void OnSealFailed(Role role, bool gone);
  void OnFetched(const absl::Status& status);
  void OnConnected(Role role);
  void OnConnectFailed(Role role);
  // The applied state names `sets` for this epoch.
  void OnNormal(const std::vector<cluster::MemgestNormal>& sets);
  // S6: from which extent on a joined parity counts, by memgest; 0: it has all.
  using ParityExtents = std::vector<std::pair<MemgestId, std::uint64_t>>;
  // OK: the role has all metadata and every entry since, and may be named. parities: of the coded
  // memgests that its snapshot knew; what is younger came to it whole. Else it begins again, after
  // a while.
  void OnJoined(Role role, const absl::Status& status, ParityExtents parities = {});
  // All values or blocks of the memgest are at the role's holder.
  void OnComplete(Role role, MemgestId memgest);
  // The connection of a role that has not joined is lost: it begins again. False: it counts, and
  // without it the epoch is over.
  bool OnLearnerLost(Role role);
  // The catalogue changed. memgests: all but DELETED ones. One that was made while the epoch
  // changes is empty, and is named with the others (V2). One that is made later follows from the
  // record (cluster::ActiveFor), and a further Normal names who has it and does not follow.
  void OnCatalogue(const std::vector<protocol::MemgestDescriptor>& memgests);

  // ACTIVE for the memgest by the last Normal of this epoch, without all of its values. REQUIRES:
  // serving.
  RoleMask Incomplete(const protocol::MemgestDescriptor& memgest) const;
  Phase phase() const { return phase_; }
  // The outcome of a Normal is not known yet: who joins now is named by the next one.
  bool proposes() const { return !proposed_.empty(); }
  const EpochPlan& plan() const { return plan_; }
  const std::vector<AdoptedLog>& adopted() const { return adopted_; }
  // Who counts, by the last Normal of this epoch; empty before it.
  const std::vector<cluster::MemgestNormal>& named() const { return named_.memgests; }
  // E8: memgests of which too little survived.
  std::vector<MemgestId> lost() const;
  // E8: whether all of these are among the accepted ones. What is lost beyond what was seen and
  // accepted nobody has given up yet.
  bool LossAccepted(const std::vector<MemgestId>& accepted) const;
  // "waits for node 3 to seal", for operators.
  std::string Waiting() const;

 private:
  enum class Call : std::uint8_t { kIdle = 0, kAsked = 1, kRetry = 2, kDone = 3, kGone = 4 };
  struct RoleState {
    Call seal = Call::kGone;
    Call link = Call::kGone;
    Call append = Call::kIdle;
    Call join = Call::kGone;
    bool goes_on = false;         // of ACTIVE(L), sealed, and of the same role now; or joined since
    bool lacks_too_much = false;  // goes_on, and is to join: more than can be sent again
    bool given_up = false;        // was sealed, went on, and was silent for too long
    bool leaves = false;          // asked in its seal to be done without (S6)
    bool reappended = false;
    bool joined = false;
    ParityExtents parities;  // joined: those of its snapshot
    std::vector<LogEnd> logs;
    std::uint64_t retry_ns = 0;
  };

  Role own_role() const { return Role(plan_.shard.value()); }
  RoleState& at(Role role) { return roles_[role.value()]; }
  Role RoleAt(std::size_t index) const { return Role(static_cast<std::uint16_t>(index)); }
  void Enter(Phase phase);
  void Advance();
  bool AdvanceOnce();
  bool PatienceIsOver() const { return now_ns_ - phase_since_ns_ >= timeouts_.patience_ns; }
  bool Due(Call call, const RoleState& role) const {
    return call == Call::kIdle || (call == Call::kRetry && now_ns_ >= role.retry_ns);
  }
  std::uint64_t RetryNs() const;
  void Fail(Call* call, RoleState* role);
  bool YieldsToTakeovers() const;
  bool AdvanceSealing();
  bool AdvanceFetching();
  bool AdvanceConnecting();
  bool AdvanceReappending();
  bool AdvanceProposing();
  void AdvanceJoins();
  bool ProposeNews();
  void ConnectAll(bool joins);
  void DropOut(Role role);
  void GiveUp(Role role);
  bool BeginReappend(Role role);
  void OnOutOfRange(Role role);
  bool IsEmpty(const protocol::MemgestDescriptor& memgest) const;
  bool ValuesCount(const protocol::MemgestDescriptor& memgest) const;
  // silent: roles that count as if they had sealed.
  RoleMask SourcesOf(const protocol::MemgestDescriptor& memgest, RoleMask silent = 0) const;
  bool KeepsValues(const protocol::MemgestDescriptor& memgest, Role without,
                   RoleMask silent = 0) const;
  bool MayDoWithout(Role role, RoleMask silent = 0) const;
  bool KeepsEnough(const protocol::MemgestDescriptor& memgest, Role without,
                   RoleMask silent = 0) const;
  bool NeedsWhoIsSilent() const;
  std::optional<Role> SilentWithValues(const protocol::MemgestDescriptor& memgest) const;
  void MarkLostValues();
  std::optional<Role> FormerHolderWithValues() const;
  void BeginAgain(Role role);
  cluster::MemgestNormal& LearnedOf(MemgestId memgest);
  RoleMask MayGoOn() const;
  void DecideWhoGoesOn();
  void LetOneLeave();
  static std::uint64_t LackedBy(const RoleState& role, const AdoptedLog& adopted);
  void FindShortest();
  void TakeNextSources();
  bool LostTooMuch() const;
  bool LossAccepted() const { return plan_.accepts_all || LossAccepted(plan_.accepted); }
  bool IsLost(MemgestId memgest) const;
  RoleMask MembersOf(const protocol::MemgestDescriptor& memgest) const;
  RoleMask ActiveInLast(const protocol::MemgestDescriptor& memgest) const;
  RoleMask CompleteInLast(const protocol::MemgestDescriptor& memgest) const;
  RoleMask HoldersOfLast() const;
  bool NeverUsed(const protocol::MemgestDescriptor& memgest) const;
  bool IsNeeded(Role role) const;
  bool JoinWaits(Role role) const;
  void CountFromItsStart(const protocol::MemgestDescriptor& memgest);
  bool MayBeNamed(const protocol::MemgestDescriptor& memgest, std::size_t role) const;
  cluster::MemgestNormal FirstSet(const protocol::MemgestDescriptor& memgest) const;
  static std::uint64_t ExtentOf(const RoleState& joined, MemgestId memgest);
  cluster::MemgestNormal PresentSet(const protocol::MemgestDescriptor& memgest) const;
  cluster::MemgestNormal SetToName(const protocol::MemgestDescriptor& memgest,
                                   cluster::MemgestNormal present) const;

  EpochPlan plan_;
  EpochActions* actions_;
  Timeouts timeouts_;
  Phase phase_ = Phase::kSealing;
  std::uint64_t now_ns_ = 0;
  std::uint64_t phase_since_ns_ = 0;
  std::uint64_t proposed_ns_ = 0;
  std::uint64_t fetch_retry_ns_ = 0;
  Call fetch_ = Call::kIdle;
  bool advancing_ = false;
  bool sealing_ = false;  // seals were asked for
  bool begun_ = false;    // connections of this epoch may be there
  Role stopped_by_;       // begun, and kStopped: it lacks what is nowhere, and others what it has
  bool settled_ = false;  // serving, nothing is under way
  bool may_have_news_ = true;  // for a further Normal, since that was last looked at
  std::vector<RoleState> roles_;
  std::vector<AdoptedLog> adopted_;
  std::vector<cluster::MemgestNormal> learned_;   // beyond what the last Normal names
  cluster::NormalRecord named_;                   // memgests by the last Normal of this epoch
  std::vector<cluster::MemgestNormal> proposed_;  // what is on its way
};

}  // namespace ring::recovery

#endif  // RING_RECOVERY_EPOCH_CHANGE_H_
