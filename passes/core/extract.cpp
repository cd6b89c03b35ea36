#include "passes/core/extract.h"

#include <map>

#include "schema/graph/bodies.h"

namespace genesis::passes {
namespace {

class Extractor {
 public:
  explicit Extractor(const Model& from) : from_(from), to_(std::make_unique<Model>()) {
    to_->describe_as(from);
  }

  void add(const Graph& graph) {
    Graph& copy = to_->add_entry(graph.name());
    std::vector<Value> values(graph.values().size());
    for (size_t i = 0; i < graph.values().size(); ++i) {
      const ValueInfo& info = graph.values()[i];
      if (info.kind == ValueKind::kInput) values[i] = copy.add_input(info.name, info.type);
      if (info.kind == ValueKind::kState) values[i] = copy.state(state(info.index));
      if (info.kind == ValueKind::kConstant) values[i] = copy.constant(tensor(info.index));
      if (info.kind == ValueKind::kNode && info.index == 0) add_node(graph.node(info.producer), copy, values);
    }
    copy.set_origins({});
    const auto at = [&](ValueId id) { return values[static_cast<size_t>(id.index)]; };
    for (const NamedValue& output : graph.outputs()) copy.add_output(output.name, at(output.value));
    for (const StateUpdate& update : graph.updates()) copy.add_update(state(update.state), at(update.value));
  }

  std::unique_ptr<Model> finish() { return std::move(to_); }

 private:
  static void add_node(const Node& node, Graph& copy, std::vector<Value>& values) {
    std::vector<Value> inputs;
    for (ValueId id : node.inputs) inputs.push_back(values[static_cast<size_t>(id.index)]);
    copy.set_origins(node.origins);
    const std::vector<Value> outputs = copy.add_node(*node.op, node.attributes, inputs, node.name);
    for (size_t i = 0; i < outputs.size(); ++i)
      values[static_cast<size_t>(node.outputs[i].index)] = outputs[i];
  }

  int32_t state(int32_t index) {
    const auto [at, fresh] = states_.try_emplace(index, -1);
    if (fresh) at->second = to_->add_state(from_.state(index));
    return at->second;
  }
  int32_t tensor(int32_t index) {
    const auto [at, fresh] = tensors_.try_emplace(index, -1);
    const NamedTensor& row = from_.tensors()[static_cast<size_t>(index)];
    if (fresh) at->second = to_->add_tensor(row.name, row.tensor);
    return at->second;
  }

  const Model& from_;
  std::unique_ptr<Model> to_;
  std::map<int32_t, int32_t> states_, tensors_;  // old index -> new index
};

}  // namespace

std::unique_ptr<Model> extract_entries(const Model& model, const std::set<std::string>& names) {
  for (const std::string& name : names) model.entry(name);  // throws if it does not exist
  const std::set<std::string> kept = with_bodies(model, names);
  Extractor extractor(model);
  for (const auto& entry : model.entries())
    if (kept.contains(entry->name())) extractor.add(*entry);
  return extractor.finish();
}

}  // namespace genesis::passes
