// tests/cluster/cluster_state_builders.h — commands of a test cluster.
//
// What:      FailOverView(): TestView() with fail-over on; Register(i, incarnation), Add(i): node
//            "ni"; NormalOf(view, g, i): a record in which everybody counts and has everything.
// Threads:   pure.
// Errors:    none.
#ifndef RING_TESTS_CLUSTER_CLUSTER_STATE_BUILDERS_H_
#define RING_TESTS_CLUSTER_CLUSTER_STATE_BUILDERS_H_

#include "absl/strings/str_cat.h"
#include "ring/cluster/cluster_command.h"
#include "tests/cluster/view_builders.h"

namespace ring::cluster {

inline View FailOverView() {
  View view = TestView();
  view.fail_over = true;
  return view;
}

inline RegisterNode Register(int i, std::uint64_t incarnation) {
  RegisterNode command;
  command.info.name = absl::StrCat("n", i);
  command.info.incarnation = Incarnation(incarnation);
  command.info.tcp_address = absl::StrCat("tcp:10.0.0.", i + 1, ":7800");
  return command;
}

inline AddNode Add(int i) { return {Register(i, 0).info}; }

inline SetNormal NormalOf(const View& view, std::uint16_t g, std::uint16_t i) {
  SetNormal command{GroupId(g), ShardId(i), view.groups[g].epoch, {}};
  for (const protocol::MemgestDescriptor& memgest : view.memgests) {
    if (memgest.state == protocol::MemgestState::kDeleted) continue;
    MemgestNormal one;
    one.id = memgest.id;
    one.active = 1u << i;
    for (const Role role : memgest.MemberRoles(ShardId(i), view.s, view.d)) {
      if (view.groups[g].roles[role.value()] != kNoNode) one.active |= 1u << role.value();
    }
    one.complete = one.active;
    command.memgests.push_back(one);
  }
  return command;
}

}  // namespace ring::cluster

#endif  // RING_TESTS_CLUSTER_CLUSTER_STATE_BUILDERS_H_
