#include "passes/core/prepared_values.h"

#include <algorithm>
#include <map>
#include <set>

#include "passes/core/analysis.h"
#include "passes/core/rewriter.h"
#include "schema/ops/tensor/loop.h"

namespace genesis::passes {
namespace {

class Splitter {
 public:
  Splitter(const Graph& graph, Model& model)
      : graph_(graph), model_(model), kinds_(graph.nodes().size(), Kind::kOther) {
    for (const StateUpdate& update : graph.updates()) updated_.insert(update.state);
    for (size_t i = 0; i < kinds_.size(); ++i) kinds_[i] = kind_of(graph.nodes()[i]);
  }

  std::optional<PreparedValues> split() {
    find_values();
    if (values_.empty()) return std::nullopt;
    PreparedValues result{main_graph(), values_graph(), {}};
    for (const auto& [value, tensor] : values_) result.tensors.push_back(tensor);
    return result;
  }

 private:
  // kStill: made of constants, or a view of states. kPrepared: computed from states. kOther: everything else.
  enum class Kind : uint8_t { kStill, kPrepared, kOther };

  bool is_view(const Node& node) const {
    std::vector<TensorType> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(graph_.type(id));
    return node.op->view_offset && node.op->view_offset(node.attributes, inputs);
  }

  Kind kind_of(const Node& node) const {
    if (node.op->info.random || node.op->info.collective || is<ops::Loop>(*node.op)) return Kind::kOther;
    bool reads_states = false, is_prepared = false;
    for (const ValueId id : node.inputs) {
      const ValueInfo& info = graph_.value(id);
      if (info.kind == ValueKind::kInput) return Kind::kOther;
      if (info.kind == ValueKind::kNode) {
        const Kind kind = kinds_[static_cast<size_t>(info.producer.index)];
        if (kind == Kind::kOther) return Kind::kOther;
        is_prepared = is_prepared || kind == Kind::kPrepared;
        reads_states = reads_states || from_states_.contains(info.producer.index);
      }
      if (info.kind != ValueKind::kState) continue;
      const StateRole role = graph_.model().state(info.index).role;
      if (updated_.contains(info.index) || (role != StateRole::kParameter && role != StateRole::kBuffer))
        return Kind::kOther;
      reads_states = true;
    }
    if (reads_states) from_states_.insert(id_of(graph_, node).index);
    return is_prepared || (reads_states && !is_view(node)) ? Kind::kPrepared : Kind::kStill;
  }

  bool is_prepared(ValueId id) const {
    const ValueInfo& info = graph_.value(id);
    return info.kind == ValueKind::kNode &&
           kinds_[static_cast<size_t>(info.producer.index)] == Kind::kPrepared;
  }

  // Lists the prepared values that are read outside, each with its tensor.
  void find_values() {
    const auto add = [&](ValueId id) {
      if (!is_prepared(id) || values_.contains(id)) return;
      std::byte* untouched;  // pages that nobody touches take no memory
      values_[id] = model_.add_tensor("prepared." + graph_.value(id).name,
                                      Tensor::uninitialized(graph_.type(id), &untouched));
    };
    const std::vector<bool> live = live_nodes(graph_);
    for (size_t i = 0; i < kinds_.size(); ++i)
      if (live[i] && kinds_[i] != Kind::kPrepared) std::ranges::for_each(graph_.nodes()[i].inputs, add);
    for (const NamedValue& output : graph_.outputs()) add(output.value);
    for (const StateUpdate& update : graph_.updates()) add(update.value);
  }

  Graph main_graph() const {
    Rewriter rewriter(graph_);
    for (size_t i = 0; i < kinds_.size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (kinds_[i] != Kind::kPrepared) rewriter.copy(node);
      for (const ValueId id : node.outputs)
        if (const auto at = values_.find(id); at != values_.end())
          rewriter.replace(id, rewriter.graph().constant(at->second));
    }
    return without_dead_nodes(rewriter.finish());
  }

  Graph values_graph() const {
    Graph made(model_, graph_.name() + ".prepared");
    std::map<ValueId, Value> copies;
    const auto map = [&](ValueId id) {
      const ValueInfo& info = graph_.value(id);
      if (info.kind == ValueKind::kState) return made.state(info.index);
      return info.kind == ValueKind::kConstant ? made.constant(info.index) : copies.at(id);
    };
    for (size_t i = 0; i < kinds_.size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (kinds_[i] == Kind::kOther) continue;
      std::vector<Value> inputs;
      for (const ValueId id : node.inputs) inputs.push_back(map(id));
      const std::vector<Value> outputs = made.copy_node(graph_, node, inputs);
      for (size_t k = 0; k < outputs.size(); ++k) copies[node.outputs[k]] = outputs[k];
    }
    int number = 0;
    for (const auto& [value, tensor] : values_) made.add_output(std::to_string(number++), copies.at(value));
    return without_dead_nodes(made);
  }

  const Graph& graph_;
  Model& model_;
  std::set<int32_t> updated_;
  mutable std::set<int32_t> from_states_;  // nodes
  std::vector<Kind> kinds_;                // by node
  std::map<ValueId, int32_t> values_;
};

}  // namespace

std::optional<PreparedValues> split_prepared_values(const Graph& graph, Model& model) {
  return Splitter(graph, model).split();
}

}  // namespace genesis::passes
