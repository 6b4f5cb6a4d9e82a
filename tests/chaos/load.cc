#include "tests/chaos/load.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/common/ticks.h"

namespace ring::chaos {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(8);
constexpr absl::Duration kPatience = absl::Seconds(50);
constexpr absl::Duration kPoll = absl::Milliseconds(5);
constexpr int kOldPercent = 10;  // of operations: a key of an earlier generation is read

sim::OpResult ResultOf(OpOutcome outcome) {
  switch (outcome) {
    case OpOutcome::kOk:
      return sim::OpResult::kOk;
    case OpOutcome::kNotFound:
      return sim::OpResult::kNotFound;
    case OpOutcome::kUnknown:
      return sim::OpResult::kUnknown;
    default:
      return sim::OpResult::kFailed;
  }
}

Transport TransportOf(const ChaosOptions& options) {
  if (options.transport == "rdma") return Transport::kRdma;
  return options.transport == "tcp" ? Transport::kTcp : Transport::kShm;
}

// Refusals that nothing which is injected explains.
bool IsWrong(OpOutcome outcome) {
  return outcome == OpOutcome::kDataLost || outcome == OpOutcome::kBadRequest ||
         outcome == OpOutcome::kRequestReused || outcome == OpOutcome::kStaleRequest;
}

}  // namespace

// One client: its thread, its operations.
class Load::Process {
 public:
  Process(Load* load, int number)
      : load_(load), number_(number), random_(load->options_.seed * 1000 + 17 * number + 1) {}

  void Start() {
    thread_ = std::thread([this] {
      Run();
      client_.reset();  // by the thread that opened it
    });
  }
  void Join() { thread_.join(); }
  std::vector<sim::Operation> TakeHistory() { return std::move(operations_); }

  // Reads these keys, each until it is answered.
  void StartReading(std::vector<int> keys) {
    thread_ = std::thread([this, keys = std::move(keys)] {
      if (!Connect()) return;
      for (const int key : keys) {
        sim::Operation get;
        get.key = key;
        while (!Submit(get, kPatience * load_->options_.time_factor)) Poll();
        while (!under_way_.empty()) Poll();
        if (operations_.back().result == sim::OpResult::kFailed)
          load_->Complain(
              {"liveness", absl::StrCat("when all is well: ", Describe(operations_.back()))});
      }
      client_.reset();
    });
  }

 private:
  absl::Duration Deadline() const { return kDeadline * load_->options_.time_factor; }

  bool Connect() {
    ClientOptions options;
    options.seeds = load_->seeds_;
    options.transport = TransportOf(load_->options_);
    options.window = static_cast<std::size_t>(load_->options_.window);
    options.deadline = Deadline();
    while (client_ == nullptr) {
      absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(options);
      if (client.ok()) {
        client_ = *std::move(client);
      } else if (load_->stop_) {
        load_->Complain({"liveness", std::string(client.status().message())});
        return false;
      }
    }
    return true;
  }

  void Run() {
    if (!Connect()) return;
    const double share = load_->options_.rate / load_->options_.processes;
    const auto think_max_ns = static_cast<std::uint64_t>(2e9 / std::max(share, 0.1));
    std::uint64_t next_ns = 0;
    while (!load_->stop_ || !under_way_.empty()) {
      const bool room = under_way_.size() < static_cast<std::size_t>(load_->options_.window);
      if (room && !load_->stop_ && tools::MonotonicNs() >= next_ns) {
        next_ns = tools::MonotonicNs() + random_.Below(think_max_ns);
        Submit(load_->Next(random_), Deadline());
      }
      Poll();
    }
  }

  bool Submit(sim::Operation op, absl::Duration deadline) {
    op.process = number_;
    op.invoke_ns = tools::MonotonicNs();
    const std::string key = sim::KeyName(op.key);
    const std::uint64_t token = operations_.size();
    absl::Status status;
    switch (op.kind) {
      case sim::OpKind::kGet:
        status = client_->SubmitGet(token, key, {.deadline = deadline});
        break;
      case sim::OpKind::kPut:
        status = client_->SubmitPut(
            token, key, sim::ValueBytes(op.value, op.size),
            {.memgest_id = op.memgest, .if_version = op.if_version, .deadline = deadline});
        break;
      case sim::OpKind::kDelete:
        status =
            client_->SubmitDelete(token, key, {.if_version = op.if_version, .deadline = deadline});
        break;
      case sim::OpKind::kMove:
        status = client_->SubmitMove(token, key, op.memgest);
        break;
    }
    client_->Flush();
    if (!status.ok()) return false;
    operations_.push_back(std::move(op));
    under_way_.push_back(token);
    return true;
  }

  void Poll() {
    std::array<Completion, 16> completions;
    const std::size_t count = client_->PollCompletions(absl::MakeSpan(completions));
    if (count == 0) return client_->WaitForProgress(kPoll);
    for (std::size_t i = 0; i < count; ++i) Finish(completions[i]);
  }

  void Finish(const Completion& answer) {
    std::erase(under_way_, answer.token);
    sim::Operation& op = operations_[answer.token];
    op.return_ns = tools::MonotonicNs();
    op.result = ResultOf(answer.outcome);
    op.mismatch = answer.outcome == OpOutcome::kVersionMismatch;
    if (op.result == sim::OpResult::kOk || op.mismatch) op.version = answer.version;
    if (op.result == sim::OpResult::kOk) {
      ++load_->answered_;
      op.memgest = answer.memgest;
    }
    if (op.kind == sim::OpKind::kGet && op.result == sim::OpResult::kOk) {
      op.value = sim::ReadValue(answer.value);
      if (op.value == 0) load_->Complain({"wrong-bytes", absl::StrCat("I4: ", Describe(op))});
    }
    if (IsWrong(answer.outcome)) {
      load_->Complain({"refusal", absl::StrCat("outcome=", static_cast<int>(answer.outcome), " ",
                                               Describe(op))});
    }
    if (op.version.bits() != 0) {
      MutexLock lock(load_->mutex_);
      load_->workload_.Learn(op.key % kGenerationKeys, op.version);
    }
  }

  Load* load_;
  const int number_;
  SeededRandom random_;
  std::unique_ptr<Client> client_;
  std::vector<sim::Operation> operations_;
  std::vector<std::uint64_t> under_way_;
  std::thread thread_;
};

Load::Load(const ChaosOptions& options, std::vector<std::string> seeds, const ViewWatch* watch)
    : options_(options),
      seeds_(std::move(seeds)),
      watch_(watch),
      random_(options.seed),
      workload_(&random_, kGenerationKeys) {}

Load::~Load() = default;

sim::Operation Load::Next(Random& random) {
  const std::uint64_t age_ns = tools::MonotonicNs() - started_ns_;
  const int generation = static_cast<int>(age_ns / kGenerationNs);
  if (generation > 0 && random.Below(100) < kOldPercent) {
    sim::Operation get;
    get.key =
        static_cast<int>(random.Below(static_cast<std::uint64_t>(generation) * kGenerationKeys));
    return get;
  }
  const std::shared_ptr<const cluster::View> view = watch_->view();
  MutexLock lock(mutex_);
  sim::Operation op = workload_.Next(*view);
  op.key += generation * kGenerationKeys;
  // This client's moves name a memgest, and no version.
  if (op.kind == sim::OpKind::kMove) op.if_version.reset();
  if (op.memgest == MemgestId(0)) op.memgest = view->default_memgest;
  return op;
}

void Load::Complain(sim::Violation violation) {
  constexpr std::size_t kEnough = 50;
  MutexLock lock(mutex_);
  if (violations_.size() < kEnough) violations_.push_back(std::move(violation));
}

void Load::Start() {
  started_ns_ = tools::MonotonicNs();
  for (int i = 0; i < options_.processes; ++i) {
    processes_.push_back(std::make_unique<Process>(this, i));
    processes_.back()->Start();
  }
}

void Load::Stop() {
  stop_ = true;
  for (const std::unique_ptr<Process>& process : processes_) process->Join();
  for (const std::unique_ptr<Process>& process : processes_) {
    for (sim::Operation& op : process->TakeHistory()) ended_.push_back(std::move(op));
  }
  processes_.clear();
}

void Load::ReadAll() {
  std::map<int, std::vector<int>> share;
  std::vector<int> keys;
  for (const sim::Operation& op : ended_) keys.push_back(op.key);
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  for (std::size_t i = 0; i < keys.size(); ++i)
    share[static_cast<int>(i) % options_.processes].push_back(keys[i]);
  for (auto& [number, part] : share) {
    processes_.push_back(std::make_unique<Process>(this, options_.processes + number));
    processes_.back()->StartReading(std::move(part));
  }
  Stop();
}

sim::History Load::TakeHistory() {
  std::stable_sort(
      ended_.begin(), ended_.end(),
      [](const sim::Operation& a, const sim::Operation& b) { return a.invoke_ns < b.invoke_ns; });
  const std::shared_ptr<const cluster::View> view = watch_->view();
  sim::History history;
  for (sim::Operation& op : ended_) {
    if (const auto* memgest = view->FindMemgest(op.memgest); memgest != nullptr) {
      op.memgest_name = memgest->name;
      // Where it is, or was to be if nobody was told.
      if (op.result == sim::OpResult::kOk || op.mutates())
        op.tolerates = memgest->FailuresTolerated();
    }
    history.Add(std::move(op));
  }
  ended_.clear();
  return history;
}

std::vector<sim::Violation> Load::TakeViolations() {
  MutexLock lock(mutex_);
  return std::move(violations_);
}

}  // namespace ring::chaos
