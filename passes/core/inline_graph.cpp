#include "passes/core/inline_graph.h"

#include "passes/core/rewriter.h"

namespace genesis::passes {
namespace {

class Inliner {
 public:
  Inliner(Graph& into, const Graph& from, const std::vector<Value>& inputs,
          const std::map<int32_t, Value>& states, const ReplaceNode& replace)
      : into_(into), from_(from), states_(states), replace_(replace), values_(from.values().size()) {
    GENESIS_ASSERT(inputs.size() == from.inputs().size());
    for (size_t i = 0; i < inputs.size(); ++i) at(from.inputs()[i]) = inputs[i];
  }

  InlinedGraph run() {
    for (const Node& node : from_.nodes()) copy(node);
    InlinedGraph result;
    for (const NamedValue& output : from_.outputs()) result.outputs.emplace(output.name, map(output.value));
    for (const StateUpdate& update : from_.updates()) result.updates.emplace(update.state, map(update.value));
    return result;
  }

 private:
  Value& at(ValueId id) { return values_[static_cast<size_t>(id.index)]; }

  Value map(ValueId id) {
    if (at(id)) return at(id);
    const ValueInfo& info = from_.value(id);
    const auto given = states_.find(info.index);
    if (info.kind == ValueKind::kState && given != states_.end()) return given->second;
    return info.kind == ValueKind::kState ? into_.state(info.index) : into_.constant(info.index);
  }

  void copy(const Node& node) {
    std::vector<Value> inputs;
    for (ValueId id : node.inputs) inputs.push_back(map(id));
    if (replace_)
      if (const Value value = replace_(node, inputs)) {
        at(node.outputs[0]) = value;
        return;
      }
    into_.set_origins(into_.has_name(node.name) ? origins_of(node) : node.origins);
    const std::vector<Value> outputs = into_.add_node(*node.op, node.attributes, inputs, node.name);
    into_.set_origins({});
    for (size_t i = 0; i < outputs.size(); ++i) at(node.outputs[i]) = outputs[i];
  }

  Graph& into_;
  const Graph& from_;
  const std::map<int32_t, Value>& states_;
  const ReplaceNode& replace_;
  std::vector<Value> values_;  // by value id of from_
};

}  // namespace

InlinedGraph inline_graph(Graph& into, const Graph& from, const std::vector<Value>& inputs,
                          const std::map<int32_t, Value>& states, const ReplaceNode& replace) {
  return Inliner(into, from, inputs, states, replace).run();
}

}  // namespace genesis::passes
