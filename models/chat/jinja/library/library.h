// The names that templates can use: filters, tests, functions and methods; and the state that they share during a rendering.
#pragma once

#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <unordered_set>

#include "models/chat/jinja/values/arguments.h"
#include "models/chat/jinja/values/budget.h"
#include "models/chat/jinja/values/operators.h"

namespace genesis::jinja {

// The state of one rendering, as filters and functions see it. Base class of the interpreter.
class Rendering {
 public:
  Rendering(const Limits& limits, std::time_t now) : budget_(limits), now_(now) {}

  Budget& budget() { return budget_; }
  std::time_t now() const { return now_; }
  std::shared_ptr<Namespace> new_namespace();
  Value filter(const std::string& name, const Value& input, Arguments& arguments);
  bool test(const std::string& name, const Value& input, Arguments& arguments);
  // Returns object.name; undefined if it does not exist.
  Value attribute(const Value& object, const std::string& name);
  // Returns object[key]; undefined if it does not exist.
  Value item(const Value& object, const Value& key);

 protected:
  // Frees the contents of all namespaces. They may form reference cycles, which are not freed otherwise.
  void empty_namespaces();

 private:
  Budget budget_;
  std::time_t now_;
  // Namespaces that are alive, and those about to be freed. They are freed one at a time, without recursion, as they may form a
  // long chain.
  struct Namespaces {
    std::unordered_set<Namespace*> alive;
    std::vector<std::unique_ptr<Namespace>> dead;
    bool is_freeing = false;

    void free(Namespace* space);
  };
  std::shared_ptr<Namespaces> namespaces_ = std::make_shared<Namespaces>();
};

// A filter of Jinja: {{ messages | length }}.
using Filter = Value (*)(Rendering& rendering, const Value& input, Arguments& arguments);
using Filters = std::map<std::string, Filter, std::less<>>;
Filter find_filter(std::string_view name);  // null if it does not exist

// Tables of filters over items, that group items, that change texts, and that format values for display. filters.cpp has the
// rest.
const Filters& item_filters();
const Filters& group_filters();
const Filters& text_filters();
const Filters& layout_filters();

// Returns the value at a path such as "a.b.0" of an item, as map, sort and groupby name attributes.
Value path_in(Rendering& rendering, Value value, const Value& path,
              const std::optional<Value>& otherwise = {});

// Returns the functions that every template can call: range, namespace, dict, cycler, joiner, raise_exception, strftime_now.
std::map<std::string, Value, std::less<>> globals(Rendering& rendering);

const std::map<std::string, Value (*)(Rendering&, const Value&, Arguments&), std::less<>>& text_methods();

// Returns object.name as a function that is bound to `object`: a method of Python's str, dict and list, or of `loop`, as in
// message.content.strip(). Methods that change a list or a mapping do not exist, as in transformers.
std::optional<Value> find_method(Rendering& rendering, const Value& object, std::string_view name);

// Implements Python's str.format: {}, {0}, {name}, {0.attribute}, {0[item]}, with !r or !s and a format behind a colon.
std::string format_text(Rendering& rendering, std::string_view format,
                        const std::vector<Value>& positional,
                        const std::vector<std::pair<std::string, Value>>& named);

// A test of Jinja: {% if message.content is string %}. One of the two functions is set, the other is null.
struct Test {
  bool (*of_value)(const Value& input);
  bool (*with_arguments)(Rendering& rendering, const Value& input, Arguments& arguments);
};
const Test* find_test(std::string_view name);  // null if it does not exist

}  // namespace genesis::jinja
