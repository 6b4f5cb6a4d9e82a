// tests/sim/history.h — what clients asked for and were told: the input of every checker.
//
// What:      Operation is one call of one process; History keeps them in order of invocation and
//            writes them as JSON lines (docs/TESTING.md, "Histories"). A value is a number of its
//            own, never used twice; its bytes follow from the number and the size, so that foreign
//            bytes are seen at once (I4). A Loss is what the cluster may forget by its rules.
// Units:     nanoseconds of simulated time.
// Ownership: values.
// Threads:   thread-compatible.
// Errors:    none.
#ifndef RING_TESTS_SIM_HISTORY_H_
#define RING_TESTS_SIM_HISTORY_H_

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "ring/base/id.h"

namespace ring::sim {

enum class OpKind : std::uint8_t { kPut, kGet, kDelete, kMove };
enum class OpResult : std::uint8_t {
  kPending,  // no answer by the end of the run, or its process crashed
  kOk,
  kNotFound,
  kFailed,  // certainly not applied; of a get: says nothing
  kUnknown,
};

// The process of what an operator did: a forced delete of a memgest deletes keys.
inline constexpr int kOperator = -1;

using ValueId = std::uint64_t;  // 0: none

struct Operation {
  int process = 0;
  OpKind kind = OpKind::kGet;
  int key = 0;
  ValueId value = 0;       // put: written; get: read
  std::uint32_t size = 0;  // of the value
  MemgestId memgest{0};    // put, move: asked for (0: the default); afterwards where it is
  std::string memgest_name;
  int tolerates = -1;  // f of the memgest of the answer; -1: not known
  Version version;     // of the answer; none: Version()
  std::optional<Version> if_version;
  std::uint64_t patience_ns = 0;  // its own deadline; 0: as all of its client
  bool data_lost = false;         // what it failed for
  bool mismatch = false;  // refused because if_version did not hold; version is the one there
  std::uint64_t invoke_ns = 0;
  std::uint64_t return_ns = 0;  // 0: none
  OpResult result = OpResult::kPending;

  bool mutates() const { return kind != OpKind::kGet; }
  // Whether it may have had, or may yet have, an effect.
  bool MayApply() const {
    return mutates() && result != OpResult::kFailed && result != OpResult::kNotFound;
  }
  // The default memgest may be this one when the operation comes.
  bool MayWriteInto(MemgestId into) const {
    return (kind == OpKind::kPut || kind == OpKind::kMove) &&
           (memgest == into || memgest.value() == 0);
  }
};

std::string KeyName(int key);
std::string Describe(const Operation& op);

// What was told of these keys in epochs before `epoch` may vanish, all at once, at this time: of
// memgests with f = 0 (G6), or all of it, when more was lost than memgests survive (F3) and shards
// go on (E8).
struct Loss {
  std::uint64_t time_ns = 0;
  Epoch epoch;
  std::vector<int> keys;
  bool everything = false;
};

class History {
 public:
  // Gives the operation's place.
  std::size_t Add(Operation op) {
    operations_.push_back(std::move(op));
    return operations_.size() - 1;
  }
  Operation& operator[](std::size_t i) { return operations_[i]; }
  const std::vector<Operation>& operations() const { return operations_; }
  // Losses come in the order of their times.
  void AddLoss(Loss loss) { losses_.push_back(std::move(loss)); }
  const std::vector<Loss>& losses() const { return losses_; }
  // Both a line each, of JSON.
  void WriteJson(std::FILE* file) const;  // operations
  void WriteLosses(std::FILE* file) const;

 private:
  std::vector<Operation> operations_;
  std::vector<Loss> losses_;
};

// The bytes of a value. size >= kValueSizeMin.
inline constexpr std::uint32_t kValueSizeMin = 16;
std::string ValueBytes(ValueId id, std::uint32_t size);
// The number of the value with these bytes; 0: these are nobody's.
ValueId ReadValue(absl::string_view bytes);

// What a checker found.
struct Violation {
  std::string kind;  // "linearizability", "exactly-once", ...
  std::string detail;
};

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_HISTORY_H_
