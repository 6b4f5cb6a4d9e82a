// The ibv_exp_ec_* calls with any attributes, scatter lists, erasures and update maps, synchronous,
// asynchronous and with sending: what is refused or fails writes nothing, what succeeds writes what
// a slow model writes, and nothing else; completions come in order; peers get the blocks.
#include <infiniband/verbs_exp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "ring/base/check.h"
#include "tests/ec_offload/verbs_exp/connected_pair.h"
#include "tests/ec_offload/verbs_exp/verbs_fixture.h"
#include "tests/fuzz/fuzz_input.h"

using ring::ec_verbs::Bytes;
using ring::ec_verbs::Combine;
using ring::ec_verbs::Connect;
using ring::ec_verbs::Domain;
using ring::ec_verbs::Endpoint;
using ring::ec_verbs::Memory;
using ring::ec_verbs::SendOf;
using ring::ec_verbs::SlowField;
using ring::testing::FuzzInput;

namespace {

constexpr std::size_t kArenaSize = 8192;
constexpr std::size_t kBlocksMax = 40;
constexpr std::size_t kBlockSizeMax = 128;

struct Target {
  Target() { Connect(near, far); }
  // As new, whatever was sent.
  void Reconnect() {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_RESET;
    RING_CHECK(ibv_modify_qp(near.qp(), &attr, IBV_QP_STATE) == 0);
    RING_CHECK(ibv_modify_qp(far.qp(), &attr, IBV_QP_STATE) == 0);
    Connect(near, far);
  }

  Domain domain;
  Memory arena{domain.pd(), kArenaSize};
  Memory sent{domain.pd(), kBlocksMax* kBlockSizeMax,
              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE};
  Endpoint near{domain.pd()};
  Endpoint far{domain.pd()};
};

// Entries at the blocks of the arena, one after the other, some of them spoiled.
std::vector<ibv_sge> Entries(FuzzInput& input, const Memory& arena, std::size_t count,
                             std::size_t* block, std::uint32_t size) {
  std::vector<ibv_sge> sges;
  for (std::size_t i = 0; i < count; ++i) {
    ibv_sge sge = arena.Sge(0, size);
    sge.addr += (*block)++ * size;
    switch (input.Byte()) {
      case 1:
        sge.addr = 0;
        break;
      case 2:
        sge.addr -= input.Short();
        break;
      case 3:
        sge.addr += input.Short();
        break;
      case 4:
        sge.addr = ~std::uint64_t{0} - input.Byte();
        break;
      case 5:
        sge.length = input.Short();
        break;
      case 6:
        sge.lkey = input.Short();
        break;
      default:
        break;
    }
    sges.push_back(sge);
  }
  return sges;
}

struct Call {
  std::vector<ibv_sge> data;
  std::vector<ibv_sge> code;
  ibv_exp_ec_mem mem;
};

Call MakeCall(FuzzInput& input, const Memory& arena, std::size_t data, std::size_t code) {
  static constexpr std::array<int, 8> kSizes = {64, 64, 64, 128, 0, -64, 100, 1 << 30};
  Call call;
  const int size = kSizes[input.Byte() % kSizes.size()];
  const auto length = static_cast<std::uint32_t>(std::clamp(size, 0, 128));
  std::size_t block = 0;
  call.data = Entries(input, arena, data, &block, length);
  call.code = Entries(input, arena, code, &block, length);
  call.mem = {call.data.data(), static_cast<int>(data), call.code.data(), static_cast<int>(code),
              size};
  const std::uint8_t spoil = input.Byte();
  if (spoil == 1) call.mem.num_data_sge = static_cast<std::int8_t>(input.Byte());
  if (spoil == 2) call.mem.num_code_sge = static_cast<std::int8_t>(input.Byte());
  if (spoil == 3) call.mem.data_blocks = nullptr;
  if (spoil == 4) call.mem.code_blocks = nullptr;
  return call;
}

Bytes Map(FuzzInput& input, std::size_t size) {
  Bytes map(size, 0);
  for (std::uint8_t& byte : map) byte = input.Byte() < 64 ? 1 : 0;
  return map;
}

enum class Kind : std::uint8_t { kEncode, kDecode, kUpdate };

struct Completion {
  ibv_exp_ec_comp comp;  // first: done() gets its address
  int told_as = -1;      // which of the completions it was
  std::atomic<int>* told = nullptr;
};

void Tell(ibv_exp_ec_comp* comp) {
  auto* const self = reinterpret_cast<Completion*>(comp);
  // Who waits for the count reads the place: that is written first. One thread tells at a time.
  // Once it is counted the completion may be gone.
  std::atomic<int>* const told = self->told;
  self->told_as = told->load();
  told->fetch_add(1);
  told->notify_one();
}

struct Operation {
  Kind kind;
  Call call;
  Bytes first = {};   // erasures, or data_updates
  Bytes second = {};  // code_updates
  Bytes decode = {};  // matrix
  Completion completion = {};
};

// The calls of one context, and what the arena must be after them.
class Session {
 public:
  Session(FuzzInput& input, Target& target, ibv_exp_ec_calc* calc,
          const ibv_exp_ec_calc_init_attr& attr, const Bytes& matrix)
      : input_(input),
        target_(target),
        calc_(calc),
        attr_(attr),
        k_(static_cast<std::size_t>(attr.k)),
        m_(static_cast<std::size_t>(attr.m)),
        matrix_(matrix),
        expected_(target.arena.bytes()) {}
  void Run();

 private:
  void Choose(std::uint8_t kind, Operation* operation);
  // With a completion, submits; without, runs.
  int Do(Operation& operation, bool async);
  void RunOne(std::uint8_t kind);
  void RunMany();
  void EncodeAndSend();
  void Await(int count);
  void Apply(const Operation& operation);
  void Check() { RING_CHECK(target_.arena.bytes() == expected_); }
  Bytes BytesOf(const ibv_sge& sge) const;

  FuzzInput& input_;
  Target& target_;
  ibv_exp_ec_calc* const calc_;
  std::atomic<int> told_ = 0;  // outlives what is told: the thread may be in notify_one still
  const ibv_exp_ec_calc_init_attr& attr_;
  const std::size_t k_;
  const std::size_t m_;
  const Bytes& matrix_;
  Bytes expected_;
};

void Session::Choose(std::uint8_t kind, Operation* operation) {
  operation->kind = static_cast<Kind>(kind % 3);
  const bool update = operation->kind == Kind::kUpdate;
  operation->first = Map(input_, operation->kind == Kind::kDecode ? k_ + m_ : k_);
  operation->second = Map(input_, m_);
  const auto set = [](const Bytes& map) {
    return static_cast<std::size_t>(std::count(map.begin(), map.end(), 1));
  };
  const std::size_t changed = set(operation->second);
  operation->call =
      MakeCall(input_, target_.arena, update ? changed + 2 * set(operation->first) : k_,
               update ? changed : m_);
  if (operation->kind != Kind::kDecode) return;
  operation->decode.resize(k_ * (k_ + m_));
  input_.Copy(operation->decode.data(), k_ * set(operation->first));
}

int Session::Do(Operation& operation, bool async) {
  ibv_exp_ec_mem* const mem = &operation.call.mem;
  ibv_exp_ec_comp* const comp = &operation.completion.comp;
  std::uint8_t* const first = operation.first.data();
  std::uint8_t* const second = operation.second.data();
  std::uint8_t* const decode = operation.decode.data();
  switch (operation.kind) {
    case Kind::kEncode:
      return async ? ibv_exp_ec_encode_async(calc_, mem, comp) : ibv_exp_ec_encode_sync(calc_, mem);
    case Kind::kDecode:
      return async ? ibv_exp_ec_decode_async(calc_, mem, first, decode, comp)
                   : ibv_exp_ec_decode_sync(calc_, mem, first, decode);
    case Kind::kUpdate:
      return async ? ibv_exp_ec_update_async(calc_, mem, first, second, comp)
                   : ibv_exp_ec_update_sync(calc_, mem, first, second);
  }
  return 0;
}

bool Refusal(int result) { return result == EINVAL || result == -EINVAL; }

Bytes Session::BytesOf(const ibv_sge& sge) const {
  const std::uint64_t base = target_.arena.Sge(0, 0).addr;
  RING_CHECK(sge.addr >= base && sge.length <= kArenaSize &&
             sge.addr - base <= kArenaSize - sge.length);
  const auto from = expected_.begin() + static_cast<std::ptrdiff_t>(sge.addr - base);
  return {from, from + static_cast<std::ptrdiff_t>(sge.length)};
}

// What an operation that succeeded does to the arena.
void Session::Apply(const Operation& operation) {
  std::vector<ibv_sge> inputs = operation.call.data;
  std::vector<ibv_sge> outputs = operation.call.code;
  Bytes matrix = matrix_;
  if (operation.kind == Kind::kDecode) {
    std::vector<ibv_sge> blocks = inputs;
    blocks.insert(blocks.end(), outputs.begin(), outputs.end());
    inputs.clear();
    outputs.clear();
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (operation.first[i] != 0) {
        outputs.push_back(blocks[i]);
      } else if (inputs.size() < k_) {
        inputs.push_back(blocks[i]);
      }
    }
    matrix = operation.decode;
  } else if (operation.kind == Kind::kUpdate) {
    matrix.clear();
    const auto row = [&](const auto& factor) {
      for (std::size_t j = 0; j < m_; ++j) {
        if (operation.second[j] != 0) matrix.push_back(factor(j));
      }
    };
    for (std::size_t old = 0; old < m_; ++old) {
      if (operation.second[old] == 0) continue;
      row([old](std::size_t j) -> std::uint8_t { return j == old ? 1 : 0; });
    }
    for (std::size_t i = 0; i < k_; ++i) {
      if (operation.first[i] == 0) continue;
      for (int old_and_new = 0; old_and_new < 2; ++old_and_new) {
        row([&](std::size_t j) { return matrix_[i * m_ + j]; });
      }
    }
  }
  if (outputs.empty()) return;  // nothing is read then, so blocks may be anywhere
  std::vector<Bytes> read;
  for (const ibv_sge& sge : inputs) read.push_back(BytesOf(sge));
  for (std::size_t j = 0; j < outputs.size(); ++j) {
    BytesOf(outputs[j]);  // lies within the arena
    const Bytes made = Combine(SlowField(attr_.w), read, matrix, outputs.size(), j);
    const std::uint64_t base = target_.arena.Sge(0, 0).addr;
    std::copy(made.begin(), made.end(),
              expected_.begin() + static_cast<std::ptrdiff_t>(outputs[j].addr - base));
  }
}

void Session::RunOne(std::uint8_t kind) {
  Operation operation;
  Choose(kind, &operation);
  const int result = Do(operation, false);
  RING_CHECK(result == 0 || result == IBV_EXP_EC_CALC_FAIL || Refusal(result))
      << "result=" << result;
  if (result == 0) Apply(operation);
  Check();
}

// Waits for `count` more completions.
void Session::Await(int count) {
  if (attr_.polling == 0) return;  // by the counter
  while (count > 0) {
    const int asked = 1 + input_.Byte() % 4;
    const int polled = ibv_exp_ec_poll(calc_, asked);
    RING_CHECK(polled > 0 && polled <= asked && polled <= count);
    count -= polled;
  }
  RING_CHECK(ibv_exp_ec_poll(calc_, 1) == 0);
}

void Session::RunMany() {
  const auto room = static_cast<int>(attr_.max_inflight_calcs) + 4;
  const int wanted = 1 + input_.Byte() % 8;
  told_ = 0;
  std::deque<Operation> operations;  // those that were taken; their addresses stay
  for (int i = 0; i < wanted; ++i) {
    Operation& operation = operations.emplace_back();
    Choose(input_.Byte(), &operation);
    operation.completion.comp = {Tell, IBV_EXP_EC_CALC_FAIL};
    operation.completion.told = &told_;
    const int result = Do(operation, true);
    const bool full = static_cast<int>(operations.size()) > room;
    RING_CHECK(result == 0 || Refusal(result) || (full && result == -EOVERFLOW))
        << "result=" << result;
    if (attr_.polling != 0) Check();  // nothing happens before the poll
    if (result != 0) operations.pop_back();
  }
  const auto count = static_cast<int>(operations.size());
  Await(count);
  for (int seen = told_; seen < count; seen = told_) told_.wait(seen);
  int place = 0;
  for (const Operation& operation : operations) {
    RING_CHECK(operation.completion.told_as == place++);
    if (operation.completion.comp.status == IBV_EXP_EC_CALC_SUCCESS) Apply(operation);
  }
  Check();
}

void Session::EncodeAndSend() {
  Call call = MakeCall(input_, target_.arena, k_, m_);
  std::vector<ibv_sge> sges = call.data;
  sges.insert(sges.end(), call.code.begin(), call.code.end());
  std::vector<ibv_send_wr> requests(k_ + m_);
  std::vector<ibv_exp_ec_stripe> stripes(k_ + m_);
  for (std::size_t i = 0; i < k_ + m_; ++i) {
    requests[i] = SendOf(i, IBV_WR_RDMA_WRITE, &sges[i]);
    requests[i].send_flags = 0;
    requests[i].wr.rdma = {target_.sent.Sge(i * kBlockSizeMax, 0).addr, target_.sent.mr()->rkey};
    stripes[i] = {target_.near.qp(), &requests[i]};
  }
  const std::uint8_t spoil = input_.Byte();
  const std::size_t which = input_.Byte() % (k_ + m_);
  if (spoil == 1) stripes[which].qp = nullptr;
  if (spoil == 2) stripes[which].wr = nullptr;
  if (spoil == 3) requests[which].num_sge = 99;
  const int result = ibv_exp_ec_encode_send(calc_, &call.mem, stripes.data(), stripes.data() + k_);
  RING_CHECK(result == 0 || result == IBV_EXP_EC_CALC_FAIL || Refusal(result))
      << "result=" << result;
  // When a code stripe cannot be posted, the code blocks are calculated all the same.
  const bool calculated = spoil == 3 && which >= k_ && target_.arena.bytes() != expected_;
  if (result == 0 || calculated) Apply({.kind = Kind::kEncode, .call = call});
  Check();
  for (std::size_t i = 0; result == 0 && i < k_ + m_; ++i) {
    const auto from = target_.sent.bytes().begin() + static_cast<std::ptrdiff_t>(i * kBlockSizeMax);
    const Bytes block = BytesOf(sges[i]);
    RING_CHECK(std::equal(block.begin(), block.end(), from)) << "block=" << i;
  }
  target_.Reconnect();
}

void Session::Run() {
  while (!input_.empty()) {
    const std::uint8_t what = input_.Byte();
    switch (what / 64) {
      case 1:
        RunMany();
        break;
      case 2:
        EncodeAndSend();
        break;
      default:
        RunOne(what);
        break;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static Target& target = *new Target;
  FuzzInput input(bytes, size);
  for (std::size_t i = 0; i < kArenaSize; ++i) {
    target.arena.bytes()[i] = static_cast<std::uint8_t>(i * 31 + i / 256);
  }
  static constexpr std::array<int, 8> kWidths = {4, 8, 4, 8, 1, 2, 3, -8};
  ibv_exp_ec_calc_init_attr attr = {};
  attr.w = kWidths[input.Byte() % kWidths.size()];
  attr.k = static_cast<std::int8_t>(input.Byte());
  attr.m = static_cast<std::int8_t>(input.Byte());
  const std::uint8_t spoil = input.Byte();
  attr.max_data_sge = attr.k + (spoil == 1 ? 1 : 0);
  attr.max_code_sge = attr.m + (spoil == 2 ? 1 : 0);
  attr.comp_mask = spoil == 3 ? input.Short() << 8 : 0;
  attr.max_inflight_calcs = input.Byte();
  attr.polling = spoil < 192 ? 1 : 0;  // a thread only for some: it costs more than all the rest
  if (attr.k + attr.m > static_cast<int>(kBlocksMax)) return 0;
  Bytes matrix(64 * 64);
  const std::size_t used =
      static_cast<std::size_t>(std::max(attr.k, 0)) * static_cast<std::size_t>(std::max(attr.m, 0));
  input.Copy(matrix.data(), std::min(used, matrix.size()));
  attr.encode_matrix = spoil == 4 ? nullptr : matrix.data();
  ibv_exp_ec_calc* const calc = ibv_exp_alloc_ec_calc(target.domain.pd(), &attr);
  const bool fits = attr.k >= 1 && attr.m >= 1 && attr.w >= 1 && attr.w != 3 &&
                    attr.k + attr.m <= 1 << attr.w && spoil != 1 && spoil != 2 && spoil != 4 &&
                    attr.comp_mask < IBV_EXP_EC_CALC_INIT_ATTR_RESERVED;
  RING_CHECK((calc != nullptr) == fits);
  if (calc == nullptr) return 0;
  Session(input, target, calc, attr, matrix).Run();
  ibv_exp_dealloc_ec_calc(calc);
  return 0;
}
