#include "memgest/log_tail.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ring/base/crc32c.h"
#include "ring/base/status.h"

namespace ring::memgest {
namespace {

constexpr std::uint32_t kPieceMagic = 0x31544c52;  // "RLT1"
constexpr std::uint32_t kLastPiece = 1;

struct PieceHeader {
  std::uint32_t magic = kPieceMagic;
  std::uint32_t crc = 0;  // of all that follows this field
  std::uint32_t number = 0;
  std::uint32_t flags = 0;
  std::uint64_t reserved = 0;
};
static_assert(sizeof(PieceHeader) == 24);
constexpr std::size_t kCrcEnd = 8;
constexpr std::size_t kPieceBytesMax =
    (kPieceSizeMax - sizeof(PieceHeader)) / kEntryAlignment * kEntryAlignment;

absl::Status Wrong(absl::string_view what, std::uint64_t value) {
  return absl::InvalidArgumentError(absl::StrCat("tail piece: ", what, "=", value));
}

}  // namespace

void TailEncoder::EndPiece(bool last) {
  PieceHeader header;
  header.number = static_cast<std::uint32_t>(pieces_.size());
  header.flags = last ? kLastPiece : 0;
  std::string piece(sizeof(header) + piece_.size(), '\0');
  std::memcpy(piece.data() + sizeof(header), piece_.data(), piece_.size());
  std::memcpy(piece.data(), &header, sizeof(header));
  header.crc = Crc32c(piece.data() + kCrcEnd, piece.size() - kCrcEnd);
  std::memcpy(piece.data(), &header, sizeof(header));
  pieces_.push_back(std::move(piece));
  piece_.clear();
}

void TailEncoder::AddBytes(absl::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), kPieceBytesMax - piece_.size());
    piece_.append(bytes.data(), size);
    bytes.remove_prefix(size);
    if (piece_.size() == kPieceBytesMax) EndPiece(false);
  }
}

void TailEncoder::Add(const EntryView& entry) {
  const absl::Span<const std::byte> bytes = EntryBytes(entry);
  // What was checked is what goes: the header is the view's copy.
  AddBytes({reinterpret_cast<const char*>(&entry.header), sizeof(entry.header)});
  AddBytes({reinterpret_cast<const char*>(bytes.data()) + sizeof(entry.header),
            bytes.size() - sizeof(entry.header)});
}

std::vector<std::string> TailEncoder::Take() {
  EndPiece(true);
  return std::move(pieces_);
}

absl::Status TailDecoder::Add(absl::string_view piece,
                              absl::FunctionRef<absl::Status(const EntryView&)> visit) {
  if (failure_.ok()) failure_ = TakePiece(piece, visit);
  return failure_;
}

absl::Status TailDecoder::TakePiece(absl::string_view piece,
                                    absl::FunctionRef<absl::Status(const EntryView&)> visit) {
  PieceHeader header;
  if (piece.size() < sizeof(header) || piece.size() > kPieceSizeMax) {
    return Wrong("size", piece.size());
  }
  std::memcpy(&header, piece.data(), sizeof(header));
  if (header.magic != kPieceMagic) return Wrong("magic", header.magic);
  if (header.flags > kLastPiece) return Wrong("flags", header.flags);
  if (header.reserved != 0) return Wrong("reserved", header.reserved);
  const std::uint32_t crc = Crc32c(piece.data() + kCrcEnd, piece.size() - kCrcEnd);
  if (crc != header.crc) return Wrong("crc", header.crc);
  if (header.number < next_) return absl::OkStatus();
  if (header.number > next_ || done_) return Wrong("number", header.number);
  piece.remove_prefix(sizeof(header));
  if (!IsAligned(piece.size(), kEntryAlignment)) return Wrong("length", piece.size());
  const std::size_t before = lines_.size();
  lines_.resize(before + piece.size() / kEntryAlignment);
  if (!piece.empty()) std::memcpy(lines_.data() + before, piece.data(), piece.size());
  ++next_;

  std::size_t first = 0;
  while (lines_.size() - first >= kEntryHeaderSize / kEntryAlignment) {
    const std::size_t left = (lines_.size() - first) * kEntryAlignment;
    const std::byte* const at = lines_[first].bytes;
    EntryHeader entry;
    std::memcpy(&entry, at, sizeof(entry));
    const std::size_t size = kEntryHeaderSize + entry.extension_cells * kEntryAlignment +
                             AlignUp(entry.payload_length, kEntryAlignment) + kEntryTrailerSize;
    if (size > kEntrySizeMax) return Wrong("entry size", size);
    if (size > left) break;
    RING_ASSIGN_OR_RETURN(const EntryView view,
                          DecodeEntry(absl::MakeConstSpan(at, size), entry.position,
                                      Epoch(entry.epoch), entry.prev_crc, false));
    if (view.header.type == EntryType::kPad) return Wrong("a PAD, index", view.header.index);
    RING_RETURN_IF_ERROR(visit(view));
    first += size / kEntryAlignment;
  }
  lines_.erase(lines_.begin(), lines_.begin() + static_cast<std::ptrdiff_t>(first));
  if ((header.flags & kLastPiece) == 0) return absl::OkStatus();
  if (!lines_.empty()) return Wrong("an entry is cut off, cells", lines_.size());
  done_ = true;
  return absl::OkStatus();
}

}  // namespace ring::memgest
