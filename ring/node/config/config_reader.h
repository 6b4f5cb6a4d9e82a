// ring/node/config/config_reader.h — typed reading of TOML tables, with every problem located.
//
// What:      ConfigProblems collects problems; TableReader takes keys of one table by type and at
//            the end reports the keys that nobody asked for, with the nearest known one.
// Shape:     a problem is file:line:column: text.
// Ownership: TableReader borrows the table and the problems.
// Threads:   thread-compatible.
// Errors:    reported to ConfigProblems; a reader then gives the fallback, so that one reading
//            finds all problems.
#ifndef RING_NODE_CONFIG_CONFIG_READER_H_
#define RING_NODE_CONFIG_CONFIG_READER_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

// toml++ 3.3 asserts what a file like "[=]" breaks, and tells the optimizer so when NDEBUG is set;
// the code behind those assertions reports the error properly. So: neither aborts nor assumptions.
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#define TOML_ASSERT(expression) static_assert(true)
#pragma push_macro("NDEBUG")
#undef NDEBUG
#include "toml++/toml.h"
#pragma pop_macro("NDEBUG")

namespace ring::node {

class ConfigProblems {
 public:
  static constexpr std::size_t kShownMax = 20;
  explicit ConfigProblems(absl::string_view file) : file_(file) {}
  void Add(const toml::source_region& where, absl::string_view what);
  bool empty() const { return count_ == 0; }
  // OK, or kInvalidArgument with one line per problem.
  absl::Status ToStatus() const;

 private:
  std::string file_;
  std::string lines_;
  std::size_t count_ = 0;
};

// OK, or kInvalidArgument for the first character outside of comments that is not ASCII: toml++ 3.3
// has undefined behaviour on some of them, so this comes before it. Strings say them as \uXXXX.
absl::Status CheckCharacters(absl::string_view text, absl::string_view file);

// "4MiB" or "4194304" to bytes; nothing on anything else or past 2^63.
std::optional<std::uint64_t> ParseSize(absl::string_view text);

class TableReader {
 public:
  // name: of the table in messages, such as "[cluster]".
  TableReader(const toml::table& table, std::string name, ConfigProblems* problems)
      : table_(table), name_(std::move(name)), problems_(*problems) {}

  const toml::source_region& where() const { return table_.source(); }
  // Where a key's value stands, or the table if it has none.
  const toml::source_region& where(absl::string_view key) const;
  bool Has(absl::string_view key) const;

  std::string String(absl::string_view key, absl::string_view fallback);
  // Must be there and not empty.
  std::string RequiredString(absl::string_view key);
  std::uint64_t Integer(absl::string_view key, std::uint64_t fallback, std::uint64_t low,
                        std::uint64_t high);
  std::uint64_t Size(absl::string_view key, std::uint64_t fallback, std::uint64_t low,
                     std::uint64_t high);
  // What the key's word stands for; without the key, what the first one does. Any other word is a
  // problem.
  template <class T>
  T Choice(absl::string_view key, std::initializer_list<std::pair<absl::string_view, T>> choices) {
    std::vector<absl::string_view> words;
    for (const auto& choice : choices) words.push_back(choice.first);
    return (choices.begin() + Choose(key, words))->second;
  }
  // ... of all that there are, by their names.
  template <class T>
  T Choice(absl::string_view key, absl::Span<const T> all, absl::string_view (*name)(T)) {
    std::vector<absl::string_view> words;
    for (const T one : all) words.push_back(name(one));
    return all[Choose(key, words)];
  }
  std::optional<std::vector<std::int64_t>> Integers(absl::string_view key, std::size_t count);
  // Null when it is missing; a problem unless it is a table / an array of tables.
  const toml::table* Table(absl::string_view key);
  std::vector<const toml::table*> Tables(absl::string_view key);

  // Reports the keys that nobody asked for.
  void Finish();
  void Problem(absl::string_view key, absl::string_view what) { problems_.Add(where(key), what); }

 private:
  const toml::node* Take(absl::string_view key);
  std::size_t Choose(absl::string_view key, absl::Span<const absl::string_view> words);

  const toml::table& table_;
  std::string name_;
  ConfigProblems& problems_;
  std::vector<std::string> known_;
};

}  // namespace ring::node

#endif  // RING_NODE_CONFIG_CONFIG_READER_H_
