// rdma/sim/event_queue.h — virtual time: what happens when.
//
// What:      EventQueue holds events by time and, at one time, in the order in which they were
//            made; SimClock is its present; DriftingClock is the same as one machine sees it (F9).
// Units:     nanoseconds.
// Ownership: shares its targets until their events ran or the queue goes.
// Threads:   one.
// Errors:    none: what is scheduled for the past happens now, and passing over an event aborts.
// Cost:      a heap operation an event.
#ifndef RING_RDMA_SIM_EVENT_QUEUE_H_
#define RING_RDMA_SIM_EVENT_QUEUE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ring/base/check.h"
#include "ring/base/clock.h"

namespace ring::rdma::sim {

class EventTarget {
 public:
  virtual ~EventTarget() = default;
  // tag: as it was given to Schedule.
  virtual void OnEvent(std::uint64_t tag) = 0;
};

class SimClock final : public Clock {
 public:
  std::uint64_t NowNs() const override { return now_ns_; }

 private:
  friend class EventQueue;
  std::uint64_t now_ns_ = 1'000'000'000;  // not 0: many a field takes 0 for «never»
};

class DriftingClock final : public Clock {
 public:
  explicit DriftingClock(const Clock* base) : base_(base), since_ns_(base->NowNs()) {
    at_ns_ = since_ns_;
  }
  std::uint64_t NowNs() const override {
    const std::uint64_t passed = base_->NowNs() - since_ns_;
    return at_ns_ + passed +
           static_cast<std::uint64_t>(static_cast<std::int64_t>(passed) * drift_ppm_ / 1'000'000);
  }
  void set_drift_ppm(std::int64_t ppm) {
    Rebase();
    drift_ppm_ = ppm;
  }
  // Forward only: the clock is monotonic, and includes suspend.
  void Jump(std::uint64_t ns) {
    Rebase();
    at_ns_ += ns;
  }

 private:
  void Rebase() {
    at_ns_ = NowNs();
    since_ns_ = base_->NowNs();
  }
  const Clock* base_;
  std::uint64_t since_ns_;
  std::uint64_t at_ns_ = 0;
  std::int64_t drift_ppm_ = 0;
};

class EventQueue {
 public:
  void Schedule(std::uint64_t at_ns, std::shared_ptr<EventTarget> target, std::uint64_t tag) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(calls_.size()));
      calls_.emplace_back();
    }
    const std::uint32_t call = free_.back();
    free_.pop_back();
    calls_[call] = {std::move(target), tag};
    heap_.push_back({std::max(at_ns, clock_.now_ns_), order_++, call});
    std::push_heap(heap_.begin(), heap_.end(), Later());
  }
  bool empty() const { return heap_.empty(); }
  // REQUIRES: !empty().
  std::uint64_t next_ns() const { return heap_.front().at_ns; }
  // Runs the next event; time moves to it. REQUIRES: !empty().
  void RunNext() {
    std::pop_heap(heap_.begin(), heap_.end(), Later());
    const Event event = heap_.back();
    heap_.pop_back();
    const Call call = std::move(calls_[event.call]);
    free_.push_back(event.call);
    clock_.now_ns_ = event.at_ns;
    ++count_;
    call.target->OnEvent(call.tag);
  }
  // Lets time pass to a moment before which nothing happens.
  void PassTo(std::uint64_t at_ns) {
    RING_CHECK(empty() || next_ns() >= at_ns) << "an event was jumped over";
    clock_.now_ns_ = std::max(clock_.now_ns_, at_ns);
  }
  const SimClock& clock() const { return clock_; }
  std::uint64_t now_ns() const { return clock_.now_ns_; }
  std::uint64_t count() const { return count_; }

 private:
  struct Call {
    std::shared_ptr<EventTarget> target;
    std::uint64_t tag = 0;
  };
  // Of what the heap moves about: few bytes, and nothing that is owned.
  struct Event {
    std::uint64_t at_ns;
    std::uint64_t order;
    std::uint32_t call;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.at_ns != b.at_ns ? a.at_ns > b.at_ns : a.order > b.order;
    }
  };

  SimClock clock_;
  std::vector<Event> heap_;
  std::vector<Call> calls_;          // by Event::call
  std::vector<std::uint32_t> free_;  // places of calls_
  std::uint64_t order_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace ring::rdma::sim

#endif  // RING_RDMA_SIM_EVENT_QUEUE_H_
