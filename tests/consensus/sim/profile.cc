#include "tests/consensus/sim/profile.h"

#include <algorithm>

namespace ring::consensus::sim {

const char* NameOf(Fault fault) {
  switch (fault) {
    case Fault::kLoss:
      return "loss";
    case Fault::kDuplicate:
      return "duplicate";
    case Fault::kDelay:
      return "delay";
    case Fault::kLateMessage:
      return "late_message";
    case Fault::kPartition:
      return "partition";
    case Fault::kIsolation:
      return "isolation";
    case Fault::kAsymmetric:
      return "asymmetric";
    case Fault::kBridge:
      return "bridge";
    case Fault::kFlapping:
      return "flapping";
    case Fault::kCrash:
      return "crash";
    case Fault::kPause:
      return "pause";
    case Fault::kSlowDisk:
      return "slow_disk";
    case Fault::kFailedPersist:
      return "failed_persist";
    case Fault::kDiskLoss:
      return "disk_loss";
    case Fault::kMembership:
      return "membership";
    case Fault::kTransfer:
      return "transfer";
    case Fault::kSnapshot:
      return "snapshot";
  }
  return "?";
}

namespace {

// Few servers, short terms, and messages that hold one entry each: what is lost when a leader falls
// is a matter of single messages.
void MakeStorm(SeededRandom& random, Profile& p) {
  p.storm = true;
  p.voters = std::min<std::size_t>(p.voters, 5);
  for (const Fault fault : {Fault::kCrash, Fault::kIsolation, Fault::kPartition}) {
    p.has[static_cast<std::size_t>(fault)] = true;
  }
  p.ticks = 300 + random.Below(200);
  p.fault_every = 2 + random.Below(8);
  p.outage_ticks_max = 4 + random.Below(20);
  p.client_every = 1 + random.Below(3);
  p.read_every = 1;
  p.large = random.Below(1000);
  p.filler_max = 900;
  if (p.change_every > 0) {
    p.spares = 2;
    p.change_every = 1 + random.Below(3);
  }
}

}  // namespace

Profile MakeProfile(std::uint64_t seed) {
  SeededRandom random(seed * 2 + 1);
  Profile p;
  p.seed = seed;
  constexpr std::size_t kVoters[] = {3, 3, 4, 4, 5, 7};
  p.voters = kVoters[random.Below(6)];
  p.learners = random.Below(3) == 0 ? 1 + random.Below(2) : 0;
  for (std::size_t i = 0; i < kFaultCount; ++i) p.has[i] = random.Below(2) == 0;
  if (p.Has(Fault::kMembership) || p.Has(Fault::kDiskLoss)) p.spares = 1 + random.Below(2);
  p.ticks = 150 + random.Below(200);
  if (p.Has(Fault::kLoss)) p.loss = 1 + random.Below(150);
  if (p.Has(Fault::kDuplicate)) p.duplicate = 1 + random.Below(100);
  if (p.Has(Fault::kLateMessage)) p.late = 1 + random.Below(60);
  if (p.Has(Fault::kFailedPersist)) p.failed_persist = 1 + random.Below(60);
  if (p.Has(Fault::kDelay)) p.delay_max = 4 + random.Below(3 * kTickUnits);
  if (p.Has(Fault::kSlowDisk)) p.disk_delay_max = 1 + random.Below(3 * kTickUnits);
  p.fault_every = 6 + random.Below(30);
  p.client_every = 1 + random.Below(6);
  p.read_every = 1 + random.Below(6);
  if (p.Has(Fault::kMembership)) p.change_every = 2 + random.Below(20);
  if (p.Has(Fault::kSnapshot)) p.compact_entries = 5 + random.Below(30);
  if (p.Has(Fault::kSlowDisk) && random.Below(2) == 0) p.stall = 1 + random.Below(30);
  if (random.Below(3) == 0) MakeStorm(random, p);
  p.raft.election_ticks = 8;
  p.raft.heartbeat_ticks = 2 + random.Below(2);
  p.raft.message_size_max = 1024;
  p.raft.in_flight_max = 1 + random.Below(6);
  p.raft.trailing_entries = random.Below(12);
  p.raft.promote_lag_max = 8;
  return p;
}

}  // namespace ring::consensus::sim
