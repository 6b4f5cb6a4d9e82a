// tests/node/run_on_reactor.h — a call on the thread that runs a reactor.
//
// What:      RunOn posts it there, and waits for it.
// Threads:   any but the reactor's.
// Errors:    none.
#ifndef RING_TESTS_NODE_RUN_ON_REACTOR_H_
#define RING_TESTS_NODE_RUN_ON_REACTOR_H_

#include <functional>
#include <future>
#include <memory>

#include "ring/node/reactor.h"

namespace ring::node::testing {

inline void RunOn(Reactor& reactor, const std::function<void()>& call) {
  // Shared: who is woken may be gone before set_value returns.
  auto done = std::make_shared<std::promise<void>>();
  reactor.Post([&call, done] {
    call();
    done->set_value();
  });
  done->get_future().wait();
}

}  // namespace ring::node::testing

#endif  // RING_TESTS_NODE_RUN_ON_REACTOR_H_
