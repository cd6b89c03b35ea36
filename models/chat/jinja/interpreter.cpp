#include "models/chat/jinja/interpreter.h"

#include "models/chat/jinja/library/library.h"
#include "models/chat/jinja/values/write_value.h"

namespace genesis::jinja {
namespace {

// What is kept of a loop in `loop`, by name; undefined where it has none.
Value loop_attribute(const Loop& loop, const std::string& name) {
  const auto index = static_cast<int64_t>(loop.index), size = static_cast<int64_t>(loop.items.size());
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return size - index;
  if (name == "revindex0") return size - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index == size - 1;
  if (name == "length") return size;
  if (name == "depth") return int64_t{1};
  if (name == "depth0") return int64_t{0};
  if (name == "previtem" && index > 0) return loop.items[loop.index - 1];
  if (name == "nextitem" && index + 1 < size) return loop.items[loop.index + 1];
  return Value::undefined("the attribute '" + name + "' of loop");
}

}  // namespace

Rendered Interpreter::run(const Block& block, const Dict& variables) {
  const auto common = std::make_shared<Scope>(Scope{nullptr, globals(*this)});
  const auto given = std::make_shared<Scope>(Scope{common, {}});
  for (const auto& [name, value] : variables.entries) given->names[text_in(name, "a variable")] = value;
  const Inside inside(*this, given);
  out_ = &result_.text;
  with_context([&] { run(block); }, [&] { return fmt::format("at line {} of the template", line_); });
  return std::move(result_);
}

Namespace* Interpreter::new_namespace() {
  budget_.make(sizeof(Namespace));
  namespaces_.push_back(std::make_unique<Namespace>());
  return namespaces_.back().get();
}

Value Interpreter::filter(const std::string& name, const Value& input, Arguments& arguments) {
  const Filter found = find_filter(name);
  if (!found) fail("the filter '{}' is not supported", name);
  Value result = found(*this, input, arguments);
  arguments.finish();
  return result;
}

bool Interpreter::test(const std::string& name, const Value& input, Arguments& arguments) {
  const Test* found = find_test(name);
  if (!found) fail("the test '{}' is not supported", name);
  const bool result =
      found->of_value ? found->of_value(input) : found->with_arguments(*this, input, arguments);
  arguments.finish();
  return result;
}

Value Interpreter::attribute(const Value& object, const std::string& name) {
  defined(object);
  if (const Namespace* space = object.space())
    if (const auto found = space->attributes.find(name); found != space->attributes.end())
      return found->second;
  if (const Loop* loop = object.loop())
    if (Value value = loop_attribute(*loop, name); !value.is_undefined()) return value;
  if (auto method = find_method(*this, object, name)) return *method;
  if (const Dict* dict = object.dict())
    if (const Value* found = dict->find(name)) return *found;
  return Value::undefined(fmt::format("the attribute '{}' of a {}", name, type_name(object)));
}

Value Interpreter::item(const Value& object, const Value& key) {
  defined(object);
  if (auto found = find_item(object, key)) return *found;
  if (key.text()) return attribute(object, *key.text());
  return Value::undefined(fmt::format("the item {} of a {}", to_repr(budget_, key), type_name(object)));
}

Value Interpreter::call(const Value& callee, Arguments& arguments) {
  if (!callee.callable()) {
    defined(callee);
    fail("a {} is no function", type_name(callee));
  }
  Value result = callee.callable()->call(arguments);
  arguments.finish();
  return result;
}

Value Interpreter::make_macro(std::shared_ptr<Macro> macro) {
  kept_.push_back(scope_);
  const std::string name = macro->name;
  return std::make_shared<const Callable>(
      Callable{name, [this, macro = std::move(macro), scope = kept_.size() - 1](Arguments& arguments) {
                 return run_macro(*macro, kept_[scope], arguments);
               }});
}

// Sees what is around its definition, not around its call.
Value Interpreter::run_macro(const Macro& macro, std::shared_ptr<Scope> scope, Arguments& arguments) {
  const Budget::Level level(budget_);
  const Inside inside(*this, std::move(scope));
  for (const auto& [name, otherwise] : macro.parameters) {
    auto value = arguments.take(name);
    if (!value && otherwise) value = evaluate(*otherwise);
    scope_->names[name] = value.value_or(Value::undefined("the parameter '" + name + "'"));
  }
  if (auto caller = arguments.take("caller")) scope_->names["caller"] = *caller;
  std::string text;
  std::string* const before = std::exchange(out_, &text);
  run(macro.body);
  out_ = before;
  budget_.make(text.size());
  return text;
}

}  // namespace genesis::jinja
