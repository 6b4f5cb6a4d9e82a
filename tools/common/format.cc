#include "tools/common/format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ring/base/check.h"

namespace ring::tools {
namespace {

// Three significant digits.
std::string Digits(double value) {
  const double size = std::fabs(value);
  if (size >= 100) return absl::StrFormat("%.0f", value);
  if (size >= 10) return absl::StrFormat("%.1f", value);
  return absl::StrFormat("%.2f", value);
}

// Code points, so that names in UTF-8 line up.
std::size_t Width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

std::string FormatCount(double count) {
  if (std::fabs(count) >= 1e9) return Digits(count / 1e9) + " G";
  if (std::fabs(count) >= 1e6) return Digits(count / 1e6) + " M";
  if (std::fabs(count) >= 1e4) return Digits(count / 1e3) + " k";
  if (count == std::floor(count)) return absl::StrFormat("%.0f", count);
  return Digits(count);
}

std::string FormatBytes(double bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (std::fabs(bytes) >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  if (unit == 0) return absl::StrFormat("%.0f B", bytes);
  return absl::StrCat(Digits(bytes), " ", kUnits[unit]);
}

std::string FormatNs(double ns) {
  if (ns >= 1e9) return Digits(ns / 1e9) + " s";
  if (ns >= 1e6) return Digits(ns / 1e6) + " ms";
  return Digits(ns / 1e3) + " us";
}

std::string Table::ToString() const {
  std::vector<std::size_t> widths;
  for (const std::string& heading : headings_) widths.push_back(Width(heading));
  for (const std::vector<std::string>& row : rows_) {
    RING_CHECK(row.size() == headings_.size());
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::string out;
  const auto append = [&](const std::vector<std::string>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string pad(widths[i] - Width(cells[i]), ' ');
      const bool left = std::find(left_.begin(), left_.end(), i) != left_.end();
      absl::StrAppend(&out, i == 0 ? "" : "  ", left ? "" : pad, cells[i], left ? pad : "");
    }
    out.resize(out.find_last_not_of(' ') + 1);
    out += '\n';
  };
  append(headings_);
  for (const std::vector<std::string>& row : rows_) append(row);
  return out;
}

bool IsUtf8(absl::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size();) {
    const auto lead = static_cast<unsigned char>(bytes[i]);
    std::size_t more = 0;
    std::uint32_t point = lead;
    if (lead >= 0xf0 && lead < 0xf5) {
      more = 3, point = lead & 0x07u;
    } else if (lead >= 0xe0 && lead < 0xf0) {
      more = 2, point = lead & 0x0fu;
    } else if (lead >= 0xc2 && lead < 0xe0) {
      more = 1, point = lead & 0x1fu;
    } else if (lead >= 0x80) {
      return false;
    }
    if (bytes.size() - i <= more) return false;
    for (std::size_t j = 1; j <= more; ++j) {
      const auto next = static_cast<unsigned char>(bytes[i + j]);
      if ((next & 0xc0u) != 0x80) return false;
      point = (point << 6) | (next & 0x3fu);
    }
    if ((more == 2 && point < 0x800) || (more == 3 && point < 0x10000)) return false;
    if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return false;
    i += more + 1;
  }
  return true;
}

std::string ShowBytes(absl::string_view bytes) {
  bool plain = IsUtf8(bytes);
  for (const char c : bytes) plain &= !absl::ascii_iscntrl(static_cast<unsigned char>(c));
  return plain ? std::string(bytes) : absl::CHexEscape(bytes);
}

}  // namespace ring::tools
