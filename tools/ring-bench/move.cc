// ring-bench move: moves by size and memgest, beside puts and get + put.
#include <functional>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ring/base/status.h"
#include "tools/common/format.h"
#include "tools/common/size_option.h"
#include "tools/common/ticks.h"
#include "tools/ring-bench/context.h"
#include "tools/ring-bench/load.h"
#include "tools/ring-bench/target.h"
#include "tools/ring-bench/workload.h"

namespace ring::bench {
namespace {

struct MoveOptions {
  std::string from = "REP3";
  std::vector<std::string> to = {"REP1", "REP2", "SRS32"};
  std::vector<std::size_t> sizes = {64, 1024, 4096, 16384, 65536};
  std::uint64_t key_count = 1000;
  int rounds = 3;
  TargetOptions target;
};

class MoveBench {
 public:
  MoveBench(const MoveOptions& options, Context* context) : options_(options), context_(context) {}
  absl::Status Run();

 private:
  absl::StatusOr<Row> Measure(std::size_t size, const std::string& to);
  // Calls operate(key) for every key, and records what each call took.
  absl::Status Time(const std::function<absl::Status(absl::string_view)>& operate,
                    Histogram* histogram);

  const MoveOptions& options_;
  Context* context_;
  std::unique_ptr<Target> target_;
  std::unique_ptr<Client> client_;
  std::uint16_t space_ = 0;
};

absl::Status MoveBench::Time(const std::function<absl::Status(absl::string_view)>& operate,
                             Histogram* histogram) {
  for (std::uint64_t i = 0; i < options_.key_count; ++i) {
    const KeyName key(space_, i);
    const std::uint64_t start = tools::Ticks();
    const absl::Status status = operate(key.view());
    histogram->Record(tools::TicksToNs(tools::Ticks() - start));
    RING_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

// What a client without move does instead: the value crosses the network twice.
absl::StatusOr<Row> MoveBench::Measure(std::size_t size, const std::string& to) {
  ++space_;
  RING_ASSIGN_OR_RETURN(const MemgestId from_id, client_->ResolveMemgest(options_.from));
  RING_ASSIGN_OR_RETURN(const MemgestId to_id, client_->ResolveMemgest(to));
  RING_RETURN_IF_ERROR(Load(client_.get(), absl::StrCat("loading ", size, " B"),
                            {.memgest = from_id,
                             .key_space = space_,
                             .key_count = options_.key_count,
                             .value_size = size,
                             .progress = context_->progress}));
  Histogram moves, rewrites, puts;
  std::vector<char> buffer(size);
  const PutOptions into{.memgest = {}, .memgest_id = to_id, .if_version = {}, .deadline = {}};
  const PutOptions back{.memgest = {}, .memgest_id = from_id, .if_version = {}, .deadline = {}};
  Histogram ignored;
  const auto rewrite = [&](absl::string_view key) -> absl::Status {
    GetOptions get;
    get.value_size_hint = size;
    RING_RETURN_IF_ERROR(client_->GetInto(key, absl::MakeSpan(buffer), get).status());
    return client_->Put(key, {buffer.data(), buffer.size()}, into).status();
  };
  const auto put_with = [&](const PutOptions& options) {
    return [this, &buffer, &options](absl::string_view key) {
      return client_->Put(key, {buffer.data(), buffer.size()}, options).status();
    };
  };
  for (int round = 0; round <= options_.rounds; ++round) {
    // The first round does not count: its slots are touched for the first time, and which of the
    // operations pays for that is chance.
    if (round == 1) moves = puts = rewrites = Histogram();
    RING_RETURN_IF_ERROR(
        Time([&](absl::string_view key) { return client_->Move(key, to).status(); }, &moves));
    RING_RETURN_IF_ERROR(Time(put_with(into), &puts));
    RING_RETURN_IF_ERROR(Time(put_with(back), &ignored));
    RING_RETURN_IF_ERROR(Time(rewrite, &rewrites));
    RING_RETURN_IF_ERROR(Time(put_with(back), &ignored));
  }
  Row row;
  row["move"] = absl::StrCat(options_.from, " -> ", to);
  row["size_bytes"] = size;
  row["p50_ns"] = moves.Percentile(50);
  row["p99_ns"] = moves.Percentile(99);
  row["put p50_ns"] = puts.Percentile(50);
  row["get+put p50_ns"] = rewrites.Percentile(50);
  row["get+put p99_ns"] = rewrites.Percentile(99);
  row["get+put/move_ratio"] =
      static_cast<double>(rewrites.Percentile(50)) / static_cast<double>(moves.Percentile(50));
  return row;
}

absl::Status MoveBench::Run() {
  RING_ASSIGN_OR_RETURN(target_, Target::Start(options_.target));
  RING_ASSIGN_OR_RETURN(client_, target_->NewClient(64));
  std::vector<Row> rows;
  for (const std::string& to : options_.to) {
    for (const std::size_t size : options_.sizes) {
      RING_ASSIGN_OR_RETURN(const Row row, Measure(size, to));
      rows.push_back(row);
    }
  }
  context_->report.AddSection(absl::StrFormat("move, one client, one at a time, transport %s",
                                              Target::TransportInUse(*client_)),
                              rows);
  return absl::OkStatus();
}

}  // namespace

void AddMoveCommand(CLI::App& app, Context* context) {
  auto options = std::make_shared<MoveOptions>();
  CLI::App* command = app.add_subcommand(
      "move", "Moves between memgests by value size, against a get and a put of the client");
  command->add_option("--from", options->from, "Memgest of the keys at first")
      ->capture_default_str();
  command->add_option("--to", options->to, "Memgests to move into")
      ->delimiter(',')
      ->capture_default_str();
  tools::AddSizeOption(command, "--value-size", options->sizes, "Bytes")
      ->delimiter(',')
      ->check(CLI::Range(0, 16 << 20))
      ->capture_default_str();
  command->add_option("--key-count", options->key_count, "Keys of each size")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--rounds", options->rounds, "Measurements of each")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  AddTargetOptions(command, &options->target);
  command->callback([options, context] { context->status = MoveBench(*options, context).Run(); });
}

}  // namespace ring::bench
