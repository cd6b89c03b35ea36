// The values of template expressions: Python's values as Jinja presents them. All but namespaces are immutable, so that copies
// share their contents, and a value cannot contain itself.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace genesis::jinja {

class Arguments;
class Value;
struct Sequence;
struct Dict;
struct Namespace;
struct Loop;
struct Callable;

struct None {
  auto operator<=>(const None&) const = default;
};
// The result of the filter `safe`: a text that escapes other texts when they are appended to it.
struct Markup {
  std::shared_ptr<const std::string> text;
};
// A range, the result of range(), is a list that prints like Python's range. A view is the result of keys(), values() and
// items(). A generator is the result of map, select and similar filters; it is true even if it is empty. Views and generators
// cannot be indexed. (Unlike Python's, a generator can be iterated several times.)
enum class SequenceKind { kList, kTuple, kRange, kView, kGenerator };
// A missing name, attribute or item. It prints as nothing, and using it is an error.
struct Undefined {
  std::shared_ptr<const std::string> what;  // its description, for messages
};

class Value {
 public:
  using Data =
      std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const std::string>,
                   std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>, std::shared_ptr<Namespace>,
                   std::shared_ptr<const Loop>, std::shared_ptr<const Callable>, Markup>;

  Value() = default;
  Value(None none) : data_(none) {}
  Value(bool value) : data_(value) {}
  Value(int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  Value(std::string text) : data_(std::make_shared<const std::string>(std::move(text))) {}
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(std::shared_ptr<Namespace> space) : data_(std::move(space)) {}
  Value(std::shared_ptr<const Loop> loop) : data_(std::move(loop)) {}
  Value(std::shared_ptr<const Callable> callable) : data_(std::move(callable)) {}
  // These throw Error if values are nested more than 128 deep.
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items);
  static Value view(std::vector<Value> items, std::string label);
  static Value generator(std::vector<Value> items);
  static Value sequence(std::vector<Value> items, SequenceKind kind, std::string label = {});
  static Value markup(std::string text);
  static Value dict(Dict entries);
  static Value undefined(std::string what);

  const Data& data() const { return data_; }
  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  // These return null if the value has another type.
  const bool* boolean() const { return std::get_if<bool>(&data_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&data_); }
  const double* real() const { return std::get_if<double>(&data_); }
  const std::string* text() const {
    return is_markup() ? std::get<Markup>(data_).text.get() : pointee<std::string>();
  }
  bool is_markup() const { return std::holds_alternative<Markup>(data_); }
  const Sequence* sequence() const { return pointee<Sequence>(); }
  // Returns the sequence with shared ownership, so that its items need not be copied.
  std::shared_ptr<const Sequence> shared_sequence() const {
    const auto* held = std::get_if<std::shared_ptr<const Sequence>>(&data_);
    return held ? *held : nullptr;
  }
  const Dict* dict() const { return pointee<Dict>(); }
  const Loop* loop() const { return pointee<Loop>(); }
  const Callable* callable() const { return pointee<Callable>(); }
  Namespace* space() const {
    const auto* held = std::get_if<std::shared_ptr<Namespace>>(&data_);
    return held ? held->get() : nullptr;
  }
  bool is_number() const { return boolean() || integer() || real(); }

 private:
  template <class T>
  const T* pointee() const {
    const auto* held = std::get_if<std::shared_ptr<const T>>(&data_);
    return held ? held->get() : nullptr;
  }

  Data data_;
};

struct Sequence {
  std::vector<Value> items;
  SequenceKind kind = SequenceKind::kList;
  int depth = 1;
  // The text of a range, the type name of a view, or "group" for a tuple that groupby made.
  std::string label = {};
  bool has_numbers() const { return kind != SequenceKind::kView && kind != SequenceKind::kGenerator; }
};

// A mapping that keeps the insertion order of its keys. A key is a text, a number, a boolean or none. As in Python, 1, 1.0 and
// true are the same key.
class Dict {
 public:
  // Throws Error if the key has another type.
  void set(const Value& key, Value value);
  const Value* find(std::string_view name) const;
  const Value* find_key(const Value& key) const;  // null also if a key cannot have this type

  const std::vector<std::pair<Value, Value>>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  int depth() const { return depth_; }

 private:
  friend class Value;
  using OtherKey = std::variant<None, int64_t, double>;
  static std::optional<OtherKey> other_key(const Value& key);

  std::vector<std::pair<Value, Value>> entries_;
  // Indices into the entries, by key. The names are views of the keys' texts, which copies of the entries share.
  std::map<std::string_view, size_t> names_;
  std::map<OtherKey, size_t> others_;
  int depth_ = 1;
};

// The only mutable value. It may contain itself, so the rendering empties all namespaces when it ends.
struct Namespace {
  std::map<std::string, Value, std::less<>> attributes;
};

// The variable `loop` inside of a `for`.
struct Loop {
  std::shared_ptr<const Sequence> sequence;
  size_t index = 0;
  int depth = 1;
  int level = 0;  // number of recursive calls of loop() around this loop
  std::function<Value(const Value& items)> recurse = {};  // loop(items); empty if the loop is not recursive
  // The arguments of the last call of loop.changed().
  std::shared_ptr<std::optional<std::vector<Value>>> last_changed = {};

  const std::vector<Value>& items() const { return sequence->items; }
};

struct Callable {
  std::string name;
  std::function<Value(Arguments&)> call;
  int depth = 1;
};

int depth_of(const Value& value);
// Returns Python's name of the type: "str", "list".
std::string type_name(const Value& value);
// Lists, tuples and ranges are different types, as in Python.
bool is_tuple(const Value& value);
bool is_true(const Value& value);
// Returns the approximate number of bytes to read the value once, without nested values.
size_t size_of(const Value& value);
// Returns the value. Throws Error if it is undefined.
const Value& defined(const Value& value);
[[noreturn]] void fail_type(std::string_view what, std::string_view expected, const Value& got);
const std::string& text_in(const Value& value, std::string_view what);
int64_t integer_in(const Value& value, std::string_view what);

}  // namespace genesis::jinja
