#include "models/chat/jinja/interpreter.h"

#include "models/chat/jinja/library/library.h"

namespace genesis::jinja {
Rendered Interpreter::run(const Block& block, const Dict& variables) {
  const auto common = std::make_shared<Scope>(Scope{nullptr, globals(*this)});
  const auto given = std::make_shared<Scope>(Scope{common, {}});
  for (const auto& [name, value] : variables.entries) given->names[text_in(name, "a variable")] = value;
  const Inside inside(*this, given);
  out_ = &result_.text;
  with_context([&] { run(block); }, [&] { return fmt::format("at line {} of the template", line_); });
  return std::move(result_);
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
  const Budget::Level level(budget());
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
  budget().make(text.size());
  return text;
}

}  // namespace genesis::jinja
