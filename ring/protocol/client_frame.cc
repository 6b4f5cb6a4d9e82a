#include "ring/protocol/client_frame.h"

#include <bit>

#include "ring/base/align.h"
#include "ring/base/check.h"
#include "ring/base/zero.h"

namespace ring::protocol {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are little-endian structs");

constexpr std::size_t kRingCells = kRequestRingSize / kCell;

// Copies one cell with loads that the compiler can neither repeat nor elide: what is checked is
// what is used, whatever the client stores meanwhile.
template <class Cell>
Cell LoadCell(const std::byte* source) {
  static_assert(sizeof(Cell) == kCell);
  std::uint64_t words[kCell / sizeof(std::uint64_t)];
  for (std::size_t i = 0; i < kCell / sizeof(std::uint64_t); ++i) {
    words[i] =
        __atomic_load_n(reinterpret_cast<const std::uint64_t*>(source) + i, __ATOMIC_RELAXED);
  }
  return std::bit_cast<Cell>(words);
}

// Flags that mean something with the operation; -1: no such operation.
int AllowedFlags(Operation operation) {
  switch (operation) {
    case Operation::kPad:
    case Operation::kWhere:
    case Operation::kWhoOwns:
      return 0;
    case Operation::kGet:
      return kLargeValue | kDegraded;
    case Operation::kGetView:
      return kLargeValue;
    case Operation::kPut:
      return kIfVersion | kLargeValue | kDefaultMemgest | kRetried;
    case Operation::kDelete:
      return kIfVersion | kRetried;
    case Operation::kMove:
      return kIfVersion | kDefaultMemgest | kRetried;
  }
  return -1;
}

// Whether the fields that do not bear on the extent are as they must be.
bool FieldsAgree(const RequestHeader& header) {
  const Operation operation = header.word.operation;
  if (header.reply_slot >= kReplySlotCountMax) return false;
  const bool keyless = operation == Operation::kGetView || operation == Operation::kWhoOwns;
  if (keyless != (header.word.key_length == 0)) return false;
  if (operation == Operation::kWhoOwns) {
    const auto question = std::bit_cast<OwnerQuestion>(header.if_version);
    if (question.slot >= kSlotCount || question.reserved != 0) return false;
  }
  // Sequence numbers start at 1, so that first incomplete = seq - delta is at least 1.
  if (Mutates(operation) != (header.seq != 0)) return false;
  if (header.seq == 0 ? header.incomplete_delta != 0 : header.incomplete_delta >= header.seq) {
    return false;
  }
  return true;
}

}  // namespace

Outcome DecodeRequest(const std::byte* ring, std::size_t cell, std::size_t value_size_max,
                      RequestView* view) {
  RING_CHECK(cell < kRingCells) << "cell=" << cell;
  view->header = LoadCell<RequestHeader>(ring + cell * kCell);
  const RequestHeader& header = view->header;
  const Operation operation = header.word.operation;
  const int allowed = AllowedFlags(operation);
  if (allowed < 0 || (header.word.flags & ~allowed) != 0) return Outcome::kBadRequest;
  if (operation == Operation::kPad) {
    // A PAD in cell 0 leads to itself.
    if (cell == 0 || header.word.key_length != 0) return Outcome::kBadRequest;
    view->key = {};
    view->value = nullptr;
    view->size_cells = kRingCells - cell;
    return Outcome::kOk;
  }
  const bool large = (header.word.flags & kLargeValue) != 0;
  const std::size_t inline_length =
      operation == Operation::kPut && !large ? header.value_length : 0;
  if (operation != Operation::kPut && header.value_length != 0) return Outcome::kBadRequest;
  if (inline_length > kInlineValueSizeMax) return Outcome::kBadRequest;
  const std::size_t key_length = header.word.key_length;
  const std::size_t cells = RequestCells(key_length, large, inline_length);
  if (cell + cells > kRingCells - 1) return Outcome::kBadRequest;
  if (!FieldsAgree(header)) return Outcome::kBadRequest;

  // From here on the extent is known, and a refusal leaves the reader in step.
  const std::byte* next = ring + (cell + 1) * kCell;
  RequestExtension extension;
  if (key_length > kInlineKeySizeMax) next += AlignUp(key_length, kCell);
  if (large) {
    extension = LoadCell<RequestExtension>(next);
    if (!IsZero(extension.reserved, sizeof(extension.reserved))) return Outcome::kBadRequest;
    if (extension.buffer_address + extension.buffer_length < extension.buffer_address) {
      return Outcome::kBadRequest;
    }
    if (operation == Operation::kPut && extension.buffer_length < header.value_length) {
      return Outcome::kBadRequest;
    }
    next += kCell;
  }
  view->size_cells = cells;
  if (key_length > kKeySizeMax || header.value_length > value_size_max) return Outcome::kTooLarge;
  const char* key = key_length > kInlineKeySizeMax
                        ? reinterpret_cast<const char*>(ring + (cell + 1) * kCell)
                        : header.key;
  view->key = absl::string_view(key, key_length);
  view->extension = extension;
  view->value = inline_length > 0 ? next : nullptr;
  return Outcome::kOk;
}

}  // namespace ring::protocol
