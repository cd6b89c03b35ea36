// Evaluates the expressions of a template.
#include "models/chat/jinja/interpreter.h"
#include "models/chat/jinja/values/write_value.h"

namespace genesis::jinja {

Value Interpreter::evaluate(const Expression& expression) {
  const Budget::Level level(budget());
  line_ = expression.line;
  Value value = std::visit([this](const auto& node) { return this->node(node); }, expression.node);
  budget().step();  // operations charge the data that they read and make themselves
  return value;
}

Value Interpreter::evaluate_or(const ExpressionPtr& expression, Value otherwise) {
  return expression ? evaluate(*expression) : std::move(otherwise);
}

Arguments Interpreter::evaluate(const std::string& function, const ArgumentList& list) {
  std::vector<Value> positional;
  for (const ExpressionPtr& one : list.positional) positional.push_back(evaluate(*one));
  std::vector<std::pair<std::string, Value>> named;
  for (const auto& [name, one] : list.named) named.emplace_back(name, evaluate(*one));
  if (list.more_positional) {
    const std::vector<Value> more = items_of(budget(), evaluate(*list.more_positional));
    positional.insert(positional.end(), more.begin(), more.end());
  }
  if (list.more_named) {
    const Value more = evaluate(*list.more_named);
    if (!more.dict()) fail_type("** among arguments", "a mapping", more);
    budget().make_entries(more.dict()->size());
    for (const auto& [name, value] : more.dict()->entries())
      named.emplace_back(text_in(name, "** among arguments"), value);
  }
  return {function, std::move(positional), std::move(named)};
}

Value Interpreter::node(const Literal& literal) { return literal.value; }

Value Interpreter::node(const Name& name) {
  for (const Scope* scope = scope_.get(); scope; scope = scope->parent.get())
    if (const auto found = scope->names.find(name.name); found != scope->names.end()) return found->second;
  return Value::undefined("'" + name.name + "'");
}

Value Interpreter::node(const ListDisplay& list) {
  std::vector<Value> items;
  for (const ExpressionPtr& item : list.items) items.push_back(evaluate(*item));
  budget().make_items(items.size());
  return list.is_tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
}

Value Interpreter::node(const DictDisplay& display) {
  Dict dict;
  for (const auto& [key, value] : display.entries) {
    const Value name = evaluate(*key);
    dict.set(name, evaluate(*value));
  }
  budget().make_entries(dict.size());
  return Value::dict(std::move(dict));
}

Value Interpreter::node(const AttributeOf& of) { return attribute(evaluate(*of.object), of.name); }

Value Interpreter::node(const ItemOf& of) {
  const Value object = evaluate(*of.object);
  return item(object, evaluate(*of.key));
}

Value Interpreter::node(const SliceOf& of) {
  const Value object = evaluate(*of.object), start = evaluate_or(of.start, None{}),
              stop = evaluate_or(of.stop, None{});
  return slice(budget(), object, start, stop, evaluate_or(of.step, None{}));
}

Value Interpreter::node(const CallOf& of) {
  const Value callee = evaluate(*of.callee);
  Arguments arguments = evaluate(callee.callable() ? callee.callable()->name : "", of.arguments);
  return call(callee, arguments);
}

Value Interpreter::node(const FilterOf& of) {
  const Value input = of.input ? evaluate(*of.input) : Value(block_texts_.back());
  Arguments arguments = evaluate("the filter " + of.name, of.arguments);
  return filter(of.name, input, arguments);
}

Value Interpreter::node(const TestOf& of) {
  const Value input = evaluate(*of.input);
  Arguments arguments = evaluate("the test " + of.name, of.arguments);
  return test(of.name, input, arguments);
}

Value Interpreter::node(const Unary& unary) {
  const Value value = evaluate(*unary.operand);
  if (unary.op == Unary::Op::kNot) return !is_true(value);
  return unary.op == Unary::Op::kNegative ? negative(value) : positive(value);
}

Value Interpreter::node(const Binary& of) {
  const Value left = evaluate(*of.left);
  return binary(budget(), of.op, left, evaluate(*of.right));
}

Value Interpreter::node(const Concat& concat) {
  std::string text;
  for (const ExpressionPtr& part : concat.parts) {
    text += to_text(budget(), evaluate(*part));
    budget().check_text(text.size());
  }
  budget().make(text.size());
  return text;
}

Value Interpreter::node(const Comparison& all) {
  Value left = evaluate(*all.first);
  for (const auto& [op, expression] : all.rest) {
    Value right = evaluate(*expression);
    if (!compare(budget(), op, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::node(const Logic& logic) {
  Value left = evaluate(*logic.left);
  return is_true(left) == logic.is_and ? evaluate(*logic.right) : left;
}

Value Interpreter::node(const Conditional& of) {
  if (is_true(evaluate(*of.condition))) return evaluate(*of.then);
  return evaluate_or(of.otherwise, Value::undefined("an 'if' without 'else' whose condition is false"));
}

}  // namespace genesis::jinja
