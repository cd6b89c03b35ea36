#include "models/chat/jinja/interpreter.h"

#include "models/chat/jinja/library/library.h"

namespace genesis::jinja {
Rendered Interpreter::run(const Block& block, const Dict& variables) {
  const auto common = std::make_shared<Scope>(Scope{nullptr, globals(*this)});
  const auto given = std::make_shared<Scope>(Scope{common, {}});
  for (const auto& [name, value] : variables.entries()) given->names[text_in(name, "a variable")] = value;
  const Inside inside(*this, given);
  out_ = &result_.text;
  with_context([&] { run(block); }, [&] { return fmt::format("at line {} of the template", line_); });
  return std::move(result_);
}

Value Interpreter::call(const Value& callee, Arguments& arguments) {
  if (const Loop* loop = callee.loop(); loop && loop->recurse) {
    const Value items = arguments.need("iterable");
    arguments.finish();
    return loop->recurse(items);
  }
  if (callee.loop()) fail("loop() needs a loop with 'recursive': {{% for ... in ... recursive %}}");
  if (!callee.callable()) {
    defined(callee);
    fail("a {} is no function", type_name(callee));
  }
  Value result = callee.callable()->call(arguments);
  arguments.finish();
  return result;
}

Value Interpreter::make_macro(std::shared_ptr<Macro> macro) {
  budget().make(sizeof(Scope) + sizeof(Callable));
  kept_.push_back(scope_);
  const std::string name = macro->name;
  return std::make_shared<const Callable>(
      Callable{name, [this, macro = std::move(macro), scope = kept_.size() - 1](Arguments& arguments) {
                 return run_macro(*macro, kept_[scope], arguments);
               }});
}

void Interpreter::bind_parameters(const Macro& macro, Arguments& arguments) {
  for (const auto& [name, otherwise] : macro.parameters) {
    auto value = arguments.take(name);
    if (!value && otherwise) value = evaluate(*otherwise);
    scope_->names[name] = value.value_or(Value::undefined("the parameter '" + name + "'"));
  }
  if (macro.takes_caller)
    scope_->names["caller"] = arguments.take_named("caller").value_or(Value::undefined("'caller'"));
  if (macro.takes_named) {
    Dict rest;
    for (auto& [name, value] : arguments.take_named()) rest.set(name, std::move(value));
    budget().make_entries(rest.size());
    scope_->names["kwargs"] = Value::dict(std::move(rest));
  }
  if (macro.takes_positional) scope_->names["varargs"] = Value::tuple(arguments.take_positional());
}

// Runs a macro, which sees the scope of its definition, not of its call.
Value Interpreter::run_macro(const Macro& macro, std::shared_ptr<Scope> scope, Arguments& arguments) {
  const Budget::Level level(budget());
  const Inside inside(*this, std::move(scope));
  bind_parameters(macro, arguments);
  arguments.finish();
  return captured([&] { run(macro.body); });
}

}  // namespace genesis::jinja
