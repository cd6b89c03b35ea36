// What the expressions of a template compute with: Python's values as Jinja shows them. None of them can be changed but
// namespaces; so copies share, and nothing holds itself.
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
// What the filter `safe` gives: a text that escapes what is added to it.
struct Markup {
  std::shared_ptr<const std::string> text;
};
// A range, the result of range(), is a list that writes itself as Python's range does. A view is the result of keys(), values()
// and items(). A generator, the result of map, select and their kin, is true even when nothing is in it. Views and generators
// have no items by number. (Python's generators can be gone over once; these can be again.)
enum class SequenceKind { kList, kTuple, kRange, kView, kGenerator };
// A name, an attribute or an item that is not there: nothing when it is written, an error when it is used.
struct Undefined {
  std::shared_ptr<const std::string> what;  // for messages
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
  // These throw Error where values nest deeper than 128.
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
  // Null where the value is of another type.
  const bool* boolean() const { return std::get_if<bool>(&data_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&data_); }
  const double* real() const { return std::get_if<double>(&data_); }
  const std::string* text() const {
    return is_markup() ? std::get<Markup>(data_).text.get() : pointee<std::string>();
  }
  bool is_markup() const { return std::holds_alternative<Markup>(data_); }
  const Sequence* sequence() const { return pointee<Sequence>(); }
  // The same, to be kept without a copy of the items.
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
  // A range has here how it is written, a view the name of its type, and a tuple that groupby made "group".
  std::string label = {};
  bool has_numbers() const { return kind != SequenceKind::kView && kind != SequenceKind::kGenerator; }
};

// Keeps the order in which its keys came. A key is a text, a number, a boolean or none. As in Python, 1, 1.0 and true are one
// key.
class Dict {
 public:
  // Throws Error where the key is of another type.
  void set(const Value& key, Value value);
  const Value* find(std::string_view name) const;
  const Value* find_key(const Value& key) const;  // null, too, where no key is of this type

  const std::vector<std::pair<Value, Value>>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  int depth() const { return depth_; }

 private:
  friend class Value;
  using OtherKey = std::variant<None, int64_t, double>;
  static std::optional<OtherKey> other_key(const Value& key);

  std::vector<std::pair<Value, Value>> entries_;
  // Places of the keys in the entries. The names are the texts of the keys, which copies share.
  std::map<std::string_view, size_t> names_;
  std::map<OtherKey, size_t> others_;
  int depth_ = 1;
};

// The one value that a template can change, so that it may hold itself: the rendering empties all namespaces when it ends.
struct Namespace {
  std::map<std::string, Value, std::less<>> attributes;
};

// `loop` inside of for.
struct Loop {
  std::shared_ptr<const Sequence> sequence;
  size_t index = 0;
  int depth = 1;
  int level = 0;  // how many calls of loop() this one stands in
  std::function<Value(const Value& items)> recurse =
      {};  // loop(items); empty where the loop is not recursive
  // The arguments of the last loop.changed(), which the method changes.
  std::shared_ptr<std::optional<std::vector<Value>>> last_changed = {};

  const std::vector<Value>& items() const { return sequence->items; }
};

struct Callable {
  std::string name;
  std::function<Value(Arguments&)> call;
  int depth = 1;
};

int depth_of(const Value& value);
// As Python names it: "str", "list".
std::string type_name(const Value& value);
// Lists, tuples and ranges are of different types, as in Python.
bool is_tuple(const Value& value);
bool is_true(const Value& value);
// About what it takes to look at all of it once.
size_t size_of(const Value& value);
// For whoever needs a value that is there. Throws Error.
const Value& defined(const Value& value);
[[noreturn]] void fail_type(std::string_view what, std::string_view expected, const Value& got);
const std::string& text_in(const Value& value, std::string_view what);
int64_t integer_in(const Value& value, std::string_view what);

}  // namespace genesis::jinja
