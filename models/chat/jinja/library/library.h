// What templates can name: filters, functions, methods and tests; and what those share while a template is rendered.
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

// One rendering of a template, as filters and functions see it. The interpreter is one.
class Rendering {
 public:
  Rendering(const Limits& limits, std::time_t now) : budget_(limits), now_(now) {}

  Budget& budget() { return budget_; }
  std::time_t now() const { return now_; }
  std::shared_ptr<Namespace> new_namespace();
  Value filter(const std::string& name, const Value& input, Arguments& arguments);
  bool test(const std::string& name, const Value& input, Arguments& arguments);
  // object.name, undefined where there is none.
  Value attribute(const Value& object, const std::string& name);
  // object[key], likewise.
  Value item(const Value& object, const Value& key);

 protected:
  // Namespaces may hold each other, so that they are not freed by themselves.
  void empty_namespaces();

 private:
  Budget budget_;
  std::time_t now_;
  // Namespaces that are alive, and those that wait for their end. They end one at a time, as they may be a long chain.
  struct Namespaces {
    std::unordered_set<Namespace*> alive;
    std::vector<std::unique_ptr<Namespace>> dead;
    bool is_freeing = false;

    void free(Namespace* space);
  };
  std::shared_ptr<Namespaces> namespaces_ = std::make_shared<Namespaces>();
};

// Jinja's filters: {{ messages | length }}.
using Filter = Value (*)(Rendering& rendering, const Value& input, Arguments& arguments);
using Filters = std::map<std::string, Filter, std::less<>>;
Filter find_filter(std::string_view name);  // null where there is none

// Filters that go over items, that group items, that make a text of a text, and that write a value for people; filters.cpp has the
// others.
const Filters& item_filters();
const Filters& group_filters();
const Filters& text_filters();
const Filters& layout_filters();

// "a.b.0" of an item, as map, sort and groupby name what they look at.
Value path_in(Rendering& rendering, Value value, const Value& path,
              const std::optional<Value>& otherwise = {});

// The functions that every template can call: range, namespace, dict, cycler, joiner, raise_exception, strftime_now.
std::map<std::string, Value, std::less<>> globals(Rendering& rendering);

const std::map<std::string, Value (*)(Rendering&, const Value&, Arguments&), std::less<>>& text_methods();

// Methods of Python's str, dict and list, and of `loop`: message.content.strip(). Those that would change a list or a
// mapping are not there: templates may not, in transformers either.
//
// object.name as a function that is bound to `object`.
std::optional<Value> find_method(Rendering& rendering, const Value& object, std::string_view name);

// str.format of Python: {}, {0}, {name}, {0.attribute}, {0[item]}, with !r or !s and a format behind a colon.
std::string format_text(Rendering& rendering, std::string_view format,
                        const std::vector<Value>& positional,
                        const std::vector<std::pair<std::string, Value>>& named);

// Jinja's tests: {% if message.content is string %}.
//
// One of the two, the other is null.
struct Test {
  bool (*of_value)(const Value& input);
  bool (*with_arguments)(Rendering& rendering, const Value& input, Arguments& arguments);
};
const Test* find_test(std::string_view name);  // null where there is none

}  // namespace genesis::jinja
