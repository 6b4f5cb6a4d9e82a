// tests/sim/damage_model.h — what a run's turned bits may cost, and nothing else.
//
// What:      DamageModel is told each value, copy and parity row that a bit was turned in (F10). It
//            says of a key whether a value of it may be gone, and of a memgest whether a scrub may
//            find something there.
// Shape:     a damaged value of a replicated memgest is that key's. In a coded one a wrong byte
//            comes into what is decoded with its row, and, when its slot is used again, as a delta
//            from it into the parities (S3): there all keys that were ever written are concerned.
// Ownership: values.
// Threads:   thread-compatible.
// Errors:    none.
// Source:    rules F10, I4, S3.
#ifndef RING_TESTS_SIM_DAMAGE_MODEL_H_
#define RING_TESTS_SIM_DAMAGE_MODEL_H_

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ring/protocol/memgest_descriptor.h"
#include "tests/sim/history.h"

namespace ring::sim {

class DamageModel {
 public:
  // The bytes of the key's value, or of a copy of it, in this memgest.
  void AddValue(int key, const protocol::MemgestDescriptor& memgest) {
    keys_.insert(key);
    memgests_[memgest.id] = memgest;
  }
  void AddRow(const protocol::MemgestDescriptor& memgest) { memgests_[memgest.id] = memgest; }

  bool any() const { return !memgests_.empty(); }
  bool Concerns(MemgestId memgest) const { return memgests_.contains(memgest); }
  // Whether the key may have lost a value so, by what was asked for until now.
  bool Concerns(int key, const History& history) const {
    if (keys_.contains(key)) return true;
    return std::any_of(
        history.operations().begin(), history.operations().end(), [&](const Operation& op) {
          return op.key == key &&
                 std::any_of(memgests_.begin(), memgests_.end(), [&op](const auto& memgest) {
                   return IsCoded(memgest.second) && op.MayWriteInto(memgest.first);
                 });
        });
  }
  // Whether a scrub's finding is of a memgest with damage.
  bool Explains(const std::string& finding) const {
    return std::any_of(memgests_.begin(), memgests_.end(), [&finding](const auto& memgest) {
      return absl::StrContains(finding, absl::StrCat("memgest=", memgest.second.name, " ")) ||
             absl::StrContains(finding, absl::StrCat("memgest=", memgest.first.value(), " "));
    });
  }

 private:
  static bool IsCoded(const protocol::MemgestDescriptor& memgest) {
    return memgest.scheme != protocol::Scheme::kReplicated;
  }

  std::set<int> keys_;
  std::map<MemgestId, protocol::MemgestDescriptor> memgests_;
};

}  // namespace ring::sim

#endif  // RING_TESTS_SIM_DAMAGE_MODEL_H_
