// tools/common/format.h — figures and tables for people.
//
// What:      FormatCount "1.23 M", FormatBytes "1.50 MiB", FormatNs "0.72 us"; Table: columns
//            as wide as they must be, numbers to the right. ShowBytes: bytes in messages.
// Threads:   pure; Table is thread-compatible.
// Errors:    none.
#ifndef RING_TOOLS_COMMON_FORMAT_H_
#define RING_TOOLS_COMMON_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ring::tools {

std::string FormatCount(double count);
std::string FormatBytes(double bytes);
std::string FormatNs(double ns);

bool IsUtf8(absl::string_view bytes);
// As it is, or C-escaped when it holds anything that a terminal would not show.
std::string ShowBytes(absl::string_view bytes);

class Table {
 public:
  explicit Table(std::vector<std::string> headings) : headings_(std::move(headings)) {}
  // REQUIRES: as many cells as there are headings.
  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // The first column stands to the left anyway, the others to the right.
  void AlignLeft(std::size_t column) { left_.push_back(column); }
  // Lines with a line feed each, without trailing blanks.
  std::string ToString() const;

 private:
  std::vector<std::string> headings_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> left_ = {0};
};

}  // namespace ring::tools

#endif  // RING_TOOLS_COMMON_FORMAT_H_
