#include "ec_offload/verbs_exp/calc.h"

#include <array>
#include <cerrno>
#include <new>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "ec_offload/block_calculator.h"
#include "ec_offload/verbs_exp/region_book.h"

namespace ring::ec_verbs {

struct Waiter {
  bool done = false;
  ibv_exp_ec_status status = IBV_EXP_EC_CALC_FAIL;
};

namespace {

thread_local int done_depth = 0;  // how many done() this thread is in

// The contexts of this process by handle: a released one is found out, not followed.
struct Directory {
  static Directory& Get() {
    static Directory& directory = *new Directory;
    return directory;
  }
  Mutex mutex;
  // Not absl's map: an insertion for which there is no memory must leave it as it was.
  std::unordered_map<const ibv_exp_ec_calc*, std::shared_ptr<Calc>> calcs ABSL_GUARDED_BY(mutex);
};

}  // namespace

std::shared_ptr<const rdma::Calculator> CalculatorCache::Get(const Job& job) {
  MutexLock lock(mutex_);
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if (it->output_count == job.outputs.size() && it->matrix == job.matrix) {
      entries_.splice(entries_.begin(), entries_, it);
      return it->calculator;
    }
  }
  auto made = ec_offload::MakeBlockCalculator(w_, job.ToMatrix());
  if (!made.ok()) return nullptr;
  if (entries_.size() == kCalculatorsKept) entries_.pop_back();
  entries_.push_front({job.outputs.size(), job.matrix, *std::move(made)});
  return entries_.front().calculator;
}

Calc::Calc(ibv_pd* pd, Code code, const ibv_exp_ec_calc_init_attr& attr)
    : handle_{pd},
      code_(std::move(code)),
      polling_(attr.polling != 0),
      inflight_max_(std::size_t{attr.max_inflight_calcs} + kInflightSpare),
      calculators_(code_.w),
      completed_(inflight_max_) {}

ibv_exp_ec_calc* Calc::Open(ibv_pd* pd, const ibv_exp_ec_calc_init_attr& attr) {
  Code code;
  if (const int error = ReadCode(attr, &code); error != 0) {
    errno = error;
    return nullptr;
  }
  const auto calc = std::make_shared<Calc>(pd, std::move(code), attr);
  Directory& directory = Directory::Get();
  MutexLock lock(directory.mutex);
  directory.calcs.emplace(&calc->handle_, calc);
  int error = 0;
  try {
    // The thread's own share: done() may release the context that it runs in.
    if (!calc->polling_) calc->thread_ = std::thread([calc] { calc->ThreadMain(); });
  } catch (const std::system_error&) {
    error = EAGAIN;
  } catch (const std::bad_alloc&) {
    error = ENOMEM;
  }
  if (error == 0) return &calc->handle_;
  directory.calcs.erase(&calc->handle_);
  errno = error;
  return nullptr;
}

std::shared_ptr<Calc> Calc::Find(const ibv_exp_ec_calc* handle) {
  Directory& directory = Directory::Get();
  MutexLock lock(directory.mutex);
  const auto found = directory.calcs.find(handle);
  return found == directory.calcs.end() ? nullptr : found->second;
}

bool Calc::AnyOf(const ibv_pd* pd) {
  Directory& directory = Directory::Get();
  MutexLock lock(directory.mutex);
  for (const auto& [handle, calc] : directory.calcs) {
    if (calc->handle_.pd == pd) return true;
  }
  return false;
}

bool Calc::Close(const ibv_exp_ec_calc* handle) {
  std::shared_ptr<Calc> calc;
  {
    Directory& directory = Directory::Get();
    MutexLock lock(directory.mutex);
    const auto found = directory.calcs.find(handle);
    if (found == directory.calcs.end()) return false;
    calc = std::move(found->second);
    directory.calcs.erase(found);
  }
  calc->Shut();
  return true;
}

void Calc::Shut() {
  bool own_thread = false;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    // From done() on the own thread, too, nobody else would tell the rest.
    own_thread = completer_ == std::this_thread::get_id();
    if (polling_ || own_thread) {
      while (calculating_ || !pending_.empty() || !completed_.empty()) {
        if (TellFirst()) continue;
        if (calculating_) {
          changed_.Wait(mutex_);
        } else {
          CalculateFirst();
        }
      }
    }
  }
  work_.NotifyAll();
  if (!thread_.joinable()) return;
  if (own_thread) {
    thread_.detach();  // it ends when this done() has returned
  } else {
    thread_.join();
  }
}

std::unique_ptr<Calc::Operation> Calc::Prepare(Job job) {
  auto operation = std::make_unique<Operation>();
  operation->job = std::move(job);
  if (operation->job.outputs.empty()) return operation;
  operation->calculator = calculators_.Get(operation->job);
  if (operation->calculator == nullptr) return nullptr;
  return operation;
}

int Calc::Enqueue(std::unique_ptr<Operation> operation) {
  if (closed_) return -EINVAL;
  if (inflight_ >= inflight_max_) {
    errno = -EOVERFLOW;  // the sign is the driver's
    return -EOVERFLOW;
  }
  ++inflight_;
  pending_.push_back(std::move(operation));
  return 0;
}

int Calc::Submit(Job job, ibv_exp_ec_comp* comp) {
  std::unique_ptr<Operation> operation = Prepare(std::move(job));
  if (operation == nullptr) return -EINVAL;
  operation->comp = comp;
  bool wake = false;
  {
    MutexLock lock(mutex_);
    if (const int error = Enqueue(std::move(operation)); error != 0) return error;
    ++submitted_;
    wake = ThreadHasWork();
  }
  if (wake) work_.NotifyAll();
  return 0;
}

int Calc::Run(Job job) {
  Waiter waiter;
  std::unique_ptr<Operation> operation = Prepare(std::move(job));
  if (operation == nullptr) return -EINVAL;
  operation->waiter = &waiter;
  MutexLock lock(mutex_);
  const std::uint64_t earlier = submitted_;  // asynchronous ones
  if (const int error = Enqueue(std::move(operation)); error != 0) return error;
  // The caller calculates what is before it, and its own: no switch of threads, and no waiting for
  // a thread that may be this one (in done()) or not be there (polling).
  while (!waiter.done) {
    if (calculating_) {
      changed_.Wait(mutex_);
    } else {
      CalculateFirst();
    }
  }
  // Where the caller itself would have to poll nobody would tell them; nor inside done(), which
  // those of this context may wait for in turn.
  while (!polling_ && done_depth == 0 && told_ < earlier) changed_.Wait(mutex_);
  return waiter.status;
}

// REQUIRES: nobody calculates, and something is pending.
void Calc::CalculateFirst() {
  const std::unique_ptr<Operation> operation = std::move(pending_.front());
  pending_.pop_front();
  calculating_ = true;
  const bool closed = closed_;
  mutex_.Unlock();
  const bool calculated = !closed && Calculate(*operation);
  mutex_.Lock();
  calculating_ = false;
  const ibv_exp_ec_status status = calculated ? IBV_EXP_EC_CALC_SUCCESS : IBV_EXP_EC_CALC_FAIL;
  if (operation->waiter != nullptr) {
    operation->waiter->status = status;
    operation->waiter->done = true;
    --inflight_;
  } else {
    completed_.push_back({operation->comp, status});
  }
  changed_.NotifyAll();
  if (ThreadHasWork()) work_.NotifyAll();
}

bool Calc::Calculate(const Operation& operation) const {
  const Job& job = operation.job;
  if (job.outputs.empty()) return true;
  RegionBook& book = RegionBook::Get();
  if (!book.Allows(handle_.pd, job.inputs, 0) ||
      !book.Allows(handle_.pd, job.outputs, IBV_ACCESS_LOCAL_WRITE)) {
    return false;
  }
  std::array<const std::byte*, kBlocksMax> inputs;
  std::array<std::byte*, kBlocksMax> outputs;
  for (std::size_t i = 0; i < job.inputs.size(); ++i) {
    inputs[i] = reinterpret_cast<const std::byte*>(job.inputs[i].addr);
  }
  for (std::size_t i = 0; i < job.outputs.size(); ++i) {
    outputs[i] = reinterpret_cast<std::byte*>(job.outputs[i].addr);
  }
  return operation.calculator->Run(inputs.data(), outputs.data(), job.outputs[0].length, nullptr);
}

// Tells the first completion that waits; false when there is none. Its place is free before done()
// runs, so done() may submit.
bool Calc::TellFirst() {
  if (completed_.empty()) return false;
  const Completion completion = completed_.front();
  completed_.pop_front();
  --inflight_;
  mutex_.Unlock();
  completion.comp->status = completion.status;
  ++done_depth;
  completion.comp->done(completion.comp);
  --done_depth;
  mutex_.Lock();
  ++told_;
  changed_.NotifyAll();
  return true;
}

// What is at the front for somebody who waits, that one calculates.
bool Calc::IsThreadsTurn() const {
  return !calculating_ && !pending_.empty() && pending_.front()->waiter == nullptr;
}

bool Calc::IsOver() const {
  return closed_ && !calculating_ && pending_.empty() && completed_.empty();
}

bool Calc::ThreadHasWork() const { return !completed_.empty() || IsThreadsTurn() || IsOver(); }

void Calc::ThreadMain() {
  MutexLock lock(mutex_);
  completer_ = std::this_thread::get_id();
  while (!IsOver()) {
    if (TellFirst()) continue;
    if (IsThreadsTurn()) {
      CalculateFirst();
    } else {
      work_.Wait(mutex_);
    }
  }
}

int Calc::Poll(int count_max) {
  if (!polling_) return 0;
  MutexLock lock(mutex_);
  int count = 0;
  while (count < count_max) {
    if (TellFirst()) {
      ++count;
    } else if (!pending_.empty() && !calculating_) {
      CalculateFirst();
    } else {
      break;
    }
  }
  return count;
}

}  // namespace ring::ec_verbs
