// tests/memgest/log_bench.cc — what one entry costs its writer and its reader, in one thread.
//
// What:      The queue pair is the test's twin, which copies to local memory: its share is measured
//            apart (BM_TwinWrite). Run: build/release/tests/memgest/memgest_log_bench
#include <benchmark/benchmark.h>

#include <string>

#include "tests/memgest/log_link.h"

namespace ring::memgest {
namespace {

EntryFields Put() {
  EntryFields fields;
  fields.index = 1;
  fields.key = "sixteen bytes ok";
  fields.payload_length = 1024;
  return fields;
}

// What every flush is followed by: ack, commit, fold, credit.
void Settle(LogLink& link) {
  link.Poll();
  link.writer->AdvanceCommit(link.order + 1);
  link.writer->ShareCommit();
  link.Poll();
}
void Drain(LogLink& link) {
  EntryView entry;
  while (link.reader->Next(&entry).value()) link.reader->Consume(entry);
  RING_CHECK(link.reader->ShareCredit(true).ok());
  link.to_coordinator.completions.clear();
}

void BM_AppendFlush(benchmark::State& state) {
  LogLink link;
  const std::string value(1024, 'v');
  EntryFields fields = Put();
  const std::size_t head_size = BuildEntryHead(fields, Epoch(5), link.head);
  const std::size_t size = EntrySize(fields);
  const rdma::Sge sge = LogLink::SgeOf(value.data(), value.size());
  const EntryPayload payload{.sges = absl::MakeConstSpan(&sge, 1),
                             .crc = Crc32c(value.data(), value.size())};
  const auto batch = static_cast<int>(state.range(0));
  const bool fold = state.range(1) != 0;
  for (auto _ : state) {
    for (int i = 0; i < batch; ++i) {
      RING_CHECK(link.writer->HasRoom(size, false));
      link.writer->Append(++link.order, link.head, head_size, 1024, payload);
    }
    RING_CHECK(link.writer->Flush().ok());
    Settle(link);
    if (fold) {
      Drain(link);
    } else {
      link.credit = link.ControlWord();
    }
  }
  state.SetItemsProcessed(state.iterations() * batch);
}
BENCHMARK(BM_AppendFlush)->ArgsProduct({{1, 16}, {0, 1}})->ArgNames({"batch", "fold"});

// The twin alone: the same WRITE, made by hand.
void BM_TwinWrite(benchmark::State& state) {
  LogLink link;
  const std::string value(1024, 'v');
  const rdma::Sge sges[] = {LogLink::SgeOf(link.staging.get(), 128),
                            LogLink::SgeOf(value.data(), 1024),
                            LogLink::SgeOf(link.staging.get(), 64)};
  rdma::WorkRequest request;
  request.opcode = rdma::Opcode::kWrite;
  request.signaled = true;
  request.sges = sges;
  request.rkey = link.to_member.target.rkey;
  std::uint64_t offset = 0;
  for (auto _ : state) {
    request.remote_address = reinterpret_cast<std::uint64_t>(link.ring()) + offset;
    offset = offset + 2 * 1216 > link.ring_size() ? 0 : offset + 1216;
    RING_CHECK(link.to_member.PostSend(request).ok());
    link.to_member.completions.clear();
  }
}
BENCHMARK(BM_TwinWrite);

void BM_BuildAndSealHead(benchmark::State& state) {
  alignas(64) std::byte head[kEntryHeadSizeMax];
  const EntryFields fields = Put();
  std::uint32_t crc = 0;
  for (auto _ : state) {
    const std::size_t size = BuildEntryHead(fields, Epoch(5), head);
    crc = SealEntryHead(head, size, 64, crc, 0, head);
    benchmark::DoNotOptimize(crc);
  }
}
BENCHMARK(BM_BuildAndSealHead);

void BM_Decode(benchmark::State& state) {
  LogLink link;
  const std::string value(1024, 'v');
  EntryFields fields = Put();
  link.Append(fields, value);
  RING_CHECK(link.writer->Flush().ok());
  const bool check = state.range(0) != 0;
  for (auto _ : state) {
    auto view = DecodeEntry(absl::MakeConstSpan(link.ring(), 2048), 0, Epoch(5), 0, check);
    benchmark::DoNotOptimize(view);
  }
}
BENCHMARK(BM_Decode)->Arg(0)->Arg(1)->ArgName("payload_crc");

}  // namespace
}  // namespace ring::memgest

BENCHMARK_MAIN();
