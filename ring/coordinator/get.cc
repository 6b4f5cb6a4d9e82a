// get: the highest version's value, or a wait until it is committed. The memgest does not matter.
#include "ring/base/mutant.h"
#include "ring/coordinator/shard.h"

namespace ring::coordinator {
namespace {
// An answer pins its slot (V6), and pins have 16 bits: beyond, gets wait for the device. The rest
// is for moves.
constexpr std::uint16_t kAnswerPinsMax = 0xff00;
}  // namespace

bool ShardCoordinator::Get(const Request& request) {
  if ((request.flags & protocol::kDegraded) != 0 && options_.decoder == nullptr) {
    Refuse(request, protocol::Outcome::kBadRequest);
    return true;
  }
  const std::uint32_t* const entry = keys_.Find(request.hash, request.key);
  if (entry == nullptr) {
    ++counters_.gets;
    Refuse(request, protocol::Outcome::kNotFound);
    return true;
  }
  const std::uint32_t head = *entry;
  const bool with_value = request.operation == protocol::Operation::kGet;
  const auto answer = [&](std::uint32_t line) {
    if (lines_.line(line).pins >= kAnswerPinsMax) return false;
    if (with_value && absent(line)) return AwaitValue(request, line);
    if (with_value && DecodesInstead(request, line)) return ReadDegraded(request, line);
    ++counters_.gets;
    AnswerLine(request, line, with_value);
    return true;
  };
  if (committed(head)) return answer(head);
  // V4: the read saw version v* of the head. Once some version >= v* is committed, the highest
  // committed one is the answer, whatever was appended meanwhile.
  if (const std::optional<std::uint32_t> seen = CommittedSince(request, head)) return answer(*seen);
  return DeferOn(request, head);
}

std::optional<std::uint32_t> ShardCoordinator::CommittedSince(const Request& request,
                                                              std::uint32_t head) const {
  if (request.min_version.bits() == 0) return std::nullopt;  // it did not wait yet
  const std::uint32_t highest = HighestCommitted(head);
  if (highest == memgest::kNoLine) return std::nullopt;
  const bool seen = lines_.line(highest).version >= request.min_version.bits();
  return seen || Mutant("V4-less") ? std::optional<std::uint32_t>(highest) : std::nullopt;
}

std::uint32_t ShardCoordinator::HighestCommitted(std::uint32_t head) const {
  for (std::uint32_t line = head; line != memgest::kNoLine; line = lines_.line(line).prev) {
    if (committed(line)) return line;
  }
  return memgest::kNoLine;
}

}  // namespace ring::coordinator
