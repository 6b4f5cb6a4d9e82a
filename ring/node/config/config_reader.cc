#include "ring/node/config/config_reader.h"

#include <algorithm>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "ring/node/config/config.h"

namespace ring::node {
namespace {

std::string_view Std(absl::string_view text) { return {text.data(), text.size()}; }

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

// Of unknown text what is no character of a line is '?', and it is cut: a message stays short.
std::string Shown(absl::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 64)) {
    const bool plain = static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
    out.push_back(plain ? c : '?');
  }
  if (text.size() > 64) out += "...";
  return out;
}

std::size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row.back();
}

// Walks TOML text and knows what is a comment: a '#' that stands in no string begins one. It must
// agree with TOML up to the first error only: there the parser stops.
class Lexer {
 public:
  explicit Lexer(absl::string_view text) : text_(text) {}

  // The place of the first byte that is not ASCII and stands in no comment, or npos.
  std::size_t FindStray() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '"' || c == '\'') {
        SkipString(c);
        if (stray_ != absl::string_view::npos) return stray_;
      } else if (IsByteOrderMark()) {
        at_ += 3;
      } else if (!IsAscii(c)) {
        return at_;
      } else {
        ++at_;
      }
    }
    return absl::string_view::npos;
  }

 private:
  static bool IsAscii(char c) { return static_cast<unsigned char>(c) < 0x80; }
  bool IsByteOrderMark() const { return at_ == 0 && absl::StartsWith(text_, "\xef\xbb\xbf"); }

  void SkipString(char quote) {
    const std::string fence(3, quote);
    const bool multi_line = absl::StartsWith(text_.substr(at_), fence);
    at_ += multi_line ? 3 : 1;
    while (at_ < text_.size() && stray_ == absl::string_view::npos) {
      if (!IsAscii(text_[at_])) {
        stray_ = at_;
      } else if (text_[at_] == '\\' && at_ + 1 < text_.size() && IsAscii(text_[at_ + 1]) &&
                 quote == '"') {
        at_ += 2;
      } else if (multi_line && absl::StartsWith(text_.substr(at_), fence)) {
        at_ += 3;
        // Up to two quotes may stand before the closing ones.
        for (int i = 0; i < 2 && at_ < text_.size() && text_[at_] == quote; ++i) ++at_;
        return;
      } else if (!multi_line && (text_[at_] == quote || text_[at_] == '\n')) {
        ++at_;
        return;
      } else {
        ++at_;
      }
    }
  }

  absl::string_view text_;
  std::size_t at_ = 0;
  std::size_t stray_ = absl::string_view::npos;  // found in a string
};

}  // namespace

absl::Status CheckCharacters(absl::string_view text, absl::string_view file) {
  const std::size_t at = Lexer(text).FindStray();
  if (at == absl::string_view::npos) return absl::OkStatus();
  const absl::string_view before = text.substr(0, at);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t start = before.rfind('\n');
  const std::size_t column = start == absl::string_view::npos ? at + 1 : at - start;
  return absl::InvalidArgumentError(
      absl::StrCat(file, ":", line, ":", column,
                   ": a character that is not ASCII stands outside of comments: in a string write "
                   "it as \\uXXXX, elsewhere take it out"));
}

void ConfigProblems::Add(const toml::source_region& where, absl::string_view what) {
  if (++count_ > kShownMax) return;
  if (!lines_.empty()) lines_ += '\n';
  absl::StrAppend(&lines_, file_, ":", where.begin.line, ":", where.begin.column, ": ", what);
}

absl::Status ConfigProblems::ToStatus() const {
  if (count_ == 0) return absl::OkStatus();
  if (count_ <= kShownMax) return absl::InvalidArgumentError(lines_);
  return absl::InvalidArgumentError(
      absl::StrCat(lines_, "\n", file_, ": and ", count_ - kShownMax, " more problems"));
}

std::optional<std::uint64_t> ParseSize(absl::string_view text) {
  int shift = 0;
  if (absl::ConsumeSuffix(&text, "KiB")) {
    shift = 10;
  } else if (absl::ConsumeSuffix(&text, "MiB")) {
    shift = 20;
  } else if (absl::ConsumeSuffix(&text, "GiB")) {
    shift = 30;
  } else if (absl::ConsumeSuffix(&text, "TiB")) {
    shift = 40;
  }
  while (absl::ConsumeSuffix(&text, " ")) {
  }
  std::uint64_t number = 0;
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  if (!digits || !absl::SimpleAtoi(text, &number)) return std::nullopt;
  if (number > (std::numeric_limits<std::uint64_t>::max() >> (shift + 1))) return std::nullopt;
  return number << shift;
}

const toml::node* TableReader::Take(absl::string_view key) {
  known_.emplace_back(key);
  return table_.get(Std(key));
}

const toml::source_region& TableReader::where(absl::string_view key) const {
  const toml::node* node = table_.get(Std(key));
  return node == nullptr ? table_.source() : node->source();
}

bool TableReader::Has(absl::string_view key) const { return table_.get(Std(key)) != nullptr; }

std::string TableReader::String(absl::string_view key, absl::string_view fallback) {
  const toml::node* node = Take(key);
  if (node == nullptr) return std::string(fallback);
  const auto* text = node->as_string();
  if (text == nullptr) {
    Problem(key, absl::StrCat(key, " in ", name_, " must be a string"));
    return std::string(fallback);
  }
  return text->get();
}

std::size_t TableReader::Choose(absl::string_view key, absl::Span<const absl::string_view> words) {
  const std::string text = String(key, words.front());
  const auto chosen = std::find(words.begin(), words.end(), text);
  if (chosen != words.end()) return static_cast<std::size_t>(chosen - words.begin());
  const auto quote = [](std::string* out, absl::string_view word) {
    absl::StrAppend(out, "\"", word, "\"");
  };
  Problem(key, absl::StrCat(key, "=\"", text.substr(0, 64), "\" must be ",
                            absl::StrJoin(words.first(words.size() - 1), ", ", quote), " or \"",
                            words.back(), "\""));
  return 0;
}

std::string TableReader::RequiredString(absl::string_view key) {
  std::string text = String(key, "");
  if (!Has(key)) {
    Problem(key, absl::StrCat("key=", key, " is missing in ", name_, ": add ", key, " = \"...\""));
  } else if (table_.get(Std(key))->is_string() && text.empty()) {
    Problem(key, absl::StrCat(key, " in ", name_, " must not be empty"));
  }
  return text;
}

std::uint64_t TableReader::Integer(absl::string_view key, std::uint64_t fallback, std::uint64_t low,
                                   std::uint64_t high) {
  const toml::node* node = Take(key);
  if (node == nullptr) return fallback;
  const auto* number = node->as_integer();
  if (number == nullptr) {
    Problem(key, absl::StrCat(key, " in ", name_, " must be an integer"));
    return fallback;
  }
  const std::int64_t value = number->get();
  if (value < 0 || static_cast<std::uint64_t>(value) < low ||
      static_cast<std::uint64_t>(value) > high) {
    Problem(key, absl::StrCat(key, "=", value, " in ", name_, " must be ", low, " to ", high));
    return fallback;
  }
  return static_cast<std::uint64_t>(value);
}

std::uint64_t TableReader::Size(absl::string_view key, std::uint64_t fallback, std::uint64_t low,
                                std::uint64_t high) {
  const toml::node* node = Take(key);
  if (node == nullptr) return fallback;
  std::optional<std::uint64_t> size;
  if (const auto* number = node->as_integer(); number != nullptr && number->get() >= 0) {
    size = static_cast<std::uint64_t>(number->get());
  } else if (const auto* text = node->as_string(); text != nullptr) {
    size = ParseSize(Absl(text->get()));
  }
  if (!size.has_value()) {
    Problem(key, absl::StrCat(key, " in ", name_,
                              " must be a size: bytes, or a string such as \"4MiB\""));
    return fallback;
  }
  if (*size < low || *size > high) {
    Problem(key,
            absl::StrCat(key, "=", *size, " in ", name_, " must be ", low, " to ", high, " bytes"));
    return fallback;
  }
  return *size;
}

std::optional<std::vector<std::int64_t>> TableReader::Integers(absl::string_view key,
                                                               std::size_t count) {
  const toml::node* node = Take(key);
  if (node == nullptr) return std::nullopt;
  std::vector<std::int64_t> numbers;
  if (const toml::array* array = node->as_array(); array != nullptr) {
    for (const toml::node& element : *array) {
      if (const auto* number = element.as_integer()) numbers.push_back(number->get());
    }
    if (array->size() != numbers.size()) numbers.clear();
  }
  if (numbers.size() != count) {
    Problem(key, absl::StrCat(key, " in ", name_, " must be a list of ", count, " integers"));
    return std::nullopt;
  }
  return numbers;
}

const toml::table* TableReader::Table(absl::string_view key) {
  const toml::node* node = Take(key);
  if (node == nullptr) return nullptr;
  if (!node->is_table()) Problem(key, absl::StrCat(key, " must be a table: [", key, "]"));
  return node->as_table();
}

std::vector<const toml::table*> TableReader::Tables(absl::string_view key) {
  std::vector<const toml::table*> tables;
  const toml::node* node = Take(key);
  if (node == nullptr) return tables;
  const toml::array* array = node->as_array();
  if (array != nullptr) {
    for (const toml::node& element : *array) {
      if (const toml::table* table = element.as_table()) tables.push_back(table);
    }
  }
  if (array == nullptr || tables.size() != array->size()) {
    Problem(key, absl::StrCat(key, " must be a list of tables: [[", key, "]]"));
  }
  return tables;
}

void TableReader::Finish() {
  for (const auto& [key, value] : table_) {
    const absl::string_view name = Absl(key.str());
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    const absl::string_view asked = name.substr(0, 64);
    const auto nearest = std::min_element(known_.begin(), known_.end(),
                                          [&](const std::string& a, const std::string& b) {
                                            return EditDistance(asked, a) < EditDistance(asked, b);
                                          });
    const bool close = nearest != known_.end() && EditDistance(asked, *nearest) <= 2;
    problems_.Add(key.source(),
                  absl::StrCat("key=", Shown(name), " is not known in ", name_, ": ",
                               close ? absl::StrCat("did you mean ", *nearest, "?")
                                     : absl::StrCat("known are ", absl::StrJoin(known_, ", "))));
  }
}

}  // namespace ring::node
