// Executes the statements of a template.
#include "models/chat/jinja/interpreter.h"
#include "models/chat/jinja/values/write_value.h"

namespace genesis::jinja {

Interpreter::Flow Interpreter::run(const Block& block) {
  for (const Statement& statement : block)
    if (const Flow flow = run(statement); flow != Flow::kNext) return flow;
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const Statement& statement) {
  const Budget::Level level(budget());
  budget().step();
  line_ = statement.line;
  return std::visit([this](const auto& node) { return this->node(node); }, statement.node);
}

void Interpreter::write(std::string_view text) {
  budget().read(text.size());
  budget().check_text(out_->size() + text.size());
  *out_ += text;
}

Interpreter::Flow Interpreter::node(const TextOut& text) {
  write(text.text);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::node(const Output& output) {
  write(to_text(budget(), evaluate(*output.value)));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::node(const If& condition) {
  for (const auto& [test, body] : condition.branches)
    if (is_true(evaluate(*test))) return run(body);
  return run(condition.otherwise);
}

std::shared_ptr<const Sequence> Interpreter::chosen_items(const For& loop, const Value& value) {
  auto sequence = sequence_of(budget(), value);
  if (!loop.condition) return sequence;
  auto chosen = std::make_shared<Sequence>();
  for (const Value& item : sequence->items) {
    const Inside inside(*this);
    assign(loop.target, item);
    if (is_true(evaluate(*loop.condition))) chosen->items.push_back(item);
  }
  budget().make_items(chosen->items.size());
  return chosen;
}

Interpreter::Flow Interpreter::node(const For& loop) { return repeat(loop, evaluate(*loop.items), 0); }

Interpreter::Flow Interpreter::repeat(const For& loop, const Value& value, int level) {
  const Budget::Level deeper(budget());
  auto sequence = chosen_items(loop, value);
  if (sequence->items.empty()) {
    const Inside inside(*this);
    return run(loop.otherwise);
  }
  const int depth = depth_of(value) + 1;
  const auto state = std::make_shared<Loop>(
      Loop{std::move(sequence), 0, depth, level, {}, std::make_shared<std::optional<std::vector<Value>>>()});
  if (loop.is_recursive)
    state->recurse = [this, &loop, around = scope_, level](const Value& items) {
      const Inside inside(*this, around);
      return Value(captured([&] { repeat(loop, items, level + 1); }));
    };
  for (; state->index < state->items().size(); ++state->index) {
    budget().step();
    const Inside inside(*this);
    scope_->names["loop"] = std::shared_ptr<const Loop>(state);
    assign(loop.target, state->items()[state->index]);
    if (run(loop.body) == Flow::kBreak) break;
  }
  return Flow::kNext;
}

void Interpreter::assign(const Target& target, const Value& value) {
  if (!target.parts.empty()) {
    const auto sequence = sequence_of(budget(), defined(value));
    const std::vector<Value>& items = sequence->items;
    if (items.size() != target.parts.size())
      fail("{} names for {} values", target.parts.size(), items.size());
    for (size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i]);
  } else if (target.attribute.empty()) {
    scope_->names[target.name] = value;
  } else {
    const Value space = node(Name{target.name});
    if (!space.space()) fail_type("an assignment to an attribute", "a namespace", space);
    if (target.attribute[0] == '_')
      fail("'{}' cannot be an attribute of a namespace: it begins with _", target.attribute);
    budget().make_entries(1);
    space.space()->attributes[target.attribute] = value;
  }
}

Interpreter::Flow Interpreter::node(const Set& set) {
  assign(set.target, evaluate(*set.value));
  return Flow::kNext;
}

std::string Interpreter::captured(const std::function<void()>& write_all) {
  std::string text;
  std::string* const before = std::exchange(out_, &text);
  write_all();
  out_ = before;
  budget().make(text.size() + kTextBytes);
  return text;
}

std::string Interpreter::rendered(const Block& block) {
  const Inside inside(*this);
  return captured([&] { run(block); });
}

Value Interpreter::filtered(const ExpressionPtr& filter, std::string text) {
  if (!filter) return text;
  block_texts_.push_back(std::move(text));
  Value value = evaluate(*filter);
  block_texts_.pop_back();
  return value;
}

Interpreter::Flow Interpreter::node(const SetBlock& set) {
  assign(set.target, filtered(set.filter, rendered(set.body)));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::node(const FilterBlock& filter) {
  write(to_text(budget(), filtered(filter.filter, rendered(filter.body))));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::node(const std::shared_ptr<Macro>& macro) {
  scope_->names[macro->name] = make_macro(macro);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::node(const CallBlock& block) {
  const CallOf& of = std::get<CallOf>(block.call->node);
  const Value callee = evaluate(*of.callee);
  Arguments given = evaluate(callee.callable() ? callee.callable()->name : "", of.arguments);
  auto named = given.take_named();
  named.emplace_back("caller", make_macro(block.caller));
  Arguments arguments(given.function(), given.take_positional(), std::move(named));
  write(to_text(budget(), call(callee, arguments)));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::node(const With& with) {
  std::vector<Value> values;
  for (const auto& [target, expression] : with.values) values.push_back(evaluate(*expression));
  const Inside inside(*this);
  for (size_t i = 0; i < values.size(); ++i) assign(with.values[i].first, values[i]);
  return run(with.body);
}

Interpreter::Flow Interpreter::node(const Generation& generation) {
  const std::string text = rendered(generation.body);
  const size_t begin = out_->size();
  write(text);
  if (out_ == &result_.text)
    result_.generations.push_back({begin, begin + text.size()});
  else
    result_.lost_generation = true;
  return Flow::kNext;
}

}  // namespace genesis::jinja
